"""Is a long value written in pieces the same as at once?"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.model.json.output import to_text
from tool_engine.model.json.weighing import PIECE, write_in_pieces

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
    assert to_text([*rows, float("nan")]) == DUMPS([*rows, "nan"])
