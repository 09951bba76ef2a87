"""What can be seen and ended of the calls that are on their way?"""

from __future__ import annotations

import asyncio

import pytest

from tests.calls.samples import bare
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionResult,
)

BOUND = 10.0


async def start(
    engine: ToolEngine, name: str, context: ToolExecutionContext | None = None
) -> tuple[str, asyncio.Task[ToolExecutionResult]]:
    call_id = engine.calls.reserve_id()
    task = asyncio.create_task(engine.execute(name, {}, context, call_id=call_id))
    async with asyncio.timeout(BOUND):
        while await engine.calls.find(call_id) is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    return call_id, task


async def give_one() -> int:
    return 1


@pytest.fixture
def engine() -> ToolEngine:
    engine = ToolEngine(concurrency=ConcurrencyConfig(max_concurrent=1))
    engine.register_tool(bare("endless"), asyncio.Event().wait)
    return engine


async def test_what_is_listed(engine: ToolEngine) -> None:
    """Each call that waits is listed once, with who made it and what it waits for."""
    ann = ToolExecutionContext(
        caller_id="ann", caller_type="direct", conversation_id="talk", priority=2
    )
    first, running = await start(engine, "endless", ann)
    second, queued = await start(engine, "endless", ToolExecutionContext(caller_id="bob"))
    listed = {each.call_id: each for each in await engine.calls.list()}
    assert {key: each.state for key, each in listed.items()} == {
        first: "running",
        second: "queued",
    }
    mine = listed[first]
    assert (mine.tool_name, mine.caller_id, mine.caller_type) == ("endless", "ann", "direct")
    assert (mine.conversation_id, mine.priority, mine.parent_call_id) == ("talk", 2, None)
    assert mine.seconds >= 0
    assert [each.call_id for each in await engine.calls.list(caller_id="bob")] == [second]
    assert await engine.calls.find(first) is not None
    for each in (first, second):
        assert await engine.calls.cancel(each, "not needed")
        assert not await engine.calls.cancel(each)
    async with asyncio.timeout(BOUND):
        for result in (await running, await queued):
            assert result.error == "the call was cancelled from outside: not needed"
            assert result.error_type == "cancelled"
    assert await engine.calls.list() == []
    assert await engine.calls.find(first) is None
    assert [each.outcome.value for each in await engine.query_call_records()] == ["cancelled"] * 2


async def test_a_call_that_a_tool_makes(engine: ToolEngine) -> None:
    """An inner call names the call that it is part of; that one goes on when it is ended."""
    engine.controller.configure(ConcurrencyConfig(max_concurrent=3))

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("endless")).error_type

    engine.register_tool(bare("outer"), outer)
    call_id, task = await start(engine, "outer")
    async with asyncio.timeout(BOUND):
        while len(listed := await engine.calls.list()) < 2:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0)
        (inner,) = (each for each in listed if each.call_id != call_id)
        assert inner.parent_call_id == call_id
        assert await engine.calls.cancel(inner.call_id)
        assert (await task).output == {"result": "cancelled"}


async def test_from_another_thread(engine: ToolEngine) -> None:
    """What is asked from another event loop is answered on the loop of the calls."""
    call_id, task = await start(engine, "endless")
    answers: list[object] = []

    def look() -> None:
        async def ask() -> None:
            answers.append([each.call_id for each in await engine.calls.list()])
            answers.append(await engine.calls.cancel(call_id))

        asyncio.run(ask())

    await asyncio.to_thread(look)
    assert (await task).error_type == "cancelled"
    assert answers == [[call_id], True]


async def test_an_id_is_good_for_one_call(engine: ToolEngine) -> None:
    """An id that was not reserved, or was used, would mix two calls in records and events."""
    engine.register_tool(bare("quick"), give_one)
    call_id = engine.calls.reserve_id()
    assert (await engine.execute("quick", call_id=call_id)).call_id == call_id
    for wrong in (call_id, "call-1", 7):
        with pytest.raises(ConfigurationError, match="reserve one for each call"):
            await engine.execute("quick", call_id=wrong)  # type: ignore[arg-type]
    assert len(await engine.query_call_records()) == 1


async def test_a_tool_names_no_call_of_its_own(engine: ToolEngine) -> None:
    """A call that a tool makes has its id from the engine."""
    errors: list[str] = []

    async def outer() -> None:
        try:
            await engine.execute("quick", call_id=engine.calls.reserve_id())
        except ConfigurationError as error:
            errors.append(str(error))

    engine.register_tool(bare("outer"), outer)
    await engine.execute("outer")
    assert errors == ["a call that a tool makes takes no call_id; leave it out"]


@pytest.mark.parametrize("reason", ["", "  ", 7])
async def test_a_reason_is_a_text(engine: ToolEngine, reason: str) -> None:
    """An empty reason would read as none."""
    with pytest.raises(ConfigurationError, match="reason must be a text"):
        await engine.calls.cancel("call-1", reason)


async def test_an_id_that_never_was(engine: ToolEngine) -> None:
    """There is nothing to end."""
    assert await engine.calls.cancel("call-1") is False
