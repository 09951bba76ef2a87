"""Where in an output does something stand, as a text that can be read back?"""

from __future__ import annotations

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.model.json.result_path import read_path, write_path

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
PATHS = st.lists(NAMES | st.integers(0, 10**6), max_size=6).map(tuple)


@given(PATHS)
def test_a_path_reads_back(path: tuple[str | int, ...]) -> None:
    """U39: whatever the keys are, the path in a note leads to the place that it is about."""
    assert read_path(write_path(path)) == path


@given(st.lists(NAMES, min_size=1, max_size=4).map(tuple))
def test_a_path_is_jmespath(path: tuple[str, ...]) -> None:
    """The same words work in `result.select`."""
    value: object = "found"
    for name in reversed(path):
        value = {name: value}
    assert jmespath.search(write_path(path), value) == "found"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        ("items", ("items",)),
        ("items[3].name", ("items", 3, "name")),
        ('a."first name"[0][1]', ("a", "first name", 0, 1)),
        ('"a\\"b"', ('a"b',)),
        ("[2]", (2,)),
    ],
)
def test_paths_that_a_model_writes(text: str, path: tuple[str | int, ...]) -> None:
    """Names, quoted names and positions."""
    assert read_path(text) == path


@pytest.mark.parametrize(
    "text",
    [
        *("items[*]", "items[]", "a..b", ".a", "a.", "a b", "a[-1]", "length(@)", "a | b", "[a]"),
        *('"open', "a[1", "a[1]b", '"\\x"', '"\\ud800"', "@", "a[99999999999999999]"),
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """What would make work, such as a filter or a function, is not read as something else."""
    with pytest.raises(ValueError, match="not a path"):
        read_path(text)


def test_half_of_a_surrogate_pair_in_a_key() -> None:
    """A key that cannot be sent is written as records keep it."""
    assert read_path(write_path(("a\ud800",))) == ("a\\ud800",)
