"""Is a secret hidden by its key, by its shape and by its value, and nothing else?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tool_engine.redaction import HIDDEN, is_secret_key, redact, redact_text, remember_secret


@pytest.mark.parametrize(
    "name",
    [
        *("password", "Password", "db_password", "passwd", "pwd", "secret", "client_secret"),
        *(
            "token",
            "access_token",
            "accessToken",
            "refresh-token",
            "api_key",
            "apiKey",
            "X-API-Key",
        ),
        *("authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "private_key"),
        *("credentials", "session.id", "sessionId", "aws access key"),
    ],
)
def test_secret_keys(name: str) -> None:
    """The value under a key that usually holds a secret is hidden, however the key is spelled."""
    assert is_secret_key(name)
    assert redact({name: "x1"}) == {name: HIDDEN}
    assert redact({"deep": [{name: {"a": 1}}]}) == {"deep": [{name: HIDDEN}]}


@pytest.mark.parametrize(
    "name", ["tokens_used", "author", "authority", "secretary", "passage", "keyboard", "cookies_ok"]
)
def test_ordinary_keys(name: str) -> None:
    """A key that only looks a little like one stays visible."""
    assert redact({name: "x1"}) == {name: "x1"}


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("key sk-" + "a1" * 10 + " end", "key [hidden] end"),
        ("ghp_" + "a" * 36, "[hidden]"),
        ("github_pat_" + "a" * 30, "[hidden]"),
        ("xoxb-123456789012", "[hidden]"),
        ("AKIA" + "A" * 16, "[hidden]"),
        ("AIza" + "a" * 35, "[hidden]"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", "[hidden]"),
        ("postgres://me:pass@host/db", "postgres://[hidden]@host/db"),
        ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer [hidden]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----x", "[hidden]x"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "[hidden]"),
        ("nothing to hide", "nothing to hide"),
        ("task-list sk-short", "task-list sk-short"),
    ],
)
def test_shapes(text: str, hidden: str) -> None:
    """What has the shape of a secret is hidden wherever it stands."""
    assert redact_text(text) == hidden


def test_resolved_secrets() -> None:
    """A secret that was resolved in this process is hidden by its value."""
    secret = f"hunter-{uuid.uuid4()}"
    assert secret in redact_text(f"it is {secret}!")
    remember_secret(secret)
    assert redact_text(f"it is {secret}!") == "it is [hidden]!"
    remember_secret("abc")
    assert redact_text("abc") == "abc"


def test_declared_names() -> None:
    """The parameters that a definition declares secret are hidden at the top level."""
    names = frozenset({"word"})
    assert redact({"word": "x", "other": {"word": "y"}}, names) == {
        "word": HIDDEN,
        "other": {"word": "y"},
    }
    assert redact("word", names) == "word"


def test_values() -> None:
    """The copy is made of JSON values; what JSON cannot hold is shown as its `repr`."""
    value: Any = {
        "none": None,
        "password": None,
        "flag": True,
        "n": 1,
        "f": 1.5,
        "list": [1, (2,), {3}],
        7: object,
    }
    shown = redact(value)
    assert shown["none"] is None
    assert shown["password"] is None
    assert shown["flag"] is True
    assert shown["list"] == [1, [2], [3]]
    assert shown["7"] == "<class 'object'>"
    assert shown["list"] is not value["list"]


def test_too_deep() -> None:
    """What contains itself, or nests without end, is cut."""
    endless: list[Any] = []
    endless.append(endless)
    shown = redact(endless)
    for _ in range(100):
        if shown == "[too deep]":
            return
        shown = shown[0]
    pytest.fail("not cut")


def test_secret_that_is_a_part_of_another() -> None:
    """D20: nothing of the longer one is left, whichever is known first."""
    for secret in ("part-of-it", "all-of-part-of-it-and-more", "and-more-behind"):
        remember_secret(secret)
    assert redact_text("<all-of-part-of-it-and-more>") == f"<{HIDDEN}>"
    assert redact_text("<all-of-part-of-it-and-more-behind>") == f"<{HIDDEN}>"
    assert redact_text("Bearer xx-part-of-it-yy part-of-it") == f"Bearer {HIDDEN} {HIDDEN}"
    assert redact_text("part-of-itpart-of-it") == HIDDEN * 2
