"""What do calls hear that share the run of another one?"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import pytest

from tests.calls.audit import Audit, turns
from tests.calls.test_progress import add_tool
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult, ToolSession
from tool_engine.model.progress import ToolProgress

SHARED: dict[str, Any] = {"concurrency": {"collision": "single_flight"}}
Heard = defaultdict[str, list[float]]
Call = asyncio.Task[ToolExecutionResult]


def start(engine: ToolEngine, heard: Heard, name: str, **context: Any) -> Call:
    """Begins a call whose listener notes under this name."""

    def listen(progress: ToolProgress) -> None:
        heard[name].append(progress.done)

    context.setdefault("caller_id", name)
    return asyncio.create_task(
        engine.execute("work", {}, ToolExecutionContext(**context, on_progress=listen))
    )


def reports_of(audit: Audit) -> dict[str, list[float]]:
    """By the caller, the progress in the events of calls; each with its own id."""
    found: dict[str, list[float]] = {}
    ids: dict[str, set[str | None]] = defaultdict(set)
    for event in audit.events:
        if event.event_type.value == "execution_progress":
            found.setdefault(event.data["caller_id"], []).append(event.data["done"])
            ids[event.data["caller_id"]].add(event.call_id)
    assert all(len(each) == 1 for each in ids.values())
    assert len(set.union(*ids.values(), set())) == len(ids)
    return found


@pytest.fixture
def heard() -> Heard:
    return defaultdict(list)


async def count_slowly(context: ToolExecutionContext) -> None:
    for number in range(1, 5):
        await context.report_progress(number, 4)
        await asyncio.sleep(1)


async def test_each_hears_as_its_own(engine: ToolEngine, audit: Audit, heard: Heard) -> None:
    """With its own id, by its own listener, and in its caller's context; once each."""
    who: ContextVar[str] = ContextVar("who", default="none")
    places: set[tuple[str, str]] = set()
    engine.subscribe(
        lambda event: places.add((event.data["caller_id"], who.get())), "execution_progress"
    )
    add_tool(engine, count_slowly, **SHARED)
    calls = []
    for name in ("a", "b", "c"):
        who.set(name)
        calls.append(start(engine, heard, name))
    results = [await call for call in calls]
    assert [each.metadata.get("shared_with") for each in results[1:]] == [results[0].call_id] * 2
    assert heard == {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [1, 2, 3, 4]} == reports_of(audit)
    assert places == {("a", "a"), ("b", "b"), ("c", "c")}


async def test_one_that_comes_late(engine: ToolEngine, audit: Audit, heard: Heard) -> None:
    """It hears at once how far the run has come, even if that says nothing more."""

    async def work(context: ToolExecutionContext) -> None:
        await context.report_progress(1, 2)
        await asyncio.sleep(10)

    add_tool(engine, work, **SHARED)
    first = start(engine, heard, "first")
    await asyncio.sleep(5)
    second = start(engine, heard, "second")
    await turns()
    assert heard == {"first": [1], "second": [1]}
    assert (await first).is_success
    assert (await second).is_success
    assert heard == {"first": [1], "second": [1]} == reports_of(audit)


async def test_ten_a_second_for_each(engine: ToolEngine, audit: Audit) -> None:
    """Those that come and go at any time hear no more than others, and the last report."""
    times: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    now = asyncio.get_running_loop().time

    async def work(context: ToolExecutionContext) -> None:
        for number in range(1_001):
            await context.report_progress(number, 1_000)
            await asyncio.sleep(0.001)

    add_tool(engine, work, **SHARED)

    def begin(name: str) -> Call:
        def listen(progress: ToolProgress) -> None:
            times[name].append((now(), progress.done))

        return asyncio.create_task(engine.execute("work", on_progress=listen))

    calls = []
    for number in range(40):
        calls.append(begin(str(number)))
        await asyncio.sleep(0.0237)
    for call in calls:
        await call
    assert len(times) == 40
    for each in times.values():
        # The last one comes with the end of the call.
        gaps = [later[0] - sooner[0] for sooner, later in pairwise(each[:-1])]
        assert min(gaps, default=1.0) > 0.099
        assert each[-1][1] == 1_000


async def test_when_the_leader_is_cancelled(engine: ToolEngine, audit: Audit, heard: Heard) -> None:
    """The next run begins anew, as after another attempt; the cancelled one hears no more."""
    add_tool(engine, count_slowly, **SHARED)
    calls = [start(engine, heard, name) for name in ("first", "second", "third")]
    await asyncio.sleep(1.5)
    calls[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    assert [(await call).error for call in calls[1:]] == [None, None]
    assert heard["first"] == [1, 2]
    assert heard["second"] == heard["third"] == [1, 2, 1, 2, 3, 4]


async def test_attempts(engine: ToolEngine, audit: Audit, heard: Heard) -> None:
    """All hear that the tool begins anew."""
    tries: list[int] = []

    async def work(context: ToolExecutionContext) -> None:
        tries.append(1)
        await context.report_progress(5)
        await asyncio.sleep(1)
        await context.report_progress(len(tries))
        await asyncio.sleep(1)
        if len(tries) == 1:
            raise OSError("once")

    add_tool(engine, work, retry={"attempts": 2, "on": ["execution_error"]}, **SHARED)
    calls = [start(engine, heard, name) for name in ("a", "b")]
    assert [(await call).error for call in calls] == [None, None]
    assert heard == {"a": [5, 5], "b": [5, 5]} == reports_of(audit)


async def test_one_that_gives_up(engine: ToolEngine, audit: Audit, heard: Heard) -> None:
    """After its end it hears nothing."""
    add_tool(engine, count_slowly, **SHARED)
    first, second = start(engine, heard, "first"), start(engine, heard, "second", timeout=1.5)
    assert (await second).error_type == "timeout"
    assert (await first).is_success
    assert heard == {"first": [1, 2, 3, 4], "second": [1, 2]} == reports_of(audit)


async def test_a_listener_that_fails_disturbs_no_other(
    engine: ToolEngine, audit: Audit, heard: Heard
) -> None:
    """Each call has its own."""
    add_tool(engine, count_slowly, **SHARED)

    def fail(progress: ToolProgress) -> None:
        raise LookupError("broken")

    calls = [asyncio.create_task(engine.execute("work", on_progress=fail)) for _ in range(2)]
    calls.append(start(engine, heard, "last"))
    assert [(await call).error for call in calls] == [None] * 3
    assert heard["last"] == [1, 2, 3, 4]


async def test_lines_belong_to_the_run(engine: ToolEngine, audit: Audit, heard: Heard) -> None:
    """What the tool logs is said once, whoever shares the run."""

    async def work(context: ToolExecutionContext) -> None:
        await asyncio.sleep(1)
        await context.log("one")

    add_tool(engine, work, **SHARED)
    calls = [start(engine, heard, name) for name in ("a", "b")]
    first, _ = [await call for call in calls]
    lines = [each for each in audit.events if each.event_type.value == "execution_logged"]
    assert [each.call_id for each in lines] == [first.call_id]


async def test_conversations_stay_apart(engine: ToolEngine, heard: Heard) -> None:
    """What calls under the rules of one conversation have given is not shown to another."""

    async def inner(context: ToolExecutionContext) -> None:
        """Does nothing."""

    async def work(context: ToolExecutionContext) -> None:
        await context.report_progress(1)
        await asyncio.sleep(1)
        await context.call("inner")
        await context.report_progress(2, message="what the inner call gave")
        await asyncio.sleep(1)

    add_tool(engine, inner, "inner")
    add_tool(engine, work, **SHARED)

    def listen(name: str) -> Any:
        return lambda progress: heard[name].append(progress.done)

    own, foreign = ToolSession(engine, "a"), ToolSession(engine, "b")
    calls = [
        asyncio.create_task(session.execute("work", on_progress=listen(name)))
        for name, session in (("first", own), ("same", own), ("other", foreign))
    ]
    for call in calls:
        assert (await call).is_success
    assert heard["first"] == heard["same"] == [1, 2]
    assert heard["other"] == [1, 1, 2]
