"""The page of what each format cannot express says what the code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tool_engine.catalog.definition.keywords import KEYWORDS
from tool_engine.protocols.definition_formats import FORMATS, MCPDefinitions
from tool_engine.protocols.model_protocol import DefinitionWriter
from tool_engine.protocols.registry import get_protocol
from tool_engine.protocols.schemas.fitting import SchemaSubset, fit_schema
from tool_engine.protocols.schemas.subsets import SUBSETS

PAGE = (Path(__file__).parents[2] / "docs/reference/protocols/limits.md").read_text("utf-8")
SUB = {"type": "string"}
SAMPLES: dict[str, Any] = {
    "type": "string",
    "type (several)": ["string", "integer"],
    "type (with null)": ["string", "null"],
    "enum (texts)": ["a"],
    "enum (numbers)": [1],
    "enum (others)": [None, True],
    "const": "a",
    "title": "A",
    "description": "It",
    "default": 1,
    "examples": [1],
    "deprecated": True,
    "readOnly": True,
    "writeOnly": True,
    "$comment": "x",
    "pattern": "^a",
    "format (date-time)": "date-time",
    "format (date, time)": "date",
    "format (others)": "uuid",
    "minLength": 1,
    "maxLength": 1,
    "minimum": 1,
    "maximum": 1,
    "exclusiveMinimum (whole)": 1,
    "exclusiveMinimum (others)": 1.5,
    "exclusiveMaximum (whole)": 1,
    "exclusiveMaximum (others)": 1.5,
    "multipleOf": 2,
    "uniqueItems": True,
    "minItems": 1,
    "maxItems": 1,
    "minContains": 1,
    "maxContains": 1,
    "minProperties": 1,
    "maxProperties": 1,
    "required": ["a"],
    "dependentRequired": {"a": ["b"]},
    "items": SUB,
    "prefixItems": [SUB],
    "contains": SUB,
    "properties": {"a": SUB},
    "patternProperties": {"^a": SUB},
    "additionalProperties (false)": False,
    "additionalProperties (a schema)": SUB,
    "propertyNames": {"pattern": "^a"},
    "dependentSchemas": {"a": SUB},
    "unevaluatedItems": SUB,
    "unevaluatedProperties": SUB,
    "not": SUB,
    "if": SUB,
    "then": SUB,
    "else": SUB,
    "allOf": [SUB, SUB],
    "anyOf": [SUB, {"type": "integer"}],
    "oneOf": [SUB, {"type": "integer"}],
    "$ref": "#/$defs/d",
    "$defs": {"e": SUB},
    "definitions": {"e": SUB},
}
BESIDE = {
    "exclusiveMinimum (whole)": "integer",
    "exclusiveMaximum (whole)": "integer",
    "items": "array",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def said(row: str, subset: SchemaSubset) -> str:
    """What becomes of a keyword of one parameter."""
    keyword = row.partition(" ")[0]
    schema = {keyword: SAMPLES[row]}
    if row in BESIDE:
        schema["type"] = BESIDE[row]
    inner = fit_schema({"properties": {"p": schema}, "$defs": {"d": SUB}}, subset)
    made = inner.schema["properties"]["p"]
    changes = [each for each in inner.changes if each.path.startswith("/properties/p")]
    at_root = subset.takes(keyword, is_root=True)
    if keyword in made and not (keyword == "type" and made.keys() - {"type"}):
        return "yes" if at_root else "yes, not at the root"
    if all(change.kind == "dropped" for change in changes) and changes:
        return "no"
    others = [each for each in made if each not in ("type", "description") and each not in schema]
    if others:
        return f"as `{others[0]}`"
    merged = "merged" if keyword == "allOf" else "put in place"
    return "in words" if "description" in made else merged


@pytest.mark.parametrize("row", SAMPLES)
def test_the_table_of_keywords(row: str) -> None:
    """Each cell of the page is what `fit_schema` does with that keyword."""
    cells = {each[0].replace("`", ""): each[1:] for each in rows("Keywords")}
    assert cells[row] == [said(row, subset) for subset in SUBSETS.values()]


def test_no_keyword_is_missing() -> None:
    """Every keyword that a definition may use has its row."""
    named = {row.partition(" ")[0] for row in SAMPLES}
    assert named == KEYWORDS
    assert [each[0].replace("`", "") for each in rows("Keywords")] == list(SAMPLES)


def writer(name: str) -> DefinitionWriter:
    made: Any = MCPDefinitions() if name == "mcp" else get_protocol(name)
    assert isinstance(made, DefinitionWriter)
    return made


def test_the_table_of_names() -> None:
    """Names and limits are those of the protocols."""
    written = {each[0].strip("`"): each[1:] for each in rows("Names and sizes")}
    assert list(written) == list(FORMATS)
    for name, cells in written.items():
        limits = writer(name).limits
        assert cells == [
            writer(name).name_rule.words,
            "none known" if limits.description is None else f"{limits.description:,}",
            "none known" if limits.tools is None else str(limits.tools),
        ]
