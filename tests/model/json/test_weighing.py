"""Is a long value written in pieces the same as at once?"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.model.json import weighing
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.json.weighing import PIECE, measure_packed, write_in_pieces

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside), max_leaves=40
)
DUMPS = partial(json.dumps, ensure_ascii=False)


@given(VALUES)
def test_pieces_are_the_whole(value: Any) -> None:
    assert "".join(write_in_pieces(value, DUMPS)) == DUMPS(value)


def list_rows(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"row {number}", "is_new": True} for number in range(count)]


def test_no_piece_takes_long() -> None:
    """Wherever the many entries or letters stand."""
    rows = list_rows(20_000)
    values: list[Any] = [
        rows,
        {"result": rows},
        [{"deep": [[rows]]}],
        tuple(rows),
        dict(zip(map(str, range(50_000)), range(50_000), strict=True)),
        "x" * 2_000_000,
        [["y" * 2_000_000] * 2] * 2,
        # Behind many short ones.
        [*range(100_000), rows, rows],
        [*([{}] * 100_000), {"name": "z" * 2_000_000}],
        {**dict.fromkeys(map(str, range(100_000))), "rows": rows},
    ]
    for value in values:
        pieces = list(write_in_pieces(value, DUMPS))
        assert "".join(pieces) == DUMPS(value)
        assert max(map(len, pieces)) < 8 * PIECE


def hold_itself() -> list[Any]:
    holder: list[Any] = list_rows(20_000)
    holder.append({"again": holder})
    return holder


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (hold_itself(), ValueError),
        (dict.fromkeys(range(100_000)), TypeError),
        ([{1: None, "1": None}, "x" * PIECE], TypeError),
    ],
    ids=["holds itself", "numbers as keys", "keys that are the same"],
)
def test_what_json_cannot_hold(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        list(write_in_pieces(value, DUMPS))


def test_many_rows_are_the_same_text() -> None:
    rows = list_rows(20_000)
    assert to_text(rows) == DUMPS(rows)
    assert to_text([*rows, float("nan")]) == DUMPS([*rows, "NaN"])


PACKED = st.recursive(
    LEAVES | st.binary() | st.datetimes() | st.decimals(allow_nan=False),
    lambda inside: (
        st.lists(inside)
        | st.lists(inside).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inside)
    ),
    max_leaves=60,
)


@pytest.mark.parametrize("piece", [1, 7, PIECE])
def test_what_is_measured_is_what_is_packed(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is cut into pieces, and whether or not it has a packed form."""
    monkeypatch.setattr(weighing, "PIECE", piece)
    monkeypatch.setattr(weighing, "_STEP", min(piece, 8_192))

    @settings(max_examples=share_of(400))
    @given(PACKED)
    def compare(value: Any) -> None:
        try:
            size = len(msgspec.msgpack.encode(value))
        except (OverflowError, UnicodeError):
            with pytest.raises((OverflowError, UnicodeError)):
                measure_packed(value)
        else:
            assert measure_packed(value) == size

    compare()


@pytest.mark.parametrize("count", [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536, 200_000])
def test_sizes_at_which_the_packed_form_changes(count: int) -> None:
    rows = list_rows(count)
    for value in (
        "x" * count,
        "é" * count,
        "x" * (count - 1) + "é",
        [None] * count,
        tuple(rows),
        dict.fromkeys(range(count)),
        {str(number): row for number, row in enumerate(rows)},
        [[["x" * count], rows], rows],
    ):
        assert measure_packed(value) == len(msgspec.msgpack.encode(value))


def test_what_is_foreign_or_holds_itself_is_not_measured() -> None:
    for value in (object(), [*list_rows(20_000), object()], {"a": [object()]}):
        with pytest.raises(TypeError):
            measure_packed(value)
    with pytest.raises(RecursionError):
        measure_packed(hold_itself())
