"""How is a large value read, so that the garbage collector does not make it slow?

The collector looks at what is alive each time that some hundred lists and mappings were made. While
a megabyte of small ones is read that is nearly all of the time, and nothing of it can be garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

__all__ = ["LARGE", "unpack", "without_collection"]

LARGE: Final = 32 * 1024
"""Bytes or characters from which on it pays to hold the collector off."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Holds the collector off while one value is read."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def unpack(data: bytes) -> Any:
    """The value of a MessagePack; a new one each time.

    Raises:
        msgspec.DecodeError: It is no MessagePack.
    """
    if len(data) < LARGE:
        return msgspec.msgpack.decode(data)
    with without_collection():
        return msgspec.msgpack.decode(data)
