"""What makes another request of one with the same key?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ToolExecutionContext
from tool_engine.background.request_digest import digest_request, is_of_another_process


def digest(asked: Any, *, is_secret: bool = False, **fields: Any) -> str:
    return digest_request([asked], ToolExecutionContext(**fields), is_secret=is_secret)


def test_what_is_asked_for_counts() -> None:
    first = digest({"a": 1, "b": 2})
    assert digest({"b": 2, "a": 1}) == first
    assert digest({"a": 1, "b": 3}) != first
    assert digest({"a": 1, "b": 2}, timeout=5.0) != first
    assert digest({"a": 1, "b": 2}, retry_count=1) == first


def test_a_secret_cannot_be_found_by_trying() -> None:
    assert digest("1234", is_secret=True) == digest("1234", is_secret=True)
    assert digest("1234", is_secret=True) != digest("1234")


def test_whose_secret_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process was given cannot be compared; what is not secret always can."""
    secret, plain = digest("1234", is_secret=True), digest("1234")
    assert not is_of_another_process(secret)
    monkeypatch.setattr("tool_engine.background.request_digest._SECRET", b"of another process")
    assert digest("1234", is_secret=True) != secret
    assert is_of_another_process(secret)
    assert not is_of_another_process(plain)
    assert digest("1234") == plain


def test_what_no_format_takes_has_a_digest() -> None:
    assert digest(2**80) == digest(2**80) != digest(2**81)
    assert digest("\ud800") == digest("\ud800")
