"""Do all ways into a tool accept and refuse the same arguments, and hand on the same value?

Looked at: the quick path of `execute` (`accept_packed`) and of the validator (`accept`), the
careful one (`explain`), tools of files, of `register_tool`, made as `Tool(...)`, of sessions,
native and text protocols. What decides is `jsonschema`, on the value as it was sent, and a way
of filling in defaults that is written here a second time.
"""

from __future__ import annotations

import asyncio
import copy
import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolParameterValidator,
    ToolSession,
)
from tool_engine.model.schema import value_schema
from tool_engine.protocols import get_protocol

NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(0, 3)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.sampled_from([1.0, 2.5, -1.0, "", "a", "ab", "abc", "1", "中"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


foreign = st.sampled_from(
    [b"x", datetime(2026, 1, 1, tzinfo=UTC), {1: 2}, (1, 2), {1}, float("inf"), float("nan"), 1.0]
)


@st.composite
def fitting(draw: st.DrawFn, schema: Any, others: st.SearchStrategy[Any]) -> Any:
    """Mostly a value that `schema` accepts; where it says little, one of `others`."""
    if draw(st.integers(0, 9)) == 0 or not isinstance(schema, dict):
        return draw(others)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        value = {
            name: draw(fitting(below, others))
            for name, below in properties.items()
            if name in schema.get("required", ()) or draw(st.booleans())
        }
        if draw(st.booleans()):
            value[draw(NAMES)] = draw(fitting(schema.get("additionalProperties"), others))
        return value
    if kind == "array":
        return draw(st.lists(fitting(schema.get("items", {}), others), max_size=2))
    samples = {"integer": 1, "number": 2, "string": "ab", "boolean": True}
    return samples[kind] if isinstance(kind, str) else draw(others)


@st.composite
def raw_schemas(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    """JSON Schema of an object, a list or a scalar, with defaults inside that fit."""
    kind = draw(st.sampled_from(["object", "object", "array", "scalar"] if depth else ["scalar"]))
    if kind == "scalar":
        leaf: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"type": "integer"},
                    {"type": "number", "maximum": 2},
                    {"type": "string", "maxLength": 2},
                    {"type": ["string", "null"]},
                    {"type": "boolean"},
                    {},
                ]
            )
        )
        return dict(leaf)
    if kind == "array":
        schema = {"type": "array", "items": draw(raw_schemas(depth - 1))}
        return {**schema, **draw(st.sampled_from([{}, {"maxItems": 2}, {"uniqueItems": True}]))}
    properties = {}
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        below = draw(raw_schemas(depth - 1))
        default = draw(fitting(below, values))
        if draw(st.booleans()) and jsonschema.Draft202012Validator(below).is_valid(default):
            below["default"] = default
        properties[name] = below
    schema = {"type": "object", "properties": properties}
    rules: list[dict[str, Any]] = [
        {},
        {"additionalProperties": False},
        {"additionalProperties": draw(raw_schemas(0))},
        {"maxProperties": draw(SMALL)},
        {"minProperties": 1},
        {"required": ["a"]},
        {"dependentRequired": {"a": ["b"]}},
        {"propertyNames": {"enum": ["a", "b"]}},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"anyOf": [{"required": ["a"]}, {"maxProperties": 1}]},
        {"not": {"required": ["c"]}},
        {"enum": [{}, {"a": 1}, {"a": 1, "b": "ab"}]},
        {"const": {"a": 1}},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    ]
    for rule in draw(st.lists(st.sampled_from(rules), max_size=3)):
        schema.update(rule)
    return schema


@st.composite
def short_keys(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """The same in the short keys of a definition."""
    kind = draw(st.sampled_from(["object", "array", "integer", "string", "boolean"]))
    if kind == "object" and depth:
        properties = {}
        for name in draw(st.lists(NAMES, max_size=3, unique=True)):
            below = draw(short_keys(depth - 1))
            schema = value_schema(below)
            default = draw(fitting(schema, values))
            is_right = jsonschema.Draft202012Validator(schema).is_valid(default)
            if draw(st.booleans()) and default is not None and is_right:
                below["default"] = default
            properties[name] = below
        return {"type": "object", "properties": properties} if properties else {"type": "object"}
    if kind == "array" and depth:
        return {"type": "array", "items": draw(short_keys(depth - 1))}
    leaves: list[dict[str, Any]] = [
        {"type": "integer", "min": 0},
        {"type": "string", "max_length": 2},
        {"type": "boolean"},
        {"type": "object"},
    ]
    return dict(draw(st.sampled_from(leaves)))


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """The definition of a tool with one to three parameters."""
    parameters = []
    for name in draw(st.lists(st.sampled_from(["p", "q", "r"]), min_size=1, unique=True)):
        if draw(st.booleans()):
            spec = draw(short_keys())
        else:
            schema = {"type": ["string", "object", "null"], **draw(raw_schemas())}
            types = schema["type"]
            kind = types if isinstance(types, str) else "string"
            spec = {"type": kind, "schema": schema}
        parameters.append({"name": name, "description": "x", **spec})
        if draw(st.booleans()):
            parameters[-1]["required"] = True
    return {
        "name": "t",
        "description": "d",
        "parameters": parameters,
        "entry": {"type": "custom", "handler": "keep"},
    }


@st.composite
def calls(draw: st.DrawFn, others: st.SearchStrategy[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A definition, and arguments for it."""
    definition = draw(definitions())
    schema = ToolConfigLoader().from_mapping(definition).parameters_schema
    sent = draw(fitting({**schema, "additionalProperties": False}, others))
    if not isinstance(sent, dict):
        sent = {"p": sent}
    if draw(st.integers(0, 3)) == 0:
        sent["zzz"] = draw(others)
    return definition, sent


class Keeper:
    """An executor that keeps what it was handed."""

    def __init__(self) -> None:
        self.got: Any = None

    async def execute(self, tool: Tool, params: dict[str, Any], context: object) -> str:
        self.got = params
        return "done"


def filled(schema: Mapping[str, Any], value: Any) -> Any:
    """`value` with the defaults that `properties`, `items` and `additionalProperties` lead to."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        rest = rest if isinstance(rest, dict) else {}
        value = {key: filled(properties.get(key, rest), item) for key, item in value.items()}
        for key, below in properties.items():
            if key not in value and "default" in below and key not in schema.get("required", ()):
                value[key] = filled(below, copy.deepcopy(below["default"]))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        value = [filled(schema["items"], item) for item in value]
    return value


def kept(spec: Any, value: Any) -> Any:
    """`value` without the keys that short keys do not declare."""
    if not isinstance(spec, dict) or spec.get("schema"):
        return value
    spec = {**spec, **spec.get("validation", {})}
    if isinstance(value, dict) and spec.get("properties"):
        declared = spec["properties"]
        return {key: kept(declared[key], item) for key, item in value.items() if key in declared}
    if isinstance(value, list):
        return [kept(spec.get("items"), item) for item in value]
    return value


def truth(tool: Tool, sent: dict[str, Any], *, strict: bool) -> Any:
    """What an engine hands on, by an independent validator; None: it refuses."""
    schema = tool.parameters_schema
    if not strict:
        specs = {
            each.name: {"validation": each.validation, "schema": each.schema}
            for each in tool.parameters
        }
        sent = kept({"properties": specs}, sent)
    optional = {item.name for item in tool.parameters if not item.required}
    judge = jsonschema.Draft202012Validator
    loose = {name: judge(schema["properties"][name]) for name in optional}
    plain = {
        name: value
        for name, value in sent.items()
        if value is not None or name not in optional or loose[name].is_valid(None)
    }
    return filled(schema, plain) if judge(schema).is_valid(plain) else None


def alike(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON: 1.0 and 1 are, true and 1 are not."""
    return bool(_marked(left) == _marked(right))


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return ("truth", value) if isinstance(value, bool) else value


async def ways_in(definition: dict[str, Any], sent: dict[str, Any], *, strict: bool) -> list[Any]:
    """What the tool got, for each way in which it can be called; None: the call was refused."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "t.yaml")
        await asyncio.to_thread(file.write_text, json.dumps(definition) + "\n")
        config = ToolEngineConfig(
            folder, auto_reload=False, strict_validation=strict, cache_directory=None
        )
        keeper, found = Keeper(), []
        async with ToolEngine(config) as engine:
            engine.register_executor("keep", keeper)
            in_code = engine.register_tool({**definition, "name": "u"})
            by_hand = msgspec.structs.replace(in_code, id="w", name="w")
            engine.register_tool(by_hand)
            assert not engine.load_errors
            session = ToolSession(engine, "s")
            text = json.dumps({"name": "t", "arguments": sent})
            block = f"<function_call>{text}</function_call>"
            calls = [
                engine.execute("t", sent),
                engine.execute("u", sent),
                engine.execute("w", sent),
                session.execute("t", sent),
                session.process(_native(sent), get_protocol("openai")),
                session.process(block, get_protocol("function_call")),
            ]
            for call in calls:
                keeper.got = None
                await call
                found.append(keeper.got)
    return found


def _native(sent: dict[str, Any]) -> dict[str, Any]:
    function = {"name": "t", "arguments": json.dumps(sent)}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"finish_reason": "tool_calls", "message": message}]}


@settings(max_examples=share_of(60), suppress_health_check=list(HealthCheck))
@given(calls(values), st.booleans())
def test_every_way_in_says_the_same(
    call: tuple[dict[str, Any], dict[str, Any]], strict: bool
) -> None:
    """K8-K13, U18: accepted, refused and filled in alike, whichever way the arguments come."""
    definition, sent = call
    tool = ToolConfigLoader().from_mapping(definition)
    checked = ToolParameterValidator(strict=strict).validate(tool, sent)
    expected = checked.validated_params if checked.is_valid else None
    assert alike(expected, truth(tool, sent, strict=strict))
    with asyncio.Runner() as runner:
        for got in runner.run(ways_in(definition, sent, strict=strict)):
            assert repr(_ordered(got)) == repr(_ordered(expected))


@st.composite
def closed_schemas(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Raw schema of an object without other keys, somewhere inside, and a value for it."""
    closed = {**draw(raw_schemas(1)), "type": "object", "additionalProperties": False}
    value = draw(fitting(closed, values) | st.dictionaries(NAMES, scalars, max_size=3))
    forms = st.sampled_from(["bare", "property", "item", "branch"])
    form = draw(forms)
    if form == "property":
        return {"properties": {"a": closed}}, {"a": value}
    if form == "item":
        inner = {"type": "array", "items": closed}
        return {"properties": {"a": inner}, "minProperties": 1}, {"a": [value]}
    if form == "branch":
        return {"anyOf": [closed, {"required": ["c"]}]}, value
    return closed, value


@settings(max_examples=share_of(300))
@given(closed_schemas())
def test_raw_schema_says_what_json_schema_says(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """What stands in `schema:` is judged as it was sent, strict or not; no key is kept out."""
    schema, sent = case
    schema = {"type": "object", **schema}
    spec = {"name": "p", "type": "object", "description": "x", "required": True, "schema": schema}
    definition = {
        "name": "t",
        "description": "d",
        "parameters": [spec],
        "entry": {"type": "custom"},
    }
    tool = ToolConfigLoader().from_mapping(definition)
    is_right = jsonschema.Draft202012Validator(tool.parameters_schema).is_valid({"p": sent})
    for strict in (False, True):
        checked = ToolParameterValidator(strict=strict).validate(tool, {"p": sent})
        assert checked.is_valid is is_right
        assert not checked.warnings
        if is_right:
            assert alike(checked.validated_params, {"p": filled(schema, sent)})


@st.composite
def open_schemas(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of all arguments, which speaks of others than it declares, and arguments."""
    others = draw(raw_schemas(1))
    rules: list[dict[str, Any]] = [
        {"additionalProperties": others},
        {"additionalProperties": True},
        {"patternProperties": {"^[bc]": others}},
        {"patternProperties": {"^b": others}, "additionalProperties": False},
        {"unevaluatedProperties": others},
        {"anyOf": [{"required": ["a"], "additionalProperties": others}, {"maxProperties": 1}]},
        {"allOf": [{"additionalProperties": others}]},
    ]
    declared = draw(st.dictionaries(NAMES, raw_schemas(1), max_size=1))
    rule = draw(st.sampled_from(rules))
    names = {"propertyNames": {"enum": ["a", "b"]}} if draw(st.booleans()) else {}
    schema = {"type": "object", "properties": declared, **rule, **names}
    sent = {name: draw(fitting(below, values)) for name, below in declared.items()}
    for name in draw(st.lists(NAMES, max_size=2)):
        sent.setdefault(name, draw(fitting(others, values)))
    return schema, sent


@settings(max_examples=share_of(300))
@given(open_schemas())
def test_arguments_that_a_schema_speaks_of_are_judged_by_it(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """What is published is what is enforced: none of them is left out, right or wrong."""
    schema, sent = case
    tool = ToolConfigLoader().from_mapping({"name": "t", "description": "d", "parameters": schema})
    optional = {
        name for name, value in sent.items() if value is None and name in schema["properties"]
    }
    is_right = jsonschema.Draft202012Validator(schema).is_valid(sent)
    for strict in (False, True):
        checked = ToolParameterValidator(strict=strict).validate(tool, sent)
        assert not checked.warnings
        # A null for an optional argument may say that there is none.
        assert checked.is_valid is is_right or optional
        if checked.is_valid:
            assert checked.validated_params.keys() >= sent.keys() - optional


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _ordered(item)) for key, item in value.items())
    return [_ordered(item) for item in value] if isinstance(value, list) else value


anything = st.recursive(
    scalars | foreign,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=share_of(300))
@given(calls(anything))
def test_both_paths_say_the_same(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """What a quick path hands on is what the careful one does; it never takes what that refuses."""
    definition, sent = call
    tool = ToolConfigLoader().from_mapping(definition)
    for strict in (False, True):
        compiled = ToolParameterValidator(strict=strict).compiled(tool)
        careful = compiled.explain(sent)
        quick = [compiled.accept(sent)]
        try:
            quick.append(compiled.accept_packed(sent, msgspec.msgpack.encode(sent)))
        except (TypeError, ValueError):
            quick.append(compiled.accept_packed(sent, b""))
        for accepted in quick:
            if accepted is not None:
                assert careful.is_valid
                assert repr(_ordered(accepted)) == repr(_ordered(careful.validated_params))
        if careful.is_valid and not careful.warnings:
            assert None not in quick or None in sent.values()
