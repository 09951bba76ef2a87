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

_YOUNG: Final = 1
"""The older one of the generations that are not old."""
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


@contextmanager
def making_old_values() -> Iterator[None]:
    """Pause the garbage collector while thousands of values are made, which count as old then.

    Else the next small collection visits them all, which takes longer than to make them. What
    was young before is collected first, so that none of its garbage counts as old, too.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect(_YOUNG)
    with without_collection():
        yield
        # A program that has frozen values itself keeps them frozen.
        if hasattr(gc, "freeze") and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()


def unpack_value(data: bytes) -> Any:
    """Return the value of a MessagePack; a new one each time.

    Raises:
        msgspec.DecodeError: It is no MessagePack.
    """
    if len(data) < LARGE:
        return msgspec.msgpack.decode(data)
    with without_collection():
        return msgspec.msgpack.decode(data)
