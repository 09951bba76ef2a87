"""A turn ends, whatever the model says: at its bounds, after broken replies, in a circle."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.agent.spoken import SpokenModel
from tests.agent.world import WIRES, Turn, World, call, check, run_turn, said_of
from tool_engine.agent.answer import AgentAnswer, StopReason
from tool_engine.agent.events import AgentEventType
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models import RecordedModel
from tool_engine.model.call import ToolExecutionResult
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

every_wire = pytest.mark.parametrize("wire", WIRES)


def results(world: World) -> list[ToolExecutionResult]:
    """What listeners heard of the ends of calls, in order."""
    told = said_of(world.events, AgentEventType.TOOL_RESULT)
    return [each.result for each in told if each.result is not None]


def errors(world: World) -> list[str | None]:
    return [result.error_type for result in results(world)]


def asked(loop: AgentLoop) -> list[bool]:
    """Of each request, whether the model might call."""
    assert isinstance(loop.model, SpokenModel)
    assert loop.model.turns == []
    return [request.may_call for request in loop.model.requests]


def last_words(loop: AgentLoop) -> str:
    """What the model read at the end of its last request."""
    assert isinstance(loop.model, SpokenModel)
    return json.dumps(loop.model.requests[-1].messages[-1], ensure_ascii=False)


@every_wire
async def test_one_last_chance(world: World, wire: str) -> None:
    """A8, U41: at the bound the model is told, may not call, and may still answer."""
    turns = [Turn(calls=[call(n, a=n, b=n)]) for n in range(2)]
    loop = world.loop(wire, *turns, Turn(text="Enough."), config={"max_iterations": 2})
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("Enough.", StopReason.MAX_ROUNDS)
    assert asked(loop) == [True, True, False]
    assert "max_rounds_reached" in last_words(loop)
    # Each request to the model is a round, that for its last words, too.
    assert answer.usage.rounds == world.events[-1].round == 3


@every_wire
async def test_a_model_that_calls_all_the_same(world: World, wire: str) -> None:
    """U41: each open call has a result that says why it was not run, and the turn is over."""
    turns = [Turn(calls=[call(1, a=1, b=2)]), Turn(calls=[call(2, a=3, b=4), call(3, "fail")])]
    loop = world.loop(wire, *turns, config={"max_iterations": 1})
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("", StopReason.MAX_ROUNDS)
    assert world.ran == ["add"]
    assert errors(world) == [None, "limit_reached", "limit_reached"]
    assert [each.error_type for each in await world.records()] == errors(world)
    assert "max_rounds_reached" in str(results(world)[1].error)


@every_wire
async def test_too_many_calls(world: World, wire: str) -> None:
    """U47: the calls beyond the bound are refused, and the model has one last chance."""
    calls = [call(n, a=n, b=n) for n in range(3)]
    loop = world.loop(wire, Turn(calls=calls), Turn(text="Two."), config={"max_calls_per_turn": 2})
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("Two.", StopReason.MAX_CALLS)
    assert world.ran == ["add", "add"]
    assert errors(world) == [None, None, "limit_reached"]
    assert "the 2 calls of one turn are used up" in str(results(world)[2].error)
    assert asked(loop) == [True, False]


async def test_tokens_run_out(world: World) -> None:
    """Tokens of all rounds count; without any left the model is not even asked."""
    loop = world.loop(
        "openai", Turn(calls=[call(1, a=1, b=2)]), Turn(text="3."), config={"max_tokens": 20}
    )
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("3.", StopReason.MAX_TOKENS)
    assert asked(loop) == [True, False]
    before = loop.messages
    answer = await run_turn(loop, "More!")
    assert (answer.text, answer.stop_reason) == ("", StopReason.MAX_TOKENS)
    assert (answer.messages, loop.messages) == ([], before)
    assert len(asked(loop)) == 2


async def test_tokens_that_nobody_counts(world: World) -> None:
    """A bound that cannot hold is said once in each turn, and only where there is one."""
    said = {"choices": [{"message": {"role": "assistant", "content": "3."}}]}
    wanted = {"name": "add", "arguments": {"a": 1, "b": 2}}
    replies: list[Any] = [{"calls": [wanted]}, {"reply": said}, {"reply": said}]
    for most, found in ((5, ["no_usage"]), (None, [])):
        session = ToolSession(world.engine, "chat-1", ToolCallConfig(max_tokens=most))
        loop = AgentLoop(session, RecordedModel({"replies": replies}))
        events = [event async for event in loop.stream("Go.")]
        told = [each.finding.error_type for each in events if each.finding is not None]
        assert [each for each in told if each == "no_usage"] == found
        assert events[-1].answer is not None
        kept = [each.error_type for each in events[-1].answer.findings]
        assert [each for each in kept if each == "no_usage"] == found


@every_wire
async def test_time_runs_out_in_a_call(world: World, wire: str) -> None:
    """A turn ends in time; what had ended keeps its result, and the next turn works."""
    calls = [call(1, a=1, b=2), call(2, "hang")]
    loop = world.loop(
        wire, Turn(text="Hm.", calls=calls), Turn(text="Yes."), config={"max_seconds": 20.0}
    )
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("", StopReason.MAX_SECONDS)
    assert errors(world) == [None, "cancelled"]
    assert [each.error_type for each in await world.records()] == [None, "cancelled"]
    assert "max_seconds_reached" in str(results(world)[1].error)
    assert "max_seconds_reached" in json.dumps(loop.messages)
    assert (await run_turn(loop)).text == "Yes."


async def test_no_time_for_another_round(world: World) -> None:
    """When the time is up there is no last chance: it would come too late."""
    loop = world.loop("openai", Turn(calls=[call(1, a=1, b=2)]), config={"max_seconds": 5.0})
    world.engine.subscribe(lambda _: spend(loop), None, "add")
    answer = await run_turn(loop)
    assert answer.stop_reason is StopReason.MAX_SECONDS
    assert asked(loop) == [True]


def spend(loop: AgentLoop) -> None:
    """Lets the time of a turn be up, as far as its meter knows."""
    loop.session.meter.line[0]._clock = lambda: 1e12


@every_wire
async def test_a_call_that_was_cut(world: World, wire: str) -> None:
    """U47: the last call of a cut reply is not run; the model is told, and may make it good."""
    loop = world.loop(
        wire,
        Turn(calls=[call(1, a=1, b=2), call(2, "write", text="x" * 50)], stop="max_tokens"),
        Turn(calls=[call(3, "write", text="short")]),
        Turn(text="Done."),
    )
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("Done.", StopReason.COMPLETED)
    assert world.ran == ["add", "write short"]
    assert errors(world) == [None, "validation_error", None]


@every_wire
async def test_cut_twice(world: World, wire: str) -> None:
    """There is one recovery round: nothing of a second cut reply is run, and the turn ends."""
    cut = [
        Turn(calls=[call(n, a=1, b=2), call(n + 1, "write", text="x" * 50)], stop="max_tokens")
        for n in (1, 3)
    ]
    loop = world.loop(wire, *cut)
    answer = await run_turn(loop)
    assert answer.stop_reason is StopReason.TRUNCATED
    assert not answer.is_complete
    assert world.ran == ["add"]
    assert errors(world)[2] == "limit_reached"
    assert any(each.error_type == "truncated" for each in answer.findings)


async def test_calls_that_the_model_closed_too_early(world: World) -> None:
    """U41: where no limit cut the reply, arguments that are not whole are told, and all goes on."""

    def reply(arguments: str) -> dict[str, Any]:
        function = {"name": "add", "arguments": arguments}
        wanted = [{"id": "a", "type": "function", "function": function}]
        said = {"role": "assistant", "content": None, "tool_calls": wanted}
        return {"reply": {"choices": [{"message": said, "finish_reason": "tool_calls"}]}}

    wrong = [reply('{"a": 1, "b'), reply('{"a": 1, "b": '), reply('{"a": 1')]
    script = {"replies": [*wrong, reply('{"a": 1, "b": 2}'), {"text": "3."}]}
    session = ToolSession(world.engine, "chat-1")
    loop = AgentLoop(session, RecordedModel(script), on_event=world.events.append)
    answer = await loop.run("Go.")
    assert (answer.text, answer.stop_reason) == ("3.", StopReason.COMPLETED)
    assert errors(world) == ["validation_error"] * 3 + [None]
    assert world.ran == ["add"]


@every_wire
async def test_a_text_that_was_cut(world: World, wire: str) -> None:
    """Half an answer is no answer: the model is asked for a whole one, once."""
    loop = world.loop(wire, Turn(text="It is", stop="max_tokens"), Turn(text="It is 3."))
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("It is 3.", StopReason.COMPLETED)
    assert "cut off" in last_words(loop)
    again = world.loop(wire, *[Turn(text="It is", stop="max_tokens")] * 2)
    answer = await run_turn(again)
    assert (answer.text, answer.stop_reason) == ("It is", StopReason.TRUNCATED)


@every_wire
@pytest.mark.parametrize("stop", ["refusal", "content_filter"])
async def test_refused(world: World, wire: str, stop: str) -> None:
    """A refusal ends the turn, and says so; nothing in it is run."""
    loop = world.loop(wire, Turn(text="I will not.", stop=stop), Turn(text="Hello."))
    answer = await run_turn(loop)
    assert answer.stop_reason is StopReason.REFUSED
    assert (await run_turn(loop)).text == "Hello."


async def test_calls_of_a_refused_reply(world: World) -> None:
    """What stands in a reply that a filter stopped is not run."""
    loop = world.loop(
        "openai", Turn(calls=[call(1, a=1, b=2), call(2, a=1, b=2)], stop="content_filter")
    )
    answer = await run_turn(loop)
    assert answer.stop_reason is StopReason.REFUSED
    assert world.ran == []
    assert not any("shorter" in str(each.error) for each in results(world))


@every_wire
async def test_nothing_said(world: World, wire: str) -> None:
    """An empty reply is told as what it is, and leaves no trace in the conversation."""
    loop = world.loop(wire, Turn(), Turn(text="Hello."))
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason, answer.messages) == ("", StopReason.EMPTY, [])
    assert (await run_turn(loop)).text == "Hello."
    assert len(loop.messages) == 2


@every_wire
async def test_nothing_said_after_calls(world: World, wire: str) -> None:
    """The calls that were run stay in the conversation, and something stands for the answer."""
    loop = world.loop(wire, Turn(calls=[call(1, a=1, b=2)]), Turn(), Turn(text="Hello."))
    answer = await run_turn(loop)
    assert answer.stop_reason is StopReason.EMPTY
    assert "interrupted" in json.dumps(answer.messages[-1])
    assert (await run_turn(loop)).text == "Hello."


class Garbage(SpokenModel):
    """A model whose first replies are nothing that its provider says."""

    garbage = 1

    async def reply(self, request: Any) -> Any:
        if self.garbage:
            self.garbage -= 1
            yield {"choices": "garbage"} if request.is_streamed else 3
            return
        async for chunk in super().reply(request):
            yield chunk


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_garbage(world: World, is_streamed: bool) -> None:
    """A reply that nobody can read is asked for again, once; then the turn ends."""
    model = Garbage("openai", [Turn(text="Hello.")])
    loop = AgentLoop(ToolSession(world.engine, "chat"), model, is_streamed=is_streamed)
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("Hello.", StopReason.COMPLETED)
    model.garbage = 2
    before = loop.messages
    answer = await run_turn(loop)
    assert answer.stop_reason is StopReason.UNREADABLE
    assert answer.findings[0].level == "error"
    assert loop.messages == before


@every_wire
async def test_in_a_circle(world: World, wire: str) -> None:
    """U47: told at the second time, stopped at the fourth, with one last chance to answer."""
    turns = [Turn(calls=[call(n, a=1, b=2)]) for n in range(4)]
    loop = world.loop(wire, *turns, Turn(text="It is 3."), config={"max_iterations": 20})
    answer = await run_turn(loop)
    assert (answer.text, answer.stop_reason) == ("It is 3.", StopReason.REPEATING)
    assert asked(loop) == [True, True, True, True, False]
    said = json.dumps(loop.messages)
    assert said.count("You made the same calls before") == 2
    assert said.count("no further call is run") == 1


async def test_in_a_circle_of_long_results(world: World) -> None:
    """U47: a result that is shortened names another variable each time; that is no progress."""

    @world.engine.tool(effect="read")
    async def page() -> str:
        """A long page."""
        return "words " * 5000

    turns = [Turn(calls=[call(n, "page")]) for n in range(4)]
    loop = world.loop("openai", *turns, Turn(text="It is long."))
    answer = await run_turn(loop)
    assert "page_4_result" in json.dumps(loop.messages)
    assert (answer.text, answer.stop_reason) == ("It is long.", StopReason.REPEATING)


async def test_the_same_question_again(world: World) -> None:
    """A user who asks the same thing again has asked: that is no circle."""
    turns = [each for n in range(5) for each in (Turn(calls=[call(n, a=1, b=2)]), Turn(text="3."))]
    loop = world.loop("openai", *turns)
    for _ in range(5):
        assert (await run_turn(loop)).is_complete


async def test_calls_that_cannot_be_run(world: World) -> None:
    """What the model wrote wrongly is told to it, and it goes on."""
    wrong = [call(1, "no_such_tool"), call(2, a="one"), call(3, a=1, b=2)]
    loop = world.loop("openai", Turn(calls=wrong), Turn(text="Sorry."))
    answer = await run_turn(loop)
    assert answer.is_complete
    assert errors(world) == ["tool_not_found", "validation_error", None]


async def test_in_chinese(world: World) -> None:
    """What the loop tells the model is in the language of the session."""
    turns = [Turn(calls=[call(n, a=1, b=2)]) for n in range(2)]
    loop = world.loop(
        "openai", *turns, Turn(text="3。"), config={"max_iterations": 2, "language": "zh"}
    )
    answer: AgentAnswer = await run_turn(loop)
    assert answer.text == "3。"
    assert "本轮已达到上限" in last_words(loop)


@every_wire
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_the_same_ids_in_each_reply(world: World, wire: str, is_streamed: bool) -> None:
    """Servers that count from 1 in each reply do not make a history that a provider refuses; who
    listens hears of each call under the id that the model gave it."""
    turns = [
        Turn(calls=[call(1, a=1, b=n), call(2, "hang" if n == 3 else "fail")]) for n in range(4)
    ]
    loop = world.loop(wire, *turns, Turn(text="Done."), is_streamed=is_streamed)
    turn = asyncio.create_task(loop.run("Go."))
    await world.hanging.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    check(loop)
    told = [each.tool_call_id for each in said_of(world.events, AgentEventType.TOOL_RESULT)]
    # Both calls of a reply run at once: either may end first.
    assert [{*pair} for pair in zip(told[::2], told[1::2], strict=True)] == [{"id_1", "id_2"}] * 4
    model = SpokenModel(wire, [turns[0], Turn(text="Done.")])
    other = AgentLoop.from_dict(loop.to_dict(), loop.session, model)
    assert (await run_turn(other)).text == "Done."
