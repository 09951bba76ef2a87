"""How are many rows inserted into SQLite in few steps?

Python holds its lock between two steps and releases it within one. A statement per row would wait
for the lock as often as there are rows, for milliseconds each in a busy program; and it takes twice
as long even in an idle one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from threading import Lock
from typing import Any, Final, TypeAlias

STATEMENTS: Final = 32
"""How many prepared statements a connection should keep."""
_SIZES: Final = (4_000, 2_000, 1_000, 250, 60, 15, 4, 1)
"""Rows per statement."""
MOST_VALUES: Final = 32_766
"""Values that every SQLite takes in one statement."""
_LARGEST: Final = 64_000
"""Values of a statement that takes a few megabytes of memory."""
Statement: TypeAlias = tuple[str, list[Any]]
"""SQL, and the values for it."""


class BulkInsert:
    """Makes the statements that insert rows into one table; from any thread.

    Args:
        table: The name of the table.
        columns: Those of its columns that a row has values for.
        ending: What follows the rows in a statement.
    """

    def __init__(self, table: str, columns: Sequence[str], ending: str) -> None:
        self.most_values = MOST_VALUES
        """Values that the connection takes in one statement."""
        self._table = table
        self._columns = columns
        self._ending = ending
        # Half the time goes into columns that are the same in all rows: those are named once. A
        # column that was not stays out of it, so that statements are used again.
        self._varying: set[int] = set()
        self._texts: dict[int, str] = {}
        self._lock = Lock()

    def statements(self, rows: Sequence[Sequence[Any]]) -> list[Statement]:
        """Return statements that insert `rows`, whose values are in column order."""
        if not rows:
            return []
        columns = list(zip(*rows, strict=True))
        with self._lock:
            self._look_at(columns)
            varying = sorted(self._varying)
            same = [at for at in range(len(columns)) if at not in self._varying]
            room = min(self.most_values, _LARGEST) - len(same)
            sizes = list(_split_sizes(len(rows), room // max(1, len(varying))))
            texts = {size: self._make_text(same, varying, size) for size in set(sizes)}
        shared = [columns[at][0] for at in same]
        values = zip(*(columns[at] for at in varying), strict=True)
        return [
            (texts[size], [*shared, *chain.from_iterable(islice(values, size))]) for size in sizes
        ]

    def _look_at(self, columns: list[tuple[Any, ...]]) -> None:
        found = {at for at, values in enumerate(columns) if values.count(values[0]) < len(values)}
        if not found <= self._varying:
            self._varying |= found
            self._texts.clear()

    def _make_text(self, same: Sequence[int], varying: Sequence[int], size: int) -> str:
        # The very same text each time: that is how the connection finds its prepared statement.
        text = self._texts.get(size)
        if text is None:
            names = ", ".join(self._columns[at] for at in (*same, *varying))
            # A plain `?` is the one after the highest number so far.
            row = ", ".join(
                (*(f"?{number + 1}" for number in range(len(same))), *"?" * len(varying))
            )
            text = self._texts[size] = (
                f"INSERT INTO {self._table} ({names}) VALUES "  # noqa: S608 - names of columns
                f"{', '.join([f'({row})'] * size)} {self._ending}"
            )
        return text


def _split_sizes(count: int, most: int) -> Iterator[int]:
    """Return the parts in which rows go into statements of at most `most` rows."""
    for size in _SIZES:
        if size <= most:
            yield from [size] * (count // size)
            count %= size


def insert_rows(
    connection: sqlite3.Connection,
    statements: Iterable[Statement],
    under_way: Callable[[], None] | None = None,
) -> int:
    """Run statements, and return how many rows were inserted.

    Args:
        connection: In a transaction.
        statements: Those of `BulkInsert`.
        under_way: Called when the first one is about to run.
    """
    count = 0
    for text, values in statements:
        if under_way is not None:
            under_way()
            under_way = None
        count += connection.execute(text, values).rowcount
    return count
