"""Which commands are there, and what is each for?

Every command is one line here, and a module of its own with its words and what it does, which is
imported only when the command is used, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from tool_engine.cli.options import EXIT_CODES

MARKUP: Final = "rich"
"""How help texts are written."""
_PANELS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Write tools": {
        "init": (
            "project",
            "Begin a project: a tool, its settings, pre-commit hooks and checks for CI.",
        ),
        "new": (
            "files",
            "Write a tool file to begin with: commented, valid, with an example and a test.",
        ),
        "validate": (
            "files",
            "Check tool files and print every error with its file, line, column and cure.",
        ),
        "lint": (
            "files",
            "Find what makes tool files that load still bad for a model, with the cure.",
        ),
        "test": (
            "files",
            "Run the examples and tests in tool files, offline, and try out their parameters.",
        ),
        "diff": (
            "files",
            "Show how tools differ, and exit with 1 when an edit breaks callers unannounced.",
        ),
        "lock": (
            "files",
            "Approve tools, groups and servers as they are, for engines with `lock: enforce`.",
        ),
        "schema": (
            "files",
            "Print the JSON Schema of a tool file, for editors that check while you type.",
        ),
        "watch": ("files", "Watch the tools folder and show what changes, until Ctrl-C."),
    },
    "Call them": {
        "list": ("files", "List the tools."),
        "show": (
            "files",
            "Show one tool: its parameters, how it runs, its limits, and how to call it.",
        ),
        "search": (
            "files",
            "Find the tools that fit some words best, as a model finds them with search_tools.",
        ),
        "call": ("calls", "Call one tool."),
        "batch": (
            "calls",
            'Run many calls, each {"tool": NAME, "params": {...}} or a list of NAME and params.',
        ),
        "task": (
            "background",
            "Start calls that outlive this command, and see what became of them.",
        ),
        "simulate": (
            "calls",
            "Replay recorded calls under other limits, or propose limits: waits, refusals, use.",
        ),
    },
    "Give them to models and programs": {
        "chat": ("chat", "Talk with a model that uses the tools."),
        "serve": ("serving", "Serve the tools over HTTP, to any language."),
        "token": ("serving", "Make, list and revoke the tokens of those who may use a server."),
        "mcp": (
            "mcp",
            "Serve the tools to clients of the Model Context Protocol, or use servers of it.",
        ),
        "prompt": (
            "formats",
            "Print what a model reads of the tools: a text for its prompt, or JSON for a request.",
        ),
        "parse": (
            "formats",
            "Show what a protocol reads in a reply; exit with 1 when a call of it cannot be run.",
        ),
        "convert": (
            "formats",
            "Show one tool in every format, with what each format cannot say of it.",
        ),
    },
    "Look back": {
        "history": (
            "records",
            "Show the calls that were made, the newest last, or the whole story of one of them.",
        ),
        "stats": (
            "records",
            "Show what the calls add up to, per tool and bucket: errors, waits, times.",
        ),
        "events": (
            "records",
            "Show what happened in engines of other processes: the events that they keep there.",
        ),
        "sessions": (
            "chat",
            "List the kept conversations, look at one, and answer what one of them waits for.",
        ),
        "fleet": ("serving", "Show the machines that tools run on, and which tools they can hold."),
        "cluster": ("serving", "Show which processes share limits, what each has, and who waits."),
        "export": ("records", "Write records for other programs, the oldest first."),
        "prune": ("records", "Remove old records, and old sessions."),
    },
    "Look around": {
        "demo": (
            "demo",
            "See the engine at work in ten seconds, offline, on a copy of the tool files.",
        ),
        "config": (
            "project",
            "Show the settings that hold here, and who says each: an option, a variable, a file.",
        ),
    },
}
"""Each command's room and the first words of its help, in the parts and the order of the help.

Its words and what it does are in `ROOM/NAME_command.py`, which is imported when it is used.
"""
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    name: command for panel in _PANELS.values() for name, command in panel.items()
}
"""All commands, by name."""
_SETTINGS: Final = {"call": {"ignore_unknown_options": True}}
"""`call` knows which options are parameters of its tool, and refuses the others itself."""


_OF_OTHER_HELPS: Final = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
"""What typer's help imports for programs that write it otherwise: a third of its instructions."""


def import_help() -> None:
    """Import typer's help, without what only the help of other programs uses."""
    absent = _OF_OTHER_HELPS.keys() - sys.modules.keys()
    for name in absent:
        kind = _OF_OTHER_HELPS[name]
        sys.modules[name] = module = ModuleType(name)
        setattr(module, kind, type(kind, (), {}))
    try:
        import_module("typer.rich_utils")
    finally:
        for name in absent:
            del sys.modules[name]


def hide_type_of_switches(params: list[Any]) -> list[Any]:
    """Return options of which those without a value show none: `--json <bool>` takes nothing."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class LoadedCommand(TyperCommand):
    """A command with its options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        import_help()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, `--help` among them."""
        return hide_type_of_switches(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words behind the command's name."""
        from tool_engine.cli.usage import check_values

        if not ctx.resilient_parsing:  # what a shell completes has no value yet
            check_values(self.get_params(ctx), args)
            if self.name == "call":
                self._help_with_tool(ctx, args)
        return list(super().parse_args(ctx, args))

    def _help_with_tool(self, ctx: Any, args: list[str]) -> None:
        """Print the parameters of the tool that `call NAME --help` names, and end."""
        given = self.make_parser(ctx).parse_args(list(args))[0]
        if given.get("help") and isinstance(name := given.get("name"), str):
            # By name: it is loaded when it is asked for.
            module = import_module("tool_engine.cli.tool_help")
            if module.show_tool_help(ctx, name, given.get("tools")):
                raise typer.Exit

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the options that begin so; of `call`, the parameters of its tool before them."""
        found = super().shell_complete(ctx, incomplete)
        if self.name != "call":
            return found
        from tool_engine.cli.completion import complete_argument_option

        item = import_module("typer.core").CompletionItem
        return [*map(item, complete_argument_option(ctx, incomplete)), *found]


class NamedCommand(TyperCommand):
    """A command in the list of all; its module is imported when it is used."""

    def __init__(self, name: str) -> None:
        self._room, words = COMMANDS[name]
        panel = next(title for title, commands in _PANELS.items() if name in commands)
        super().__init__(name, help=words, rich_help_panel=panel)

    def load(self) -> Any:
        """Return the command with its options and all of its help."""
        module = import_module(f"tool_engine.cli.{self._room}.{self.name}_command")
        alone = typer.Typer(
            add_completion=False, rich_markup_mode=MARKUP, pretty_exceptions_enable=False
        )
        settings = _SETTINGS.get(self.name or "")
        made = alone.command(
            self.name, cls=LoadedCommand, epilog=EXIT_CODES, context_settings=settings
        )
        made(module.run_command)
        return typer.main.get_command(alone)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return the context of the loaded command, which runs, helps and completes."""
        return self.load().make_context(*args, **extra)


class CommandList(TyperGroup):
    """All commands, none of which is loaded."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": {name: NamedCommand(name) for name in COMMANDS}})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        import_help()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the program."""
        return hide_type_of_switches(super().get_params(ctx))
