"""Strict definitions: what OpenAI takes, what changes, and what null means in the arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.effort import share_of
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.openai import OpenAIProtocol
from tool_engine.protocols.openai.openai_strict import drop_nulls, make_strict
from tool_engine.protocols.strict_protocol import UnstrictError

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
TAKEN = {
    *("type", "description", "enum", "const", "anyOf", "properties", "required", "items"),
    *("additionalProperties", "pattern", "format", "multipleOf", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}
STRING = {"type": "string"}


def tool(*parameters: ToolParameter) -> Tool:
    return Tool("t", "t", "1.0.0", "Does it.", ToolCategory.CUSTOM, [], list(parameters), {})


def of(schema: Mapping[str, Any], required: bool = True) -> dict[str, Any]:
    """The strict schema of the one parameter `p`."""
    whole: dict[str, Any] = {"type": "object", "properties": {"p": schema}}
    whole["required"] = ["p"] if required else []
    found: dict[str, Any] = make_strict(whole).schema["properties"]["p"]
    return found


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for each in (*inner, *([schema["items"]] if "items" in schema else [])):
        yield from nodes(each)


def obeys(schema: dict[str, Any]) -> None:
    """Asserts what OpenAI asks of a strict schema."""
    assert schema["type"] == "object"
    assert "anyOf" not in schema
    for node in nodes(schema):
        assert node.keys() <= TAKEN
        kind = node.get("type", ())
        if "object" in ([kind] if isinstance(kind, str) else kind):
            assert node["additionalProperties"] is False
            assert node["required"] == [*node["properties"]]


LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1, "pattern": "^a(?=b)"},
        {"type": "string", "enum": ["a", "b"], "default": "a"},
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        {"type": ["string", "null"], "description": "Text."},
        {"const": "x"},
        {"enum": ["a", 1, None]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"$ref": "#/$defs/leaf"},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(
            lambda properties, needed: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if name in needed],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1),
            st.sets(st.sampled_from(["a", "b", "c"])),
        )
        | st.builds(lambda items: {"type": "array", "items": items, "uniqueItems": False}, inner)
    ),
    max_leaves=6,
)


def sample(node: Mapping[str, Any]) -> Any:
    """A value that a strict schema allows, with a null wherever it allows one."""
    kinds = node.get("type")
    if "enum" in node:
        return node["enum"][-1]
    if "const" in node:
        return node["const"]
    if "anyOf" in node:
        nulls = [each for each in node["anyOf"] if each == {"type": "null"}]
        return sample((nulls or node["anyOf"])[-1])
    if kinds == "null" or "null" in (kinds or ()):
        return None
    if kinds == "object":
        return {name: sample(each) for name, each in node["properties"].items()}
    return {"array": [], "integer": 3}.get(str(kinds), "ab")


@settings(max_examples=share_of(60))
@given(
    st.dictionaries(st.sampled_from("pqr"), SCHEMAS, max_size=3), st.sets(st.sampled_from("pqr"))
)
def test_strict_schemas_obey_the_rules(properties: dict[str, Any], needed: set[str]) -> None:
    """A strict schema is closed, has no optional property and no keyword that OpenAI refuses; what
    it allows, once its nulls are taken out, the tool allows."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": sorted(needed & properties.keys()),
        "additionalProperties": False,
        "$defs": {"leaf": {"type": "string"}},
    }
    before = json.dumps(schema)
    strict = make_strict(schema).schema
    assert json.dumps(schema) == before
    obeys(strict)
    Draft202012Validator.check_schema(strict)
    value = sample(strict)
    Draft202012Validator(strict).validate(value)
    Draft202012Validator(schema).validate(drop_nulls(value, schema)[0])


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (STRING, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"const": 1}, {"anyOf": [{"const": 1}, {"type": "null"}]}),
        ({"const": None}, {"const": None}),
        ({"enum": ["a"], "description": "D"}, {"description": "D", "anyOf": ...}),
        ({"anyOf": [STRING]}, {"anyOf": [STRING, {"type": "null"}]}),
        ({"anyOf": [STRING, {"type": "null"}]}, {"anyOf": [STRING, {"type": "null"}]}),
        ({"type": "array", "items": STRING}, {"type": ["array", "null"], "items": STRING}),
    ],
)
def test_an_optional_parameter_is_null(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """What a tool may be called without is null in strict mode."""
    found = of(schema, required=False)
    assert found == (
        {**expected, "anyOf": found["anyOf"]} if ... in expected.values() else expected
    )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object"}, "any keys"),
        ({"type": "object", "additionalProperties": STRING}, "any keys"),
        ({"type": "object", "properties": {"a": STRING}, "additionalProperties": True}, "any keys"),
        ({}, "any value"),
        ({"type": "array"}, "any kind"),
        ({"type": "array", "items": {}}, "any value"),
        ({"type": "object", "properties": {"a": STRING}, "required": ["b"]}, "not declared"),
        ({"$ref": "#"}, "any"),
        ({"enum": list(range(1001))}, "1000 values"),
        (
            {"anyOf": [{"type": "object", "properties": {"a": STRING}}, STRING]},
            "alternatives",
        ),
    ],
)
def test_what_strict_mode_cannot_express(schema: dict[str, Any], why: str) -> None:
    """Such a tool is sent without `strict`, under its whole schema, and that is reported."""
    with pytest.raises(UnstrictError, match=why):
        of(schema)
    free = tool(ToolParameter("p", "object", required=True, schema={"type": "object"}))
    protocol = OpenAIProtocol(strict=True)
    (definition,) = protocol.definitions([free])
    assert "strict" not in definition["function"]
    assert definition == OpenAIProtocol().definitions([free])[0]
    (finding,) = protocol.definition_findings([free])
    assert finding.error_type == "dropped"
    assert "/properties/p: any keys are allowed there" in finding.message


def test_deep_objects_are_not_strict() -> None:
    """OpenAI takes ten levels of objects."""
    schema: dict[str, Any] = STRING
    for _ in range(11):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    with pytest.raises(UnstrictError, match="10 levels"):
        of(schema)


def test_what_changes_is_reported() -> None:
    """Each rule that strict mode cannot keep is told in words, and each change is a finding."""
    named = ToolParameter("name", "string", validation={"min_length": 2, "pattern": "^(?!x)"})
    protocol = OpenAIProtocol(strict=True)
    (definition,) = protocol.definitions([tool(named)])
    function = definition["function"]
    assert function["strict"] is True
    told = function["parameters"]["properties"]["name"]
    assert told["type"] == ["string", "null"]
    assert "at least 2 characters" in told["description"]
    assert "^(?!x)" in told["description"]
    obeys(function["parameters"])
    found = [each.message for each in protocol.definition_findings([tool(named)])]
    assert len(found) == 3
    assert any("null stands for left out" in each for each in found)


def test_nulls_in_arguments() -> None:
    """Null for what is optional is left out, also deep inside; what may be null stays, and so
    does what the tool does not know."""
    inner = {
        "type": "object",
        "properties": {"a": STRING, "b": {"type": ["string", "null"]}, "c": STRING},
        "required": ["c"],
    }
    parameters = (
        ToolParameter("x", "integer"),
        ToolParameter("o", "object", schema=inner),
        ToolParameter("l", "array", schema={"items": {"anyOf": [inner, {"type": "null"}]}}),
    )
    protocol = OpenAIProtocol(tools=[tool(*parameters)], strict=True)
    item = {"a": None, "b": None, "c": "c", "d": None}
    written = json.dumps({"x": None, "o": item, "l": [item, item]})
    function = {"name": "t", "arguments": written}
    reply = protocol.parse({"role": "assistant", "tool_calls": [{"id": "a", "function": function}]})
    (call,) = reply.calls
    left = {"b": None, "c": "c", "d": None}
    assert call.arguments == {"o": left, "l": [left, left]}
    assert call.repairs == ("null stood for 4 optional parameters: they were left out",)
    assert call.is_runnable
    assert reply.message[0]["tool_calls"][0]["function"]["arguments"] == written


@pytest.mark.parametrize("strict", [False, True])
def test_nulls_of_other_tools_stay(strict: bool) -> None:
    """Where a tool is not strict, or not known, null is what the model wrote."""
    free = ToolParameter("p", "object", schema={"type": "object"})
    protocol = OpenAIProtocol(tools=[tool(free)], strict=strict)
    calls = [
        {"id": name, "function": {"name": name, "arguments": '{"p": {"a": null}}'}}
        for name in ("t", "other")
    ]
    reply = protocol.parse({"role": "assistant", "tool_calls": calls})
    assert [each.arguments for each in reply.calls] == [{"p": {"a": None}}] * 2
