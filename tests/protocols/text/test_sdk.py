"""The text protocols over the official SDK of OpenAI, as a client of a server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from openai import AsyncOpenAI

from tool_engine import ToolEngine
from tool_engine.interfaces import ReplyDecoder
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.registry import get_protocol

TIMEOUT = 20.0
TEXTS = {
    "vcp": "好。\n\n<<<[TOOL_REQUEST]>>>\ntool_name:「始」add「末」,\na:「始」2「末」,\n"
    "b:「始」3「末」\n<<<[END_TOOL_REQUEST]>>>\n",
    "function_call": '好。\n\n<function_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n'
    "</function_call>\n",
}


class Server:
    """A model that knows no tools: it writes text, and answers once it is told a result."""

    def __init__(self, text: str) -> None:
        self.requests: list[dict[str, Any]] = []
        self._text = text

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        text = self._text if len(body["messages"]) == 2 else "It is 5."
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return web.json_response({**HEAD, "object": "chat.completion", "choices": [choice]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta, reason in [*(({"content": each}, None) for each in text), ({}, "stop")]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response


HEAD = {"id": "c", "created": 1, "model": "m"}


@asynccontextmanager
async def serving(text: str) -> AsyncIterator[tuple[Server, AsyncOpenAI]]:
    server, app = Server(text), web.Application()
    app.router.add_post("/v1/chat/completions", server.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
            yield server, client
    finally:
        await runner.cleanup()


async def asked(client: AsyncOpenAI, protocol: Any, messages: Any, *, stream: bool) -> ParsedReply:
    create: Any = client.chat.completions.create
    decoder: ReplyDecoder = protocol.decoder()
    if not stream:
        decoder.feed(await create(model="m", messages=messages))
        return decoder.close()
    async for chunk in await create(model="m", messages=messages, stream=True):
        decoder.feed(chunk)
    return decoder.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", TEXTS)
async def test_an_exchange(name: str, stream: bool) -> None:
    """A41, D9: the prompt is sent, the call comes back as text, is run, and its result is read."""
    engine = ToolEngine()

    @engine.tool
    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    protocol: Any = get_protocol(name, tools=engine.index)
    system = {"role": "system", "content": protocol.prompt(engine.index.list_all())}
    messages: list[Any] = [system, {"role": "user", "content": "2 + 3?"}]
    async with asyncio.timeout(TIMEOUT), serving(TEXTS[name]) as (server, client):
        reply = await asked(client, protocol, messages, stream=stream)
        [call] = reply.calls
        assert (call.tool_name, call.arguments, call.is_runnable) == ("add", {"a": 2, "b": 3}, True)
        assert (reply.text.strip(), reply.stop_reason) == ("好。", "stop")
        result = await engine.execute(call.tool_name, call.arguments)
        told = protocol.format_results([result], reply.calls)
        messages += [*reply.message, {"role": "user", "content": told}]
        last = await asked(client, protocol, messages, stream=stream)
    assert (last.text, last.calls, last.findings) == ("It is 5.", [], [])
    sent = server.requests[1]["messages"]
    assert sent[2] == {"role": "assistant", "content": TEXTS[name]}
    assert "5" in sent[3]["content"]
    assert "add" in sent[0]["content"]
    await engine.close()
