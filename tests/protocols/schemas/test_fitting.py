"""What of a JSON Schema is sent to each provider, and how the rest is told."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.protocols.schemas.fitting import FittedSchema, SchemaSubset, fit_schema
from tool_engine.protocols.schemas.subsets import (
    ANTHROPIC,
    ANY_SCHEMA,
    GEMINI,
    GEMINI_OPENAPI,
    OPENAI,
    SUBSETS,
)

ALL = [ANY_SCHEMA, *SUBSETS.values()]


def of(properties: dict[str, Any], subset: SchemaSubset, **root: Any) -> FittedSchema:
    schema = {"type": "object", "properties": properties, **root}
    before = copy.deepcopy(schema)
    fitted = fit_schema(schema, subset)
    assert schema == before
    return fitted


def one(schema: Any, subset: SchemaSubset) -> Any:
    """What becomes of the schema of one parameter."""
    return of({"p": schema}, subset).schema["properties"]["p"]


def kinds(fitted: FittedSchema) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in fitted.changes]


PLAIN = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where"},
        "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
        "of": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("subset", [ANY_SCHEMA, OPENAI, ANTHROPIC, GEMINI])
def test_a_plain_schema_is_sent_as_it_is(subset: SchemaSubset) -> None:
    """Promise 1: what a provider takes is not touched, and the value is a fresh one."""
    fitted = fit_schema(PLAIN, subset)
    assert fitted == FittedSchema(PLAIN, [])
    fitted.schema["properties"]["city"].clear()
    assert PLAIN["properties"]["city"]["type"] == "string"  # type: ignore[index]


def test_gemini_is_told_in_words() -> None:
    """What Gemini has no keyword for is in the description, and each is a finding."""
    fitted = of(
        {
            "city": {
                "type": "string",
                "description": "Where.",
                "minLength": 1,
                "pattern": "^[A-Z]",
            },
            "when": {"type": "string", "format": "uuid", "maxLength": 2},
            "day": {"type": "string", "format": "date"},
            "many": {"type": "array", "uniqueItems": True, "items": {"multipleOf": 5}},
        },
        GEMINI,
    )
    properties = fitted.schema["properties"]
    assert properties["city"]["description"] == "Where. (at least 1 character; pattern: ^[A-Z])"
    assert properties["when"] == {
        "type": "string",
        "description": "format: uuid; at most 2 characters",
    }
    assert properties["day"] == {"type": "string", "format": "date"}
    assert properties["many"] == {
        "type": "array",
        "items": {"description": "a multiple of 5"},
        "description": "no item twice",
    }
    assert kinds(fitted) == [
        ("rewritten", "/properties/city/minLength"),
        ("rewritten", "/properties/city/pattern"),
        ("rewritten", "/properties/when/format"),
        ("rewritten", "/properties/when/maxLength"),
        ("rewritten", "/properties/many/uniqueItems"),
        ("rewritten", "/properties/many/items/multipleOf"),
    ]
    assert "Gemini takes no format 'uuid'" in fitted.changes[2].message


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"exclusiveMinimum": 0.5}, "more than 0.5"),
        ({"exclusiveMaximum": 3}, "less than 3"),
        ({"minProperties": 2}, "at least 2 keys"),
        ({"maxProperties": 1}, "at most 1 key"),
        ({"default": None}, "default: null"),
        ({"examples": ["a", 1]}, 'for example: "a", 1'),
        ({"deprecated": True}, "deprecated"),
        ({"deprecated": False}, "not deprecated"),
        ({"uniqueItems": False}, "items may repeat"),
        ({"const": True}, "always true"),
        ({"const": {"a": 1}}, 'always {"a": 1}'),
        ({"enum": ["a", None]}, 'one of: "a", null'),
        ({"not": {"type": "null"}}, 'must not fit {"type": "null"}'),
        ({"dependentRequired": {"a": ["b"]}}, 'dependentRequired: {"a": ["b"]}'),
        ({"if": {"const": "始"}}, 'if: {"const": "始"}'),
        (
            {"allOf": [{"minLength": 1}, {"minLength": 2}]},
            'all of these must hold: {"minLength": 1}; {"minLength": 2}',
        ),
    ],
)
def test_words(schema: dict[str, Any], words: str) -> None:
    """Each rule has words that a model can follow."""
    assert one(schema, GEMINI) == {"description": words}
    assert one({**schema, "description": "It "}, GEMINI) == {"description": f"It ({words})"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$comment": "for us"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"readOnly": True},
        {"enum": [["x" * 400]]},
        {"examples": 3},
        {"not": {"x": {1, 2}}},
    ],
)
def test_what_is_not_told(schema: dict[str, Any]) -> None:
    """What says nothing to a model, or too much, is left out, and that is a finding."""
    fitted = of({"p": schema}, GEMINI)
    assert fitted.schema["properties"]["p"] == {}
    assert [change.kind for change in fitted.changes] == ["dropped"]


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"const": "a"}, {"enum": ["a"]}),
        ({"const": "a", "enum": ["a"]}, {"enum": ["a"], "description": 'always "a"'}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 0}, {"type": "integer", "maximum": -1}),
        (
            {"type": "integer", "exclusiveMaximum": 5, "maximum": 9},
            {"type": "integer", "maximum": 9, "description": "less than 5"},
        ),
        (
            {"allOf": [{"type": "string"}, {"minLength": 3}], "title": "T"},
            {"title": "T", "type": "string", "description": "at least 3 characters"},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "description": "Own",
                "allOf": [
                    {"properties": {"b": {"type": "null"}}, "required": ["a", "b"]},
                    {"type": "object", "description": "Other"},
                ],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
                "required": ["a", "b"],
                "description": "Own",
            },
        ),
    ],
)
def test_the_same_in_other_keywords(schema: dict[str, Any], made: dict[str, Any]) -> None:
    """A rule that another keyword can say is said by that one."""
    assert one(schema, GEMINI) == made
    assert all(change.kind == "rewritten" for change in of({"p": schema}, GEMINI).changes)


def test_branches_that_contradict_are_not_merged() -> None:
    """`allOf` whose parts ask for different things under one name is told in words."""
    branches = [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "null"}}}]
    for parts in (branches, [{"title": "x"}, True], 3):
        made = one({"allOf": parts}, GEMINI)
        assert "allOf" not in made
        assert made.keys() <= {"description"}


@pytest.mark.parametrize("subset", [OPENAI, ANTHROPIC])
def test_alternatives_at_the_root(subset: SchemaSubset) -> None:
    """OpenAI and Anthropic refuse them there: the parameters stay known, the rule is told."""
    fitted = of(
        {"a": {"type": "string"}},
        subset,
        anyOf=[
            {"properties": {"b": {"type": "null"}, "a": {"type": "integer"}}, "required": ["b"]},
            {"required": ["a"]},
            True,
        ],
        oneOf=[{"required": ["a"]}, {"required": ["b", "c"]}],
        allOf=[{"maxProperties": 2}],
    )
    assert fitted.schema["properties"] == {
        "a": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "b": {"type": "null"},
    }
    assert fitted.schema["maxProperties"] == 2
    words = fitted.schema["description"]
    assert "at least one of these must hold: " in words
    assert "exactly one of these must be there: a, or b and c" in words
    assert not {"anyOf", "oneOf", "allOf"} & fitted.schema.keys()
    assert ("rewritten", "/anyOf") in kinds(fitted)
    inner = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert one(inner, subset) == inner


def test_openai_wants_items() -> None:
    """An array without items fails OpenAI's whole request; one with several types, too."""
    for schema in ({"type": "array"}, {"type": ["array", "null"]}):
        assert one(schema, OPENAI) == {**schema, "items": {}}
        assert one(schema, ANTHROPIC) == schema
    fitted = of({"p": {"type": "array"}}, OPENAI)
    assert kinds(fitted) == [("rewritten", "/properties/p/items")]
    root = of({}, OPENAI, const={}, enum=[{}], **{"not": {"required": ["a"]}}).schema
    assert root.keys() == {"type", "properties", "description"}


@pytest.mark.parametrize(
    "root", [True, False, {}, {"type": ["object", "null"]}, {"type": "string"}]
)
@pytest.mark.parametrize("subset", ALL)
def test_the_root_is_an_object(root: Any, subset: SchemaSubset) -> None:
    """Arguments always are an object, with properties: no provider takes anything else."""
    fitted = fit_schema(root, subset)
    assert fitted.schema["type"] == "object"
    assert fitted.schema["properties"] == {}
    assert bool(fitted.changes) is (isinstance(root, dict) and bool(root))


def test_names_of_parameters() -> None:
    """A parameter whose name would fail the request is told of in words, and can be used."""
    properties = {"größe": {"type": "integer"}, "b": {}, "schrift art": {"type": "string"}}
    fitted = of(properties, ANTHROPIC, required=["größe", "b"])
    assert fitted.schema["properties"] == {"b": {}}
    assert fitted.schema["required"] == ["b"]
    assert fitted.schema["description"] == (
        'it also takes \'größe\', which is required: {"type": "integer"}; '
        'it also takes \'schrift art\': {"type": "string"}'
    )
    assert kinds(fitted)[0] == ("rewritten", "/properties/größe")
    assert of(properties, OPENAI).schema["properties"] == properties
    long = of({"größe": {"enum": ["x" * 500]}}, ANTHROPIC)
    assert kinds(long) == [("dropped", "/properties/größe")]


LIST = {
    "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
        "name": {"type": "string", "minLength": 1},
        "a/b~": {"const": 1},
    },
}


def test_references_are_kept_or_put_in_place() -> None:
    """`$ref` stays where the provider takes it; else the definition stands in its place."""
    name = {"$ref": "#/$defs/name"}
    assert of({"p": name}, OPENAI, **LIST).schema["properties"]["p"] == name
    beside = {**name, "description": "Whose"}
    assert of({"p": beside}, OPENAI, **LIST).schema["properties"]["p"] == beside
    made = of({"p": beside}, GEMINI, **LIST).schema
    assert made["properties"]["p"] == {"description": "Whose", "anyOf": [name]}
    assert made["$defs"]["name"] == {"type": "string", "description": "at least 1 character"}
    clash = of({"p": {**name, "anyOf": [{}]}}, GEMINI, **LIST)
    assert clash.schema["properties"]["p"] == name
    assert kinds(clash)[-1][0] == "rewritten" or ("dropped", "/properties/p") in kinds(clash)
    put = of({"p": beside, "q": {"$ref": "#/$defs/a~1b~0"}}, GEMINI_OPENAPI, **LIST).schema
    assert "$defs" not in put
    assert put["properties"]["p"] == {"type": "string", "minLength": 1, "description": "Whose"}
    assert put["properties"]["q"] == {"description": "always 1"}
    elsewhere = of({"p": {"type": "null"}, "q": {"$ref": "#/properties/p"}}, OPENAI).schema
    assert elsewhere["properties"]["q"] == {"type": "null"}
    listed = of(
        {"p": {"anyOf": [{"type": "null"}]}, "q": {"$ref": "#/properties/p/anyOf/0"}}, OPENAI
    )
    assert listed.schema["properties"]["q"] == {"type": "null"}
    root = fit_schema({"$ref": "#/$defs/node", **LIST}, OPENAI).schema
    assert root["properties"] == {"next": {"$ref": "#/$defs/node"}}


@pytest.mark.parametrize("subset", ALL)
@pytest.mark.parametrize(
    "reference",
    [
        "https://example.com/s.json",
        "#/$defs/none",
        "#/properties/q/9",
        "other",
        3,
        None,
        "#anchor/x",
    ],
)
def test_references_that_lead_nowhere(subset: SchemaSubset, reference: Any) -> None:
    """A remote or missing definition is never fetched: the parameter is told without it."""
    fitted = of({"p": {"$ref": reference, "type": "string"}, "q": {"anyOf": []}}, subset)
    assert fitted.schema["properties"]["p"]["type"].lower() == "string"
    assert ("dropped", "/properties/p/$ref") in kinds(fitted)


@pytest.mark.parametrize("subset", ALL)
def test_references_that_never_end(subset: SchemaSubset) -> None:
    """A definition that holds itself, or grows without end, makes no schema that does."""
    cyclic = of({"p": {"$ref": "#/$defs/node"}, "q": {"$ref": "#"}}, subset, **LIST)
    assert len(json.dumps(cyclic.schema)) < 10_000
    chain = {
        f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(40)
    }
    grown = of({"p": {"$ref": "#/$defs/d0"}}, subset, **{"$defs": {**chain, "d40": {}}})
    assert len(json.dumps(grown.schema)) < 10_000_000
    boolean = of({"p": {"$ref": "#/$defs/b"}}, subset, **{"$defs": {"b": False}})
    assert isinstance(boolean.schema["properties"]["p"], dict)


@pytest.mark.parametrize("subset", ALL)
def test_what_is_no_schema(subset: SchemaSubset) -> None:
    """Garbage in a schema that was made by hand, and one without end in depth, harm nothing."""
    deep: Any = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    # Directly: not even a copy can be made of it.
    fitted = fit_schema({"properties": {"p": deep}}, subset)
    assert ("dropped", "/properties/p" + "/items" * 60) in kinds(fitted)
    json.dumps(fitted.schema)
    garbage: Any = {
        "properties": {"a": None, "b": 3, "c": {1: 2, "enum": 3, "required": "a", "type": 7}},
        "required": 3,
        "anyOf": "x",
        "items": [],
    }
    made = fit_schema(garbage, subset)
    assert made.schema["properties"]["a"] == {}
    assert ("dropped", "/properties/a") in kinds(made)
    assert fit_schema({"properties": 3, "allOf": [None]}, subset).schema["properties"] == {}
    value: Any = []
    for _ in range(5000):
        value = [value]
    for keyword in ("default", "x", "not", "properties", "anyOf"):
        nested = fit_schema({"properties": {"p": {keyword: value}}}, subset)
        json.dumps(nested.schema)
        assert nested.changes


def test_true_and_false() -> None:
    """`true` allows anything; `false` is a parameter that must be left out."""
    assert one(True, OPENAI) == {}
    assert one(False, OPENAI) == {"not": {}}
    assert one(False, GEMINI) == {"description": "must be left out"}
    assert one({"additionalProperties": True}, GEMINI) == {"additionalProperties": True}
    other = {"additionalProperties": {"type": "string"}}
    assert one(other, GEMINI_OPENAPI) == {
        "description": 'the value of any other key: {"type": "string"}'
    }


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ({"type": "null"}, {"nullable": True}),
        ({"enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "enum": [1]}, {"type": "integer", "description": "one of: 1"}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "date"}, {"type": "string", "description": "format: date"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "D"},
            {"type": "string", "description": "D", "nullable": True},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
        ),
        ({"anyOf": [{"type": "null"}]}, {"nullable": True}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        (
            {"anyOf": [{"type": "string", "title": "X"}, {"type": "null"}], "title": "Y"},
            {"title": "Y", "nullable": True, "anyOf": [{"type": "string", "title": "X"}]},
        ),
    ],
)
def test_the_older_parameters_of_gemini(schema: dict[str, Any], made: dict[str, Any]) -> None:
    """D7: types as the seed writes them, one at a time, `nullable`, and enums of texts."""
    assert one(schema, GEMINI_OPENAPI) == made


def test_a_hook_has_the_last_word() -> None:
    """`finish` sees each schema after those in it, with its place, and may note what it changes."""
    seen = []

    def finish(node: dict[str, Any], place: Any) -> dict[str, Any]:
        seen.append((place.path, place.depth))
        place.note("dropped", "", "seen")
        return {**node, "strict": True}

    fitted = of({"a/b": {"items": {}}}, SchemaSubset(provider="X", finish=finish))
    assert seen == [("/properties/a~1b/items", 2), ("/properties/a~1b", 1), ("", 0)]
    assert fitted.schema["properties"]["a/b"] == {"items": {"strict": True}, "strict": True}
    assert len(fitted.changes) == 3


KEYWORDS = st.sampled_from(
    [
        *("type", "enum", "const", "format", "pattern", "minLength", "maximum", "items", "anyOf"),
        *("exclusiveMinimum", "properties", "required", "oneOf", "allOf", "not", "$ref", "$defs"),
        *("additionalProperties", "description", "default", "nullable", "x"),
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from(["string", "object", "array", "null", "#", "#/properties/type", "größe"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYWORDS, inner, max_size=4)
    ),
    max_leaves=15,
)


@pytest.mark.parametrize("subset", ALL)
@settings(max_examples=share_of(80), deadline=None)
@given(schema=st.dictionaries(KEYWORDS, VALUES, max_size=5))
@example({"type": None, "required": [[]], "properties": {"type": None}})
def test_any_schema(subset: SchemaSubset, schema: dict[str, Any]) -> None:
    """Whatever the schema is: it stays as it is, and what is sent keeps to the subset."""
    before = copy.deepcopy(schema)
    fitted = fit_schema(schema, subset)
    assert schema == before
    json.dumps(fitted.schema)
    check(fitted.schema, subset, is_root=True)
    assert fit_schema(schema, subset) == fitted
    assert all(change.kind in ("dropped", "rewritten") for change in fitted.changes)


def check(node: Any, subset: SchemaSubset, *, is_root: bool = False) -> None:
    for keyword, value in node.items():
        assert subset.takes(keyword, is_root=is_root)
        if keyword == "properties" and isinstance(value, dict):
            for name, part in value.items():
                assert subset.property_name is None or re.fullmatch(subset.property_name, name)
                check(part, subset)
        if keyword in ("anyOf", "oneOf") and isinstance(value, list):
            for part in value:
                check(part, subset)


@settings(max_examples=share_of(60), deadline=None)
@given(
    schema=st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "array"]),
            "exclusiveMinimum": st.integers(-3, 3),
            "const": st.sampled_from(["a", 1, None]),
            "minLength": st.integers(0, 2),
            "oneOf": st.just([{"minLength": 1}, {"type": "integer"}]),
            "allOf": st.just([{"type": "string"}]),
        },
    ),
    value=st.one_of(st.text(max_size=3), st.integers(-5, 5), st.none(), st.just([])),
)
def test_what_is_sent_never_forbids_what_is_allowed(schema: dict[str, Any], value: Any) -> None:
    """Promise 1: a model that keeps to what it was told may still say all that is valid."""
    sent = one(schema, GEMINI)
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        assert jsonschema.Draft202012Validator(sent).is_valid(value)
