"""Who hears how far a call has come, how often, and until when?"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable
from copy import copy, deepcopy
from itertools import pairwise
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tool_engine import (
    ConfigurationError,
    ToolEngine,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolSession,
    ToolSubAgent,
    UnboundContextError,
)
from tool_engine.events.memory import MemoryEventStorage
from tool_engine.model.progress import ToolProgress

Work = Callable[[ToolExecutionContext], Any]


def add_tool(engine: ToolEngine, work: Work, name: str = "work", **options: Any) -> None:
    """Registers a tool that does this."""

    @engine.tool(name=name, effect="read", **options)
    async def run(context: ToolExecutionContext) -> str:
        """Work."""
        await work(context)
        return "done"


def reported(audit: Audit) -> list[tuple[str, Any, Any]]:
    """Kind, progress and message of all events between the start and the end of calls."""
    return [
        (each.event_type.value, each.data.get("done"), each.data.get("message"))
        for each in audit.events
        if each.event_type.value in ("execution_progress", "execution_logged")
    ]


async def test_ten_events_a_second_and_the_last(engine: ToolEngine, audit: Audit) -> None:
    """A thousand reports in a second are heard eleven times, and the last one before the end."""

    async def work(context: ToolExecutionContext) -> None:
        for number in range(1_000):
            await context.report_progress(number, 999, f"item {number}")
            await asyncio.sleep(0.001)
        await context.report_progress(999, 999, "all")

    add_tool(engine, work)
    heard: list[ToolProgress] = []
    await engine.execute("work", on_progress=heard.append)
    kinds = [each.event_type.value for each in audit.events]
    assert kinds == ["execution_started", *["execution_progress"] * 12, "execution_completed"]
    assert [each.done for each in heard] == [done for _, done, _ in reported(audit)]
    assert (heard[0].done, heard[-1]) == (0, ToolProgress(999, 999, "all"))
    gaps = [later.done - earlier.done for earlier, later in pairwise(heard)]
    assert min(gaps[:-1]) >= 99


async def test_the_newest_report_is_heard_without_another(engine: ToolEngine, audit: Audit) -> None:
    """A tool that falls silent after two quick reports is not shown at the first one."""
    silent = asyncio.Event()

    async def work(context: ToolExecutionContext) -> None:
        await context.report_progress(1)
        await context.report_progress(2)
        await silent.wait()

    add_tool(engine, work)
    call = asyncio.create_task(engine.execute("work"))
    await asyncio.sleep(0.2)
    assert [done for _, done, _ in reported(audit)] == [1, 2]
    silent.set()
    assert (await call).is_success


async def test_what_goes_back_is_left_out(engine: ToolEngine, audit: Audit) -> None:
    """No bar runs backwards, unless the tool is tried again."""
    tries: list[int] = []

    async def work(context: ToolExecutionContext) -> None:
        tries.append(1)
        for done in (5, 3, 5, 8):
            await context.report_progress(done)
            await asyncio.sleep(1)
        if len(tries) == 1:
            raise OSError("once")

    add_tool(engine, work, retry={"attempts": 2, "on": ["execution_error"]})
    assert (await engine.execute("work")).is_success
    assert [done for _, done, _ in reported(audit)] == [5, 5, 8, 5, 5, 8]


async def test_lines_of_a_tool(engine: ToolEngine, audit: Audit) -> None:
    """Each line is an event of its own, in its order, before the call's end."""

    async def work(context: ToolExecutionContext) -> None:
        await context.log("begins")
        for number in range(3):
            context.log(f"page {number}", "warning")

    add_tool(engine, work)
    await engine.execute("work")
    assert [message for _, _, message in reported(audit)] == [
        "begins",
        "page 0",
        "page 1",
        "page 2",
    ]
    assert [e.data["level"] for e in audit.events[1:-1]] == ["info", *["warning"] * 3]


async def say_lines(engine: ToolEngine, count: int) -> None:
    async def work(context: ToolExecutionContext) -> None:
        for number in range(count):
            context.log(str(number))

    add_tool(engine, work)
    await engine.execute("work")


async def test_very_many_lines(engine: ToolEngine, audit: Audit) -> None:
    """Of a flood the newest are there, and how many are not."""
    await say_lines(engine, 10_000)
    lines = [each for each in audit.events if each.event_type.value == "execution_logged"]
    assert len(lines) + sum(each.data.get("dropped", 0) for each in lines) == 10_000
    assert (len(lines), lines[-1].data["message"]) == (251, "9999")


async def test_two_hundred_lines_at_once(engine: ToolEngine, audit: Audit) -> None:
    """A tool that says 2,000 lines a second is heard: 200 come between two looks at them."""
    await say_lines(engine, 200)
    assert [message for _, _, message in reported(audit)] == [str(each) for each in range(200)]


async def test_secrets_are_hidden(engine: ToolEngine, audit: Audit) -> None:
    """What a tool says meanwhile quotes no secret argument."""

    @engine.tool(
        effect="read",
        parameters=[
            {"name": "pin", "type": "string", "required": True, "secret": True, "description": "P"}
        ],
    )
    async def login(pin: str, context: ToolExecutionContext) -> str:
        """Log in."""
        await context.report_progress(1, message=f"with {pin}")
        await context.log(f"sent {pin}")
        return "in"

    heard: list[ToolProgress] = []
    await engine.execute("login", {"pin": "hunter2-hunter2"}, on_progress=heard.append)
    said = [message for _, _, message in reported(audit)] + [each.message for each in heard]
    assert len(said) == 3
    assert [each for each in said if "hunter2" in str(each) or "[hidden]" not in str(each)] == []


async def test_a_listener_that_raises(engine: ToolEngine, audit: Audit) -> None:
    """The call goes on, and later reports are heard."""
    heard: list[float] = []

    def listen(progress: ToolProgress) -> None:
        heard.append(progress.done)
        raise LookupError("broken")

    async def work(context: ToolExecutionContext) -> None:
        for done in range(3):
            await context.report_progress(done)
            await asyncio.sleep(1)

    add_tool(engine, work)
    assert (await engine.execute("work", on_progress=listen)).is_success
    assert heard == [0, 1, 2]


@pytest.mark.parametrize("is_heard", [False, True])
async def test_a_call_that_reports_nothing(engine: ToolEngine, *, is_heard: bool) -> None:
    """It runs nothing of all this, not even where it could be heard."""
    add_tool(engine, lambda context: asyncio.sleep(0.1))
    listener: dict[str, Any] = {"on_progress": print} if is_heard else {}
    await engine.execute("work", **listener)
    ran: set[str] = set()
    sys.setprofile(lambda frame, kind, _: ran.add(frame.f_code.co_filename))
    try:
        await engine.execute("work", **listener)
    finally:
        sys.setprofile(None)
    assert any(name.endswith("calls/pipeline.py") for name in ran)
    assert not any(name.endswith("calls/progress.py") for name in ran)
    assert is_heard or not any(name.endswith("model/progress.py") for name in ran)


async def test_a_listener_that_takes_its_time(engine: ToolEngine, audit: Audit) -> None:
    """Between two of its turns the loop has a tenth of a second for all else."""
    loop: Any = asyncio.get_running_loop()
    ended: list[float] = []

    def listen(progress: ToolProgress) -> None:
        loop.now += 0.5  # on the virtual loop time passes like this
        ended.append(loop.time())

    async def work(context: ToolExecutionContext) -> None:
        for number in range(100):
            await context.report_progress(number)
            await asyncio.sleep(0.01)

    add_tool(engine, work)
    began = loop.time()
    assert (await engine.execute("work", on_progress=listen)).is_success
    gaps = [later - 0.5 - sooner for sooner, later in pairwise([began - 0.1, *ended])]
    assert min(gaps[:-1]) >= 0.099


async def test_each_call_has_its_own_listener(engine: ToolEngine, audit: Audit) -> None:
    """Of a call that its tool makes, the listener of the outer one hears nothing."""

    async def inner(context: ToolExecutionContext) -> None:
        await context.report_progress(7)

    async def outer(context: ToolExecutionContext) -> None:
        await context.report_progress(1)
        await context.call("inner")
        await engine.execute("inner", {}, context)

    add_tool(engine, inner, "inner")
    add_tool(engine, outer, "outer")
    heard: list[float] = []
    await engine.execute("outer", on_progress=lambda each: heard.append(each.done))
    assert heard == [1]
    assert [done for _, done, _ in reported(audit)] == [1, 7, 7]


async def call_in_way(
    way: str,
    engine: ToolEngine,
    context: ToolExecutionContext,
    listen: Callable[[ToolProgress], None],
) -> None:
    """Calls the inner tool for the tool that has this context."""
    if way == "bound":
        await engine.execute("inner", {}, context, on_progress=listen)
    elif way == "own":
        await engine.execute("inner", {}, ToolExecutionContext("me", on_progress=listen))
    elif way == "session":
        await ToolSession(engine, "s").execute("inner", on_progress=listen)
    elif way == "sub-agent":
        await ToolSubAgent("a", engine).execute("inner", on_progress=listen)
    else:
        await engine.execute("inner", on_progress=listen)


@pytest.mark.parametrize("is_of_session", [False, True])
@pytest.mark.parametrize(
    "way", ["alone", "bound", "own", "session", "sub-agent", "task", "foreign", "left behind"]
)
async def test_a_call_inside_a_tool_has_its_listener(
    engine: ToolEngine, audit: Audit, way: str, *, is_of_session: bool
) -> None:
    """Whoever makes it, and whatever it is made with; the outer listener hears nothing of it."""
    heard: list[float] = []
    outside: list[float] = []
    callers: list[str | None] = []
    left: list[asyncio.Task[Any]] = []

    def listen(each: ToolProgress) -> None:
        heard.append(each.done)

    async def inner(context: ToolExecutionContext) -> None:
        callers.append(context.caller_id)
        assert context.on_progress is None
        await context.report_progress(7)

    other = make_engine()
    for each in (engine, other):
        add_tool(each, inner, "inner")

    async def call(context: ToolExecutionContext) -> None:
        if way == "left behind":
            await asyncio.sleep(1)
        await call_in_way(way, other if way == "foreign" else engine, context, listen)

    async def outer(context: ToolExecutionContext) -> None:
        if way in ("task", "left behind"):
            left.append(asyncio.create_task(call(context)))
        else:
            await call(context)
        if way == "task":
            await left[0]

    add_tool(engine, outer, "outer")
    maker: Any = ToolSession(engine, "c", agent_id="me") if is_of_session else engine
    context = None if is_of_session else ToolExecutionContext("me")
    await maker.execute("outer", {}, context, on_progress=lambda each: outside.append(each.done))
    await asyncio.gather(*left)
    await other.close()
    assert heard == [7]
    assert not outside
    # Who is heard names no caller: it is the tool's, as without a listener.
    assert callers == [{"session": "s", "sub-agent": "a"}.get(way, "me")]


async def test_after_the_end_nothing_is_heard(engine: ToolEngine, audit: Audit) -> None:
    """Work that a tool left behind reports into the void, and does not fail for it."""
    contexts: list[ToolExecutionContext] = []

    async def work(context: ToolExecutionContext) -> None:
        contexts.append(context)
        await context.report_progress(1)

    add_tool(engine, work)
    await engine.execute("work")
    contexts[0].report_progress(2)
    contexts[0].log("late")
    await asyncio.sleep(1)
    assert audit.events[-1].event_type.value == "execution_completed"


@pytest.mark.parametrize("ends", ["fails", "times out", "is cancelled"])
async def test_the_last_report_of_a_call_that_fails(
    engine: ToolEngine, audit: Audit, ends: str
) -> None:
    """How far it came is heard, whichever way it ends."""

    async def work(context: ToolExecutionContext) -> None:
        await context.report_progress(1)
        await context.report_progress(2)
        if ends == "fails":
            raise OSError("broken")
        await asyncio.sleep(0.05 if ends == "is cancelled" else 100)
        raise asyncio.CancelledError

    add_tool(engine, work, timeout=0.05 if ends == "times out" else 50)
    await engine.execute("work")
    assert [done for _, done, _ in reported(audit)] == [1, 2]
    assert audit.events[-1].execution_result is not None


@pytest.mark.parametrize("kind", ["session", "sub-agent", "context"])
async def test_every_way_to_call(engine: ToolEngine, audit: Audit, kind: str) -> None:
    """Sessions, sub-agents and contexts take a listener, too."""

    async def work(context: ToolExecutionContext) -> None:
        await context.report_progress(1, 2)

    add_tool(engine, work)
    heard: list[ToolProgress] = []
    if kind == "session":
        await ToolSession(engine, session_id="s").execute("work", on_progress=heard.append)
    elif kind == "sub-agent":
        await ToolSubAgent("a", engine).execute("work", on_progress=heard.append)
    else:
        await engine.execute("work", None, ToolExecutionContext(on_progress=heard.append))
    assert heard == [ToolProgress(1, 2)]
    assert heard[0].fraction == 0.5


async def test_it_is_not_kept() -> None:
    """Reports have no number and no place in the log; who listens hears them all the same."""
    storage = MemoryEventStorage()
    config = make_engine().config
    async with ToolEngine(config, event_storage=storage) as engine:

        async def work(context: ToolExecutionContext) -> None:
            await context.report_progress(1)

        add_tool(engine, work)
        live: list[ToolEngineEvent] = []
        engine.subscribe(live.append)
        start = storage.newest or 0
        async with engine.events(after=start) as stream:
            joined = asyncio.create_task(anext(stream))
            await turns()
            await engine.execute("work")
            streamed = [(await joined).event_type.value]
            streamed += [(await anext(stream)).event_type.value for _ in range(2)]
        kept = await storage.read(start, 100)
    kinds = ["execution_started", "execution_progress", "execution_completed"]
    assert streamed == kinds
    assert [each.event_type.value for each in live if each.call_id] == kinds
    assert [each.sequence for each in live if each.call_id][1] is None
    assert [each.event_type.value for each in kept] == [kinds[0], kinds[2]]


@pytest.mark.parametrize(
    "amounts",
    [(-1,), (float("nan"),), (float("inf"),), ("1",), (True,), (1, -1), (10**400,), (1, 10**5_000)],
    ids=range(8),
)
async def test_amounts_that_are_none(engine: ToolEngine, amounts: tuple[Any, ...]) -> None:
    """The mistake is the tool's, at the place where it makes it."""

    async def work(context: ToolExecutionContext) -> None:
        with pytest.raises(ConfigurationError, match="finite number from 0 on"):
            context.report_progress(*amounts)
        with pytest.raises(ConfigurationError, match="level must be one of"):
            context.log("a", "loud")

    add_tool(engine, work)
    assert (await engine.execute("work")).is_success


async def test_a_context_of_no_call(engine: ToolEngine) -> None:
    """There is nothing to report to."""
    with pytest.raises(UnboundContextError):
        ToolExecutionContext().report_progress(1)
    with pytest.raises(UnboundContextError):
        ToolExecutionContext().log("a")


async def test_a_listener_that_is_none(engine: ToolEngine) -> None:
    """A coroutine function would never be awaited."""

    async def listen(progress: ToolProgress) -> None:
        """Is never awaited."""

    for listener in (listen, "heard"):
        with pytest.raises(ConfigurationError, match="on_progress must be a plain function"):
            ToolExecutionContext(on_progress=listener)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="on_progress must be a plain function"):
            await engine.execute("work", on_progress=listener)  # type: ignore[arg-type]


def test_copies_of_a_context() -> None:
    """A listener stays with a copy, and goes with no pickle."""
    heard: list[ToolProgress] = []
    context = ToolExecutionContext(on_progress=heard.append)
    assert copy(context).on_progress == deepcopy(context).on_progress == heard.append
    assert pickle.loads(pickle.dumps(context)).on_progress is None  # noqa: S301 - our own
    assert "on_progress" not in context.to_dict()


async def test_the_final_event_has_the_last_lines(engine: ToolEngine, audit: Audit) -> None:
    """Those of all attempts, as they were heard; of many the newest, and how many came before."""

    async def work(context: ToolExecutionContext) -> None:
        for number in range(150):
            await context.log(f"line {number} token=abc{number}xyz", "warning")
            if number == 40:
                await asyncio.sleep(0.2)
        raise ConnectionError("away")

    add_tool(engine, work)
    await engine.execute("work")
    final = audit.events[-1]
    heard = [each.data for each in audit.events if each.event_type.value == "execution_logged"]
    lines = final.data["lines"]
    assert final.event_type.value == "execution_failed"
    assert len(lines) == 100
    assert [(each["level"], each["message"]) for each in lines] == [
        (each["level"], each["message"]) for each in heard[-100:]
    ]
    assert len(lines) + final.data["lines_before"] == 150
    assert "xyz" not in str(lines)
    await engine.execute("nix")
    assert "lines" not in audit.events[-1].data


async def test_long_lines_of_a_final_event(engine: ToolEngine, audit: Audit) -> None:
    async def work(context: ToolExecutionContext) -> None:
        for number in range(90):
            await context.log(f"{number} {'x y ' * 500}")
            await asyncio.sleep(0.01)

    add_tool(engine, work)
    await engine.execute("work")
    final = audit.events[-1]
    assert sum(len(each["message"]) for each in final.data["lines"]) <= 20_000
    assert len(final.data["lines"]) + final.data["lines_before"] == 90
