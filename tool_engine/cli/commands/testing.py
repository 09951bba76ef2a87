"""Which words may follow `test`?

A signature only: what the command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of


def run_tests_command(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="The tools; all if none.", autocompletion=complete_tool
        ),
    ] = None,
    *,
    app: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE:NAME",
            help="Your ToolEngine, whose executors and handlers run the tools.",
        ),
    ] = None,
    cases: Annotated[
        int,
        typer.Option("--cases", min=0, max=10_000, metavar="N", help="Right calls generated."),
    ] = 20,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Another seed generates other calls.")
    ] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="What is skipped or has no tests fails too.")
    ] = False,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit's XML.")
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Run the examples and tests in tool files, offline, and try out their parameters.

    Example: tool-engine test get_weather --junit results.xml
    """
    from tool_engine.cli.files.testing import RunOptions, run_tests

    options = RunOptions(
        names=tuple(names or ()),
        seed=seed,
        cases=cases,
        app=app,
        junit=junit,
        is_strict=strict,
    )
    return run_tests(settings_of(ctx, tools), options, as_json=as_json)
