"""Wherever a turn breaks off, the conversation stays one that its provider takes, and goes on."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from tests.agent.world import WIRES, Turn, World, call, check, kinds, run_turn, said_of
from tool_engine import DeferredApprover
from tool_engine.agent.events import AgentEvent, AgentEventType
from tool_engine.agent.loop import AgentLoop
from tool_engine.errors import ChatModelError, SessionError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.permission import ExecutionPolicy, Permission

every_wire = pytest.mark.parametrize("wire", WIRES)
DOWN = ChatModelError("the model is down, api_key=sk-live-1234567890abcdef", status=500)


async def cancelled(loop: AgentLoop, when: asyncio.Event) -> None:
    """A turn that is cancelled once something has happened."""
    turn = asyncio.create_task(loop.run("Go."))
    await when.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    check(loop)


def reached(loop: AgentLoop, wanted: AgentEventType) -> asyncio.Event:
    """Set when the turn comes to an event of this type."""
    found = asyncio.Event()

    def hear(event: AgentEvent) -> None:
        if event.type is wanted:
            found.set()

    loop.listeners.add(hear)
    return found


@every_wire
async def test_the_model_cannot_be_reached(world: World, wire: str) -> None:
    """A turn in which the model said nothing is taken back: run again, nothing stands twice."""
    loop = world.loop(wire, DOWN, Turn(text="Hello."))
    with pytest.raises(ChatModelError, match="the model is down"):
        await loop.run("Go.")
    check(loop)
    assert loop.messages == []
    assert world.events[-1].type is AgentEventType.ERROR
    assert "sk-live" not in str(world.events[-1].error)
    assert (await run_turn(loop)).text == "Hello."
    assert len(loop.messages) == 2


@every_wire
async def test_the_model_is_lost_after_a_call(world: World, wire: str) -> None:
    """What was done stays in the conversation, so that the model does not do it again."""
    loop = world.loop(wire, Turn(calls=[call(1, "write", text="a")]), DOWN, Turn(text="Written."))
    with pytest.raises(ChatModelError):
        await loop.run("Go.")
    check(loop)
    assert "written" in json.dumps(loop.messages)
    assert (await run_turn(loop, "Go on.")).text == "Written."
    assert world.ran == ["write a"]


@every_wire
async def test_the_model_is_lost_in_a_reply(world: World, wire: str) -> None:
    """Of half a reply the text is kept, and marked as half; its calls are not run."""
    half = Turn(text="I will see to it now.", calls=[call(1, "write", text="a")])
    whole = len(world.loop(wire).model._speech.events(half))  # type: ignore[attr-defined]
    kept = 0
    for breaks in range(whole):
        loop = world.loop(wire, half, DOWN, Turn(text="Hello."), breaks=breaks)
        with pytest.raises(ChatModelError):
            await loop.run("Go.")
        check(loop)
        said = json.dumps(loop.messages)
        assert ("interrupted here" in said) == ("I wi" in said)
        kept += "I wi" in said
        loop.model.breaks = -1  # type: ignore[attr-defined]
        assert (await run_turn(loop)).text == "Hello."
    assert world.ran == []
    assert kept or wire == "openai_responses"


@every_wire
async def test_cancelled_while_calls_run(world: World, wire: str) -> None:
    """What has ended keeps its result, what has not says `cancelled`; both are told once."""
    calls = [call(1, a=1, b=2), call(2, "hang"), call(3, "write", text="a")]
    loop = world.loop(wire, Turn(text="Hm.", calls=calls), Turn(text="Yes."))
    await cancelled(loop, world.hanging)
    told = said_of(world.events, AgentEventType.TOOL_RESULT)
    ends = [each.result.error_type for each in told if each.result is not None]
    assert ends == [None, "cancelled", "cancelled"]
    assert "the turn was cancelled before this call had ended" in json.dumps(loop.messages)
    assert world.ran == ["add", "hang"]
    assert [each.error_type for each in await world.records()] == [None, "cancelled"]
    assert (await run_turn(loop, "And?")).text == "Yes."


@every_wire
async def test_cancelled_while_the_model_speaks(world: World, wire: str) -> None:
    """The text so far is kept, and the connection is given back."""
    loop = world.loop(wire, Turn(text="This is a long answer."), Turn(text="Yes."))
    await cancelled(loop, reached(loop, AgentEventType.CONTENT_CHUNK))
    assert (await run_turn(loop, "And?")).text == "Yes."


class Asked:
    """Somebody who is asked, and answers when told to."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        return await self.answer


ASK: dict[str, Any] = {
    "tool_permissions": {"write": Permission(execution=ExecutionPolicy.ASK_ALWAYS)}
}


@every_wire
async def test_approvals_are_told(world: World, wire: str) -> None:
    """Whoever listens hears who is asked for what, and what they say."""
    asked = Asked()
    loop = world.loop(
        wire,
        *[Turn(calls=[call(1, "write", text="a")]), Turn(text="Done.")],
        approver=asked,
        config=ASK,
    )
    others: list[Any] = []
    # Somebody else who was told before, or comes in between.
    other = AgentLoop(loop.session, loop.model, on_event=others.append)
    requested = reached(loop, AgentEventType.APPROVAL_REQUESTED)
    turn = asyncio.create_task(loop.run("Go."))
    await requested.wait()
    assert world.ran == []
    asked.answer.set_result(ApprovalDecision(is_approved=True))
    assert (await turn).text == "Done."
    check(loop)
    assert world.ran == ["write a"]
    first, second = (
        said_of(world.events, kind)
        for kind in (AgentEventType.APPROVAL_REQUESTED, AgentEventType.APPROVAL_ANSWERED)
    )
    assert [each.request for each in first] == [each.request for each in second]
    assert second[0].decision == ApprovalDecision(is_approved=True)
    # Two loops may share a session; only the one that is in a turn tells.
    assert (others, other.is_running) == ([], False)
    assert kinds(world.events).index("approval_answered") < kinds(world.events).index("tool_result")


@every_wire
async def test_cancelled_while_somebody_is_asked(world: World, wire: str) -> None:
    """A request for approval does not outlive its turn, and its call is not run."""
    loop = world.loop(
        wire,
        *[Turn(calls=[call(1, "write", text="a")]), Turn(text="Fine.")],
        approver=Asked(),
        config=ASK,
    )
    await cancelled(loop, reached(loop, AgentEventType.APPROVAL_REQUESTED))
    assert (world.ran, loop.session.pending_approvals) == ([], [])
    assert (await run_turn(loop, "Never mind.")).text == "Fine."


async def test_refused_by_the_user(world: World) -> None:
    """S26: the model reads that it was refused, and why, and goes on."""
    asked = Asked()
    asked.answer.set_result(ApprovalDecision(is_approved=False, reason="not today"))
    loop = world.loop(
        "openai",
        *[Turn(calls=[call(1, "write", text="a")]), Turn(text="Fine.")],
        approver=asked,
        config=ASK,
    )
    assert (await run_turn(loop)).text == "Fine."
    assert "not today" in json.dumps(loop.messages)
    assert world.ran == []


async def test_answered_after_the_turn(world: World) -> None:
    """D19: a turn does not wait for an answer that comes later; the call then runs all the same."""
    loop = world.loop(
        "openai",
        *[Turn(calls=[call(1, "write", text="a")]), Turn(text="I wait."), Turn(text="Good.")],
        approver=DeferredApprover(),
        config=ASK,
    )
    answer = await loop.run("Write a.")
    assert (answer.text, world.ran) == ("I wait.", [])
    (request,) = loop.session.pending_approvals
    result = await loop.session.resume(request.token, True)
    assert (result.final_text, world.ran) == ("written", ["write a"])
    assert (await run_turn(loop, "And now?")).text == "Good."
    assert "of write that waited for consent has ended: written" in json.dumps(loop.messages)
    assert loop.session.take_news() == []


async def test_news_is_told_in_the_next_turn_that_counts(world: World) -> None:
    """A turn that was taken back told the model nothing, news of its calls neither."""
    loop = world.loop(
        "openai",
        *[Turn(calls=[call(1, "write", text="a")]), Turn(text="I wait."), DOWN],
        approver=DeferredApprover(),
        config=ASK,
    )
    await loop.run("Write a.")
    await loop.session.resume(loop.session.pending_approvals[0].token, False)
    with pytest.raises(ChatModelError):
        await loop.run("And now?")
    (news,) = loop.session.take_news()
    assert "did not allow" in news
    assert "And now?" not in json.dumps(loop.messages)


async def test_one_turn_at_a_time(world: World) -> None:
    """A second turn is refused, and the first one does not notice."""
    loop = world.loop("openai", Turn(text="Hello."))
    turn = asyncio.create_task(loop.run("Go."))
    await reached(loop, AgentEventType.CONTENT_CHUNK).wait()
    assert loop.is_running
    with pytest.raises(SessionError, match="is in a turn"):
        await loop.run("Me too!")
    with pytest.raises(SessionError, match="is in a turn"):
        await anext(loop.stream("Me too!"))
    with pytest.raises(SessionError, match="is in a turn"):
        loop.to_dict()
    assert (await turn).text == "Hello."
    check(loop)


async def test_stream(world: World) -> None:
    """D15: a stream tells what `on_event` hears, and ends with the answer."""
    loop = world.loop("openai", Turn(calls=[call(1, a=1, b=2)]), Turn(text="3."))
    heard = [event async for event in loop.stream("Go.")]
    check(loop)
    assert heard == world.events
    assert heard[-1].type is AgentEventType.FINISHED
    assert heard[-1].answer is not None
    assert heard[-1].answer.text == "3."


async def test_a_stream_of_a_model_that_fails(world: World) -> None:
    """A stream tells of the failure as its last event, and does not raise."""
    loop = world.loop("openai", DOWN)
    heard = [event async for event in loop.stream("Go.")]
    check(loop)
    assert [each.type.value for each in heard] == ["round_started", "error"]


async def test_a_stream_with_a_mistake_of_others(world: World) -> None:
    """What is no failure of a model is told as the last event, and not hidden."""
    loop = world.loop("openai", Turn(text="Hello."))
    loop.request = lambda **_: 1 / 0  # type: ignore[assignment, method-assign]
    with pytest.raises(ZeroDivisionError):
        [event async for event in loop.stream("Go.")]
    check(loop)
    assert world.events[-1].type is AgentEventType.ERROR
    assert "division" in str(world.events[-1].error)


@every_wire
async def test_a_stream_that_is_given_up(world: World, wire: str) -> None:
    """Wherever a consumer closes the stream, the turn is cancelled, and nothing of it is left."""
    turns = [Turn(text="Hm.", calls=[call(1, a=1, b=2), call(2, "hang")])]
    for wanted in AgentEventType:
        loop = world.loop(wire, *turns, Turn(text="Yes."), approver=Asked())
        stream = loop.stream("Go.")
        async for event in stream:
            if event.type is wanted or event.tool_call_id is not None:
                break
        await stream.aclose()
        check(loop)
        loop.model.turns = [Turn(text="Yes.")]  # type: ignore[attr-defined]
        assert (await run_turn(loop, "And?")).text == "Yes."


async def test_a_stream_whose_consumer_is_cancelled(world: World) -> None:
    """A consumer that is cancelled takes its turn with it, also when it is cancelled twice."""
    loop = world.loop("openai", Turn(calls=[call(2, "hang")]))

    async def consume() -> None:
        async for _ in loop.stream("Go."):
            pass

    consumer = asyncio.create_task(consume())
    await world.hanging.wait()
    consumer.cancel()
    await asyncio.sleep(0)
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    # The generator has been closed by whoever iterated, or is by the loop, in its next steps.
    for _ in range(10):
        await asyncio.sleep(0)
    check(loop)


async def test_a_turn_that_others_cancel(world: World) -> None:
    """Whoever cancels the turn itself is heard by its reader, who waits for nothing."""
    loop = world.loop("openai", Turn(calls=[call(1, "hang")]))
    before = asyncio.all_tasks()
    stream = loop.stream("Go.")
    await anext(stream)
    (turn,) = asyncio.all_tasks() - before
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        [event async for event in stream]
    check(loop)


async def test_a_timeout_of_others(world: World) -> None:
    """Only the turn's own clock ends it as `max_seconds_reached`."""
    loop = world.loop("openai", TimeoutError("of the model"), config={"max_seconds": 1000.0})
    with pytest.raises(ChatModelError, match="of the model"):
        await loop.run("Go.")

    def late(**_: Any) -> Any:
        raise TimeoutError("of a session")

    loop.request = late  # type: ignore[method-assign]
    with pytest.raises(TimeoutError, match="of a session"):
        await loop.run("Go.")
    check(loop)


async def test_a_stream_that_nobody_began(world: World) -> None:
    """A generator that was never asked for anything has begun no turn."""
    loop = world.loop("openai", Turn(text="Hello."))
    stream = loop.stream("Go.")
    await stream.aclose()
    assert (await run_turn(loop)).text == "Hello."


async def test_a_stream_that_is_forgotten(world: World) -> None:
    """A consumer that just walks away cancels the turn, too."""
    loop = world.loop("openai", Turn(calls=[call(1, "hang")]), Turn(text="Yes."))
    async for event in loop.stream("Go."):
        if event.type is AgentEventType.TOOL_CALL_END:
            break
    gc.collect()
    for _ in range(30):
        await asyncio.sleep(0)
    check(loop)
    assert (await run_turn(loop)).text == "Yes."


async def test_a_slow_consumer(world: World) -> None:
    """The turn does not wait for whoever listens, and they miss nothing; not even of the next."""
    loop = world.loop("openai", Turn(calls=[call(1, a=1, b=2)]), Turn(text="3."), Turn(text="4."))
    stream = loop.stream("Go.")
    heard = [await anext(stream)]
    for _ in range(200):
        await asyncio.sleep(0)
    assert not loop.is_running
    assert world.ran == ["add"]
    assert (await run_turn(loop)).text == "4."
    heard += [event async for event in stream]
    assert kinds(heard).count("finished") == 1
    assert heard[-1].answer is not None
    assert heard[-1].answer.text == "3."


async def test_the_end_of_an_old_stream(world: World) -> None:
    """Whoever reads an old stream to its end does not end the turn that goes on meanwhile."""
    loop = world.loop("openai", Turn(text="3."), Turn(calls=[call(1, "hang")]))
    stream = loop.stream("Go.")
    await anext(stream)
    await asyncio.sleep(1.0)
    turn = asyncio.create_task(loop.run("And?"))
    await world.hanging.wait()
    assert [event async for event in stream][-1].type is AgentEventType.FINISHED
    assert loop.is_running
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    check(loop)
    # Nobody is told of what nobody reads.
    assert len(loop.listeners._heard_by) == 1
