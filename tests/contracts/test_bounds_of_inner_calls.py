"""Do the bounds of a conversation hold for what its tools call, in whatever way they call it?

Looked at: all ways in which a tool calls tools, its own engine's and another one's, under other
names; all that says how often a tool may be used (its definition, the settings, those of one
reply); all ways in which a call ends without a run; all that happens again: retries, shared runs,
deferred calls, conversations that are kept and opened again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.calls.audit import check_idle, make_engine
from tests.contracts.calling_ways import Way, tool
from tests.contracts.test_belonging import BOUND, EVERY_WAY, IDS, World
from tests.contracts.test_belonging_across_engines import FAR_WAYS, PLACES
from tests.contracts.test_belonging_across_engines import World as FarWorld
from tool_engine import (
    DeferredApprover,
    Permission,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
)
from tool_engine.model.permission import ExecutionPolicy

ASK = Permission(execution=ExecutionPolicy.ASK_ALWAYS)
BOUNDS = ("max_uses", "definition", "reply's max_uses", "max_calls", "reply's max_calls")
BETWEEN = {"other engine": 1, "chain": 2, "far workflow": 2}
"""Calls that a way makes of its own, which count as well."""


def a_reply(name: str) -> dict[str, Any]:
    """A reply of a model that calls one tool."""
    function = {"name": name, "arguments": '{"text": "x"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


async def called(source: Any, bound: str, mail: str, calls: int) -> ToolSession:
    """A session that has called `helper`, under a bound that leaves room for one mail."""
    said: dict[str, Any] = {}
    if "max_uses" in bound:
        said = {"max_uses": {mail: 1}}
    elif "max_calls" in bound:
        said = {"max_calls": calls}
    if bound.startswith("reply"):
        session = ToolSession(source, "outer", {"protocol": "openai"})
        reply: Any = a_reply("helper")
        await session.process_cycle(reply, said)
    else:
        session = ToolSession(source, "outer", said)
        await session.execute("helper", {"text": "x"})
    return session


def check_one(session: ToolSession, sent: list[str], mail: str, calls: int) -> None:
    """Exactly one mail was sent, and each call that ran was counted once."""
    assert sent == ["x"]
    assert session.usage().by_tool[mail] == 1
    assert session.usage().calls == calls


@pytest.mark.thinned(2)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("way", EVERY_WAY, ids=IDS)
async def test_bounds(way: Way | None, bound: str) -> None:
    """U47: two calls of a tool by another one, one of which is left: one runs, in any way."""
    world = World(way)
    world.register(**({"max_uses": 1} if bound == "definition" else {}))
    calls = 2 + BETWEEN.get("" if way is None else way.name, 0)
    async with asyncio.timeout(BOUND), world.engine:
        session = await called(world.engine, bound, "mail", calls)
        check_one(session, world.sent, "mail", calls)
        refused = [each for each in await world.records("mail") if not each.is_success]
        if refused:
            assert [each.error_type for each in refused] == ["limit_reached"]
            assert "used up: answer with what is known" in str(refused[0].error)
        check_idle(world.engine)


FAR_CASES = [(way, "max_uses", place) for way in FAR_WAYS for place in PLACES]
FAR_CASES += [("chain", bound, place) for bound in BOUNDS[1:] for place in PLACES]


@pytest.mark.parametrize(("way", "bound", "place"), FAR_CASES)
async def test_bounds_of_another_engine(way: Way | str, bound: str, place: str) -> None:
    """U47: so it is with the tools of another engine, whatever the conversation calls them."""
    world = FarWorld(way, place)
    world.register(**({"max_uses": 1} if bound == "definition" else {}))
    async with asyncio.timeout(BOUND), world.near, world.far:
        session = await called(world.source, bound, world.shown, 4)
        assert world.sent == ["x"]
        assert session.usage().by_tool[world.shown] == 1
        check_idle(world.near)
        check_idle(world.far)


async def make(engine: ToolEngine, helper: Callable[..., Any], **keys: Any) -> list[str]:
    """Adds `mail`, and `helper`, which calls it as it likes; what was sent."""
    sent: list[str] = []

    async def mail(text: str) -> None:
        sent.append(text)
        if text == "fails":
            raise ValueError(text)

    engine.register_tool(tool("mail", **keys), mail)
    engine.register_tool(tool("helper"), helper)
    return sent


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    """An engine, without tools."""
    made = make_engine()
    async with asyncio.timeout(BOUND), made:
        yield made
        check_idle(made)


async def test_the_last_call_from_many_threads(engine: ToolEngine) -> None:
    """U47: of calls from the loops of several threads with one use left, exactly one runs."""
    ends: list[str | None] = []

    async def helper(text: str, context: ToolExecutionContext) -> None:
        start = threading.Barrier(4)

        async def send() -> ToolExecutionResult:
            start.wait()
            return await engine.execute("mail", {"text": text}, context)

        def work() -> None:
            ends.append(asyncio.run(send()).error_type)

        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))

    sent = await make(engine, helper)
    session = ToolSession(engine, "outer", {"max_uses": {"mail": 1}})
    await session.execute("helper", {"text": "x"})
    assert sent == ["x"]
    assert sorted(ends, key=str) == [None, *["limit_reached"] * 3]
    assert session.usage().by_tool == {"helper": 1, "mail": 1}


@pytest.mark.parametrize("again", ["", 5], ids=["no arguments", "wrong ones"])
async def test_what_could_not_run(engine: ToolEngine, again: object) -> None:
    """U47: a tool that puts its arguments right has used nothing up with the wrong ones."""

    async def helper(text: str, context: ToolExecutionContext) -> list[str | None]:
        wrong: Any = {"text": again} if again else {}
        calls = [("mail", wrong), ("mial", {"text": text}), ("mail", {"text": text})]
        return [(await context.call(*each)).error_type for each in calls]

    sent = await make(engine, helper)
    session = ToolSession(engine, "outer", {"max_uses": {"mail": 1}, "max_calls": 2})
    result = await session.execute("helper", {"text": "x"})
    assert result.output == {"result": ["validation_error", "tool_not_found", None]}
    assert sent == ["x"]
    assert session.usage().by_tool == {"helper": 1, "mail": 1}


async def test_a_retry_is_no_other_use(engine: ToolEngine) -> None:
    """U47: a call that is run again after a failure is one call."""

    async def helper(text: str, context: ToolExecutionContext) -> list[str | None]:
        return [(await context.call("mail", {"text": each})).error_type for each in ("fails", "x")]

    retry = {"attempts": 3, "backoff": 0.001, "on": ["execution_error"]}
    sent = await make(engine, helper, retry=retry, idempotent=True)
    session = ToolSession(engine, "outer", {"max_uses": {"mail": 2}})
    await session.execute("helper", {"text": "x"})
    assert sent == ["fails", "fails", "fails", "x"]
    assert session.usage().by_tool == {"helper": 1, "mail": 2}


async def test_each_call_that_shares_a_run_is_a_use(engine: ToolEngine) -> None:
    """U47: as with those of the model, whose result is that of another call."""

    async def helper(text: str, context: ToolExecutionContext) -> list[str | None]:
        calls = (context.call("mail", {"text": text}) for _ in range(3))
        return sorted((each.error_type for each in await asyncio.gather(*calls)), key=str)

    single = {"key": "params", "collision": "single_flight"}
    await make(engine, helper, concurrency=single)
    session = ToolSession(engine, "outer", {"max_uses": {"mail": 2}})
    result = await session.execute("helper", {"text": "x"})
    assert result.output == {"result": [None, None, "limit_reached"]}


async def deferred(engine: ToolEngine) -> tuple[ToolSession, str, list[str]]:
    """A session whose tool has made a call that waits for consent, the only one that is left."""

    async def helper(text: str, context: ToolExecutionContext) -> str:
        return str((await context.call("mail", {"text": text})).error_type)

    sent = await make(engine, helper)
    config = {"max_uses": {"mail": 1}, "rules": {"mail": ASK}}
    session = ToolSession(engine, "outer", config, DeferredApprover())
    result = await session.execute("helper", {"text": "x"})
    assert result.output == {"result": "approval_required"}
    (request,) = session.gate.book.pending()
    return session, request.token, sent


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_deferred_call_is_one_use(engine: ToolEngine, is_approved: bool) -> None:
    """U47: it is counted when it is made, and not again when somebody has answered."""
    session, token, sent = await deferred(engine)
    assert session.usage().by_tool["mail"] == 1
    again = await session.execute("helper", {"text": "y"})
    assert again.output == {"result": "limit_reached"}
    result = await session.resume(token, is_approved)
    assert sent == (["x"] if is_approved else [])
    assert result.is_success is is_approved
    assert session.usage().by_tool["mail"] == 1


async def test_a_deferred_call_elsewhere(engine: ToolEngine) -> None:
    """U47: where it was not counted it is a call like any other, and the bounds there hold."""
    session, token, sent = await deferred(engine)
    spent = ToolSession(engine, "outer", {"max_calls": 1, "rules": {"mail": ASK}})
    await spent.execute("helper", {"text": "x"})
    result = await spent.resume(token, True)
    assert (result.error_type, sent) == ("limit_reached", [])
    del session


async def test_restored(engine: ToolEngine) -> None:
    """U47: what tools have called counts on when the conversation is opened again."""

    async def helper(text: str, context: ToolExecutionContext) -> str | None:
        return (await context.call("mail", {"text": text})).error_type

    sent = await make(engine, helper, max_uses=1)
    session = ToolSession(engine, "outer")
    assert (await session.execute("helper", {"text": "x"})).output == {"result": None}
    await session.save()
    other = await ToolSession.restore(engine, "outer")
    assert other is not None
    assert (await other.execute("helper", {"text": "x"})).output == {"result": "limit_reached"}
    assert (await other.execute("mail", {"text": "x"})).reject_reason == "max_uses_reached"
    assert sent == ["x"]


async def test_a_turn_counts_what_is_asked_for(engine: ToolEngine) -> None:
    """U47: one call of a tool that makes many is one of the turn, and many of the conversation."""

    async def helper(text: str, context: ToolExecutionContext) -> list[str | None]:
        return [(await context.call("mail", {"text": text})).error_type for _ in range(3)]

    await make(engine, helper)
    session = ToolSession(engine, "outer", {"max_calls_per_turn": 2})
    session.meter.begin_turn()
    result = await session.execute("helper", {"text": "x"})
    assert result.output == {"result": [None] * 3}
    assert (session.usage().calls_of_turn, session.usage().calls) == (1, 4)
    assert (await session.execute("mail", {"text": "x"})).is_success
    assert (await session.execute("mail", {"text": "x"})).reject_reason == "max_calls_reached"


async def test_what_is_left_behind(engine: ToolEngine) -> None:
    """U47: a task that goes on after its call has ended has no more uses than that had."""
    going = asyncio.Event()
    tasks: list[asyncio.Task[ToolExecutionResult]] = []

    async def helper(text: str) -> None:
        async def later() -> ToolExecutionResult:
            await going.wait()
            return await engine.execute("mail", {"text": text})

        tasks.extend(asyncio.create_task(later()) for _ in range(2))

    sent = await make(engine, helper)
    session = ToolSession(engine, "outer", {"max_uses": {"mail": 1}})
    await session.execute("helper", {"text": "x"})
    going.set()
    assert [(await each).error_type for each in tasks] == [None, "limit_reached"]
    assert sent == ["x"]


@pytest.mark.parametrize("looser", [{"max_uses": {"mail": 9}}, {"max_calls": 9}])
async def test_a_reply_within_a_reply(engine: ToolEngine, looser: dict[str, Any]) -> None:
    """U47: a tool that takes another reply of its conversation through frees it of no bound."""
    results: list[Any] = []

    async def helper(text: str) -> None:
        for _ in range(2):
            reply: Any = a_reply("mail")
            results.extend((await session.process_cycle(reply, looser)).execution_results)

    sent = await make(engine, helper)
    session = ToolSession(engine, "outer", {"protocol": "openai"})
    bounds = {"max_uses": {"mail": 1}} if "max_uses" in looser else {"max_calls": 2}
    reply: Any = a_reply("helper")
    await session.process_cycle(reply, bounds)
    assert [each.error_type for each in results] == [None, "limit_reached"]
    assert sent == ["x"]


async def test_what_a_reply_forbids_within_a_reply(engine: ToolEngine) -> None:
    """S31: nor does it free it of a rule of the settings of the first reply."""

    async def helper(text: str) -> list[str | None]:
        reply: Any = a_reply("mail")
        cycle = await session.process_cycle(reply, {"limit": 99})
        return [each.error_type for each in cycle.execution_results]

    sent = await make(engine, helper)
    session = ToolSession(engine, "outer", {"protocol": "openai"})
    reply: Any = a_reply("helper")
    cycle = await session.process_cycle(reply, {"rules": {"mail": "deny"}})
    assert cycle.execution_results[0].output == {"result": ["execution_rejected"]}
    assert sent == []


@pytest.mark.parametrize("way", EVERY_WAY, ids=IDS)
async def test_what_a_reply_forbids(way: Way | None) -> None:
    """S31: the rules of one reply's settings hold for what its tools call, in any way."""
    world = World(way)
    world.register()
    async with asyncio.timeout(BOUND), world.engine:
        session = ToolSession(world.engine, "outer", {"protocol": "openai"})
        reply: Any = a_reply("helper")
        await session.process_cycle(reply, {"rules": {"mail": "deny"}})
        assert world.sent == []


@pytest.mark.parametrize("place", PLACES)
async def test_the_name_in_the_engine(place: str) -> None:
    """U47: a bound for the name that an engine has for a tool holds, as rules for it do."""
    world = FarWorld("chain", place)
    world.register()
    async with asyncio.timeout(BOUND), world.near, world.far:
        session = ToolSession(world.source, "outer", {"max_uses": {"mail": 1}})
        await session.execute("helper", {"text": "x"})
        assert world.sent == ["x"]
        if session.get(world.shown) is not None:
            asked = await session.execute(world.shown, {"text": "x"})
            assert asked.reject_reason == "max_uses_reached"


async def test_a_tool_of_the_conversation_alone(engine: ToolEngine) -> None:
    """U47: one that was registered for the session is bounded as the model's calls of it are."""

    async def helper(text: str, context: ToolExecutionContext) -> list[str | None]:
        return [(await context.call("mine", {"text": text})).error_type for _ in range(2)]

    async def mine(text: str) -> None:
        return None

    engine.register_tool(tool("helper"), helper)
    session = ToolSession(engine, "outer", {"max_uses": {"mine": 2}})
    session.register_tool(tool("mine"), mine)
    assert (await session.execute("mine", {"text": "x"})).is_success
    result = await session.execute("helper", {"text": "x"})
    assert result.output == {"result": [None, "limit_reached"]}
