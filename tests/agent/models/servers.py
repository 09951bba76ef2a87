"""How does a provider behave? A server on loopback that plays a conversation in its wire format.

`play("anthropic", [Turn(...), Turn(...)])` answers each request with the next turn, streamed or
whole as the request asks. It refuses what the provider would refuse, and fails where a turn says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from tests.agent.models.speaking import PROVIDERS, Turn

__all__ = ["PlayedServer", "Turn", "play"]

PATHS = {
    "openai": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
"""Where each provider is asked; others have the model's name in theirs."""


class PlayedServer:
    """A provider that answers from a list of turns.

    Attributes:
        url: What a client takes for `base_url`.
        requests: The bodies that came, those that were refused included.
        headers: The headers that came with them.
        problems: What the provider would have refused, in words.
        paused: Set when a turn with `pause_after` waits.
        go_on: Lets it go on.
        gone: Set when a client closed the connection before the end of its answer.
    """

    def __init__(
        self,
        provider: str,
        turns: Sequence[Turn],
        *,
        streamed: bool | None = None,
        refuses: Sequence[str] = (),
    ) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.problems: list[str] = []
        self.paused = asyncio.Event()
        self.go_on = asyncio.Event()
        self.gone = asyncio.Event()
        self._speech = PROVIDERS[provider]()
        self._turns = list(turns)
        self._streamed = streamed
        self._refuses = refuses
        self._error: dict[str, Any] | None = None

    def say_errors_as(self, body: dict[str, Any]) -> None:
        """Sends this in the place of what the provider usually says of a failure."""
        self._error = body

    @property
    def turns_left(self) -> int:
        """How many turns nobody has asked for."""
        return len(self._turns)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        body = await request.json()
        self.requests.append(body)
        self.headers.append(request.headers)
        is_stream = bool(body.get("stream")) or "streamGenerateContent" in request.path
        faults = [*self._speech.faults(body), *self._own_faults(body, is_stream)]
        if faults:
            self.problems += faults
            return self._failure(400, "; ".join(faults))
        turn = self._turns.pop(0)
        if turn.status != 200:
            return self._failure(turn.status, turn.text, turn.headers)
        self._speech.remember(turn)
        self._speech.end(turn)
        try:
            return await self._said(request, turn, is_stream=is_stream)
        except (asyncio.CancelledError, ConnectionResetError):
            self.gone.set()
            raise

    def _own_faults(self, body: dict[str, Any], is_stream: bool) -> list[str]:
        faults = [f"Unknown parameter: '{each}'." for each in self._refuses if each in body]
        if self._streamed not in (None, is_stream):
            faults.append(f"this conversation is played with streamed={self._streamed}")
        if not faults and not self._turns:
            faults.append("the conversation has no more turns")
        return faults

    def _failure(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        error = self._error or self._speech.error(status, message)
        return web.json_response(error, status=status, headers=headers)

    async def _said(
        self, request: web.Request, turn: Turn, *, is_stream: bool
    ) -> web.StreamResponse:
        if turn.raw is not None:
            kind = "text/event-stream" if is_stream else "application/json"
            return web.Response(body=turn.raw, content_type=kind)
        if not is_stream:
            return await self._whole(request, turn)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for place, event in enumerate(self._speech.events(turn)):
            await self._disturb(request, turn, place)
            half = len(event) // 2
            await response.write(event[:half])
            await response.write(event[half:])
        await response.write_eof()
        return response

    async def _whole(self, request: web.Request, turn: Turn) -> web.StreamResponse:
        data = json.dumps(self._speech.whole(turn)).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        await response.write(data[:20])
        await self._disturb(request, turn, turn.cut_after or turn.pause_after or 0)
        await response.write(data[20:])
        return response

    async def _disturb(self, request: web.Request, turn: Turn, place: int) -> None:
        if turn.cut_after is not None and place == turn.cut_after:
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError
        if turn.pause_after is not None and place == turn.pause_after:
            self.paused.set()
            await self.go_on.wait()


@asynccontextmanager
async def play(
    provider: str,
    conversation: Sequence[Turn],
    *,
    streamed: bool | None = None,
    refuses: Sequence[str] = (),
) -> AsyncIterator[PlayedServer]:
    """A server of `provider` on a free port of loopback.

    Args:
        provider: `openai`, `openai_responses`, `anthropic` or `gemini`.
        conversation: What it answers, one turn for each request.
        streamed: Whether requests must ask for a stream; None: as they like.
        refuses: Fields of a request that this server does not know.
    """
    server = PlayedServer(provider, conversation, streamed=streamed, refuses=refuses)
    app = web.Application()
    app.router.add_post(PATHS.get(provider, "/{tail:.*}"), server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        root = f"http://127.0.0.1:{runner.addresses[0][1]}"
        server.url = f"{root}/v1" if provider.startswith("openai") else root
        yield server
    finally:
        server.go_on.set()
        await runner.cleanup()


def failing(status: int, message: str, **headers: str) -> Turn:
    """A turn that is an error."""
    return msgspec.structs.replace(Turn(text=message), status=status, headers=headers)
