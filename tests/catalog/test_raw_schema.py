"""Is every keyword of a raw schema either enforced or refused?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.keywords import FORMATS, KEYWORDS
from tool_engine.catalog.raw_schema import raw_schema_faults
from tool_engine.catalog.workload import Workload


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
        {"anyOf": [{"type": "string"}, {"const": 1}], "not": {"enum": [2]}},
        {"prefixItems": [{"format": "date"}], "items": False},
        {"dependentSchemas": {"a": {"required": ["b"]}}, "if": True, "then": {}},
        {"title": "t", "examples": [{"$ref": "no schema, only a value"}]},
    ],
)
def test_supported(schema: dict[str, Any]) -> None:
    """K8: what the short keys cannot say, raw schema can."""
    assert raw_schema_faults(schema, (), Workload()) == []


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$defs": {}}, ("$defs",)),
        ({"definitions": {}}, ("definitions",)),
        ({"anyOf": [{"$ref": "#"}]}, ("anyOf", 0, "$ref")),
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
    """K8: references, which could not stand alone, are in no table."""
    assert not {"$ref", "$id", "$anchor", "$dynamicRef", "contentEncoding"} & KEYWORDS
    assert "uuid" in FORMATS
