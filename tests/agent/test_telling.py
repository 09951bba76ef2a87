"""What do events and answers tell as JSON values of what is secret?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.world import WIRES, Turn, World, call, run_turn, said_of
from tool_engine.agent.events import AgentEvent, AgentEventType

PIN, KEY = "correct horse", "sk-ant-api03-" + "Zb7" * 12


async def log_in(pin: str, note: str, api_key: str) -> dict[str, Any]:
    return {"greeting": f"welcome, {pin}", "token": "t0ken-of-this-tool", "note": note}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_no_secret_is_told(world: World, wire: str, is_streamed: bool) -> None:
    """A secret argument is hidden by its name, and by its value in all that follows."""
    parameters = [
        {
            "name": name,
            "type": "string",
            "required": True,
            "description": "Text.",
            "secret": name == "pin",
        }
        for name in ("pin", "note", "api_key")
    ]
    world.engine.register_tool(
        {
            "name": "log_in",
            "version": "1.0.0",
            "description": "Logs in.",
            "category": "custom",
            "parameters": parameters,
        },
        log_in,
    )
    asked = call(1, "log_in", pin=PIN, note=f"pin is {PIN}", api_key="hunter2hunter2")
    turns = [Turn(calls=[asked]), Turn(text=f"I sent {PIN} and {KEY}.")]
    loop = world.loop(wire, *turns, is_streamed=is_streamed)
    answer = await run_turn(loop)
    told = json.dumps([each.to_dict() for each in world.events], allow_nan=False)
    told += json.dumps(answer.to_dict(), allow_nan=False)
    for secret in ("hunter2hunter2", "t0ken-of-this-tool", PIN, KEY):
        assert secret not in told
    (whole,) = said_of(world.events, AgentEventType.TOOL_CALL_END)
    assert json.loads(whole.to_dict()["tool_call_arguments_complete"]) == {
        "pin": "[hidden]",
        "note": "pin is [hidden]",
        "api_key": "[hidden]",
    }
    assert json.loads(whole.tool_call_arguments_complete or "")["pin"] == PIN
    for chunk in said_of(world.events, AgentEventType.TOOL_CALL_CHUNK):
        assert chunk.to_dict()["tool_call_arguments_chunk"] == "[hidden]"
    (result,) = said_of(world.events, AgentEventType.TOOL_RESULT)
    assert result.to_dict()["result"]["output"]["greeting"] == "welcome, [hidden]"


@pytest.mark.parametrize("written", ["[1]", '{"password": "hunter2hunter2', "", "\ud800"])
def test_arguments_that_are_no_mapping(written: str) -> None:
    """Arguments without names are hidden whole where the tool has secrets; else by their shape."""
    kind = AgentEventType.TOOL_CALL_END
    event = AgentEvent(type=kind, tool_call_arguments_complete=written, _names=frozenset({"pin"}))
    assert event.to_dict()["tool_call_arguments_complete"] == "[hidden]"
    plain = AgentEvent(type=kind, tool_call_arguments_complete=written).to_dict()
    assert "hunter2hunter2" not in json.dumps(plain)
