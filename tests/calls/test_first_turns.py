"""What ends a call whose tool has had one turn of the loop, or none, when that comes?

A deadline has no timer while a tool waits for its first turn: none could end it before that comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import Stubborn, bare
from tests.calls.virtual_loop import VirtualLoop
from tool_engine import (
    ToolEngine,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
)
from tool_engine.calls import plain_calls
from tool_engine.logger import current_call

BOUND = 1000.0
LIMIT = 5.0
"""The tool's own timeout."""
PIECES = 50
"""What a tool that nothing ends does."""


def block(seconds: float) -> None:
    """Lets time pass in which the loop does nothing else."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now += seconds


def clock() -> float:
    return asyncio.get_running_loop().time()


class Pieces:
    """A tool that blocks for so long each time it has a turn, and asks for another one.

    Args:
        seconds: Of its pieces, of which the last one returns.
        wait: What it waits for between them.
    """

    def __init__(self, *seconds: float, wait: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.seconds = seconds
        self.wait = wait
        self.done = 0
        self.is_cancelled = False

    async def __call__(self) -> int:
        try:
            for number, each in enumerate(self.seconds):
                if number:
                    await (asyncio.sleep(0) if self.wait is None else self.wait())
                block(each)
                self.done += 1
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return self.done


@pytest.fixture(autouse=True, params=["short", "steps"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take the short way where they may, or go step by step."""
    if request.param == "steps":
        monkeypatch.setattr(plain_calls, "take_plain", lambda *_: None)


async def add(engine: ToolEngine, tool: Any, name: str = "tool", **keys: Any) -> None:
    """Registers a tool, and calls it once in vain: later calls may take the short way."""
    is_known = False

    async def run() -> Any:
        return await tool() if is_known else None

    engine.register_tool(bare(name, **keys), run)
    assert (await engine.execute(name)).is_success
    assert name in engine._pipeline._plans
    is_known = True


async def call(
    engine: ToolEngine, name: str = "tool", context: ToolExecutionContext | None = None
) -> ToolExecutionResult:
    async with asyncio.timeout(BOUND):
        result = await engine.execute(name, {}, context)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    return result


def by_name(engine: ToolEngine) -> Awaitable[Any]:
    return engine.execute("tool")


def with_an_id(engine: ToolEngine) -> Awaitable[Any]:
    return engine.execute("tool", call_id=engine.calls.reserve_id())


def from_a_session(engine: ToolEngine) -> Awaitable[Any]:
    return ToolSession(engine, "ann").execute("tool")


def abort(engine: ToolEngine, task: asyncio.Task[Any]) -> None:
    """What closing does once its time is up."""
    del task
    engine._pipeline.abort()


def stop(engine: ToolEngine, task: asyncio.Task[Any]) -> None:
    del task
    (present,) = engine._pipeline.present
    assert engine._pipeline.present.stop(present[0].call_id, "enough")


def cancel(engine: ToolEngine, task: asyncio.Task[Any]) -> None:
    del engine
    task.cancel()


@pytest.mark.parametrize("make", [by_name, with_an_id, from_a_session])
@pytest.mark.parametrize(
    ("end", "kind"), [(abort, "engine_closed"), (stop, "cancelled"), (cancel, None)]
)
async def test_a_run_in_its_first_turn_can_be_ended(
    engine: ToolEngine, audit: Audit, end: Any, kind: str | None, make: Any
) -> None:
    """X12: closing, another's wish and its caller reach a run that asked for one turn only."""
    tool = Pieces(0, 0)
    await add(engine, tool, timeout=LIMIT)
    task = asyncio.create_task(make(engine))
    while not tool.done:
        await turns(1)
    assert [state for _, state, _ in engine._pipeline.present] == ["running"]
    end(engine, task)
    await asyncio.wait([task])
    assert (tool.done, tool.is_cancelled) == (1, True)
    assert task.cancelled() == (kind is None)
    assert task.cancelling() == (kind is None)
    assert (await audit.last()).error_type == kind or "cancelled"
    assert clock() == 1000


async def test_closing_ends_a_run_that_goes_on_asking_for_turns() -> None:
    """C24: without a timer of its own it is found when the engine closes."""
    engine = make_engine(close_timeout=1e-9)
    audit = Audit(engine)
    tool = Pieces(*[0.001] * 1_000)
    await add(engine, tool, timeout=LIMIT)
    running = asyncio.create_task(call(engine))
    await turns(1)
    await engine.close()
    assert (await running).error_type == "engine_closed"
    assert tool.is_cancelled
    await audit.check([running.result()])


async def test_a_tool_that_only_asks_for_turns_ends_at_its_deadline(
    engine: ToolEngine, audit: Audit
) -> None:
    """C10: a tool that never truly waits is cancelled at its deadline."""
    tool = Pieces(*[1.0] * PIECES)
    await add(engine, tool, timeout=LIMIT)
    result = await call(engine)
    assert (result.error_type, result.execution_time) == ("timeout", LIMIT + 1)
    assert (tool.done, tool.is_cancelled) == (LIMIT + 1, True)


@pytest.mark.parametrize("first", [0.0, 1.0])
async def test_time_that_passes_between_its_turns_counts(
    engine: ToolEngine, audit: Audit, first: float
) -> None:
    """C10: what else the loop does in a tool's turns takes from its time."""
    tool = Pieces(first, *[0.0] * PIECES)

    async def another() -> None:
        for _ in range(PIECES):
            block(1)
            await asyncio.sleep(0)

    await add(engine, tool, timeout=LIMIT)
    busy = asyncio.create_task(another())
    result = await call(engine)
    assert result.error_type == "timeout"
    assert result.execution_time <= LIMIT + 2
    assert tool.is_cancelled
    await busy


@pytest.mark.parametrize(
    ("seconds", "done", "kind"),
    [
        # It had asked for one turn before the time was up, which comes before any timer.
        ((9, 0), 2, None),
        ((9, 0, 0), 2, "timeout"),
        ((9, 1, 1), 2, "timeout"),
        ((0, 9), 2, None),
        ((0, 9, 0), 2, "timeout"),
        ((0, 0, 9, 0), 4, None),
        ((0, 0, 9, 0, 0), 4, "timeout"),
    ],
)
async def test_a_long_piece(
    engine: ToolEngine, audit: Audit, seconds: tuple[float, ...], done: int, kind: str | None
) -> None:
    """C10: a tool that has blocked for longer than its deadline ends when it asks for a turn."""
    tool = Pieces(*seconds)
    await add(engine, tool, timeout=LIMIT)
    result = await call(engine)
    assert (result.error_type, tool.done, tool.is_cancelled) == (kind, done, kind is not None)


@pytest.mark.parametrize("turns_before", range(4))
async def test_the_first_true_wait_after_a_long_piece(
    engine: ToolEngine, audit: Audit, turns_before: int
) -> None:
    """C10: the first true wait of a tool whose time is up ends at once, whenever that comes."""

    async def tool() -> None:
        for _ in range(turns_before):
            await asyncio.sleep(0)
        block(9)
        await asyncio.sleep(100)

    await add(engine, tool, timeout=LIMIT)
    result = await call(engine)
    assert (result.error_type, result.execution_time) == ("timeout", 9)


@pytest.mark.parametrize("then", [0.0, 100.0])
async def test_a_deadline_that_is_shorter_than_one_turn(
    engine: ToolEngine, audit: Audit, then: float
) -> None:
    """C10: a tool that comes back from its first turn too late has no time to wait again."""
    tool = Pieces(0, 0, 0, wait=lambda: asyncio.sleep(then if tool.done > 1 else 0))

    async def another() -> None:
        block(9)

    await add(engine, tool, timeout=LIMIT)
    calling = asyncio.create_task(call(engine))
    busy = asyncio.create_task(another())
    result = await calling
    assert (result.error_type, result.execution_time, tool.done) == ("timeout", 9, 2)
    await busy


@pytest.mark.parametrize("seconds", [(4, 0, 0), (0, 4, 0), (0, 0, 4, 0, 0)])
@pytest.mark.parametrize(("inner", "outer"), [(3, 30), (30, 3)])
async def test_nested_calls(
    engine: ToolEngine, audit: Audit, seconds: tuple[float, ...], inner: float, outer: float
) -> None:
    """C28: of a call in a call, the deadline that comes first ends what it is for."""
    tool = Pieces(*seconds)

    async def above() -> str | None:
        return (await engine.execute("tool")).error_type

    await add(engine, tool, timeout=inner)
    await add(engine, above, "above", timeout=outer)
    result = await call(engine, "above")
    assert tool.is_cancelled
    if inner < outer:
        assert (result.error_type, result.output) == (None, {"result": "timeout"})
    else:
        assert result.error_type == "timeout"


@pytest.mark.parametrize("seconds", [(9, 0), (9, 0, 0), (0, 9, 0, 0)])
async def test_another_attempt(
    engine: ToolEngine, audit: Audit, seconds: tuple[float, ...]
) -> None:
    """U16: the last attempt has the deadline of the first one, in its first turns also."""
    tool, attempts = Pieces(*seconds), 0

    async def fail_once() -> int:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0)
        if attempts == 1:
            raise OSError("not now")
        return await tool()

    retry = {"attempts": 3, "backoff": 1, "on": ["execution_error"]}
    await add(engine, fail_once, timeout=LIMIT, effect="read", retry=retry)
    result = await call(engine)
    assert (attempts, result.error_type, tool.is_cancelled) == (2, "timeout", True)
    assert result.metadata["attempts"] == 2


@pytest.mark.parametrize("seconds", [(9, 0, 0), (0, 9, 0)])
async def test_calls_that_share_a_run(
    engine: ToolEngine, audit: Audit, seconds: tuple[float, ...]
) -> None:
    """C20: the deadline of a shared run ends all of its calls, in its first turns also."""
    tool = Pieces(*seconds)
    limits = {"collision": "single_flight"}
    await add(engine, tool, timeout=LIMIT, effect="read", concurrency=limits)
    calls = [asyncio.create_task(call(engine)) for _ in range(3)]
    assert [(await each).error_type for each in calls] == ["timeout"] * 3
    assert (tool.done, tool.is_cancelled) == (2, True)


@pytest.mark.parametrize("seconds", [(5, 0, 0), (0, 5, 0), (0, 0, 5, 0, 0), (1, 1, 1, 1, 1, 1, 1)])
@pytest.mark.parametrize("own", [LIMIT, LIMIT - 0.5, LIMIT + 0.5])
async def test_the_callers_own_timeout(
    engine: ToolEngine, audit: Audit, seconds: tuple[float, ...], own: float
) -> None:
    """X12: a timeout around a call that comes by the call's deadline is the caller's to see."""
    tool = Pieces(*seconds)
    await add(engine, tool, timeout=LIMIT)
    task = asyncio.current_task()
    assert task is not None
    seen: Any = None
    try:
        async with asyncio.timeout(own):
            seen = (await engine.execute("tool")).error_type
    except TimeoutError:
        seen = TimeoutError
    assert seen is TimeoutError if own <= LIMIT else seen == "timeout"
    assert task.cancelling() == 0
    assert tool.is_cancelled
    await turns()
    assert task.cancelling() == 0


async def test_clean_up_that_is_late_has_its_turns(engine: ToolEngine, audit: Audit) -> None:
    """X12: a tool that is cancelled in its first turn tidies up, also past its deadline."""
    tidied: list[int] = []

    async def tool() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            for number in range(5):
                block(9)
                await asyncio.sleep(0)
                tidied.append(number)

    await add(engine, tool, timeout=LIMIT)
    task = asyncio.create_task(engine.execute("tool"))
    await turns(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await turns()
    assert tidied == [0, 1, 2, 3, 4]


async def test_work_that_goes_on_knows_that_it_is_to_end(engine: ToolEngine, audit: Audit) -> None:
    """C10: a call keeps its run while work of it goes on after its deadline."""
    kept: list[Any] = []
    stubborn = Stubborn(seconds=60)

    async def tool() -> None:
        kept.append(current_call.get())
        await stubborn()

    await add(engine, tool, timeout=LIMIT)
    assert (await call(engine)).error_type == "timeout"
    assert kept[0].is_ending
    await stubborn.ended.wait()
    await turns()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_call_that_waited_for_its_slot(is_cancelled: bool) -> None:
    """C5: the deadline of one that had to wait is counted from its slot, in its turns also."""
    engine = make_engine(1)
    audit = Audit(engine)
    first, second = Pieces(0, 0, 2), Pieces(0, 9, 0)
    await add(engine, first, "first", timeout=LIMIT)
    await add(engine, second, timeout=LIMIT)
    calls = [asyncio.create_task(call(engine, name)) for name in ("first", "tool")]
    if is_cancelled:
        while not second.done:
            await turns(1)
        calls[1].cancel()
        await asyncio.wait(calls)
        assert calls[1].cancelled()
        assert (second.done, second.is_cancelled) == (1, True)
    else:
        assert (await calls[1]).error_type == "timeout"
        assert calls[1].result().execution_time == 9
        assert (second.done, second.is_cancelled) == (2, True)
    assert (await calls[0]).is_success
    await audit.check()
    await engine.close()


async def test_a_call_that_is_closed_in_its_first_turn(engine: ToolEngine, audit: Audit) -> None:
    """C8: a call that nothing drives any more gives its slot back, and ends its tool."""
    tool = Pieces(0, 0)
    await add(engine, tool, timeout=LIMIT)
    calling = engine.execute("tool")
    assert calling.send(None) is None
    assert engine.controller.get_metrics().current_concurrent == 1
    calling.close()
    assert (tool.done, (await audit.last()).error_type) == (1, "cancelled")


async def test_a_listener_that_ends_the_program_leaves_no_one_in_line() -> None:
    """C8: a call that is broken off as it says that it waits has no place in line."""
    engine = make_engine(1)
    audit = Audit(engine)
    tool = Pieces(0, 0)
    await add(engine, tool, timeout=LIMIT)

    def end_program(event: ToolEngineEvent) -> None:
        raise KeyboardInterrupt

    running = asyncio.create_task(call(engine))
    await turns(1)
    queued = ToolEngineEventType.EXECUTION_QUEUED
    unsubscribe = engine.subscribe(end_program, event_types=[queued])
    with pytest.raises(KeyboardInterrupt):
        await engine.execute("tool")
    assert engine.controller.get_metrics().queue_length == 0
    unsubscribe()
    assert (await running).is_success
    await audit.check()
    await engine.close()


@pytest.mark.parametrize("turns_before", range(3))
@pytest.mark.parametrize("is_seen", [True, False])
async def test_a_caller_that_was_cancelled_before(
    engine: ToolEngine, audit: Audit, turns_before: int, is_seen: bool
) -> None:
    """X12: a cancellation that its caller had before the call is not taken for one of the call."""

    async def tool() -> str:
        for _ in range(turns_before):
            await asyncio.sleep(0)
        lost = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lost.cancel)
        try:
            await lost
        except asyncio.CancelledError:
            return "lost"
        return ""

    async def caller() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if is_seen:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return (await engine.execute("tool")).output

    await add(engine, tool, timeout=LIMIT)
    calling = asyncio.create_task(caller())
    await asyncio.wait([calling])
    assert calling.cancelled() != is_seen
    if is_seen:
        assert calling.result() == {"result": "lost"}
