"""How do the engine and the driver of its fleet send each other messages?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Frames(asyncio.Protocol):
    """Both directions of a connection; a message is its length in four bytes, then JSON.

    Args:
        hear: Takes each message.
        end: Is called once, when there will be no more.
    """

    def __init__(self, hear: Callable[[bytes], object], end: Callable[[], object]) -> None:
        self._hear = hear
        self._end = end
        self._received = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=1 << 26)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start = 0
        while len(received) - start >= 4:
            size = int.from_bytes(received[start : start + 4], "big")
            if len(received) - start - 4 < size:
                break
            start += 4 + size
            self._hear(bytes(received[start - size : start]))
        del received[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def send(self, message: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(len(message).to_bytes(4, "big") + message)

    def close(self) -> None:
        self._transport.close()
