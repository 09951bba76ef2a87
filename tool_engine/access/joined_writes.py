"""How does what is written bit by bit go out as one packet?"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_LONG_PART: Final = 1 << 14
"""Bytes of a part that waits for no others."""


class JoinedWrites:
    """A transport that sends what is written in one turn of the loop at once.

    Args:
        transport: Sends it.
        loop: Whose turns count.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._is_lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._parts:
            self._loop.call_soon(self._send_parts)
        self._parts.append(data)
        if len(data) > _LONG_PART:
            # So that what writes hears when the client does not keep up.
            self._send_parts()

    def close(self) -> None:
        self._send_parts()
        self._transport.close()

    def end_writing(self) -> None:
        """Say that nothing more comes; what the client sends is still read."""
        self._send_parts()
        self._transport.write_eof()

    def drop(self) -> None:
        """Send nothing more."""
        self._is_lost = True

    def _send_parts(self) -> None:
        parts, self._parts = self._parts, []
        # To write to a client that has left is a line of asyncio's in the log, again and again.
        if parts and not (self._is_lost or self._transport.is_closing()):
            self._transport.write(b"".join(parts))
