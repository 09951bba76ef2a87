"""What does a definition's `entry` say about its command, and is it right?

`check_entry` finds every mistake before the first call; `compile_entry` makes the executor's plan.
Nothing here starts a program.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tool_engine.executors.commands.argument import (
    Argument,
    Flag,
    PlainArgument,
    Spread,
    literal_text,
    parse_argument,
)
from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.fleet_entry import FLEET_KEYS, RAY, FleetEntry, read_fleet
from tool_engine.executors.templates import TemplateError, TextTemplate, find_foreign_forms
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.parameter import ToolParameter
from tool_engine.redaction import describe_unfit, describe_value

DEFAULT_MAX_OUTPUT: Final = 64 * 1024
"""The most bytes that are kept of stdout and of stderr."""

_MAX_OUTPUT_LIMIT: Final = 16 * 1024 * 1024
_ENTRY_KEYS: Final = ("type", "handler", "argv", "cwd", "config")
_OWN_KEYS: Final = ("env", "inherit", "ok_exit_codes", "max_output", "may_be_option")
_FLEET_KEYS: Final = tuple(key for key in FLEET_KEYS if key != "batch")
"""A program is no call among many: none waits for others."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class CommandPlan(msgspec.Struct, frozen=True):
    program: str
    """A bare name or an absolute path."""
    arguments: tuple[Argument, ...]
    cwd: str | None
    """None: the engine's working folder."""
    env: tuple[tuple[str, TextTemplate], ...]
    inherit: tuple[str, ...]
    """Environment variables that are passed on unchanged."""
    ok_exit_codes: frozenset[int]
    max_output: int
    fleet: FleetEntry | None = None
    """What it needs of a fleet; None: it runs on this machine."""


class _Reader(EntryReader[CommandPlan]):
    def read(self) -> CommandPlan:
        entry = self.tool.implementation_config
        self.keys(entry, _ENTRY_KEYS, "entry")
        config = self.config((*_OWN_KEYS, "isolation", *_FLEET_KEYS))
        program, arguments = self._read_argv(entry.get("argv"), self._may_be_option(config))
        return CommandPlan(
            program=program,
            arguments=arguments,
            cwd=self._read_cwd(entry.get("cwd")),
            env=self._read_env(config.get("env", {})),
            inherit=self._read_inherit(config.get("inherit", [])),
            ok_exit_codes=self._ok_exit_codes(config.get("ok_exit_codes", [0])),
            max_output=self._max_output(config.get("max_output", DEFAULT_MAX_OUTPUT)),
            fleet=self._read_fleet(config),
        )

    def _read_fleet(self, config: Mapping[str, Any]) -> FleetEntry | None:
        isolation = config.get("isolation", "none")
        if isolation == RAY:
            fleet = read_fleet(config, self.problem, self.keys)
            return None if fleet is None else replace(fleet, is_alone=True)
        if isolation != "none":
            self.problem(
                "entry.config.isolation",
                f"must be one of none, {RAY}; a program has a process of its own anyway; got "
                f"{isolation!r}",
            )
        for key in config:
            if key in _FLEET_KEYS:
                self.problem(
                    f"entry.config.{key}",
                    f"is for programs that run on a fleet; add isolation: {RAY}, or remove it",
                )
        return None

    def _read_argv(
        self, argv: Any, may_be_option: Collection[str]
    ) -> tuple[str, tuple[Argument, ...]]:
        if not isinstance(argv, list) or not argv or not all(map(_is_text, argv)):
            example = '[git, log, "--max-count={count}", "--", "{path}"]'
            got = "an empty list" if argv == [] else describe_unfit(argv, _is_text)
            self.problem("entry.argv", f"must be a list of texts such as {example}, got {got}")
            return "", ()
        program = self._find_program(argv[0])
        arguments: list[Argument] = []
        has_dashes = False
        for number, text in enumerate(argv[1:], start=1):
            path = f"entry.argv[{number}]"
            try:
                argument = parse_argument(text, is_operand=has_dashes, may_be_option=may_be_option)
            except TemplateError as error:
                self.problem(path, str(error))
                continue
            self._check_argument(argument, path, arguments, has_dashes)
            arguments.append(argument)
            has_dashes = has_dashes or literal_text(argument) == "--"
        self._check_scripts(argv)
        self._check_unused(argv, arguments)
        return program, tuple(arguments)

    def _find_program(self, text: str) -> str:
        path = "entry.argv[0]"
        if not text or "\0" in text or _has_placeholder(text):
            self.problem(
                path,
                f"names the program, as a plain text without placeholder; "
                f"got {describe_value(text)}",
            )
        elif "/" in text and not text.startswith("/"):
            self.problem(
                path,
                f"{text!r} depends on the folder that the engine runs in; write an absolute path, "
                "or a bare name that is looked up in the system's folders",
            )
        return text

    def _check_argument(
        self, argument: Argument, path: str, before: list[Argument], has_dashes: bool
    ) -> None:
        for name in sorted(argument.parameters):
            self._check_type(argument, name, path)
        if isinstance(argument, Flag):
            return
        if not has_dashes:
            self._check_option_name(argument, path)
        if isinstance(argument, PlainArgument):
            self._check_optional(argument, path, before, has_dashes)

    def _check_type(self, argument: Argument, name: str, path: str) -> None:
        parameter = self.parameters.get(name)
        if parameter is None:
            hint = suggest_near(name, self.parameters) or "; declare it under parameters"
            self.problem(path, f"takes the parameter {name!r}, which is not declared{hint}")
        elif isinstance(argument, Flag):
            if parameter.type != "boolean":
                self.problem(
                    path, f"{{{name}?…}} needs a boolean; {name!r} is of type {parameter.type}"
                )
        elif isinstance(argument, Spread):
            if parameter.type not in ("array", "any"):
                self.problem(
                    path,
                    f"{{{name}...}} spreads a list; {name!r} is of type {parameter.type}: write "
                    f"{{{name}}}",
                )
        elif parameter.type == "array":
            self.problem(
                path,
                f"takes the list {name!r}; write {{{name}...}} to make each item an argument",
            )
        elif parameter.type == "object":
            self.problem(path, f"takes the object {name!r}; an argument is one text or number")

    def _check_option_name(self, argument: PlainArgument | Spread, path: str) -> None:
        """Refuse a parameter in an option's name; its value may hold one."""
        prefix = argument.prefix
        if not argument.parameters or not prefix.startswith("-"):
            return
        is_inside = prefix == "-" or (prefix.startswith("--") and "=" not in prefix)
        if is_inside and not all(self._is_chosen(name) for name in argument.parameters):
            name = min(argument.parameters)
            self.problem(
                path,
                f"the parameter {name!r} would be part of an option's name; write "
                f"--name={{{name}}}, or list the options in the parameter's enum",
            )

    def _check_optional(
        self, argument: PlainArgument, path: str, before: list[Argument], has_dashes: bool
    ) -> None:
        """Refuse an omitted value whose option would take the next argument."""
        option = literal_text(before[-1]) if before else None
        if has_dashes or not argument.leading or option is None or not option.startswith("-"):
            return
        for name in sorted(argument.parameters):
            parameter = self.parameters.get(name)
            if parameter is not None and _may_be_missing(parameter):
                joined = (
                    f"{option}={{{name}}}" if option.startswith("--") else f"{option}{{{name}}}"
                )
                self.problem(
                    path,
                    f"a call may leave {name!r} out, and {option!r} would take the next argument "
                    f'for its value; write "{joined}" as one element, make {name!r} required or '
                    "give it a default",
                )

    def _check_scripts(self, argv: list[str]) -> None:
        """Refuse a parameter inside a script, because quoting cannot make it safe."""
        for program, number in script_places(argv):
            if _has_placeholder(argv[number]):
                self.problem(
                    f"entry.argv[{number}]",
                    f"a parameter in a script for {program} would be run as code; pass it as an "
                    'argument of its own: [sh, -c, \'ls -- "$1"\', sh, "{path}"]',
                )

    def _check_unused(self, argv: list[str], arguments: list[Argument]) -> None:
        used = {name for argument in arguments for name in argument.parameters}
        forms = {} if used.issuperset(self.parameters) else find_foreign_forms(argv)
        for name in self.parameters:
            # After a mistake in an element, it is unknown which parameters it would use.
            if name not in used and len(arguments) == len(argv) - 1:
                where = f"in place of {forms[name]}" if name in forms else "somewhere"
                self.problem(
                    "entry.argv",
                    f"never uses the parameter {name!r}; pass it {where} as {{{name}}}, or "
                    "remove it",
                )

    def _is_chosen(self, name: str) -> bool:
        parameter = self.parameters.get(name)
        return parameter is not None and _has_enum(parameter)

    def _may_be_option(self, config: Mapping[str, Any]) -> set[str]:
        names = config.get("may_be_option", [])
        path = "entry.config.may_be_option"
        chosen = {name for name in self.parameters if self._is_chosen(name)}
        for number, name in self._list_texts(names, path, "names of parameters"):
            if name not in self.parameters:
                hint = suggest_near(name, self.parameters)
                self.problem(f"{path}[{number}]", f"there is no parameter {name!r}{hint}")
            chosen.add(name)
        return chosen

    def _read_cwd(self, cwd: Any) -> str | None:
        if cwd is None:
            return None
        if not isinstance(cwd, str) or not cwd or "\0" in cwd or _has_placeholder(cwd):
            # A program trusts its working folder: git, for one, runs what is configured there.
            self.problem(
                "entry.cwd",
                f"must be the path of a folder, without placeholder; got {describe_value(cwd)}",
            )
            return None
        return cwd

    def _read_env(self, env: Any) -> tuple[tuple[str, TextTemplate], ...]:
        if not isinstance(env, Mapping):
            self.problem("entry.config.env", f"must map names to texts, got {describe_value(env)}")
            return ()
        entries = []
        for name, text in env.items():
            path = f"entry.config.env.{name}"
            self._check_variable(name, path)
            if not isinstance(text, str) or "\0" in text:
                is_scalar = isinstance(text, int | float)
                cure = f"; write {str(text)!r} in quotes" if is_scalar else ""
                self.problem(path, f"must be a text, got {describe_value(text)}{cure}")
                continue
            try:
                template = TextTemplate.parse(text)
            except TemplateError as error:
                self.problem(path, str(error))
                continue
            if template.parameters:
                self.problem(path, "a parameter cannot be put here; pass it in entry.argv")
            entries.append((str(name), template))
        return tuple(entries)

    def _read_inherit(self, names: Any) -> tuple[str, ...]:
        path = "entry.config.inherit"
        found = list(self._list_texts(names, path, "names of environment variables"))
        for number, name in found:
            self._check_variable(name, f"{path}[{number}]")
        return tuple(name for _, name in found)

    def _check_variable(self, name: Any, path: str) -> None:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            self.problem(path, f"{name!r} is not the name of an environment variable")

    def _list_texts(self, value: Any, path: str, what: str) -> Iterator[tuple[int, str]]:
        if isinstance(value, list) and all(map(_is_text, value)):
            yield from enumerate(value)
        else:
            self.problem(path, f"must be a list of {what}, got {describe_unfit(value, _is_text)}")

    def _ok_exit_codes(self, codes: Any) -> frozenset[int]:
        if isinstance(codes, list) and codes and all(map(_is_exit_code, codes)):
            return frozenset(codes)
        got = "an empty list" if codes == [] else describe_unfit(codes, _is_exit_code)
        self.problem(
            "entry.config.ok_exit_codes",
            f"must be a list of whole numbers from 0 to 255 such as [0, 1], got {got}",
        )
        return frozenset()

    def _max_output(self, value: Any) -> int:
        if type(value) is int and 0 < value <= _MAX_OUTPUT_LIMIT:
            return value
        self.problem(
            "entry.config.max_output",
            f"must be a whole number of bytes between 1 and {_MAX_OUTPUT_LIMIT}, "
            f"got {describe_value(value)}",
        )
        return DEFAULT_MAX_OUTPUT


check_entry = _Reader.check
compile_entry = _Reader.compile


def _has_placeholder(text: str) -> bool:
    try:
        argument = parse_argument(text, is_operand=False, may_be_option=())
    except TemplateError:
        return True
    return literal_text(argument) is None


def _has_enum(parameter: ToolParameter) -> bool:
    return bool(parameter.validation.get("enum") or (parameter.schema or {}).get("enum"))


def _may_be_missing(parameter: ToolParameter) -> bool:
    return parameter.type == "any" or not (parameter.required or parameter.default is not None)


_SHELL_OPTION: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_C_OPTION: Final = re.compile(r"-[A-Za-z]*c")
_E_OPTION: Final = re.compile(r"-(?![MI])[A-Za-z0-9]*[eE]")
_SCRIPT_OPTIONS: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(
        ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "su"),
        _SHELL_OPTION,
    ),
    "watch": re.compile(r"(?!)"),
    **dict.fromkeys(("python", "pypy"), _C_OPTION),
    **dict.fromkeys(("perl", "ruby", "lua", "Rscript"), _E_OPTION),
    **dict.fromkeys(("node", "nodejs", "deno", "bun"), re.compile(r"-e|-p|--eval|--print")),
    "php": re.compile(r"-r"),
    **dict.fromkeys(("sed", "gsed"), re.compile(r"-[A-Za-z]*e|--expression")),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), re.compile(r"-e|--source")),
}
"""How the option for a script begins; the script may be joined to it."""
_SCRIPT_IS_OPERAND: Final = frozenset({"sed", "gsed", "awk", "gawk", "mawk", "nawk", "watch"})
"""Programs whose first operand is a script."""
_TAKES_VALUE: Final = re.compile(r"[-+][A-Za-z]*[oOWX]|-[vF]|--rcfile|--init-file")
"""Other options whose value is the next argument, as in `bash -o pipefail -c ...`."""
_VERSION: Final = re.compile(r"[\d.]+$")


# This finds an author's slip when a definition is loaded. It is no protection from a malicious
# definition: definitions are trusted.
def script_places(argv: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each script or its container in `argv`: the program and the index.

    A program may stand behind another, as in `env FOO=1 sh -c ...`.
    """
    for number, word in enumerate(argv):
        name = _VERSION.sub("", word.rpartition("/")[2])
        option = _SCRIPT_OPTIONS.get(name)
        if option is not None:
            for place in _find_scripts(name, option, argv, number + 1):
                yield name, place


def _find_scripts(
    name: str, option: re.Pattern[str], argv: Sequence[str], start: int
) -> Iterator[int]:
    number = start
    while number < len(argv):
        word = argv[number]
        if option.fullmatch(word):
            yield from range(number + 1, min(number + 2, len(argv)))
            return
        if option.match(word):
            yield number  # joined to its option
        if not word.startswith(("-", "+")):
            if name in _SCRIPT_IS_OPERAND:
                yield number
            return
        number += 2 if _TAKES_VALUE.fullmatch(word) else 1


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_exit_code(value: object) -> bool:
    return type(value) is int and 0 <= value <= 255
