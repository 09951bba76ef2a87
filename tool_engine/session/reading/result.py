"""How did a session's call end, and what does the model read of it?

Of a result whose content stays unread it reads the name, the kind and the size, which the engine
counts: no word, key or number of the content.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from inspect import getattr_static
from typing import Any, Final, Protocol

from msgspec.structs import replace

from tool_engine.model.call import Refusal, ToolExecutionResult
from tool_engine.model.json.plain import write_short
from tool_engine.model.outcome import ErrorType
from tool_engine.model.result import ResultShow
from tool_engine.model.tool import Tool
from tool_engine.session.config import SHOWS, ToolCallConfig
from tool_engine.session.formatting import LIMIT, data_of
from tool_engine.session.prompt.skills import READING
from tool_engine.session.variables.references import write_reference

_KINDS: Final = {
    "en": {
        "text": "a text of {chars:,} characters",
        "list": "a list of {count:,} entries, {chars:,} characters in all",
        "mapping": "a mapping of {count:,} entries, {chars:,} characters in all",
        "value": "a single value",
    },
    "zh": {
        "text": "{chars:,} 个字符的文本",
        "list": "{count:,} 项的列表，共 {chars:,} 个字符",
        "mapping": "{count:,} 项的映射，共 {chars:,} 个字符",
        "value": "单个值",
    },
}
_KEPT: Final = {
    "en": "The result is kept unread: {what}. To pass it on: {reference}",
    "zh": "结果已保存，未读取：{what}。传递时使用：{reference}",
}
_KEPT_ALONE: Final = {
    "en": "The result is kept unread. To pass it on: {reference}",
    "zh": "结果已保存，未读取。传递时使用：{reference}",
}
_UNKEPT: Final = {
    "en": "The result is not shown: {what}.",
    "zh": "结果不显示：{what}。",
}
_DONE: Final = {"en": "Done. The result is not shown.", "zh": "已完成。结果不显示。"}
_FAILED: Final = {
    "en": "The call failed. What it said is not shown.",
    "zh": "调用失败。错误内容不显示。",
}


class ResultStatus(str, Enum):
    """How a call ended, in the words of the founding document. S13."""

    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    EXECUTION_REJECTED = "EXECUTION_REJECTED"
    RESULT_REJECTED = "RESULT_REJECTED"
    NOT_FOUND = "NOT_FOUND"


_STATUS: Final = {
    None: ResultStatus.SUCCESS,
    ErrorType.TOOL_NOT_FOUND.value: ResultStatus.NOT_FOUND,
    ErrorType.EXECUTION_REJECTED.value: ResultStatus.EXECUTION_REJECTED,
    ErrorType.APPROVAL_REQUIRED.value: ResultStatus.EXECUTION_REJECTED,
    ErrorType.REJECTED.value: ResultStatus.EXECUTION_REJECTED,
    ErrorType.RESULT_REJECTED.value: ResultStatus.RESULT_REJECTED,
}
_WITH_DATA: Final = (ResultStatus.SUCCESS, ResultStatus.RESULT_REJECTED)


class HasTexts(Protocol):
    """The texts of a result."""

    @property
    def formatted_text(self) -> str:
        """The full text."""

    @property
    def final_text(self) -> str:
        """The text that the model reads."""

    @property
    def is_truncated(self) -> bool:
        """Whether that is less than the full text."""


class UnreadTexts(partial[HasTexts]):
    """Stands for the texts of a result that nothing has read yet; called, it makes them."""


class SessionResult(ToolExecutionResult, kw_only=True):
    """The result of a call in a session. S14, S15.

    `output` goes to the program, `formatted_text` is all of it as text, and `final_text` is what
    the model reads.
    """

    formatted_text: str = ""
    final_text: str | None = None
    """The text for the model; None: the model may not read it (`result_rejected`)."""
    is_truncated: bool = False
    """Whether the model reads less than the full text."""
    reject_reason: str | None = None
    """The reason for which the call or its result was refused."""
    result_variable: str | None = None
    """The variable that holds the whole output."""
    args_variable: str | None = None
    """The variable that holds the arguments."""
    is_hidden: bool = False
    """Whether the model reads nothing of the content, as `show` says."""

    @property
    def status(self) -> ResultStatus:
        """How the call ended, in the words of the founding document."""
        details = self.metadata.get("error_details")
        if self.approval_token is not None and (details or {}).get("kind") == "result":
            # It has run, and must not look as if it had not.
            return ResultStatus.RESULT_REJECTED
        return _STATUS.get(self.error_type, ResultStatus.ERROR)

    @property
    def approval_token(self) -> str | None:
        """The token for `session.resume`, if the call ended as `approval_required`."""
        if self.error_type != ErrorType.APPROVAL_REQUIRED.value:
            return None
        details = self.metadata.get("error_details")
        return details.get("approval_token") if isinstance(details, dict) else None

    def __eq__(self, other: object) -> bool:
        make_texts(self)
        make_texts(other)
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment] # as its base

    def __reduce__(self) -> Any:
        """Return the result as it reads: its texts are made before it goes elsewhere."""
        make_texts(self)
        return super().__reduce__()


class _Text:
    """A field of `SessionResult` that is made when it is first read.

    To write a table as text, and to cut it where no secret is split, takes many times as long as
    the call, and programs mostly read the output.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.slot: Any = getattr_static(SessionResult, name)
        setattr(SessionResult, name, self)

    def __get__(self, result: SessionResult | None, owner: type | None = None) -> Any:
        if result is None:
            return self
        value = self.slot.__get__(result)
        if value.__class__ is UnreadTexts:
            texts = value()
            for each in _TEXTS:
                # One of them may have been replaced.
                if each.slot.__get__(result) is value:
                    each.slot.__set__(result, getattr(texts, each.name))
            value = self.slot.__get__(result)
        return value

    def __set__(self, result: SessionResult, value: object) -> None:
        self.slot.__set__(result, value)


_TEXTS: Final = tuple(map(_Text, ("formatted_text", "final_text", "is_truncated")))


def make_texts(result: object) -> None:
    """Make the texts of a result that were not read yet."""
    if isinstance(result, SessionResult):
        for each in _TEXTS:
            each.__get__(result)


def make_session_result(
    result: ToolExecutionResult,
    tool_name: str,
    formatted_text: Any,
    final_text: Any,
    *,
    is_truncated: Any = False,
) -> SessionResult:
    """Return a result with the conversation's name of the tool, and its texts, perhaps unread."""
    return SessionResult(
        result.is_success,
        tool_name,
        result.output,
        result.error,
        result.error_type,
        result.validation_errors,
        result.execution_time,
        result.executed_at,
        result.metadata,
        formatted_text=formatted_text,
        final_text=final_text,
        is_truncated=is_truncated,
        reject_reason=None if result.is_success else _reason_of(result),
    )


def make_short_result(
    result: ToolExecutionResult, tool_name: str, params: Any, limit: int
) -> SessionResult | None:
    """Return a result whose short text or number is all its text; None: it is not that simple.

    Args:
        result: The finished call of a tool that code does not present.
        tool_name: The tool, as the conversation has it.
        params: What the model sent.
        limit: The most characters; 0 or -1: all.
    """
    output = result.output
    if not may_present_later(result, params) or len(output) != 1 or "result" not in output:
        return None
    text = write_short(output["result"])
    if text is None or 0 < limit < len(text):
        return None
    return make_session_result(result, tool_name, text, text)


def may_present_later(result: ToolExecutionResult, params: Any) -> bool:
    """Return True if the texts of a result depend on nothing but its output and the limits.

    Args:
        result: The finished call of a tool that code does not present.
        params: What the model sent.
    """
    return result.is_success and type(params) is dict and LIMIT not in params


def as_session_result(result: ToolExecutionResult) -> SessionResult:
    """Turn a result that the conversation has not processed into a `SessionResult`.

    For example of an invalid or forbidden call: its text is only the reason.
    """
    if isinstance(result, SessionResult):
        return result
    text = result.error or ""
    return make_session_result(result, result.tool_name, text, text)


def withhold_result(read: SessionResult, refusal: Refusal) -> SessionResult:
    """Return a result that the program gets, and no model. S31."""
    details = {} if refusal.details is None else {"error_details": refusal.details}
    return replace(
        read,
        is_success=False,
        error=refusal.error,
        error_type=refusal.error_type,
        metadata={**read.metadata, **details},
        final_text=None,
        is_truncated=False,
        reject_reason=(refusal.details or {}).get("reason"),
    )


def _reason_of(result: ToolExecutionResult) -> str | None:
    """Return the reason for which the call was refused, or None."""
    details = result.metadata.get("error_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if isinstance(reason, str) else None


def as_tool_call_result(result: SessionResult) -> dict[str, Any]:
    """Return a result in the founding document's form, for front ends. S14.

    `data` is what the tool returned; None where it did not run to its end.
    """
    return {
        "status": result.status.value,
        # What was withheld from the model is still there for the program.
        "data": data_of(result.output) if result.status in _WITH_DATA else None,
        "error": result.error,
        "rejectReason": result.reject_reason,
        "formattedText": result.formatted_text,
        "finalText": result.final_text,
        "isTruncated": result.is_truncated,
        "cacheVarResult": result.result_variable,
        "cacheVarArgs": result.args_variable,
        "cacheFile": None,
    }


def find_show(config: ToolCallConfig, tool_name: str, tool: Tool | None) -> str:
    """Return how much of a tool's results a model reads.

    Args:
        config: The settings of the conversation, or of one reply.
        tool_name: The tool, as the model knows it.
        tool: The tool; None: there is none.
    """
    if tool_name in READING:
        # What is read with them was asked for, and is labelled as what it is.
        return ResultShow.FULL.value
    own = config.tool_show.get(tool_name)
    if own is not None:
        return own
    declared = None if tool is None or tool.result is None else tool.result.show
    return config.show if declared is None else declared.value


def least_shown(*shows: str) -> str:
    """Return the one of several values of `show` that shows the least."""
    return max(shows, key=SHOWS.index)


def hide_result(
    read: SessionResult,
    show: str,
    variable: str | None,
    chars: int,
    language: str,
    *,
    says_size: bool,
) -> SessionResult:
    """Return a result of which the model reads nothing of the content.

    Args:
        read: The result, as it would be read.
        show: `summary` or `none`.
        variable: The variable that holds it; None: none does.
        chars: The characters of its text.
        language: `en` or `zh`.
        says_size: Whether a summary says what it is, and how large.
    """
    if not read.is_success:
        text = _FAILED[language]
    elif show == ResultShow.NONE.value or not (says_size or variable):
        text = _DONE[language]
    elif variable is not None and not says_size:
        text = _KEPT_ALONE[language].format(reference=write_reference(variable))
    else:
        what = _describe_value(data_of(read.output), chars, language)
        text = _UNKEPT[language].format(what=what)
        if variable is not None:
            text = _KEPT[language].format(what=what, reference=write_reference(variable))
    return replace(read, final_text=text, is_truncated=True, is_hidden=True)


def _describe_value(value: Any, chars: int, language: str) -> str:
    """Return a value's kind, and its size unless it is single."""
    kinds = _KINDS[language]
    if isinstance(value, str):
        return kinds["text"].format(chars=chars)
    if isinstance(value, dict):
        return kinds["mapping"].format(count=len(value), chars=chars)
    if isinstance(value, list | tuple):
        return kinds["list"].format(count=len(value), chars=chars)
    return kinds["value"]
