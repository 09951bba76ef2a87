"""What is decided about a tool before its first call, and when is it decided anew?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tool_engine import ToolEngine
from tool_engine.calls.planner import _Numbers


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with make_engine() as made:
        yield made


async def test_executor_that_says_it_is_async(engine: ToolEngine) -> None:
    """K52: `is_async` on an executor keeps its plain `execute`, which returns a coroutine, off
    threads."""
    import threading

    class Partial:
        is_async = True

        def execute(self, tool: Any, params: Any, context: Any) -> Any:
            thread = threading.current_thread()

            async def finish() -> bool:
                return thread is threading.main_thread()

            return finish()

    engine.register_tool(bare("one"))
    engine.register_executor("one", Partial())
    assert (await engine.execute("one")).output == {"result": True}


async def test_plan_is_kept_until_something_changes(engine: ToolEngine) -> None:
    """K25: a new executor, and a new tool, are seen by the very next call."""

    async def one() -> int:
        return 1

    async def two() -> int:
        return 2

    engine.register_tool(bare("one"), one)
    assert (await engine.execute("one")).output == {"result": 1}
    engine.unregister_tool("one")
    assert (await engine.execute("one")).error_type == "tool_not_found"
    engine.register_tool(bare("one"), two)
    assert (await engine.execute("one")).output == {"result": 2}


@pytest.mark.parametrize(("handler", "hint"), [("calculater", True), ("zzzzzz", False)])
async def test_unknown_executor(engine: ToolEngine, handler: str, hint: bool) -> None:
    """K25: the message names the tool, the handler, the likely name and the cure."""
    engine.register_tool(bare("one", entry={"type": "custom", "handler": handler}))
    result = await engine.execute("one")
    assert result.error_type == "executor_not_found"
    assert f"tool 'one' needs the executor {handler!r}" in str(result.error)
    assert "correct entry.handler" in str(result.error)
    assert ("did you mean 'calculator'?" in str(result.error)) == hint


async def test_executor_that_cannot_be_loaded(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K25, K29: an executor of another package that cannot be loaded is a result."""
    from importlib.metadata import EntryPoint

    from tool_engine.executors import executor_registry as registry

    broken = EntryPoint("broken", "no_such_module:Executor", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr("tool_engine.installed.list_entry_points", lambda group: [broken])
    async with make_engine() as other:
        other.register_tool(bare("one", entry={"type": "custom", "handler": "broken"}))
        result = await other.execute("one")
    assert result.error_type == "execution_error"
    assert "broken" in str(result.error)


@pytest.mark.parametrize(("limits", "is_same"), [({"limit": 5}, True), ({"max_items": 5}, False)])
async def test_a_limit_of_sessions_costs_no_call(
    engine: ToolEngine, limits: dict[str, Any], is_same: bool
) -> None:
    """S7: what only a model of a session reads is no matter of the engine: nothing is wrapped."""

    class Own:
        async def execute(self, tool: Any, params: Any, context: Any) -> dict[str, Any]:
            return {"items": list(range(9))}

    executor = Own()
    engine.register_tool({"name": "one", "description": "d", "result": limits})
    engine.register_executor("one", executor)
    output = (await engine.execute("one")).output
    assert (output["items"] == list(range(9))) is is_same
    planned = engine._pipeline._planner.plan(engine.get_or_raise("one"))
    assert (planned.executor is executor) is is_same


def test_numbers_are_given_once() -> None:
    """S35: what comes in the place of something that is gone is not taken for it."""

    class Slotted:
        __slots__ = ()

    numbers = _Numbers()
    kept: object = type("Plain", (), {})()
    slotted = Slotted()
    first = [numbers.of(kept), numbers.of(slotted)]
    gone = {numbers.of(type("Plain", (), {})()) for _ in range(100)}
    gone |= {numbers.of(Slotted()) for _ in range(100)}
    assert len(gone) == 200
    assert [numbers.of(kept), numbers.of(slotted)] == first
