"""What is told of an exception of foreign code: its kind and its message, without any secret."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.redaction.test_own import tool
from tool_engine.redaction import (
    OwnSecrets,
    secrets_if_known,
    secrets_of,
    shorten_words,
    trace_of,
    words_of,
)

TOKEN = f"ghp_{uuid.uuid4().hex}0123"
VALUE = f"q{uuid.uuid4().hex}"
OWN = OwnSecrets({"pin": VALUE}, ["pin"])


class BrokenError(Exception):
    """Its message cannot be had."""

    def __str__(self) -> str:
        raise KeyError(VALUE)


def test_kind_and_message() -> None:
    assert words_of(ValueError("no")) == "ValueError: no"
    assert words_of(ValueError()) == "ValueError"
    assert words_of(BrokenError()) == "BrokenError: its message cannot be shown (KeyError)"
    assert words_of(ValueError(f"not {TOKEN}")) == "ValueError: not [hidden]"
    assert words_of(ValueError(f"not {VALUE}"), OWN) == "ValueError: not [hidden]"


def test_a_call_of_which_nothing_is_known() -> None:
    """Then the kind of the exception is told, and where it was raised."""
    try:
        raise ValueError(VALUE)
    except ValueError as error:
        caught = error
    for told in (words_of(caught, None), words_of(caught, OWN, None), trace_of(caught, None)):
        assert told.startswith("ValueError: [hidden] (raised at test_error_words.py:")
    assert words_of(ValueError(VALUE), None) == "ValueError: [hidden]"
    assert shorten_words(VALUE, None) == "[hidden]"


@pytest.mark.parametrize(
    "secret", [TOKEN, VALUE, VALUE * 8, VALUE * 2_000], ids=["token", "short", "long", "longest"]
)
@pytest.mark.parametrize("most", [200, 2_000, 16_000, 32_768])
def test_no_half_of_a_secret(secret: str, most: int) -> None:
    """Neither where words are cut, nor where no more of them is looked at."""
    own = OwnSecrets({"pin": secret}, ["pin"])
    for place in range(most - 60, most + 8, 4):
        for tail in ("", " and so on" * 5_000):
            told = shorten_words(f"{' ' * place}{secret}{tail}", own, most=most)
            assert secret[:8] not in told
            assert len(told) < most + 40


def test_trace() -> None:
    """All that led to it, and what was noted, without secrets."""
    try:
        try:
            raise KeyError(VALUE)
        except KeyError as cause:
            error = ValueError(f"{VALUE} and {TOKEN}")
            error.add_note(f"it was {VALUE}")
            raise error from cause
    except ValueError as error:
        told = trace_of(error, OWN)
    assert "KeyError: '[hidden]'" in told
    assert "ValueError: [hidden] and [hidden]\nit was [hidden]" in told
    assert "test_error_words.py" in told


@pytest.mark.parametrize("sent", [None, "text", [VALUE], 7])
def test_arguments_that_do_not_tell(sent: Any) -> None:
    """What is no object has no names by which its secrets could be told."""
    assert secrets_if_known(tool(), sent) is None
    assert secrets_if_known(None, sent) is not None


def test_a_secret_with_a_shape_in_it() -> None:
    """It is hidden whole, not only the part that anyone would take for a secret."""
    secret = f"Server=db;User=me;Password={VALUE};Database=the-books"
    own = secrets_of(tool(), {"pw": secret})
    for shown in (own.text(f"no {secret}!"), own.value([f"no {secret}!"])[0]):
        assert shown == "no [hidden]!"
    assert own.value({f"key {secret}": 1}) == {"key [hidden]": 1}
    assert own.beginning(f"no {secret}!") == "no [hidden]!"
