"""Do the shipped JSON Schema and the loader say the same about a definition?"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tool_engine.catalog.definition.structure import definition_schema, structure_faults
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.catalog.yaml.strict_yaml import parse_yaml
from tool_engine.errors import DefinitionError
from tool_engine.model.settings.concurrency import (
    LARGEST,
    TOOL_KEYS,
    BreakerPolicy,
    CollisionPolicy,
    ToolConcurrency,
)


def _corpus(name: str) -> ModuleType:
    file = Path(__file__).parents[1] / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"corpus_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CORPUS = _corpus("test_tool_config_loader")
LIMITS = _corpus("definition/test_concurrency")
GOOD = [
    CORPUS.HTTP_REQUEST,
    CORPUS.HEAD,
    CORPUS.parameter("type: object, properties: {a: {type: array, items: string}}"),
    CORPUS.parameter("type: array, validation: {items: {type: object, properties: {x: any}}}"),
    *(LIMITS.tool(text) for text, *_ in LIMITS.ACCEPTED),
]
BAD = [
    *(text for text, *_ in CORPUS.REFUSED),
    *(CORPUS.parameter(text) for text, *_ in CORPUS.PARAMETER_REFUSED),
    *(LIMITS.tool(text) for text, *_ in LIMITS.REFUSED),
]


def test_the_schema_is_a_schema() -> None:
    """K3: editors can use the shipped schema."""
    judge = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    assert [error.message for error in judge.iter_errors(definition_schema())] == []


@pytest.mark.parametrize("text", [*GOOD, *BAD])
def test_schema_and_loader_agree(text: str) -> None:
    """K3: what the loader accepts, the schema accepts; what the schema refuses, the loader does.

    Another implementation of JSON Schema stands for the editor.
    """
    documents, problems = parse_yaml(text, "x.yaml")
    if problems or len(documents) != 1:
        return
    value = documents[0].value
    is_valid = Draft202012Validator(definition_schema()).is_valid(value)
    assert is_valid == (not structure_faults(value))
    try:
        ToolConfigLoader().load_text(text)
    except DefinitionError:
        assert text in BAD
    else:
        assert is_valid


def test_most_bad_files_are_refused_by_the_schema_alone() -> None:
    """K3: an editor marks what needs no calculation."""
    values = [parse_yaml(text, "x")[0] for text in BAD]
    refused = [bool(structure_faults(found[0].value)) for found in values if found]
    assert sum(refused) > len(refused) * 0.5


def test_the_schema_knows_the_policies() -> None:
    """C22, K3: an editor offers each collision and each key, with the defaults that hold."""
    limits = definition_schema()["$defs"]["tool"]["properties"]["concurrency"]["properties"]
    assert list(limits) == list(ToolConcurrency.__struct_fields__)
    assert list(limits["breaker"]["properties"]) == list(BreakerPolicy.__struct_fields__)
    assert limits["collision"]["enum"] == [policy.value for policy in CollisionPolicy]
    assert limits["key"]["else"]["enum"] == [*TOOL_KEYS, "params.NAME"]
    for owner, specs in (
        (ToolConcurrency(), limits),
        (BreakerPolicy(), limits["breaker"]["properties"]),
    ):
        for name, spec in specs.items():
            assert spec["description"]
            assert spec.get("default") == getattr(owner, name), name
            assert spec.get("maximum", LARGEST) == LARGEST


def test_the_faults_are_limited() -> None:
    """K3: thousands of unknown keys are not explained one by one."""
    definition = {"name": "t", "description": "d", **{f"k{n}": n for n in range(5_000)}}
    assert len(structure_faults(definition)) == MAX_PROBLEMS


@pytest.mark.parametrize(
    ("key", "meant"),
    [("params", "parameters"), ("TAGS", "tags"), ("rpm", "rate"), ("zzz", "")],
)
def test_the_key_that_was_meant(key: str, meant: str) -> None:
    """K3: the nearest known word is offered, habits of other formats included."""
    (fault,) = structure_faults({"name": "t", "description": "d", key: 3})
    assert fault.nearest == meant


def test_other_values_are_described() -> None:
    """K3: each kind of value is named in words in the message."""
    faults = structure_faults(
        {"name": True, "description": [], "version": {}, "tags": None, "output": {"required": 3}}
    )
    text = " | ".join(fault.sentence for fault in faults)
    for words in ["got true", "got a list", "got a mapping", "got nothing", "the number 3"]:
        assert words in text
    doubled = structure_faults(
        {
            "name": "t",
            "description": "d",
            "effect": "read",
            "retry": {"attempts": 1, "on": ["timeout", "timeout"]},
        }
    )
    assert "non-unique" in doubled[0].message


_SENT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_NAMED = {"name": "t", "description": "Does a thing.", "parameters": _SENT}


@pytest.mark.parametrize(
    ("definition", "key", "words"),
    [
        ({"type": "function", "function": _NAMED}, "function", "without type, function and strict"),
        ({"function": {**_NAMED, "strict": True}}, "function", "at the top of the definition"),
        ({"type": "function", **_NAMED}, "type", "leave it out; entry says"),
        ({"type": "function", **_NAMED, "strict": True}, "type", "leave it out, and strict;"),
        ({"functionDeclarations": [_NAMED]}, "functionDeclarations", "a definition of its own"),
        ({"function_declarations": [_NAMED]}, "function_declarations", "a definition of its own"),
    ],
)
def test_the_form_of_another_api_is_one_fault(
    definition: dict[str, Any], key: str, words: str
) -> None:
    """What else there seems to be follows from it; the cure is applied, and the tool is right."""
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().from_mapping(definition, "t.yaml")
    (problem,) = caught.value.problems
    assert (problem.path, words in problem.message) == (key, True), problem.message
    assert ToolConfigLoader().from_mapping(_NAMED, "t.yaml").name == "t"
