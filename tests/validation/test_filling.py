"""When are defaults inside objects and lists filled in, and by what are they judged?"""

from __future__ import annotations

from typing import Any

import pytest

import tool_engine.catalog.definition.raw_schema  # noqa: F401 - imported before a loop runs
from tests.calls.samples import bare
from tests.effort import IS_WHOLE
from tool_engine import (
    DefinitionError,
    Tool,
    ToolCategory,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolParameter,
    ToolParameterValidator,
)
from tool_engine.validation import filling
from tool_engine.validation.filling import MAX_FILLED

NESTED = {"a": {"type": "integer", "default": 7}, "b": {"type": "integer"}}
EITHER = [{"required": ["email"]}, {"required": ["phone"]}]
ADDRESS = {
    "properties": {"email": {"type": "string"}, "phone": {"type": "string", "default": ""}},
    "oneOf": EITHER,
}


def parameter(name: str, kind: str = "object", **spec: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "description": "x", **spec}


def definition(*parameters: dict[str, Any]) -> dict[str, Any]:
    return bare("t", parameters=[*parameters, parameter("n", "number")])


async def handed_over(declared: dict[str, Any], sent: dict[str, Any]) -> Any:
    """What the handler gets through an engine; the error's type when it gets nothing."""

    async def keep(**arguments: Any) -> dict[str, Any]:
        return arguments

    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(declared, keep)
        result = await engine.execute("t", sent)
    checked = ToolParameterValidator().validate(ToolConfigLoader().from_mapping(declared), sent)
    assert checked.is_valid is result.is_success
    assert not checked.is_valid or checked.validated_params == result.output
    return result.output if result.is_success else result.error_type


@pytest.mark.parametrize("more", [{}, {"n": None}, {"zzz": 1}, {"n": 1.0}])
async def test_whatever_else_is_sent(more: dict[str, Any]) -> None:
    """A default inside an object is filled in, whatever else stands in the call."""
    declared = definition(parameter("v", validation={"properties": NESTED}))
    rest = {"n": 1.0} if more == {"n": 1.0} else {}
    assert await handed_over(declared, {"v": {"b": 1}, **more}) == {"v": {"b": 1, "a": 7}, **rest}
    assert await handed_over(declared, {"v": {"b": 1.0}, **more}) == {"v": {"b": 1, "a": 7}, **rest}
    assert await handed_over(declared, more) == rest


@pytest.mark.parametrize("more", [{}, {"n": None}, {"zzz": 1}])
@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        (ADDRESS, {"email": "a@b.c"}, {"email": "a@b.c", "phone": ""}),
        (ADDRESS, {}, None),
        ({"properties": NESTED, "maxProperties": 1}, {"b": 1}, {"b": 1, "a": 7}),
        ({"properties": NESTED, "minProperties": 1}, {}, None),
        ({"properties": NESTED, "propertyNames": {"const": "b"}}, {"b": 1}, {"b": 1, "a": 7}),
        ({"properties": NESTED, "dependentRequired": {"a": ["b"]}}, {}, {"a": 7}),
        ({"properties": NESTED, "dependentRequired": {"a": ["b"]}}, {"a": 1}, None),
        ({"properties": NESTED, "not": {"required": ["a"]}}, {}, {"a": 7}),
    ],
)
async def test_judged_as_sent(
    schema: dict[str, Any], value: Any, filled: Any, more: dict[str, Any]
) -> None:
    """The rules are held by what was sent; a default neither breaks one nor keeps one."""
    found = await handed_over(definition(parameter("v", schema=schema)), {"v": value, **more})
    assert found == ("validation_error" if filled is None else {"v": filled})


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        (
            {"items": {"type": "object", "properties": NESTED}},
            [{}, {"a": 1}],
            [{"a": 7}, {"a": 1}],
        ),
        ({"items": {"items": {"properties": NESTED}}}, [[{}], 5], [[{"a": 7}], 5]),
        ({"prefixItems": [{}], "items": {"properties": NESTED}}, [{}, {}], [{}, {}]),
    ],
)
async def test_inside_lists(schema: dict[str, Any], value: Any, filled: Any) -> None:
    """Defaults are filled in for each item, unless the first ones have rules of their own."""
    declared = definition(parameter("v", "array", schema=schema))
    assert await handed_over(declared, {"v": value}) == {"v": filled}


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        ({"additionalProperties": {"properties": NESTED}}, {"x": {}}, {"x": {"a": 7}}),
        ({"patternProperties": {"^x": {"properties": NESTED}}}, {"x": {}}, {"x": {}}),
        ({"anyOf": [{"properties": NESTED}]}, {}, {}),
        ({"if": {"required": ["b"]}, "then": {"properties": NESTED}}, {"b": 1}, {"b": 1}),
        ({"properties": {"o": {"default": {}, "properties": NESTED}}}, {}, {"o": {"a": 7}}),
        ({"properties": {"a": {"default": 7}}, "required": ["a"]}, {}, None),
    ],
)
async def test_only_what_certainly_applies(schema: dict[str, Any], value: Any, filled: Any) -> None:
    """A branch need not apply, so nothing of it is filled in; a default is filled itself."""
    found = await handed_over(definition(parameter("v", schema=schema)), {"v": value})
    assert found == ("validation_error" if filled is None else {"v": filled})


async def test_inside_a_parameters_own_default() -> None:
    """The default of a parameter gets the defaults inside of it, and each call a copy."""
    spec = parameter("v", default={}, validation={"properties": {"l": _LIST}})
    for _ in range(2):
        found = await handed_over(definition(spec), {})
        assert found == {"v": {"l": []}}
        found["v"]["l"].append(1)


_LIST = {"type": "array", "default": []}


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"validation": {"properties": {"a": {"type": "integer", "default": "ten"}}}}, "a.default"),
        ({"schema": {"properties": {"a": {"type": "integer", "default": "ten"}}}}, "a.default"),
        ({"schema": {"properties": {"a": {"type": "integer", "default": None}}}}, "a.default"),
        (
            {"schema": {"properties": {"a": {"items": {"maximum": 1, "default": 2}}}}},
            "items.default",
        ),
        ({"schema": {"anyOf": [{"properties": {"a": {"const": 1, "default": 2}}}]}}, "a.default"),
    ],
)
def test_defaults_are_judged_when_loaded(spec: dict[str, Any], place: str) -> None:
    """A default that breaks its own rules is an error with its place, at every depth."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().from_mapping(definition(parameter("v", **spec)))
    assert str(caught.value.problems[0].path).endswith(place)


def test_defaults_of_tools_made_in_code_are_judged() -> None:
    """A `Tool` that no loader has seen is judged before its first call, references followed."""
    text = {"type": "string"}
    for below in ({"type": "integer"}, {"$ref": "#/properties/n"}):
        raw = {"properties": {"a": {**below, "default": "ten"}}}
        parameters = [ToolParameter("n", "integer"), ToolParameter("v", "object", schema=raw)]
        tool = Tool("t", "t", "1", "", ToolCategory.CUSTOM, [], parameters, {})
        with pytest.raises(DefinitionError, match=r"default of 'v\.a' must be an integer"):
            ToolParameterValidator().validate(tool, {})
        raw["properties"]["a"] = {**text, "default": "ten"}
        assert ToolParameterValidator().validate(tool, {"v": {}}).validated_params == {
            "v": {"a": "ten"}
        }


def test_defaults_in_branches_are_told_of() -> None:
    """A default that no call can get is a finding of the tool."""
    branch = {"properties": {"a": {"type": "integer", "default": 1}}}
    tool = ToolConfigLoader().from_mapping(definition(parameter("v", schema={"anyOf": [branch]})))
    (finding,) = tool.findings
    assert "parameters[0].schema.anyOf[0].properties.a.default: a default in a branch" in finding
    certain = parameter("v", schema={"properties": {"w": branch}})
    assert ToolConfigLoader().from_mapping(definition(certain)).findings == []


ROWS = {"name": "rows", "type": "any", "description": "Rows", "required": True}


@pytest.mark.parametrize("default", [1, [1, 2, 3], {"a": [{}, {}]}])
def test_a_bound_for_what_is_filled_in(default: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time: a few bytes for each item do not become any number of values."""
    most = MAX_FILLED if IS_WHOLE else 8_000
    monkeypatch.setattr(filling, "MAX_FILLED", most)
    kind = {int: "integer", list: "array", dict: "object"}[type(default)]
    rows = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    rows["items"]["properties"]["tags"] = {"type": kind, "default": default}  # type: ignore[index]
    found = {"name": "t", "description": "d", "parameters": [{**ROWS, "schema": rows}]}
    declared = ToolConfigLoader().from_mapping(found)
    each = 1 + {int: 0, list: 3, dict: 3}[type(default)]
    validate = ToolParameterValidator().validate
    right = [{"n": 1}] * (most // each)
    filled = validate(declared, {"rows": [dict(row) for row in right]}).validated_params["rows"]
    assert [filled[0], filled[-1]] == [{"n": 1, "tags": default}] * 2
    one_more = validate(declared, {"rows": [*right, {}, {}]})
    assert [error.error_type for error in one_more.errors] == ["constraint_violation"]
    assert "send fewer items in one call" in one_more.errors[0].message
    wrong = validate(declared, {"rows": [*right, {"n": "x"}]})
    assert wrong.errors[0].path == f"rows[{len(right)}].n"
