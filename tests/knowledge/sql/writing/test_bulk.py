"""Many rows in few statements: all of them, as they are, whatever they have in common."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.knowledge.sql.writing.bulk import MOST_VALUES, BulkInsert, insert_rows

COLUMNS = ("a", "b", "c", "d")
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from(["", "x", "y"]), st.just(0.5))


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(opened()) as found:
        yield found


def opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE things (a, b, c, d)")
    return connection


def into(connection: sqlite3.Connection, bulk: BulkInsert, rows: list[Any]) -> int:
    return insert_rows(connection, bulk.statements(rows))


@given(st.lists(st.lists(st.tuples(*[VALUES] * 4), max_size=70), max_size=4))
def test_rows_come_in_as_they_are(batches: list[list[tuple[Any, ...]]]) -> None:
    """Batch after batch, whichever columns vary in it, a row is what it was."""
    bulk = BulkInsert("things", COLUMNS, "")
    with closing(opened()) as connection:
        for rows in batches:
            assert into(connection, bulk, rows) == len(rows)
        found = connection.execute("SELECT a, b, c, d FROM things ORDER BY rowid").fetchall()
    assert found == [row for rows in batches for row in rows]


@pytest.mark.parametrize("count", [0, 1, 3, 999, 1_000, 4_000, 4_321, 9_999])
def test_few_statements(connection: sqlite3.Connection, count: int) -> None:
    """So many rows take a few statements, and none more values than every SQLite takes."""
    bulk = BulkInsert("things", COLUMNS, "")
    rows = [(number, -number, "same", None) for number in range(count)]
    statements = bulk.statements(rows)
    assert len(statements) <= 15
    assert all(len(values) <= MOST_VALUES for _, values in statements)
    assert insert_rows(connection, statements) == count
    assert connection.execute("SELECT a, b, c, d FROM things").fetchall() == rows


def test_a_statement_is_used_again(connection: sqlite3.Connection) -> None:
    """The connection knows a statement by its text: it is the same object for every batch."""
    bulk = BulkInsert("things", COLUMNS, "")
    first, second = [(1, 1, 1, 1), (2, 1, 1, 1)], [(3, 1, 2, 1), (4, 1, 1, 1)]
    bulk.statements(first)
    (changed, *_), (again, *_) = bulk.statements(second), bulk.statements(first)
    assert changed[0] is again[0]
    assert into(connection, bulk, first + second) == 4


def test_only_new_rows_are_counted(connection: sqlite3.Connection) -> None:
    """Who inserts learns how many rows were not there yet."""
    connection.execute("CREATE UNIQUE INDEX one ON things (a)")
    bulk = BulkInsert("things", COLUMNS, "ON CONFLICT DO NOTHING")
    assert into(connection, bulk, [(1, 2, 3, 4), (2, 2, 3, 4)]) == 2
    assert into(connection, bulk, [(2, 9, 9, 9), (3, 2, 3, 4)]) == 1


def test_told_once_before_the_first(connection: sqlite3.Connection) -> None:
    """Who wants to work meanwhile is told when the work begins."""
    bulk = BulkInsert("things", COLUMNS, "")
    told: list[int] = []

    def tell() -> None:
        told.append(connection.total_changes)

    insert_rows(connection, bulk.statements([(number, 1, 1, 1) for number in range(70)]), tell)
    assert told == [0]
