"""Which words may follow `list`, `show`, `search`, `watch` and `demo`?

Signatures only: what a command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.options import JSONOption, NameArgument, ToolsOption, settings_of


def list_command(
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
    from tool_engine.cli.files.listing import Filters, list_tools

    filters = Filters(category=category, tags=tuple(tag or ()), keyword=search)
    return list_tools(settings_of(ctx, tools), filters, strict=strict, as_json=as_json)


def show_command(
    ctx: typer.Context,
    name: NameArgument,
    *,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show one tool: its parameters, how it runs, its limits, and how to call it.

    Example: tool-engine show http_request
    """
    from tool_engine.cli.files.listing import show_tool

    return show_tool(settings_of(ctx, tools), name, as_json=as_json)


def search_command(
    ctx: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="What the tool does.")],
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="The most tools to print.")
    ] = 10,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Find the tools that fit some words best, as a model finds them with search_tools.

    Example: tool-engine search weather forecast
    """
    from tool_engine.cli.files.searching import search_tools

    return search_tools(settings_of(ctx, tools), words, limit, as_json=as_json)


def watch_command(
    ctx: typer.Context,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document per line and event.")
    ] = False,
    tools: ToolsOption = None,
) -> int:
    """Watch the tools folder and print what changes, until Ctrl-C.

    Example: tool-engine watch --json
    """
    from tool_engine.cli.files.watching import watch_tools

    return watch_tools(settings_of(ctx, tools), as_json=as_json)


def demo_command(ctx: typer.Context, tools: ToolsOption = None) -> int:
    """See the engine at work in ten seconds, offline, on a copy of the tool files.

    Example: tool-engine demo
    """
    from tool_engine.cli.demo.run import run_demo

    return run_demo(settings_of(ctx, tools))
