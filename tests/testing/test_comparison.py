"""In what does a value differ from the one that was expected?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.testing.comparison import find_differences, json_line


@pytest.mark.parametrize(
    ("expected", "got", "told"),
    [
        (1, 1.0, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        (True, 1, ["output: expected true, got 1"]),
        (0, False, ["output: expected 0, got false"]),
        (None, False, ["output: expected null, got false"]),
        ("1", 1, ['output: expected "1", got 1']),
        ({}, [], ["output: expected {}, got []"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["output.a.b[1]: expected 2, got 3"]),
        ({"a": 1}, {}, ["output.a: expected 1, but it is missing"]),
        ({}, {"x y": "é"}, ["output['x y']: not expected, got \"é\""]),
        ([1, 2], [1], ["output: expected 2 items, got 1"]),
        ([], [1, 2], ["output: expected 0 items, got 2"]),
    ],
)
def test_each_difference_is_told_with_its_place(expected: Any, got: Any, told: list[str]) -> None:
    """Equal is meant as in JSON; a difference names its path, what was expected, what came."""
    assert find_differences(expected, got) == told


@pytest.mark.parametrize(
    ("expected", "got", "is_same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {}}, {"a": {"b": 2}}, True),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ({"a": 1}, {"b": 2}, False),
        ([{}], [{}, {}], False),
        ({"a": [1]}, {"a": [1, 2]}, False),
    ],
)
def test_a_part_leaves_other_keys_open(expected: Any, got: Any, is_same: bool) -> None:
    """Only the keys of mappings are left open: lists are as long as they are written."""
    assert (find_differences(expected, got, is_partial=True) == []) is is_same


def test_many_differences_are_counted() -> None:
    """Nobody reads a thousand lines."""
    told = find_differences(list(range(1_000)), [None] * 1_000, root="json")
    assert len(told) == 11
    assert told[0] == "json[0]: expected 0, got null"
    assert told[-1] == "and 990 more differences"


def test_long_values_are_cut() -> None:
    """A large value is shown by its beginning."""
    assert json_line("x" * 1_000) == '"' + "x" * 299 + "… (702 characters more)"
    assert json_line({"a": "é"}) == '{"a": "é"}'
