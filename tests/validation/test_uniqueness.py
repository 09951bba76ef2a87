"""Is an item that is there twice found as JSON Schema says?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given, settings

from tests.effort import share_of
from tests.growth import growth_of
from tool_engine.validation.output import OutputCheck
from tool_engine.validation.position import build_validator
from tool_engine.validation.uniqueness import has_twice

UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}
ALIKE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(0, 0.0, -0.0, False, None, "", "0", [], {}, 1, 1.0, True, "1", "true", 203, 203.0),
        *(2**53, 2.0**53, 2**63, 2.0**63, -(2**63), 2**64 - 1, 2**70, 2.0**70, 0.5, "ˈ", "\ud7ff"),
    ]
)
ITEMS = st.recursive(
    ALIKE,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@settings(max_examples=share_of(600))
@given(st.lists(ITEMS, max_size=4), st.sampled_from([0, 600]))
def test_as_another_validator_judges(items: list[Any], before: int) -> None:
    """X5: 1 and 1.0 are the same, 1 and true are not, in any part of a list."""
    items = [*(f"text {number}" for number in range(before)), *items]
    is_right = jsonschema.Draft202012Validator(UNIQUE).is_valid(items)
    assert has_twice(items) is not is_right
    assert build_validator(UNIQUE).is_valid(items) is is_right


@pytest.mark.parametrize(
    "schema",
    [
        UNIQUE,
        {"anyOf": [UNIQUE, {"type": "null"}]},
        {"$ref": "#/$defs/u", "$defs": {"u": UNIQUE}},
        {"type": "array", "items": {"anyOf": [{"type": "integer"}, UNIQUE]}, "uniqueItems": True},
        {"type": "array", "uniqueItems": False},
    ],
)
def test_wherever_the_rule_stands(schema: dict[str, Any]) -> None:
    """X5: it holds, and its breach is told in the same words, behind references and in forms."""
    check = OutputCheck(schema)
    assert check.find_misfits({"result": [1, 2]}) == []
    found = check.find_misfits({"result": [1, 2, 1.0]})
    if schema.get("uniqueItems") is False:
        assert found == []
        return
    assert "not hold the same item twice" in found[0].message
    assert "must" in found[0].message


MAKERS: dict[str, Callable[[int], list[Any]]] = {
    "numbers": lambda n: list(range(n)),
    "numbers of one hash": lambda n: [k * (2**61 - 1) for k in range(n // 4)],
    "huge numbers": lambda n: [2**64 + k for k in range(n // 4)],
    "fractions": lambda n: [k + 0.5 for k in range(n)],
    "texts": lambda n: [f"t{k:06}" for k in range(n)],
    "objects": lambda n: [{"a": k, "b": f"x{k}"} for k in range(n // 3)],
    "lists": lambda n: [[k] for k in range(n)],
}


@pytest.mark.parametrize("kind", MAKERS)
def test_in_linear_time(kind: str) -> None:
    """X5: no numbers of one's choice make it take the square of their count."""
    assert growth_of(has_twice, MAKERS[kind], most=200_000).exponent < 1.4
