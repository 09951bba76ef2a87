"""Every value of a database is exact in JSON, or says what it is."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import ip_address
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tool_engine.executors.sql.values import json_of_text, json_value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("é", "é"),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63, "9223372036854775808"),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Decimal("12.50"), "12.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (b"\x00\xff", "AP8="),
        (memoryview(b"a"), "YQ=="),
        (date(2024, 1, 2), "2024-01-02"),
        (time(3, 4), "03:04:00"),
        (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00+00:00"),
        (timedelta(hours=1), "PT3600S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (ip_address("::1"), "::1"),
        ([1, [Decimal(2)], (3,)], [1, ["2"], [3]]),
        ({"a": Decimal("1.0"), 2: b""}, {"a": "1.0", "2": ""}),
        (asyncpg.Range(1, 3), "[1,3)"),
        (asyncpg.Range(None, 3, upper_inc=True), "(,3]"),
        (asyncpg.Range(1, None, lower_inc=False), "(1,)"),
        (asyncpg.Range(empty=True), "empty"),
        (asyncpg.BitString("101"), "101"),
        (asyncpg.Point(1, 2), [1.0, 2.0]),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    """Exact, and nothing that JSON cannot hold."""
    made = json_value(value)
    assert made == expected
    assert type(made) is type(expected)
    json.dumps(made, allow_nan=False)


def test_what_is_nested_without_end_becomes_a_text() -> None:
    """A structure that is too deep for a record is shown, not followed."""
    value: Any = 1
    for _ in range(100):
        value = [value]
    made = json_value(value)
    for _ in range(60):
        made = made[0]
    assert isinstance(made, str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, 2.5, null, "x"]}', {"a": [1, 2.5, None, "x"]}),
        ('"x"', "x"),
        ("1e999", "1e999"),
        ('"\\ud800"', '"\\ud800"'),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
    ],
)
def test_a_json_column(text: str, expected: Any) -> None:
    """It is a value; what no JSON value holds exactly stays the text that it is."""
    assert json_of_text(text) == expected
