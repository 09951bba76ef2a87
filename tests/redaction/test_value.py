"""Is a value copied with all secrets in it hidden, and nothing else?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.redaction import HIDDEN, redact

TOKEN = "ghp_" + "a1" * 18


def test_headers_as_a_list() -> None:
    """D20: a list of names and values is read as what it is."""
    headers = [
        {"name": "Authorization", "value": "x"},
        {"name": "Accept", "value": "y"},
        {"Key": "DB_PASSWORD", "Value": "z"},
        {"name": 5, "value": "w"},
    ]
    assert redact(headers) == [
        {"name": "Authorization", "value": HIDDEN},
        {"name": "Accept", "value": "y"},
        {"Key": "DB_PASSWORD", "Value": HIDDEN},
        {"name": 5, "value": "w"},
    ]


def test_command_line_as_a_list() -> None:
    """D20: the value that follows an option for a secret is one."""
    argv = ["login", "--password", "x", "--user", "y", "--token", "--quiet", "--api-key=z", 5]
    assert redact(argv) == [
        *("login", "--password", HIDDEN, "--user", "y", "--token", "--quiet"),
        *(f"--api-key={HIDDEN}", 5),
    ]


def test_secrets_as_keys() -> None:
    """D20: a key may be a secret itself; two that are hidden stay two."""
    shown = redact({TOKEN: 1, TOKEN.replace("a", "b"): 2})
    assert shown == {HIDDEN: 1, f"{HIDDEN}'": 2}


def test_flags() -> None:
    """A flag or a missing value under the name of a secret tells nothing, and stays."""
    value = {"password": None, "secret": True, "auth": False, "token": 5}
    assert redact(value) == {"password": None, "secret": True, "auth": False, "token": HIDDEN}


def test_parts() -> None:
    """Keys that are declared secret are hidden at any depth, others at the top only."""
    value = {"word": 1, "a": [{"word": 2, "part": 3}]}
    shown = redact(value, frozenset({"word"}), frozenset({"part"}))
    assert shown == {"word": HIDDEN, "a": [{"word": 2, "part": HIDDEN}]}


class Login:
    def __repr__(self) -> str:
        return f"Login(user='ada', password='hunter2', token={TOKEN!r})"


class Number(int):
    def __repr__(self) -> str:
        return TOKEN


def test_objects() -> None:
    """What JSON cannot hold is shown as its `repr`, secrets hidden."""
    value: Any = {"a": Login(), "b": Number(1), "c": {TOKEN}, "d": b"password=x1"}
    assert redact(value) == {
        "a": f"Login(user='ada', password='{HIDDEN}', token='{HIDDEN}')",
        "b": HIDDEN,
        "c": [HIDDEN],
        "d": f"b'password={HIDDEN}'",
    }


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [
        ([["Authorization", "Basic X"]], [["Authorization", HIDDEN]]),
        ([("password", "X"), ("user", "a")], [["password", HIDDEN], ["user", "a"]]),
        ({"headers": [["Cookie", "a=b"]]}, {"headers": [["Cookie", HIDDEN]]}),
        ([[b"x-api-key", b"abc"]], [["x-api-key", HIDDEN]]),
        ([["token", None], ["secret", True]], [["token", None], ["secret", True]]),
        ([["password", {"a": 1}]], [["password", HIDDEN]]),
        ([["name", "password"], ["a", "b"]], [["name", "password"], ["a", "b"]]),
        ([["token", "a", "b"]], [["token", "a", "b"]]),
    ],
)
def test_pairs_in_a_list(pairs: object, shown: object) -> None:
    """D20: headers also come as a list of pairs."""
    assert redact(pairs) == shown


def test_a_private_key_as_a_list_of_lines() -> None:
    """D20: a key that was split at its line breaks is hidden whole, and what follows is not."""
    lines = [
        "a",
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIE",
        "x",
        "-----END RSA PRIVATE KEY-----",
        "b",
    ]
    assert redact(lines) == ["a", *[HIDDEN] * 4, "b"]
    assert redact(["-----BEGIN CERTIFICATE-----", "MIIE"]) == [
        "-----BEGIN CERTIFICATE-----",
        "MIIE",
    ]
