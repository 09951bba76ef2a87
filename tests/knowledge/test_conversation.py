"""Conversations as JSON: what is copied, and how what cannot be is told."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from tool_engine.errors import SessionError
from tool_engine.knowledge.conversation import as_json, copied, of_json


class Text(str):
    """A text with something of its own."""

    __slots__ = ("note",)


class Number(int):
    """A number with something of its own."""


def test_values_become_plain() -> None:
    """What is a text or a number is kept as one, whatever else it is."""
    data = MappingProxyType({Text("key"): [Text("a"), Number(3), True, (1,), MappingProxyType({})]})
    found = copied(data)
    assert found == {"key": ["a", 3, True, [1], {}]}
    assert [type(each) for each in found["key"]] == [str, int, bool, list, dict]
    assert type(next(iter(found))) is str
    assert of_json(as_json(found)) == found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "the conversation cannot be kept: int is no mapping"),
        ({1: 2}, "the conversation cannot be kept: it has a key that is no text but int"),
        ({"a": {"b": [0, object()]}}, r"kept: a\.b\[1\] is no JSON value but object$"),
        ({"a" * 900: {1, 2}}, "kept: a{500} is no JSON value but set$"),
    ],
)
def test_the_place_is_told(data: Any, message: str) -> None:
    """Somebody who wrote a tool finds what of it cannot be kept."""
    with pytest.raises(SessionError, match=message):
        copied(data)


def test_as_deep_as_may_be() -> None:
    """What is copied can be written and read."""
    value: Any = "deep"
    for _ in range(300):
        value = [value]
    found = copied({"value": value})
    assert of_json(as_json(found)) == found
    with pytest.raises(SessionError, match="more than 300 levels deep"):
        copied({"value": [value]})
