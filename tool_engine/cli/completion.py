"""Which words does the shell offer behind `show`, `call` and `--strategy`?

Completion answers while a person waits for the key to come back, so it reads the `name:` lines
of the files, and loads the one file whose parameters are asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from tool_engine.cli.settings import DEFAULT_TOOLS

if TYPE_CHECKING:
    from tool_engine.model.parameter import ToolParameter
    from tool_engine.model.tool import Tool

_NAME: Final = re.compile(rb"""^name:[ \t]*["']?([^\s"'#]+)""", re.MULTILINE)
_MAX_FILES: Final = 2_000
_MAX_BYTES: Final = 65_536
WORDS: Final = {
    "cluster": ("status",),
    "fleet": ("status", "check"),
    "history": ("show",),
    "mcp": ("serve", "install", "list", "call", "diff", "import"),
    "schema": ("tool", "settings", "catalog"),
    "sessions": (
        *("list", "show", "delete", "pending", "approve", "refuse", "decisions", "revoke"),
    ),
    "task": ("start", "list", "show", "wait", "cancel"),
    "token": ("new", "list", "revoke"),
}
"""The words that a command takes first, which are commands to a reader."""


def complete_word(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the first words of a command; behind them, what a word is about."""
    given = [str(each) for each in ctx.params.get("words") or ()]
    known: Iterable[str] = () if given else WORDS.get(str(ctx.info_name), ())
    if given == ["start"]:
        known = tool_names(find_folder(ctx))
    return [word for word in known if word.startswith(incomplete)]


def complete_client(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the clients of which `mcp install` knows the settings."""
    # By name: the rooms of commands import this one.
    clients = import_module("tool_engine.cli.mcp.install_word").CLIENTS
    is_first = ctx.params.get("word") == "install" and not ctx.params.get("words")
    return [name for name in clients if is_first and name.startswith(incomplete)]


def complete_format(incomplete: str) -> list[str]:
    formats = import_module("tool_engine.cli.files.report_formats").FORMATS
    return [name for name in formats if name.startswith(incomplete)]


def complete_export_format(incomplete: str) -> list[str]:
    from tool_engine.knowledge.export import EXPORT_FORMATS

    return [name for name in EXPORT_FORMATS if name.startswith(incomplete)]


def complete_error_type(incomplete: str) -> list[str]:
    from tool_engine.model.outcome import ErrorType

    return [each.value for each in ErrorType if each.value.startswith(incomplete)]


def complete_strategy(incomplete: str) -> list[str]:
    from tool_engine.config import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


def complete_kind(incomplete: str) -> list[str]:
    from tool_engine.catalog.definition.starter import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def complete_tool(ctx: typer.Context, incomplete: str) -> list[str]:
    return [name for name in tool_names(find_folder(ctx)) if name.startswith(incomplete)]


def complete_argument(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `key=` of the parameters that are not given yet, and `key=value` of their choices."""
    said, choices = _read_line(ctx)
    # For bash, an equals sign is a word of its own, which typer leaves out where it is the last.
    before = [word for word in said[-2:] if word != "="]
    name = before[-1].removeprefix("--") if before else ""
    if name in choices and said[-1] in (before[-1], "="):
        return [value for value in choices[name] if value.startswith(incomplete)]
    key, equals, text = incomplete.partition("=")
    if equals:
        return [f"{key}={each}" for each in choices.get(key, []) if each.startswith(text)]
    return [f"{name}=" for name in _list_free(said, choices) if name.startswith(incomplete)]


def complete_argument_option(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `--key` of the parameters that are not given yet."""
    said, choices = _read_line(ctx)
    options = (f"--{name}" for name in _list_free(said, choices))
    return [each for each in options if each.startswith(incomplete)]


def _read_line(ctx: typer.Context) -> tuple[list[str], dict[str, list[str]]]:
    """Return the words behind the name of a tool, and its parameters with their choices."""
    said = [str(word) for word in ctx.params.get("words") or ()]
    tool = load_tool(find_folder(ctx), str(ctx.params.get("name")))
    parameters = () if tool is None else tool.parameters
    return said, {each.name: _list_choices(each) for each in parameters}


def _list_free(said: list[str], names: Iterable[str]) -> list[str]:
    """Return the parameters that are not given yet."""
    given = {re.split(r":?=", word.removeprefix("--"))[0] for word in said}
    return [name for name in names if name not in given]


def find_folder(ctx: typer.Context) -> Path:
    """Return the folder of tools that a command line names, or its project."""
    chosen = ctx.params.get("tools") or ctx.find_root().params.get("tools")
    named = chosen or os.environ.get("TOOL_ENGINE_TOOLS")
    if not named:
        from tool_engine.cli.settings_file import tools_of_project

        named = tools_of_project()
    return Path(named or DEFAULT_TOOLS)


def load_tool(folder: Path, name: str) -> Tool | None:
    """Return a tool of a folder; None: there is none, or it does not load."""
    from tool_engine.catalog.loader import ToolConfigLoader
    from tool_engine.errors import DefinitionError

    for path in _list_files(folder):
        if name in names_in(path):
            try:
                tools = ToolConfigLoader().load_file_tools(str(path))
            except DefinitionError:
                return None
            return next((tool for tool in tools if tool.name == name), None)
    return None


def _list_choices(parameter: ToolParameter) -> list[str]:
    if parameter.type == "boolean":
        return ["true", "false"]
    return [str(each) for each in parameter.validation.get("enum") or ()]


def tool_names(directory: Path) -> list[str]:
    """Return the sorted names in a folder's files; none if unreadable."""
    return sorted({name for path in _list_files(directory) for name in names_in(path)})


def _list_files(directory: Path) -> list[Path]:
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        return []
    return files[:_MAX_FILES]


def names_in(path: Path) -> list[str]:
    """Return the names in a file's `name:` lines; none if unreadable."""
    try:
        # A pipe or a device that is named like a tool file would never answer.
        if not path.is_file():
            return []
        with path.open("rb") as stream:
            found = _NAME.findall(stream.read(_MAX_BYTES))
    except OSError:
        return []
    return [name.decode("utf-8", "replace") for name in found]
