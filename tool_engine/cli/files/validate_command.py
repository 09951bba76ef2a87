"""Which files does `validate` check, and what does it answer?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer

from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.servers.config_file import read_config_file
from tool_engine.cli.broken import report_empty
from tool_engine.cli.console import print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.files.checking import Checked, check_files, print_checked, print_summary
from tool_engine.cli.files.report_formats import (
    FORMATS,
    REPORTS,
    Finding,
    FormatOption,
    Rule,
    make_finding,
    print_report,
)
from tool_engine.cli.options import JSONOption, ToolsOption, chosen_format, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.errors import DefinitionProblem
from tool_engine.executors.executor_registry import ExecutorRegistry, find_missing_fleet
from tool_engine.executors.mcp.programs import explain_start
from tool_engine.mcp_servers.settings import list_unset
from tool_engine.mcp_servers.settings import settings_of as server_settings_of
from tool_engine.model.tool import Tool

_INVALID: Final = "invalid"
_DOUBTFUL: Final = "doubtful"
_RULES: Final = (
    Rule(_INVALID, "the file cannot be loaded"),
    Rule(_DOUBTFUL, "the file loads, and may not do what is meant"),
)


def run_command(
    ctx: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Files and folders; the tools folder if none."),
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Check again at every change, until Ctrl-C.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List the good files too.")
    ] = False,
    form: FormatOption = "text",
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Check tool files and print every error with its file, line, column and cure.

    Example: tool-engine validate tools/ other/weather.yaml
    """
    settings = settings_of(ctx, tools)
    form = "json" if as_json else chosen_format(form, FORMATS)
    if watch:
        if form in REPORTS:
            raise CommandError(f"--watch goes on without an end, and {form} has one; leave one out")
        from tool_engine.cli.files.rechecking import validate_and_watch

        return validate_and_watch(settings, paths or [], as_json=form == "json")
    return validate_files(settings, paths or [], form, verbose=verbose)


def validate_files(
    settings: Settings, paths: Sequence[str], form: str = "text", *, verbose: bool
) -> int:
    """Check files and print them in one of `FORMATS`; return 1 for any that is wrong."""
    checked = _check_all(settings, paths)
    invalid = sum(bool(each.problems) for each in checked)
    if form in REPORTS:
        findings = [finding for each in checked for finding in _list_findings(each)]
        print_report(form, "validate", findings, [each.file for each in checked], _RULES)
    elif form == "json":
        print_json(
            {
                "checked": len(checked),
                "valid": len(checked) - invalid,
                "invalid": invalid,
                "files": [each.to_dict() for each in checked],
            }
        )
    else:
        print_checked(checked, verbose=verbose)
        print_summary(checked)
        if not checked:
            report_empty(settings)
    return EXIT_FAILED if invalid else EXIT_OK


def _miss_source(tool: Tool, sources: Mapping[str, str]) -> str:
    """Return that a tool names no source of the project; an app of its own may have others."""
    name = tool.implementation_config.get("source")
    if not isinstance(name, str) or name in sources or "://" in name:
        return ""
    # The rules of SQL are large, and few files need them.
    from tool_engine.executors.sql.sql_entry import unknown_source

    return str(
        DefinitionProblem(unknown_source(name, sources), tool.source or "", path="entry.source")
    )


def _check_all(settings: Settings, paths: Sequence[str]) -> list[Checked]:
    """Check files, and without their names those of the project, servers among them."""
    has_folder = paths or not settings.is_without_folder
    named = paths or ([settings.folder()] if has_folder else [])
    checked = check_files(named, is_recursive=settings.is_recursive)
    servers = settings.mcp_servers
    if isinstance(servers, str) and not paths:
        checked.append(_check_servers(servers))
    for each in checked:
        for server in each.servers if not each.problems else ():
            each.warnings += _list_obstacles(server)
    if sources := {**settings.read_file("sources", {}), **settings.named_sources()}:
        for each in checked:
            each.warnings += [text for tool in each.tools if (text := _miss_source(tool, sources))]
    if settings.read_file("fleet") is None:
        # Right in itself: which engine loads it is not known.
        registry = ExecutorRegistry()
        for each in checked:
            tools = filter(registry.is_for_fleet, each.tools)
            each.warnings += [str(lack) for tool in tools for lack in find_missing_fleet(tool)]
    if isinstance(servers, tuple) and not paths and settings.file is not None:
        found = Checked(settings.file.file, list(servers))
        for server in servers:
            found.warnings += [*server.findings, *_list_obstacles(server)]
        checked.append(found)
    return checked


def _check_servers(path: str) -> Checked:
    found = read_config_file(path)
    warnings = [text for server in found.servers for text in server.findings]
    return Checked(path, list(found.servers), list(found.problems), warnings)


def _list_findings(checked: Checked) -> Iterator[Finding]:
    for problem in checked.problems:
        where = (problem.file, problem.line, problem.column, problem.path)
        yield Finding(_INVALID, "error", problem.message, *where)
    for warning in checked.warnings:
        yield make_finding(_DOUBTFUL, "warning", warning, checked.file)


def _list_obstacles(server: ServerDefinition) -> Iterator[str]:
    """Yield what of this machine stands against a start, each with its place and its cure."""
    unset = list(map(str, list_unset(server)))
    yield from unset
    settings = server_settings_of(server)
    if unset or not settings.command or not server.is_enabled:
        return
    found = explain_start(settings.command, {**os.environ, **settings.env}, settings.cwd)
    if found is not None:
        what = f"the server {server.name!r} does not start here: {found}"
        yield f"{server.locate(found.part)}: {what}"
