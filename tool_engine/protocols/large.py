"""Is there so much in a reply that to read it would hold up the event loop?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

__all__ = ["read_in_time", "size_of"]

_LARGE: Final = 32 * 1024
"""Characters and values that are read in a millisecond or two, whatever is wrong with them."""
_PARTS: Final = 2_000
"""Values that are looked at; what has more is large."""


def size_of(reply: Any) -> int:
    """About how many characters and values a reply of any form has; not counted on when large."""
    try:
        return _size_of(reply)
    except Exception:  # noqa: BLE001 - a foreign object may raise when it is looked at
        return _LARGE + 1


def _size_of(reply: Any) -> int:
    size, rest = 0, [reply]
    for _ in range(_PARTS):
        if not rest or size > _LARGE:
            return size
        part = rest.pop()
        if isinstance(part, str | bytes | bytearray):
            size += len(part)
        elif isinstance(part, dict):
            size += len(part)
            rest.extend(part.values())
        elif isinstance(part, list | tuple):
            size += len(part)
            rest.extend(part)
        else:
            # An SDK's object keeps its fields like any other.
            rest.extend(getattr(part, "__dict__", {}).values())
    return _LARGE + 1


async def read_in_time(read: Callable[..., Any], *given: Any, before: int = 0) -> Any:
    """What `read` makes of a reply or a part of one, in a thread where there is much of it.

    Args:
        read: Reads it.
        given: What it is given.
        before: The size of what came before and is read on with it.
    """
    if before + sum(map(size_of, given)) <= _LARGE:
        return read(*given)
    return await asyncio.to_thread(read, *given)
