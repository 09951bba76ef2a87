"""Is every keyword of a raw schema either enforced or refused?"""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolParameterValidator,
)
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
from tool_engine.catalog.definition.raw_schema import raw_schema_faults
from tool_engine.catalog.definition.workload import Workload
from tool_engine.errors import ConfigurationError, DefinitionError
from tool_engine.protocols import PROTOCOLS, get_protocol

NODE = {
    "type": "object",
    "properties": {
        "v": {"type": "number"},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["v"],
    "additionalProperties": False,
}
WRITTEN: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where", "minLength": 1},
        "n": {"type": "integer", "default": 3},
        "tree": {"$ref": "#/$defs/node"},
        "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "maybe": {"type": ["integer", "null"]},
    },
    "required": ["path"],
    "$defs": {"node": NODE},
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
        {"anyOf": [{"type": "string"}, {"const": 1}], "not": {"enum": [2]}},
        {"prefixItems": [{"format": "date"}], "items": False},
        {"dependentSchemas": {"a": {"required": ["b"]}}, "if": True, "then": {}},
        {"title": "t", "examples": [{"$ref": "no schema, only a value"}]},
        {"items": {"$ref": "#"}},
        {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "integer", "default": 3}}},
        {
            "anyOf": [{"items": {"$ref": "#/anyOf/0"}}, {"$ref": "#/definitions/n"}],
            "definitions": {"n": {"properties": {"n": {"$ref": "#/definitions/n"}}}},
        },
        {
            "$defs": {"n": {"type": "integer"}},
            "properties": {"a": {"$ref": "#/$defs/n", "default": 1}},
        },
    ],
)
def test_supported(schema: dict[str, Any]) -> None:
    """K8: what the short keys cannot say, raw schema can."""
    assert raw_schema_faults(schema, (), Workload()) == []


DOUBLING = {
    "$ref": "#/$defs/a0",
    "$defs": {
        **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)},
        "a60": {"type": "integer"},
    },
}
"""Two to the power of sixty ways lead to the last definition."""


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$defs": {"a": {"nullable": True}}}, ("$defs", "a", "nullable")),
        ({"definitions": {"a": {"default": 1, "type": "null"}}}, ("definitions", "a", "default")),
        ({"anyOf": [{"$ref": "#"}]}, ()),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}, ("$defs", "a")),
        ({"items": {"$ref": "#/$defs/b"}, "$defs": {"a": {}}}, ("items", "$ref")),
        ({"items": {"$ref": "#/$defs"}, "$defs": {"a": {}}}, ("items", "$ref")),
        ({"items": {"$ref": "#/examples/0"}, "examples": [{}]}, ("items", "$ref")),
        ({"items": {"$ref": "file:///etc/passwd"}}, ("items", "$ref")),
        ({"items": {"$ref": "http://127.0.0.1:1/x"}}, ("items", "$ref")),
        ({"items": {"$ref": 3}}, ("items", "$ref")),
        ({"$id": "x"}, ("$id",)),
        (DOUBLING, ()),
        ({"properties": {"a": {"nullable": True}}}, ("properties", "a", "nullable")),
        ({"not": {"$dynamicRef": "#x"}}, ("not", "$dynamicRef")),
        ({"patternProperties": {"(?=a)": {}}}, ("patternProperties", "(?=a)")),
        ({"patternProperties": []}, ("patternProperties",)),
        ({"anyOf": 3}, ("anyOf",)),
        ({"format": 3}, ("format",)),
        ({"pattern": 3}, ("pattern",)),
        ({"type": "text"}, ("type",)),
        ({"pattern": "["}, ("pattern",)),
        ({"items": {"items": {"format": "money"}}}, ("items", "items", "format")),
    ],
)
def test_unsupported(schema: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """K8: a keyword that would be ignored, or is wrong, is refused at its place."""
    assert path in [fault.path for fault in raw_schema_faults(schema, (), Workload())]


def test_tables() -> None:
    """K8: what names a place in another way than by its path is in no table."""
    assert not {"$id", "$anchor", "$dynamicRef", "contentEncoding"} & KEYWORDS
    assert "uuid" in FORMATS


@pytest.mark.parametrize(
    "schema",
    [{"const": 1}, {"not": {}}, {"enum": ["a"], "pattern": "^b"}, {"allOf": [{"type": "null"}]}],
)
def test_a_schema_that_no_value_passes_is_told_of(schema: dict[str, Any]) -> None:
    """X5: rules that contradict one another, or the type, are a finding of the tool."""
    parameter = {"name": "p", "type": "string", "description": "x", "schema": schema}
    found = {"name": "t", "description": "d", "parameters": [parameter]}
    (finding,) = ToolConfigLoader().from_mapping(found).findings
    assert "parameters[0].schema: no value would pass" in finding
    parameter["schema"] = {"minLength": 1, "pattern": "^a"}
    assert ToolConfigLoader().from_mapping(found).findings == []


@pytest.mark.parametrize("kind", ["http", "javascript", "workflow"])
def test_an_entry_that_nothing_runs_is_told_of(kind: str) -> None:
    """R4: a type that promises something is told of where nothing in the entry keeps it."""
    found: dict[str, Any] = {"name": "t", "description": "d", "entry": {"type": kind}}
    (finding,) = ToolConfigLoader().from_mapping(found).findings
    assert f"entry.type: the type {kind} runs nothing by itself" in finding
    found["entry"]["handler"] = "mine"
    assert ToolConfigLoader().from_mapping(found).findings == []


def tool(parameters: Any, **more: Any) -> Tool:
    found = {"name": "t", "description": "Does", "parameters": parameters, **more}
    return ToolConfigLoader().from_mapping(found)


def test_it_stays_what_it_is() -> None:
    """17.2: read, written and read again it is the same, and so is what models are told."""
    made = tool(WRITTEN)
    assert made.parameters_schema == made.input_schema == WRITTEN
    assert (
        ToolConfigLoader().load_text(ToolConfigLoader().export_to_yaml(made)).input_schema
        == WRITTEN
    )
    assert tool(made.to_dict()["parameters"]) == made
    assert [(each.name, each.type, each.required) for each in made.parameters] == [
        *(("path", "string", True), ("n", "integer", False), ("tree", "object", False)),
        *(("either", "any", False), ("maybe", "any", False)),
    ]
    assert get_protocol("openai").definitions([made])[0]["function"]["parameters"] == WRITTEN


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_told_on_every_wire(name: str) -> None:
    """17.2: each wire has all names, and says what it cannot tell."""
    told: Any = get_protocol(name)
    made = [tool(WRITTEN), tool({"type": "object"}, name="none")]
    said = f"{told.definitions(made)} {told.prompt(made) if hasattr(told, 'prompt') else ''}"
    assert all(each in said for each in WRITTEN["properties"])
    assert all(each.message for each in told.definition_findings(made))


@pytest.mark.parametrize(
    ("sent", "ran_with"),
    [
        ({"path": "x"}, {"path": "x", "n": 3}),
        ({"path": "x", "n": 4.0, "maybe": None}, {"path": "x", "n": 4, "maybe": None}),
        ({"path": "x", "tree": {"v": 1, "kids": [{"v": 2.5}]}, "n": 1}, ...),
        ({"path": "x", "n": 1, "either": ["a"]}, ...),
        ({"path": "x", "pth": 1}, {"path": "x", "n": 3}),
    ],
)
def test_accepted(sent: Any, ran_with: Any) -> None:
    """17.2: defaults are filled in, 4.0 is 4, and what nobody declared is left out, and said."""
    found = ToolParameterValidator().validate(tool(WRITTEN), sent)
    assert found.validated_params == (sent if ran_with is ... else ran_with)
    assert len(found.warnings) == ("pth" in sent)
    strict = ToolParameterValidator(strict=True).validate(tool(WRITTEN), sent)
    assert strict.is_valid == ("pth" not in sent)


@pytest.mark.parametrize(
    ("sent", "path", "words"),
    [
        ({}, "path", "missing"),
        ({"path": "x", "tree": {"v": 1, "kids": [{"w": 2}]}}, "tree.kids[0].v", "missing"),
        ({"path": "x", "tree": '{"v": 1}'}, "tree", "not a string that holds it"),
        ({"path": "x", "either": 5}, "either", "must be"),
        ({"path": ""}, "path", "at least 1 character"),
    ],
)
def test_refused(sent: Any, path: str, words: str) -> None:
    """17.2: what is wrong behind a reference is found at its place."""
    found = ToolParameterValidator().validate(tool(WRITTEN), sent)
    assert any(each.path == path and words in each.message for each in found.errors), found.errors


FORMS = {
    "type": "object",
    "oneOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"$ref": "#/definitions/named"},
    ],
    "definitions": {
        "named": {"properties": {"name": {"type": "string", "default": "x"}}, "required": ["name"]}
    },
}


def test_forms_of_the_whole() -> None:
    """17.2: a union at the top; what its forms declare is known by name."""
    made = tool(FORMS)
    assert [(each.name, each.required) for each in made.parameters] == [
        *(("id", False), ("name", False)),
    ]
    check = ToolParameterValidator().validate
    assert check(made, {"id": 1}).is_valid
    assert not check(made, {}).is_valid
    assert not check(made, {"id": 1, "name": "a"}).is_valid
    assert check(made, {"id": 1, "nmae": "a"}).warnings[0].message.count("name") >= 1


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ({}, False),
        ({"additionalProperties": False}, False),
        ({"additionalProperties": True}, True),
        ({"additionalProperties": {"type": "integer"}}, True),
        ({"patternProperties": {"^x": {"type": "integer"}}}, True),
        ({"allOf": [{"additionalProperties": True}]}, True),
    ],
)
async def test_what_others_there_may_be(others: Any, kept: bool) -> None:
    """17.2: only a schema that speaks of others takes them; a function must be able to."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}, **others}
    definition = {"name": "t", "description": "d", "parameters": schema}
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    if kept:
        with pytest.raises(ConfigurationError, match=r"\*\*others"):
            engine.register_tool(definition, lambda a, _inner=False: a)
    engine.register_tool(definition, lambda a=None, **others: {"a": a, **others})
    async with engine:
        result = await engine.execute("t", {"xtra": 2})
    assert result.output == ({"a": 1, "xtra": 2} if kept else {"a": 1})


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "or the JSON Schema of an object"),
        ({"q": "string"}, "for each parameter"),
        ({"type": "array", "properties": {}}, "write type: object"),
        ({"type": "object", "$schema": "urn:mine"}, "it is read as 2020-12"),
        ({"type": "object", "properties": {"": {}}}, "1 to 128 characters"),
        ({"type": "object", "properties": {"a": {"writeOnly": True, "default": "s"}}}, "secret"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "add $defs"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is"),
        ({"type": "object", "properties": {"a": {"$dynamicRef": "#a"}}}, "under $defs"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}, "linear time"),
        ({"type": "object", "properties": {"a": {"enum": [1], "default": 2}}}, "own rules"),
        ({"$ref": "#"}, "it has no end"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(2_000)}}, "raw schemas"),
    ],
)
def test_wrong(parameters: Any, words: str) -> None:
    """17.2: what cannot be held is refused at its place."""
    with pytest.raises(DefinitionError) as caught:
        tool(parameters)
    assert words in str(caught.value)


@pytest.mark.parametrize("key", ["inputSchema", "input_schema"])
def test_in_the_wrong_place(key: str) -> None:
    """17.2: a schema under the key of another format is recognised."""
    with pytest.raises(DefinitionError, match=r"rename it to parameters$"):
        ToolConfigLoader().from_mapping({"name": "t", "description": "d", key: WRITTEN})


LEAVES = st.sampled_from(
    [
        *({"type": "integer"}, {"type": "string", "maxLength": 2}, {"type": ["null", "boolean"]}),
        *({"enum": [1, "a"]}, {"const": None}, {"$ref": "#/$defs/r"}, {"$ref": "#/$defs/s"}, {}),
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
        inner.map(lambda each: {"type": "array", "items": each, "maxItems": 2}),
        inner.map(lambda each: {"allOf": [each, {"type": ["integer", "string", "object"]}]}),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(
            lambda each: {"type": "object", "properties": each, "additionalProperties": False}
        ),
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.sampled_from([None, True, 1, 2.5, "a", "abc"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
DEFINED = {
    "r": {"type": "object", "properties": {"a": {"$ref": "#/$defs/r"}, "b": {"type": "integer"}}},
    "s": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/s"}}]},
}


@given(
    st.dictionaries(st.sampled_from(["x", "y"]), SCHEMAS, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2),
    st.booleans(),
)
def test_as_another_validator_judges(
    properties: dict[str, Any], sent: dict[str, Any], is_listed: bool
) -> None:
    """17.2: written whole or in parts, quick or careful, all judge as another validator does."""
    sent = {name: value for name, value in sent.items() if name in properties}
    whole = {"type": "object", "properties": properties, "$defs": DEFINED}
    written: Any = whole
    if is_listed:
        written = [
            {"name": name, "type": "any", "description": "d", "schema": {**each, "$defs": DEFINED}}
            for name, each in properties.items()
        ]
    made = tool(written)
    # An optional parameter that is null counts as left out where null is not allowed.
    judged = jsonschema.Draft202012Validator(whole)
    bare = {k: v for k, v in sent.items() if v is not None or judged.is_valid({k: v})}
    before = copy.deepcopy(sent)
    compiled = ToolParameterValidator().compiled(made)
    assert compiled.explain(sent).is_valid == judged.is_valid(bare)
    if sent == bare:
        assert (compiled.accept(sent) is not None) == judged.is_valid(sent)
    assert sent == before


OUTPUT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/node"}, "name": {"type": "string", "minLength": 2}},
    "required": ["tree"],
    "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
}


@pytest.mark.parametrize("key", ["output", "returns"])
async def test_an_output_may_be_pasted(key: str) -> None:
    """17.4: JSON Schema under `output` is held as it is, with its references."""
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    found = {"name": "t", "description": "d", "parameters": [WHAT], key: OUTPUT}
    made = engine.register_tool(found, lambda what: what)
    assert made.output == {name: OUTPUT[name] for name in OUTPUT if name != "$schema"}
    async with engine:
        right = await engine.execute("t", {"what": {"tree": [[], [[]]], "name": "ab"}})
        wrong = await engine.execute("t", {"what": {"tree": [[], [5]]}})
    assert right.is_success
    assert wrong.error_type == "execution_error"
    assert "output.tree[1][0]" in str(wrong.error)


@pytest.mark.parametrize(
    ("output", "place", "words"),
    [
        ({"anyOf": [{"$ref": "#/$defs/x"}]}, "output.anyOf[0].$ref", "there is no schema"),
        ({"properties": {"a": {"minLength": "x"}}}, "output.properties.a.minLength", "2020-12"),
        ({"properties": {"a": {"minLength": 1, "max": 2}}}, "output.properties.a", "min_length"),
        ({"properties": {"a": {"min_lenght": 1}}}, "output.properties.a.min_lenght", "min_length"),
    ],
)
def test_a_wrong_output(output: Any, place: str, words: str) -> None:
    """17.4: its faults have the places that its author wrote; short keys stay what they are."""
    with pytest.raises(DefinitionError) as caught:
        tool([], output=output)
    assert place in str(caught.value)
    assert words in str(caught.value)


WHAT = {"name": "what", "type": "object", "required": True, "description": "What comes back"}
