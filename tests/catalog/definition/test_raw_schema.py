"""Is every keyword of a raw schema either enforced or refused?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ToolConfigLoader
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
from tool_engine.catalog.definition.raw_schema import raw_schema_faults
from tool_engine.catalog.definition.workload import Workload


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
        {"anyOf": [{"type": "string"}, {"const": 1}], "not": {"enum": [2]}},
        {"prefixItems": [{"format": "date"}], "items": False},
        {"dependentSchemas": {"a": {"required": ["b"]}}, "if": True, "then": {}},
        {"title": "t", "examples": [{"$ref": "no schema, only a value"}]},
        {"items": {"$ref": "#"}},
        {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "integer", "default": 3}}},
        {
            "anyOf": [{"items": {"$ref": "#/anyOf/0"}}, {"$ref": "#/definitions/n"}],
            "definitions": {"n": {"properties": {"n": {"$ref": "#/definitions/n"}}}},
        },
        {
            "$defs": {"n": {"type": "integer"}},
            "properties": {"a": {"$ref": "#/$defs/n", "default": 1}},
        },
    ],
)
def test_supported(schema: dict[str, Any]) -> None:
    """K8: what the short keys cannot say, raw schema can."""
    assert raw_schema_faults(schema, (), Workload()) == []


DOUBLING = {
    "$ref": "#/$defs/a0",
    "$defs": {
        **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)},
        "a60": {"type": "integer"},
    },
}
"""Two to the power of sixty ways lead to the last definition."""


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$defs": {"a": {"nullable": True}}}, ("$defs", "a", "nullable")),
        ({"definitions": {"a": {"default": 1, "type": "null"}}}, ("definitions", "a", "default")),
        ({"anyOf": [{"$ref": "#"}]}, ()),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}, ("$defs", "a")),
        ({"items": {"$ref": "#/$defs/b"}, "$defs": {"a": {}}}, ("items", "$ref")),
        ({"items": {"$ref": "#/$defs"}, "$defs": {"a": {}}}, ("items", "$ref")),
        ({"items": {"$ref": "#/examples/0"}, "examples": [{}]}, ("items", "$ref")),
        ({"items": {"$ref": "file:///etc/passwd"}}, ("items", "$ref")),
        ({"items": {"$ref": "http://127.0.0.1:1/x"}}, ("items", "$ref")),
        ({"items": {"$ref": 3}}, ("items", "$ref")),
        ({"$id": "x"}, ("$id",)),
        (DOUBLING, ()),
        ({"properties": {"a": {"nullable": True}}}, ("properties", "a", "nullable")),
        ({"not": {"$dynamicRef": "#x"}}, ("not", "$dynamicRef")),
        ({"patternProperties": {"(?=a)": {}}}, ("patternProperties", "(?=a)")),
        ({"patternProperties": []}, ("patternProperties",)),
        ({"anyOf": 3}, ("anyOf",)),
        ({"format": 3}, ("format",)),
        ({"pattern": 3}, ("pattern",)),
        ({"type": "text"}, ("type",)),
        ({"pattern": "["}, ("pattern",)),
        ({"items": {"items": {"format": "money"}}}, ("items", "items", "format")),
    ],
)
def test_unsupported(schema: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """K8: a keyword that would be ignored, or is wrong, is refused at its place."""
    assert path in [fault.path for fault in raw_schema_faults(schema, (), Workload())]


def test_tables() -> None:
    """K8: what names a place in another way than by its path is in no table."""
    assert not {"$id", "$anchor", "$dynamicRef", "contentEncoding"} & KEYWORDS
    assert "uuid" in FORMATS


@pytest.mark.parametrize(
    "schema",
    [{"const": 1}, {"not": {}}, {"enum": ["a"], "pattern": "^b"}, {"allOf": [{"type": "null"}]}],
)
def test_a_schema_that_no_value_passes_is_told_of(schema: dict[str, Any]) -> None:
    """X5: rules that contradict one another, or the type, are a finding of the tool."""
    parameter = {"name": "p", "type": "string", "description": "x", "schema": schema}
    found = {"name": "t", "description": "d", "parameters": [parameter]}
    (finding,) = ToolConfigLoader().from_mapping(found).findings
    assert "parameters[0].schema: no value would pass" in finding
    parameter["schema"] = {"minLength": 1, "pattern": "^a"}
    assert ToolConfigLoader().from_mapping(found).findings == []


@pytest.mark.parametrize("kind", ["http", "javascript", "workflow"])
def test_an_entry_that_nothing_runs_is_told_of(kind: str) -> None:
    """R4: a type that promises something is told of where nothing in the entry keeps it."""
    found: dict[str, Any] = {"name": "t", "description": "d", "entry": {"type": kind}}
    (finding,) = ToolConfigLoader().from_mapping(found).findings
    assert f"entry.type: the type {kind} runs nothing by itself" in finding
    found["entry"]["handler"] = "mine"
    assert ToolConfigLoader().from_mapping(found).findings == []
