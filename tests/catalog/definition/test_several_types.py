"""A list of types, such as `[string, "null"]`, means in short keys what it means in JSON Schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tool_engine import DefinitionError, Tool, ToolConfigLoader, ToolParameterValidator
from tool_engine.protocols import PROTOCOLS, get_protocol

VALUES: tuple[Any, ...] = (
    *("", "a", "abc", None, 0, 1, 2.0, 2.5, -1, True, [], ["a"], [None], [1], {}, {"k": "a"}),
    *({"k": None}, {"k": 1}, {"m": 1}),
)


def read(rules: str) -> Tool:
    text = f"name: t\ndescription: d\nparameters: [{{name: a, description: d, {rules}}}]\n"
    (tool,) = ToolConfigLoader().load_tools(text, "t.yaml")
    return tool


@pytest.mark.parametrize(
    ("rules", "schema"),
    [
        ('type: [string, "null"]', {"type": ["string", "null"]}),
        ("type: [string, 'null'], min_length: 2", {"type": ["string", "null"], "minLength": 2}),
        ("type: [integer, string], max: 1", {"type": ["integer", "string"], "maximum": 1}),
        (
            "type: [string, 'null'], enum: [a, null]",
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        ("type: [boolean, 'null'], enum: [true]", {"type": ["boolean", "null"], "enum": [True]}),
        ("type: [string], validation: {pattern: '^a'}", {"type": ["string"], "pattern": "^a"}),
        (
            "type: [array, 'null'], items: {type: [string, 'null']}, max_items: 1",
            {"type": ["array", "null"], "items": {"type": ["string", "null"]}, "maxItems": 1},
        ),
        (
            "type: [object, 'null'], properties: {k: {type: [string, 'null']}}",
            {
                "type": ["object", "null"],
                "properties": {"k": {"type": ["string", "null"]}},
                "additionalProperties": False,
            },
        ),
        (
            "type: [number, 'null'], schema: {multipleOf: 2}",
            {"type": ["number", "null"], "multipleOf": 2},
        ),
    ],
)
def test_as_another_validator_judges(rules: str, schema: dict[str, Any]) -> None:
    """17.2: what is accepted and refused, told to models, and written again."""
    tool, judge = read(f"{rules}, required: true"), jsonschema.Draft202012Validator(schema)
    for value in VALUES:
        for is_strict in (True, False):
            found = ToolParameterValidator(strict=is_strict).validate(tool, {"a": value})
            assert found.is_valid is judge.is_valid(value), (value, found.errors)
    told = tool.parameters_schema["properties"]["a"]
    assert told == {"description": "d", **schema}
    again = ToolConfigLoader().load_text(ToolConfigLoader().export_to_yaml(tool))
    assert again.definition_hash == tool.definition_hash
    for name in PROTOCOLS:
        wire: Any = get_protocol(name)
        assert wire.definitions([tool]) or wire.prompt([tool])


def test_a_default_of_null() -> None:
    """17.2: null is a value of it, and is filled in."""
    found = ToolParameterValidator().validate(read('type: [string, "null"], default: null'), {})
    assert found.validated_params == {"a": None}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("type: [string, null]", 'got nothing; write "null", in quotes'),
        ("type: [string, any]", "expected one of string"),
        ("type: [string, string]", "type"),
        ("type: []", "must not be empty"),
        ("type: [string, 'null'], min: 1", "min does not apply to the types string, null"),
        ("type: [string, 'null'], default: 1", "expected a string or null, got the number 1"),
        ("type: [string, 'null'], enum: [a, 1]", "expected a string or null"),
        ("type: [string, 'null'], schema: {type: string}", "type has its own key"),
        ("type: [string, 'null'], pattern: '(?=a)'", "linear time"),
    ],
)
def test_wrong(rules: str, words: str) -> None:
    """17.2: what no value of them can break is an error, as with one type."""
    with pytest.raises(DefinitionError) as caught:
        read(rules)
    assert words in str(caught.value)
