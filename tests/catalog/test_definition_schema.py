"""Is `definition.schema.json` what the loader checks with, and what editors can read?

The loader decides by the schema itself, so the two cannot drift; what can drift is the schema and
the tables of the code, and how another reader of JSON Schema understands it. Editors with a YAML
language server read draft-07, in which `$ref` hides what stands beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.catalog.definition.starter import KINDS, make_starter
from tool_engine.catalog.definition.structure import (
    RULES_BY_TYPE,
    definition_schema,
    structure_faults,
)
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.catalog.yaml.strict_yaml import load_documents
from tool_engine.errors import DefinitionError
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.parameter import PARAMETER_TYPES, ToolParameter
from tool_engine.model.permission import ExecutionPolicy, ResultPolicy
from tool_engine.model.result import ResultLimits
from tool_engine.model.schema import SHORT_KEYS
from tool_engine.model.tool import EVERYONE, HINTS, RetryPolicy, Tool, ToolCategory

ROOT = Path(__file__).parents[2]
SCHEMA = definition_schema()
TOOL = SCHEMA["$defs"]["tool"]
GROUP = SCHEMA["$defs"]["group"]
TODAY = jsonschema.Draft202012Validator(SCHEMA)
EDITOR = jsonschema.Draft7Validator(SCHEMA)
DRAFT_07 = {
    *("$schema", "$ref", "$comment", "$defs", "title", "description", "default", "examples"),
    *("type", "enum", "const", "format", "pattern", "minLength", "maxLength", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "items", "contains"),
    *("minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties", "dependencies"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
}
SCHEMAS = {
    "items",
    "additionalProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
}
LISTS = frozenset(("allOf", "anyOf", "oneOf"))
MAPPINGS = frozenset(("properties", "patternProperties", "$defs"))


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in `schema`, itself included."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in SCHEMAS:
            yield from subschemas(value)
        elif key in LISTS:
            for item in value:
                yield from subschemas(item)
        elif key in MAPPINGS:
            for item in value.values():
                yield from subschemas(item)


def test_editors_can_read_every_keyword() -> None:
    """K3: no keyword is newer than draft-07, and none stands where draft-07 would not see it."""
    found = list(subschemas(SCHEMA))
    assert len(found) > 100
    for schema in found:
        assert set(schema) <= DRAFT_07
        if "$ref" in schema:
            assert set(schema) <= {"$ref", "description", "default"}
            assert str(schema["$ref"]).startswith("#/$defs/")
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_every_key_is_explained() -> None:
    """K3: an editor shows what a key is for."""
    silent = [
        key
        for schema in subschemas(SCHEMA)
        for key, spec in schema.get("properties", {}).items()
        # In a condition, a schema only tells kinds apart.
        if isinstance(spec, dict)
        and "additionalProperties" in schema
        and "description" not in spec
        and "$ref" not in spec
    ]
    assert silent == []


def test_the_schema_has_the_keys_that_the_code_reads() -> None:
    """K3: a field of a tool is a key of the schema, under the name that a definition uses."""
    renamed = {"implementation_config": "entry"}
    made = {"id", "definition_hash", "source", "findings", "once_secret", "input_schema"}
    fields = {renamed.get(field, field) for field in Tool.__struct_fields__} - made
    assert set(TOOL["properties"]) == fields | {"returns", "kind"}
    parameter = {*ToolParameter.__struct_fields__} - {"has_default"}
    shorts = {*SHORT_KEYS, "items", "properties"}
    assert set(SCHEMA["$defs"]["parameter"]["properties"]) == parameter | shorts
    assert set(SCHEMA["$defs"]["rules"]["properties"]) == shorts | {"required"}
    retry = TOOL["properties"]["retry"]["properties"]
    assert set(retry) == set(RetryPolicy.__struct_fields__)
    assert retry["backoff"]["default"] == RetryPolicy(1).backoff
    assert set(retry["on"]["items"]["enum"]) == set(RetryPolicy(1).on)


def test_the_schema_has_the_keys_of_groups() -> None:
    """S10, S12: a field of a group is a key of the schema, under the name in definitions."""
    renamed = {"is_enabled": "enabled", "disabled_tools": "off"}
    made = {"definition_hash", "source", "findings", "is_quarantined"}
    fields = {renamed.get(field, field) for field in ToolGroup.__struct_fields__} - made
    assert set(GROUP["properties"]) == fields | {"kind"}
    skill = {*Skill.__struct_fields__, "alwaysLoad"}
    assert set(SCHEMA["$defs"]["skill"]["properties"]) == skill
    assert set(SCHEMA["$defs"]["named_skill"]["properties"]) == skill - {"name"}
    permission = SCHEMA["$defs"]["permission_object"]["properties"]
    for name, policies in (("execution", ExecutionPolicy), ("result", ResultPolicy)):
        words = {word.replace("-", "_") for word in permission[name]["enum"]}
        assert words == {policy.value for policy in policies}
    assert set(TOOL["properties"]["result"]["properties"]) == set(ResultLimits.__struct_fields__)
    assert GROUP["properties"]["enabled"]["default"] is ToolGroup(name="a").is_enabled
    assert GROUP["properties"]["categories"]["items"]["enum"] == [
        each.value for each in ToolCategory
    ]


def test_the_schema_has_the_words_that_the_code_knows() -> None:
    """K3: choices and defaults are those of the code."""
    about = TOOL["properties"]
    assert about["category"]["enum"] == [category.value for category in ToolCategory]
    for owner in ("parameter", "value_object"):
        kind = SCHEMA["$defs"][owner]["properties"]["type"]
        assert kind["else"]["enum"] == [*PARAMETER_TYPES, "any"]
        assert kind["then"]["items"]["enum"] == [*PARAMETER_TYPES, "null"]
    assert about["status"]["enum"] == ["draft", "testing", "published", "deprecated"]
    assert about["effect"]["enum"] == ["read", "write", "unknown"]
    assert about["shareable_scope"]["enum"] == ["private", "team", "public"]
    tool = ToolConfigLoader().from_mapping({"name": "a", "description": "b"})
    assert about["audience"]["default"] == about["audience"]["items"]["enum"] == [*EVERYONE]
    assert set(about["annotations"]["properties"]) == {"title", *HINTS}
    for key in ("version", "status", "effect", "idempotent", "shareable_scope", "category"):
        default = getattr(tool, key)
        assert about[key]["default"] == getattr(default, "value", default), key


@pytest.mark.parametrize("kind", [*PARAMETER_TYPES, "any"])
@pytest.mark.parametrize("owner", ["parameter", "value_object"])
def test_the_schema_has_the_rules_of_each_type(owner: str, kind: str) -> None:
    """K3: a rule is refused beside a type exactly when the table of the code says so."""
    if owner == "parameter" and kind == "any":
        return
    rules = {"pattern": "a", "min_length": 1, "max_length": 2, "enum": [1], "min": 1, "max": 2}
    rules |= {"items": "string", "min_items": 1, "max_items": 2, "properties": {"a": "string"}}
    rules |= {"required": ["a"]}
    for rule, value in rules.items():
        spec = {"type": kind, "validation": {rule: value}}
        if owner == "parameter":
            definition = tool(parameters=[{"name": "a", "description": "b", **spec}])
        else:
            definition = tool(output=spec)
        is_right = rule in RULES_BY_TYPE[kind]
        assert TODAY.is_valid(definition) is is_right, (kind, rule)
        assert (structure_faults(definition) == []) is is_right, (kind, rule)


def tool(**keys: Any) -> dict[str, Any]:
    return {"name": "a", "description": "b", **keys}


def shipped() -> list[dict[str, Any]]:
    """Every definition of the project, and every starter."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("tools/*.yaml"))]
    texts += [make_starter(kind, "my_tool").definition for kind in KINDS]
    return [document.value for text in texts for document in load_documents(text, "x")]


SHIPPED = shipped()
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([0.5, "", " ", "a", "string", "object", "any", "read", "GET", "10/s", "on"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["type", "properties", "required", "items", "a", "min", "enum"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in `value` with each of its keys."""
    found: list[tuple[Any, Any]] = []
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A right definition in which up to three parts are taken out, replaced or added."""
    definition: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(SHIPPED)))
    for _ in range(draw(st.integers(0, 3))):
        found = places(definition)
        if not found:
            break
        owner, key = draw(st.sampled_from(found))
        kind = draw(st.sampled_from(["remove", "replace", "add", "borrow"]))
        if kind == "remove":
            del owner[key]
        elif kind == "add" and isinstance(owner, dict):
            names = ["foo", *TOOL["properties"], *SCHEMA["$defs"]["parameter"]["properties"]]
            names += [*GROUP["properties"], *SCHEMA["$defs"]["skill"]["properties"]]
            owner[draw(st.sampled_from(names))] = draw(JSON)
        elif kind == "borrow":
            other, other_key = draw(st.sampled_from(places(draw(st.sampled_from(SHIPPED)))))
            owner[key] = copy.deepcopy(other[other_key])
        else:
            owner[key] = draw(JSON)
    return definition


@given(mutated())
@settings(max_examples=share_of(400))
@example(tool(output={"type": "string"}, returns={"type": "string"}))
@example(tool(tests=[{"params": {}, "expect_error": {"error_type": 3}}]))
@example(tool(kind="tool", permission="ask-always", accepts=[]))
@example(tool(kind="group"))
@example({"kind": "group", "name": "a", "skills": {"b c": {"desc": "d", "prompt": "p"}}})
def test_every_reader_says_the_same(definition: dict[str, Any]) -> None:
    """K3: the loader, JSON Schema of today and that of editors agree on right and wrong.

    What the schema refuses, the loader refuses; what the loader takes, the schema takes.
    """
    is_right = structure_faults(definition) == []
    assert TODAY.is_valid(definition) is is_right
    assert EDITOR.is_valid(definition) is is_right
    loader = ToolConfigLoader()
    is_group = definition.get("kind") == "group"
    try:
        (loader.group_from_mapping if is_group else loader.from_mapping)(definition)
    except DefinitionError:
        return
    assert is_right


def test_what_is_shipped_is_right_for_editors() -> None:
    """K3: no editor marks anything in the files of the project or in a starter."""
    assert len(SHIPPED) >= 12
    for definition in SHIPPED:
        assert list(EDITOR.iter_errors(definition)) == []


def test_what_is_shipped_leads_to_the_schema() -> None:
    """K3: the address in the first line is that of the schema in use, for every bundled file."""
    for path in sorted(ROOT.glob("tools/*.yaml")):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), path
        target = (path.parent / first.partition("=")[2]).resolve()
        assert target == ROOT / "tool_engine" / "catalog" / "definition.schema.json"
