"""Which schemas do editors check the files of a project by, and how do they find them?

A catalog has an entry for each schema, as SchemaStore and editors that are given a catalog of one's
own read it: the names of files, and where their schema is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from tool_engine.catalog.definition.starter import schema_text
from tool_engine.catalog.definition_files import SUFFIXES
from tool_engine.cli.settings_file import FOLDERS, OWN_FILE, known_settings
from tool_engine.config import (
    LOCKS,
    RELOAD_POLICIES,
    STRATEGIES,
    ConcurrencyConfig,
    ToolEngineConfig,
)

TOOL_SCHEMA: Final = "tool.schema.json"
SETTINGS_SCHEMA: Final = "settings.schema.json"
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_CHOICES: Final = {"lock": LOCKS, "reload_policy": RELOAD_POLICIES}
_SOURCE: Final = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "required": ["url"],
            "additionalProperties": False,
            "properties": {
                "url": {"type": "string"},
                "readonly": {"type": "boolean"},
                "pool_size": {"type": "integer", "minimum": 1},
            },
        },
    ]
}
_OWN: Final[dict[str, Any]] = {
    "sources": {"type": "object", "additionalProperties": _SOURCE},
    "mcp_servers": {
        "anyOf": [
            {"type": "string"},
            {"type": "object", "additionalProperties": {"type": "object"}},
        ]
    },
}
"""Settings whose annotations say less than what is taken."""


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of `tool-engine.toml`."""
    hints = get_type_hints(ToolEngineConfig)
    found = msgspec.json.schema(ConcurrencyConfig)
    kinds: dict[str, Any] = found["$defs"]
    for kind in kinds.values():
        kind["additionalProperties"] = False
    # A rate may be written as `10/s`.
    kinds["ToolRate"] = {"anyOf": [{"type": "string"}, kinds["ToolRate"]]}
    kinds["ConcurrencyConfig"]["properties"]["strategy"]["enum"] = list(STRATEGIES)
    properties: dict[str, Any] = {}
    for name in known_settings():
        if name in FOLDERS:
            properties[name] = {"type": "string", "minLength": 1}
        elif name == "concurrency":
            properties[name] = {"$ref": found["$ref"]}
        else:
            own = _OWN.get(name)
            properties[name] = msgspec.json.schema(hints[name]) if own is None else own
        if name in _CHOICES:
            properties[name]["enum"] = list(_CHOICES[name])
    return {
        "$schema": _DRAFT,
        "title": "Settings of tool-engine",
        "description": "What each tool-engine command in the folder of this file knows.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": kinds,
    }


def schema_catalog(address: str, tools: Path, *, is_recursive: bool) -> dict[str, Any]:
    """Return a catalog of the schemas for editors.

    Args:
        address: That of the folder in which `tool.schema.json` and `settings.schema.json` are.
        tools: The folder of tools.
        is_recursive: Whether its sub-folders have tools too.
    """
    begin = address.rstrip("/")
    # As an editor sees it, the folder lies in any other one.
    parts = [part for part in tools.parts if part not in (os.pardir, tools.anchor)]
    folder = "/".join(("**", *(parts or [Path.cwd().name]), *(["**"] if is_recursive else [])))
    return {
        "$schema": "https://json.schemastore.org/schema-catalog.json",
        "version": 1,
        "schemas": [
            {
                "name": "tool-engine tool",
                "description": "A tool, a group of tools or a server of tools, for LLM agents",
                "fileMatch": [f"{folder}/*{suffix}" for suffix in SUFFIXES],
                "url": f"{begin}/{TOOL_SCHEMA}",
            },
            {
                "name": "tool-engine settings",
                "description": "Settings of a project with tools for LLM agents",
                "fileMatch": [OWN_FILE],
                "url": f"{begin}/{SETTINGS_SCHEMA}",
            },
        ],
    }


def write_schema(what: str, catalog: Callable[[], dict[str, Any]]) -> str:
    """Return the text of a schema of `SCHEMAS`, or of their catalog."""
    if what == "tool":
        return schema_text()
    found = settings_schema() if what == "settings" else catalog()
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


SCHEMAS: Final = ("tool", "settings", "catalog")
"""What `tool-engine schema` prints."""
