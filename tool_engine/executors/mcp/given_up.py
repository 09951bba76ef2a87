"""What becomes of requests over HTTP whose callers wait no more?

Before 2026-07-28 a message says so to the server. The SDK sends nothing else until that is
answered, and leaves the request open: of a server that stands still, each call would hold its slot
for seconds, and a connection for ever.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
import httpx2

PATIENCE: Final = 2.0
"""Seconds for an answer that says nothing."""
_NUMBERED: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(\d+),"method":(?:("tools/call"))?')
_GIVEN_UP: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"notifications/cancelled","params":\{"requestId":(\d+)\D'
)
"""How the SDK writes a request, and that it is given up."""

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class OpenRequests:
    """The requests of one client that are not answered whole.

    Args:
        on_refusal: Called after each message that was not taken, where results come elsewhere:
            there the SDK sends nothing else before a call is taken, either. None: they do not.
    """

    def __init__(self, on_refusal: Callable[[], None] | None) -> None:
        self._on_refusal = on_refusal
        self._waiting: dict[bytes, anyio.CancelScope] = {}
        """Of each whose answer has not begun."""
        self._answering: WeakValueDictionary[bytes, httpx2.Response] = WeakValueDictionary()
        """The answers that have begun, and may be streams."""
        self._works: set[asyncio.Task[Any]] = set()

    async def send(self, request: httpx2.Request, send: Send) -> httpx2.Response | None:
        """Send a message, and return its answer; None: it was given up meanwhile.

        One that gives another one up is answered at once.
        """
        if (given_up := _GIVEN_UP.match(request.content)) is not None:
            return self._answer_at_once(request, self._give_up(given_up[1], request, send))
        found = _NUMBERED.match(request.content)
        if found is None:
            return await self._send_checked(request, send)
        work = self._send_numbered(found[1], request, send)
        if self._on_refusal is not None and found[2] is not None:
            return self._answer_at_once(request, work)
        return await work

    async def close(self) -> None:
        """Send nothing more."""
        for each in self._works:
            each.cancel()
        if self._works:
            await asyncio.wait(self._works)

    def _answer_at_once(
        self, request: httpx2.Request, work: Coroutine[Any, Any, object]
    ) -> httpx2.Response:
        task = asyncio.get_running_loop().create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return httpx2.Response(202, request=request)

    async def _send_numbered(
        self, number: bytes, request: httpx2.Request, send: Send
    ) -> httpx2.Response | None:
        with anyio.CancelScope() as scope:
            self._waiting[number] = scope
            try:
                response = await self._send_checked(request, send)
                self._answering[number] = response
                return response
            finally:
                del self._waiting[number]
        return None

    async def _send_checked(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        response = await send(request)
        if self._on_refusal is not None and response.is_error:
            self._on_refusal()
        return response

    async def _give_up(self, number: bytes, request: httpx2.Request, send: Send) -> None:
        """Say to a server that a request is given up, and wait no more for its answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                answer = await send(request)
                # As the SDK follows redirects: to the same server.
                again = answer.next_request
                if again is not None and _origin_of(again) == _origin_of(request):
                    answer = await send(again)
                await answer.aclose()
        if (scope := self._waiting.get(number)) is not None:
            scope.cancel()
        elif (response := self._answering.get(number)) is not None:
            await response.aclose()


def _origin_of(request: httpx2.Request) -> tuple[str, bytes]:
    return request.url.scheme, request.url.netloc
