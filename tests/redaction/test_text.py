"""Does hiding take time in proportion to the text, and leave nothing half hidden?"""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.redaction import HIDDEN, redact_text, remember_secret
from tool_engine.redaction.text import hide_spans, secret_spans

SIZE = 300_000
LEAST = 0.05
"""Seconds that an ordinary text is given, however quick the machine is."""
HOSTILE = [
    *("-----BEGIN", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A", "eyJ", "eyJ-", "eyJ."),
    *("eyJaaaaaaaa.aaaaaaaa", "://a:", "://a:a@", "a:a@a:", "a", "a-", "a.", "a_", "é", "é=", "_"),
    *("sk-", "sk-ant-", "xoxb-", "AKIA", "AKIAIOSFODNN7EXAMPLE ", "SG.aaaaaaaaaaaaaaaaaaaa."),
    *("password=", "password: ", 'password="', "password='\\\\", "password\\", "password={", "\\"),
    *("token=<a", "token=f(", "token=${", "token=:a", "pass: )", "--password ", "-password-"),
    *("--password 'a", "Bearer ", "Basic ", "Basic a", "curl -u ", "curl -u a", "cookie: a=b;"),
    *("cookie: a ", "cookie: a\n", "authorization: Bearer ", "=", " = ", "::", "?sig=", "密码: "),
    *("a1Q~", "12345678:A", "0a1b2c3d" * 4 + "-", "hooks.slack.com/services/", "\n", "'", '"'),
    *(
        "password: |\n",
        "password: |\n a",
        " password: |\n",
        "<token>",
        "<token a",
        "</token>",
        "%41",
    ),
    *(
        '<a name="token" ',
        'key="token" value="',
        "https://a",
        "https://@",
        "%ff",
        "%",
        "fw_a",
        "gsk_",
    ),
]


def seconds(text: str) -> float:
    began = time.thread_time()
    redact_text(text)
    return time.thread_time() - began


@pytest.fixture(scope="module")
def ordinary() -> float:
    sentence = "The token of the user: it is of no use = none. "
    return max(LEAST, seconds((sentence * (SIZE // len(sentence) + 1))[:SIZE]))


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_texts(part: str, ordinary: float) -> None:
    """D20: no text takes more than some fifty times what an ordinary one of its length takes."""
    # What grows with the square of the length takes minutes here.
    assert seconds((part * (SIZE // len(part) + 1))[:SIZE]) < 50 * ordinary


@pytest.mark.parametrize("part", ["password: x1y2; ", "AKIAIOSFODNN7EXAMPLE "])
def test_more_than_anybody_reads(part: str) -> None:
    """D20: where thousands of secrets stand in one text, nothing is left of it behind them."""
    shown = redact_text(part * 5_000 + "the end")
    assert shown.count(HIDDEN) > 1_000
    assert shown.endswith(HIDDEN)


@given(st.text(st.sampled_from("ab1 :=\"'\\{}[]<>/@?&.-_\n") | st.characters(), max_size=80))
def test_any_text(text: str) -> None:
    """Any text can be looked at; what was hidden once is not hidden again in another way."""
    for start in ("", "password=", "token: ", '"secret": "', "://a:", "--password "):
        once = redact_text(start + text)
        assert redact_text(once).replace(HIDDEN, "") == once.replace(HIDDEN, "")


def test_overlapping_finds() -> None:
    """D20: where one secret holds another one, whichever is found first, nothing is left."""
    for secret in ("piece-of-it", "all-of-piece-of-it-and-more", "and-more-behind"):
        remember_secret(secret)
    assert redact_text("<all-of-piece-of-it-and-more>") == f"<{HIDDEN}>"
    assert redact_text("<all-of-piece-of-it-and-more-behind>") == f"<{HIDDEN}>"
    assert redact_text("password=piece-of-it&x=1") == f"password={HIDDEN}&x=1"
    assert redact_text("piece-of-itpiece-of-it") == HIDDEN * 2


_PIECES = st.sampled_from(
    ["Basic ", "basic ", "Bearer ", "dTpw", "a1b2c3d4e5f6", "SK", "AKIA", "token", " ", "x", "7"]
)


@example("Basic dTpw")
@example("bearer a1b2c3d4e5")
@settings(max_examples=share_of(200))
@given(st.lists(_PIECES, max_size=6).map("".join))
def test_short_texts_are_searched_like_long_ones(text: str) -> None:
    """Words of a table are shown without a search only where the search finds nothing."""
    assert redact_text(text) == hide_spans(text, secret_spans(text))
