"""Which row of a database is damaged, and how does a reader go on without it?

A file may be written by other programs, cut off, or lie on a disk that fails. SQLite keeps in a
column whatever it is given. A row that is not what this version writes is never guessed at, and
never left out in silence: it is refused, with its place.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final, TypeVar

import msgspec

from tool_engine.errors import RecordsUnavailableError

T = TypeVar("T")
DAMAGE: Final = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError),
    *(OSError, MemoryError, zlib.error, msgspec.MsgspecError),
)
"""What the decoding of a damaged row may raise."""


def _is_text(value: Any) -> bool:
    # What is no UTF-8 is read as halves of characters, which no text here has.
    return type(value) is str and (
        value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)
    )


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _is_seconds(value: Any) -> bool:
    return type(value) in (float, int, bool) and isfinite(value) and value >= 0


def _is_flag(value: Any) -> bool:
    return type(value) in (int, bool) and value in (0, 1)


FLAG: Final = _is_flag
INTEGER: Final = _is_integer
SECONDS: Final = _is_seconds
"""A time that passed: one that ends before it begins is none."""


def check_values(
    values: Iterable[tuple[str, Any]],
    kinds: Mapping[str, Callable[[Any], bool]],
    optional: Iterable[str] = (),
) -> None:
    """Raises ValueError for the first value that its column cannot hold.

    Args:
        values: Columns and their values.
        kinds: What each column holds; a text where nothing is said.
        optional: The columns that may be empty.
    """
    for name, value in values:
        if value is None and name in optional:
            continue
        if not kinds.get(name, _is_text)(value):
            raise ValueError(f"{name} holds {repr(value)[:60]}")


def damaged_row(place: str, error: object, cure: str) -> RecordsUnavailableError:
    """The error about one row.

    Args:
        place: The row and its table.
        error: What is wrong with it.
        cure: What to do.
    """
    why = " ".join(str(error).split())[:200] or type(error).__name__
    return RecordsUnavailableError(
        f"{place} is damaged, or was written by another version: {why}; {cure}"
    )


def read_row(make: Callable[[], T], place: str, cure: str) -> T:
    """What `make` reads in one row.

    Raises:
        RecordsUnavailableError: The row is damaged.
    """
    try:
        return make()
    except DAMAGE as error:
        raise damaged_row(place, error, cure) from error
