"""Does what is read and judged in one step agree with an independent validator?"""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import jsonschema
import msgspec
import pytest
from hypothesis import event, given, settings

from tests.effort import share_of
from tool_engine.validation.typed_reader import reader_of

NUMBERS = st.sampled_from([0, 1, -1, 2, 5, 2**53, 2**64 - 1, -(2**63)])
FRACTIONS = st.sampled_from([0.5, -0.5, 1.0, 2.5, 1e300, -1e300, 5e-324, math.inf, -math.inf])
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null"])
BOUNDS = st.dictionaries(
    st.sampled_from(["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"]),
    st.sampled_from([-2, 0, 1, 3, 0.5, -0.5, 1.0, 2**53, -(2**53)]),
    max_size=2,
)
VALUES = st.one_of(
    st.sampled_from(["", "a", "b", "1", "é", "👍🏽", "a👍"]),
    st.sampled_from([True, False, None, 1.0, 0.5, math.inf, -0.0]),
    st.sampled_from([b"a", [1], {}, {"a": 1}, [None]]),
    NUMBERS,
)
USUAL = {
    "string": st.sampled_from(["a", "b", "1", "é", "", "👍🏽", "a👍"]),
    "integer": NUMBERS,
    "number": st.one_of(NUMBERS, FRACTIONS),
    "boolean": st.booleans(),
    "null": st.none(),
}
NAMES = st.sampled_from(["a", "b", "class", "a b", ""])


def lengths(least: str, most: str) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from([least, most]), st.integers(0, 3))


def is_one_a_side(bounds: dict[str, Any]) -> bool:
    return not bounds.keys() >= {"minimum", "exclusiveMinimum"} and (
        not bounds.keys() >= {"maximum", "exclusiveMaximum"}
    )


@st.composite
def properties(draw: st.DrawFn) -> dict[str, Any]:
    about: dict[str, Any] = {"type": draw(KINDS)}
    if about["type"] == "string":
        if draw(st.booleans()):
            about["enum"] = draw(st.lists(st.sampled_from(["a", "b", "1"]), min_size=1))
        else:
            about.update(draw(lengths("minLength", "maxLength")))
    if about["type"] in ("integer", "number"):
        about.update(draw(BOUNDS.filter(is_one_a_side)))
    return about


def nested_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and objects of schemas, and schemas that may be null."""
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    objects = fields.flatmap(
        lambda held: st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.just(held)},
            optional={
                "required": st.lists(st.sampled_from(list(held)), unique=True),
                "additionalProperties": st.sampled_from([False, True, {"type": "string"}]),
            },
        )
    )
    return st.one_of(
        st.builds(
            lambda items, size: {"type": "array", "items": items, **size},
            inner,
            lengths("minItems", "maxItems"),
        ),
        objects,
        properties().filter(is_nullable).map(lambda each: {**each, "type": [each["type"], "null"]}),
    )


def is_nullable(schema: dict[str, Any]) -> bool:
    return schema["type"] in ("string", "integer", "number", "boolean") and "enum" not in schema


SCHEMAS = st.recursive(properties(), nested_schemas, max_leaves=6)


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that mostly fit."""
    kind = schema["type"]
    if isinstance(kind, list):
        return st.one_of(st.none(), values_of({**schema, "type": kind[0]}))
    if kind == "array":
        return st.one_of(st.lists(values_of(schema["items"]), max_size=3), VALUES)
    if kind == "object":
        fitting = {name: values_of(each) for name, each in schema["properties"].items()}
        required = {
            name: each for name, each in fitting.items() if name in schema.get("required", ())
        }
        others = {name: each for name, each in fitting.items() if name not in required}
        made = st.fixed_dictionaries(required, optional=others)
        return st.one_of(made, made, st.dictionaries(NAMES, VALUES), VALUES)
    return st.one_of(USUAL[kind], VALUES)


@settings(max_examples=share_of(600))
@given(st.data())
def test_what_it_lets_pass_is_valid_inside(data: st.DataObject) -> None:
    """At every depth: lists, objects in objects, and what may be null."""
    about = data.draw(SCHEMAS)
    schema = {"type": "object", "properties": {"a": about}, "required": ["a"]}
    read = reader_of(schema)
    assert read is not None
    sent = {"a": data.draw(values_of(about))}
    try:
        got = read(msgspec.msgpack.encode(sent))
    except msgspec.ValidationError:
        event("refused")
        return
    if got != sent:
        event("changed")
        return
    event("passed")
    assert repr(got) == repr(sent)
    jsonschema.Draft202012Validator(schema).validate(got)


def test_how_deep_it_reads() -> None:
    """Deeper is the validator's: a type for each level is made when a tool is compiled."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(7):
        schema = {"type": "object", "properties": {"a": schema}}
    assert reader_of(schema) is not None
    assert reader_of({"type": "object", "properties": {"a": schema}}) is None


@settings(max_examples=share_of(600))
@given(st.data())
def test_what_it_lets_pass_is_valid(data: st.DataObject) -> None:
    """It never says yes where JSON Schema says no, and hands on the same value."""
    fields = data.draw(st.dictionaries(NAMES, properties(), min_size=1, max_size=3))
    required = data.draw(st.lists(st.sampled_from(list(fields)), unique=True))
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": required}
    schema["additionalProperties"] = False
    read = reader_of(schema)
    assert read is not None
    likely = {name: st.one_of(USUAL[about["type"]], VALUES) for name, about in fields.items()}
    sent = data.draw(st.one_of(st.fixed_dictionaries(likely), st.dictionaries(NAMES, VALUES)))
    try:
        got = read(msgspec.msgpack.encode(sent))
    except msgspec.ValidationError:
        event("refused")
        return
    if got != sent:
        event("changed")
        return
    event("passed")
    assert repr(got) == repr({name: sent[name] for name in got})
    jsonschema.Draft202012Validator(schema).validate(got)


@pytest.mark.parametrize(
    "about",
    [
        {"type": "number", "minimum": 2**70},
        {"type": "number", "minimum": 1, "exclusiveMinimum": 1},
        {"type": "number", "multipleOf": 0.5},
        {"type": ["integer", "string"]},
        {"type": ["integer", "string", "null"]},
        {"type": ["null"]},
        {"type": ["null", "null"]},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "array", "items": {"type": "string"}, "minItems": 1.0},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "array", "items": True},
        {"type": "object", "properties": {"b": {"type": "string"}}, "maxProperties": 1},
        {"type": "object"},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/tree"},
        {"$ref": "#/properties/a"},
        {"$ref": "#/$defs/text", "maxLength": 1},
        {"type": "string", "pattern": "a"},
        {"type": "string", "format": "date"},
        {"type": "string", "minLength": 1, "enum": ["a"]},
        {"type": "string", "enum": ["a", 1]},
        {"type": "string", "enum": []},
        {"type": "integer", "enum": [1]},
        {"type": "integer", "maximum": 2**70},
        {"type": "integer", "multipleOf": 2},
        {"type": "array"},
        {},
    ],
    ids=str,
)
def test_what_it_leaves_to_the_validator(about: dict[str, Any]) -> None:
    """One rule that the types of msgspec do not say in the same way is enough."""
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}
    definitions = {"tree": tree, "text": {"type": "string"}}
    schema = {"type": "object", "properties": {"a": about}, "$defs": definitions}
    assert reader_of(schema) is None


def test_definitions() -> None:
    """What is referred to is read like what stands in place, and made once."""
    levels: dict[str, Any] = {
        f"{each}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/{each + 1}"} for name in "abcdefgh"},
        }
        for each in range(6)
    }
    levels["6"] = {"type": "number", "minimum": 1}
    schema = {**levels["0"], "$defs": levels}
    read = reader_of(schema)
    assert read is not None
    for value, is_fitting in ((1, True), (1.5, True), (0.5, False), ("1", False)):
        sent: Any = value
        for name in "abcdef":
            sent = {name: sent, "h": {}} if sent is not value else {name: sent}
        try:
            assert (read(msgspec.msgpack.encode(sent)) == sent) is is_fitting
        except msgspec.ValidationError:
            assert not is_fitting


@pytest.mark.parametrize(
    ("named", "meant"), [("a%20b", "a b"), ("a~1b", "a/b"), ("a/b", None), ("a~0b", "a~b")]
)
def test_a_reference_means_what_its_escapes_say(named: str, meant: str | None) -> None:
    """Not the definition whose name is written like the reference."""
    definitions = {"a": {"b": {"type": "integer"}}, named: {"type": "string"}}
    if meant is not None:
        definitions[meant] = {"type": "integer"}
    about = {"$ref": f"#/$defs/{named}"}
    schema = {"type": "object", "properties": {"a": about}, "$defs": definitions}
    number, text = {"a": 5}, {"a": "x"}
    judge = jsonschema.Draft202012Validator(schema)
    assert (judge.is_valid(number), judge.is_valid(text)) == (True, False)
    read = reader_of(schema)
    if meant is None:
        # It leads into a definition, not to one: that is left to the validator.
        assert read is None
        return
    assert read is not None
    assert read(msgspec.msgpack.encode(number)) == number
    with pytest.raises(msgspec.ValidationError):
        read(msgspec.msgpack.encode(text))


def test_an_object_with_rules_of_its_own() -> None:
    """So it is with rules about the object, and where something required is not described."""
    fields = {"a": {"type": "string"}}
    assert reader_of({"type": "object", "properties": fields}) is not None
    assert reader_of({"type": "object", "properties": fields, "required": ["b"]}) is None
    assert reader_of({"type": "object", "properties": fields, "minProperties": 1}) is None
    assert reader_of({"type": "object"}) is None
