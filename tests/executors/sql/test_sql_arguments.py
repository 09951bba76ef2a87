"""A JSON value meets a type of PostgreSQL."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tool_engine.executors.sql.sql_arguments import ArgumentError, convert_argument


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, "int4", None),
        (5, "int4", 5),
        ("5", "int8", 5),
        (5.0, "int2", 5),
        (5, "float8", 5.0),
        ("1.5", "float4", 1.5),
        (1.1, "numeric", Decimal("1.1")),
        ("12.50", "numeric", Decimal("12.50")),
        (True, "bool", True),
        ("TRUE", "bool", True),
        ("a", "text", "a"),
        (5, "varchar", "5"),
        (True, "text", "true"),
        ({"a": [1]}, "text", '{"a":[1]}'),
        ("AP8=", "bytea", b"\x00\xff"),
        ("2024-01-02", "date", "2024-01-02"),
        ("sad", "mood", "sad"),
        ({"a": 1}, "jsonb", {"a": 1}),
    ],
)
def test_what_fits(value: Any, kind: str, expected: Any) -> None:
    """A text may stand for every type, as it may in SQL; whole floats are whole numbers."""
    made = convert_argument("x", value, kind, False)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("5; DROP TABLE items", "int4"),
        (1.5, "int4"),
        (True, "int4"),
        (float("inf"), "int4"),
        (True, "float8"),
        ("x", "float8"),
        (True, "numeric"),
        ("1,5", "numeric"),
        ("yes", "bool"),
        (1, "bool"),
        ("%%%", "bytea"),
        (5, "bytea"),
        (5, "timestamptz"),
        ([1], "int4"),
    ],
)
def test_what_does_not_fit(value: Any, kind: str) -> None:
    """The message names the parameter, the type and the value."""
    with pytest.raises(ArgumentError) as caught:
        convert_argument("limit", value, kind, False)
    assert f"parameter 'limit' must be of PostgreSQL's type {kind} here" in str(caught.value)


def test_lists() -> None:
    """Each element fits the type of the elements; what is no list is refused."""
    assert convert_argument("x", [1, "2", None], "int4[]", True) == [1, 2, None]
    assert convert_argument("x", ["a"], "_text", True) == ["a"]
    assert convert_argument("x", [[1, "2"], [None, 4]], "_int4", True) == [[1, 2], [None, 4]]
    assert convert_argument("x", [[1, "2"]], "_jsonb", True) == [[1, "2"]]
    with pytest.raises(ArgumentError, match="type int4 here, got 'b'"):
        convert_argument("x", [["b"]], "_int4", True)
    with pytest.raises(ArgumentError, match="'x' must be a list here, got 'a'"):
        convert_argument("x", "a", "int4[]", True)
    with pytest.raises(ArgumentError, match="type int4 here, got 'b'"):
        convert_argument("x", ["b"], "int4[]", True)
