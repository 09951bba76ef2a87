"""When does a stream end whose reader may not read it any more?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tool_engine.access.problem import make_unknown, send_problem

_LOOK: Final = 10.0
"""Seconds between two looks at the token of a reader."""


def leave_when_unknown(receive: Any, is_known: Callable[[], Awaitable[bool]]) -> Any:
    """Return a `receive` for which a client has left as soon as its token is not taken.

    What a stream holds and runs is given up then, as for each client that leaves.
    """

    async def receive_while_known() -> Any:
        coming = asyncio.ensure_future(receive())
        try:
            while not (await asyncio.wait([coming], timeout=_LOOK))[0]:
                if not await is_known():
                    return {"type": "http.disconnect"}
            return coming.result()
        finally:
            coming.cancel()

    return receive_while_known


async def answer_while_known(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Let an app answer until the token of its client is not taken, and end what it has begun.

    An answer that says how long it is, and has begun before, goes out whole.
    """
    answer = _Answer(scope["is_known"], send)
    await app(scope, leave_when_unknown(receive, answer.check_reader), answer.send)
    await answer.end()


class _Answer:
    """The answer to one client, as far as it may read it."""

    def __init__(self, is_known: Callable[[], Awaitable[bool]], send: Any) -> None:
        self._is_known = is_known
        self._send = send
        self._is_taken = True
        """Whether the token of the client is taken, as far as is known."""
        self._has_begun = False
        self._is_open = False
        self._is_measured = False
        """Whether it said how long it is."""

    async def check_reader(self) -> bool:
        self._is_taken = await self._is_known()
        return self._is_taken

    async def send(self, message: Any) -> None:
        if not (self._is_taken or (self._is_measured and self._is_open)):
            return  # of work that went on when it was given up
        if message["type"] == "http.response.start":
            self._has_begun = True
            self._is_open = True
            names = [name for name, _ in message.get("headers", ())]
            self._is_measured = b"content-length" in names
        else:
            self._is_open = message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """End an answer that its reader may not read any more, or say that it may not."""
        if self._is_open:
            await self._send({"type": "http.response.body", "body": b""})
        elif not (self._has_begun or self._is_taken):
            await send_problem(make_unknown(), self._send)
