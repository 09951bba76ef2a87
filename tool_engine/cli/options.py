"""Which options do several commands share?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.failures import CommandError, nearest
from tool_engine.cli.settings import Settings

__all__ = [
    "EXIT_CODES",
    "JSONOption",
    "NameArgument",
    "RecordsOption",
    "TimeoutOption",
    "ToolsOption",
    "chosen_format",
    "settings_of",
]

EXIT_CODES: Final = (
    "Exit codes: 0 it worked; 1 a call failed, or a definition has findings; "
    "2 the command line is wrong; 130 Ctrl-C."
)
"""What stands under the help of every command."""

JSONOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
ToolsOption = Annotated[str | None, typer.Option("--tools", metavar="DIR", hidden=True)]
RecordsOption = Annotated[str | None, typer.Option("--records", metavar="URL", hidden=True)]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The tool.", autocompletion=complete_tool)
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Seconds that a call may run."),
]


def chosen_format(word: str, formats: Sequence[str]) -> str:
    """The value of `--format`.

    Raises:
        CommandError: It is none of `formats`.
    """
    if word not in formats:
        raise CommandError(f"there is no format {word!r}{nearest(word, formats)}")
    return word


def settings_of(ctx: typer.Context, tools: str | None, records: str | None = None) -> Settings:
    """The global options, with the folder that a command's own `--tools` names.

    Args:
        ctx: The command's context.
        tools: The value of `ToolsOption`.
        records: The value of `RecordsOption`.
    """
    settings: Settings = ctx.obj
    return settings._replace(chosen=tools or settings.chosen, records=records or settings.records)
