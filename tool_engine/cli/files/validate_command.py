"""Which files does `validate` check, and what does it answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tool_engine.cli.console import print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK
from tool_engine.cli.files.checking import check_files, print_checked, print_summary
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings


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
    return validate_files(settings, paths or [], verbose=verbose, as_json=as_json)


def validate_files(
    settings: Settings, paths: Sequence[str], *, verbose: bool, as_json: bool
) -> int:
    checked = check_files(paths or [settings.folder()], is_recursive=settings.is_recursive)
    invalid = sum(bool(each.problems) for each in checked)
    if as_json:
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
    return EXIT_FAILED if invalid else EXIT_OK
