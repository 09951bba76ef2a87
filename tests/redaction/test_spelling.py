"""Is a secret found under each usual spelling of it, and under two of them?"""

from __future__ import annotations

import base64
import html
import itertools
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import IS_WHOLE
from tool_engine.redaction import OwnSecrets
from tool_engine.redaction.known import KnownSecrets
from tool_engine.redaction.spelling import find_spelled, spans_of

PLACES = 24 if IS_WHOLE else 3
"""At which a spelling is cut."""
VALUE = 'hunter/2+a=b "ö😀"<x>&y'


def _some(escape: Callable[[str], str]) -> Callable[[str], str]:
    """Every second character escaped, as no library does it."""
    return lambda text: "".join(
        escape(letter) if at % 2 else letter for at, letter in enumerate(text)
    )


def _percent(letter: str) -> str:
    return "".join(f"%{byte:02x}" for byte in letter.encode())


SPELLINGS: dict[str, Callable[[str], str]] = {
    "percent": lambda text: quote(text, safe=""),
    "percent in a path": quote,
    "every letter in percent": lambda text: "".join(map(_percent, text)),
    "form": quote_plus,
    "HTML": html.escape,
    "decimal references": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "hexadecimal references": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
    "named references": lambda text: html.escape(text).replace("/", "&sol;").replace("+", "&plus;"),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON with escapes": lambda text: (
        json.dumps(text)[1:-1].replace("/", "\\/").replace("+", "\\u002b").replace("=", "\\u003D")
    ),
    "Python": lambda text: "".join(f"\\U{ord(letter):08x}" for letter in text),
    "JavaScript": lambda text: "".join(f"\\u{{{ord(letter):x}}}" for letter in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
}
ESCAPES = [name for name in SPELLINGS if name not in ("base64", "base64 for URLs", "hexadecimal")]
TWICE = {
    **{(name, name): "" for name in SPELLINGS},
    **dict.fromkeys(itertools.product(SPELLINGS, ESCAPES), ""),
}


def left_of(text: str) -> list[str]:
    """What is left of a text by each of the two that hide secrets by their value."""
    known = KnownSecrets()
    known.add(VALUE)
    spans = known.spans(text)
    kept = "".join(
        letter for at, letter in enumerate(text) if not any(a <= at < b for a, b in spans)
    )
    return [kept, OwnSecrets({"a": VALUE}, ["a"]).hide_text(text).replace("[hidden]", "")]


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_spelling(name: str) -> None:
    """D20: nothing of a secret is left, however it is spelled."""
    assert left_of(f"it is <{SPELLINGS[name](VALUE)}>!") == ["it is <>!"] * 2


@pytest.mark.parametrize(("first", "second"), TWICE)
def test_two_spellings(first: str, second: str) -> None:
    """D20: nor where what was spelled is spelled once more."""
    spelled = SPELLINGS[second](SPELLINGS[first](VALUE)).rstrip("=")
    left = left_of(f"it is <{spelled}>!")
    # What base64 adds at its end may be spelled, too, and is no part of the secret.
    assert all(len(each) <= len("it is <>!") + 24 for each in left), left


@pytest.mark.parametrize("escape", [_percent, lambda letter: f"&#{ord(letter)}", json.dumps])
def test_letters_that_need_no_escape(escape: Callable[[str], str]) -> None:
    """D20: which letters are escaped is no matter."""
    if escape is json.dumps:
        escape = lambda letter: f"\\u{ord(letter):04x}"  # noqa: E731 - one of three
    value = "plain-secret-of-letters"
    known = KnownSecrets()
    known.add(value)
    text = f"<{_some(escape)(value)} >"
    (span,) = {*known.spans(text)}
    assert (text[: span[0]], text[span[1] :].lstrip(";")) == ("<", " >")


@given(st.text(alphabet="aZ0%25&#x;\\u{}/\"'é😀\ud800", max_size=60))
def test_any_text_is_read(text: str) -> None:
    """Whatever looks like an escape is none, or is one: what is found stands in the text."""
    for start, end in find_spelled(text, lambda read: spans_of(read, ["a", "é", "%"])):
        assert 0 <= start < end <= len(text)


@pytest.mark.parametrize("name", ESCAPES)
def test_long_texts(name: str) -> None:
    """D20: a long text is read in pieces, and what stands where two of them meet is found, too."""
    spelled = SPELLINGS[name](VALUE)
    for before in range(32_768 - len(spelled) - 8, 32_768 + 8, max(1, len(spelled) // PLACES)):
        text = f"{'%41' * 3}{'-' * before}{spelled}>{'z' * 40_000}"
        hidden = OwnSecrets({"a": VALUE}, ["a"]).hide_text(text)
        assert hidden == f"{'%41' * 3}{'-' * before}[hidden]>{'z' * 40_000}", before


@pytest.mark.parametrize("broken", ["%80", "%E2%82", "%F0%9F%98", "%C3%A9", "%EF%BF%BD", "&#1;"])
def test_bytes_that_are_no_text(broken: str) -> None:
    """D20: what stands before a secret, and is no character, does not move what is hidden."""
    own = OwnSecrets({"a": "/+/+"}, ["a"])
    for times in (1, 20, 20_000):
        assert own.hide_text(f"{broken * times}%2f%2B%2F%2b>") == f"{broken * times}[hidden]>"


def test_a_secret_that_stands_everywhere() -> None:
    """D20: a megabyte of one secret, escaped, is hidden to its end."""
    own = OwnSecrets({"a": "/+/+"}, ["a"])
    for unit in ("%2f%2B", "%252f%252B", "&#47;&#43;", "\\/+", "/+"):
        assert own.hide_text(unit * 40_000).replace("[hidden]", "") == "", unit
