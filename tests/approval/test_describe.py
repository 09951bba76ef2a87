"""What does somebody read who is asked?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.approval.describe import describe, describe_difference
from tool_engine.model.approval import ApprovalRequest

REQUEST = ApprovalRequest(
    token="t",
    session_id="s",
    tool_name="write_file",
    tool_version="1.0.0",
    definition_hash="h",
    effect="write",
    description="Writes\n a file.",
    params={"path": "a.md", "count": 3},
    asked_at=0.0,
    expires_at=1.0,
)


def said(**fields: Any) -> str:
    return describe(msgspec.structs.replace(REQUEST, **fields))


def test_a_request() -> None:
    """D19: the tool, whether it changes anything, and each argument on a line of its own."""
    assert describe(REQUEST) == (
        'write_file 1.0.0 (changes something)\n  Writes a file.\n  path: "a.md"\n  count: 3'
    )
    assert said(description="", effect="read", params={}).splitlines() == [
        "write_file 1.0.0 (only reads)",
        "  no arguments",
    ]
    assert "the definition does not say whether it changes anything" in said(effect="unknown")


def test_what_would_change_and_what_would_be_read() -> None:
    """A preview and a result keep their lines, and stand apart from the arguments."""
    text = said(preview="-a\n+b", result="one\ntwo")
    assert text.endswith("What would change:\n  -a\n  +b\nWhat the model would read:\n  one\n  two")


def test_secrets_are_not_shown() -> None:
    """U32: by the definition's word, by the name of the key, and by their shape."""
    text = said(
        params={
            "code": "1234",
            "deep": {"code": "5678"},
            "password": "hunter2",
            "note": "key sk-proj-abcdefghijklmnopqrstuvwx1234567890",
        },
        secret_names=("code",),
    )
    for secret in ('1234"', "5678", "hunter2", "abcdefghijkl"):
        assert secret not in text
    assert text.count("[hidden]") >= 3


def test_arguments_cannot_pass_for_others() -> None:
    """No line of a value looks like an argument, and no character steers the terminal."""
    params = {"a": 'x"\n  path: "safe', "b\x1b[2K": "\u202egpj", "c": ["\x1b", "\r"]}
    lines = said(params=params, description="Safe\r\x1b[1A").splitlines()
    assert len(lines) == 5
    assert not any(ord(letter) < 32 or letter == "\u202e" for line in lines for letter in line)


def test_long_values_are_cut() -> None:
    """The end of a value is seen, too, and how much is left out."""
    text = said(params={"content": "a" * 5_000 + "END"}, preview="p" * 50_000)
    assert "[…3,005 characters…]" in text
    assert 'aaaEND"' in text
    assert len(text) < 25_000


def test_what_is_other_than_last_time() -> None:
    """Whoever allowed a call before sees what is other now, line by line, without secrets."""
    before = {"path": "a", "text": "one\ntwo\nthree", "pin": "0000"}
    now = {"path": "a", "text": "one\n2\nthree", "pin": "1111"}
    text = describe_difference(before, now, ["pin"])
    assert text is not None
    assert text.splitlines()[3:] == ["   one", "-  two", "+  2", "   three"]
    assert "1111" not in text
    assert describe_difference(before, before) is None
    assert describe_difference(before, {**before, "pin": "1"}, ["pin"]) is None
    assert describe_difference(before, {"text": "x\n" * 1_000}) is None
