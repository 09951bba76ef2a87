"""What does the definition of a tool say, and what did it say before?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from tool_engine.catalog.change.compatibility import compare_versions
from tool_engine.catalog.change.text_diff import diff_definitions
from tool_engine.catalog.change.tool_change import ToolChange
from tool_engine.catalog.definition.showing import show_definition, write_shown
from tool_engine.catalog.definition_files import read_definition
from tool_engine.catalog.generations import Generation
from tool_engine.catalog.yaml.strict_yaml import parse_yaml
from tool_engine.config import LOCK_ENFORCE
from tool_engine.engine import ToolEngine
from tool_engine.errors import DefinitionError
from tool_engine.model.tool import Tool, is_source_name
from tool_engine.server.endpoint import Sized
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.results import Moment
from tool_engine.server.tools import find_tool

MOST_CHANGES: Final = 100


class LockFacts(msgspec.Struct):
    """What the lock file has to do with a tool."""

    is_enforced: bool
    """False: all tools may be called, approved or not."""
    is_needed: bool
    """False: it comes from code, which needs no approval."""
    is_approved: bool | None
    """Null: approvals are not looked at."""
    message: str = ""
    """Why it is not approved, and how it is."""


class ToolVersion(msgspec.Struct):
    """What a tool was from a generation on, and what that changed."""

    generation: int
    cause: str
    at: Moment
    version: str
    definition_hash: str
    level: str
    """The worst of its changes: `none`, `cosmetic`, `compatible` or `breaking`."""
    changes: list[ToolChange]
    """From the version before; none: it is the oldest that is kept."""
    diff: str | None
    """The lines that differ; null: it is the oldest, or they are too long to be compared."""


class ToolDefinition(msgspec.Struct):
    """The definition of a tool as it is loaded, with secrets hidden."""

    name: str
    origin: str
    """`code`, `file:` and a path, or the name of a source."""
    file: str | None
    line: int | None
    """Where it begins in the file as it is now; null: it is not there any more."""
    definition: dict[str, Any]
    yaml: str
    findings: list[str]
    """Warnings about it, each with place and cure."""
    lock: LockFacts
    versions: list[ToolVersion]
    """Those of the generations that are kept, the newest first."""


@serve_at(
    "GET",
    "/v1/tools/{name}/definition",
    scope="operate",
    answer=ToolDefinition,
    errors=(404,),
)
async def get_definition(asked: Asked) -> Any:
    """Show the whole definition of a tool, where it stands, and what it was before."""
    tool, engine = find_tool(asked, asked.path["name"]), asked.engine
    lock = describe_lock(engine, tool)
    found = await asyncio.to_thread(_describe_definition, tool, engine.generations(), lock)
    return Sized(found)


def describe_lock(engine: ToolEngine, tool: Tool) -> LockFacts:
    """Return what the lock file has to do with a tool that may be called or is quarantined."""
    is_enforced, is_needed = engine.config.lock == LOCK_ENFORCE, tool.source is not None
    held = next((each for each in engine.quarantined() if each.name == tool.name), None)
    is_approved = held is None if is_enforced and is_needed else None
    return LockFacts(is_enforced, is_needed, is_approved, "" if held is None else held.message)


def _describe_definition(
    tool: Tool, generations: Sequence[Generation], lock: LockFacts
) -> ToolDefinition:
    is_file = tool.source is not None and not is_source_name(tool.source)
    return ToolDefinition(
        name=tool.name,
        origin=tool.origin,
        file=tool.source if is_file else None,
        line=_find_line(tool) if is_file else None,
        definition=show_definition(tool),
        yaml=write_shown(tool),
        findings=list(tool.findings),
        lock=lock,
        versions=list(_list_versions(tool.name, generations))[::-1],
    )


def _find_line(tool: Tool) -> int | None:
    """Return the line at which a tool begins in its file. Blocks."""
    with suppress(DefinitionError):
        source = str(tool.source)
        documents, _ = parse_yaml(read_definition(source).data, source)
        for each in documents:
            if isinstance(each.value, dict) and each.value.get("name") == tool.name:
                line: int = each.position(("name",))[0]
                return line
    return None


def _list_versions(name: str, generations: Sequence[Generation]) -> Iterator[ToolVersion]:
    before: Tool | None = None
    for generation in generations:
        tool = generation.index.get(name)
        if tool is None or (before and before.definition_hash == tool.definition_hash):
            continue
        found = None if before is None else compare_versions(before, tool)
        yield ToolVersion(
            generation.number,
            generation.cause,
            generation.at.isoformat(),
            tool.version,
            tool.definition_hash,
            "none" if found is None else found.level,
            [] if found is None else found.changes[:MOST_CHANGES],
            None if before is None else diff_definitions(before, tool),
        )
        before = tool


OPERATIONS = (get_definition,)
