"""How is the body of a request read before its app sees it?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.access.stepping import go_on

LONGEST: Final = 4 << 20
"""The most bytes of one body."""
_LONGEST_WAIT: Final = 60.0
"""Seconds that a client may take to send a body."""
_MOST_READ: Final = 16 * LONGEST
"""The most bytes that are read of a body that is refused."""
_LONGEST_LINGER: Final = 10.0
"""Seconds for which a body is read that is refused."""
_LONGEST_SILENCE: Final = 1.0
"""Seconds without a part of it, after which no more is waited for."""
_ANNOUNCING: Final = frozenset((b"content-length", b"transfer-encoding"))


def has_body(scope: Any, sent: Mapping[bytes, bytes]) -> bool:
    """Return True if the headers of a request say that a body comes, whatever its method.

    Raises:
        Problem: Where the body ends can be read in two ways, or it is too large.
    """
    length, is_chunked = sent.get(b"content-length", b"0"), b"transfer-encoding" in sent
    # A proxy in front may have gone by the length, or know no chunks, as one of HTTP/1.0: then its
    # next request would begin in this body.
    is_unclear = is_chunked and (b"content-length" in sent or scope.get("http_version") == "1.0")
    if is_unclear or not length.isdigit():
        raise Problem(
            400,
            "two-lengths",
            "the end of the body is not clear; send one Content-Length or Transfer-Encoding",
        )
    digits = length.lstrip(b"0")
    if len(digits) > len(str(LONGEST)) or int(digits or b"0") > LONGEST:
        raise _make_too_large()
    return is_chunked or bool(digits)


async def read_body(receive: Any) -> bytes | None:
    """Return the body of a request; None: its client has left.

    Raises:
        Problem: It is too large, or does not come in time.
    """
    reading = _read_parts(receive)
    try:
        # Most bodies come with their head: they are read in one step, without a timer.
        waited_for = reading.send(None)
    except StopIteration as ended:
        body: bytes | None = ended.value
        return body
    return await _read_in_time(reading, waited_for)


def announces_body(scope: Any) -> bool:
    """Return True if a client sends a body without waiting to be asked for it."""
    names = {name for name, _ in scope["headers"]}
    return b"expect" not in names and not names.isdisjoint(_ANNOUNCING)


async def discard_body(receive: Any) -> None:
    """Read a body that is refused, to its end if it comes in time.

    A connection that is closed while its client still sends is reset: most clients read the answer
    after they have sent all, and never see it.
    """
    size, is_more, loop = 0, True, asyncio.get_running_loop()
    latest = loop.time() + _LONGEST_LINGER
    with suppress(TimeoutError):
        while is_more and size <= _MOST_READ:
            async with asyncio.timeout_at(min(loop.time() + _LONGEST_SILENCE, latest)):
                message = await receive()
            size += len(message.get("body", b""))
            is_more = message.get("more_body", False)


def replay_body(body: bytes, receive: Any) -> Any:
    """Return what gives an app a body that was read before."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return left.pop() if left else await receive()

    return receive_again


async def _read_parts(receive: Any) -> bytes | None:
    """Return a body; None: the client has left.

    Raises:
        Problem: It is too large, and not read to its end.
    """
    parts, size, is_more = [], 0, True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LONGEST:
            raise _make_too_large()
        is_more = message.get("more_body", False)
    return b"".join(parts)


async def _read_in_time(
    reading: Coroutine[Any, Any, bytes | None], waited_for: Any
) -> bytes | None:
    try:
        async with asyncio.timeout(_LONGEST_WAIT):
            return await go_on(reading, waited_for)
    except TimeoutError:
        raise Problem(408, "late-body", "the body did not come in time; send it again") from None


def _make_too_large() -> Problem:
    return Problem(413, "too-large", f"a body may have {LONGEST >> 20} MiB; send less")
