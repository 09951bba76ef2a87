"""Which tools and groups exist, and what are the facts of one?"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tool_engine.catalog.approval.locked_group import PREFIX
from tool_engine.catalog.definition.starter import schema_text
from tool_engine.cli.call_arguments import example_arguments
from tool_engine.cli.console import make_console, plain, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.broken import missing_tool, tell_broken
from tool_engine.cli.files.checking import check_files
from tool_engine.cli.files.locking import lock_states, tell_unapproved
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import (
    count_text,
    fact_table,
    groups_table,
    parameters_table,
    tools_table,
)
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.redaction import redact


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


class _Loaded(NamedTuple):
    tools: dict[str, Tool]
    groups: dict[str, ToolGroup]
    errors: list[tuple[str, str]]


def list_tools(settings: Settings, filters: Filters, *, strict: bool, as_json: bool) -> int:
    """Print the filtered tools, and report files that did not load."""
    _check_category(filters.category)
    known, known_groups, errors = _load_tools(settings)
    tools = [tool for tool in known.values() if filters.matches(tool)]
    groups = {
        name: group for name, group in known_groups.items() if filters.matches_group(group, tools)
    }
    states = lock_states(settings, [*tools, *groups.values()])
    if as_json:
        print_json(
            {
                "tools": [{**_tool_facts(tool), **_lock_fact(tool.name, states)} for tool in tools],
                "groups": [
                    {**_group_facts(group, known), **_lock_fact(f"{PREFIX}{group.name}", states)}
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
        tell_unapproved(settings, states)
        tell_broken(settings, len(errors))
    return EXIT_FAILED if strict and errors else EXIT_OK


def show_tool(settings: Settings, name: str, *, as_json: bool) -> int:
    tools, groups, errors = _load_tools(settings)
    tool = tools.get(name)
    if tool is None and name in groups:
        return _show_group(groups[name], tools, as_json=as_json)
    if tool is None:
        if not as_json:
            tell_broken(settings, len(errors))
        raise missing_tool(settings, name, [*tools, *groups], errors)
    if as_json:
        print_json({**_tool_facts(tool), **_tool_details(tool)})
    else:
        _print_tool(tool)
    return EXIT_OK


def print_schema() -> int:
    sys.stdout.write(schema_text())
    return EXIT_OK


def _show_group(group: ToolGroup, tools: Mapping[str, Tool], *, as_json: bool) -> int:
    if as_json:
        print_json(_group_facts(group, tools))
        return EXIT_OK
    console = make_console()
    columns_shown = ("name", "findings")
    facts = {
        key: value for key, value in _group_facts(group, tools).items() if key not in columns_shown
    }
    console.print(fact_table(f"group {group.name}", facts))
    for finding in group.findings:
        console.print(plain(f"warning: {finding}", "yellow"))
    return EXIT_OK


def _load_tools(settings: Settings) -> _Loaded:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    good = [tool for each in checked if not each.problems for tool in each.tools]
    groups = [group for each in checked if not each.problems for group in each.groups]
    errors = [
        (each.file, "\n".join(str(problem) for problem in each.problems))
        for each in checked
        if each.problems
    ]
    return _Loaded(
        {tool.name: tool for tool in sorted(good, key=lambda tool: tool.name)},
        {group.name: group for group in sorted(groups, key=lambda group: group.name)},
        errors,
    )


def _check_category(category: str | None) -> None:
    known = [item.value for item in ToolCategory]
    if category is not None and category not in known:
        raise CommandError(f"there is no category {category!r}{suggest_name(category, known)}")


def _tool_facts(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "version": tool.version,
        "description": tool.description,
        "category": tool.category.value,
        "tags": tool.tags,
        "effect": tool.effect,
        "status": tool.status,
        "source": tool.source,
        "definition_hash": tool.definition_hash,
    }


def _group_facts(group: ToolGroup, tools: Mapping[str, Tool]) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(group)
    return {**facts, "members": [tool.name for tool in group.members(tools.values())]}


def _lock_fact(name: str, states: Mapping[str, str]) -> dict[str, str]:
    return {"lock": states[name]} if name in states else {}


def _tool_details(tool: Tool) -> dict[str, Any]:
    return {
        "parameters": tool.parameters_schema,
        "output": tool.output,
        "entry": redact(tool.implementation_config),
        "limits": _list_limits(tool),
        "findings": tool.findings,
        "example": _make_example(tool),
    }


def _list_limits(tool: Tool) -> dict[str, Any]:
    wants = tool.concurrency
    return {
        "bucket": tool.bucket,
        "priority": wants.priority,
        "weight": wants.weight,
        "queue_timeout": wants.queue_timeout,
        "key": wants.key,
        "key_limit": wants.key_limit,
        "collision": None if wants.key is None else wants.collision.value,
        "breaker": None if wants.breaker is None else msgspec.to_builtins(wants.breaker),
        "timeout": tool.timeout,
        "rate": None if tool.rate is None else str(tool.rate),
        "result": None if tool.result is None else msgspec.to_builtins(tool.result),
        "retry": None if tool.retry is None else msgspec.to_builtins(tool.retry),
        "idempotent": tool.idempotent,
        "permission": None if tool.permission is None else msgspec.to_builtins(tool.permission),
        "accepts": tool.accepts,
        "max_uses": tool.max_uses,
    }


def _make_example(tool: Tool) -> str:
    return " ".join(["tool-engine call", tool.name, *example_arguments(tool)])


def _print_tool(tool: Tool) -> None:
    console = make_console()
    facts = {key: value for key, value in _tool_facts(tool).items() if key != "name"}
    console.print(fact_table(tool.name, {**facts, "tags": ", ".join(tool.tags)}))
    if tool.parameters:
        console.print(parameters_table(tool.parameters))
    console.print(fact_table("entry", redact(tool.implementation_config)))
    limits = {key: value for key, value in _list_limits(tool).items() if value is not None}
    console.print(fact_table("limits", limits))
    for finding in tool.findings:
        console.print(plain(f"warning: {finding}", "yellow"))
    console.print(plain(f"try: {_make_example(tool)}"), soft_wrap=True)
