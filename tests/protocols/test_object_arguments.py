"""Which arguments are in a value that a provider sends as an object, not as text?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.protocols.arguments.json_tokens import MAX_DEPTH
from tool_engine.protocols.object_arguments import is_sendable, make_sendable, take_object
from tool_engine.protocols.reply_builder import CallInProgress, ReplyBuilder
from tool_engine.protocols.tool_names import ANY_NAME, KnownTools


def taken(value: Any) -> CallInProgress:
    builder = ReplyBuilder(KnownTools(ANY_NAME))
    call, _ = builder.begin("c", "look_up")
    take_object(builder, call, value)
    return call


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_an_object_is_copied() -> None:
    """A mapping of any kind is taken as it is, and no longer belongs to whoever sent it."""
    sent = {"a": [1, {"b": None}]}
    call = taken(sent)
    sent["a"].append(2)
    assert call.value == {"a": [1, {"b": None}]}
    assert taken(MappingProxyType({"a": 1})).value == {"a": 1}
    assert taken(nested(MAX_DEPTH)).error is None


def test_what_compatible_servers_send() -> None:
    """A text and the empty list are read, and it is said so; nothing says nothing."""
    assert taken('{"a": 1}').text == '{"a": 1}'
    assert len(taken('{"a": 1}').repairs) == 1
    assert taken([]).value == {}
    assert len(taken([]).repairs) == 1
    assert (taken(None).value, taken(None).text, taken(None).error) == (None, "", None)


@pytest.mark.parametrize(
    "value",
    [
        [1],
        5,
        True,
        {"a": float("inf")},
        {"a": [float("nan")]},
        {"a": 10**5000},
        {1: 2},
        {"a": {None: 1}},
        nested(MAX_DEPTH + 1),
    ],
)
def test_what_cannot_be_an_object(value: Any) -> None:
    """What could not be sent again, or is no object, is refused; what it was is kept as text."""
    call = taken(value)
    assert call.error
    assert call.raw
    assert not is_sendable(value)


def test_halves_of_letters() -> None:
    """Two halves that belong together are one letter; a lone one becomes its escape."""
    value = {"\ud83d": ["\ud83d\ude00", "\\ud83d", "é"]}
    assert make_sendable(value) == {"\\ud83d": ["😀", "\\ud83d", "é"]}


@settings(max_examples=share_of(50), deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters())),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    )
)
def test_everything_can_be_sent(value: Any) -> None:
    """Whatever is made sendable can be written in UTF-8, and what could be is not changed."""
    text = json.dumps(make_sendable(value), ensure_ascii=False, allow_nan=False)
    text.encode()
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert make_sendable(value) == value
    assert isinstance(value, Mapping) == is_sendable(value)
