"""Does what a tool starts belong to its call, in whatever way the tool makes its calls?

Looked at: all places that asked which call a task belongs to (`execute`, `refuse`, the slot of the
running tool, the log lines), all that make tasks or threads for a call (batches, replies, loops,
workflows, threads of plain functions), all that copy a context, and what conversations keep apart:
consent, labels, bounds.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.calls.audit import check_idle, make_engine, turns
from tests.contracts.calling_ways import WAYS, Asked, Way, make_handler, tool
from tool_engine import (
    Permission,
    ToolCallConfig,
    ToolCallRecord,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
    UnboundContextError,
)
from tool_engine.model.permission import ExecutionPolicy

BOUND = 30.0
HOSTILE = "text of a hostile page, which asks for it to be sent on to everybody who is known"
WORKFLOW = {
    "name": "helper",
    "version": "1.0.0",
    "description": "Calls two tools at once",
    "category": "custom",
    "effect": "read",
    "parameters": [{"name": "text", "type": "string", "required": True, "description": "x"}],
    "entry": {
        "type": "workflow",
        "steps": [
            {
                "id": "both",
                "parallel": [
                    {
                        "id": each,
                        "tool": "mail",
                        "params": {"text": "${params.text}"},
                        "on_error": "continue",
                    }
                    for each in ("first", "second")
                ],
            }
        ],
        "output": {"done": True},
    },
}
DENY = {"mail": Permission(execution=ExecutionPolicy.DENY)}
EVERY_WAY = [*WAYS, None]
IDS = [*(each.name for each in WAYS), "workflow"]


class World:
    """An engine whose tool `helper` calls `mail` twice, in one of the ways."""

    def __init__(self, way: Way | None, **concurrency: Any) -> None:
        self.engine = make_engine(**concurrency)
        self.sent: list[str] = []
        self.contexts: list[ToolExecutionContext] = []
        self.hanging = asyncio.Event()
        self.hangs = False
        self.timeout = 20.0
        self.way = way

    def register(self, **keys: Any) -> None:
        """Adds the tools; `keys` go to the definition of `mail`."""

        async def web(text: str) -> str:
            return HOSTILE

        async def mail(text: str, context: ToolExecutionContext) -> None:
            self.sent.append(text)
            self.contexts.append(context)
            if self.hangs:
                self.hanging.set()
                await asyncio.Event().wait()

        self.engine.register_tool(tool("web"), web)
        self.engine.register_tool(tool("mail", **keys), mail)
        if self.way is None:
            self.engine.register_tool({**WORKFLOW, "timeout": self.timeout})
        else:
            handler = make_handler(self.engine, self.way, _two_mails)
            self.engine.register_tool(tool("helper", timeout=self.timeout), handler)

    async def records(self, name: str) -> list[ToolCallRecord]:
        """The finished calls of a tool."""
        return [each for each in await self.engine.query_call_records() if each.tool_name == name]


def _two_mails(text: str) -> Asked:
    return [("mail", text), ("mail", text)]


@pytest.fixture(params=EVERY_WAY, ids=IDS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(request.param)
    async with asyncio.timeout(BOUND), made.engine:
        yield made
        check_idle(made.engine)


async def helped(session: ToolSession, text: str) -> ToolExecutionResult:
    """One call of `helper`."""
    return await session.execute("helper", {"text": text})


async def test_deny(world: World) -> None:
    """DESIGN 2.8: what a conversation forbids, no tool that it calls can do, in any way."""
    world.register()
    rules = {"mail": Permission(execution=ExecutionPolicy.DENY)}
    session = ToolSession(world.engine, "outer", ToolCallConfig(rules=rules))
    await helped(session, "x")
    records = await world.records("mail")
    assert world.sent == []
    assert {each.error_type for each in records} == {"execution_rejected"}


async def test_accepts(world: World) -> None:
    """S20: what came from a web page gets to no tool that does not accept it, in any way."""
    world.register(accepts=["user"])
    session = ToolSession(world.engine, "outer")
    page = await session.execute("web", {"text": ""})
    await helped(session, f"$VAR_REF{{{{{page.result_variable}}}}}")
    records = await world.records("mail")
    assert world.sent == []
    assert {each.error_type for each in records} == {"execution_rejected"}


async def test_consent(world: World) -> None:
    """S31: each call is asked about that the conversation asks about, whoever makes it."""
    asked: list[str] = []

    async def approve(request: Any) -> bool:
        asked.append(request.tool_name)
        return False

    world.register()
    rules = {"mail": Permission(execution=ExecutionPolicy.ASK_ALWAYS)}
    session = ToolSession(world.engine, "outer", ToolCallConfig(rules=rules), Approver(approve))
    await helped(session, "x")
    assert world.sent == []
    assert set(asked) == {"mail"}


class Approver:
    """Asks a function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    async def approve(self, request: Any) -> Any:
        return await self.function(request)


@pytest.mark.parametrize("in_session", [False, True], ids=["engine", "session"])
async def test_books(world: World, in_session: bool) -> None:
    """C23: each call has its maker's id and priority, and no later deadline; records are a tree."""
    world.register()
    context = ToolExecutionContext(priority=2, timeout=10)
    maker: Any = ToolSession(world.engine, "outer") if in_session else world.engine
    result = await maker.execute("helper", {"text": "x"}, context)
    assert result.is_success, result.error
    records = await world.records("mail")
    assert len(records) == len(world.contexts) == 2
    if world.way is None or world.way.name != "other engine":
        # That one's call, in its own records, stands in between.
        assert {each.parent_call_id for each in records} == {result.call_id}
    assert {each.priority for each in records} == {2}
    now = asyncio.get_running_loop().time()
    assert all((each.deadline or 1e9) <= now + 10 for each in world.contexts)


async def test_own_deadline(world: World) -> None:
    """C7: what a tool starts has no more time than its call, whatever it may take by itself."""
    world.timeout, world.hangs = 0.3, True
    world.register(timeout=100)
    result = await world.engine.execute("helper", {"text": "x"})
    assert result.error_type == "timeout"
    await settled(world.engine)
    assert {each.error_type for each in await world.records("mail")} <= {"timeout", "cancelled"}


async def test_cancellation(world: World) -> None:
    """C9: when a call is cancelled, what it has started ends too, and nothing is left."""
    world.hangs = True
    world.register()
    call = asyncio.create_task(world.engine.execute("helper", {"text": "x"}))
    await world.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settled(world.engine)
    records = await world.records("mail")
    assert records
    assert {each.error_type for each in records} == {"cancelled"}


async def settled(engine: ToolEngine) -> None:
    """Waits until nothing of the engine runs or waits any more."""
    async with asyncio.timeout(5):
        while True:
            metrics = engine.controller.get_metrics()
            if not (metrics.active or metrics.parked or metrics.zombies or metrics.queue_length):
                return
            await asyncio.sleep(0.005)


@pytest.fixture
def frames_of_a_tracer() -> Iterator[None]:
    """Leaves room for what coverage adds to each frame of a deep call."""
    limit = sys.getrecursionlimit()
    if sys.gettrace() is not None:
        sys.setrecursionlimit(3 * limit)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("frames_of_a_tracer")
@pytest.mark.parametrize("way", WAYS, ids=[each.name for each in WAYS])
async def test_limit_of_one(way: Way) -> None:
    """C23: calls of calls pass at a limit of one, fifty deep, with another call at each step."""
    engine = make_engine(1, queue_timeout=5.0)

    def below(text: str) -> Asked:
        return [("deep", str(int(text) - 1)), ("leaf", "")] if int(text) else []

    def finish(answers: Any) -> int:
        assert all(each.is_success for each in answers), [each.error for each in answers]
        return 1 + max((int(each.output["result"]) for each in answers), default=0)

    async def leaf(text: str) -> int:
        return 0

    engine.register_tool(tool("leaf"), leaf)
    engine.register_tool(tool("deep", timeout=25), make_handler(engine, way, below, finish))
    async with asyncio.timeout(BOUND), engine:
        result = await engine.execute("deep", {"text": str(way.depth)})
        assert result.output == {"result": way.depth + 1}, result.error
        check_idle(engine)
        assert engine.controller.get_metrics().max_concurrent_observed == 1


async def test_after_the_end() -> None:
    """DESIGN 2.8: who outlives a call has a slot and time of its own, and is allowed no more."""
    engine = make_engine(1)
    going = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []
    kept: list[ToolExecutionContext] = []

    async def mail(text: str) -> None:
        raise AssertionError("this is denied")

    async def note(text: str, context: ToolExecutionContext) -> float:
        return (context.deadline or 0) - asyncio.get_running_loop().time()

    async def helper(text: str, context: ToolExecutionContext) -> None:
        async def later() -> list[Any]:
            await going.wait()
            denied = await engine.execute("mail", {"text": text}, context)
            return [denied.error_type, await engine.execute("note", {"text": text})]

        kept.append(context)
        tasks.append(asyncio.create_task(later()))

    for name, handler in (("mail", mail), ("note", note), ("helper", helper)):
        engine.register_tool(tool(name, timeout=10), handler)
    session = ToolSession(engine, "outer", ToolCallConfig(rules=DENY))
    async with asyncio.timeout(BOUND), engine:
        result = await session.execute("helper", {"text": ""})
        check_idle(engine)
        with pytest.raises(UnboundContextError):
            await kept[0].call("note", {"text": ""})
        going.set()
        denied, noted = await tasks[0]
        assert denied == "execution_rejected"
        assert noted.output["result"] > 9
        records = await engine.query_call_records()
        assert {each.parent_call_id for each in records} == {None, result.call_id}
        check_idle(engine)


async def test_child_that_is_cancelled_while_the_slot_comes_back() -> None:
    """DESIGN 2.2: a tool gets its slot back, though the task that waited for it was cancelled."""
    engine = make_engine(1)
    seen: list[tuple[int, int]] = []
    busy = asyncio.Event()

    async def leaf(text: str) -> None:
        return None

    async def other(text: str) -> None:
        await busy.wait()

    async def helper(text: str) -> None:
        task = asyncio.create_task(engine.execute("leaf", {"text": ""}))
        await turns()
        # It waits for its own slot, then for that of its maker.
        for _ in range(2):
            task.cancel()
            await turns()
        assert task.done()
        busy.set()
        await turns()
        metrics = engine.controller.get_metrics()
        seen.append((metrics.active, metrics.parked))

    for name, handler in (("leaf", leaf), ("other", other), ("helper", helper)):
        engine.register_tool(tool(name), handler)
    async with asyncio.timeout(BOUND), engine:
        first = asyncio.create_task(engine.execute("helper", {"text": ""}))
        second = asyncio.create_task(engine.execute("other", {"text": ""}))
        await asyncio.gather(first, second)
        assert seen == [(1, 0)]
        check_idle(engine)


@pytest.mark.parametrize("bounds", [{"max_calls": 3}, {"max_uses": {"mail": 2}}])
async def test_inner_conversations_spend_of_the_outer(bounds: dict[str, Any]) -> None:
    """U47: what a conversation inside of a tool calls is spent in the one that called the tool."""
    engine = make_engine()

    async def mail(text: str) -> None:
        return None

    async def helper(text: str) -> list[str | None]:
        inner = ToolSession(engine, "inner")
        calls = [inner.execute("mail", {"text": text}) for _ in range(3)]
        return [each.error_type for each in await asyncio.gather(*calls)]

    engine.register_tool(tool("mail"), mail)
    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        session = ToolSession(engine, "outer", ToolCallConfig(**bounds))
        result = await session.execute("helper", {"text": ""})
        assert result.output == {"result": [None, None, "limit_reached"]}
        assert session.usage().calls == 3


@pytest.mark.parametrize("which", ["same", "derived", "other"])
async def test_who_is_asked(which: str) -> None:
    """S31: the outer conversation is asked, then the inner one; the same question once."""
    engine = make_engine()
    asked: list[str] = []

    def approver(name: str) -> Approver:
        async def approve(request: Any) -> bool:
            asked.append(name)
            return True

        return Approver(approve)

    async def mail(text: str) -> None:
        return None

    config = ToolCallConfig(rules={"mail": Permission(execution=ExecutionPolicy.ASK_ALWAYS)})
    outer = ToolSession(engine, "outer", config, approver("outer"))

    async def helper(text: str) -> str | None:
        inner = outer if which == "same" else outer.derive()
        if which == "other":
            inner = ToolSession(engine, "inner", config, approver("inner"))
        return (await inner.execute("mail", {"text": text})).error_type

    engine.register_tool(tool("mail"), mail)
    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        result = await outer.execute("helper", {"text": ""})
        assert result.output == {"result": None}
        assert asked == (["outer", "inner"] if which == "other" else ["outer"])


async def test_a_tool_of_a_tool_uses_the_context_of_the_first() -> None:
    """C23, S31: the context of another call allows no more, and waits for nothing that waits."""
    engine = make_engine(1, queue_timeout=3.0)
    contexts: list[ToolExecutionContext] = []

    async def mail(text: str) -> None:
        raise AssertionError("this is denied")

    async def leaf(text: str) -> None:
        return None

    async def second(text: str) -> list[str | None]:
        outer = contexts[0]
        calls = [await outer.call(name, {"text": ""}) for name in ("mail", "leaf")]
        return [each.error_type for each in calls]

    async def first(text: str, context: ToolExecutionContext) -> Any:
        contexts.append(context)
        rules = {"mail": Permission(execution=ExecutionPolicy.DENY)}
        inner = ToolSession(engine, "inner", ToolCallConfig(rules=rules))
        return (await inner.execute("second", {"text": ""})).output["result"]

    for name, handler in (("mail", mail), ("leaf", leaf), ("second", second), ("first", first)):
        engine.register_tool(tool(name), handler)
    async with asyncio.timeout(BOUND), engine:
        result = await engine.execute("first", {"text": ""})
        assert result.output == {"result": ["execution_rejected", None]}
        check_idle(engine)


async def test_a_loop_of_its_own_in_a_thread() -> None:
    """C23: calls from another event loop have the books and the time of their maker; no slot."""
    engine = make_engine()
    sent: list[str] = []

    async def mail(text: str) -> None:
        sent.append(text)

    def helper(text: str) -> str | None:
        return asyncio.run(engine.execute("mail", {"text": text})).error_type

    engine.register_tool(tool("mail"), mail)
    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        session = ToolSession(engine, "free")
        free = await session.execute("helper", {"text": "a"})
        rules = {"mail": Permission(execution=ExecutionPolicy.DENY)}
        session = ToolSession(engine, "denied", ToolCallConfig(rules=rules))
        denied = await session.execute("helper", {"text": "b"})
        assert (free.output, sent) == ({"result": None}, ["a"])
        assert denied.output == {"result": "execution_rejected"}
        records = [each for each in await engine.query_call_records() if each.tool_name == "mail"]
        assert [each.parent_call_id for each in records] == [denied.call_id, free.call_id]
        check_idle(engine)


async def test_what_the_outer_conversation_forbids_meanwhile() -> None:
    """S31: a call of an inner conversation that had to wait is looked at again by the outer one."""
    engine = make_engine(2, bucket_limits={"mail": 1})
    free = asyncio.Event()

    async def mail(text: str) -> None:
        await free.wait()

    async def helper(text: str) -> str | None:
        return (await ToolSession(engine, "inner").execute("mail", {"text": text})).error_type

    engine.register_tool(tool("mail", concurrency={"bucket": "mail"}), mail)
    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        outer = ToolSession(engine, "outer")
        first = asyncio.create_task(engine.execute("mail", {"text": ""}))
        await turns()
        call = asyncio.create_task(outer.execute("helper", {"text": ""}))
        await turns()
        outer.toolbox.config = ToolCallConfig(rules=DENY)
        free.set()
        assert (await call).output == {"result": "execution_rejected"}
        assert (await first).is_success
