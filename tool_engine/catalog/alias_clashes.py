"""Which further names of tools do several tools claim?

An alias that is not clear means none of the tools, and a tool's own name always means that tool.
The tools themselves stay: each is called by its name.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tool_engine.catalog.index import ToolIndex
from tool_engine.errors import DefinitionProblem
from tool_engine.model.checks.aliases import JOINTS, list_commands
from tool_engine.model.tool import Tool


def clashes_of(index: ToolIndex, only: Container[str] | None = None) -> list[DefinitionProblem]:
    """Return a problem for each tool and further name of it that is not clear.

    Args:
        index: The tools.
        only: The names of the tools that are looked at; None: every tool.
    """
    return [problem for _, problem in find_clashes(index, only)]


def find_clashes(
    index: ToolIndex, only: Container[str] | None = None
) -> Iterator[tuple[str, DefinitionProblem]]:
    """Yield the name of each tool with a further name that is not clear, and the problem."""
    for claim, names in index.aliases.items():
        if only is not None and not any(name in only for name in names):
            continue
        holders = [each for each in map(index.get, names) if each is not None]
        named = list(_find_named(claim, index)) if isinstance(claim, str) else []
        for tool in holders if only is None else [each for each in holders if each.name in only]:
            others = [each for each in (*named, *holders) if each is not tool]
            if others:
                yield tool.name, _describe_clash(tool, claim, others)


def _find_named(alias: str, index: ToolIndex) -> Iterator[Tool]:
    """Yield the tools whose name, or whose method, an alias also is. A35."""
    own = index.get(alias)
    if own is not None:
        yield own
    owner, _, method = alias.rpartition("_")
    if owner and method:
        joined = (index.get(f"{owner}{joint}{method}") for joint in JOINTS)
        yield from (tool for tool in joined if tool is not None and tool is not own)
        tool = index.get(owner)
        if tool is not None and method in list_commands(tool):
            yield tool


def _describe_clash(
    tool: Tool, claim: str | tuple[str, str], others: Iterable[Tool]
) -> DefinitionProblem:
    places = dict.fromkeys(f"{each.name!r} in {each.source or '<code>'}" for each in others)
    said = ", ".join(places)
    if isinstance(claim, str):
        path, what = f"aliases[{tool.aliases.index(claim)}]", f"the alias {claim!r}"
    else:
        path, what = "vcp_command", f"the command {claim[1]!r} of {claim[0]!r}"
    return DefinitionProblem(
        f"{what} of {tool.name!r} also means {said}; give it another one",
        tool.source or "<code>",
        path=path,
        cure="give it another one",
    )
