"""A conversation between a user, a model and tools goes on, turn by turn. R1, A41, D15.

The model's side speaks each of the wire formats; what a provider would refuse of a request fails
the test.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.agent.spoken import SpokenModel
from tests.agent.world import WIRES, Turn, World, call, check, kinds, run_turn, said_of
from tests.calls.samples import bare
from tool_engine.agent.answer import StopReason
from tool_engine.agent.events import AgentEventType
from tool_engine.agent.loop import AgentLoop
from tool_engine.errors import ConfigurationError, SessionError, ToolConflictError
from tool_engine.session.session import ToolSession

every_wire = pytest.mark.parametrize("wire", WIRES)
streamed_or_not = pytest.mark.parametrize("is_streamed", [True, False])


@every_wire
@streamed_or_not
async def test_a_turn_with_calls(world: World, wire: str, is_streamed: bool) -> None:
    """R1, A41: the model is asked until it wants no call, and reads the results in their order."""
    loop = world.loop(
        wire,
        Turn(text="I add.", calls=[call(1, a=1, b=2), call(2, a=3, b=4)], thought="Hm."),
        Turn(calls=[call(3, "fail")]),
        Turn(text="3 and 7, and one failure."),
        is_streamed=is_streamed,
    )
    answer = await run_turn(loop)
    assert answer.text == "3 and 7, and one failure."
    assert answer.stop_reason is StopReason.COMPLETED
    assert answer.is_complete
    assert answer.messages == loop.messages
    assert world.ran == ["add", "add", "fail"]
    assert (answer.usage.rounds, answer.usage.calls, answer.usage.turns) == (3, 3, 1)
    # The last reply is not read by anybody: all replies count, not only those with calls.
    assert answer.usage.total_tokens == 3 * {"openai": 21, "gemini": 12}.get(wire, 30)
    assert "no such luck" in json.dumps(loop.messages)


@every_wire
@streamed_or_not
async def test_events(world: World, wire: str, is_streamed: bool) -> None:
    """D15, D16: whoever listens hears each step in its order, and of each call its end once."""
    turns = [Turn(text="I add.", calls=[call(1, a=1, b=2)]), Turn(text="It is 3.")]
    loop = world.loop(wire, *turns, is_streamed=is_streamed)
    answer = await run_turn(loop)
    heard = world.events
    asked = ["round_started", "content_chunk", "tool_call_start", "tool_call_chunk"]
    asked += ["tool_call_end", "usage", "tool_result"]
    told = [*asked, "round_started", "content_chunk", "usage", "finished"]
    assert kinds(heard) in (told, [each for each in told if each != "tool_call_chunk"])
    chunks = said_of(heard, AgentEventType.CONTENT_CHUNK)
    assert "".join(each.content or "" for each in chunks) == "I add.It is 3."
    assert [each.round for each in chunks] == sorted(each.round for each in chunks)
    (whole,) = said_of(heard, AgentEventType.TOOL_CALL_END)
    assert json.loads(whole.tool_call_arguments_complete or "") == {"a": 1, "b": 2}
    (result,) = said_of(heard, AgentEventType.TOOL_RESULT)
    assert result.result is not None
    assert (result.tool_call_id, result.tool_call_name) == ("id_1", "add")
    assert result.result.output == {"result": 3}
    assert heard[-1].answer == answer
    assert answer.to_dict()["stop_reason"] == "completed"
    assert json.loads(msgspec.json.encode(heard[-1].to_dict()))["answer"]["text"] == "It is 3."


@every_wire
async def test_goes_on_with_the_next_turn(world: World, wire: str) -> None:
    """The model reads all that was said before, and the bounds of a turn begin anew."""
    loop = world.loop(
        wire,
        *[Turn(calls=[call(1, a=1, b=2)]), Turn(text="3."), Turn(text="I said 3.")],
        config={"max_iterations": 2},
    )
    await run_turn(loop, "What is 1 + 2?")
    answer = await run_turn(loop, "What did you say?")
    assert answer.text == "I said 3."
    assert len(answer.messages) == 2
    assert (answer.usage.turns, answer.usage.rounds) == (2, 1)


async def test_what_the_model_is_told(world: World) -> None:
    """A41: the system prompt and the definitions are those of the session, in every round."""
    loop = world.loop("openai", Turn(text="Hello."), system="Be kind.", max_tokens=77)
    await run_turn(loop)
    model = loop.model
    assert isinstance(model, SpokenModel)
    (request,) = model.requests
    assert request.system.startswith("Be kind.")
    assert request.system.endswith(loop.session.system_prompt("openai"))
    assert {each["function"]["name"] for each in request.tools} >= {"add", "write"}
    assert (request.may_call, request.max_tokens, request.is_streamed) == (True, 77, True)


async def test_no_tools(world: World) -> None:
    """A5: switched off, the model is told of no tool at all."""
    loop = world.loop("openai", Turn(text="Hello."), config={"enabled": False})
    await run_turn(loop)
    assert loop.request().tools is None
    assert loop.request().system == ""


@pytest.mark.parametrize("text", ["", " \n", None, 3])
async def test_nothing_to_say(world: World, text: Any) -> None:
    """Providers refuse empty messages: it is said before one is in the conversation."""
    loop = world.loop("openai")
    with pytest.raises(ConfigurationError, match="the user must say something"):
        await loop.run(text)
    with pytest.raises(ConfigurationError, match="the user must say something"):
        await anext(loop.stream(text))
    check(loop)
    assert loop.messages == []


async def test_a_listener_that_fails(world: World) -> None:
    """Whoever listens cannot break a turn."""

    def fail(event: Any) -> None:
        raise RuntimeError("deaf")

    loop = world.loop("openai", Turn(text="Hello."), on_event=fail)
    assert (await run_turn(loop)).text == "Hello."


@every_wire
async def test_in_another_process(world: World, wire: str) -> None:
    """What `to_dict` wrote goes on elsewhere: messages, transcript and all."""
    loop = world.loop(wire, Turn(text="I add.", calls=[call(1, a=1, b=2)]), Turn(text="3."))
    await run_turn(loop)
    kept = json.loads(json.dumps(loop.to_dict()))
    session = ToolSession.from_dict(json.loads(json.dumps(loop.session.to_dict())), world.engine)
    other = AgentLoop.from_dict(kept, session, SpokenModel(wire, [Turn(text="Still 3.")]))
    assert other.messages == loop.messages
    assert other.transcript() == loop.transcript()
    answer = await run_turn(other, "And now?")
    assert answer.text == "Still 3."
    assert answer.usage.turns == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "gemini"}, "kept for the protocol 'gemini'"),
        ({"messages": 3}, r"no kept conversation: .* - at `\$.messages`"),
        ({"more": 3}, "unknown field"),
    ],
)
async def test_what_cannot_go_on(world: World, change: dict[str, Any], message: str) -> None:
    """What is no kept conversation, or one of another form, is refused in words."""
    loop = world.loop("openai")
    with pytest.raises(SessionError, match=message):
        AgentLoop.from_dict({**loop.to_dict(), **change}, loop.session, loop.model)


async def test_a_changed_message_is_not_the_histories(world: World) -> None:
    """A list that was handed out is a copy."""
    loop = world.loop("openai", Turn(text="Hello."))
    await run_turn(loop)
    loop.messages.clear()
    loop.transcript().clear()
    assert len(loop.messages) == len(loop.transcript()) == 2
    check(loop)
    assert "idle, History(2 messages)" in repr(loop)


async def test_half_a_character(world: World) -> None:
    """Half of a surrogate pair, which no client can send, is no text of a user's."""
    loop = world.loop("openai")
    with pytest.raises(ConfigurationError, match="text holds half of a character at 4"):
        await loop.run("Oops\ud83d")
    with pytest.raises(ConfigurationError, match="system holds half of a character"):
        world.loop("openai", system="\ud83d")
    assert loop.messages == []


async def test_what_makes_no_loop(world: World) -> None:
    """Each wrong argument is named."""
    session = ToolSession(world.engine, "chat")
    model = SpokenModel("openai", [])
    with pytest.raises(ConfigurationError, match="session must be a ToolSession"):
        AgentLoop(world.engine, model)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="model must be a ChatModel"):
        AgentLoop(session, "gpt-5")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="lacks reply, name, protocol"):
        AgentLoop(session, SimpleNamespace(user_message=str))
    named = SimpleNamespace(user_message=str, reply=str, name="m", protocol="openai")
    with pytest.raises(ConfigurationError, match=r"such as get_protocol\('openai'\) gives"):
        AgentLoop(session, named)
    with pytest.raises(ConfigurationError, match="max_tokens"):
        AgentLoop(session, model, max_tokens=0)
    with pytest.raises(ConfigurationError, match="sub_agents"):
        AgentLoop(session, model, sub_agents=-1)
    world.engine.register_tool(bare("call_sub_agent"), lambda: None)
    with pytest.raises(ToolConflictError, match="call_sub_agent"):
        AgentLoop(session, model, sub_agents=1)


async def _heard(_: Any) -> None:
    """Would have to be awaited."""


class _Hearing:
    async def __call__(self, _: Any) -> None:
        """Would have to be awaited."""


@pytest.mark.parametrize(
    "options",
    [
        *({"on_event": each} for each in (_heard, _Hearing(), 7)),
        {"system": 7},
        {"is_streamed": "no"},
    ],
)
async def test_options_that_cannot_be(world: World, options: dict[str, Any]) -> None:
    """A listener that nobody would await is refused, and not silently left out."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} must be "):
        world.loop("openai", Turn(text="Hello."), **options)


class _Returning(SpokenModel):
    async def reply(self, request: Any) -> Any:  # type: ignore[override] # that is the mistake
        """Gives one reply, as if it were no stream."""


async def test_a_model_that_returns_its_reply(world: World) -> None:
    """The usual mistake in a model of one's own is told before the first turn."""
    with pytest.raises(ConfigurationError, match="_Returning must be an async generator"):
        AgentLoop(ToolSession(world.engine, "chat"), _Returning("openai", []))  # type: ignore[arg-type]


async def test_another_loop_takes_over(world: World) -> None:
    """A session may be led by one loop after another, with sub-agents, too."""
    delegates = Turn(calls=[call(1, "call_sub_agent", task="Hm.")])
    loop = world.loop("openai", Turn(text="Hello."), sub_agents=1)
    await run_turn(loop)
    model = SpokenModel("openai", [delegates, Turn(text="Hm!"), Turn(text="Well.")])
    other = AgentLoop.from_dict(loop.to_dict(), loop.session, model, sub_agents=1)
    assert (await run_turn(other)).text == "Well."
    assert (len(loop.children), len(other.children)) == (0, 1)


async def test_what_cannot_go_on_leaves_no_trace(world: World) -> None:
    """A session whose loop could not be made is what it was."""
    data = world.loop("openai").to_dict()
    session = ToolSession(world.engine, "chat")
    before = session.gate.on_request
    with pytest.raises(SessionError, match="go on with a model of the same"):
        AgentLoop.from_dict(data, session, SpokenModel("gemini", []), sub_agents=1)
    assert session.gate.on_request is before
    assert session.own_tools == {}


async def test_many_loops_of_one_session(world: World) -> None:
    """A program that makes a loop for each request does not pile up listeners."""
    session = ToolSession(world.engine, "chat")
    told: list[Any] = []
    session.gate.on_request = told.append
    for _ in range(1200):
        AgentLoop(session, SpokenModel("openai", []), sub_agents=1)
    loop = AgentLoop(session, SpokenModel("openai", []))
    assert loop.session is session
    session.gate.on_request("asked")
    assert told == ["asked"]


@every_wire
async def test_two_loops_of_one_session(world: World, wire: str) -> None:
    """The bounds of a turn are those of one turn: a second loop waits, and harms nothing."""
    loop = world.loop(wire, Turn(calls=[call(1, "hang")]))
    other = AgentLoop(loop.session, SpokenModel(wire, [Turn(text="Hello.")]))
    turn = asyncio.create_task(loop.run("Go."))
    await world.hanging.wait()
    with pytest.raises(SessionError, match="is in a turn of another loop"):
        await other.run("Go.")
    assert other.messages == []
    assert loop.session.meter.is_in_turn
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (await run_turn(other)).text == "Hello."


@streamed_or_not
async def test_nothing_but_thoughts(world: World, is_streamed: bool) -> None:
    """A reply of thoughts alone is empty, and the provider takes the conversation after it."""
    turns = [Turn(thought="Hm."), Turn(thought="Hm.", stop="max_tokens"), Turn(text="Hello.")]
    loop = world.loop("anthropic", *turns, is_streamed=is_streamed)
    assert (await run_turn(loop)).stop_reason is StopReason.EMPTY
    assert (await run_turn(loop)).text == "Hello."
