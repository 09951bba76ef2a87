"""Is a value of the wrong kind, wherever it stands in a definition, an error and never a crash?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.effort import IS_WHOLE
from tool_engine import DefinitionError, Tool, ToolConfigLoader
from tool_engine.catalog.definition.group_definition import is_group
from tool_engine.catalog.yaml.strict_yaml import load_documents
from tool_engine.model.group import ToolGroup

TOOLS: Final = Path(__file__).parents[2] / "tools"
WRONG: Final[tuple[Any, ...]] = ([], [[]], {}, {"a": []}, None, True, -1, 1.5, "", "odd")
EVERYTHING: Final[dict[str, Any]] = {
    "name": "everything",
    "version": "1.0.0",
    "description": "Holds every key of a definition.",
    "category": "http",
    "tags": ["a", "b"],
    "author": "ann",
    "icon": "x",
    "status": "published",
    "shareable_scope": "team",
    "timeout": 5,
    "effect": "read",
    "idempotent": True,
    "retry": {"attempts": 2, "backoff": 0.1, "on": ["timeout"]},
    "rate": "5/s",
    "permission": {"execution": "ask_once", "result": "on_error"},
    "accepts": ["user", "tool:*"],
    "max_uses": 3,
    "kind": "tool",
    "concurrency": {
        "bucket": "b",
        "weight": 2,
        "priority": 3,
        "queue_timeout": 4,
        "key": "conversation_id",
        "key_limit": 2,
        "collision": "queue",
        "breaker": {"failures": 3},
    },
    "parameters": [
        {
            "name": "text",
            "type": "string",
            "required": True,
            "description": "Text",
            "secret": True,
            "validation": {"pattern": "^a", "min_length": 1, "max_length": 5},
        },
        {"name": "pick", "type": "string", "description": "P", "enum": ["a", "b"], "default": "a"},
        {"name": "count", "type": "integer", "description": "C", "min": 1, "max": 5},
        {
            "name": "rows",
            "type": "array",
            "description": "R",
            "validation": {
                "min_items": 1,
                "max_items": 3,
                "items": {
                    "type": "object",
                    "properties": {"id": {"type": "integer", "required": True}, "any": "any"},
                    "required": ["id"],
                },
            },
        },
        {
            "name": "raw",
            "type": "object",
            "description": "S",
            "schema": {
                "properties": {"when": {"format": "date"}, "n": {"enum": [1, 2]}},
                "required": ["when"],
                "anyOf": [{"required": ["n"]}, {"minProperties": 1}],
            },
        },
    ],
    "entry": {
        "type": "external",
        "handler": "http_request",
        "request": {
            "url": "https://api.example.com/${params.text}",
            "method": "GET",
            "query": {"pick": "${params.pick}"},
            "headers": {"X-A": "b"},
        },
        "response": {"select": "a"},
        "allow": ["10.0.0.5:8080"],
    },
    "output": {"type": "object", "properties": {"a": "string"}, "required": ["a"]},
    "examples": [{"description": "E", "params": {"text": "a"}, "output": {"a": "b"}}],
    "tests": [{"name": "t", "params": {"text": "a"}, "expect_error": "timeout"}],
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def changed(definition: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The definition with another value at the place."""
    if not path:
        return copy.deepcopy(value)
    made = copy.deepcopy(definition)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = copy.deepcopy(value)
    return made


def definitions() -> list[Any]:
    """The one with everything, and those that are shipped."""
    shipped = [
        document.value
        for file in sorted(TOOLS.glob("*.yaml"))
        for document in load_documents(file.read_bytes(), file.name)
    ]
    group = {
        "kind": "group",
        "name": "all",
        "version": "1.0.0",
        "description": "d",
        "enabled": True,
        "tools": ["a", "b"],
        "tags": ["c"],
        "categories": ["http"],
        "off": ["b"],
        "rules": "Use {{tools}}.\n{{if a}} x",
        "permission": {"result": "always"},
        "skills": [{"name": "s", "desc": "d", "prompt": "p", "when": "w", "always_load": True}],
    }
    return [EVERYTHING, group, *shipped]


DEFINITIONS: Final = definitions()


def chosen_places() -> Iterator[list[tuple[Any, ...]]]:
    """The places of each definition that are tried: each key of each kind of entry once.

    `make proof` tries all of them, also the same key of the next parameter or file.
    """
    seen = set()
    for definition in DEFINITIONS:
        entry = definition.get("entry", {})
        kind = (definition.get("kind"), entry.get("type"), entry.get("handler"))
        chosen = []
        for path in places(definition):
            key = (kind, tuple("each" if isinstance(step, int) else step for step in path))
            if IS_WHOLE or key not in seen:
                chosen.append(path)
            seen.add(key)
        yield chosen


CHOSEN: Final = list(chosen_places())


def test_everything_is_right() -> None:
    """K4, K5: otherwise the test below would show less than it says."""
    tool = ToolConfigLoader().from_mapping(EVERYTHING)
    assert tool.findings == []


@pytest.mark.parametrize("number", range(len(DEFINITIONS)))
def test_any_value_anywhere(number: int) -> None:
    """K5, K8: whatever stands wherever, the definition is a tool or a `DefinitionError`."""
    definition = DEFINITIONS[number]
    for place, path in enumerate(CHOSEN[number]):
        # Every fifth one, the others at the next places.
        for wrong in WRONG if IS_WHOLE else WRONG[place % 5 :: 5]:
            raised = raised_by(changed(definition, path, wrong))
            assert raised in (None, DefinitionError), f"{wrong!r} at {path} raises {raised}"


def raised_by(definition: Any) -> type[Exception] | None:
    """What loading the definition raises; None for a tool."""
    try:
        if is_group(definition):
            assert isinstance(ToolConfigLoader().group_from_mapping(definition), ToolGroup)
        else:
            assert isinstance(ToolConfigLoader().from_mapping(definition), Tool)
    except Exception as error:  # noqa: BLE001 - any other error than ours is what the test looks for
        return type(error)
    return None
