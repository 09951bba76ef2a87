"""Which groups is a tool in, whether a conversation shows it or not?

What a group says of consent holds for the calls that other tools make, too: to leave a tool out of
a conversation must not take away what its groups say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool
from tool_engine.protocols.sources import ToolSource

__all__ = ["is_tool_of", "memberships"]


def is_tool_of(source: ToolSource, engine_tool: Tool) -> bool:
    """Whether an engine has this tool: another one may have another tool of its name."""
    own = source.get(engine_tool.name)
    return own is engine_tool or (
        own is not None and own.definition_hash == engine_tool.definition_hash != ""
    )


def memberships(source: ToolSource, engine_tool: Tool) -> Mapping[str, ToolGroup]:
    """The groups of a source that a tool is in, by the names that they have there.

    Args:
        source: An engine, or a view of some.
        engine_tool: The tool in the form in which an engine has it.
    """
    find = getattr(source, "memberships", None)
    if callable(find):
        return cast("Mapping[str, ToolGroup]", find(engine_tool))
    if not is_tool_of(source, engine_tool):
        return {}
    groups: Mapping[str, ToolGroup] = getattr(source, "groups", None) or {}
    return {name: group for name, group in groups.items() if group.members([engine_tool])}
