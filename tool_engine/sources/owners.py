"""Which of a conversation's sources has a tool that another tool calls?"""

from __future__ import annotations

from tool_engine.interfaces.source import Source, is_tool_of
from tool_engine.model.tool import Tool
from tool_engine.sources.identity import engine_of, engine_text


def owners_of(catalog: Source, engine_tool: Tool, engine: Source | None) -> list[Source]:
    """Return the innermost sources that may have this very tool.

    It is one, if that is clear.

    Two engines may have the same definition, of which one works on a copy and the other one on
    what matters.

    Args:
        catalog: An engine, or a view of some.
        engine_tool: The tool, in the form in which an engine has it.
        engine: The engine, where it is known; it may be none of the sources.
    """
    if engine is not None:
        leaf = leaf_of(catalog, engine, engine_tool.name)
        return [engine if leaf is None else leaf]
    leaves = catalog.list_origins()
    same = [leaf for leaf in leaves if leaf.get(engine_tool.name) is engine_tool]
    return same or [leaf for leaf in leaves if is_tool_of(leaf, engine_tool)]


def leaf_of(catalog: Source, engine: Source, tool_name: str) -> Source | None:
    """Return the innermost source that is or wraps an engine, or None.

    Args:
        catalog: An engine, or a view of some.
        engine: The engine.
        tool_name: One of its tools, by which a source of another class is known that has it.
    """
    tool = engine.get(tool_name)
    for leaf in catalog.list_origins():
        is_around = tool is not None and not leaf.is_engine
        if leaf is engine or (is_around and leaf.get(tool_name) is tool):
            return leaf
    return None


def engine_of_inner(
    catalog: Source, called_name: str, engine_tool: Tool, engine: Source | None
) -> str:
    """Return the engine of a tool that another tool calls; see `engine_of`.

    Args:
        catalog: An engine, or a view of some.
        called_name: The tool that the model called.
        engine_tool: The tool that this one calls, in the form in which an engine has it.
        engine: The engine, where it is known.
    """
    owners = owners_of(catalog, engine_tool, engine)
    if len(owners) == 1:
        return engine_text(catalog, owners[0])
    # Its engine is not in the conversation, or several may have it.
    return f"{len(owners)} from {engine_of(catalog, called_name)}"
