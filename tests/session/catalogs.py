"""Engines over real files, small enough to be read in a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.tool import Tool

PARAMETERS: list[dict[str, Any]] = [
    {"name": "text", "type": "string", "description": "A text", "required": True},
    {"name": "count", "type": "integer", "description": "A number"},
]


def definition(name: str, **keys: Any) -> dict[str, Any]:
    """A tool that gives back its arguments."""
    return {
        "name": name,
        "version": "1.0.0",
        "description": f"The tool {name}",
        "category": "custom",
        "effect": "read",
        "parameters": PARAMETERS,
        "entry": {"type": "custom", "handler": "echo"},
        **keys,
    }


def group(name: str, **keys: Any) -> dict[str, Any]:
    """A group of tools."""
    return {"kind": "group", "name": name, **keys}


def write(folder: Path, *definitions: dict[str, Any]) -> None:
    """Writes each definition into a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in definitions:
        kind = each.get("kind", "tool")
        (folder / f"{kind}-{each['name']}.yaml").write_bytes(msgspec.yaml.encode(each))


def engine_over(folder: Path) -> ToolEngine:
    """An engine that looks at the folder only when it is told to; for `async with`."""
    return ToolEngine(ToolEngineConfig(tools_directory=str(folder), auto_reload=False))


class Catalog:
    """A source of tools that is no engine: nothing is recorded, and nobody tells of changes."""

    def __init__(self, *tools: Tool) -> None:
        self.tools = {tool.name: tool for tool in tools}

    def get(self, tool_name: str, /) -> Tool | None:
        return self.tools.get(tool_name)

    def list_all(self) -> list[Tool]:
        return list(self.tools.values())

    async def execute(self, tool_name: str, params: Any, context: Any, /) -> Any:
        raise AssertionError(f"{tool_name} was not to run")
