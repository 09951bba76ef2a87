"""How does the result of a call become text for a model?

data -> `formatted_text`: all of it, as text -> `final_text`: what fits, and how to get the rest.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.unawaited import is_unawaited
from tool_engine.model.content.blocks import read_content
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.data import Data
from tool_engine.model.json.returned_value import safe_repr, shorten_repr, to_text
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.redaction import OwnSecrets, secrets_if_known, secrets_of, words_of
from tool_engine.session.formatting import LIMIT, data_of, default_text, short_text, text_in_pieces
from tool_engine.session.reading.cutting import Hinting, add_hint, cut_with_hint

DEFAULT_LIMIT: Final = 8000
"""The default limit of a result, in characters. U38."""
_LONGEST_REASON: Final = 200
_log = get_logger(__name__)
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
            kind, wanted = _KINDS[name]
            is_switch = isinstance(value, bool) and kind is int
            if value is not None and (is_switch or not isinstance(value, kind)):
                raise ConfigurationError(
                    f"{name} of a Presentation must be {wanted}, got {value!r}"
                )
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


def check_presentations(presentations: object) -> None:
    """Raise `ConfigurationError` for what is no mapping of tools to presentations."""
    if not isinstance(presentations, Mapping):
        raise ConfigurationError(
            "presentations must be a mapping of a tool to its Presentation, got "
            f"{type(presentations).__name__}"
        )
    for name, each in presentations.items():
        if not isinstance(each, Presentation):
            raise ConfigurationError(
                f"presentations[{name!r}] must be a Presentation, got {type(each).__name__}"
            )


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


WHOLE: Final = Presentation()
"""That of a tool whose results code does not present."""


async def present_in_time(
    result: ToolExecutionResult, *args: Any, is_short: bool | None = None, **options: Any
) -> Presented:
    """Do the same as `present_result`; process large results in a thread.

    `is_short` is what `is_quick` says of the output; None: it is asked.
    """
    if is_quick(result.output) if is_short is None else is_short:
        return present_result(result, *args, **options)
    return await asyncio.to_thread(present_result, result, *args, **options)


def present_result(
    result: ToolExecutionResult,
    args: Mapping[str, Any],
    tool: Tool | None = None,
    presentation: Presentation = WHOLE,
    limit: int | None = None,
    *,
    variable: str | None = None,
    language: str = "en",
    has_reader: bool = True,
) -> Presented:
    """Return a result's text for a model. S15, S28. Never raises.

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
    formatted, is_as_kept = _format_result(result, args, presentation, findings, find_secrets)
    asked = _find_asked_limit(args, tool, findings)
    if presentation.is_whole or asked == 0:
        return Presented(formatted, formatted, False, findings)
    hinting = Hinting(variable, is_as_kept, language, has_reader)
    if result.is_success and presentation.truncate is not None:
        name, own = result.tool_name, presentation.truncate
        cut = make_text(
            findings, "truncation", name, own, formatted, args, find_secrets=find_secrets
        )
        if cut is not None:
            final = add_hint(formatted, cut, hinting)
            return Presented(formatted, final, cut != formatted, findings)
    if not result.is_success:
        # So much of the result was asked for; what went wrong is more than that.
        asked = None
    most = asked or _find_most(limit, presentation.limit)
    if len(formatted) <= most:
        return Presented(formatted, formatted, False, findings)
    secrets = OwnSecrets({}) if tool is None else secrets_of(tool, args)
    return Presented(
        formatted, cut_with_hint(formatted, int(most), secrets.splits, hinting), True, findings
    )


def _format_result(
    result: ToolExecutionResult,
    args: Mapping[str, Any],
    presentation: Presentation,
    findings: list[str],
    find_secrets: Callable[[], OwnSecrets | None],
) -> tuple[str, bool]:
    """Return the full text, and whether a variable has the same."""
    name = result.tool_name
    if result.is_success and presentation.format is not None:
        data = data_of(result.output)
        own = presentation.format
        text = make_text(findings, "formatter", name, own, data, args, find_secrets=find_secrets)
        if text is not None:
            return text, False
    text = short_text(result.output) if result.is_success else None
    if text is not None:
        return text, True
    text = make_text(findings, "output", name, default_text, result, find_secrets=find_secrets)
    if text is None:
        return to_text(safe_repr(result.output)), False
    return text, _is_as_kept(result.output, text)


def _is_as_kept(output: dict[str, Any], text: str) -> bool:
    """Return True if a variable's text has the same positions.

    A variable holds JSON: of a date or half a character it holds the letters, which as text are
    without the quotes, or with one more backslash.
    """
    if read_content(output):
        return False
    return isinstance(data_of(output), str) or not (text.startswith('"') or "\\ud" in text)


def _find_most(*limits: int | None) -> float:
    for limit in limits:
        if limit is not None:
            return limit if limit > 0 else math.inf
    return DEFAULT_LIMIT


def _find_asked_limit(
    args: Mapping[str, Any], tool: Tool | None, findings: list[str]
) -> int | None:
    """Return the model's limit, 0 for all; None: it asked for none, or for what is none."""
    limit = args.get(LIMIT)
    if limit is None or _declares_limit(tool):
        return None
    if isinstance(limit, str) and _WHOLE_NUMBER.fullmatch(limit.strip()):
        # The text protocols send nothing but texts.
        limit = int(limit)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:
        findings.append(
            f"the limit {shorten_repr(limit)} is no number of characters, and was left out: write "
            "a whole number, 0 for all"
        )
        return None
    return 0 if limit <= 0 or limit == math.inf else math.ceil(limit)


def _declares_limit(tool: Tool | None) -> bool:
    return tool is not None and any(each.name == LIMIT for each in tool.parameters)


def with_limit(arguments: dict[str, Any], params: Any) -> dict[str, Any]:
    """Return the arguments with the `limit` for the session. U39."""
    asked = params.get("limit") if isinstance(params, dict) else None
    return arguments if asked is None else {"limit": asked, **arguments}


def without_hidden_limit(params: dict[str, Any], tool: Tool | None) -> dict[str, Any]:
    """Return the arguments without the `limit` that is meant for `present_result`. U39.

    Args:
        params: What the model sent; it is not changed.
        tool: The tool; one that declares a parameter `limit` gets it.
    """
    if LIMIT not in params or _declares_limit(tool):
        return params
    return {name: value for name, value in params.items() if name != LIMIT}


def add_return_types(
    prepare: Callable[[Tool, int], Tool | None] | None, presentations: Mapping[str, Presentation]
) -> Callable[[Tool, int], Tool | None] | None:
    """Return a `prepare` that also adds return types to descriptions. S9."""
    if all(each.return_type is None for each in presentations.values()):
        return prepare

    def adapt(tool: Tool, turn: int) -> Tool | None:
        adapted = tool if prepare is None else prepare(tool, turn)
        presentation = presentations.get(tool.name)
        if adapted is None or presentation is None:
            return adapted
        return with_return_type(adapted, presentation.return_type)

    return adapt


def with_return_type(tool: Tool, return_type: ReturnType | None) -> Tool:
    """Return the tool with its return type in the description. S9."""
    if return_type is None:
        return tool
    sentence = f"Returns {return_type.type}" + (f": {return_type.note}" if return_type.note else "")
    sentence = sentence if sentence.endswith((".", "。")) else f"{sentence}."
    if tool.description.endswith(sentence):
        return tool
    return msgspec.structs.replace(
        tool, description=f"{tool.description.rstrip()} {sentence}".strip()
    )


def make_text(
    findings: list[str],
    what: str,
    tool_name: str,
    function: Callable[..., Any],
    *args: Any,
    find_secrets: Callable[[], OwnSecrets | None],
) -> str | None:
    """Return the text that `function` makes, or None if it fails.

    Args:
        findings: Gets a sentence about it then; the log gets a warning.
        what: What the function is, for that sentence.
        tool_name: The tool that brought it.
        function: Plain, not async.
        args: What it is called with.
        find_secrets: Gives the secrets of the call, to hide them in the report of its failure.
    """
    try:
        text = function(*args)
    except BaseException as error:  # code of a tool may raise anything
        if ends_caller(error):
            raise
        failure = f"raised {words_of(error, find_secrets(), most=_LONGEST_REASON)}"
    else:
        if isinstance(text, str):
            return text_in_pieces(text)
        is_unawaited(text)
        failure = f"returned {type(text).__name__} and no text"
    findings.append(f"the {what} of {tool_name!r} {failure}; the default was used")
    _log.warning("presentation_failed", tool_name=tool_name, what=what, reason=failure)
    return None
