"""What is wrong with a command line, and which words are right in its place?

typer says what it did not understand; here each of its messages gets the words to write instead.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import typer

from tool_engine.cli.completion import WORDS, find_folder, load_tool, tool_names
from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.settings import DEFAULT_TOOLS, VARIABLES
from tool_engine.model.checks.nearness import find_nearest, suggest_near

_NO_COMMAND: Final = re.compile(r"No such command '([^']*)'")
_EXTRA: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)|.*\((.*)\)", re.DOTALL)
_EXAMPLE: Final = re.compile(r"Example: (.+?)(?:\n\n|\Z)", re.DOTALL)
_MEANT: Final = {
    **dict.fromkeys(("run", "exec", "execute", "invoke"), "call"),
    **dict.fromkeys(("ls", "tools"), "list"),
    **dict.fromkeys(("check", "verify"), "validate"),
    **dict.fromkeys(("create", "add", "generate"), "new"),
    **dict.fromkeys(("describe", "info", "inspect"), "show"),
    **dict.fromkeys(("find", "grep"), "search"),
    **dict.fromkeys(("log", "logs", "records", "calls"), "history"),
    **dict.fromkeys(("replay", "tune"), "simulate"),
    **dict.fromkeys(("approvals", "approve", "pending"), "sessions"),
    **dict.fromkeys(("start", "server", "http"), "serve"),
    **dict.fromkeys(("settings", "env"), "config"),
    "completion": "--install-completion",
    "help": "--help",
    "version": "--version",
}
"""Words of other programs for the commands of this one."""
_MEANT_WHOLE: Final = {
    "explain": "why a call waits is shown by `tool-engine serve --studio`, and said in a program "
    "by engine.controller.explain(call_id); `tool-engine show NAME` explains a tool",
    "studio": "write `tool-engine serve --studio`",
    "metrics": "write `tool-engine stats`, or read /metrics of `tool-engine serve`",
}
"""Words of these pages for what no single command is -> where it is."""
_MEANT_STEPS: Final = {
    **dict.fromkeys(("status", "get", "info", "result"), "show"),
    **dict.fromkeys(("stop", "kill", "abort"), "cancel"),
    **dict.fromkeys(("run", "begin", "new"), "start"),
    **dict.fromkeys(("reject", "deny", "no"), "refuse"),
    **dict.fromkeys(("accept", "allow", "yes"), "approve"),
    **dict.fromkeys(("rm", "remove"), "delete"),
    **dict.fromkeys(("setup", "config"), "install"),
    **dict.fromkeys(("ls", "tasks", "servers"), "list"),
}
"""The same for the words behind `task`, `sessions` and `mcp`."""
_MEANT_OPTIONS: Final = {
    **dict.fromkeys(("status", "state", "errors", "failures"), "--failed"),
    **dict.fromkeys(("count", "last", "max", "number", "tail", "top"), "--limit"),
    **dict.fromkeys(("after", "from", "start"), "--since"),
    **dict.fromkeys(("out", "file", "to"), "--output"),
}
"""Words of other programs for an option, where a command has it."""
_WORDS_OF_ARGUMENTS: Final = {
    "NAME": ("name", "tool"),
    "ARGUMENT": ("client",),
    "MESSAGE": ("message", "prompt", "text"),
    "WORD": ("query", "text", "words"),
    "DIR": ("dir", "folder", "path"),
}
"""An argument -> the options for which it is taken."""
_SECRETS: Final = ("api-key", "api_key", "apikey")
_MOST_LISTED: Final = 16
"""Options that a message lists."""
_OF_TOOLS: Final = ("call", "show", "convert")
"""The commands whose NAME is that of a tool."""
_REMOVING: Final = ("prune",)
_OPTION: Final = re.compile("--[a-z][a-z0-9-]*")
_NUMBER: Final = re.compile(
    r"Input should be (a valid integer|a valid number|greater than or equal to|less than or equal"
    r" to)(?:, .*| finite.*)?((?: -?[\d.]+)?)$"
)
_NUMBERS: Final = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "greater than or equal to": "no less than",
    "less than or equal to": "no more than",
}
"""What typer says of a value that is no number, or out of bounds, in words of this program."""


def usage_text(error: typer.TyperException, context: Any, words: Sequence[str] = ()) -> str:
    """Return what is wrong with a command line, with its cure.

    `context` is typer's context of the command; None: there is none, as for an empty line. `words`
    are the whole line.
    """
    message = error.format_message()
    if type(error).__name__ == "BadOptionUsage":
        return _explain_use(error)
    if context is None or not message:
        return message
    if (found := _NO_COMMAND.match(message)) is not None:
        commands = context.command.list_commands(context)
        return f"there is no command {found[1]!r}{_suggest_command(found[1], commands)}"
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _explain_option(error, context, words)
    explain = _EXPLAINED.get(kind)
    return message if explain is None else explain(error, context)


def _suggest_command(name: str, commands: Iterable[str]) -> str:
    if whole := _MEANT_WHOLE.get(name.lower()):
        return f"; {whole}"
    meant = _MEANT.get(name.lower())
    if meant is None and (word := _name_file_command(name)):
        return f"; write `tool-engine {word}`"
    # What removes something for good is offered only where its own name was begun.
    likely = (each for each in commands if each not in _REMOVING or each[:2] == name[:2].lower())
    return f"; did you mean {meant!r}?" if meant else suggest_near(name, likely)


def _name_file_command(name: str) -> str:
    """Return the command for a tool, or for a file of tools, that stands in a command's place."""
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return f"validate {name}"
    folder = os.environ.get(VARIABLES["tools"]) or DEFAULT_TOOLS
    is_tool = name.isidentifier() and Path(folder, f"{name}.yaml").is_file()
    return f"call {name} ..." if is_tool else ""


def _explain_option(error: Any, context: Any, words: Sequence[str]) -> str:
    name: str = error.option_name
    known = [*_list_options(context.command), *context.help_option_names]
    cure = (
        _suggest_place(name, context, words)
        or _suggest_argument(name, context.command, words)
        or suggest_option(name, known)
    )
    return f"there is no option {name!r}{cure}"


def suggest_step(step: str, known: Collection[str]) -> str:
    """Return the word behind a command that was meant, or else all of them."""
    meant = _MEANT_STEPS.get(step.lower())
    return f"; did you mean {meant!r}?" if meant in known else suggest_name(step, known)


def suggest_option(name: str, known: Collection[str]) -> str:
    """Return the option that was meant, or else all of them, where they are few."""
    # Without the dashes, which are alike in all.
    names = {each.lstrip("-"): each for each in known}
    if any(name.lstrip("-").startswith(word) for word in _SECRETS):
        return "; set it in the environment, such as OPENAI_API_KEY: others see a command line"
    if (meant := _MEANT_OPTIONS.get(name.lstrip("-"))) in known:
        return f"; did you mean {meant!r}?"
    if near := find_nearest(name.lstrip("-"), names):
        return f"; did you mean {names[near]!r}?"
    listed = [each for each in known if each.startswith("--") and each != "--help"]
    return f"; there are: {', '.join(sorted(listed))}" if len(listed) <= _MOST_LISTED else ""


def _suggest_place(name: str, context: Any, words: Sequence[str]) -> str:
    """Return where an option stands that stands on the wrong side of the command."""
    root = context.find_root()
    command = context.command
    if command is not root.command:
        path = context.command_path.removeprefix(root.command_path).strip()
        is_before = name in _list_options(root.command)
        place = f"before the command: `{root.command_path} {name} ... {path}`"
        return f" of `{path}`; write it {place}" if is_before else ""
    found = next((each for each in words if each in command.commands), None)
    if found is None or name not in _list_options(command.commands[found].load()):
        return ""
    return f" before the command; write it behind: `{context.command_path} {found} {name}`"


def _suggest_argument(name: str, command: Any, words: Sequence[str]) -> str:
    """Return how an argument is given that was written as an option."""
    taken = {each.metavar or "" for each in command.params if each.param_type_name == "argument"}
    wanted = {word for each in taken for word in _WORDS_OF_ARGUMENTS.get(each.strip(".{}[]"), ())}
    if name.lstrip("-") not in wanted or name not in words[:-1]:
        return ""
    return f"; write {words[words.index(name) + 1]!r} without it"


def _list_options(command: Any) -> list[str]:
    return [each for option in command.params for each in (*option.opts, *option.secondary_opts)]


def _explain_missing(error: Any, context: Any) -> str:
    message: str = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    found = _EXAMPLE.search(context.command.help or "")
    words = WORDS.get(str(context.info_name), ()) if "'WORD'" in message else ()
    if words:
        message = f"{message}, one of {', '.join(words)}"
    example = "" if found is None else " ".join(found[1].split())
    if "'NAME'" in message and context.info_name in _OF_TOOLS:
        # A tool that is there can be typed as printed.
        example = _name_tool(context) or example
    return f"{message}; for example: {example}" if example else message


def _name_tool(context: Any) -> str:
    """Return the command for a tool of the folder; empty: none can be loaded."""
    folder = find_folder(context)
    tool = next(filter(None, (load_tool(folder, name) for name in tool_names(folder)[:3])), None)
    if tool is None:
        return ""
    words = [context.command_path, tool.name]
    if context.info_name == "call":
        # By name: the rooms of commands import this module.
        arguments = import_module("tool_engine.cli.calls.call_arguments")
        words += arguments.example_arguments(tool)
    return " ".join(words)


def _explain_use(error: Any) -> str:
    """Explain an option without its value, or a switch with one."""
    message = str(error.format_message())
    if "requires an argument" in message:
        return _say_lacking(error.option_name, "VALUE")
    if "does not take a value" in message:
        return f"the option {error.option_name!r} takes no value; write {error.option_name}"
    return message


def _say_lacking(option: str, value: str) -> str:
    return f"the option {option!r} has no value; write {option} {value}"


def check_values(options: Iterable[Any], words: Sequence[str]) -> None:
    """Refuse an option without a value, which may take the next option for it.

    Raises:
        CommandError: It says what to write.
    """
    takes = {name: each for each in options for name in each.opts if _takes_value(each)}
    for name, value in itertools.pairwise((*words, "--end")):
        if name == "--":
            return
        if name in takes and _OPTION.fullmatch(value):
            raise CommandError(_say_lacking(name, _name_value(takes[name])))


def _takes_value(option: Any) -> bool:
    return option.param_type_name == "option" and not (option.is_flag or option.count)


def _explain_value(error: Any, context: Any) -> str:
    """Explain a value of the wrong kind, or out of bounds."""
    del context
    message = str(error.format_message())
    option = error.param
    if option is None:
        return message
    name = option.opts[0]
    found = _NUMBER.search(message)
    if found is not None:
        message = f"the option {name!r} takes {_NUMBERS[found[1]]}{found[2]}"
    return f"{message}; write {name} {_name_value(option, is_number=found is not None)}"


def _explain_words(error: Any, context: Any) -> str:
    """Explain words that a command does not take."""
    message = str(error.format_message())
    found = _EXTRA.search(message)
    if found is None or "extra argument" not in message:
        return message
    words = found[1] or found[2]
    taken = [each.metavar for each in context.command.params if each.param_type_name == "argument"]
    what = f"{' '.join(taken)} and options" if taken else "options only"
    return f"`{context.command_path}` takes {what}; leave out {words!r}"


def _name_value(option: Any, *, is_number: bool = False) -> str:
    """Return a value that an option takes, or what it stands for."""
    if isinstance(option.default, int | float) and not isinstance(option.default, bool):
        return f"{option.default:g}"
    if is_number:
        return f"{max(option.min or 0, 1):g}"
    return str(option.metavar or option.name.upper())


_EXPLAINED: Final[Mapping[str, Callable[[Any, Any], str]]] = {
    "MissingParameter": _explain_missing,
    "BadParameter": _explain_value,
    "UsageError": _explain_words,
}
"""By the name of typer's class, which is not public."""
