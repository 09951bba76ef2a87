"""Schemas that are put together of parameters which were judged before are judged no less."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.catalog.lists.real_lists import read_lists
from tool_engine.catalog.definition.known_parts import (
    is_alike_right,
    is_known_parameter,
    is_known_right,
    note_right,
    write_alike,
)
from tool_engine.catalog.definition.raw_schema import root_schema_faults, root_schema_warnings
from tool_engine.catalog.definition.rules import check_value
from tool_engine.catalog.definition.tool_definition import (
    definition_faults,
    definition_warnings,
)
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError

PARTS: list[Any] = [
    True,
    False,
    {},
    {"type": "string"},
    {"type": "string", "description": 5},
    {"type": "string", "title": "A", "default": 7},
    {"type": "integer", "minimum": 5, "maximum": 1},
    {"type": "integer", "default": 3, "description": "How many."},
    {"enum": []},
    {"enum": ["a", "b"], "default": "c"},
    {"type": "strin"},
    {"typ": "string"},
    {"format": "nonsense"},
    {"pattern": "(?=a)"},
    {"$ref": "#/$defs/gone"},
    {"$ref": "#/properties/b"},
    {"properties": {"description": {"type": "strin"}}},
    {"properties": {"a": {"default": 1, "type": "string"}}},
    {"properties": {"a": {"default": 1}}, "maxProperties": 0},
    {"items": {"properties": {"a": {"default": None}}}},
    {"anyOf": [{"type": "string", "default": "a"}, {"type": "null"}]},
    {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    {"writeOnly": True, "default": "a"},
    {"propertyNames": {"writeOnly": True}},
    {"definitions": {"a": {}}},
    {"nullable": True},
]
"""Parameters with and without faults of all kinds."""
TEXTS = st.fixed_dictionaries({}, optional={"description": st.sampled_from(["A.", "B."])})


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    names = st.sampled_from(["a", "b", "", "c" * 129, "description"])
    parts = st.sampled_from(PARTS) | st.just({"type": "string"})
    said = draw(st.dictionaries(names, st.tuples(parts, TEXTS), max_size=3))
    properties = {
        name: part if isinstance(part, bool) else {**text, **part}
        for name, (part, text) in said.items()
    }
    others = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array"]),
            "required": st.lists(st.sampled_from(["a", "b", "gone", 1]), max_size=2),
            "additionalProperties": st.sampled_from([True, False, {"type": "string"}, 1]),
            "$schema": st.sampled_from(
                ["http://json-schema.org/draft-07/schema#", "http://example.com/", 1]
            ),
            "title": st.sampled_from(["T", 1]),
            "maxProperties": st.just(0),
        },
    )
    return {"type": "object", "properties": properties, **draw(others)}


@given(schemas())
@example(
    {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["gone"],
        "additionalProperties": False,
    }
)
def test_nothing_wrong_is_known_as_right(schema: dict[str, Any]) -> None:
    """Oracle: the whole of it, judged as if it were the first."""
    if is_known_right(schema):
        assert root_schema_faults(schema, Workload()) == []
        assert root_schema_warnings(schema) == []


@given(
    st.fixed_dictionaries(
        {"name": st.just("a"), "description": st.just("A."), "type": st.sampled_from(["string"])},
        optional={
            "default": st.sampled_from(["a", 1, None]),
            "enum": st.sampled_from([["a"], ["a", "a"], [1], []]),
            "min_length": st.sampled_from([0, 5]),
            "max_length": st.sampled_from([0, 3]),
            "pattern": st.sampled_from(["^a", "(?=a)"]),
            "schema": st.sampled_from([{"format": "nonsense"}, {"minLength": 3}]),
        },
    )
)
def test_nothing_wrong_is_known_as_a_right_parameter(spec: dict[str, Any]) -> None:
    """Oracle: the parameter, judged as if it were the first."""
    if is_known_parameter(spec, Workload()):
        faults: list[Any] = []
        check_value(spec, (), faults, is_sound=True, workload=Workload())
        assert faults == []


def test_most_schemas_of_real_servers_are_judged_by_their_parameters() -> None:
    """What saves the time: else each schema of a long list is judged as if it were the first."""
    listed = [tool for tools in read_lists().values() for tool in tools]
    found = [tool["inputSchema"] for tool in listed if "inputSchema" in tool]
    assert sum(map(is_known_right, found)) > 0.5 * len(found) > 100


@pytest.mark.parametrize("key", ["default", "minimum"])
def test_a_wrong_one_after_many_right_ones_is_refused_in_its_place(key: str) -> None:
    """What was right before is no excuse for what differs in one word."""
    loader = ToolConfigLoader()
    count: dict[str, Any] = {"type": "integer", "minimum": 1, "default": 10}
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "count": count}}
    definition = {"name": "a", "description": "A.", "parameters": schema}
    loader.from_mapping(definition)
    count[key] = {"default": 0, "minimum": 11}[key]
    with pytest.raises(DefinitionError, match=r"parameters\.properties\.count\.default"):
        loader.from_mapping(definition)


NAMES = st.sampled_from(["a", "b", "url", "a b", "", "é", "x" * 129, "A-1.b", "a\n"])
SAID = st.sampled_from(["Adds.", "a", "ä", "1", "", " ", "\u200b", "- a", 5, None])
LISTED = st.fixed_dictionaries(
    {"name": NAMES, "type": st.sampled_from(["string", "number", "strin"]), "description": SAID},
    optional={"default": st.sampled_from(["a", 1]), "required": st.just(True)},
)
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from(["builtin", "custom", "http", "python"])},
    optional={"handler": st.sampled_from(["h", "a", "", "$HOME", 5]), "root": st.just("folder")},
)
DEFINITIONS = st.fixed_dictionaries(
    {"name": NAMES, "description": SAID},
    optional={
        "parameters": st.lists(LISTED, max_size=2),
        "entry": ENTRIES,
        "aliases": st.lists(NAMES, min_size=1, max_size=2),
        "tags": st.just(["a"]),
        "examples": st.just([{"call": {"a": "a"}}]),
        "vcp_command": st.just("a"),
        "kind": st.sampled_from(["tool", "group"]),
    },
)


@given(st.lists(DEFINITIONS, min_size=2, max_size=8))
@example([{"name": n, "description": "A.", "aliases": ["b"]} for n in ("a", "b")])
@example([{"name": "a", "description": "A.", "parameters": []}, {"name": "a", "description": "A."}])
def test_definitions_that_are_alike_are_judged_alike(definitions: list[Any]) -> None:
    """What is right for one definition is so for those that differ in names and texts alone."""
    for each in definitions:
        alike = write_alike(each)
        found = definition_faults(each) or definition_warnings(each)
        assert not (found and is_alike_right(alike))
        if not found:
            note_right(alike)
            assert is_alike_right(alike) == (alike is not None)


def test_most_tools_of_a_list_are_alike() -> None:
    """Other names, descriptions and handlers make no definition another one."""
    written = {
        write_alike(
            {
                "name": f"tool_{number}",
                "description": f"Does {number}.",
                "parameters": [
                    {"name": "url", "type": "string", "description": f"Address {number}"}
                ],
                "entry": {"type": "builtin", "handler": f"h{number}"},
            }
        )
        for number in range(3)
    }
    assert len(written) == 1
    assert None not in written
