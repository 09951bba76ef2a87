"""Which facts of a tool or a group do the commands print as JSON?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool


def tool_facts(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "version": tool.version,
        "description": tool.description,
        "category": tool.category.value,
        "tags": tool.tags,
        "effect": tool.effect,
        "status": tool.status,
        "audience": list(tool.audience),
        "aliases": list(tool.aliases),
        "source": tool.source,
        "origin": tool.origin,
        "definition_hash": tool.definition_hash,
    }


def group_facts(group: ToolGroup, tools: Mapping[str, Tool]) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(group)
    return {**facts, "members": [tool.name for tool in group.members(tools.values())]}
