"""Cutting the one long list of an output whose packed form is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.knowledge import cut_list
from tool_engine.knowledge.cut_list import keep_packed_beginning
from tool_engine.knowledge.snapshot import (
    MAX_SNAPSHOT,
    TRUNCATED,
    keep_beginning,
    pack_plain,
    restore_value,
)

ROW = {"id": 7, "name": "a name of some length", "price": 1.5, "tags": ["x", None, True]}


def rows_of(size: int) -> list[Any]:
    """Rows that are packed in about so many bytes."""
    return [{**ROW, "id": number} for number in range(size // len(pack_plain(ROW)) + 1)]


@pytest.fixture
def no_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(output: object, size: int) -> bytes:
        raise AssertionError(f"{type(output)} of {size} bytes was copied value by value")

    monkeypatch.setattr(cut_list, "keep_beginning", refuse)


@pytest.mark.usefixtures("no_slow_way")
@pytest.mark.parametrize("size", [MAX_SNAPSHOT + 1, 2 * MAX_SNAPSHOT, 1_000_000])
@pytest.mark.parametrize(
    "beside",
    [{}, {"total": 12}, {"page": {"next": None}, "note": "x" * 300}],
    ids=["alone", "one", "two"],
)
def test_whole_rows_are_kept(size: int, beside: dict[str, Any]) -> None:
    """The first rows stay as they are, what stands beside the list too, and the note says the rest.

    No row is looked at: a list of rows costs little more than to pack it.
    """
    first = dict(list(beside.items())[:1])
    output = {**first, "rows": rows_of(size), **beside}
    packed = pack_plain(output)
    kept = restore_value(data := keep_packed_beginning(output, packed))
    *rows, note = kept.pop("rows")
    assert MAX_SNAPSHOT // 2 < len(data) <= MAX_SNAPSHOT
    assert kept == {**beside, TRUNCATED: {"size": len(packed)}}
    assert rows == output["rows"][: len(rows)]
    assert note == f"[{len(output['rows']) - len(rows):,} more]"


@pytest.mark.parametrize(
    "output",
    [
        {"text": "x" * 100_000},
        {"rows": ["x" * 100_000, *range(30_000)]},
        {"rows": rows_of(70_000), "more": rows_of(70_000)},
        {"rows": rows_of(70_000), "text": "y" * 70_000},
        {str(number): number for number in range(20_000)},
    ],
    ids=["text", "first row", "two lists", "text beside", "keys"],
)
def test_what_is_no_list_of_rows_is_cut_value_by_value(output: dict[str, Any]) -> None:
    """Where whole rows would be too little, parts are kept as for any value."""
    packed = pack_plain(output)
    assert keep_packed_beginning(output, packed) == keep_beginning(output, len(packed))


@pytest.mark.parametrize("change", ["first", "last", "fewer", "more"])
def test_a_list_that_has_changed_since_reads_well(change: str) -> None:
    """Another thread may change the rows: what is kept is still whole values."""
    output = {"rows": rows_of(80_000)}
    packed = pack_plain(output)
    rows = output["rows"]
    if change in ("first", "last"):
        rows[0 if change == "first" else -1] = {"id": "another"}
    elif change == "fewer":
        del rows[100:]
    else:
        rows += rows_of(3_000)
    kept = restore_value(keep_packed_beginning(output, packed))
    whole = [row for row in kept["rows"] if isinstance(row, dict)][:-1]
    assert whole
    assert all(row in rows or row == {**ROW, "id": 0} for row in whole)
    assert kept[TRUNCATED] == {"size": len(packed)}


CELLS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=400)


@settings(max_examples=share_of(100), deadline=None)
@given(
    some=st.lists(st.dictionaries(st.text(max_size=9), CELLS, max_size=8), min_size=1, max_size=30),
    beside=st.dictionaries(st.text(max_size=9), CELLS, max_size=3),
)
def test_any_rows(some: list[dict[str, Any]], beside: dict[str, Any]) -> None:
    """Rows of any sizes: what is kept is a beginning, in bounds, and tells the size of all."""
    rows = some * (1 + 200_000 // len(pack_plain(some)))
    output = {**beside, "rows": rows}
    packed = pack_plain(output)
    data = keep_packed_beginning(output, packed)
    kept = restore_value(data)
    whole = [row for row in kept["rows"] if isinstance(row, dict)]
    assert len(data) <= MAX_SNAPSHOT
    assert kept[TRUNCATED] == {"size": len(packed)}
    assert restore_value(pack_plain(rows[: len(whole) - 1])) == whole[:-1]
