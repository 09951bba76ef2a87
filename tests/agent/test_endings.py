"""However a turn ends, its provider takes what comes next.

Each row of `tests/agent/endings` is played with each provider, natively and with both text
protocols, streamed and whole. Looked at, between the turns and in each request: the order of the
sides, pairs of calls and results, ids, signatures, what a provider never takes back, and, by the
official SDKs' own types, the fields that have to be there. The conversation goes through JSON
before its next turn.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.endings import ENDINGS, TEXT_PROTOCOLS, speak_turn
from tests.agent.spoken import SpokenModel
from tests.agent.world import Turn, World, call, check
from tests.effort import is_tried
from tests.protocols.sdk_types import message_faults
from tool_engine import AudioContent, ImageContent, ResourceContent, ResourceLink
from tool_engine.agent.answer import StopReason
from tool_engine.agent.events import AgentEventType
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models.carried import wire_of
from tool_engine.approval.callback import DeferredApprover
from tool_engine.errors import ChatModelError
from tool_engine.model.permission import Permission

WAYS: list[tuple[str | None, bool]] = [
    (None, True),
    (None, False),
    *((each, True) for each in TEXT_PROTOCOLS),
]
"""Natively or with a text protocol; whether streamed. Text is read the same in pieces as whole."""
ROWS = [
    pytest.param(name, wire, *way, id=f"{name}-{wire}-{way[0] or 'native'}-{way[1]}")
    for at, name in enumerate(ENDINGS)
    for number, way in enumerate(WAYS)
    for place, wire in enumerate(ENDINGS[name].wires)
    if is_tried((at, number, place), 3)
]
ASK = Permission(execution="ask_always")  # type: ignore[arg-type] # it takes texts


def judge(loop: AgentLoop) -> None:
    """What holds between the turns: the provider's rules, and its SDK's types."""
    check(loop)
    model = loop.model
    assert isinstance(model, SpokenModel)
    wire = wire_of(model.protocol)
    for messages in (loop.messages, *(each.messages for each in model.requests)):
        assert message_faults(wire, messages) == []


async def resumed(loop: AgentLoop) -> AgentLoop:
    """The conversation as another process reads it."""
    data = json.loads(json.dumps(loop.to_dict()))
    return AgentLoop.from_dict(data, loop.session, loop.model, is_streamed=loop.is_streamed)


def offer_picture(world: World) -> None:
    """One more tool, whose result is content of every kind."""

    @world.engine.tool(effect="read")
    async def picture() -> list[Any]:
        """Shows a picture."""
        world.ran.append("picture")
        return [
            "A map:",
            ImageContent(b"hi", "image/png"),
            AudioContent(b"hi", "audio/wav"),
            ResourceContent("notes://1", text="Milk."),
            ResourceContent("report://q3.pdf", data=b"hi", mime_type="application/pdf"),
            ResourceLink("https://example.com/a", "a"),
        ]


@pytest.mark.parametrize(("name", "wire", "protocol", "is_streamed"), ROWS)
async def test_every_ending(
    world: World, name: str, wire: str, protocol: str | None, is_streamed: bool
) -> None:
    """A41: the turn ends as it has to, nothing else is run, and the next turn is an answer."""
    ending = ENDINGS[name]
    offer_picture(world)
    turns = [speak_turn(each, protocol) for each in ending.turns]
    loop = world.loop(
        wire,
        *turns,
        Turn(text="Hello."),
        protocol=protocol,
        config=ending.config,
        is_streamed=is_streamed,
    )
    if ending.stop is None:
        with pytest.raises(ChatModelError):
            await loop.run(ending.says)
    else:
        answer = await loop.run(ending.says)
        assert answer.stop_reason is ending.stop
        assert loop.messages[len(loop.messages) - len(answer.messages) :] == answer.messages
        assert answer.tool_usage_summary["total_calls"] >= len(ending.ran)
    judge(loop)
    # Calls of one reply run side by side.
    assert sorted(world.ran) == sorted(ending.ran)
    held = json.dumps(loop.messages, ensure_ascii=False)
    assert ending.keeps in held
    assert not ending.drops or ending.drops not in held
    # Nothing is lost for people.
    told = "\n".join(each.text for each in loop.transcript())
    assert ending.says in told
    loop = await resumed(loop)
    assert (await loop.run("And now?")).text == "Hello."
    judge(loop)
    # Calls of one reply run side by side.
    assert sorted(world.ran) == sorted(ending.ran)


@pytest.mark.parametrize("wire", ["anthropic"])
async def test_a_paused_reply_is_one_answer(world: World, wire: str) -> None:
    """A reply that its provider pauses is asked for again as it is, counts as a round, and comes to
    one message and one answer."""
    paused = ENDINGS["paused"]
    loop = world.loop(wire, *paused.turns)
    answer = await loop.run("Go.")
    assert answer.text == "I search. I search. It is 3."
    assert answer.usage.rounds == 3
    assert [each["role"] for each in loop.messages] == ["user", "assistant"]
    kinds = [each["type"] for each in loop.messages[1]["content"]]
    assert kinds == ["text", "server_tool_use", "web_search_tool_result"] * 2 + ["text"]
    texts = [each.content for each in world.events if each.type is AgentEventType.CONTENT_CHUNK]
    assert "".join(text or "" for text in texts) == answer.text


async def test_a_pause_that_breaks_off(world: World) -> None:
    """What was said before the pause is kept, without what the provider still owes."""
    loop = world.loop("anthropic", *ENDINGS["paused, then down"].turns, Turn(text="Hello."))
    with pytest.raises(ChatModelError):
        await loop.run("Go.")
    content = loop.messages[1]["content"]
    assert [each["type"] for each in content] == ["text", "text"]
    assert "interrupted" in content[1]["text"]
    assert (await loop.run("And?")).text == "Hello."
    judge(loop)


@pytest.mark.parametrize("is_refused", [False, True])
async def test_the_end_of_a_deferred_call(world: World, is_refused: bool) -> None:
    """What the model is told at the beginning of a turn is never what every later turn ends with:
    where the turn is refused, the model knows that there was something, and the turn goes."""
    turns = [Turn(calls=[call(1, "write", text="x")]), Turn(text="It waits.")]
    stop = Turn(text="Not that.", stop="refusal") if is_refused else Turn(text="Fine.")
    loop = world.loop(
        "anthropic",
        *turns,
        stop,
        Turn(text="Hello."),
        config={"rules": {"write": ASK}},
        approver=DeferredApprover(),
    )
    await loop.run("Write.")
    (waiting,) = loop.session.pending_approvals
    await loop.session.resume(waiting.token, True)
    answer = await loop.run("Is it done?")
    judge(loop)
    assert answer.stop_reason is (StopReason.REFUSED if is_refused else StopReason.COMPLETED)
    assert ("Ended calls that were told in it: 1" in str(loop.messages)) is is_refused
    assert ("has ended: written" in str(loop.messages)) is not is_refused
    assert "has ended: written" in str(loop.transcript())
    assert (await loop.run("And?")).text == "Hello."
    judge(loop)
