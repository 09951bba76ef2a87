"""What names a call, so that no two share a name and none can be guessed?

A caller who has seen a number could go on counting, and two processes would count alike: those
that a server forked, and those that began in one millisecond. So each name ends in a mark that is
drawn from the system, in a supply that a forked process does not share.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["name_call", "name_engine"]

_SUPPLY: Final = 256
"""Marks that are drawn at once: to ask the system for each would cost more than a tool."""
_BYTES: Final = 10
"""Of one mark: so many that two calls of an engine are never named alike."""
_marks: Final[list[str]] = []
_take: Final = _marks.pop


def name_call(engine: str) -> str:
    """The name of a call: its engine's, and twenty digits that were never given before.

    Args:
        engine: What `name_engine` gave.
    """
    try:
        return engine + _take()
    except IndexError:
        drawn = os.urandom(_SUPPLY * _BYTES).hex("-", _BYTES).split("-")
        mark = drawn.pop()
        # Another thread may be drawing, too.
        _marks.extend(drawn)
        return engine + mark


def name_engine() -> str:
    """What the names of all calls of one engine begin with."""
    return f"call-{os.urandom(4).hex()}-"


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_marks.clear)
