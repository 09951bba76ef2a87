"""What is shown of a text that is too long for a model?"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tool_engine.session.reading.cutting import cut_text

CLUSTERS = [
    "a",
    "7",
    " ",
    '"',
    "好",
    "e\u0301",
    "\r\n",
    "🇳🇴",
    "👩\u200d👧",
    "👍🏽",
    "क्षि",
    "\u1100\u1161",
]
TEXTS = st.text(max_size=300) | st.lists(st.sampled_from(CLUSTERS), max_size=200).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=90),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
LANGUAGES = st.sampled_from(["en", "zh"])


def no_secret(_text: str, _place: int) -> bool:
    return False


@given(TEXTS, st.integers(1, 320), LANGUAGES)
def test_it_fits_and_keeps_both_ends(text: str, room: int, language: str) -> None:
    """S4, X4: beginning and end stay, and all that is shown, the marker too, is in the limit."""
    cut = cut_text(text, room, no_secret, language=language)
    assert len(cut.text) <= room
    assert text.startswith(cut.head)
    assert text.endswith(cut.tail)
    assert len(cut.head) + len(cut.tail) + cut.left_out == len(text)
    assert (cut.left_out > 0) is (len(text) > room)
    if len(text) <= room:
        assert cut.text == text


@given(st.lists(st.sampled_from(CLUSTERS), min_size=1, max_size=200), st.integers(1, 200))
def test_no_character_is_cut_in_two(clusters: list[str], room: int) -> None:
    """S4: emoji, flags, accents, Korean and Indic letters and line ends stay whole."""
    text = "".join(clusters)
    edges = {0, *accumulate(map(len, clusters))}
    cut = cut_text(text, room, no_secret)
    assert len(cut.head) in edges
    assert len(text) - len(cut.tail) in edges


@given(st.lists(VALUES, min_size=2, max_size=12), st.integers(1, 400), st.booleans())
@example(["a" * 200, r'say "' + 'x" "' * 40], 120, True)
def test_no_line_of_json_reads_as_another_value(
    values: list[Any], room: int, is_ascii: bool
) -> None:
    """Of JSON lines each that is shown is whole, or none: no half of one is a value. X4."""
    lines = [json.dumps(value, ensure_ascii=is_ascii) for value in values]
    cut = cut_text("\n".join(lines), room, no_secret)
    for line in cut.text.split("\n"):
        with suppress(json.JSONDecodeError):
            json.loads(line)
            assert line in lines


@given(VALUES, st.integers(1, 400), st.booleans(), st.sampled_from([None, 2]), LANGUAGES)
def test_json_never_reads_as_another_value(
    value: Any, room: int, is_ascii: bool, indent: int | None, language: str
) -> None:
    """What is left of JSON is no JSON: a reader that takes it cannot take it for the whole."""
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    cut = cut_text(text, room, no_secret, language=language)
    if cut.left_out:
        with pytest.raises(json.JSONDecodeError):
            json.loads(cut.text)


@pytest.mark.parametrize(
    "text",
    [
        "123456789",
        "true",
        "[1, 2, 3, 4, 5]",
        '"a text of some length, as JSON writes it"',
        '"' + "a" * 500 + '"',
        '{"page": "' + "line\\n" * 300 + '"}',
        "[" + "[" * 50 + "]" * 51,
        "9" * 300,
        "-12.5e+100",
        " " * 200 + "12" + " " * 200,
    ],
)
def test_json_in_a_text(text: str) -> None:
    """No limit makes another value of a number, a word, a text or a list."""
    for room in range(1, len(text)):
        shown = cut_text(text, room, no_secret).text
        with pytest.raises(json.JSONDecodeError):
            json.loads(shown)


def test_what_the_marker_says() -> None:
    """X4: it says how many characters were left out."""
    text = "a" * 1_000 + "b" * 1_000
    cut = cut_text(text, 500, no_secret)
    assert cut.marker == f"\n… [{cut.left_out:,} characters left out] …\n"
    assert len(cut.text) == 500
    assert (set(cut.head), set(cut.tail)) == ({"a"}, {"b"})
    assert abs(len(cut.head) - len(cut.tail)) <= 1
    assert "省略" in cut_text(text, 500, no_secret, language="zh").marker


def test_the_marker_shrinks_before_the_text_is_gone() -> None:
    """Where both ends and the marker do not fit, the beginning is shown with an ellipsis."""
    assert cut_text("abcdef ghi", 5, no_secret).text == "abcd…"
    assert cut_text("abcdef ghi", 1, no_secret).text == "…"
    assert cut_text("x" * 100, 56, no_secret).tail
    assert not cut_text("x" * 100, 50, no_secret).tail


def test_a_number_is_not_cut_in_two() -> None:
    """Half of a number reads as another one."""
    text = "total: 1234567.89 and " + "x" * 500 + " of 987654321"
    for room in range(1, 400):
        cut = cut_text(text, room, no_secret)
        assert not cut.head[-1:].isdigit() or cut.head.endswith("1234567.89")
        assert not cut.tail[:1].isdigit() or cut.tail.startswith("987654321")


def test_no_half_of_a_secret_is_left() -> None:
    """A secret at a cut is left out whole."""
    text = "a" * 180 + "hunter-2-hunter-2" + "b" * 600 + "hunter-2-hunter-2" + "c" * 180

    def splits(text: str, place: int) -> bool:
        return "hunter-2-hunter-2" in text[max(0, place - 16) : place + 16]

    for room in range(1, 600):
        cut = cut_text(text, room, splits)
        for end in (cut.head, cut.tail):
            assert "hunter" not in end.replace("hunter-2-hunter-2", "")
