"""Which tools and groups are there?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer

from tool_engine.catalog.approval.locked_group import PREFIX
from tool_engine.cli.broken import report_empty
from tool_engine.cli.console import make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.facts import group_facts, tool_facts
from tool_engine.cli.files.locking import lock_states, report_unapproved
from tool_engine.cli.files.server_tools import load_tools, report_folder
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import (
    count_text,
    groups_table,
    tools_table,
)
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool, ToolCategory


class Filters(msgspec.Struct, frozen=True):
    """Which tools to list; an empty filter matches all."""

    category: str | None = None
    tags: tuple[str, ...] = ()
    keyword: str | None = None

    def matches(self, tool: Tool) -> bool:
        if self.category is not None and tool.category.value != self.category:
            return False
        if not set(self.tags) <= set(tool.tags):
            return False
        keyword = (self.keyword or "").casefold()
        return keyword in f"{tool.name}\n{tool.description}".casefold()

    def matches_group(self, group: ToolGroup, tools: Sequence[Tool]) -> bool:
        """Return True for a group of a listed tool, or without filters."""
        return self == Filters() or bool(group.members(tools))


def run_command(
    ctx: typer.Context,
    *,
    category: Annotated[
        str | None, typer.Option("--category", "-c", help="Only tools of this category.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="Only tools with this tag; repeatable.")
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", "-s", help="Only tools whose text has this in it.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when a file could not be loaded.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """List the tools.

    Example: tool-engine list --category http --json
    """
    filters = Filters(category=category, tags=tuple(tag or ()), keyword=search)
    return list_tools(settings_of(ctx, tools), filters, strict=strict, as_json=as_json)


def list_tools(settings: Settings, filters: Filters, *, strict: bool, as_json: bool) -> int:
    """Print the filtered tools, and report files that did not load."""
    _check_category(filters.category)
    folder = load_tools(settings)
    known, errors = folder.tools, [*folder.errors, *folder.server_errors]
    tools = [tool for tool in known.values() if filters.matches(tool)]
    groups = {
        name: group for name, group in folder.groups.items() if filters.matches_group(group, tools)
    }
    states = lock_states(settings, [*tools, *groups.values()])
    if as_json:
        print_json(
            {
                "tools": [{**tool_facts(tool), **_lock_fact(tool.name, states)} for tool in tools],
                "groups": [
                    {**group_facts(group, known), **_lock_fact(f"{PREFIX}{group.name}", states)}
                    for group in groups.values()
                ],
                "load_errors": [{"file": file, "message": text} for file, text in errors],
            }
        )
    else:
        make_console().print(
            tools_table(tools, f"{count_text(len(tools), 'tool')} in {settings.tools}")
        )
        if groups:
            make_console().print(groups_table(groups, known.values()))
        report_unapproved(settings, states)
        report_folder(settings, folder)
        if not known:
            report_empty(settings)
    return EXIT_FAILED if strict and errors else EXIT_OK


def _check_category(category: str | None) -> None:
    known = [item.value for item in ToolCategory]
    if category is not None and category not in known:
        raise CommandError(f"there is no category {category!r}{suggest_name(category, known)}")


def _lock_fact(name: str, states: Mapping[str, str]) -> dict[str, str]:
    return {"lock": states[name]} if name in states else {}
