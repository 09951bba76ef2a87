"""What are the facts of one tool or group?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import typer

from tool_engine.catalog.index import ToolIndex
from tool_engine.cli.broken import missing_tool
from tool_engine.cli.calls.call_arguments import example_arguments
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.files.facts import group_facts, tool_facts
from tool_engine.cli.files.server_tools import load_tools, report_folder
from tool_engine.cli.options import JSONOption, NameArgument, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import fact_table, parameters_table
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import EVERYONE, Tool
from tool_engine.redaction import redact


def run_command(
    ctx: typer.Context,
    name: NameArgument,
    *,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show one tool: its parameters, how it runs, its limits, and how to call it.

    Example: tool-engine show http_request
    """
    return show_tool(settings_of(ctx, tools), name, as_json=as_json)


def show_tool(settings: Settings, name: str, *, as_json: bool) -> int:
    folder = load_tools(settings, name)
    tools, groups = folder.tools, folder.groups
    tool = ToolIndex(tools.values()).find(name)
    if tool is None and name in groups:
        return _show_group(groups[name], tools, as_json=as_json)
    if tool is None:
        if not as_json:
            report_folder(settings, folder)
        raise missing_tool(settings, name, [*tools, *groups], folder.errors)
    if as_json:
        print_json({**tool_facts(tool), **_tool_details(tool)})
    else:
        _print_tool(tool)
    return EXIT_OK


def _show_group(group: ToolGroup, tools: Mapping[str, Tool], *, as_json: bool) -> int:
    if as_json:
        print_json(group_facts(group, tools))
        return EXIT_OK
    console = make_console()
    columns_shown = ("name", "findings")
    facts = {
        key: value for key, value in group_facts(group, tools).items() if key not in columns_shown
    }
    console.print(fact_table(f"group {group.name}", facts))
    for finding in group.findings:
        console.print(as_text(f"warning: {finding}", "yellow"))
    return EXIT_OK


def _tool_details(tool: Tool) -> dict[str, Any]:
    return {
        "parameters": tool.parameters_schema,
        "output": tool.output,
        "entry": redact(tool.implementation_config),
        "limits": _list_limits(tool),
        **_list_hints(tool),
        "findings": tool.findings,
        "example": _make_example(tool),
    }


def _list_hints(tool: Tool) -> dict[str, Any]:
    return {"vcp_command": tool.vcp_command, "annotations": tool.annotations}


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
        "scope": None if wants.scope == "process" else wants.scope,
        "timeout": tool.timeout,
        "rate": None if tool.rate is None else str(tool.rate),
        "result": None if tool.result is None else msgspec.to_builtins(tool.result),
        "retry": None if tool.retry is None else msgspec.to_builtins(tool.retry),
        "idempotent": tool.idempotent,
        "permission": None if tool.permission is None else msgspec.to_builtins(tool.permission),
        "accepts": tool.accepts,
        "max_uses": tool.max_uses,
        "background": tool.background,
    }


def _make_example(tool: Tool) -> str:
    return " ".join(["tool-engine call", tool.name, *example_arguments(tool)])


def _print_tool(tool: Tool) -> None:
    console = make_console()
    facts = {key: value for key, value in tool_facts(tool).items() if key != "name"}
    facts |= {key: ", ".join(facts[key]) for key in ("tags", "audience", "aliases")}
    facts |= _list_hints(tool)
    unsaid = {"title": None, "audience": ", ".join(EVERYONE), "aliases": ""}
    unsaid |= {"background": "allowed"}
    unsaid |= dict.fromkeys(_list_hints(tool))
    shown = {key: each for key, each in facts.items() if key not in unsaid or each != unsaid[key]}
    console.print(fact_table(tool.name, shown))
    if tool.parameters:
        console.print(parameters_table(tool.parameters))
    console.print(fact_table("entry", redact(tool.implementation_config)))
    limits = {key: value for key, value in _list_limits(tool).items() if value is not None}
    console.print(fact_table("limits", limits))
    for finding in tool.findings:
        console.print(as_text(f"warning: {finding}", "yellow"))
    console.print(as_text(f"try: {_make_example(tool)}"), soft_wrap=True)
