"""MessagePack with a secret in it is never taken for one that holds none."""

from __future__ import annotations

import sys
import unicodedata
from itertools import count
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth_of
from tests.redaction.test_pairs import PAIRS
from tests.redaction.test_secret_names import SECRET
from tests.redaction.test_shapes import PARTS, WHOLE
from tool_engine.redaction import is_secret_key, redact, secret_forms
from tool_engine.redaction.known import KnownSecrets
from tool_engine.redaction.packed import may_hold_secret
from tool_engine.redaction.pairs import HINTS

TEXTS = st.sampled_from([*WHOLE.values(), *PARTS, *PAIRS, *SECRET, "a", "-p", "name", "value", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
NUMBERS = count(1)
MOST = 1.5
"""The exponent of what is linear, with what a busy machine adds."""


@pytest.fixture(autouse=True)
def none_known(monkeypatch: pytest.MonkeyPatch) -> KnownSecrets:
    """Secrets of other tests are none of these."""
    known = KnownSecrets()
    for module in ("known", "packed", "text", "value"):
        monkeypatch.setattr(f"tool_engine.redaction.{module}.known_secrets", known)
    return known


def pack(value: Any) -> bytes:
    """The value as a record has it."""
    return msgspec.msgpack.encode(value)


@given(VALUES)
def test_no_secret_is_missed(value: Any) -> None:
    """Never silently wrong: where nothing is found, redaction changes nothing."""
    value = {"result": value}
    if not may_hold_secret(pack(value)):
        assert redact(value) == value or "nan" in repr(value)


@pytest.mark.parametrize("text", [*WHOLE.values(), *PARTS, *PAIRS])
def test_text_with_a_secret(text: str) -> None:
    """Each text of which something is hidden is looked at, whatever stands around it."""
    if redact(text) != text:
        assert may_hold_secret(pack({"a": ["é", text, 97, {"b": 1.5}]}))


@pytest.mark.parametrize("name", SECRET)
def test_name_of_a_secret(name: str) -> None:
    """A key that names a secret is found, whatever its value, as are pairs and options."""
    for value in ({name: 97}, {name: "x"}, [[name, "x"]], {"name": name, "value": "x"}):
        assert may_hold_secret(pack({"rows": [value]}))


def read_alike() -> dict[str, list[str]]:
    """What a character is read as -> the characters, of all that stand for others."""
    found: dict[str, list[str]] = {}
    for number in range(128, sys.maxunicode):
        if not 0xD800 <= number < 0xE000:
            letter = chr(number)
            for read in {unicodedata.normalize("NFKC", letter).lower(), letter.lower()} - {letter}:
                found.setdefault(read, []).append(letter)
    return found


def test_letters_that_are_read_as_others() -> None:
    """A name is found with any of its letters written in another way."""
    alike, missed = read_alike(), []
    for hint in HINTS:
        for start in range(len(hint)):
            for end in range(start + 1, len(hint) + 1):
                for letter in alike.get(hint[start:end], ()):
                    name = hint[:start] + letter + hint[end:]
                    if not may_hold_secret(pack({name: 1})):
                        missed.append(name)
    assert not missed


@pytest.mark.parametrize("form", ["NFD", "NFKD"])
@pytest.mark.parametrize("name", SECRET)
def test_letters_in_parts(name: str, form: Literal["NFD", "NFKD"]) -> None:
    """A name is found whose letters are written in parts."""
    apart = unicodedata.normalize(form, name)
    if is_secret_key(apart):
        assert may_hold_secret(pack({apart: 1}))


def test_wide_letters() -> None:
    """A name is found that is written in wide letters alone."""
    for name in (each for each in SECRET if each.isascii() and each.isalpha()):
        wide = "".join(chr(ord(letter) + 0xFEE0) for letter in name)
        assert is_secret_key(wide)
        assert may_hold_secret(pack({wide: 1}))


@given(st.text(min_size=6, max_size=20))
def test_known_secret(secret: str) -> None:
    """A secret of this process is found in all its forms, also where part of it is escaped."""
    known = KnownSecrets()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("known", "packed", "text", "value"):
            patch.setattr(f"tool_engine.redaction.{module}.known_secrets", known)
        known.add(secret)
        half = quote(secret[:3], safe="") + secret[3:]
        digits = "".join(f"\\u{ord(each):04x}" for each in secret)
        for form in (*secret_forms(secret), half, digits):
            value = {"a": f"before {form} behind"}
            try:
                packed = pack(value)
            except UnicodeEncodeError:
                continue  # half a character has no packed form
            if redact(value) != value:
                assert may_hold_secret(packed)


def test_number_that_is_a_secret(none_known: KnownSecrets) -> None:
    """A number has no text to be found: all values are looked at."""
    none_known.add("4711077")
    assert may_hold_secret(pack({"a": 4_711_077}))


def test_many_secrets(none_known: KnownSecrets) -> None:
    """Of more secrets than an automaton takes, all values are looked at."""
    for _ in range(17):
        none_known.add(f"many-canaries-{next(NUMBERS)}")
    assert may_hold_secret(pack({"a": "b"}))


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"id": at, "title": f"value {at}", "ok": at % 2 == 0} for at in range(300)]},
        {"text": "The quick brown fox (see https://example.com/a-b_c?d=1#e), at 10:15. " * 50},
        {"text": "größer, 東京, Ωμέγα, текст, 한국 ☂ ½ “–” é"},
    ],
)
def test_what_is_common(value: Any) -> None:
    """Tables, prose and addresses are written as they are."""
    assert not may_hold_secret(pack(value))


@pytest.mark.parametrize("unit", ["://a", "passwor", "sk-a", "A3"])
def test_takes_time_in_proportion(unit: str) -> None:
    """A megabyte that almost matches everywhere is searched once."""

    def make(size: int) -> bytes:
        return pack({"text": unit * size})

    # As in the tests of growth, what looks steep is measured once more.
    found = [growth_of(may_hold_secret, make, most=size).exponent for size in (250_000, 500_000)]
    assert min(found) < MOST, found


def test_secret_that_becomes_known(none_known: KnownSecrets) -> None:
    """A secret counts from the moment at which it is known."""
    data = pack({"a": "the canary-0815-7 sings"})
    assert not may_hold_secret(data)
    none_known.add("canary-0815-7")
    assert may_hold_secret(data)
