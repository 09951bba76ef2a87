"""A text becomes a number, a boolean, a list ... only where the schema leaves one reading. A51."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.arguments.coercion import coerce, match_keys

SAME = object()


def tool_with(*parameters: ToolParameter) -> Tool:
    return Tool("t", "t", "1.0.0", "A sample", ToolCategory.CUSTOM, [], list(parameters), {})


def of_schema(schema: dict[str, Any]) -> Tool:
    """A tool whose parameter `v` takes what a raw schema says."""
    kind = schema.get("type")
    declared = kind if isinstance(kind, str) else "any"
    return tool_with(ToolParameter("v", declared, schema=schema))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "5", 5),
        ("integer", " 5\n", 5),
        ("integer", "-0", 0),
        ("integer", "5.0", 5),
        ("integer", "1e3", 1000),
        ("integer", "123456789012345678901234567890", 123456789012345678901234567890),
        ("integer", "012", SAME),
        ("integer", "+5", SAME),
        ("integer", "0x10", SAME),
        ("integer", "1_000", SAME),
        ("integer", "1,000", SAME),
        ("integer", "٣", SAME),
        ("integer", "５", SAME),
        ("integer", "", SAME),
        ("integer", "5.5", SAME),
        ("integer", "true", SAME),
        ("integer", "null", SAME),
        ("integer", "five", SAME),
        ("integer", "9" * 5000, SAME),
        ("number", "5", 5),
        ("number", "1e3", 1000.0),
        ("number", "0.10", 0.1),
        ("number", "-2.5E-3", -0.0025),
        ("number", "1.00000000000000000001", SAME),
        ("number", "1e999", SAME),
        ("number", "1e-999", SAME),
        ("number", "NaN", SAME),
        ("number", "Infinity", SAME),
        ("number", ".5", SAME),
        ("number", "5.", SAME),
        ("number", "1/2", SAME),
        ("boolean", "true", True),
        ("boolean", "FALSE", False),
        ("boolean", " True ", True),
        ("boolean", "yes", SAME),
        ("boolean", "1", SAME),
        ("boolean", "on", SAME),
        ("boolean", "", SAME),
        ("array", "[1, 2]", [1, 2]),
        ("array", " []", []),
        ("array", "a, b", SAME),
        ("array", "[1, 2", SAME),
        ("array", "[1,]", SAME),
        ("array", '{"a": 1}', SAME),
        ("array", "[" * 3000 + "]" * 3000, SAME),
        ("object", '{"a": 1}', {"a": 1}),
        ("object", '{"a": 1, "a": 2}', SAME),
        ("object", '{"a": NaN}', SAME),
        ("object", "[1]", SAME),
        ("string", "5", SAME),
        ("string", "true", SAME),
        ("string", "null", SAME),
    ],
)  # fmt: skip
def test_of_a_type(kind: str, text: str, value: Any) -> None:
    """What JSON reads from the text, of the one type that is wanted; else the text as it is."""
    coerced, repairs = coerce(tool_with(ToolParameter("v", kind)), {"v": text})
    expected = text if value is SAME else value
    assert coerced == {"v": expected}
    assert type(coerced["v"]) is type(expected)
    assert bool(repairs) == (value is not SAME)
    assert all("'v'" in repair and (len(text) < 3 or text not in repair) for repair in repairs)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "string"]}, "5", SAME),
        ({"type": ["number", "boolean"]}, "true", True),
        ({}, "5", SAME),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "5", 5),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", SAME),
        ({"anyOf": [{"type": "integer"}, {}]}, "5", SAME),
        ({"oneOf": [{"type": "null"}, {"type": "array"}]}, "[1]", [1]),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": "integer"}]}, "5", 5),
        ({"type": "integer", "allOf": [{"minimum": 1}]}, "5", 5),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": [1, 2]}, "3", SAME),
        ({"enum": [1, "1"]}, "1", SAME),
        ({"enum": [1, "auto"]}, "1", 1),
        ({"enum": [1, "auto"]}, "auto", SAME),
        ({"enum": [True, 1]}, "1", 1),
        ({"enum": [True, 1]}, "true", True),
        ({"enum": [None, 1]}, "null", None),
        ({"type": "integer", "enum": [1]}, "1", 1),
        ({"const": 7}, "7", 7),
        ({"const": "7"}, "7", SAME),
        ({"anyOf": [{"enum": [1, 2]}, {"const": True}]}, "2", 2),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "5", 5),
        ({"enum": [1, 2]}, "one", SAME),
        ({"$ref": "#/nowhere"}, "5", SAME),
        ({"$ref": "https://example.com/schema"}, "5", SAME),
        ({"$ref": "#/properties/v"}, "5", SAME),
        ({"anyOf": [{"$ref": "#/properties/v"}, {"type": "integer"}]}, "5", SAME),
    ],
)  # fmt: skip
def test_of_a_schema(schema: dict[str, Any], text: str, value: Any) -> None:
    """Types, lists of values, alternatives and references are followed."""
    coerced, _ = coerce(of_schema(schema), {"v": text})
    expected = text if value is SAME else value
    assert coerced == {"v": expected}
    assert type(coerced["v"]) is type(expected)


def test_nested() -> None:
    """Properties and items are read by their own schemas, in texts that hold JSON, too."""
    inner = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "boolean"}},
        },
        "additionalProperties": {"type": "number"},
    }
    tool = of_schema(inner)
    sent = {"n": "1", "s": "2", "l": ["true", "x"], "more": "1.5"}
    expected = {"n": 1, "s": "2", "l": [True, "x"], "more": 1.5}
    coerced, repairs = coerce(tool, {"v": sent})
    assert coerced == {"v": expected}
    assert [repair.split("'")[1] for repair in repairs] == ["v.n", "v.l[0]", "v.more"]
    assert sent["n"] == "1"
    again, repairs = coerce(tool, {"v": json.dumps(sent)})
    assert again == {"v": expected}
    assert len(repairs) == 4


def test_alternatives_of_objects() -> None:
    """Properties are read by the only alternative that takes objects; by none if there are two."""
    one = {"type": "object", "properties": {"n": {"type": "integer"}}}
    coerced, _ = coerce(of_schema({"anyOf": [one, {"type": "null"}]}), {"v": {"n": "1"}})
    assert coerced == {"v": {"n": 1}}
    coerced, _ = coerce(of_schema({"anyOf": [one, {"type": "object"}]}), {"v": {"n": "1"}})
    assert coerced == {"v": {"n": "1"}}
    patterned = {"type": "object", "patternProperties": {"^n": {"type": "integer"}}}
    assert coerce(of_schema(patterned), {"v": {"n": "1"}})[0] == {"v": {"n": "1"}}


def test_alternatives_without_end() -> None:
    """A schema of nothing but itself says nothing, and is not followed for ever."""
    endless = {"anyOf": [{"$ref": "#/properties/v"}]}
    sent = {"v": {"n": "1"}}
    assert coerce(of_schema(endless), sent) == (sent, ())


def test_unknown_and_other_values_stay() -> None:
    """What is not declared, and what is no text, is not touched."""
    tool = tool_with(ToolParameter("v", "integer"))
    sent = {"v": 5, "other": "5", "deep": {"v": "5"}}
    assert coerce(tool, sent) == (sent, ())


@settings(max_examples=share_of(200), deadline=None)
@given(
    st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()),
    st.sampled_from(["integer", "number", "boolean"]),
)
def test_what_json_writes_is_read_back(value: Any, kind: str) -> None:
    """The JSON of a value is read as that value, or left alone: never as another one."""
    coerced, _ = coerce(tool_with(ToolParameter("v", kind)), {"v": json.dumps(value)})
    assert coerced["v"] in (value, json.dumps(value))


@settings(max_examples=share_of(200), deadline=None)
@given(st.text(max_size=8), st.sampled_from(["integer", "number", "boolean", "array", "object"]))
def test_nothing_is_guessed(text: str, kind: str) -> None:
    """What is read from a text says the same as the text, in JSON."""
    value = coerce(tool_with(ToolParameter("v", kind)), {"v": text})[0]["v"]
    if value != text:
        assert json.loads(text.lower() if kind == "boolean" else text) == value


def test_keys_that_differ_in_case_and_joints() -> None:
    """`IMAGE-SIZE` is `image_size`, where that is the only one. U27."""
    tool = tool_with(
        *(ToolParameter(name, "string") for name in ("image_size", "url", "u_r_l", "x"))
    )
    matched, repairs = match_keys(tool, {"IMAGE-SIZE": "1", "X": "2", "none": "3"})
    assert matched == {"image_size": "1", "x": "2", "none": "3"}
    assert len(repairs) == 2
    assert "'IMAGE-SIZE'" in repairs[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"URL": "two parameters"},
        {"Image_Size": "1", "image-size": "2"},
        {"image_size": "1", "ImageSize": "2"},
        {"x": "1"},
    ],
)
def test_keys_that_may_be_meant_in_two_ways_stay(arguments: dict[str, Any]) -> None:
    """Two parameters, or two keys, that would be the same: nothing is changed."""
    tool = tool_with(
        *(ToolParameter(name, "string") for name in ("image_size", "url", "u_r_l", "x"))
    )
    assert match_keys(tool, arguments) == (arguments, ())
