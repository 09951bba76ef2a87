"""Is a long value written in pieces the same as at once?"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tool_engine.model.json.output import to_text
from tool_engine.model.json.pieces import write_pieces

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside), max_leaves=40
)
DUMPS = partial(json.dumps, ensure_ascii=False)


@given(VALUES)
def test_pieces_are_the_whole(value: Any) -> None:
    assert "".join(write_pieces(value, DUMPS)) == DUMPS(value)


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
    ]
    for value in values:
        pieces = list(write_pieces(value, DUMPS))
        assert "".join(pieces) == DUMPS(value)
        assert max(map(len, pieces)) < 300_000


def test_many_rows_are_the_same_text() -> None:
    rows = list_rows(20_000)
    assert to_text(rows) == DUMPS(rows)
    assert to_text([*rows, float("nan")]) == DUMPS([*rows, "nan"])
