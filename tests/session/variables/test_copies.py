"""Which kept texts are repeated word for word in arguments?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.session.variables import copies as module
from tool_engine.session.variables.copies import MOST_SEARCHED, copies
from tool_engine.session.variables.store import Variable, as_kept

TEXT = (
    "Dear all,\n\nthe meeting of the committee on Thursday was moved to the small hall, since "
    'the large one is being painted.\n\nBring "both" plans; the C:\\new folder has them.\n'
)


def variable(value: Any, name: str = "page", day: int = 1) -> Variable:
    return Variable(name=name, value=value, updated=datetime(2026, 1, day, tzinfo=UTC))


def found(value: Any, *variables: Variable) -> list[str]:
    return [copy.variable.name for copy in copies(value, variables)]


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text,
        lambda text: f"I read this:\n\n> {text}\n\nRegards",
        lambda text: text.upper(),
        lambda text: text.replace(" ", "\n  "),
        lambda text: text.replace(" ", "\u200b \u00ad"),
        lambda text: text.translate({n: n + 0xFEE0 for n in range(0x21, 0x7F)}),
        json.dumps,
        lambda text: text.replace(" ", ""),
        " ".join,
        lambda text: text[40:],
        lambda text: {"deep": [{"x": text}]},
        lambda text: {text: 1},
        lambda text: [text[n : n + 7] for n in range(0, len(text), 7)],
        lambda text: {"to": "a", "subject": text[:60], "body": text[60:]},
        lambda text: {f"key{n}": text[n : n + 9] for n in range(0, len(text), 9)},
        lambda text: text.split(),
        lambda text: [part for word in text.split() for part in (word, 1, None)],
        lambda text: {f"key{n}": text[n : n + 25] for n in range(0, len(text), 25)},
        lambda text: [{"part": n, "text": text[n : n + 25]} for n in range(0, len(text), 25)],
        quote,
        quote_plus,
        lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    ],
)
def test_disguises(disguise: Any) -> None:
    """Labels: case, width, blanks, escapes and splitting hide no copy."""
    assert found({"x": disguise(TEXT)}, variable(TEXT)) == ["page"]


def test_copies_of_data() -> None:
    """Labels: a piece of the JSON that a model read, or of a text in it."""
    data = {"status_code": 200, "body": TEXT, "rows": [{"name": "Ann"}, {"name": "Bob"}] * 5}
    assert found(TEXT, variable(data)) == ["page"]
    assert found(json.dumps(data["rows"]), variable(data)) == ["page"]
    assert found(data["rows"], variable(data)) == ["page"]


ROWS = [
    {"id": n, "name": name, "balance": n * 1000.25, "vip": n > 2} for n, name in enumerate("ABCD")
]
CARDS = [4111111111111111, 4222222222222222, 4333333333333333]


@pytest.mark.parametrize(
    ("kept", "typed"),
    [
        (ROWS, ROWS),
        (ROWS, {"rows": ROWS}),
        (CARDS, CARDS),
        (CARDS, {"a": CARDS[0], "b": CARDS[1], "c": CARDS[2]}),
        (CARDS, [str(card) for card in CARDS]),
        (" ".join(str(card) for card in CARDS), CARDS),
        (
            "20%20 of the whole is 100% fair, as all of them have said to one another",
            "20%20 of the whole is 100% fair, as all of them have said to one another",
        ),
        (
            "größer als früher, und schöner als alle anderen zusammen",
            "gr%C3%B6%C3%9Fer%20als%20fr%C3%BCher%2C%20und%20sch%C3%B6ner%20als%20alle%20anderen%20zusammen",
        ),
    ],
)
def test_copies_as_data(kept: Any, typed: Any) -> None:
    """Labels: a model that sends rows on as data, or as a part of an address, repeats them, too."""
    assert found(typed, variable(kept)) == ["page"]


def test_escapes_between_short_lines() -> None:
    """Labels: the line breaks of a text in JSON are no letters."""
    lines = "\n".join(TEXT.split())
    assert found(lines, variable({"body": lines})) == ["page"]
    assert found(json.dumps(lines), variable(lines)) == ["page"]


def test_what_is_no_copy() -> None:
    """Labels: short pieces and own words are nobody's."""
    assert found("the meeting of the committee on Thursday", variable(TEXT)) == []
    assert found("The committee meets on Thursday, in the hall. " * 3, variable(TEXT)) == []
    assert found("", variable(TEXT)) == []
    assert found({"x": [10**40, True]}, variable(10**40)) == []
    assert found(TEXT, variable("")) == []
    assert found(TEXT) == []


WORDS = [f"{a}{b}{a}{c}" for a in "bcdfgh" for b in "aeiou" for c in "klmnp"]
LETTERS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", max_size=30)


@settings(max_examples=share_of(200), deadline=None)
@given(
    piece=st.lists(st.sampled_from(WORDS), min_size=12, max_size=24, unique=True).map("".join),
    around=st.tuples(LETTERS, LETTERS, LETTERS, LETTERS),
)
def test_each_long_piece_is_found(piece: str, around: tuple[str, str, str, str]) -> None:
    """Labels: a piece of `LEAST` letters is found wherever it begins on either side.

    Unless it says the same over and over again: then it may be found, or not.
    """
    a, b, c, d = around
    sought = f"{a}{piece}{b}"
    blocks = [sought[place : place + 16] for place in range(len(sought) - 15)]
    assume(len(set(blocks)) == len(blocks))
    [copy] = copies(sought, [variable(f"{c}{piece}{d}")])
    assert copy.size >= len(piece)


@settings(max_examples=share_of(100), deadline=None)
@given(left=st.text("ab ", max_size=200), right=st.text("ab ", max_size=200))
def test_what_is_found_is_there(left: str, right: str) -> None:
    """Labels: nothing is taken for a copy that is none, though texts repeat themselves."""
    mine, other = left.replace(" ", ""), right.replace(" ", "")
    for copy in copies(left, [variable(right)]):
        assert any(other[n : n + copy.size] in mine for n in range(len(other) - copy.size + 1))


def test_who_held_it_first() -> None:
    """Labels: a text is told of once, by the variable that had it first."""
    first, echo = variable(TEXT, "first", 2), variable(f"> {TEXT}", "echo", 3)
    assert found(TEXT, echo, first) == ["first"]
    assert found(TEXT, first, variable(TEXT * 2, "older", 1)) == ["older"]
    other = "A wholly different matter is the price of copper, which nobody could foresee."
    both = variable(f"{TEXT} {other}", "both", 3)
    assert found([TEXT, other], both, first) == ["first", "both"]


def test_repeated_letters_take_linear_time() -> None:
    """D20: texts of one letter are compared once, not once for each place."""
    assert found("a" * 100_000, variable("a" * 500_000)) == ["page"]
    assert found("ab" * 50_000, variable("a" * 500_000)) == []


def test_how_much_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels: the work is bounded; what was used last is looked at first."""
    large = variable("x y " * (MOST_SEARCHED // 4), "large")
    assert found(TEXT, variable(TEXT), large) == ["page"]
    assert found(TEXT, large, variable(TEXT)) == []
    monkeypatch.setattr(module, "MOST_SOUGHT", 100)
    assert found("x" * 100 + TEXT, variable(TEXT)) == []
    assert found("x" * 10 + TEXT, variable(TEXT)) == ["page"]


def test_of_a_long_list_the_beginning_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels: what is no text is looked through like one, and no more of it is written."""
    end = "only the last of these rows has these words, which nobody else has anywhere"
    page = as_kept(variable([*({"row": f"{place} {TEXT}"} for place in range(9)), {"row": end}]))
    monkeypatch.setattr(module, "MOST_SEARCHED", page.chars - 1)
    assert found(TEXT, page) == ["page"]
    assert found(end, page) == ["page"]
    monkeypatch.setattr(module, "MOST_SEARCHED", 3 * len(TEXT))
    assert found(TEXT, page) == ["page"]
    assert found(end, page) == []
