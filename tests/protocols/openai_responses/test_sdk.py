"""Do OpenAI's own SDK and a server that is as strict as the API take what we make of calls?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.protocols import wire_openai_responses as wire
from tool_engine import Tool, ToolEngine
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.openai_responses import OpenAIResponsesProtocol

TIMEOUT = 20.0
CALLS = [
    ToolCall(call_id="call_1", tool_name="getTime", arguments={"offset_ms": -86400000}),
    ToolCall(call_id="call_2", tool_name="getTime", arguments={"offset_ms": "a lot"}),
    ToolCall(call_id="call_3", tool_name="noSuchTool", arguments={}),
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
            return web.json_response({"error": error}, status=400)
        is_second = len(asked["input"]) > 1
        calls, text = ([], "It is Saturday.") if is_second else (CALLS, "Let me look.")
        whole = wire.render_reply(calls, text)
        if calls:
            whole["output"].insert(0, wire.reasoning())
        if not asked.get("stream"):
            return web.json_response(whole)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in wire.stream(whole["output"], whole):
            await response.write(wire.sse([event]))
        await response.write_eof()
        return response


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[tuple[Provider, openai.AsyncOpenAI]]:
    served = Provider()
    app = web.Application()
    app.router.add_post("/v1/responses", served.answer)
    server = TestServer(app)
    await server.start_server()
    client = openai.AsyncOpenAI(
        api_key="no-key", base_url=str(server.make_url("/v1")), max_retries=0
    )
    try:
        yield served, client
    finally:
        await client.close()
        await server.close()


async def whole(client: Any, protocol: OpenAIResponsesProtocol, request: Any) -> ParsedReply:
    return protocol.parse(await client.responses.create(**request))


async def streamed(client: Any, protocol: OpenAIResponsesProtocol, request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async for event in await client.responses.create(**request, stream=True):
        decoder.feed(event)
    return decoder.close()


async def helped(client: Any, protocol: OpenAIResponsesProtocol, request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async with client.responses.stream(**request) as events:
        async for event in events:
            decoder.feed(event)
        final = protocol.parse(await events.get_final_response())
    reply = decoder.close()
    assert (final.text, final.message) == (reply.text, reply.message)
    return reply


async def raw(client: Any, protocol: OpenAIResponsesProtocol, request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async with client.responses.with_streaming_response.create(**request, stream=True) as response:
        async for chunk in response.iter_bytes():
            decoder.feed(chunk)
    return decoder.close()


def run_tools(engine: ToolEngine, calls: list[ToolCall]) -> Any:
    return asyncio.gather(*(engine.execute(call.tool_name, call.arguments) for call in calls))


def listed(engine: ToolEngine) -> list[Tool]:
    return [tool for tool in engine.index.list_all() if tool.is_enabled]


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("ask", [whole, streamed, helped, raw])
async def test_two_turns(ask: Any, is_strict: bool, provider: tuple[Provider, Any]) -> None:
    """R4-R7: definitions are taken, calls come back, results and the whole history are taken."""
    served, client = provider
    protocol = OpenAIResponsesProtocol(strict=is_strict)
    async with asyncio.timeout(TIMEOUT), ToolEngine() as engine:
        engine.register_tool(TOOL, lambda offset_ms: 1684713600000 + offset_ms)
        request: dict[str, Any] = {
            "model": "gpt-test",
            "input": [{"role": "user", "content": "Which day was yesterday?"}],
            "tools": protocol.definitions(listed(engine)),
        }
        reply = await ask(client, protocol, request)
        assert [(c.call_id, c.tool_name, c.arguments) for c in reply.calls] == [
            (c.call_id, c.tool_name, c.arguments) for c in CALLS
        ]
        assert (reply.text, reply.reasoning) == ("Let me look.", "I need the time.")
        assert reply.findings == []
        results = await run_tools(engine, reply.calls)
        request["input"] += [*reply.message, *protocol.format_results(results, reply.calls)]
        last = await ask(client, protocol, request)
        assert last.text == "It is Saturday."
        assert last.calls == []
    sent = served.requests[1]["input"]
    assert sent[1] == wire.reasoning()
    described = {tool["name"]: tool["strict"] for tool in served.requests[0]["tools"]}
    assert described["getTime"] is is_strict
    outputs = [item["output"] for item in sent if item.get("type") == "function_call_output"]
    assert json.loads(outputs[0]) == 1684627200000
    assert all(output.startswith("Error (") for output in outputs[1:])


async def test_the_server_is_strict(provider: tuple[Provider, Any]) -> None:
    """The proof is worth something: the server refuses a history without the results."""
    _, client = provider
    protocol = OpenAIResponsesProtocol()
    items = [{"role": "user", "content": "Hi"}, *protocol.parse(wire.render_reply(CALLS)).message]
    async with asyncio.timeout(TIMEOUT):
        with pytest.raises(openai.BadRequestError, match="No tool output found"):
            await client.responses.create(model="gpt-test", input=items)
