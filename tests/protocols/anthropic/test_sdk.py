"""Do Anthropic's own SDK and a server that is as strict as the API take what we make of calls?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.protocols import wire_anthropic as wire
from tool_engine import Tool, ToolEngine
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.anthropic import AnthropicProtocol

TIMEOUT = 20.0
THOUGHT = {"type": "thinking", "thinking": "I need the time.", "signature": "c2ln"}
CALLS = [
    ToolCall(call_id="toolu_1", tool_name="getTime", arguments={"offset_ms": -86400000}),
    ToolCall(call_id="toolu_2", tool_name="getTime", arguments={"offset_ms": "a lot"}),
    ToolCall(call_id="toolu_3", tool_name="noSuchTool", arguments={}),
]
TOOL = {
    "name": "getTime",
    "version": "1.0.0",
    "description": "Tells the time in milliseconds.",
    "category": "custom",
    "parameters": [
        {"name": "offset_ms", "type": "number", "required": True, "description": "From now."}
    ],
}


class Provider:
    """A server that speaks the wire format and refuses what the API refuses."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.requests.append(asked)
        faults = wire.faults_of(asked)
        if faults:
            error = {"type": "invalid_request_error", "message": "; ".join(faults)}
            return web.json_response({"type": "error", "error": error}, status=400)
        is_second = len(asked["messages"]) > 1
        calls, text = ([], "It is Saturday.") if is_second else (CALLS, "Let me look.")
        if not asked.get("stream"):
            reply = wire.render_reply(calls, text)
            reply["content"].insert(0, THOUGHT)
            return web.json_response(reply)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in self._events(calls, text):
            await response.write(wire.sse([event]))
        await response.write_eof()
        return response

    def _events(self, calls: list[ToolCall], text: str) -> list[dict[str, Any]]:
        first, *rest = wire.render_stream(calls, text)
        moved = [{**each, "index": each["index"] + 1} if "index" in each else each for each in rest]
        parts = [
            {"type": "thinking_delta", "thinking": THOUGHT["thinking"]},
            {"type": "signature_delta", "signature": THOUGHT["signature"]},
        ]
        begun = {"type": "thinking", "thinking": "", "signature": ""}
        return [first, *wire.block(0, begun, *parts), *moved]


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[tuple[Provider, anthropic.AsyncAnthropic]]:
    served = Provider()
    app = web.Application()
    app.router.add_post("/v1/messages", served.answer)
    server = TestServer(app)
    await server.start_server()
    client = anthropic.AsyncAnthropic(
        api_key="no-key", base_url=str(server.make_url("")), max_retries=0
    )
    try:
        yield served, client
    finally:
        await client.close()
        await server.close()


async def whole(client: Any, protocol: AnthropicProtocol, request: Any) -> ParsedReply:
    return protocol.parse(await client.messages.create(**request))


async def streamed(client: Any, protocol: AnthropicProtocol, request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async for event in await client.messages.create(**request, stream=True):
        decoder.feed(event)
    return decoder.close()


async def helped(client: Any, protocol: AnthropicProtocol, request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async with client.messages.stream(**request) as events:
        async for event in events:
            decoder.feed(event)
        final = protocol.parse(await events.get_final_message())
    reply = decoder.close()
    assert (final.text, final.message) == (reply.text, reply.message)
    return reply


async def raw(client: Any, protocol: AnthropicProtocol, request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async with client.messages.with_streaming_response.create(**request, stream=True) as response:
        async for chunk in response.iter_bytes():
            decoder.feed(chunk)
    return decoder.close()


def run_tools(engine: ToolEngine, calls: list[ToolCall]) -> Any:
    return asyncio.gather(*(engine.execute(call.tool_name, call.arguments) for call in calls))


@pytest.mark.parametrize("ask", [whole, streamed, helped, raw])
async def test_two_turns(ask: Any, provider: tuple[Provider, Any]) -> None:
    """R4-R7: definitions are taken, calls come back, results and the whole history are taken."""
    served, client = provider
    protocol = AnthropicProtocol(cache_control={"type": "ephemeral"})
    async with asyncio.timeout(TIMEOUT), ToolEngine() as engine:
        engine.register_tool(TOOL, lambda offset_ms: 1684713600000 + offset_ms)
        request: dict[str, Any] = {
            "model": "claude-test",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Which day was yesterday?"}],
            "tools": protocol.definitions(listed(engine)),
        }
        reply = await ask(client, protocol, request)
        assert [(c.call_id, c.tool_name, c.arguments) for c in reply.calls] == [
            (c.call_id, c.tool_name, c.arguments) for c in CALLS
        ]
        assert (reply.text, reply.reasoning) == ("Let me look.", "I need the time.")
        assert reply.findings == []
        results = await run_tools(engine, reply.calls)
        history = [*reply.message, *protocol.format_results(results, reply.calls)]
        request["messages"] += history
        last = await ask(client, protocol, request)
        assert last.text == "It is Saturday."
        assert last.calls == []
    sent = served.requests[1]["messages"]
    assert sent[1]["content"][0] == THOUGHT
    assert [each.get("is_error") for each in sent[2]["content"]] == [None, True, True]
    assert json.loads(sent[2]["content"][0]["content"]) == 1684627200000


def listed(engine: ToolEngine) -> list[Tool]:
    return [tool for tool in engine.index.list_all() if tool.is_enabled]


async def test_the_server_is_strict(provider: tuple[Provider, Any]) -> None:
    """The proof is worth something: the server refuses a history without the results."""
    _, client = provider
    protocol = AnthropicProtocol()
    async with asyncio.timeout(TIMEOUT):
        request = {
            "model": "claude-test",
            "max_tokens": 1000,
            "messages": [
                {"role": "user", "content": "Hi"},
                *protocol.parse(wire.render_reply(CALLS)).message,
                {"role": "user", "content": "And?"},
            ],
        }
        with pytest.raises(anthropic.BadRequestError, match="are answered by"):
            await client.messages.create(**request)
