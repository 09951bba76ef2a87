"""Which words may follow the commands that help to write tool files?

Signatures only: what a command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.completion import complete_kind, complete_tool
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of


def new_command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool, such as get_weather.")],
    *,
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="http, python, calculator, echo, http_request or search_tools.",
            autocompletion=complete_kind,
        ),
    ] = "http",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the files that are there.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Write a tool file to begin with: commented, valid, with an example and a test.

    Example: tool-engine new get_weather --kind http
    """
    from tool_engine.cli.files.new import new_tool

    return new_tool(settings_of(ctx, tools), name, kind, force=force, as_json=as_json)


def validate_command(
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
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Check tool files and print every error with its file, line, column and cure.

    Example: tool-engine validate tools/ other/weather.yaml
    """
    settings = settings_of(ctx, tools)
    if watch:
        from tool_engine.cli.files.rechecking import validate_and_watch

        return validate_and_watch(settings, paths or [], as_json=as_json)
    from tool_engine.cli.files.checking import validate_files

    return validate_files(settings, paths or [], verbose=verbose, as_json=as_json)


def lint_command(
    ctx: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Files, folders and tools; all tools if none.",
            autocompletion=complete_tool,
        ),
    ] = None,
    *,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", "-s", metavar="CODES", help="Only rules such as L101, or L1."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", "-i", metavar="CODES", help="All rules but these."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, json or github.")
    ] = "text",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and end.")] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Find what makes tool files that load still bad for a model, with the cure.

    Example: tool-engine lint tools/ --ignore L401,L402 --format github
    """
    from tool_engine.cli.files.lint import lint_files, make_options, print_rules

    options = make_options(select or (), ignore or (), form, as_json=as_json)
    if rules:
        return print_rules(as_json=options.is_json)
    return lint_files(settings_of(ctx, tools), targets or [], options)


def diff_command(
    ctx: typer.Context,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A file, a folder, a tool, or REVISION:PATH.")
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="A file, a folder, a tool, or REVISION:PATH.")
    ],
    *,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show how tools differ, and exit with 1 when an edit breaks callers unannounced.

    Example: tool-engine diff origin/main:tools tools --format json
    """
    from tool_engine.cli.files.diff import diff_files
    from tool_engine.cli.options import chosen_format

    is_json = chosen_format(form, ("text", "json")) == "json" or as_json
    return diff_files(settings_of(ctx, tools), old, new, as_json=is_json)


def schema_command(
    *,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to a file instead."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> int:
    """Print the JSON Schema of a tool file, for editors that check while you type.

    Example: tool-engine schema --output tools/.tool.schema.json
    """
    if output is not None:
        from tool_engine.cli.files.new import write_schema

        return write_schema(output)
    from tool_engine.cli.files.listing import print_schema

    return print_schema()
