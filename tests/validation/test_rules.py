"""What is said of a value that is none of those allowed."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.validation.rules import read_options
from tool_engine.validation.wording import MAX_TEXT, list_values


@pytest.mark.parametrize(
    ("options", "value", "cure"),
    [
        (["Aa", 2], "aa", ': send "Aa"'),
        ([1, 2], "1", ": send 1"),
        ([None, 2], "null", ": send null"),
        (["north"], "nort", ': did you mean "north"?'),
        # What is no text and no plain value is not like any other one.
        ([{"k": 1}, {"k": 2}], {"k": 5}, ""),
        ([[1]], [2], ""),
        ([{"k": 1}], [2], ""),
    ],
)
def test_the_option_that_was_meant(options: list[Any], value: Any, cure: str) -> None:
    assert read_options(options, value).cure == cure


def test_of_many_options_only_what_is_shown_is_put_into_words() -> None:
    """9: each of a hundred findings about a long `enum` was as much work as the `enum` is long."""
    read: list[int] = []

    def give() -> Any:
        for number in range(100_000):
            read.append(number)
            yield number

    assert len(list_values(give())) == MAX_TEXT
    assert len(read) <= MAX_TEXT
    assert list_values([1, "x", None]) == '1, "x", null'
