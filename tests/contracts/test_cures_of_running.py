"""What an error of limits, approvers, models, engines or events says to do is done, and it works.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import asyncio
import copy
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from yaml import safe_load

from tests.agent.models.asking import client_of
from tests.agent.models.servers import Turn, play
from tests.approval.test_console import ASKS, Terminal
from tests.calls.audit import turns
from tests.contracts.doors.test_bare_controller import BareController
from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tests.integration.test_bridge import Home, LoopThread
from tool_engine import (
    AdmissionError,
    AgentLoop,
    BreakerPolicy,
    CallbackApprover,
    ConcurrencyConfig,
    ConfigurationError,
    ConsoleApprover,
    ControllerClosedError,
    EngineClosedError,
    EventsLostError,
    OverloadPolicy,
    QueueTimeoutError,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolSession,
    process_tool_calls,
)
from tool_engine.errors import ChatModelError
from tool_engine.interfaces import ExecutionBackend
from tool_engine.knowledge.sql.event_reader import EventReader
from tool_engine.testing import run

BOUND = 30.0
PLAIN = ToolEngineConfig(auto_reload=False)
BLOCKED = "admission/bridge.py: find out what blocks that loop"
NO_LOOP = "admission/bridge.py: take slots of a controller whose loop runs"
SHARED = "admission/queue.py: use controller.bridge() to share it between event loops and threads"
LATER = "admission/refusal.py: the next one may be tried in … s"
UNSTREAMED = "agent/models/client.py: a server that cannot stream is asked with is_streamed=False"
TERMINAL = (
    "approval/console.py: run it in a terminal, write `permission: …` in the tool's definition, or "
    "let a program answer with ToolEngine(approver=...)"
)
TOO_LATE = "calls/call.py: … or ask for less"
CLOSED = "engine.py: make a new one"
CLOSED_MEANWHILE = "reloading.py: make a new one"
OF_A_FILE = "registering.py: remove … instead"
NUMBER = "go on after …, or leave the number out"
OF_MEMORY = f"events/memory.py: {NUMBER}"
OF_DATABASE = f"knowledge/sql/sql_events.py: {NUMBER}"
OF_READER = f"knowledge/sql/event_reader.py: {NUMBER}"
STREAM = "events/stream.py: read faster, give it a larger buffer, or keep events with keep_events"
CALLBACK = "events/subscriber.py: make it quicker or give it a larger buffer"
OVERLOADED = (
    "admission/refusal.py: try again later, make fewer calls at once, or raise the limits, or the "
    "target of its overload policy"
)
TRIED = {
    OVERLOADED,
    BLOCKED,
    NO_LOOP,
    SHARED,
    LATER,
    UNSTREAMED,
    TERMINAL,
    TOO_LATE,
    CLOSED,
    CLOSED_MEANWHILE,
}
OWN_LIMITS = (
    "calls/foreign_controller.py: leave `concurrency` out, and give its limits to the controller"
)
ONE_EACH = "admission/refusal.py: make one for each engine"
DERIVED = (
    "interfaces/checking.py: pass an object of a class that derives from "
    "tool_engine.interfaces.…, which has what may be left out"
)
OWN_METHOD = "interfaces/admission.py: write its method …"
TRIED |= {OWN_METHOD, OF_A_FILE, OF_MEMORY, OF_DATABASE, OF_READER, STREAM, CALLBACK}
RESERVED = "calls/present.py: reserve one for each call with engine.calls.reserve_id()"
OF_A_TOOL = "calls/present.py: leave it out"
TRIED |= {OWN_LIMITS, ONE_EACH, DERIVED, RESERVED, OF_A_TOOL}
TASK_IN_LINE = (
    "calls/sharing.py: raise queue_timeout or the limit that is full, or make fewer calls at once"
)
UNREAD = "model/event.py: read it, then copy that"
NO_TOOL = "interfaces/source.py: return a Tool, or None"
TRIED |= {TASK_IN_LINE, UNREAD, NO_TOOL}


def check(row: str, error: object) -> None:
    """The message ends as the row says."""
    assert names_cure(row, str(error)), error


def answer() -> int:
    return 42


# Limits.


async def test_limits_beside_a_controller() -> None:
    """They are the controller's."""
    limits = ConcurrencyConfig(max_concurrent=3)
    with pytest.raises(ConfigurationError) as raised:
        ToolEngine(PLAIN, concurrency=limits, controller=ToolConcurrencyController())
    check(OWN_LIMITS, raised.value)
    engine = ToolEngine(PLAIN, controller=ToolConcurrencyController(limits))
    assert engine.controller.config.max_concurrent == 3
    await engine.close()


async def test_a_controller_for_two_engines() -> None:
    """Each has its own."""
    controller = ToolConcurrencyController()
    first = ToolEngine(PLAIN, controller=controller)
    with pytest.raises(ConfigurationError) as raised:
        ToolEngine(PLAIN, controller=controller)
    check(ONE_EACH, raised.value)
    second = ToolEngine(PLAIN, controller=ToolConcurrencyController())
    await first.close()
    assert (await second.execute("missing")).error_type == "tool_not_found"
    await second.close()


def test_a_controller_without_a_method() -> None:
    """With one of its own it does what is asked for."""
    asked: list[str] = []

    class Pausing(BareController):
        def pause(self) -> None:
            asked.append("pause")

    with pytest.raises(ConfigurationError) as raised:
        BareController().pause()
    check(OWN_METHOD, raised.value)
    Pausing().pause()
    assert asked == ["pause"]


async def test_a_part_that_lacks_something() -> None:
    """What derives from the interface has the rest."""

    class Here:
        async def execute(self, executor: Any, tool: Any, params: Any, context: Any) -> str:
            return "here"

    class Derived(Here, ExecutionBackend):
        pass

    lacking: Any = Here()
    with pytest.raises(ConfigurationError) as raised:
        ToolEngine(PLAIN, backend=lacking)
    check(DERIVED, raised.value)
    engine = ToolEngine(PLAIN, backend=Derived())

    @engine.tool()
    def elsewhere() -> str:
        """Says where it runs."""
        return "elsewhere"

    assert (await engine.execute("elsewhere")).output == {"result": "here"}
    await engine.close()


@pytest.fixture
def home() -> Iterator[Home]:
    made = Home(patience=0.1, max_concurrent=1)
    yield made
    made.close()


def test_loop_that_is_blocked(home: Home) -> None:
    """Once what blocks it is gone, it gives a slot."""
    blocking = threading.Event()
    home.loop.call_soon_threadsafe(blocking.wait)
    try:
        with pytest.raises(QueueTimeoutError) as raised, home.bridge.slot(timeout=0.1):
            pass
    finally:
        blocking.set()
    check(BLOCKED, raised.value)
    with home.bridge.slot(timeout=BOUND):
        pass


@pytest.mark.parametrize("end", [Home.stop, Home.close])
def test_loop_that_does_not_run(home: Home, end: Callable[[Home], None]) -> None:
    """A controller whose loop runs gives the slot."""
    end(home)
    with pytest.raises(ControllerClosedError) as raised, home.bridge.slot():
        pass
    check(NO_LOOP, raised.value)
    other = Home()
    try:
        with other.bridge.slot(timeout=BOUND):
            pass
    finally:
        other.close()


def test_controller_of_two_loops(home: Home) -> None:
    """Over its bridge another loop waits beside those of its own."""
    held = home.take()
    waiting = home.begin(home.controller.acquire())
    home.wait_for_queue(1)
    other = LoopThread()

    async def over_the_bridge() -> None:
        async with bridge.slot(timeout=BOUND):
            pass

    try:
        with pytest.raises(ToolEngineError) as raised:
            other.run(home.controller.acquire())
        check(SHARED, raised.value)
        bridge = home.do(home.controller.bridge)
        shared = other.begin(over_the_bridge())
        home.give(held)
        home.give(waiting.result(BOUND))
        shared.result(BOUND)
    finally:
        other.close()


async def test_breaker() -> None:
    """After the seconds that it names a call is tried."""
    now = 0.0
    policy = BreakerPolicy(failures=1, reset_after=10.0)
    limits = ConcurrencyConfig(breakers={"web": policy})
    controller = ToolConcurrencyController(limits, clock=lambda: now)
    slot = await controller.acquire("web")
    controller.release(slot, outcome=False)
    with pytest.raises(ToolEngineError) as raised:
        await controller.acquire("web")
    check(LATER, raised.value)
    now += float(str(raised.value).split()[-2])
    controller.release(await controller.acquire("web"))


# Models, approvers and calls.


async def test_server_that_cannot_stream() -> None:
    """Asked as the message says, it answers."""
    turns = [Turn(raw=b""), Turn(text="Seven.")]
    async with (
        asyncio.timeout(BOUND),
        ToolEngine() as engine,
        play("openai", turns) as server,
        client_of("openai", server.url) as model,
    ):
        with pytest.raises(ChatModelError) as raised:
            await AgentLoop(ToolSession(engine, "one"), model).run("?")
        check(UNSTREAMED, raised.value)
        loop = AgentLoop(ToolSession(engine, "two"), model, is_streamed=False)
        assert (await loop.run("?")).text == "Seven."


def asking(approver: Any, permission: Any = "ask_always") -> ToolEngine:
    """An engine that asks for consent."""
    engine = ToolEngine(approver=approver)
    engine.register_tool({**HEAD, "permission": permission}, answer)
    return engine


async def test_no_terminal() -> None:
    """In a terminal or with another approver a yes lets the call run, or its definition does."""
    silent = ConsoleApprover(stdin=io.StringIO("y\n"))
    for asks in ("ask_always", {"result": "always"}):
        async with asking(silent, asks) as engine:
            refused = (await ToolSession(engine, "s", approver=silent).execute("t")).error
            check(TERMINAL, refused)
            said = str(refused).partition("permission: ")[2].partition("`")[0]
        async with asking(silent, safe_load(said)) as engine:
            assert (await ToolSession(engine, "s", approver=silent).execute("t")).is_success
    terminal = Terminal()
    try:
        async with asyncio.timeout(BOUND), asking(terminal.approver) as engine:
            call = asyncio.create_task(engine.execute("t"))
            await terminal.shows(ASKS)
            terminal.type("y\n")
            assert (await call).is_success
    finally:
        terminal.close()
    async with asking(CallbackApprover(lambda _: True)) as engine:
        assert (await engine.execute("t")).is_success


async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


def waiting(timeout: float) -> ToolEngine:
    """An engine with a tool that waits."""
    engine = ToolEngine(PLAIN)
    seconds = {"name": "seconds", "type": "number", "description": "How long", "required": True}
    engine.register_tool({**HEAD, "parameters": [seconds], "timeout": timeout}, wait)
    return engine


LONG, SHORT = {"seconds": 4.0}, {"seconds": 1.0}


def test_call_that_takes_too_long() -> None:
    """With more time, and with less to do, it ends in time."""

    async def calls() -> None:
        async with waiting(2.0) as engine:
            failed = await engine.execute("t", LONG)
            check(TOO_LATE, failed.error)
            assert "; raise its timeout or" in str(failed.error)
            assert (await engine.execute("t", SHORT)).is_success
            context = ToolExecutionContext(timeout=20.0)
            assert (await engine.execute("t", LONG, context)).is_success
        async with waiting(20.0) as engine:
            assert (await engine.execute("t", LONG)).is_success

    run(calls())


def test_context_with_too_little_time() -> None:
    """With a later deadline, and with less to do, it ends in time; a longer timeout is no help."""

    async def calls() -> None:
        now = asyncio.get_running_loop().time
        async with waiting(20.0) as engine:
            soon = ToolExecutionContext(deadline=now() + 2.0, timeout=20.0)
            failed = await engine.execute("t", LONG, soon)
            check(TOO_LATE, failed.error)
            assert "; give the context a later deadline or" in str(failed.error)
            for params, seconds in ((SHORT, 2.0), (LONG, 20.0)):
                context = ToolExecutionContext(deadline=now() + seconds)
                assert (await engine.execute("t", params, context)).is_success

    run(calls())


# Engines.


async def test_closed_engine() -> None:
    """A new one takes the tool."""
    async with ToolEngine() as engine:
        pass
    with pytest.raises(EngineClosedError) as raised:
        engine.register_tool(HEAD, answer)
    check(CLOSED, raised.value)
    async with ToolEngine() as new:
        new.register_tool(HEAD, answer)
        assert (await new.execute("t")).is_success


@pytest.fixture
def folder(tmp_path: Path) -> ToolEngineConfig:
    """Settings over a folder with one tool."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "t.yaml").write_text("name: t\ndescription: A.\nentry: {type: builtin, handler: echo}")
    return ToolEngineConfig(str(tools), auto_reload=False)


async def test_engine_that_is_closed_while_it_looks(folder: ToolEngineConfig) -> None:
    """A new one loads what the closed one did not."""
    async with ToolEngine(folder) as engine:
        reload = asyncio.create_task(engine.reload())
        await turns(1)
    with pytest.raises(EngineClosedError) as raised:
        await reload
    check(CLOSED_MEANWHILE, raised.value)
    async with ToolEngine(folder) as new:
        assert "t" in new.index


async def test_tool_of_a_file(folder: ToolEngineConfig) -> None:
    """Without the file there is no such tool."""
    async with ToolEngine(folder) as engine:
        with pytest.raises(ConfigurationError) as raised:
            engine.unregister_tool("t")
        check(OF_A_FILE, raised.value)
        await asyncio.to_thread(Path(folder.tools_directory, "t.yaml").unlink)
        await engine.reload()
        assert "t" not in engine.index


# Events.


def touch(engine: ToolEngine, number: int = 0) -> None:
    """Makes an event, of the tool of this number."""
    engine.register_tool({**HEAD, "name": f"t{number}"}, answer)


def number_in(error: object) -> int:
    """After which number to go on, as the message says."""
    return int(str(error).split("go on after ")[1].partition(",")[0])


class Reader(EventReader):
    aclose = EventReader.close


@pytest.mark.parametrize("row", [OF_MEMORY, OF_DATABASE])
async def test_number_of_no_event(tmp_path: Path, row: str) -> None:
    """From the number that the message names on, and without one, events are heard."""
    records = None if row is OF_MEMORY else f"sqlite:///{tmp_path}/kept.db"
    config = ToolEngineConfig(auto_reload=False, records=records, keep_events=100)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        with pytest.raises(ConfigurationError) as raised:
            await anext(engine.events(after=1_000))
        check(row, raised.value)
        number = number_in(raised.value)
        later, now = engine.events("tool_added", after=number), engine.events("tool_added")
        touch(engine)
        assert (await anext(later)).tool_name == (await anext(now)).tool_name == "t0"


async def test_number_of_no_event_in_a_database(tmp_path: Path) -> None:
    """The same for who reads the database of another process."""
    url = f"sqlite:///{tmp_path}/kept.db"
    config = ToolEngineConfig(auto_reload=False, records=url, keep_events=100)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        touch(engine)
    async with asyncio.timeout(BOUND), aclosing(Reader(url)) as reader:
        with pytest.raises(ConfigurationError) as raised:
            await reader.tail(1_000)
        check(OF_READER, raised.value)
        tails = [await reader.tail(number_in(raised.value)), await reader.tail()]
        async with ToolEngine(config) as engine:
            touch(engine, 1)
        for tail in tails:
            assert "t1" in {each.tool_name for each in await tail.read()}


@pytest.mark.parametrize("cure", ["faster", "larger", "kept"])
async def test_stream_that_is_read_too_slowly(cure: str) -> None:
    """Read faster, with a larger buffer, or with events that are kept, it has all of them."""
    config = ToolEngineConfig(auto_reload=False, keep_events=100 if cure == "kept" else 0)
    async with asyncio.timeout(BOUND), ToolEngine(PLAIN) as engine:
        stream = engine.events("tool_added", buffer=2, policy="block_none")
        for number in range(4):
            touch(engine, number)
        with pytest.raises(EventsLostError) as raised:
            _ = [each async for each in stream]
        check(STREAM, raised.value)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        buffer = 4 if cure == "larger" else 2
        stream = engine.events("tool_added", buffer=buffer, policy="block_none")
        heard = []
        for number in range(4):
            touch(engine, number)
            if cure == "faster":
                heard.append((await anext(stream)).tool_name)
        while len(heard) < 4:
            heard.append((await anext(stream)).tool_name)
        assert heard == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("cure", ["quicker", "larger"])
async def test_callback_that_is_too_slow(cure: str) -> None:
    """A quicker one, and one with a larger buffer, hear all."""
    wanted = [f"t{number}" for number in range(6)]
    with capture_logs() as logs:
        assert await heard_by(asyncio.Event(), buffer=2) != wanted
    (line,) = (each for each in logs if each["event"] == "subscriber_failed")
    check(CALLBACK, line["error"])
    is_quick = asyncio.Event()
    if cure == "quicker":
        is_quick.set()
    assert await heard_by(is_quick, buffer=2 if cure == "quicker" else 6) == wanted


async def heard_by(is_quick: asyncio.Event, *, buffer: int) -> list[str | None]:
    """What a callback hears of six events, which is slow until all have happened."""
    heard: list[str | None] = []

    async def callback(event: ToolEngineEvent) -> None:
        await is_quick.wait()
        heard.append(event.tool_name)

    async with asyncio.timeout(BOUND), ToolEngine(PLAIN) as engine:
        engine.subscribe(callback, "tool_added", buffer=buffer, policy="block_none")
        for number in range(6):
            touch(engine, number)
            await turns(5)
        is_quick.set()
    return heard


# Calls.


async def test_an_id_of_a_call() -> None:
    """An id is reserved for each call; a tool has none for its own."""
    engine = ToolEngine()
    errors: list[ConfigurationError] = []
    used = engine.calls.reserve_id()

    async def inner() -> Any:
        with pytest.raises(ConfigurationError) as caught:
            await engine.execute("answer", call_id=engine.calls.reserve_id())
        errors.append(caught.value)
        return (await engine.execute("answer")).output

    async def give() -> int:
        return answer()

    engine.register_tool({**HEAD, "name": "answer", "effect": "read"}, give)
    engine.register_tool({**HEAD, "name": "inner", "effect": "read"}, inner)
    await engine.execute("answer", call_id=used)
    with pytest.raises(ConfigurationError) as caught:
        await engine.execute("answer", call_id=used)
    check(RESERVED, caught.value)
    assert (await engine.execute("answer", call_id=engine.calls.reserve_id())).is_success
    assert (await engine.execute("inner")).output == {"result": 42}
    check(OF_A_TOOL, errors[0])


def test_what_an_overloaded_bucket_asks_for() -> None:
    """Fewer calls, a higher limit and a longer target are refused nothing; later ones neither."""

    async def refusals(rate: float, slots: int, target: float) -> list[AdmissionError]:
        limits = {"http": slots}
        policy = {"http": OverloadPolicy(target=target, interval=2.0)}
        config = ConcurrencyConfig(
            max_concurrent=50, queue_size=10_000, bucket_limits=limits, overload=policy
        )
        clock = asyncio.get_running_loop().time
        controller = ToolConcurrencyController(config, clock=clock)
        errors: list[AdmissionError] = []

        async def call() -> None:
            try:
                async with controller.slot("http"):
                    await asyncio.sleep(0.1)
            except AdmissionError as error:
                errors.append(error)

        begun = clock()
        async with asyncio.TaskGroup() as group:
            while clock() < begun + 10.0:
                group.create_task(call())
                await asyncio.sleep(1 / rate)
        refused = list(errors)
        await call()  # later, when the line has gone
        assert errors == refused
        return refused

    for error in run(refusals(200.0, 10, 0.5)):
        check(OVERLOADED, error)
    assert run(refusals(200.0, 10, 0.5))
    assert not run(refusals(90.0, 10, 0.5))
    assert not run(refusals(200.0, 25, 0.5))
    assert not run(refusals(200.0, 10, 60.0))


def test_call_that_shares_the_run_of_a_task_in_line() -> None:
    """It waits longer, or has a slot beside the others, or is made when they have ended."""

    async def ends(queue_timeout: float, most: int, pause: float = 0.0) -> Any:
        limits = ConcurrencyConfig(max_concurrent=most, queue_timeout=queue_timeout)
        async with ToolEngine(PLAIN, concurrency=limits) as engine:

            @engine.tool(effect="read", concurrency={"collision": "single_flight"})
            async def report(seconds: float) -> int:
                """A report."""
                await asyncio.sleep(seconds)
                return 42

            other = asyncio.create_task(engine.execute("report", {"seconds": 8.0}))
            await turns()
            task = await engine.start("report", {"seconds": 1.0})
            await asyncio.sleep(pause)
            call = await engine.execute("report", {"seconds": 1.0})
            assert (await task.wait()).is_success
            assert (await other).is_success
            return call.error

    check(TASK_IN_LINE, run(ends(2.0, 1)))
    assert run(ends(20.0, 1)) is None
    assert run(ends(2.0, 2)) is None
    assert run(ends(2.0, 1, pause=7.0)) is None


async def test_output_that_is_copied_before_it_is_read() -> None:
    """It is read before."""
    async with ToolEngine(PLAIN) as engine:
        engine.register_tool({"name": "give", "description": "Gives."}, answer)
        events: list[ToolEngineEvent] = []
        engine.subscribe(events.append, "execution_completed")
        await engine.execute("give")
    result = events[0].execution_result
    assert result is not None
    with pytest.raises(TypeError) as raised:
        copy.deepcopy(msgspec.structs.asdict(result))
    check(UNREAD, raised.value)
    assert result.output == {"result": 42}
    assert copy.deepcopy(msgspec.structs.asdict(result))["output"] == {"result": 42}


@pytest.mark.parametrize("junk", [5, "echo", {"name": "echo"}, ToolEngine])
async def test_a_source_that_gives_no_tool(junk: Any, tmp_path: Path) -> None:
    """It was an AttributeError out of `process_tool_calls`, and the other results were lost."""

    class Odd:
        def __init__(self, engine: ToolEngine) -> None:
            self.execute, self._engine = engine.execute, engine

        def get(self, name: str) -> Any:
            return junk if name == "echo" else self._engine.get(name)

    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("echo", "answer")
    ]
    reply = {"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        engine.tool(description="Answers.")(answer)
        cycle = await process_tool_calls(Odd(engine), reply, "openai")
        odd, right = [message["content"] for message in cycle.messages[1:]]
        assert odd.startswith("Error (execution_error)")
        assert right == "42"
        check(NO_TOOL, odd)
        junk = None
        cycle = await process_tool_calls(Odd(engine), reply, "openai")
        assert "there is no tool 'echo'" in cycle.messages[1]["content"]
