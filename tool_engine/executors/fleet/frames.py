"""How do the engine, the driver of its fleet and the workers send each other messages?

A message is its length in four bytes, then JSON. Those of calls go in bundles, which only the two
ends look into: what is between them passes on bytes. Each message of a bundle is a list, so that a
hundred calls are read and written as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final

BUNDLE: Final = b"\x00"
"""What a message begins with that is a bundle for, or of, one worker; all others are JSON."""
_HEAD: Final = Struct(">cII")
_BUFFER: Final = 1 << 18


class Frames(asyncio.Protocol):
    """Both directions of a connection between the engine and its driver.

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
            self._transport.write(frame_message(message))

    def close(self) -> None:
        self._transport.close()

    def cut(self) -> None:
        """End it for both, whether or not its loop runs."""
        with contextlib.suppress(OSError):
            self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class FrameWriter:
    """One direction of such a connection, for any thread.

    Args:
        connection: Blocks; a reader that is slow is waited for.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: bytes) -> None:
        # Its end is noticed by who reads.
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(frame_message(message))


def read_frames(connection: socket.socket) -> Iterator[bytes]:
    """Return the messages of a connection that blocks, until there are no more."""
    with connection.makefile("rb", buffering=_BUFFER) as file, contextlib.suppress(OSError):
        while len(head := file.read(4)) == 4:
            message = file.read(int.from_bytes(head, "big"))
            yield message


def join_items(items: Iterable[bytes]) -> bytes:
    """Return the message that lists items."""
    return b"[%b]" % b",".join(items)


def frame_message(message: bytes) -> bytes:
    """Return a message with its length before it."""
    return len(message).to_bytes(4, "big") + message


def split_messages(bundle: bytes) -> list[bytes]:
    """Return the messages of a bundle."""
    messages, at, end = [], 0, len(bundle)
    while at < end:
        start = at + 4
        at = start + int.from_bytes(bundle[at:start], "big")
        messages.append(bundle[start:at])
    return messages


def write_bundle(worker: int, count: int, bundle: bytes) -> bytes:
    """Return the message with a bundle; `count` of its messages are what the reader counts."""
    return _HEAD.pack(BUNDLE, worker, count) + bundle


def read_bundle(message: bytes) -> tuple[int, int, bytes]:
    """Return the worker, the count and the bundle of a message that begins with `BUNDLE`."""
    _, worker, count = _HEAD.unpack_from(message)
    return worker, count, message[_HEAD.size :]
