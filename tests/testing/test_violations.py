"""Does each violation break the rule that it names, in the eyes of another implementation?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.testing.schemas import SCHEMAS, arguments_schema, maker
from tool_engine.testing.violations import UNKNOWN_KEY, Violation, violations


def broken(schema: dict[str, Any]) -> list[Violation]:
    """The violations of one required parameter `p` with this schema."""
    whole = arguments_schema({"p": schema}, "p")
    return [each for each in violations(whole, maker(whole)) if each.path[:1] == ("p",)]


@given(st.dictionaries(st.sampled_from(["p", "q"]), SCHEMAS), st.integers(0, 1000))
def test_each_breaks_its_rule(properties: dict[str, Any], seed: int) -> None:
    """jsonschema, which shares no code with the engine, finds that rule broken at that place."""
    schema = arguments_schema(properties, *sorted(properties))
    validator = Draft202012Validator(schema)
    for each in violations(schema, maker(schema, seed=seed)):
        place = each.path[:-1] if each.rule in ("required", "additionalProperties") else each.path
        keywords = {"enum", "const"} if each.rule == "enum" else {each.rule}
        found = {
            error.validator
            for error in validator.iter_errors(each.arguments)
            if tuple(error.absolute_path) == place
        }
        assert found & keywords, each


@pytest.mark.parametrize(
    ("schema", "rules"),
    [
        ({}, {"required": 1}),
        ({"type": "boolean"}, {"required": 1, "type": 5}),
        ({"type": "integer", "minimum": 1}, {"required": 1, "type": 5, "minimum": 1}),
        (
            {"type": "number", "exclusiveMaximum": 1},
            {"required": 1, "type": 4, "exclusiveMaximum": 2},
        ),
        (
            {"type": "number", "exclusiveMinimum": 1.5},
            {"required": 1, "type": 4, "exclusiveMinimum": 1},
        ),
        ({"type": "number", "minimum": -1.7e308}, {"required": 1, "type": 4}),
        (
            {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"},
            {"required": 1, "type": 5, "minLength": 1, "maxLength": 1, "pattern": 1},
        ),
        ({"type": "string", "pattern": ""}, {"required": 1, "type": 5}),
        (
            {"type": "string", "pattern": "^abc$", "maxLength": 3},
            {"required": 1, "type": 5, "pattern": 1, "maxLength": 1},
        ),
        ({"type": "string", "enum": ["a"]}, {"required": 1, "type": 5, "enum": 1}),
        ({"enum": [1, 2]}, {"required": 1, "enum": 2}),
        ({"const": 1}, {"required": 1, "enum": 2}),
        (
            {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "boolean"}},
            {"required": 1, "type": 10, "minItems": 1, "maxItems": 1},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {}},
                "required": ["a"],
                "additionalProperties": False,
            },
            {"required": 2, "type": 5, "additionalProperties": 1},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"required": 1, "type": 5},
        ),
        ({"anyOf": [{"type": "string"}]}, {"required": 1}),
    ],
)
def test_every_rule_is_broken(schema: dict[str, Any], rules: dict[str, int]) -> None:
    """No rule is forgotten: required, type, enum, pattern, bounds, lengths, items, properties."""
    assert Counter(each.rule for each in broken(schema)) == rules


def test_places_reach_inside() -> None:
    """Rules of items and of properties of objects are broken where they stand."""
    item = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    found = {each.path for each in broken({"type": "array", "items": item})}
    assert {("p",), ("p", 0), ("p", 0, "n")} == found


def test_lengths_count_characters() -> None:
    """A text that is too long is so in characters beyond the first plane of Unicode."""
    (longer,) = (
        each for each in broken({"type": "string", "maxLength": 3}) if each.rule == "maxLength"
    )
    assert longer.arguments == {"p": "🙂" * 4}


def test_an_unknown_key_is_tried_at_the_top() -> None:
    """A closed schema refuses a key that it does not declare."""
    schema = arguments_schema({})
    (only,) = violations(schema, maker(schema))
    assert only == Violation(
        (UNKNOWN_KEY,), "additionalProperties", "extra_parameter", {UNKNOWN_KEY: 1}
    )


def test_the_rest_of_the_arguments_stays() -> None:
    """Only one thing is wrong at a time, and the arguments are never shared between violations."""
    schema = arguments_schema({"p": {"type": "boolean"}, "q": {"type": "string"}}, "p", "q")
    found = list(violations(schema, maker(schema)))
    assert all(isinstance(each.arguments["q"], str) for each in found if each.path == ("p",))
    assert len({id(each.arguments) for each in found}) == len(found)


def test_a_pattern_beyond_the_generator_is_left_alone() -> None:
    """Known examples carry such a parameter; its pattern is not broken, its other rules are."""
    schema = arguments_schema({"p": {"type": "string", "pattern": r"^\p{L}+$"}}, "p")
    found = [each.rule for each in violations(schema, maker(schema, {"p": "é"}))]
    assert Counter(found) == {"required": 1, "additionalProperties": 1, "type": 5}
    without = Counter(each.rule for each in violations(schema, maker(schema)))
    assert without == {"required": 1, "additionalProperties": 1}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "integer", "minimum": 0.5, "maximum": 9.5}, {-1, 11}),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 9}, {0, 1, 9, 10}),
        ({"type": "number", "minimum": 0.5}, {-0.5}),
        ({"type": "number", "minimum": 1e300}, {0.0}),
        ({"type": "integer", "maximum": 2**60}, {2**61}),
    ],
)
def test_a_bound_is_passed_by_a_value_of_the_right_type(
    schema: dict[str, Any], values: set[float]
) -> None:
    """Just outside the bound, and wrong in nothing else; far outside where floats are sparse."""
    found = {each.arguments["p"] for each in broken(schema) if "imum" in each.rule}
    assert found == values
    assert {type(each) for each in found} == {type(each) for each in values}
