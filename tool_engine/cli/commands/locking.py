"""Which words may follow `lock`?

The signature only: what the command does is imported when it runs, so that `--help` answers at
once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of


def lock_command(
    ctx: typer.Context,
    *,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            "--approve",
            "-a",
            metavar="NAME",
            help="Only this tool, or group:NAME; repeatable.",
            autocompletion=complete_tool,
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 when something differs.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="The lock file, if not tools.lock."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Approve the tools and groups as they are, for engines with `lock: enforce`.

    Example: tool-engine lock --approve get_weather
    """
    from tool_engine.cli.files.locking import lock_tools

    return lock_tools(
        settings_of(ctx, tools), approve or (), check=check, file=file, as_json=as_json
    )
