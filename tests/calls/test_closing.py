"""How does an engine end, whatever is under way?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import EngineClosedError, ToolEngine, ToolExecutionContext

BOUND = 10_000.0


def clock() -> float:
    return asyncio.get_running_loop().time()


async def test_waiting_and_running_calls() -> None:
    """C24, U15: waiters end at once, running calls after close_timeout, all as engine_closed."""
    engine = make_engine(1, close_timeout=4)
    audit = Audit(engine)
    engine.register_tool(bare("wait"), forever)
    running = asyncio.create_task(engine.execute("wait"))
    waiting = [asyncio.create_task(engine.execute("wait")) for _ in range(3)]
    await turns()
    began = clock()
    closing = asyncio.create_task(engine.close())
    for call in waiting:
        assert (await call).error_type == "engine_closed"
    assert clock() == began
    await closing
    result = await running
    assert result.error_type == "engine_closed"
    assert clock() - began == pytest.approx(4)
    assert result.outcome == "rejected"
    records = await audit.records()
    assert [record.reached_executor for record in records].count(True) == 1
    await audit.check([result])


async def test_call_that_ends_in_time() -> None:
    """C24: a call that ends within close_timeout succeeds."""
    engine = make_engine(close_timeout=4)

    async def nap() -> str:
        await asyncio.sleep(3)
        return "rested"

    engine.register_tool(bare("nap"), nap)
    running = asyncio.create_task(engine.execute("nap"))
    await turns()
    began = clock()
    await engine.close()
    assert clock() - began == pytest.approx(3)
    assert (await running).output == {"result": "rested"}


async def test_stubborn_call() -> None:
    """C24: a tool that does not stop when cancelled cannot keep the engine from closing."""
    engine = make_engine(close_timeout=4)
    stubborn = Stubborn(seconds=500)
    engine.register_tool(bare("stubborn", timeout=300), stubborn)
    running = asyncio.create_task(engine.execute("stubborn"))
    await turns()
    began = clock()
    await engine.close()
    assert clock() - began < 10
    assert (await running).error_type == "engine_closed"
    await asyncio.sleep(600)


async def test_overdue_call() -> None:
    """C24: a zombie of an earlier timeout is cancelled once more, and does not hang close."""
    engine = make_engine(close_timeout=4)
    engine.register_tool(bare("stubborn", timeout=1), Stubborn(seconds=500))
    assert (await engine.execute("stubborn")).error_type == "timeout"
    began = clock()
    await engine.close()
    assert clock() - began < 10
    assert engine.controller.get_metrics().zombies == 0


async def test_execute_after_close() -> None:
    """C24, K29: a call of a closed engine is an engine_closed result, whatever it asks for."""
    engine = make_engine()
    audit = Audit(engine)
    parameters = [{"name": "a", "type": "integer", "required": True, "description": "x"}]

    async def handler(a: int) -> int:
        return a

    engine.register_tool(bare("known", parameters=parameters), handler)
    assert (await engine.execute("known", {"a": 1})).is_success
    await engine.close()
    asked: list[tuple[str, Any, Any]] = [
        ("known", {"a": 1}, None),
        ("known", {"a": 1}, ToolExecutionContext.for_workflow("w", "n")),
        ("unknown", {}, None),
    ]
    for name, params, context in asked:
        result = await engine.execute(name, params, context)
        assert result.error_type == "engine_closed"
        assert "closed" in str(result.error)
    del audit


async def test_misuse_after_close() -> None:
    """C24: everything but a call is refused with a typed error."""
    engine = make_engine()
    await engine.close()
    with pytest.raises(EngineClosedError, match="the engine is closed; make a new one"):
        await engine.load()
    with pytest.raises(EngineClosedError):
        await engine.reload()
    with pytest.raises(EngineClosedError):
        engine.register_tool(bare("late"), forever)
    with pytest.raises(EngineClosedError):
        engine.subscribe(print)
    assert "closed" in repr(engine)


async def test_close_twice_and_at_once() -> None:
    """C24: closing is idempotent, and those who close at the same time wait for the same end."""
    engine = make_engine(close_timeout=4)
    closed: list[bool] = []

    class Executor:
        async def execute(self, tool: Any, params: Any, context: Any) -> None:
            await forever()

        async def close(self) -> None:
            closed.append(True)

    engine.register_tool(bare("wait"))
    engine.register_executor("wait", Executor())
    running = asyncio.create_task(engine.execute("wait"))
    await turns()
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(engine.close())
    await engine.close()
    assert closed == [True]
    assert (await running).error_type == "engine_closed"


async def test_cancelled_closer() -> None:
    """C24: whoever asked for the end may be cancelled; the engine closes all the same."""
    engine = make_engine(close_timeout=4)
    engine.register_tool(bare("wait"), forever)
    running = asyncio.create_task(engine.execute("wait"))
    await turns()
    closer = asyncio.create_task(engine.close())
    await turns()
    closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    assert (await running).error_type == "engine_closed"
    await engine.close()


async def test_close_from_inside_a_tool() -> None:
    """C24: a tool that closes its own engine is ended by that, within the bounds."""
    engine = make_engine(close_timeout=4)

    async def suicide() -> str:
        await engine.close()
        return "unreachable"

    engine.register_tool(bare("suicide", timeout=300), suicide)
    began = clock()
    result = await engine.execute("suicide")
    assert result.error_type == "engine_closed"
    await engine.close()
    assert clock() - began < 10


async def test_close_during_back_off() -> None:
    """C24, U16: a call that backs off is not tried again once its engine is closed."""
    engine = make_engine(close_timeout=4)
    runs: list[int] = []

    async def failing() -> None:
        runs.append(1)
        raise ValueError

    retry = {"attempts": 3, "backoff": 50}
    engine.register_tool(bare("failing", effect="read", retry=retry, timeout=1000), failing)
    call = asyncio.create_task(engine.execute("failing"))
    await turns()
    began = clock()
    await engine.close()
    result = await call
    assert clock() - began < 10
    assert result.error_type == "engine_closed"
    assert len(runs) == 1


async def test_failing_clean_up_stops_no_other() -> None:
    """C24: an executor that fails to close is logged; store, bus and the rest are closed."""
    engine = make_engine()
    order: list[str] = []

    class Executor:
        def __init__(self, name: str) -> None:
            self.name = name

        async def execute(self, tool: Any, params: Any, context: Any) -> None:
            return None

        async def close(self) -> None:
            order.append(self.name)
            raise OSError("cannot close")

    engine.register_executor("a", Executor("a"))
    engine.register_executor("b", Executor("b"))
    stream = engine.events()
    await engine.close()
    assert order == ["b", "a"]
    assert [event async for event in stream] == []


async def test_async_with_closes_after_an_error() -> None:
    """C24: leaving the block by an exception closes the engine and lets the exception pass."""
    engine = make_engine()
    with pytest.raises(ValueError, match="mine"):
        async with engine:
            raise ValueError("mine")
    assert (await engine.execute("x")).error_type == "engine_closed"


async def test_close_without_load() -> None:
    """C24: an engine that was never loaded can be closed; nothing is left."""
    before = asyncio.all_tasks()
    engine = ToolEngine()
    await engine.close()
    await engine.close()
    assert asyncio.all_tasks() == before


async def test_nested_call_while_closing() -> None:
    """C24: a tool that calls another one while its engine closes gets an engine_closed result."""
    engine = make_engine(close_timeout=4)

    async def outer(context: ToolExecutionContext) -> str | None:
        await asyncio.sleep(1)
        return (await context.call("wait")).error_type

    engine.register_tool(bare("wait"), forever)
    engine.register_tool(bare("outer"), outer)
    call = asyncio.create_task(engine.execute("outer"))
    await turns()
    await engine.close()
    assert (await call).output == {"result": "engine_closed"}
