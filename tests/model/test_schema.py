"""How do a tool's parameters read as JSON Schema 2020-12?"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tool_engine.model.parameter import ToolParameter
from tool_engine.model.schema import (
    SHORT_KEYS,
    VALIDATION_KEYS,
    output_schema,
    parameters_schema,
    value_schema,
)

RULES = {
    "enum": [1],
    "pattern": "^a",
    "min_length": 1,
    "max_length": 2,
    "min": 3,
    "max": 4,
    "min_items": 5,
    "max_items": 6,
}


def test_every_short_key_has_its_keyword() -> None:
    """K8-K12: each short key stands for one keyword of JSON Schema."""
    schema = parameters_schema([ToolParameter("p", "string", validation=RULES)])
    assert schema["properties"]["p"] == {
        "type": "string",
        "enum": [1],
        "pattern": "^a",
        "minLength": 1,
        "maxLength": 2,
        "minimum": 3,
        "maximum": 4,
        "minItems": 5,
        "maxItems": 6,
    }
    assert set(RULES) == set(SHORT_KEYS)
    assert set(SHORT_KEYS) | {"items", "properties", "required"} == VALIDATION_KEYS
    jsonschema.Draft202012Validator.check_schema(schema)


def test_parameters_are_a_closed_object() -> None:
    """K5, K13: required parameters are listed, and others than the declared ones are no part."""
    schema = parameters_schema(
        [ToolParameter("a", "string", required=True), ToolParameter("b", "any", description="B")]
    )
    assert schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"description": "B"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert "required" not in parameters_schema([])


@pytest.mark.parametrize(
    ("fields", "has_default"),
    [
        ({"default": 0}, True),
        ({"default": None}, False),
        ({"default": None, "has_default": True}, True),
        ({"default": "x", "secret": True}, False),
    ],
)
def test_default(fields: dict[str, Any], has_default: bool) -> None:
    """U18: falsy defaults are told of, a null one when it was declared, a secret one never."""
    schema = parameters_schema([ToolParameter("p", "any", **fields)])
    assert ("default" in schema["properties"]["p"]) is has_default


def test_properties_make_an_object_closed() -> None:
    """K13: declared properties close an object, at any depth; `required` reads in both forms."""
    spec = {
        "type": "object",
        "properties": {
            "a": "integer",
            "b": {"type": "array", "items": {"properties": {"c": "any"}}, "required": True},
        },
        "required": ["a"],
    }
    assert value_schema(spec) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {
                "type": "array",
                "items": {"properties": {"c": {}}, "additionalProperties": False},
            },
        },
        "additionalProperties": False,
        "required": ["a", "b"],
    }


def test_raw_schema_is_added() -> None:
    """X5: a raw schema stands beside the short keys and overrides them."""
    spec = {"type": "string", "min_length": 1, "schema": {"minLength": 2, "format": "date"}}
    assert value_schema(spec) == {"type": "string", "minLength": 2, "format": "date"}


def test_output() -> None:
    """K7: bare type names and `any` are read, and an output may carry more than was declared."""
    spec = {
        "type": "object",
        "properties": {
            "status_code": "integer",
            "body": "any",
            "list": {"type": "array", "items": {"properties": {"a": "string"}}},
        },
    }
    assert output_schema(spec) == {
        "type": "object",
        "properties": {
            "status_code": {"type": "integer"},
            "body": {},
            "list": {"type": "array", "items": {"properties": {"a": {"type": "string"}}}},
        },
    }
