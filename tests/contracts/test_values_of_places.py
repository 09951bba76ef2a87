"""What a handler returns, raises or is sent means the same in every place where it can run."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.contracts.odd_values import ERRORS, ONLY_HERE, OWN_WORDS, VALUES
from tests.contracts.test_places import PLACES
from tests.ray_cluster import RayCluster
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.output import to_text

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOUND = 100.0
MOST = 16 * 2**20
"""Bytes of a message to another process."""
FINAL = ("execution_completed", "execution_failed", "execution_cancelled", "validation_error")
APART = [pytest.param("process"), pytest.param("ray", marks=pytest.mark.ray)]
HANDLERS = ("give", "throw", "measure")


@pytest_asyncio.fixture(loop_scope="module", params=APART)
async def apart(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[ToolEngine, str]]:
    """An engine whose handlers run in its own process and in another place."""
    place = str(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if place == "ray":
            head: RayCluster = request.getfixturevalue("ray_cluster")
            patch.setenv("RAY_ADDRESS", head.address)
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        folder = str(tmp_path / "none")
        config = ToolEngineConfig(folder, auto_reload=False, close_timeout=0.1, fleet="auto")
        async with ToolEngine(config) as engine:
            for where in ("here", place):
                for handler in HANDLERS:
                    for name in (handler, f"{handler}_late"):
                        engine.register_tool(define_tool(f"{name}_{where}", name, where))
            yield engine, place


def define_tool(name: str, handler: str, place: str) -> dict[str, Any]:
    text = {"name": "name", "type": "string", "required": True, "description": "x"}
    # A message of 100 MB is made twice there.
    config = {**PLACES[place], "memory": "2GiB"} if place == "process" else PLACES[place]
    entry = {
        "type": "custom",
        "handler": f"tests.contracts.odd_values:{handler}",
        "config": config,
    }
    return {"name": name, "description": "A sample", "parameters": [text], "entry": entry}


async def call(engine: ToolEngine, tool: str, name: str) -> ToolExecutionResult:
    context = ToolExecutionContext(timeout=BOUND)
    return await engine.execute(tool, {"name": name}, context)


def read_half(text: str) -> str:
    r"""Half of a pair crosses as the text that a database has for it, of six letters."""
    return text.replace("\\\\ud8", "\\ud8").replace("\ud800", "\\ud800")


def describe(result: ToolExecutionResult) -> tuple[str, ...]:
    """What a model and an embedder see of a result."""
    if result.is_success:
        return (read_half(to_text(result.output)), read_half(to_text(result.to_dict()["output"])))
    words, _, more = read_half(result.error or "").partition("… (")
    details = result.metadata.get("error_details") or {}
    # What is no JSON, or very much of it, is shown here only.
    known = {key: each for key, each in details.items() if key == "raised_at"}
    return (
        str(result.error_type),
        words,
        str(bool(more)),
        str(known),
        str(result.validation_errors),
    )


async def test_what_a_handler_returns(apart: tuple[ToolEngine, str]) -> None:
    """DESIGN 10: a model reads the same of each value, or an error says what to return."""
    engine, place = apart
    for name in VALUES:
        for handler in ("give", "give_late"):
            here = await call(engine, f"{handler}_here", name)
            there = await call(engine, f"{handler}_{place}", name)
            if name in ONLY_HERE:
                assert here.is_success, name
                assert there.error_type == "execution_error", name
                assert "; return" in str(there.error) or ": return" in str(there.error), there
                continue
            assert describe(there) == describe(here), (name, handler)
            assert " at 0x" not in to_text(there.output), (name, "an address says nothing")


async def test_what_a_handler_raises(apart: tuple[ToolEngine, str]) -> None:
    """Promises 2 and 3: one end each, the same in each place; bounded, and no slot is held."""
    engine, place = apart
    ended: Counter[str] = Counter()

    def hear(event: ToolEngineEvent) -> None:
        ended.update([event.call_id or ""] if event.event_type in FINAL else [])

    engine.subscribe(hear)
    for name in ERRORS | OWN_WORDS:
        for handler in ("throw", "throw_late"):
            results = [await call(engine, f"{handler}_{where}", name) for where in ("here", place)]
            for result in results:
                assert not result.is_success, name
                assert len(result.error or "") < 2_100, name
                assert "Traceback" not in (result.error or ""), name
                assert "another call" not in (result.error or ""), name
            if name in ERRORS:
                assert describe(results[1]) == describe(results[0]), (name, handler)
            metrics = engine.controller.get_metrics()
            assert (metrics.current_concurrent, metrics.zombies) == (0, 0), name
    assert {*ended.values()} == {1}
    assert len(ended) == 4 * len(ERRORS | OWN_WORDS)


async def test_how_much_a_handler_is_sent(apart: tuple[ToolEngine, str]) -> None:
    """Up to 16 MiB go, and the loop goes on meanwhile; for more the error has place and cure."""
    engine, place = apart
    for handler in ("measure", "measure_late"):
        for size in (2**20, MOST - 10_000):
            result = await call(engine, f"{handler}_{place}", "x" * size)
            assert result.output == {"result": size}, result.error
        result = await call(engine, f"{handler}_{place}", "é" * (MOST // 2))
        assert result.error_type == "execution_error"
        assert result.error is not None
        assert result.error.startswith("the arguments have 16777")
        assert result.error.endswith(
            f"bytes, 'name' alone {MOST + 2}, where {MOST} are the most; send less, or write it "
            "where the tool can read it, and send the place"
        )
