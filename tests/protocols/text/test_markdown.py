"""Is a place of a text code to our own reader whenever it is to another one?"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tests.protocols.text.commonmark import in_code
from tool_engine.protocols.text.markdown import MARK, find_open_fence, find_places

PIECES = st.sampled_from(
    [
        *("`", "``", "```", "~~~", "\n", "\n\n", "\r\n", "\t", "    ", "  ", " ", "\n    "),
        *("- ", "1. ", "2) ", "* ", "> ", "\n> ", "\n- ", "# ", "---", "===", "a", "b c", "&", "*"),
        *(
            "<!--",
            "-->",
            "<div>",
            "</div>",
            '<a href="',
            '">',
            "<b>",
            "<?",
            "?>",
            "<pre>",
            "</pre>",
        ),
        *("[", "](", ")", "]:", "[x]", "\\", "<http://", "'", "(", MARK, MARK, MARK, MARK),
    ]
)


def region_of(text: str) -> list[bool]:
    regions = ("inline code", "a block of code")
    return [place.region in regions for place in find_places(text)]


@settings(max_examples=share_of(1500))
@example("Do not type `` before `\0`.")
@example("use ` or ``\0``")
@example("[x](`) `\0`")
@example('<a b="`"> `\0`')
@example("[a]: `\n`\0`")
@example("<!--\n```\n-->\n```\n\0\n```")
@example("- a\n\n      \0\n")
@example("  2) \n    \0")
@example("> a\n   * b\n`\n    # \0")
@given(parts=st.lists(PIECES, max_size=24))
def test_no_code_is_taken_for_text(parts: list[str]) -> None:
    """What is code to markdown-it is code here: fences, indented code and code spans, in lists too.

    The other way round a few places are code only here: between equal runs of backticks where a
    link or a tag may hold one of them, and lines that are indented in a paragraph that may be over.
    """
    text = "".join(parts)
    numbered, *rest = text.split(MARK)
    for index, part in enumerate(rest):
        numbered += chr(0xE000 + index) + part
    code = in_code(numbered)
    found = region_of(text)
    assert len(found) == len(rest)
    assert [
        place for place, is_code in enumerate(found) if not is_code and _at(place) in code
    ] == []


def _at(place: int) -> str:
    return chr(0xE000 + place)


PLAIN = {
    "after code": "see `a` and `b`: \0 then `c`",
    "after a lone backtick": "it`s \0",
    "between lines": "a `b`\n\0\n`c`",
    "in a paragraph": "a\n    \0",
    "in a list": "1. So:\n\n   \0\n\n2. So:\n\n    \0",
    "after a fence": "```\na\n```\n\0",
    "after a link": "[a](https://x.org/b) \0 `c`",
    "after a tag": "<b>`a`</b> \0 `b`",
    "after an escaped backtick": "\\` \0 `",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_plain_text_is_plain(text: str) -> None:
    """What CommonMark says for sure to be text is text."""
    assert region_of(text) == [False] * text.count(MARK)


QUOTES = ["> \0", ">\0", "- > \0", "> - a\n> - \0", "a\n> b \0", "   > a\n   > \0"]


@pytest.mark.parametrize("text", QUOTES)
def test_a_line_of_a_quote_is_known_in_lists_too(text: str) -> None:
    """A line with the mark of a block quote is one, wherever the quote stands."""
    assert [place.region for place in find_places(text)][-1] == "a block quote"


def test_a_line_after_a_quote_is_text() -> None:
    """A line without the mark of the quote is not meant as a quote, whatever it continues."""
    assert [place.region for place in find_places("> a\n\0")] == [None]


@pytest.mark.parametrize(
    ("text", "fence"),
    [
        ("a", None),
        ("```\na", "```"),
        ("a\n~~~~ x\n~~~", "~~~~"),
        ("```\na\n```", None),
        ("a ``` b", None),
        ("```", "```"),
        ("> ```\n> a", None),
        ("- ```\n  a", None),
        ("<!--\n```", None),
        ("``` a`b", None),
        ("    ```", None),
    ],
)
def test_open_fences_are_known(text: str, fence: str | None) -> None:
    """An open fence is closed by its line; one in a list or a quote ends with that."""
    assert find_open_fence(text) == fence


HOSTILE = [
    "`\n",
    "> ",
    "- ",
    "- \n\n",
    "<!-- `",
    "<a `",
    "[a](`",
    '[a](b "`',
    "[",
    "\\`",
    "``` ``\n",
    "1. a\n\n",
    "\t",
    "#",
    "* * * a\n",
    "~~~\n",
    '<a "',
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_is_read_to_its_end(unit: str) -> None:
    """Nothing is read again and again: time that grew with the square would never end here."""
    text = unit * (2_000_000 // len(unit)) + MARK
    runs = "".join("`" * length + MARK for length in range(1, 200))
    assert len(find_places(text)) == 1
    assert len(find_places(runs + text)) == 200


def test_what_is_too_much_to_read_is_code() -> None:
    """No model writes so many lines, lists in lists or backticks: a call behind them is not run."""
    for text in ("a\n" * 20_000 + MARK, "> " * 70 + MARK, "\\`" * 20_001 + MARK):
        assert region_of(text) == [True]
    for text in ("a\n" * 19_000 + MARK, "- " * 30 + MARK, "\\`" * 10_000 + MARK):
        assert region_of(text) == [False]
