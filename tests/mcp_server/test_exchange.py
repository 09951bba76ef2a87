"""Is a request of 2026-07-28 answered as the SDK's own app answers it?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.mcp_server.test_transports import HEADERS, LIST, META, serving
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer, exchange
from tool_engine.mcp_server.exchange import ModernRequests
from tool_engine.mcp_server.listing import PageCache

REQUEST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1}


def call(name: str, arguments: Any, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {**META, **meta}}
    return {**REQUEST, "method": "tools/call", "params": params}


def ask(method: str, **params: Any) -> dict[str, Any]:
    return {**REQUEST, "method": method, "params": {**params, "_meta": META}}


ADD = call("add", {"a": 1, "b": 2})
MESSAGES: dict[str, Any] = {
    "a call": ADD,
    "an unknown tool": call("ad", {"a": 1, "b": 2}),
    "arguments that do not fit": call("add", {"a": "one"}),
    "arguments that are none": call("add", [1, 2]),
    "no arguments": call("fail", None),
    "a tool that fails": call("fail", {}),
    "nothing, in several places": call("nothing", {}),
    "progress": call("report", {}, progressToken="p"),
    "progress that is not wanted": call("report", {}),
    "a token that is none": call("report", {}, progressToken=True),
    "half of a pair": call("half", {}),
    "the list": LIST,
    "a cursor of no page": ask("tools/list", cursor="x"),
    "prompts": ask("prompts/list"),
    "an unknown resource": ask("resources/read", uri="file:///none"),
    "an unknown method": ask("tools/cook"),
    "a method of the older revisions": ask("initialize"),
    "what the server can do": ask("server/discover"),
    "another revision": call("add", {"a": 1, "b": 2}, **{next(iter(META)): "2099-01-01"}),
    "a revision that is no text": call("add", {"a": 1, "b": 2}, **{next(iter(META)): 7}),
    "no envelope": {**REQUEST, "method": "tools/list", "params": {}},
    "no parameters": {**REQUEST, "method": "tools/list"},
    "parameters that are a list": {**REQUEST, "method": "tools/list", "params": []},
    "no method": {**REQUEST, "params": {"_meta": META}},
    "another JSON-RPC": {**LIST, "jsonrpc": "1.0"},
    "a text as its id": {**ADD, "id": "one"},
    "an empty id": {**ADD, "id": ""},
    "a notice": {key: value for key, value in LIST.items() if key != "id"},
    "several at once": [LIST, LIST],
    "an answer": {**REQUEST, "result": {}},
    "a number": 7,
}
ALL_FIELDS: dict[str, Any] = {
    "title": "All fields",
    "description": "Has all that a client may see.",
    "effect": "read",
    "annotations": {"title": "All", "openWorldHint": False},
    "parameters": {
        "type": "object",
        "properties": {
            "place": {"$ref": "#/$defs/place"},
            "when": {"type": ["string", "null"], "format": "date", "default": None},
        },
        "$defs": {"place": {"enum": ["Ulm", "Kyiv \u2028"]}},
        "required": ["place"],
    },
    "output": {"type": "object", "properties": {"year": "integer"}},
}
ODD_HEADERS: dict[str, dict[str, str]] = {
    "another method": {"Mcp-Method": "tools/list"},
    "another name": {"Mcp-Name": "count"},
    "another revision": {"MCP-Protocol-Version": "2099-01-01"},
    "JSON alone": {"Accept": "application/json"},
    "a stream alone": {"Accept": "text/event-stream"},
    "anything": {"Accept": "*/*"},
    "wishes": {"Accept": "text/event-stream;q=0.5, Application/JSON"},
    "nothing that there is": {"Accept": "text/html"},
}


@pytest.fixture
def tools(engine: ToolEngine) -> ToolEngine:
    """An engine whose tools answer in each way that there is."""

    @engine.tool(output={"type": "object"})
    async def nothing() -> Any:
        """Return nothing, in several places."""
        return {"one": None, "more": [None, {"two": None}]}

    @engine.tool
    async def half() -> str:
        """Return half of a surrogate pair."""
        return "half \ud83d"

    @engine.tool
    async def report(context: Any) -> str:
        """Report."""
        await context.report_progress(1, 3, "begun")
        return "reported"

    return engine


async def answers_of(tools: ToolEngine, message: Any, **headers: str) -> tuple[int, str, list[Any]]:
    """The status, the type and the messages of an answer, without what changes each time."""
    named = {}
    if isinstance(message, dict):
        params = message.get("params")
        name = params.get("name", params.get("uri")) if isinstance(params, dict) else None
        named = {"Mcp-Method": message.get("method", "tools/list")}
        named |= {} if name is None else {"Mcp-Name": name}
    async with (
        serving(tools) as url,
        aiohttp.ClientSession() as session,
        session.post(url, json=message, headers={**HEADERS, **named, **headers}) as answer,
    ):
        body = await answer.text()
    found = body.splitlines()
    lines = [each.removeprefix("data: ") for each in found if each.startswith("data: ")] or [body]
    messages = [json.loads(line) if line else None for line in lines]
    for each in messages:
        # A result says when and as what it was made.
        if isinstance(each, dict) and "result" in each:
            each["result"].get("_meta", {}).pop("tool-engine/call_id", None)
    return answer.status, answer.content_type, messages


async def ask_sdk(
    tools: ToolEngine, monkeypatch: pytest.MonkeyPatch, message: Any, **headers: str
) -> tuple[int, str, list[Any]]:
    """The same of the SDK's own app."""
    with monkeypatch.context() as patch:
        patch.setattr(ModernRequests, "_read_request", lambda self, scope: None)
        return await answers_of(tools, message, **headers)


@pytest.mark.parametrize("what", MESSAGES)
async def test_each_message_is_answered_alike(
    tools: ToolEngine, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    message = MESSAGES[what]
    assert await answers_of(tools, message) == await ask_sdk(tools, monkeypatch, message)


@pytest.mark.parametrize("what", ODD_HEADERS)
async def test_each_head_is_answered_alike(
    tools: ToolEngine, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    headers = ODD_HEADERS[what]
    own = await answers_of(tools, ADD, **headers)
    assert own == await ask_sdk(tools, monkeypatch, ADD, **headers)


@pytest.mark.parametrize("named", ["one, two", "one"])
async def test_a_header_that_stands_twice_is_refused(engine: ToolEngine, named: str) -> None:
    """A proxy in front may have gone by the first of them."""
    server = MCPServer(engine)
    server.add_prompt(named, lambda: "text")
    parts = named.split(", ")
    headers = [*HEADERS.items(), ("Mcp-Method", "prompts/get")]
    headers = [each for each in headers if each[1] != "tools/list"]
    headers += [("Mcp-Name", each) for each in (*parts, named)[:2]]
    message = ask("prompts/get", name=named)
    async with (
        serving(engine, server) as url,
        aiohttp.ClientSession() as session,
        session.post(url, json=message, headers=headers) as answer,
    ):
        error = (await answer.json())["error"]
    assert (answer.status, error["code"]) == (400, -32020)
    assert "mcp-name" in error["message"].lower()


async def test_a_page_is_what_the_sdk_would_make_of_it(
    tools: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not checked by the SDK, which takes longer than all else."""
    tools.register_tool({**ALL_FIELDS, "name": "all_fields"}, lambda **_: {"year": 1})
    own = await answers_of(tools, LIST)

    async def pass_on(self: Any, ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    monkeypatch.setattr(PageCache, "__call__", pass_on)
    assert own == await answers_of(tools, LIST)
    assert own[2][0]["result"]["_meta"]


async def test_reports_come_before_the_answer(tools: ToolEngine) -> None:
    message = call("report", {}, progressToken="p")
    status, kind, messages = await answers_of(tools, message)
    report, last = messages
    assert (status, kind) == (200, "text/event-stream")
    assert report["params"] == {
        "progressToken": "p",
        "progress": 1,
        "total": 3,
        "message": "begun",
    }
    assert "reported" in last["result"]["content"][0]["text"]


async def test_a_call_that_says_nothing_is_kept_open(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands between a client and a server cuts connections on which nothing comes."""
    monkeypatch.setattr(exchange, "_PING", 0.05)
    go_on = asyncio.Event()

    @engine.tool
    async def wait() -> str:
        """Wait."""
        await go_on.wait()
        return "waited"

    headers = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
    async with (
        asyncio.timeout(30),
        serving(engine) as url,
        aiohttp.ClientSession() as session,
        session.post(url, json=call("wait", {}), headers=headers) as answer,
    ):
        for _ in range(2):
            assert await answer.content.readline() == b": ping\r\n"
            assert await answer.content.readline() == b"\r\n"
        go_on.set()
        rest = await answer.text()
    assert rest.count("event: message") == 1
    assert "waited" in rest
