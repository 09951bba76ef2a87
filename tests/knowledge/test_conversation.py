"""Conversations as JSON: what is copied, and how what cannot be is told."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from tool_engine.errors import SessionError
from tool_engine.knowledge.conversation import as_json, copy_data, of_json


class Text(str):
    """A text with something of its own."""

    __slots__ = ("note",)


class Number(int):
    """A number with something of its own."""


def test_values_become_plain() -> None:
    """What is a text or a number is kept as one, whatever else it is."""
    data = MappingProxyType({Text("key"): [Text("a"), Number(3), True, (1,), MappingProxyType({})]})
    found = copy_data(data)
    assert found == {"key": ["a", 3, True, [1], {}]}
    assert [type(each) for each in found["key"]] == [str, int, bool, list, dict]
    assert type(next(iter(found))) is str


def test_a_copy_is_its_own() -> None:
    """What is changed after a save began is not kept, however plain it is."""
    data: dict[str, Any] = {
        "a": ["x", 1],
        "b": {"c": 1.5},
        "d": {Text("k"): 2},
        "e": [2**70, -(2**63)],
        "f": {"g": [Number(3)]},
    }
    found = copy_data(data)
    assert type(next(iter(found["d"]))) is str
    assert type(found["f"]["g"][0]) is int
    for each in data.values():
        each.clear()
    assert found["a"] == ["x", 1]
    assert (found["b"], found["d"], found["f"]) == ({"c": 1.5}, {"k": 2}, {"g": [3]})
    assert found["e"] == [2**70, -(2**63)]
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
        copy_data(data)


def nested(levels: int, leaf: Any = "deep") -> Any:
    """Lists and mappings in turn, each with something beside the next one."""
    for level in range(levels):
        leaf = [level, leaf, {}] if level % 2 else {"": leaf, "part-0": [level]}
    return leaf


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same, however deep they are."""
    waiting = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if type(a) is not type(b) or (not isinstance(a, dict | list) and a != b):
            return False
        if isinstance(a, dict | list):
            if len(a) != len(b) or (isinstance(a, dict) and list(a) != list(b)):
                return False
            items = a.items() if isinstance(a, dict) else enumerate(a)
            waiting += [(item, b[key]) for key, item in items]
    return True


@pytest.mark.parametrize("levels", [197, 198, 199, 200, 201, 399, 400, 401, 900, 1998])
def test_as_deep_as_may_be(levels: int) -> None:
    """What is copied can be written and read, also where Python's reader of JSON would end."""
    data = {"a": nested(levels), "b": [nested(levels, {"x": 1}), 7]}
    found = copy_data(data)
    assert is_same(found, data)
    text = as_json(found)
    assert is_same(found, data)
    assert is_same(of_json(text), data)
    assert (text[0] == "~") == (levels >= 198)


def test_what_is_too_deep() -> None:
    """There is an end, and the message has it."""
    assert copy_data({"value": nested(1_999, [])})
    with pytest.raises(SessionError, match="more than 2000 levels deep, or holds itself"):
        copy_data({"value": nested(2_000, [])})


def test_what_looks_like_a_part() -> None:
    """A text is kept as it is, whatever it looks like."""
    for value in ("~", "~{}", {"mark": "part-0", "parts": []}, {"part-0": 0}):
        data = {"~": value, "deep": nested(300)}
        assert is_same(of_json(as_json(data)), data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~",
        "~{}",
        "~[]",
        "~7",
        '~{"parts":[],"mark":"m"}',
        '~{"parts":[{"a":{"m":9}}],"mark":"m"}',
    ],
)
def test_what_was_never_written(text: str) -> None:
    """Damage is told, and gives nothing."""
    with pytest.raises(ValueError):  # noqa: PT011 - what it says is of no use to anybody
        of_json(text)
