"""How is a large value read without slow garbage collections?

The collector visits all live objects each time that some hundred lists and mappings were made.
While a megabyte of small ones is read, that takes nearly all of the time, and none of it can be
garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

LARGE: Final = 32 * 1024
"""Bytes or characters from which on pausing the collector pays."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the garbage collector while one value is read."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def unpack_value(data: bytes) -> Any:
    """Return the value of a MessagePack; a new one each time.

    Raises:
        msgspec.DecodeError: It is no MessagePack.
    """
    if len(data) < LARGE:
        return msgspec.msgpack.decode(data)
    with without_collection():
        return msgspec.msgpack.decode(data)
