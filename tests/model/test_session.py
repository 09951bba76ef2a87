"""The ids of conversations."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ConfigurationError, SessionError
from tool_engine.model.session import check_page, check_session_id


@pytest.mark.parametrize("session_id", ["a", "x" * 512, "\u4e2d/\U0001f600 'x'", " "])
def test_ids(session_id: str) -> None:
    """Whatever can be told apart everywhere is an id."""
    assert check_session_id(session_id) == session_id


@pytest.mark.parametrize(
    ("session_id", "message"),
    [
        ("", "1 to 512 characters, got 0 characters"),
        ("x" * 513, "got 513 characters"),
        (7, "got 7"),
        (None, "got None"),
        ("a\0", r"may not hold NUL or half a character, got 'a\\x00'"),
        ("\udfff", r"got '\\udfff'"),
    ],
)
def test_no_ids(session_id: Any, message: str) -> None:
    """What one storage would have to change is refused by all."""
    with pytest.raises(SessionError, match=message):
        check_session_id(session_id)


def test_page() -> None:
    """Both bounds are whole numbers of 0 or more."""
    check_page(0, 0)
    with pytest.raises(ConfigurationError, match="limit"):
        check_page(-1, 0)
    with pytest.raises(ConfigurationError, match="offset"):
        check_page(1, 1.5)
