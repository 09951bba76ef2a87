"""Does an operator see what a conversation came to, and no secret of it?"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.conftest import Client, Service
from tests.server.test_description import check
from tool_engine import ToolEngine
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models.recorded import RecordedModel
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import Variable

PIN = "zebra-4711"
UNLOCK = {
    "name": "unlock",
    "description": "Unlock.",
    "effect": "read",
    "parameters": [
        {
            "name": "pin",
            "type": "string",
            "required": True,
            "secret": True,
            "description": "The pin.",
        },
        {"name": "note", "type": "string", "description": "A note."},
    ],
    "entry": {"type": "builtin", "handler": "unlock"},
}


async def keep_session(
    engine: ToolEngine, session_id: str = "chat-1", said: str = f"Opened with {PIN}."
) -> None:
    """A conversation with a call whose argument is secret, a variable, a group and bounds."""
    if engine.get("unlock") is None:
        engine.register_tool(UNLOCK, lambda pin, note="": f"with {pin}")
    config = ToolCallConfig(max_calls=5, max_tokens=1000, tool_toggles={"pay": False})
    session = ToolSession(engine, session_id, config, conversation_id="c-1")
    session.toolbox.register_group(
        {"name": "mine", "description": "Own.", "tools": ["add"], "enabled": True}
    )
    call = {"name": "unlock", "arguments": {"pin": PIN, "note": f"for {PIN}"}}
    replies = [{"calls": [call]}, {"text": said}]
    loop = AgentLoop(session, RecordedModel({"replies": replies}))
    await loop.run(f"Take {PIN}")
    session.variables.take(Variable(name="notes", value={"a": 1, "password": "hunter2"}))
    await session.save({"loop": loop.to_dict()})


async def test_one_session(olga: Client, engine: ToolEngine) -> None:
    """What was said and called, what it keeps, what is on, and what it has spent."""
    await keep_session(engine)
    answer = await olga.get("/v1/sessions/chat-1")
    found = answer.json
    assert (found["session_id"], found["conversation_id"]) == ("chat-1", "c-1")
    assert found["updated_at"] >= found["created_at"]
    roles = [each["role"] for each in found["messages"]]
    assert (roles, found["count"]) == (["user", "assistant", "tool", "assistant"], 4)
    asked, ran = found["messages"][1]["calls"][0], found["messages"][2]["calls"][0]
    assert (asked["tool_name"], asked["status"], ran["status"]) == ("unlock", None, "success")
    assert json.loads(ran["arguments"]) == {"pin": "[hidden]", "note": "for [hidden]"}
    variables = {each["name"]: each for each in found["variables"]}
    assert json.loads(variables["notes"]["text"]) == {"a": 1, "password": "[hidden]"}
    assert (found["groups"], found["tools"]) == ({"mine": True}, {"pay": False})
    bounds = {each["name"]: (each["spent"], each["limit"]) for each in found["bounds"]}
    assert bounds["calls"] == (1, 5)
    assert bounds["tokens"] == (0, 1000)
    assert bounds["seconds of the turn"][1] is None
    assert (found["uses"], found["unknown_tools"]) == ({"unlock": 1}, [])
    assert PIN not in answer.text
    assert "hunter2" not in answer.text


async def test_without_the_definition(olga: Client, engine: ToolEngine) -> None:
    """Where it is not known what is secret, no argument is shown, and it is said of which tool."""
    await keep_session(engine)
    engine.unregister_tool("unlock")
    found = (await olga.get("/v1/sessions/chat-1")).json
    assert found["unknown_tools"] == ["unlock"]
    arguments = json.loads(found["messages"][2]["calls"][0]["arguments"])
    assert arguments == {"pin": "[hidden]", "note": "[hidden]"}


async def test_parts_of_it(olga: Client, engine: ToolEngine) -> None:
    """The newest messages, or those before; long texts without their middle."""
    await keep_session(engine, said="x" * 50_000)
    path = "/v1/sessions/chat-1"
    newest = (await olga.get(f"{path}?limit=1")).json["messages"]
    assert [each["role"] for each in newest] == ["assistant"]
    assert len(newest[0]["text"]) < 11_000
    before = (await olga.get(f"{path}?limit=2&offset=1")).json["messages"]
    assert [each["role"] for each in before] == ["assistant", "tool"]
    assert (await olga.get(f"{path}?offset=99")).json["messages"] == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"more": {"loop": {"transcript": [1, {"role": 5, "metadata": [], "time": "noon"}]}}},
        {"more": [], "config": 1, "meter": "x", "toolbox": None, "variables": {"variables": [{}]}},
        {"toolbox": {"groups": [{"name": None}], "tool_toggles": {"a": "x"}}},
    ],
)
async def test_what_is_no_session(olga: Client, engine: ToolEngine, data: Any) -> None:
    """A storage may hold anything: what is of another kind is left out."""
    await engine.store.sessions.save("odd", data)
    answer = await olga.get("/v1/sessions/odd")
    assert (answer.status, answer.json["session_id"]) == (200, "odd")


@pytest.mark.parametrize("session_id", ["a/b", "/", "../v1/tools", "a%2fb", "a?b#c", "a b+c"])
async def test_any_id(olga: Client, engine: ToolEngine, session_id: str) -> None:
    """It stands in one part of the path, its slashes as `%2F`."""
    await engine.store.sessions.save(session_id, {})
    answer = await olga.get(f"/v1/sessions/{quote(session_id, safe='')}")
    assert (answer.status, answer.json["session_id"]) == (200, session_id)
    if session_id[0] != "/":
        path = quote(f"/v1/sessions/{session_id}").replace("/sessions/", "%2fsessions/")
        assert (await olga.get(path)).status == 404


async def test_those_that_are_not_there(ann: Client, olga: Client) -> None:
    for name in ("none", "x" * 600, "%00", "a%2Fb"):
        assert (await olga.get(f"/v1/sessions/{name}")).status == 404
    assert (await ann.get("/v1/sessions/none")).kind == "not-allowed"


async def test_it_is_as_described(olga: Client, service: Service, engine: ToolEngine) -> None:
    await keep_session(engine)
    described = (await service.client(None).get("/openapi.json")).json
    operation = described["paths"]["/v1/sessions/{session_id}"]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    check(described, schema, (await olga.get("/v1/sessions/chat-1")).json)
