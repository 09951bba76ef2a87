"""Does what is filled in fit the whole schema, wherever the rules stand that speak of it?"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from tool_engine import DefinitionError, Tool, ToolConfigLoader, ToolParameter
from tool_engine import ToolParameterValidator as Validator
from tool_engine.model.tool import ToolCategory

LIMIT: Final = {"type": "integer", "default": 3}
LOW: Final = {"properties": {"limit": {"maximum": 2}}}
WITH_LIMIT: Final = {"properties": {"limit": LIMIT}}
BROKEN: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "allOf": ({**WITH_LIMIT, "allOf": [LOW]}, "properties.limit.default"),
    "patternProperties": (
        {**WITH_LIMIT, "patternProperties": {"^l": {"maximum": 2}}},
        "properties.limit.default",
    ),
    "then": ({**WITH_LIMIT, "if": {"maxProperties": 1}, "then": LOW}, "properties.limit.default"),
    "below": (
        {"properties": {"i": WITH_LIMIT}, "allOf": [{"properties": {"i": LOW}}]},
        "properties.i.properties.limit.default",
    ),
    "items": (
        {"properties": {"l": {"type": "array", "items": {**WITH_LIMIT, "allOf": [LOW]}}}},
        "properties.l.items.properties.limit.default",
    ),
    "default of an object": (
        {"properties": {"i": {**WITH_LIMIT, "default": {}}}, "allOf": [{"properties": {"i": LOW}}]},
        "properties.i.properties.limit.default",
    ),
}
OF_FORMS: Final = {
    "type": "object",
    "properties": {"a": {}, "b": {"default": 2}},
    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    "default": {"a": 1},
}
HELD_AS_WRITTEN: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "forms": (OF_FORMS, {"a": 1, "b": 2}),
    "keys that need others": (
        {
            "type": "object",
            "properties": {"c": {"default": 2}},
            "dependentRequired": {"c": ["z"]},
            "default": {"a": 3},
        },
        {"a": 3, "c": 2},
    ),
    "number of keys": (
        {
            "type": "object",
            "properties": {"c": {"default": 2}},
            "maxProperties": 0,
            "default": {},
        },
        {"c": 2},
    ),
}
HELD_AS_SENT: Final[dict[str, dict[str, Any]]] = {
    "number of keys": {**WITH_LIMIT, "maxProperties": 0},
    "forms": {**WITH_LIMIT, "anyOf": [LOW]},
    "fits": {**WITH_LIMIT, "allOf": [{"properties": {"limit": {"maximum": 3}}}]},
    "not for an empty one": {
        "properties": {"limit": LIMIT, "mode": {"type": "string"}},
        "required": ["mode"],
        "if": {"properties": {"mode": {"const": "low"}}},
        "then": LOW,
    },
}


def _definition(schema: dict[str, Any]) -> dict[str, Any]:
    parameter = {"name": "o", "type": "object", "description": "An o.", "schema": schema}
    return {"name": "t", "description": "Does t.", "parameters": [parameter]}


def _tool(schema: dict[str, Any]) -> Tool:
    return Tool(
        id="t",
        name="t",
        version="1.0.0",
        description="d",
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=[ToolParameter("o", "object", schema=schema)],
        implementation_config={},
        output={},
    )


@pytest.mark.parametrize("case", BROKEN)
def test_a_default_that_breaks_another_rule_does_not_load(case: str) -> None:
    """What a call would be filled in with is judged by all of the schema, with place and cure.

    Looked at: every keyword that holds schemas, defaults in objects, lists and defaults, in
    definitions and in code.
    """
    schema, place = BROKEN[case]
    with pytest.raises(DefinitionError, match="change the default or the rule") as caught:
        ToolConfigLoader().from_mapping(_definition(schema))
    paths = {each.path for each in caught.value.problems}
    assert paths == {f"parameters[0].schema.{place}"}
    with pytest.raises(DefinitionError, match=r"default of 'o\."):
        Validator().validate(_tool(schema), {"o": {}})


@pytest.mark.parametrize("case", HELD_AS_SENT)
def test_what_is_held_as_it_was_sent_loads(case: str) -> None:
    """A rule over which keys there are, and one of which it is not certain, refuses no default."""
    schema = HELD_AS_SENT[case]
    for tool in (ToolConfigLoader().from_mapping(_definition(schema)), _tool(schema)):
        result = Validator().validate(tool, {"o": {"mode": "x"} if "required" in schema else {}})
        assert result.is_valid
        assert result.validated_params["o"]["limit"] == 3


@pytest.mark.parametrize("required", [[], ["q"]], ids=["alone", "beside what is required"])
@pytest.mark.parametrize("case", HELD_AS_WRITTEN)
def test_what_a_default_holds_as_it_is_written_loads(case: str, required: list[str]) -> None:
    """A default is judged as if it were sent: what is filled in inside of it takes no part."""
    below, expected = HELD_AS_WRITTEN[case]
    schema = {"properties": {"i": copy.deepcopy(below), "q": {}}, "required": required}
    for tool in (ToolConfigLoader().from_mapping(_definition(schema)), _tool(schema)):
        kept = tool.parameters[0].schema or {}
        assert kept["properties"]["i"]["default"] == below["default"]
        result = Validator().validate(tool, {"o": dict.fromkeys(required, 1)})
        assert result.is_valid
        assert result.validated_params["o"]["i"] == expected
