"""Which groups contain a tool, even one that a conversation hides?

What a group says of consent holds for the calls that other tools make, too: to leave a tool out of
a conversation must not take away what its groups say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tool_engine.approval.place import engine_asked
from tool_engine.engine import ToolEngine
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool
from tool_engine.protocols.sources import ToolSource
from tool_engine.session.sources.identity import engine_of, engine_text, leaves_of


def is_tool_of(source: ToolSource, engine_tool: Tool) -> bool:
    """Return True if an engine has this tool, not just another one of its name."""
    own = source.get(engine_tool.name)
    return own is engine_tool or (
        own is not None and own.definition_hash == engine_tool.definition_hash != ""
    )


def owners_of(catalog: ToolSource, engine_tool: Tool) -> list[ToolSource]:
    """Return the innermost sources that may have this very tool: one, if it is clear.

    Two engines may have the same definition, of which one works on a copy and the other one on
    what matters. Of a call that came through another engine it is known; that may be none of them.
    """
    engine = engine_asked(engine_tool)
    if engine is not None:
        leaf = leaf_of(catalog, engine, engine_tool.name)
        return [engine if leaf is None else leaf]
    leaves = leaves_of(catalog)
    same = [leaf for leaf in leaves if leaf.get(engine_tool.name) is engine_tool]
    return same or [leaf for leaf in leaves if is_tool_of(leaf, engine_tool)]


def leaf_of(catalog: ToolSource, engine: ToolSource, tool_name: str) -> ToolSource | None:
    """Return the innermost source that is or wraps an engine; None: it is not in `catalog`.

    Args:
        catalog: An engine, or a view of some.
        engine: The engine.
        tool_name: One of its tools, by which a source of another class is known that has it.
    """
    tool = engine.get(tool_name)
    for leaf in leaves_of(catalog):
        is_around = tool is not None and not isinstance(leaf, ToolEngine)
        if leaf is engine or (is_around and leaf.get(tool_name) is tool):
            return leaf
    return None


def engine_of_inner(catalog: ToolSource, called_name: str, engine_tool: Tool) -> str:
    """Return the engine of a tool that another tool calls; see `engine_of`.

    Args:
        catalog: An engine, or a view of some.
        called_name: The tool that the model called.
        engine_tool: The tool that this one calls, in the form in which an engine has it.
    """
    owners = owners_of(catalog, engine_tool)
    if len(owners) == 1:
        return engine_text(catalog, owners[0])
    # Its engine is not in the conversation, or several may have it.
    return f"{len(owners)} from {engine_of(catalog, called_name)}"


def memberships(
    source: ToolSource, engine_tool: Tool, owner: ToolSource | None = None
) -> Mapping[str, ToolGroup]:
    """Return the groups of a source that contain a tool, by their names there.

    Args:
        source: An engine, or a view of some.
        engine_tool: The tool in the form in which an engine has it.
        owner: The engine; None: whichever has it.
    """
    find = getattr(source, "memberships", None)
    if callable(find):
        return cast("Mapping[str, ToolGroup]", find(engine_tool, owner))
    if owner not in (None, source) or not is_tool_of(source, engine_tool):
        return {}
    groups: Mapping[str, ToolGroup] = getattr(source, "groups", None) or {}
    return {name: group for name, group in groups.items() if group.members([engine_tool])}
