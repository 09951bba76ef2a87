"""Which options do several commands share?"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.settings import (
    OPTIONS,
    VARIABLE_PREFIX,
    VARIABLES,
    Settings,
)
from tool_engine.executors.python.project import PROJECT_FOLDER
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.visible import escape_hidden

EXIT_CODES: Final = (
    "Exit codes: 0 it worked; 1 a call failed, or a definition has findings; "
    "2 the command line is wrong; 130 Ctrl-C."
)
"""The text below the help of every command."""

JSONOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
PathOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        metavar="DIR",
        envvar="TOOL_ENGINE_PATH",
        help="The folder that Python functions of tools are imported from; the one above the "
        "tools when nothing is said.",
        show_default=False,
    ),
]
ServersOption = Annotated[
    str | None,
    typer.Option(
        "--mcp-config",
        metavar="FILE",
        envvar="TOOL_ENGINE_MCP_CONFIG",
        help="The servers whose tools are used too: a file such as .mcp.json.",
        show_default=False,
    ),
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", metavar="HOST", help="A name under which it may be reached."),
]
OriginsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-origin", metavar="ORIGIN", help="Whose pages may use it, beside its own."
    ),
]
MaxOpenOption = Annotated[
    int | None,
    typer.Option("--max-open", metavar="N", min=1, help="Requests of each principal at once, 256."),
]
MaxTasksOption = Annotated[
    int | None,
    typer.Option("--max-tasks", metavar="N", min=1, help="Tasks of each principal kept, 10,000."),
]
ToolsOption = Annotated[str | None, typer.Option("--tools", metavar="DIR", hidden=True)]
MCPConfigOption = Annotated[str | None, typer.Option("--mcp-config", metavar="FILE", hidden=True)]
RecordsOption = Annotated[str | None, typer.Option("--records", metavar="URL", hidden=True)]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The tool.", autocompletion=complete_tool)
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Seconds that a call may run."),
]


def find_origins(ctx: typer.Context) -> dict[str, str]:
    """Return the option or the variable that says a setting, by the setting's name."""
    found = {}
    for name, option in OPTIONS.items():
        parameter = option.removeprefix("--").replace("-", "_")
        source = ctx.get_parameter_source(parameter)
        if source is not None and ctx.params.get(parameter):
            word = source.name
            if word in ("COMMANDLINE", "ENVIRONMENT"):
                found[name] = option if word == "COMMANDLINE" else VARIABLES[name]
    for name in ("lock", "process"):
        if os.environ.get(VARIABLES[name]):
            found[name] = VARIABLES[name]
    return found


def check_variables() -> None:
    """Report variables that begin as the program's do and say nothing.

    Raises:
        CommandError: One is nearly the name of one that does.
    """
    begun = {name for name in os.environ if name.startswith(VARIABLE_PREFIX)}
    # A tool's command may run the program; the engine marks what it starts.
    for name in sorted(begun - {*VARIABLES.values(), f"{VARIABLE_PREFIX}COMMAND"}):
        known = {known.removeprefix(VARIABLE_PREFIX): known for known in VARIABLES.values()}
        near = find_nearest(name.removeprefix(VARIABLE_PREFIX), known)
        if near:
            raise CommandError(
                f"{name}: no setting is read from this variable; did you mean {known[near]!r}? "
                "Else unset it",
                error_type="configuration_error",
            )
        listed = ", ".join(VARIABLES.values())
        sys.stderr.write(
            f"warning: {escape_hidden(name)}: no setting is read from this variable; the names are "
            f"{listed}\n"
        )


def check_path_option(path: str | None, origin: str) -> None:
    """Refuse a path of modules that is no folder with a CommandError, which says its origin."""
    if path is not None and not Path(path).is_dir():
        from tool_engine.named_file import explain_missing

        state = "is not a folder" if Path(path).exists() else explain_missing(path)
        raise CommandError(
            f"{origin}: the folder {path!r} of Python modules {state}; name another with "
            "`tool-engine --path DIR ...` or the variable TOOL_ENGINE_PATH",
            error_type="no_folder",
        )


def chosen_format(word: str, formats: Sequence[str]) -> str:
    """Return the value of `--format`; a CommandError refuses other words."""
    if word not in formats:
        raise CommandError(f"there is no format {word!r}{suggest_name(word, formats)}")
    return word


def add_settings_file(settings: Settings) -> Settings:
    """Return the settings with those of the project, where options and variables say nothing."""
    # Read late: help and completion need none of it.
    from tool_engine.cli.settings_file import read_settings_file

    file = read_settings_file(settings.cluster)
    if file is None:
        return settings
    path = settings.path or file.values.get("path")
    check_path_option(path, settings._replace(file=file).origin_of("path"))
    is_recursive = file.values.get("recursive", False) and not settings.is_flat
    return settings._replace(
        is_recursive=settings.is_recursive or is_recursive,
        records=settings.records or file.values.get("records"),
        path=path,
        file=file,
    )


def settings_of(
    ctx: typer.Context,
    tools: str | None,
    records: str | None = None,
    mcp_config: str | None = None,
) -> Settings:
    """Return what holds: a command's own options, the global ones, the project's settings."""
    known: Settings = ctx.obj
    given = {"tools": tools, "records": records, "mcp_servers": mcp_config}
    settings = add_settings_file(
        known._replace(
            origins={**known.origins, **{key: OPTIONS[key] for key in given if given[key]}},
            chosen=tools or known.chosen,
            records=records or known.records,
            mcp_config=mcp_config or known.mcp_config,
        )
    )
    PROJECT_FOLDER.set(settings.project)
    return settings
