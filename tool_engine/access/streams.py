"""When does a stream end whose reader may not read it any more?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

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
    """Let an app answer until the token of its client is not taken, and end what it has begun."""
    is_open = False

    async def send_on(message: Any) -> None:
        nonlocal is_open
        is_open = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    await app(scope, leave_when_unknown(receive, scope["is_known"]), send_on)
    if is_open:
        await send({"type": "http.response.body", "body": b""})
