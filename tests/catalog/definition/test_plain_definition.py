"""A definition from code is copied in two steps of C only where that changes nothing."""

from __future__ import annotations

from collections import OrderedDict
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.plain_data import plain_data, plain_definition


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(str):
    __slots__ = ()


ODD: list[Any] = [
    *(float("nan"), float("inf"), -0.0, 1e400, 1e16, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63)),
    *(-(2**63) - 1, True, 1, 1.0, None, "\ud800", "\0", "9" * 19, Word("x"), Color.RED, Level.HIGH),
    *(b"x", bytearray(b"x"), (1, 2), {1}, frozenset("a"), date(2025, 1, 1), Decimal("1.5")),
    *(UUID(int=1), object, Ellipsis, 1j, {1: "a"}, {None: 1}, {True: 1}, {Word("k"): 1}),
    *(OrderedDict(a=1), MappingProxyType({"a": 1}), {Color.RED: 1}),
]


def nested(levels: int, value: Any = 1) -> Any:
    for number in range(levels):
        value = [value] if number % 2 else {"a": value, "b": []}
    return value


Read = tuple[str, list[Fault]]


def read_both(value: Any) -> tuple[Read, Read]:
    """What the quick way and the slow one make of a value, and what is wrong with it."""
    faults: tuple[list[Fault], list[Fault]] = ([], [])
    quick = plain_definition(value, faults[0])
    slow = plain_data(value, (), faults[1])
    return (repr(quick), faults[0]), (repr(slow), faults[1])


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_values(value: Any) -> None:
    for whole in (value, {"name": "a", "x": value}, {"name": "a", "x": [{"y": value}]}):
        quick, slow = read_both(whole)
        assert quick == slow


@pytest.mark.parametrize("levels", [1, 30, 49, 50, 51, 52, 200])
def test_depth(levels: int) -> None:
    many = {"many": [nested(5) for _ in range(30)], "deep": nested(levels - 1)}
    for value in (nested(levels), many):
        quick, slow = read_both(value)
        assert quick == slow


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=share_of(400), deadline=None)
@given(value=VALUES)
def test_any_value(value: Any) -> None:
    quick, slow = read_both(value)
    assert quick == slow
