"""Is a secret that was resolved found in each form, however many there are?"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
import uuid
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.redaction import HIDDEN, redact, redact_text, remember_secret, secret_forms
from tool_engine.redaction.known import KnownSecrets

VALUE = 'p"a\\s/s+w&örd 12 <x>'


def _small(quoted: str) -> str:
    return re.sub("%..", lambda digits: digits[0].lower(), quoted)


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in a URL": lambda value: quote(value, safe=""),
    "in a path": quote,
    "in a form": quote_plus,
    "in a URL of small digits": lambda value: _small(quote(value, safe="")),
    "in JSON": json.dumps,
    "in JSON as text": lambda value: json.dumps(value, ensure_ascii=False),
    "in JSON in JSON": lambda value: json.dumps(json.dumps({"x": value})),
    "in Python": repr,
    "as Python bytes": lambda value: repr(value.encode()),
    "in HTML": html.escape,
    "in base64": lambda value: base64.b64encode(value.encode()).decode(),
    "in base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "basic credentials": lambda value: base64.b64encode(f"me:{value}:x".encode()).decode(),
    "shifted by one": lambda value: base64.b64encode(f"a{value}".encode()).decode(),
    "shifted by two": lambda value: base64.b64encode(f"ab{value}bc".encode()).decode(),
    "in hexadecimal": lambda value: value.encode().hex(),
    "in large hexadecimal": lambda value: value.encode().hex().upper(),
}


def hidden(known: KnownSecrets, text: str) -> str:
    """What is left of `text` when all that was found is cut out."""
    spans = known.spans(text)
    return "".join(
        letter
        for at, letter in enumerate(text)
        if not any(start <= at < end for start, end in spans)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("others", [0, 50])
def test_forms(form: str, others: int) -> None:
    """D20: a secret is found in every form in which it may be sent or written."""
    known = KnownSecrets()
    known.add(VALUE)
    for _ in range(others):
        known.add(str(uuid.uuid4()))
    coded = FORMS[form](VALUE)
    left = hidden(known, f"it is <{coded}>!")
    assert left != f"it is <{coded}>!"
    # Of base64 in the middle of something, the letters that are shared with it are left.
    assert len(left) <= len("it is <>!") + 16


@given(st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6))
def test_any_text_can_be_a_secret(value: str) -> None:
    """Whatever a secret consists of, its forms can be made, and the first is the secret itself."""
    forms = secret_forms(value)
    assert forms[0] == value
    assert len(set(forms)) == len(forms)
    known = KnownSecrets()
    known.add(value)
    assert value not in hidden(known, f"<{value}>")


def test_half_letters() -> None:
    """A variable of the environment may hold bytes that are no text."""
    value = "secret-\udcff-bytes"
    known = KnownSecrets()
    known.add(value)
    assert hidden(known, f"<{value}>") == "<>"


def test_blanks_around_it() -> None:
    """A file ends with a line break; the secret is found without it."""
    known = KnownSecrets()
    known.add("  open-sesame-77\n")
    assert hidden(known, "<open-sesame-77>") == "<>"


def test_lines() -> None:
    """Each long line of a secret of many lines is one, too."""
    known = KnownSecrets()
    known.add("-----BEGIN THING-----\nc29tZXRoaW5nLXZlcnk=\nshort\n-----END THING-----\n")
    assert hidden(known, "<c29tZXRoaW5nLXZlcnk=>") == "<>"
    assert hidden(known, "<short> -----END THING-----") == "<short> -----END THING-----"


@pytest.mark.parametrize("value", ["", "abc", "   x   ", "hidden"])
def test_what_is_no_secret(value: str) -> None:
    """What is too short, or part of what stands in a secret's place, hides nothing."""
    known = KnownSecrets()
    known.add(value)
    assert len(known) == 0
    assert known.spans(f"it is {value} [hidden] x") == []


def test_a_thousand_secrets() -> None:
    """Of many secrets each one is found, also where all begin alike."""
    known = KnownSecrets()
    values = [f"token-of-the-service-{number:05}-abcdef" for number in range(1_000)]
    for value in values:
        known.add(value)
    text = "; ".join(values)
    assert hidden(known, text) == "; " * 999
    assert hidden(known, "ö" + values[500]) == "ö"
    assert known.spans("nothing of that kind") == []
    assert known.spans("abc") == []


def test_the_oldest_is_forgotten() -> None:
    """Tokens that are renewed for ever do not fill the memory; one in use is not forgotten."""
    known = KnownSecrets(most=20)
    used = "used-all-the-time"
    known.add(used)
    values = [f"{number:05}-{uuid.uuid4()}" for number in range(100)]
    for value in values:
        known.add(value)
        known.add(used)
    assert len(known) == 20
    assert known.spans(used) != []
    assert known.spans(values[0]) == []
    assert known.spans(values[-1]) != []
    # What a secret was filed under goes with it.
    assert len(known._index) < 20 * 30


def test_threads() -> None:
    """Secrets are resolved in threads while others look for them."""
    known = KnownSecrets(most=50)
    failed: list[Exception] = []

    def work(name: str) -> None:
        try:
            for number in range(200):
                known.add(f"{name}-secret-{number}")
                known.spans(f"text with {name}-secret-{number}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    assert len(known) == 50


def test_numbers() -> None:
    """A secret of digits is hidden where a tool returns it as a number."""
    pin = "8230571946"
    assert redact({"n": int(pin)}) == {"n": int(pin)}
    remember_secret(pin)
    assert redact({"n": int(pin), "m": 1.5}) == {"n": HIDDEN, "m": 1.5}
    assert redact_text(f"it is {pin}") == f"it is {HIDDEN}"


def test_long_secret() -> None:
    """Of a secret of many thousand characters the codes are not worked out; it is found."""
    value = "abcdefghij" * 2_000
    assert secret_forms(value) == (value,)
    known = KnownSecrets()
    known.add(value)
    assert hidden(known, f"<{value}>") == "<>"


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("p@ss/w=rd", "/x/p%40ss/w=rd?a", "/x/[hidden]?a"),
        ("p@ss/w=rd", "a%20b p@ss%2Fw%3drd", "a%20b [hidden]"),
        ("pässwört", "%C3%A4 p%C3%a4sswört %zz", "%C3%A4 [hidden] %zz"),
        ("p@ss/w=rd", "100% of p@ss%40", "100% of p@ss%40"),
        ("p@ss/w=rd", "%ff%C3 p%40ss/w=rd", "%ff%C3 [hidden]"),
    ],
)
def test_a_secret_that_is_percent_encoded_in_part(secret: str, text: str, shown: str) -> None:
    """D20: which letters a program encodes is its own affair."""
    remember_secret(secret)
    assert redact_text(text) == shown
