"""Is a reply, or a result, so large that reading it would block the event loop?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

_LARGE: Final = 32 * 1024
"""Characters and values that take a millisecond or two to read, in the worst case."""
_SCALARS: Final = frozenset((int, float, bool, type(None)))
_LISTS: Final = (list, tuple)
_TEXTS: Final = (str, bytes, bytearray)
_PARTS: Final = 2_000
"""The most values that are counted; more are large."""


def estimate_size(reply: Any) -> int:
    """Estimate the characters and values of a reply or of results, until they are large."""
    try:
        return _estimate_size(reply)
    except Exception:  # noqa: BLE001 - a foreign object may raise when it is read
        return _LARGE + 1


def _estimate_size(reply: Any) -> int:
    size, rest = 0, [reply]
    for _ in range(_PARTS):
        if not rest or size > _LARGE:
            return size
        part = rest.pop()
        kind = type(part)
        if kind in _SCALARS:
            continue
        if kind is str or isinstance(part, _TEXTS):
            size += len(part)
        elif isinstance(part, dict):
            size += len(part)
            rest.extend(part.values())
        elif isinstance(part, _LISTS):
            size += len(part)
            rest.extend(part)
        elif isinstance(part, msgspec.Struct):
            rest.extend(getattr(part, name) for name in part.__struct_fields__)
        else:
            # An SDK's object keeps its fields like any other.
            rest.extend(getattr(part, "__dict__", {}).values())
    return _LARGE + 1


async def read_in_time(read: Callable[..., Any], *given: Any, before: int = 0) -> Any:
    """Return `read(*given)`, computed in a thread if the data is large.

    `before` is the size of earlier data that is read along.
    """
    if before + sum(map(estimate_size, given)) <= _LARGE:
        return read(*given)
    return await asyncio.to_thread(read, *given)
