"""How does the result of a call become text for a model?

data -> `formatted_text`: all of it, as text -> `final_text`: what fits, and how to get the rest.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data
from tool_engine.model.json.kinds import check_kinds
from tool_engine.model.json.output import shown, to_text
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.protocols.result_content import blocks_of
from tool_engine.redaction import OwnSecrets, secrets_if_known, secrets_of
from tool_engine.session.formatting import data_of, default_text, short_text
from tool_engine.session.own_code import made_text
from tool_engine.session.reading.cutting import cut_text
from tool_engine.session.reading.hints import Shortened, hints_of

DEFAULT_LIMIT: Final = 8000
"""The default limit of a result, in characters. U38."""
_LIMIT: Final = "limit"
"""The argument `limit`, which every tool takes without declaring it. U39."""
_LEAST_BODY: Final = 100
"""Characters of the result that a hint must leave room for."""
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class ReturnType(msgspec.Struct, Data, frozen=True, metaclass=KnownFields):
    """What a tool returns, described for the model. S9."""

    type: str
    """Such as `string` or `{title: string, rows: number}[]`."""
    note: str | None = None

    def __post_init__(self) -> None:
        check_kinds(self)


class Presentation(msgspec.Struct, frozen=True, kw_only=True, metaclass=KnownFields):
    """How code shows the results of one tool to models.

    The functions are plain ones and read what they are given without changing it; those of a large
    result run in a thread. Where one raises, or returns no text, the default is used and
    `Presented.findings` says so.

    Raises:
        ConfigurationError: A field has an invalid value.
    """

    format: Callable[[Any, Mapping[str, Any]], str] | None = None
    """Turns the tool's value and the arguments into the full text. S3."""
    truncate: Callable[[str, Mapping[str, Any]], str] | None = None
    """Cuts the formatted text, given the arguments, in place of the limit. S4."""
    is_whole: bool = False
    """Whether the text is never cut. S5."""
    is_kept: bool = True
    """Whether the arguments and results are kept as variables. S6."""
    limit: int | None = None
    """The most characters; 0 or -1: all; None: the session's limit. S7."""
    compress_args: Callable[[Mapping[str, Any]], str] | None = None
    """Turns the arguments into a short text for logs. S8."""
    compress_result: Callable[[ToolExecutionResult], str] | None = None
    """Turns the result into a short text for logs. S8."""
    return_type: ReturnType | None = None
    """The return type that the model sees."""

    def __post_init__(self) -> None:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, value in fields.items():
            kind, told = _KINDS[name]
            is_switch = isinstance(value, bool) and kind is int
            if value is not None and (is_switch or not isinstance(value, kind)):
                raise ConfigurationError(f"{name} of a Presentation must be {told}, got {value!r}")
        if self.limit is not None:
            check_count("limit of a Presentation", self.limit, minimum=-1)


_FUNCTION: Final = (Callable, "a function")
_SWITCH: Final = (bool, "true or false")
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "format": _FUNCTION,
    "truncate": _FUNCTION,
    "is_whole": _SWITCH,
    "is_kept": _SWITCH,
    "limit": (int, "a whole number; 0 or -1 shows all"),
    "compress_args": _FUNCTION,
    "compress_result": _FUNCTION,
    "return_type": (ReturnType, "a ReturnType"),
}


class Presented(msgspec.Struct, frozen=True):
    """A result as a model reads it. S15."""

    formatted_text: str
    """The full text."""
    final_text: str
    """The text that the model reads."""
    is_truncated: bool
    """Whether `final_text` is less than `formatted_text`."""
    findings: list[str] = []
    """Failures on the way, a sentence each; the default was used instead."""


_DEFAULT: Final = Presentation()


async def present_in_time(
    result: ToolExecutionResult,
    args: Mapping[str, Any],
    tool: Tool | None = None,
    presentation: Presentation = _DEFAULT,
    limit: int | None = None,
    *,
    variable: str | None = None,
    language: str = "en",
    has_reader: bool = True,
) -> Presented:
    """Do the same as `present`; process large results in a thread."""
    present_it = partial(
        present,
        result,
        args,
        tool,
        presentation,
        limit,
        variable=variable,
        language=language,
        has_reader=has_reader,
    )
    return present_it() if is_quick(result.output) else await asyncio.to_thread(present_it)


def present(
    result: ToolExecutionResult,
    args: Mapping[str, Any],
    tool: Tool | None = None,
    presentation: Presentation = _DEFAULT,
    limit: int | None = None,
    *,
    variable: str | None = None,
    language: str = "en",
    has_reader: bool = True,
) -> Presented:
    """Return the text of a result for a model. S15, S28. Never raises.

    A text that is too long is cut by `presentation.truncate`, or else so that its beginning and its
    end stay. The limit counts everything that the model reads: text, marker and hint. Where there
    is too little room, the hint is shortened first, then the marker.

    Args:
        result: The finished call, a failed one too.
        args: Its arguments; `limit` among them goes before all other limits, unless the tool
            declares a parameter of that name. Errors it can only make longer.
        tool: The tool that was called.
        presentation: The presentation of its results.
        limit: The most characters; 0 or -1: all; None: `presentation.limit`, else 8,000.
        variable: The variable that holds what the tool returned, for the hint.
        language: Of marker and hint: `en` or `zh`.
        has_reader: Whether the model has `read_var`, so that the hint may speak of it.
    """
    findings: list[str] = []
    find_secrets = partial(secrets_if_known, tool, args)
    formatted, is_as_kept = _formatted(result, args, presentation, findings, find_secrets)
    asked = _asked_limit(args, tool)
    if presentation.is_whole or asked == 0:
        return Presented(formatted, formatted, False, findings)
    hinting = _Hinting(variable, is_as_kept, language, has_reader)
    if result.is_success and presentation.truncate is not None:
        name, own = result.tool_name, presentation.truncate
        cut = made_text(
            findings, "truncation", name, own, formatted, args, find_secrets=find_secrets
        )
        if cut is not None:
            final = _cut_by_tool(formatted, cut, hinting)
            return Presented(formatted, final, cut != formatted, findings)
    if not result.is_success:
        # So much of the result was asked for; what went wrong is more than that.
        asked = None
    most = asked or _most(limit, presentation.limit)
    if len(formatted) <= most:
        return Presented(formatted, formatted, False, findings)
    secrets = OwnSecrets({}) if tool is None else secrets_of(tool, args)
    return Presented(formatted, _cut(formatted, int(most), secrets, hinting), True, findings)


def _formatted(
    result: ToolExecutionResult,
    args: Mapping[str, Any],
    presentation: Presentation,
    findings: list[str],
    find_secrets: Callable[[], OwnSecrets | None],
) -> tuple[str, bool]:
    """Return the full text, and whether a variable with the output has the same text."""
    name = result.tool_name
    if result.is_success and presentation.format is not None:
        data = data_of(result.output)
        own = presentation.format
        text = made_text(findings, "formatter", name, own, data, args, find_secrets=find_secrets)
        if text is not None:
            return text, False
    text = short_text(result.output) if result.is_success else None
    if text is not None:
        return text, True
    text = made_text(findings, "output", name, default_text, result, find_secrets=find_secrets)
    if text is None:
        return to_text(shown(result.output)), False
    return text, _is_as_kept(result.output, text)


def _is_as_kept(output: dict[str, Any], text: str) -> bool:
    """Return True if positions are the same in the text of a variable with the output.

    A variable holds JSON: of a date or half a character it holds the letters, which as text are
    without the quotes, or with one more backslash.
    """
    if blocks_of(output):
        return False
    return isinstance(data_of(output), str) or not (text.startswith('"') or "\\ud" in text)


def _most(*limits: int | None) -> float:
    for limit in limits:
        if limit is not None:
            return limit if limit > 0 else math.inf
    return DEFAULT_LIMIT


def _asked_limit(args: Mapping[str, Any], tool: Tool | None) -> int | None:
    """Return the limit that the model asked for, 0 for all; None without one."""
    limit = args.get(_LIMIT)
    if limit is None or _declares_limit(tool):
        return None
    if isinstance(limit, str) and _WHOLE_NUMBER.fullmatch(limit.strip()):
        # The text protocols send nothing but texts.
        limit = int(limit)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:
        return None  # NaN alone is not equal to itself
    return 0 if limit <= 0 or limit == math.inf else math.ceil(limit)


def _declares_limit(tool: Tool | None) -> bool:
    return tool is not None and any(each.name == _LIMIT for each in tool.parameters)


def with_limit(arguments: dict[str, Any], params: Any) -> dict[str, Any]:
    """Return the arguments, with the `limit` that is not for the tool. U39."""
    asked = params.get("limit") if isinstance(params, dict) else None
    return arguments if asked is None else {"limit": asked, **arguments}


def without_hidden_limit(params: dict[str, Any], tool: Tool | None) -> dict[str, Any]:
    """Return the arguments without the `limit` that is meant for `present`. U39.

    Args:
        params: What the model sent; it is not changed.
        tool: The tool; one that declares a parameter `limit` gets it.
    """
    if _LIMIT not in params or _declares_limit(tool):
        return params
    return {name: value for name, value in params.items() if name != _LIMIT}


def telling_returns(
    prepare: Callable[[Tool, int], Tool | None] | None, presentations: Mapping[str, Presentation]
) -> Callable[[Tool, int], Tool | None] | None:
    """Return a `prepare` that also adds return types to descriptions. S9."""
    if all(each.return_type is None for each in presentations.values()):
        return prepare

    def told(tool: Tool, turn: int) -> Tool | None:
        adapted = tool if prepare is None else prepare(tool, turn)
        presentation = presentations.get(tool.name)
        if adapted is None or presentation is None:
            return adapted
        return with_return_type(adapted, presentation.return_type)

    return told


def with_return_type(tool: Tool, return_type: ReturnType | None) -> Tool:
    """Return the tool with its return type in the description. S9."""
    if return_type is None:
        return tool
    told = f"Returns {return_type.type}" + (f": {return_type.note}" if return_type.note else "")
    told = told if told.endswith((".", "。")) else f"{told}."
    if tool.description.endswith(told):
        return tool
    return msgspec.structs.replace(tool, description=f"{tool.description.rstrip()} {told}".strip())


class _Hinting(NamedTuple):
    """What the hint behind a cut text depends on."""

    variable: str | None
    is_as_kept: bool
    """Whether the variable has the text that was cut, so that it can be read on from there."""
    language: str
    has_reader: bool

    def hints(self, shown: int, total: int, head: int) -> list[str]:
        """Return the hint's wordings, the most helpful first, the last one empty."""
        start = head if self.is_as_kept else 0
        left_out = total - shown if self.is_as_kept else total
        cut = Shortened(shown, total, start, left_out)
        return hints_of(cut, self.variable, self.language, has_reader=self.has_reader)

    def longest(self, total: int) -> list[str]:
        """Return the wordings with the longest numbers that can occur."""
        cut = Shortened(total, total, total, total)
        return hints_of(cut, self.variable, self.language, has_reader=self.has_reader)


def _cut(text: str, most: int, secrets: OwnSecrets, hinting: _Hinting) -> str:
    total = len(text)
    longest = hinting.longest(total)
    rank = next(
        (at for at, hint in enumerate(longest) if most - len(hint) >= _LEAST_BODY),
        len(longest) - 1,
    )
    cut = cut_text(text, most - len(longest[rank]), secrets.splits, language=hinting.language)
    return cut.text + hinting.hints(total - cut.left_out, total, len(cut.head))[rank]


def _cut_by_tool(text: str, cut: str, hinting: _Hinting) -> str:
    """Return the tool's own cut of the text, with a hint if anything is missing."""
    if cut == text:
        return cut
    if not text.startswith(cut):
        hinting = hinting._replace(is_as_kept=False)
    return cut + hinting.hints(min(len(cut), len(text)), len(text), len(cut))[0]
