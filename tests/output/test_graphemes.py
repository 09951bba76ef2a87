"""Where in a text does one character end, as people see it, and the next begin?"""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.output.graphemes import cluster_end, cluster_start, is_joined

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
RAINBOW = "🏳\ufe0f\u200d🌈"
ENGLAND = "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"
CLUSTERS = [
    *("a", " ", "é", "e\u0301\u0323", "\r\n", "\n", "好", "👍🏽", "1\ufe0f\u20e3", "🇳🇴"),
    *(
        FAMILY,
        RAINBOW,
        ENGLAND,
        "각",
        "\u1100\u1161\u11a8",
        "क्षि",
        "ত্র",
        "നീ",
        "น้ำ",
        "\u0645\u0651",
    ),
]
"""Of which none begins with what joins the one before it."""


@given(st.lists(st.sampled_from(CLUSTERS), min_size=1))
def test_characters_end_where_people_see_it(clusters: list[str]) -> None:
    """Emoji, flags in pairs, accents, Korean, Indic and Thai letters and line ends stay whole."""
    text = "".join(clusters)
    ends = set(accumulate(map(len, clusters)))
    for place in range(1, len(text)):
        assert is_joined(text, place) is (place not in ends), (text, place)
        start, end = cluster_start(text, place), cluster_end(text, place)
        assert start <= place <= end
        assert start in ends | {0}
        assert end in ends


@pytest.mark.parametrize(
    ("before", "behind", "expected"),
    [
        ("\r", "\n", True),
        ("\n", "\r", False),
        ("\n", "\u0301", False),
        ("\u00ad", "\u0301", False),
        ("\u0600", "1", True),  # an Arabic sign that stands before a number
        ("\u1100", "\uac00", True),
        ("\u1161", "\u11a8", True),
        ("\uac00", "\u11a8", True),
        ("\uac01", "\u11a8", True),
        ("\uac01", "\u1161", False),
        ("\u11a8", "\u1100", False),
        ("\u200d", "a", False),
        ("\u200d", " ", False),
        ("क", "क", False),
        ("क्", "क", True),
        ("क्\u200d", "क", True),
        ("\u0ab8\u0afb\u0acd", "\u0ab8", True),
        ("\u094d", "क", False),
        ("🇳🇴", "🇸🇪", False),
        ("🇳", "🇴", True),
        ("x" * 5 + "🇳🇴🇸", "🇪", True),
        ("\ud83d", "\ude00", False),  # halves of surrogates are two broken characters
        ("a", "\U000e0067", True),
    ],
)
def test_joined(before: str, behind: str, expected: bool) -> None:
    """Unicode's annex 29: what joins, and what stands alone."""
    assert is_joined(before + behind, len(before)) is expected


def test_a_long_row_of_flags_is_counted_from_its_beginning() -> None:
    """Pairs are told apart however many there are."""
    text = "ab" + "🇳🇴" * 10_000
    assert not is_joined(text, 2 + 2 * 9_000)
    assert is_joined(text, 2 + 2 * 9_000 + 1)


def test_an_endless_character_is_none() -> None:
    """What has a hundred marks and more may be cut, or nothing of it could be shown."""
    text = "e" + "\u0301" * 1_000
    assert cluster_start(text, 500) == cluster_end(text, 500) == 500
    assert cluster_start(text, 100) == 0
    assert cluster_end(text, 950) == len(text)


@pytest.mark.parametrize("letter", ["\u0bae\u0bcd", "\u0915\u094d"])
def test_a_row_without_end_is_cut_between_letters(letter: str) -> None:
    """Letters that all join to the next are cut, but none of them loses its mark."""
    text = letter * 400
    for place in range(400, 400 + 2):
        assert text[cluster_start(text, place)] == letter[0]
        assert text[cluster_end(text, place)] == letter[0]
