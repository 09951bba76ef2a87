"""How is the body of a request read before its app sees it?"""

from __future__ import annotations

from typing import Any, Final

LONGEST: Final = 4 << 20
"""The most bytes of one body."""
LONGEST_WAIT: Final = 60.0
"""Seconds that a client may take to send a body."""


async def read_body(receive: Any, longest: int) -> bytes | None:
    """Return a body, or as much as is too much; None: the client has left."""
    parts, size = [], 0
    while size <= longest:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def replay_body(body: bytes, receive: Any) -> Any:
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return left.pop() if left else await receive()

    return receive_again
