"""Is each place asked for the tools that belong there, and for no others?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tests.calls.samples import bare
from tool_engine import Tool, ToolEngine, ToolEngineConfig, ToolExecutionContext, ToolExecutionError
from tool_engine.executors.places import PlacedHandler, Places
from tool_engine.interfaces import ExecutionBackend, ToolExecutor


class Lab(ExecutionBackend):
    """Says which tools it has run; `fault` is raised when it is closed."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.runs: list[str] = []
        self.closed = 0
        self.fault = fault

    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        self.runs.append(tool.name)
        return "from the lab"

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - as the interface has it
        self.closed += 1
        if self.fault is not None:
            raise self.fault
        return 0


class Here:
    """An executor that runs in this process, unless its `isolation` says otherwise."""

    def __init__(self, isolation: Any = None) -> None:
        self.isolation = isolation

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return "from here"


def engine_with(backend: ExecutionBackend | None = None) -> ToolEngine:
    config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False)
    return ToolEngine(config, backend=backend)


@pytest.mark.parametrize("isolation", [None, "none", "elsewhere", ["lab"], 7])
async def test_only_what_names_a_place_runs_there(isolation: Any) -> None:
    """DESIGN 10.1: the plan asks the place that the executor names; all else runs here."""
    lab, engine = Lab(), engine_with()
    engine._registry.places.add("lab", lambda: lab)
    engine.register_tool(bare("far"))
    engine.register_executor("far", Here("lab"))
    engine.register_tool(bare("near"))
    engine.register_executor("near", Here(isolation))
    assert (await engine.execute("far")).output == {"result": "from the lab"}
    assert (await engine.execute("near")).output == {"result": "from here"}
    assert lab.runs == ["far"]


async def test_the_backend_of_a_program_comes_first() -> None:
    """DESIGN 10.1: who gives the engine a backend decides which tools it takes."""
    given, lab = Lab(), Lab()
    engine = engine_with(given)
    engine._registry.places.add("lab", lambda: lab)
    engine.register_tool(bare("far"))
    engine.register_executor("far", Here("lab"))
    assert (await engine.execute("far")).is_success
    assert (given.runs, lab.runs) == (["far"], [])
    await engine.close()
    assert given.closed == 1


async def test_a_place_is_made_once_when_it_is_asked_for() -> None:
    """What no tool needs is never made; one that fails to close does not spare the next."""
    made: list[Lab] = []

    def make(fault: Exception | None = None) -> Lab:
        made.append(Lab(fault))
        return made[-1]

    places = Places({"lab": make, "bad": lambda: make(LookupError("stuck")), "unused": make})
    assert places.find("lab") is places.find("lab")
    assert places.find("bad") is made[1]
    assert len(made) == 2
    with pytest.raises(LookupError, match="stuck"):
        await places.close()
    assert [lab.closed for lab in made] == [1, 1]
    assert places.find("lab") is made[2]


async def test_a_handler_without_its_place() -> None:
    """A cure in words: nothing is run here in its stead."""
    lab = Lab()
    places = Places({"lab": lambda: lab})
    tool, context = engine_with().register_tool(bare("far")), ToolExecutionContext()
    assert await PlacedHandler("lab", places).execute(tool, {}, context) == "from the lab"
    with pytest.raises(ToolExecutionError, match="has isolation: moon, and nothing here runs"):
        await PlacedHandler("moon", places).execute(tool, {}, context)
