"""Which tool is meant by a name, whatever it is called in a conversation?"""

from __future__ import annotations

from typing import cast

from tool_engine.protocols.sources import ToolSource

__all__ = ["identity_of", "leaves_of", "origin_of"]


def identity_of(catalog: ToolSource, shown_name: str) -> str:
    """What a tool has in common with itself under other names, and with no other tool.

    It is the same in another process whose sources are put together in the same order.

    Args:
        catalog: An engine, or a view of some.
        shown_name: The name that the tool has there.
    """
    if not callable(getattr(catalog, "origin", None)):
        return shown_name
    source, name = origin_of(catalog, shown_name)
    leaves = leaves_of(catalog)
    number = next((at for at, each in enumerate(leaves) if each is source), 0)
    # No tool has a space in its name.
    return f"{name} of source {number + 1}" if number else name


def origin_of(source: ToolSource, shown_name: str) -> tuple[ToolSource, str]:
    """The innermost source that has a tool, and the name that it has there."""
    find = getattr(source, "origin", None)
    return (
        cast("tuple[ToolSource, str]", find(shown_name)) if callable(find) else (source, shown_name)
    )


def leaves_of(source: ToolSource) -> list[ToolSource]:
    """The innermost sources, each once."""
    find = getattr(source, "leaves", None)
    if not callable(find):
        return [source]
    return list({id(each): each for each in cast("list[ToolSource]", find())}.values())
