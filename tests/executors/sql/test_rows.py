"""A result has an end, and says what it does not hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tool_engine.executors.sql.rows import Rows
from tool_engine.executors.sql.sql_entry import SQLPlan
from tool_engine.executors.sql.statement import parse_statement

PLAN = SQLPlan(
    tool="sample",
    source="shop",
    statement=parse_statement("SELECT 1"),
    is_readonly=True,
    lists=frozenset(),
    choices={},
    max_rows=3,
    max_columns=4,
    max_bytes=1000,
)


def filled(rows: list[tuple[Any, ...]], names: list[str], **limits: int) -> Rows:
    made = Rows(msgspec.structs.replace(PLAN, **limits), names)
    for row in rows:
        made.add(row)
    return made


def test_all_of_it() -> None:
    """Up to the limits nothing is left out, and no note is there."""
    assert filled([(1, "a"), (2, None)], ["id", "name"]).result() == {
        "columns": ["id", "name"],
        "rows": [{"id": 1, "name": "a"}, {"id": 2, "name": None}],
        "row_count": 2,
        "is_complete": True,
    }
    assert filled([(1,)] * 3, ["x"]).result()["is_complete"]


def test_too_many_rows() -> None:
    """The note says how many are here and what to do."""
    rows = filled([(number,) for number in range(5)], ["x"])
    assert rows.is_full
    assert rows.count == 5
    result = rows.result()
    assert (result["row_count"], result["is_complete"]) == (3, False)
    assert result["note"].startswith("Only the first 3 rows are here, there are more")


def test_too_many_bytes() -> None:
    """Rows are whole or not there; a result is never larger than it may be."""
    result = filled([("x" * 400,)] * 3, ["x"]).result()
    assert result["row_count"] == 2
    assert "more would exceed 1000 bytes" in result["note"]
    assert len(msgspec.json.encode(result["rows"])) <= 1000 + 2 * 3
    alone = filled([("x" * 1400,), ("y",)], ["x"]).result()
    assert (alone["rows"], alone["is_complete"]) == ([], False)
    assert "the first one alone has 1408 bytes, and a result may have 1000" in alone["note"]


def test_too_many_columns() -> None:
    """The first columns stay; the note counts the others."""
    result = filled([tuple(range(6))], list("abcdef")).result()
    assert result["columns"] == ["a", "b", "c", "d"]
    assert result["rows"] == [{"a": 0, "b": 1, "c": 2, "d": 3}]
    assert result["note"] == "Only the first 4 columns are here, 2 more are left out."
    assert not result["is_complete"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["id", "id", "id"], ["id", "id_2", "id_3"]),
        (["id", "id", "id_2"], ["id", "id_3", "id_2"]),
        (["id_2", "id", "id"], ["id_2", "id", "id_3"]),
        (["", ""], ["", "_2"]),
    ],
)
def test_no_column_hides_another(names: list[str], expected: list[str]) -> None:
    """Columns of one name are all there."""
    result = filled([tuple(range(len(names)))], names).result()
    assert result["columns"] == expected
    assert list(result["rows"][0].values()) == list(range(len(names)))


def test_a_batch_is_as_large_as_what_fits() -> None:
    """Few rows while their size is unknown, never far more than the result has room for."""
    rows = filled([], ["x"], max_rows=10_000, max_bytes=100_000)
    assert rows.batch <= 16
    rows.add(("x" * 1000,))
    assert 90 <= rows.batch <= 110
    small = filled([(1,)], ["x"], max_rows=10_000, max_bytes=100_000)
    assert small.batch <= 513
    assert filled([(1,)] * 2, ["x"]).batch == 2
