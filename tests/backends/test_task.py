"""What a tool sees as "its" task, through the engine: the hooks that libraries use on it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tool_engine import ToolEngine

BOUND = 10.0

Task = asyncio.Task[Any]


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with make_engine() as made:
        yield made


def current() -> Task:
    task = asyncio.current_task()
    assert task is not None
    return task


async def run(engine: ToolEngine, tool: Callable[[], Awaitable[Any]]) -> Any:
    """The tool's output, or its error."""
    if engine.get("tool") is not None:
        engine.unregister_tool("tool")
    engine.register_tool(bare("tool"), tool)
    async with asyncio.timeout(BOUND):
        result = await engine.execute("tool")
    return result.output.get("result", result.error)


async def test_is_the_current_task_of_the_tool_alone(engine: ToolEngine) -> None:
    """K27: before, during and after its waits a tool finds one task, which is not its caller's."""
    caller = current()

    async def tool() -> bool:
        first = current()
        await asyncio.sleep(0)
        return first is current() and first is not caller

    assert await run(engine, tool) is True
    assert current() is caller


async def test_names_and_places(engine: ToolEngine) -> None:
    """K27: a task's name, loop, coroutine, context and stack can be asked for."""

    async def tool() -> str:
        task = current()
        assert task.get_name()
        task.set_name(7)
        assert task.get_name() == "7"
        assert task.get_loop() is asyncio.get_running_loop()
        assert asyncio.iscoroutine(task.get_coro()) or task.get_coro() is not None
        assert isinstance(getattr(task, "get_context")(), contextvars.Context)  # noqa: B009 - 3.12
        assert isinstance(task.get_stack(limit=1), list)
        assert isinstance(task.get_stack(), list)
        assert "running" in repr(task)
        return "done"

    assert await run(engine, tool) == "done"


async def test_asking_for_the_end_too_early(engine: ToolEngine) -> None:
    """K27: like any task, one that runs has neither result nor exception yet."""

    async def tool() -> str:
        task = current()
        assert not task.done()
        assert not task.cancelled()
        with pytest.raises(asyncio.InvalidStateError):
            task.result()
        with pytest.raises(asyncio.InvalidStateError):
            task.exception()
        return "done"

    assert await run(engine, tool) == "done"


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("ending", ["value", "error", "cancel"])
async def test_after_the_end(engine: ToolEngine, ending: str, is_waiting: bool) -> None:
    """K27: once the tool has ended its task is done, with what the tool returned or raised."""
    kept: list[Task] = []
    told: list[Any] = []

    async def tool() -> str:
        kept.append(current())
        current().add_done_callback(told.append)
        if is_waiting:
            await asyncio.sleep(0)
        if ending == "error":
            raise ValueError("mine")
        if ending == "cancel":
            raise asyncio.CancelledError
        return "value"

    await run(engine, tool)
    (task,) = kept
    assert task.done()
    assert task.cancelled() == (ending == "cancel")
    assert not task.cancel()
    assert "done" in repr(task)
    if ending == "value":
        assert task.result() == "value"
        assert task.exception() is None
    else:
        kind = ValueError if ending == "error" else asyncio.CancelledError
        with pytest.raises(kind):
            task.result()
        assert isinstance(task.exception(), kind)
    task.add_done_callback(told.append)
    await asyncio.sleep(0)
    assert told == [task, task]


async def test_done_callbacks_can_be_taken_back(engine: ToolEngine) -> None:
    """K27: a callback that was removed is not called."""
    told: list[Any] = []

    async def tool() -> int:
        task = current()
        assert task.remove_done_callback(told.append) == 0
        task.add_done_callback(told.append)
        task.add_done_callback(told.append)
        task.add_done_callback(print)
        assert task.remove_done_callback(told.append) == 2
        return task.remove_done_callback(print)

    assert await run(engine, tool) == 1
    await asyncio.sleep(0)
    assert told == []


async def test_cancel_and_uncancel(engine: ToolEngine) -> None:
    """K27: `cancel`, `cancelling` and `uncancel` count as those of a task."""

    async def tool() -> str:
        task = current()
        assert task.uncancel() == 0
        assert task.cancel("why")
        assert task.cancel()
        assert task.cancelling() == 2
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(1)
        assert task.uncancel() == 1
        assert task.uncancel() == 0
        await asyncio.sleep(0)
        return "alive"

    assert await run(engine, tool) == "alive"


async def test_another_task_cancels_the_tool(engine: ToolEngine) -> None:
    """K27: somebody who holds the tool's task may cancel it; only the tool ends."""

    async def tool() -> str:
        task = current()
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.Event().wait()
        return "unreachable"

    assert "CancelledError" in await run(engine, tool)
    assert current().cancelling() == 0


async def test_waiting_for_something_foreign(engine: ToolEngine) -> None:
    """K27: an exception of what is awaited reaches the tool."""

    async def tool() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            await future
        return "seen"

    assert await run(engine, tool) == "seen"


async def test_several_tools_take_turns(engine: ToolEngine) -> None:
    """K27: tools of different callers run in turns, each with its own task."""
    seen: list[Any] = []

    async def tool() -> bool:
        mine = current()
        for _ in range(5):
            seen.append(mine)
            await asyncio.sleep(0)
            assert current() is mine
        return True

    engine.register_tool(bare("tool"), tool)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.execute("tool")) for _ in range(3)]
    assert all(call.result().is_success for call in calls)
    assert seen[:3] == [seen[0], seen[1], seen[2]]
    assert len(set(map(id, seen))) == 3


async def test_nothing_is_kept_alive(engine: ToolEngine) -> None:
    """A call that has ended leaves no reference to what its tool held."""

    class Big:
        pass

    held: list[weakref.ref[Big]] = []

    async def tool() -> int:
        big = Big()
        held.append(weakref.ref(big))
        await asyncio.sleep(0)
        return 1

    assert await run(engine, tool) == 1
    gc.collect()
    assert held[0]() is None


async def test_callers_loop_in_debug_mode(engine: ToolEngine) -> None:
    """K27: asyncio's debug mode changes nothing."""
    asyncio.get_running_loop().set_debug(True)

    async def tool() -> str:
        await asyncio.sleep(0.001)
        return "fine"

    assert await run(engine, tool) == "fine"
    asyncio.get_running_loop().set_debug(False)
