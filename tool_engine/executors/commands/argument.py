"""How does `entry.argv` become a program's arguments, each value at most one argument?

The template is read once per tool. An element is a text with `{param}`, a list that is spread
(`{files...}`, `--file={files...}`) or a flag (`{verbose?--verbose}`). Nothing is ever split or
joined by spaces, and no shell reads it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import ParameterPart, TemplateError, TextTemplate, value_text

MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
"""The longest argument that Linux takes (MAX_ARG_STRLEN less the NUL)."""

_NAME: Final = r"[A-Za-z_][\w-]*"
_SPREAD: Final = re.compile(rf"(?P<prefix>.*?)(?<!\{{)\{{(?P<name>{_NAME})\.\.\.\}}", re.DOTALL)
_FLAG: Final = re.compile(rf"\{{(?P<name>{_NAME})\?(?P<text>[^{{}}]+)\}}")
_STRAY: Final = re.compile(rf"(?<!\{{)\{{{_NAME}(?:\.\.\.|\?[^{{}}]*)\}}")


class PlainArgument(msgspec.Struct, frozen=True):
    template: TextTemplate
    may_be_option: bool
    """True if a value at its start may begin with a dash."""

    @property
    def parameters(self) -> set[str]:
        return self.template.parameters

    @property
    def prefix(self) -> str:
        first = self.template.parts[0] if self.template.parts else ""
        return first if isinstance(first, str) else ""

    @property
    def leading(self) -> list[str]:
        names: list[str] = []
        for part in self.template.parts:
            if not isinstance(part, ParameterPart):
                break
            names.append(part.name)
        return names

    def render(self, params: Mapping[str, Any]) -> list[str]:
        text = self.template.render(params, _NO_SECRETS)
        if text is None:
            return []
        if self.leading and not self.may_be_option:
            _check_no_option(self.leading[0], text)
        return [_check_text(text, self.template.parameters)]


class Spread(msgspec.Struct, frozen=True):
    """One argument for each item of a list, with a common prefix."""

    prefix: str
    name: str
    may_be_option: bool

    @property
    def parameters(self) -> set[str]:
        return {self.name}

    def render(self, params: Mapping[str, Any]) -> list[str]:
        items = params.get(self.name)
        if items is None:
            return []
        if not isinstance(items, list):
            raise ToolExecutionError(
                f"parameter {self.name!r} must be a list, got {type(items).__name__}"
            )
        arguments = []
        for number, item in enumerate(items):
            place = f"{self.name}[{number}]"
            text = self.prefix + value_text(place, item)
            if not self.prefix and not self.may_be_option:
                _check_no_option(place, text)
            arguments.append(_check_text(text, {place}))
        return arguments


class Flag(msgspec.Struct, frozen=True):
    """A literal argument that is present when a boolean parameter is true."""

    name: str
    text: str

    @property
    def parameters(self) -> set[str]:
        return {self.name}

    def render(self, params: Mapping[str, Any]) -> list[str]:
        return [self.text] if params.get(self.name) is True else []


Argument = PlainArgument | Spread | Flag

_NO_SECRETS: Final = SecretScope()


def parse_argument(text: str, *, is_operand: bool, may_be_option: Collection[str]) -> Argument:
    """Read one element of `argv`; raise `TemplateError` if it is none.

    `is_operand` means that an element `--` stands before it; the values of the parameters in
    `may_be_option` may begin with a dash.
    """
    if "\0" in text:
        raise TemplateError("holds a NUL character, which no argument can hold; remove it")
    if (flag := _FLAG.fullmatch(text)) is not None:
        return Flag(flag["name"], flag["text"])
    if (spread := _SPREAD.fullmatch(text)) is not None:
        prefix = TextTemplate.parse(spread["prefix"])
        if not all(isinstance(part, str) for part in prefix.parts):
            raise TemplateError(
                f"has a placeholder before {{{spread['name']}...}}; only a plain text may stand "
                "before a list that is spread"
            )
        return Spread(
            "".join(map(str, prefix.parts)),
            spread["name"],
            is_operand or spread["name"] in may_be_option,
        )
    if (stray := _STRAY.search(text)) is not None:
        form = "end the element" if "..." in stray.group() else "be the whole element"
        raise TemplateError(f"{stray.group()!r} must {form}")
    return _make_plain(TextTemplate.parse(text), is_operand, may_be_option)


def _make_plain(
    template: TextTemplate, is_operand: bool, may_be_option: Collection[str]
) -> PlainArgument:
    if template.has_secret:
        raise TemplateError(
            "has an ${env:NAME}; every user of the machine can see a command's arguments: pass it "
            "in entry.config.env"
        )
    argument = PlainArgument(template, may_be_option=False)
    is_allowed = is_operand or all(name in may_be_option for name in argument.leading)
    return PlainArgument(template, may_be_option=is_allowed)


def _check_no_option(place: str, text: str) -> None:
    if text.startswith("-"):
        raise ToolExecutionError(
            f"parameter {place!r} begins with '-' and would be taken for an option: "
            f"{_shorten_text(text)}; give a value that does not begin with a dash (./-x for a "
            "file -x)"
        )


def _shorten_text(text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text[:40])
    return f"'{shown}{'…' if len(text) > len(shown) else ''}'"


def _check_text(text: str, places: Collection[str]) -> str:
    where = " and ".join(repr(place) for place in sorted(places)) or "argv"
    if "\0" in text:
        raise ToolExecutionError(
            f"parameter {where} holds a NUL character, which no argument can hold; leave it out"
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ToolExecutionError(
            f"parameter {where} is not valid Unicode: it holds half of a surrogate pair"
        ) from None
    if size > MAX_ARGUMENT_BYTES:
        raise ToolExecutionError(
            f"parameter {where} makes an argument of {size} bytes; the most is {MAX_ARGUMENT_BYTES}"
        )
    return text


def literal_text(argument: Argument) -> str | None:
    if isinstance(argument, PlainArgument) and not argument.parameters:
        return "".join(map(str, argument.template.parts))
    return None


def command_line(arguments: Sequence[Argument], params: Mapping[str, Any]) -> list[str]:
    return [text for argument in arguments for text in argument.render(params)]
