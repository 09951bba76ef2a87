"""The official SDK as a real client of a server that speaks Chat Completions and its rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from openai import AsyncOpenAI, BadRequestError

from tests.protocols.wire_openai import fault_of, render_reply, render_stream, sse
from tool_engine import ToolEngine
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.openai import OpenAIProtocol

TIMEOUT = 20.0
CALLS = [
    ToolCall(call_id="call_a", tool_name="weather.get", arguments={"city": "Köln"}),
    ToolCall(call_id="call_b", tool_name="weather.get", arguments={"city": "Oslo", "days": 2}),
]
DEFINITION = {
    "name": "weather.get",
    "version": "1.0.0",
    "description": "Tells the weather of a city.",
    "category": "custom",
    "parameters": [
        {"name": "city", "type": "string", "description": "The city.", "required": True},
        {"name": "days", "type": "integer", "description": "How many days.", "default": 1},
    ],
    "entry": {"type": "builtin"},
}


class Server:
    """Asks for two calls, and answers in words once it has their results."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        fault = fault_of(body)
        if fault is not None:
            error = {"message": fault, "type": "invalid_request_error"}
            return web.json_response({"error": error}, status=400)
        has_results = any(each["role"] == "tool" for each in body["messages"])
        name = body["tools"][0]["function"]["name"]
        calls = [] if has_results else [_renamed(each, name) for each in CALLS]
        text = "It rains in Köln." if has_results else "Let me see."
        if not body.get("stream"):
            return web.json_response(render_reply(calls, text))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        raw = sse(render_stream(calls, text))
        for at in range(0, len(raw), 97):
            await response.write(raw[at : at + 97])
        return response


def _renamed(call: ToolCall, name: str) -> ToolCall:
    return ToolCall(call_id=call.call_id, tool_name=name, arguments=call.arguments)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, AsyncOpenAI]]:
    server, app = Server(), web.Application()
    app.router.add_post("/v1/chat/completions", server.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        url = f"http://127.0.0.1:{port}/v1"
        async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
            yield server, client
    finally:
        await runner.cleanup()


async def whole(client: AsyncOpenAI, protocol: OpenAIProtocol, **request: Any) -> ParsedReply:
    return protocol.parse(await client.chat.completions.create(model="m", **request))


async def streamed(client: AsyncOpenAI, protocol: OpenAIProtocol, **request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    options = {"include_usage": True}
    create: Any = client.chat.completions.create
    stream = await create(model="m", stream=True, stream_options=options, **request)
    async for each in stream:
        decoder.feed(each)
    return decoder.close()


async def helped(client: AsyncOpenAI, protocol: OpenAIProtocol, **request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    async with client.chat.completions.stream(model="m", **request) as stream:
        async for each in stream:
            decoder.feed(each)
    return decoder.close()


async def raw(client: AsyncOpenAI, protocol: OpenAIProtocol, **request: Any) -> ParsedReply:
    decoder = protocol.decoder()
    create = client.chat.completions.with_streaming_response.create
    async with create(model="m", stream=True, **request) as response:
        async for each in response.iter_bytes():
            decoder.feed(each)
    return decoder.close()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("ask", [whole, streamed, helped, raw])
async def test_an_exchange(ask: Any, strict: bool) -> None:
    """R4, R6, R7: the SDK sends the definitions, brings the calls and takes the results; the whole
    conversation is accepted in the second turn."""
    async with asyncio.timeout(TIMEOUT), serving() as (server, client), ToolEngine() as engine:
        engine.register_tool(DEFINITION, weather)
        tool = engine.index.get_or_raise("weather.get")
        protocol = OpenAIProtocol(tools=engine.index, strict=strict)
        messages: list[Any] = [{"role": "user", "content": "Weather?"}]
        reply = await ask(client, protocol, messages=messages, tools=protocol.definitions([tool]))
        assert [(each.call_id, each.tool_name, each.arguments) for each in reply.calls] == [
            (each.call_id, each.tool_name, each.arguments) for each in CALLS
        ]
        assert (reply.text, reply.findings) == ("Let me see.", [])
        results = [await engine.execute(each.tool_name, each.arguments) for each in reply.calls]
        messages += [*reply.message, *protocol.format_results(results, reply.calls)]
        last = await ask(client, protocol, messages=messages, tools=protocol.definitions([tool]))
        assert (last.text, last.calls, last.stop_reason) == ("It rains in Köln.", [], "stop")
        sent = server.requests[1]["messages"]
        assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool"]
        assert [json.loads(each["content"])["city"] for each in sent[2:]] == ["Köln", "Oslo"]


async def weather(city: str, days: int) -> dict[str, Any]:
    return {"city": city, "days": days, "rain": True}


async def test_the_server_keeps_the_rules() -> None:
    """The loopback server refuses what OpenAI refuses, so that what it takes means something."""
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    async with asyncio.timeout(TIMEOUT), serving() as (_, client):
        for function in (
            {"name": "weather.get", "parameters": parameters},
            {"name": "weather", "parameters": {**parameters, "anyOf": []}},
        ):
            with pytest.raises(BadRequestError):
                await client.chat.completions.create(
                    model="m",
                    messages=[{"role": "user", "content": "Hi"}],
                    tools=[{"type": "function", "function": function}],  # type: ignore[typeddict-item]
                )
