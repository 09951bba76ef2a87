"""How do calls get ids that are unique and cannot be guessed?

A caller who has seen a number could go on counting, and two processes would count alike: those
that a server forked, and those that began in one millisecond. So each name ends in a mark that is
drawn from the system, in a supply that a forked process does not share.
"""

from __future__ import annotations

import os
from typing import Final

_SUPPLY: Final = 256
"""Marks that are drawn at once: a request to the system for each would cost more than a tool."""
_BYTES: Final = 10
"""The bytes of one mark: enough that two calls of an engine never share an id."""
_TASK_DIGITS: Final = 32
_marks: Final[list[str]] = []
_take: Final = _marks.pop


def name_call(engine: str) -> str:
    """Return a new call id: the engine's name and twenty digits.

    Args:
        engine: What `name_engine` gave.
    """
    try:
        return engine + _take()
    except IndexError:
        return engine + _draw_marks()


def name_task() -> str:
    """Return a new task id: 128 random bits as hexadecimal digits."""
    try:
        return (_take() + _take())[:_TASK_DIGITS]
    except IndexError:
        return (_draw_marks() + _draw_marks())[:_TASK_DIGITS]


def _draw_marks() -> str:
    drawn = os.urandom(_SUPPLY * _BYTES).hex("-", _BYTES).split("-")
    mark = drawn.pop()
    # Another thread may be drawing, too.
    _marks.extend(drawn)
    return mark


def name_engine() -> str:
    """Return the beginning of all call ids of one engine."""
    return f"call-{os.urandom(4).hex()}-"


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_marks.clear)
