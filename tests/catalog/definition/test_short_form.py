"""Does a schema in short keys mean the schema it came from?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.definition.short_form import short_form
from tool_engine.model.schema import output_schema, value_schema

CLOSED = {"properties": {"a": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "spec"),
    [
        ({}, {"type": "any"}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "validation": {"min": 1}}),
        ({"type": ["string", "null"]}, {"schema": {"type": ["string", "null"]}}),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            {"type": "array", "validation": {"items": "string"}, "schema": {"uniqueItems": True}},
        ),
        (
            {"type": "array", "items": {"type": "string", "description": "d", "default": "x"}},
            {
                "type": "array",
                "validation": {"items": {"type": "string", "description": "d", "default": "x"}},
            },
        ),
        (
            {"type": "object", **CLOSED, "required": ["a"]},
            {"type": "object", "validation": {"properties": {"a": "string"}, "required": ["a"]}},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "schema": {"additionalProperties": {"type": "integer"}}},
        ),
        (
            {"type": "object", **CLOSED, "required": ["b"]},
            {"type": "object", "schema": {**CLOSED, "required": ["b"]}},
        ),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["b"]},
            {"type": "object", "schema": {"properties": {"a": {}}, "required": ["b"]}},
        ),
    ],
)
def test_short_form(schema: dict[str, Any], spec: dict[str, Any]) -> None:
    """K7, X5: short keys where they can, `schema` for the rest, and nothing is lost."""
    found = short_form(schema)
    if spec != {"type": "any"}:
        assert found == spec
    assert value_schema(found) == schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}},
        {"type": "array", "items": {"type": "object", "properties": {"b": {}}, "required": ["b"]}},
    ],
)
def test_outputs_are_open(schema: dict[str, Any]) -> None:
    """K7: an output's objects may carry more than was declared."""
    assert output_schema(short_form(schema, is_output=True)) == schema
