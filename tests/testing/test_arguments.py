"""Do generated arguments fit, in the eyes of another implementation of JSON Schema?"""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.testing.schemas import SCHEMAS, arguments_schema, maker
from tool_engine.testing.patterns import MAX_TEXT, NoValueError


@given(st.dictionaries(st.sampled_from(["p", "q"]), SCHEMAS), st.integers(0, 1000), st.booleans())
def test_what_is_made_fits(properties: dict[str, Any], seed: int, whole: bool) -> None:
    """Generated arguments are right by jsonschema, which shares no code with the engine."""
    schema = arguments_schema(properties, *sorted(properties)[:1])
    made = maker(schema, seed=seed)
    errors = list(Draft202012Validator(schema).iter_errors(made.arguments(whole=whole)))
    assert errors == []
    assert made.notes == {}


@pytest.mark.parametrize(
    ("schema", "edges"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 50}, {1, 50}),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 9}, {2, 8}),
        ({"type": "integer", "minimum": 0.5, "maximum": 9.5}, {1, 9}),
        ({"type": "integer", "exclusiveMinimum": 0.5, "exclusiveMaximum": 9.5}, {1, 9}),
        ({"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 50}, {7, 49}),
        ({"type": "number", "minimum": -1.5, "maximum": 2}, {-1.5, 2}),
        ({"type": "number", "multipleOf": 2, "minimum": -3, "maximum": 3}, {-2, 2}),
        ({"type": "string", "enum": ["a", "b"]}, {"a", "b"}),
        ({"type": "boolean"}, {True, False}),
    ],
)
def test_the_edges_come_up(schema: dict[str, Any], edges: set[Any]) -> None:
    """Mistakes sit at the edges, so twenty cases reach them."""
    made = maker(arguments_schema({"p": schema}, "p"))
    values = {made.arguments()["p"] for _ in range(20)}
    assert edges <= values
    assert (min(values), max(values)) == (min(edges), max(edges))


def test_lengths_reach_their_edges() -> None:
    """The shortest and the longest text come up, in characters of several scripts."""
    schema = {"type": "string", "minLength": 3, "maxLength": 9}
    made = maker(arguments_schema({"p": schema}, "p"))
    texts = [made.arguments()["p"] for _ in range(20)]
    assert {3, 9} <= {len(text) for text in texts} <= set(range(3, 10))
    assert not "".join(texts).isascii()


def test_optional_parameters_come_and_go() -> None:
    """Both forms of a call are tried, and `whole` leaves nothing out."""
    made = maker(arguments_schema({"p": {"type": "array", "items": {"type": "integer"}}}))
    assert {bool(made.arguments()) for _ in range(20)} == {True, False}
    assert all(made.arguments(whole=True)["p"] for _ in range(20))


def test_the_same_seed_makes_the_same() -> None:
    """A failure can be repeated."""
    schema = arguments_schema({"p": {"type": "string"}, "q": {"type": "number"}}, "p", "q")
    one, same, other = maker(schema, seed=1), maker(schema, seed=1), maker(schema, seed=2)
    first = [one.arguments() for _ in range(5)]
    assert first == [same.arguments() for _ in range(5)]
    assert first != [other.arguments() for _ in range(5)]


NOT_MADE: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "format": "email"}, "'format'"),
    ({"oneOf": [{"type": "string"}]}, "'oneOf'"),
    ({"type": "integer", "multipleOf": 0.5}, "multipleOf 0.5"),
    ({"type": "integer", "minimum": 1, "exclusiveMaximum": 2, "multipleOf": 5}, "nothing lies"),
    ({"type": "number", "minimum": 2, "exclusiveMaximum": 2}, "no number lies"),
    ({"type": "number", "exclusiveMinimum": 2, "exclusiveMaximum": 2}, "no number lies"),
    (
        {
            "type": "number",
            "exclusiveMinimum": 1e300,
            "exclusiveMaximum": math.nextafter(1e300, math.inf),
        },
        "no number was found",
    ),
    ({"type": "number", "minimum": 3, "maximum": 2}, "no number lies"),
    ({"type": "string", "minLength": MAX_TEXT + 1}, "more than 10000"),
    ({"type": "string", "enum": ["a"], "minLength": 3}, "enum beside 'minLength'"),
    ({"type": "string", "enum": [1]}, "no option"),
    ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 5}, "5 diff"),
    ({"type": "array", "items": {"type": "array", "minItems": 200}, "minItems": 200}, "parts"),
    ({"type": "string", "anyOf": [{"type": "string"}]}, "anyOf repeats"),
    ({"anyOf": [True]}, "anyOf repeats"),
    ({"type": "string", "pattern": r"\p{L}"}, "is not understood"),
]


@pytest.mark.parametrize(("schema", "reason"), NOT_MADE)
def test_what_cannot_be_made_is_said(schema: dict[str, Any], reason: str) -> None:
    """A required parameter without a value stops, with the cure; nothing is passed over."""
    made = maker(arguments_schema({"p": schema}, "p"))
    with pytest.raises(NoValueError, match=re.escape(reason)) as caught:
        made.arguments()
    assert "give the definition an example" in str(caught.value)


def test_an_example_stands_in() -> None:
    """Where the schema is beyond the generator, the examples' values are used, and it says so."""
    schema = arguments_schema({"p": {"type": "string", "format": "email"}}, "p")
    made = maker(schema, {"p": "a@b.example"}, {})
    assert made.arguments() == {"p": "a@b.example"}
    assert made.notes == {"p": "no values are made from the keyword 'format'; an example is used"}


def test_an_optional_parameter_is_left_out() -> None:
    """Without an example, a parameter that cannot be made is left out, and it says so."""
    made = maker(arguments_schema({"p": {"not": {}}, "q": {"type": "boolean"}}))
    assert list(made.arguments(whole=True)) == ["q"]
    assert made.notes == {"p": "no values are made from the keyword 'not'; left out"}


def test_unique_items_differ() -> None:
    """A list that may hold nothing twice holds nothing twice."""
    items = {"type": "integer", "minimum": 1, "maximum": 5}
    schema = {"type": "array", "items": items, "uniqueItems": True, "minItems": 4, "maxItems": 5}
    made = maker(arguments_schema({"p": schema}, "p"))
    for _ in range(20):
        values = made.arguments()["p"]
        assert len(set(values)) == len(values) >= 4


def test_deep_and_wide_schemas_end() -> None:
    """The time is bounded by the schema, whatever lists in lists ask for."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(40):
        schema = {"type": "array", "items": schema}
    made = maker(arguments_schema({"p": schema}, "p"))
    assert all("p" in made.arguments() for _ in range(20))
    assert maker(arguments_schema({"p": True}, "p")).arguments().keys() == {"p"}


def test_required_keys_without_a_schema_are_there() -> None:
    """An open object may require keys that it does not describe."""
    schema = {"type": "object", "required": ["k"], "additionalProperties": {"type": "boolean"}}
    assert isinstance(maker(arguments_schema({"p": schema}, "p")).arguments()["p"]["k"], bool)
