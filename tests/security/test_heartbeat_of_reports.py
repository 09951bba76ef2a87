"""Do all other calls go on while a tool reports a million times, or says a megabyte at a time?

A heartbeat runs beside it, in the same event loop, and what is kept of the reports is bounded.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.calls.audit import make_engine
from tests.effort import IS_WHOLE
from tests.security.heartbeat import assert_beats_on
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.model.progress import ToolProgress

pytestmark = pytest.mark.beats

MANY = 1_000_000 if IS_WHOLE else 200_000
HANDLERS = f"""
def work(context):
    for number in range({MANY}):
        context.report_progress(number, {MANY - 1})
    return "done"
def lines(context):
    for number in range({MANY // 10}):
        context.log("x" * 100)
    return "done"
def loud(context):
    for number in range(100):
        context.report_progress(number, 99, "password: " * 100_000)
        context.log("password: " * 100_000)
    return "done"
"""


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolEngine]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "handlers_of_reports.py").write_text(HANDLERS)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("work", "lines", "loud"):
        for kind, config in (("here", ""), ("apart", ", config: {isolation: process}")):
            place = f"handlers_of_reports:{name}"
            (tools / f"{name}_{kind}.yaml").write_text(
                f"name: {name}_{kind}\ndescription: D.\ntimeout: 60\nparameters: []\n"
                f"entry: {{type: custom, handler: '{place}'{config}}}\n"
            )
    settings = ToolEngineConfig(tools_directory=str(tools), auto_reload=False)
    async with ToolEngine(settings) as made:
        assert made.load_errors == []
        yield made


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["work", "lines", "loud"])
@pytest.mark.parametrize("kind", ["here", "apart"])
async def test_the_loop_is_not_held_up(engine: ToolEngine, name: str, kind: str) -> None:
    """From a thread, and from a process; at most ten a second, and the last one always."""
    heard: list[ToolProgress] = []
    lines: list[Any] = []
    engine.subscribe(lines.append, "execution_logged")

    async def attack() -> None:
        heard.clear()
        result = await engine.execute(f"{name}_{kind}", on_progress=heard.append)
        assert result.output == {"result": "done"}, result.error
        assert len(heard) <= 2 + 10 * result.execution_time
        if name != "lines":
            assert heard[-1].fraction == 1
        assert all(len(each.message or "") < 600 for each in heard)

    await assert_beats_on(attack)


async def test_what_is_kept_is_bounded() -> None:
    """Of a hundred megabytes that a tool says at once, a few are kept until they are heard."""
    most: list[int] = []
    engine = make_engine()

    @engine.tool(effect="read")
    async def flood(context: ToolExecutionContext) -> str:
        """Flood."""
        tracemalloc.start()
        try:
            for number in range(1_000):
                context.report_progress(number, 1_000, f"{number} " * 100_000)
                context.log(f"{number} " * 100_000)
            most.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        return "done"

    async with engine:
        assert (await engine.execute("flood")).is_success
    assert most[0] < 10_000_000
