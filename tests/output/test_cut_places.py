"""Where may a text be cut, so that what is left is not taken for something else?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.output.cut_places import place_to_cut


def no_secret(_text: str, _place: int) -> bool:
    return False


@pytest.mark.parametrize(
    ("text", "place", "before", "behind"),
    [
        ("abcdef", 3, 3, 3),
        ("ab e\u0301 cd", 4, 3, 5),
        ("[12, 3456, 7]", 7, 5, 9),
        ("[1, -2.5e+10, 7]", 8, 4, 12),
        ("123456", 3, 0, 6),
        ("1" * 200, 100, 100, 100),
        ("pay 1,234,567.", 7, 4, 14),
        ("1,234", 1, 0, 5),
        ("[1,2,3]", 4, 1, 6),
        ("1, 2", 1, 1, 1),
        ("a,b", 1, 1, 1),
        ("[" + "12,34," * 20 + "5]", 59, 58, 60),
        ("١٢٣٤ ९०२ ９０２", 2, 0, 4),
        (r'"a \"b\""', 4, 3, 5),
        (r"C:\\n", 4, 4, 4),
        ("\\" * 9, 5, 4, 6),
        ("a\\", 1, 1, 1),
        ("abc", 0, 0, 0),
        ("abc", 3, 3, 3),
    ],
)
def test_nothing_is_taken_for_something_else(
    text: str, place: int, before: int, behind: int
) -> None:
    """Half of a letter is another letter, half of a number another number, and a quote without its
    backslash is the end of a text.
    """
    assert place_to_cut(text, place, -1, no_secret) == before
    assert place_to_cut(text, place, 1, no_secret) == behind


@pytest.mark.parametrize("step", [-1, 1])
def test_no_secret_is_split(step: int) -> None:
    """The place moves until no secret is split, and then off a letter that it met there."""
    text = "a" * 40 + "e\u0301" + "SECRET" * 10 + "e\u0301" + "b" * 40

    def splits(text: str, place: int) -> bool:
        start = text.index("SECRET")
        return start - 1 < place < start + 61

    place = place_to_cut(text, 70, step, splits)
    assert not splits(text, place)
    assert text[place] != "\u0301"
    assert place < 70 if step < 0 else place > 70


@given(st.text(), st.integers(-3, 200), st.sampled_from([-1, 1]))
def test_it_ends(text: str, place: int, step: int) -> None:
    """A text that is a secret from end to end has no place but its ends."""
    place = min(max(place, 0), len(text))
    found = place_to_cut(text, place, step, lambda _text, _place: True)
    assert found in (0, len(text))
