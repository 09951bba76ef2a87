"""Which key is free for an entry whose name is already taken?"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sized
from typing import Any, Final, Protocol

_MARKS: Final = ("", "'", "''", "'''")


class _Keys(Container[str], Sized, Protocol):
    """The keys that are there."""


def free_key(name: str, taken: _Keys) -> str:
    """Return `name`, or a similar name that is not among `taken`, in few steps."""
    for mark in _MARKS:
        if name + mark not in taken:
            return name + mark
    # Thousands of keys may have become one name, and who chose them may have foreseen this one.
    number = len(taken)
    while f"{name}'{number}" in taken:
        number *= 2
    return f"{name}'{number}"


def text_key(key: Any, value: Mapping[Any, Any], write: Callable[[Any], str] = str) -> str:
    """Return a key as text; a key that was no text gives way: `1` to `"1"`."""
    return key if isinstance(key, str) else free_key(write(key), value)
