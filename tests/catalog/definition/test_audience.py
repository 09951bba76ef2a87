"""Does a definition say who may be told of its tool, and does the tool keep it?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tool_engine import ToolConfigLoader
from tool_engine.catalog.change.compatibility import compare_versions
from tool_engine.catalog.change.tool_change import BREAKING, COMPATIBLE, COSMETIC
from tool_engine.errors import DefinitionError
from tool_engine.model.tool import Tool

SAID: dict[str, Any] = {
    "title": "Find notes",
    "audience": ["code"],
    "aliases": ["search_notes", "find"],
    "vcp_command": "FindNotes",
    "annotations": {"readOnlyHint": True, "x-more": [1]},
}


def load(**keys: Any) -> Tool:
    return ToolConfigLoader().from_mapping({"name": "t", "description": "Does a thing.", **keys})


def test_a_definition_comes_back_the_same() -> None:
    """17.8: as YAML, as JSON values and in a tool that is read again."""
    made = load(**SAID)
    assert {key: made.to_dict()[key] for key in SAID} == SAID
    assert load(**made.to_dict()).definition_hash == made.definition_hash
    again = ToolConfigLoader().load_text(ToolConfigLoader().export_to_yaml(made))
    assert again.definition_hash == made.definition_hash
    assert not made.is_for_models
    assert not made.is_enabled


def test_the_hash_of_a_tool_that_says_nothing_of_it() -> None:
    """17.8: what was approved before these keys were there stays approved."""
    known = "3234ab8a9aca21c799ed33bfde48c087325b089e8367eddea5f7fc91540969e5"
    plain = {"name": "add", "description": "Add.", "entry": {"type": "custom"}}
    made = ToolConfigLoader().from_mapping(plain)
    assert made.definition_hash == known
    same = {"audience": ["code", "model"], "aliases": []}
    assert ToolConfigLoader().from_mapping({**plain, **same}).definition_hash == known
    hashes = {load(**{key: value}).definition_hash for key, value in SAID.items()}
    assert len({*hashes, load().definition_hash}) == len(SAID) + 1


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("audience", ["model"], "audience"),
        ("audience", [], "audience"),
        ("audience", "code", "audience"),
        ("audience", ["people"], "audience[0]"),
        ("audience", ["code", "code"], "audience"),
        ("aliases", ["t"], "aliases[0]"),
        ("aliases", ["a b"], "aliases[0]"),
        ("aliases", [1], "aliases[0]"),
        ("aliases", ["a", "a"], "aliases"),
        ("vcp_command", "two words", "vcp_command"),
        ("vcp_command", "「始」", "vcp_command"),
        ("title", " ", "title"),
        ("annotations", {"readOnlyHint": 1}, "annotations.readOnlyHint"),
        ("annotations", [], "annotations"),
    ],
)
def test_what_is_refused(key: str, value: Any, place: str) -> None:
    """17.8: a value that says nothing is refused with its place."""
    with pytest.raises(DefinitionError) as raised:
        load(**{key: value})
    assert [each.path for each in raised.value.problems] == [place]


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"effect": "write", "annotations": {"readOnlyHint": True}}, "readOnlyHint"),
        ({"effect": "read", "annotations": {"readOnlyHint": False}}, "readOnlyHint"),
        ({"effect": "read", "annotations": {"destructiveHint": True}}, "destructiveHint"),
        (
            {"annotations": {"readOnlyHint": True, "destructiveHint": True}},
            "destructiveHint",
        ),
        ({"idempotent": True, "annotations": {"idempotentHint": False}}, "idempotentHint"),
        ({"effect": "read", "annotations": {"readOnlyHint": True}}, None),
        ({"effect": "write", "annotations": {"destructiveHint": True}}, None),
        ({"annotations": {"readOnlyHint": False, "idempotentHint": False}}, None),
    ],
)
def test_hints_that_contradict(keys: dict[str, Any], place: str | None) -> None:
    """17.8: a hint beside another statement that says the opposite is a finding."""
    findings = load(**keys).findings
    assert [f"annotations.{place}: " in each for each in findings] == [True] * (place is not None)


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ({}, {"audience": ["code"]}, BREAKING),
        ({"audience": ["code"]}, {}, COMPATIBLE),
        ({}, {"aliases": ["a"]}, COMPATIBLE),
        ({"aliases": ["a", "b"]}, {"aliases": ["b", "c"]}, BREAKING),
        ({}, {"vcp_command": "Read"}, COMPATIBLE),
        ({"vcp_command": "Read"}, {"vcp_command": "Look"}, BREAKING),
        ({}, {"title": "A title"}, COSMETIC),
        ({}, {"annotations": {"openWorldHint": True}}, COMPATIBLE),
    ],
)
def test_what_an_edit_means(old: dict[str, Any], new: dict[str, Any], level: str) -> None:
    """17.8: who can no longer call it, or not by this name, is broken off."""
    assert compare_versions(load(**old), load(**new)).level == level


def test_the_hash_of_a_tool_that_says_nothing_of_its_scope() -> None:
    """Nor does a default that looks like a tool's concurrency change what is left out."""
    said = msgspec.to_builtins(load().concurrency)
    assert said["scope"] == "process"

    def hash_of(default: str, **concurrency: str) -> str:
        value = {"concurrency": {**said, "scope": default}}
        parameter = {"name": "x", "description": "X.", "type": "object", "default": value}
        return load(parameters=[parameter], concurrency=concurrency).definition_hash

    known = hash_of("process")
    assert hash_of("process", scope="process") == known
    others = {hash_of("process", scope="cluster"), hash_of("cluster"), known}
    assert len({*others, hash_of("cluster", scope="cluster")}) == 4
