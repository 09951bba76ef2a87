"""Which unknown keys are kept out, and which are judged as JSON Schema judges them?"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests.calls.samples import bare
from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolParameterValidator,
    ToolSubAgent,
    ValidationResult,
)

CLOSED: dict[str, Any] = {"properties": {"a": {"type": "integer"}}, "additionalProperties": False}
RULES: dict[str, dict[str, Any]] = {
    "additionalProperties": {},
    "maxProperties": {"maxProperties": 1},
    "minProperties": {"minProperties": 2},
    "not": {"not": {"required": ["b"]}},
    "enum": {"enum": [{"a": 1}, {}]},
    "const": {"const": {"a": 1}},
    "dependentRequired": {"dependentRequired": {"b": ["c"]}},
    "propertyNames": {"propertyNames": {"maxLength": 1}},
    "if": {"if": {"required": ["b"]}, "then": {"required": ["c"]}},
    "unevaluatedProperties": {"unevaluatedProperties": False},
}
SENT: list[dict[str, Any]] = [{}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2}, {"a": 1, "long": 2}]


def tool(**spec: Any) -> Tool:
    """A tool with the one parameter `v`."""
    parameter = {"name": "v", "type": "object", "required": True, "description": "x", **spec}
    return ToolConfigLoader().from_mapping(bare("t", parameters=[parameter]))


def validated(declared: Tool, value: Any) -> ValidationResult:
    return ToolParameterValidator().validate(declared, {"v": value})


@pytest.mark.parametrize("keyword", RULES)
@pytest.mark.parametrize("sent", SENT)
async def test_raw_schema_is_json_schema(keyword: str, sent: dict[str, Any]) -> None:
    """What stands in `schema:` says of what was sent what an independent validator says of it."""
    schema = {"type": "object", **CLOSED, **RULES[keyword]}
    is_right = jsonschema.Draft202012Validator(
        {"properties": {"v": schema}, "type": "object"}
    ).is_valid({"v": sent})
    declared = tool(schema=schema)
    checked = validated(declared, sent)
    assert checked.is_valid is is_right
    assert checked.validated_params == ({"v": sent} if is_right else {})
    assert not checked.warnings
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(declared, lambda v: {"got": v})
        result = await engine.execute("t", {"v": sent})
    assert result.is_success is is_right
    assert not is_right or result.output == {"got": sent}


def test_unknown_key_is_named() -> None:
    """A key that `additionalProperties: false` refuses has its place, and the nearest known key."""
    schema = {"properties": {"deep": {"type": "object", **CLOSED}}}
    (error,) = validated(tool(schema=schema), {"deep": {"a": 1, "A": 2}}).errors
    assert (error.path, error.error_type, error.level) == ("v.deep.A", "extra_parameter", "error")
    assert error.message == "unknown parameter 'v.deep.A': did you mean 'a'?"


SHORT: dict[str, Any] = {"properties": {"a": {"type": "object", "properties": {"b": "string"}}}}


@pytest.mark.parametrize(
    ("spec", "sent", "path"),
    [
        ({"validation": SHORT}, {"x": 1}, "v.x"),
        ({"validation": SHORT}, {"a": {"x": 1}}, "v.a.x"),
        (SHORT, {"a": {"x": 1}}, "v.a.x"),
        ({"type": "array", "items": {"type": "object", **SHORT}}, [{"a": {"x": 1}}], "v[0].a.x"),
    ],
)
def test_short_keys_keep_out(spec: dict[str, Any], sent: Any, path: str) -> None:
    """U18: under short keys alone, an unknown key is kept out with a warning, as a parameter is."""
    checked = validated(tool(**spec), sent)
    assert checked.is_valid
    assert [(each.path, each.level) for each in checked.warnings] == [(path, "warning")]
    assert "x" not in repr(checked.validated_params)


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ({"validation": SHORT, "schema": {"maxProperties": 1}}, {"a": {}, "x": 1}),
        ({"validation": SHORT, "schema": {"not": {"required": ["x"]}}}, {"x": 1}),
        ({"validation": SHORT, "schema": {"enum": [{"a": {}}]}}, {"a": {"x": 1}}),
        ({"properties": {"a": {"type": "object", "schema": CLOSED}}}, {"a": {"x": 1}}),
    ],
)
def test_raw_schema_beside_short_keys(spec: dict[str, Any], sent: Any) -> None:
    """A `schema:` judges what was sent, also where short keys declare the keys of the object."""
    assert not validated(tool(**spec), sent).is_valid


def test_unknown_parameter_is_kept_out() -> None:
    """U18: an unknown parameter is no error unless strict, whatever the others are declared by."""
    checked = ToolParameterValidator().validate(tool(schema=CLOSED), {"v": {"a": 1}, "zzz": 2})
    assert checked.is_valid
    assert checked.validated_params == {"v": {"a": 1}}
    strict = ToolParameterValidator(strict=True)
    assert not strict.validate(tool(schema=CLOSED), {"v": {"a": 1}, "zzz": 2}).is_valid


def test_default_with_an_unknown_key() -> None:
    """A default that its own `additionalProperties: false` refuses does not load."""
    loader = ToolConfigLoader()
    parameter = {"name": "v", "type": "object", "description": "x", "default": {"b": 1}}
    for rules in ({"schema": CLOSED}, {"properties": {"a": "integer"}}):
        with pytest.raises(ValueError, match="'b'"):
            ToolParameterValidator().compiled(
                loader.from_mapping(bare("t", parameters=[{**parameter, **rules}]))
            )


OTHERS: dict[str, dict[str, Any]] = {
    "additionalProperties": {"additionalProperties": {"type": "integer"}},
    "patternProperties": {"patternProperties": {"^x_": {"type": "integer"}}},
    "closed patternProperties": {
        "patternProperties": {"^x_": {"type": "integer"}},
        "additionalProperties": False,
    },
    "unevaluatedProperties": {"unevaluatedProperties": {"type": "integer"}},
    "propertyNames": {
        "additionalProperties": {"type": "integer"},
        "propertyNames": {"maxLength": 3},
    },
    "a form": {"allOf": [{"additionalProperties": {"type": ["integer", "string"]}}]},
}
"""What a schema of all arguments may say of those that it does not declare."""


@pytest.mark.parametrize("rule", OTHERS)
@pytest.mark.parametrize(
    "sent",
    [{"a": "q", "x_1": 5}, {"x_1": 5.0}, {"x_1": [5]}, {"x_1": None}, {"x_12": 5}, {"x_1": {}}],
)
async def test_an_argument_that_is_not_declared_is_judged_by_what_is_said_of_it(
    rule: str, sent: dict[str, Any]
) -> None:
    """What is published is enforced: a wrong one is refused in its place, and a right one comes."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, **OTHERS[rule]}
    declared = ToolConfigLoader().from_mapping(bare("t", parameters=schema))
    name = list(sent)[-1]
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(declared, lambda **others: {"got": others})
        result = await engine.execute("t", sent)
        outcomes = await ToolSubAgent("helper", engine).execute_batch([("t", sent)])
    is_right = jsonschema.Draft202012Validator(schema).is_valid(sent)
    assert [each.is_success for each in outcomes] == [result.is_success] == [is_right]
    if is_right:
        assert result.output == {"got": sent}
        assert result.validation_errors == []
    else:
        assert result.error_type == "validation_error"
        assert {each["level"] for each in result.validation_errors} == {"error"}
        assert name in str(result.error)
        assert "unknown parameter" not in str(result.error) or rule.startswith("closed")


def test_a_secret_that_is_not_declared_is_hidden_where_it_does_not_fit() -> None:
    """It was left out before, so no message could show it."""
    schema = {"type": "object", "additionalProperties": {"type": "integer", "writeOnly": True}}
    declared = ToolConfigLoader().from_mapping(bare("t", parameters={**schema, "properties": {}}))
    checked = ToolParameterValidator().validate(declared, {"pin": "a-secret-text"})
    assert [each.path for each in checked.errors] == ["pin"]
    assert "a-secret-text" not in str(checked)
