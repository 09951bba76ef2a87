"""What does a model read of a result whose content stays unread?

Its name, its kind and its size, which the engine counts: no word, key or number of the content.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from tool_engine.model.result import ResultShow
from tool_engine.model.tool import Tool
from tool_engine.session.config import SHOWS, ToolCallConfig
from tool_engine.session.formatting import data_of
from tool_engine.session.prompt.skills import READING
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.variables.references import reference

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
_UNKEPT: Final = {
    "en": "The result is not shown: {what}.",
    "zh": "结果不显示：{what}。",
}
_DONE: Final = {"en": "Done. The result is not shown.", "zh": "已完成。结果不显示。"}
_FAILED: Final = {
    "en": "The call failed. What it said is not shown.",
    "zh": "调用失败。错误内容不显示。",
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
    read: SessionResult, show: str, variable: str | None, chars: int, language: str
) -> SessionResult:
    """Return a result of which the model reads nothing of the content.

    Args:
        read: The result, as it would be read.
        show: `summary` or `none`.
        variable: The variable that holds it; None: none does.
        chars: The characters of its text.
        language: `en` or `zh`.
    """
    if not read.is_success:
        text = _FAILED[language]
    elif show == ResultShow.NONE.value:
        text = _DONE[language]
    else:
        what = _describe_value(data_of(read.output), chars, language)
        text = _UNKEPT[language].format(what=what)
        if variable is not None:
            text = _KEPT[language].format(what=what, reference=reference(variable))
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
