"""What was said and done is told in the same form for every model. A42."""

from __future__ import annotations

import json

import pytest

from tests.agent.world import WIRES, Turn, World, call, run_turn
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.transcript import TranscriptEntry
from tool_engine.errors import ChatModelError


@pytest.mark.parametrize("wire", WIRES)
async def test_a_transcript(world: World, wire: str) -> None:
    """A42: calls are in `metadata.toolCallsRequested`, their ends in `metadata.toolCall`."""
    calls = [call(1, a=1, b=2), call(2, "fail")]
    loop = world.loop(
        wire,
        ChatModelError("down"),
        *[Turn(text="I look.", calls=calls), Turn(text="3.")],
        config={"max_iterations": 1},
    )
    with pytest.raises(ChatModelError):
        await loop.run("Hello?")
    await run_turn(loop, "Go.")
    entries = loop.transcript()
    assert [(each.role, each.text) for each in entries] == [
        ("user", "Hello?"),
        ("user", "Go."),
        ("assistant", "I look."),
        ("tool", "3"),
        ("tool", "ValueError: no such luck"),
        ("loop", entries[5].text),
        ("assistant", "3."),
    ]
    assert [each["toolName"] for each in entries[2].calls] == ["add", "fail"]
    assert entries[0].calls == []
    assert [each.time for each in entries] == sorted(each.time for each in entries)
    assert "max_rounds_reached" in entries[5].text
    assert json.loads(json.dumps(loop.record.to_list()))[0]["role"] == "user"
    assert "7 entries" in repr(loop.record)


async def test_a_call_and_its_end(world: World) -> None:
    """A42: an entry of a call tells what was asked, how it ended, and where its record is."""
    loop = world.loop("openai", Turn(calls=[call(1, a=1, b=2)]), Turn(text="3."))
    await run_turn(loop)
    told = loop.transcript()[2].metadata["toolCall"]
    assert (told["requestId"], told["toolName"]) == ("id_1", "add")
    assert told["args"] == {"a": "1", "b": "2"}
    assert (told["status"], told["result"]) == ("success", "3")
    assert told["callId"] in {each.call_id for each in await world.records()}


async def test_what_the_calls_add_up_to(world: World) -> None:
    """K45: an answer carries the summary that the records give, over all turns, also resumed."""
    calls = [call(1, a=1, b=2), call(2, "fail"), call(3, a="x"), call(4, "missing")]
    turns = [Turn(calls=calls), Turn(text="3."), Turn(calls=[call(5, a=1, b=1)]), Turn(text="2.")]
    loop = world.loop("openai", *turns)
    first = (await run_turn(loop)).tool_usage_summary
    assert first["tool_usage"] == {"add": 2, "fail": 1, "missing": 1}
    assert (first["success_rate"], first["has_errors"]) == (25.0, True)
    kept = json.loads(json.dumps(loop.to_dict()))
    again = AgentLoop.from_dict(kept, loop.session, loop.model)
    answer = await run_turn(again)
    summary = await world.engine.get_call_summary(loop.session.session_id)
    assert answer.tool_usage_summary == summary.to_brief()
    assert answer.to_dict()["tool_usage_summary"]["total_calls"] == 5


async def test_no_calls_add_up_to_nothing(world: World) -> None:
    """K45: an answer without calls has a summary all the same."""
    answer = await run_turn(world.loop("openai", Turn(text="Hello.")))
    assert answer.tool_usage_summary == {
        "total_calls": 0,
        "success_rate": 0.0,
        "tool_usage": {},
        "has_errors": False,
    }


def test_an_entry() -> None:
    """A time that was set stays."""
    entry = TranscriptEntry(role="user", text="Go.")
    assert entry.time.tzinfo is not None
