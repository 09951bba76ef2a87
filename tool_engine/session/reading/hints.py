"""Which hint says that a result was shortened, and how to read the rest?"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from tool_engine.session.variables.references import reference

MOST_AT_ONCE: Final = 2_000
"""The most characters that a hint offers to read in one call. U39."""
_BEGIN: Final = "\n\n<!--ToolCallLog:Begin-->\n"
_END: Final = "\n<!--ToolCallLog:End-->"
_NOTICE: Final = {
    "en": "Shortened: {shown:,} of {total:,} characters are shown.",
    "zh": "内容过长已截断: 共 {total:,} 个字符, 保留 {shown:,} 个。",
}
_WHOLE: Final = {"en": "\nAll of it: {}", "zh": "\n完整内容: {}"}
_NEXT: Final = {"en": "\nTo read on: {}", "zh": "\n继续读取: {}"}


class Shortened(NamedTuple):
    """What part of a text is shown, in characters."""

    shown: int
    total: int
    start: int
    """The position in the variable from which to read on."""
    left_out: int
    """Characters from there on that the model has not read, at least 1."""


def hints_of(
    cut: Shortened, variable: str | None, language: str, *, has_reader: bool = True
) -> list[str]:
    """Return the hint in several wordings, the most helpful first, the last one empty. U39, S30.

    Args:
        cut: What is shown.
        variable: The variable that holds all of the text; None: nothing holds it.
        language: `en` or `zh`.
        has_reader: Whether the model has `read_var`.
    """
    notice = _NOTICE[language].format(shown=cut.shown, total=cut.total)
    told = [notice]
    if variable is not None:
        notice += _WHOLE[language].format(reference(variable))
        told.insert(0, notice)
        if has_reader:
            told.insert(0, notice + _NEXT[language].format(_read_var(variable, cut)))
    return [*(f"{_BEGIN}{text}{_END}" for text in told), ""]


def _read_var(variable: str, cut: Shortened) -> str:
    length = min(cut.left_out, MOST_AT_ONCE)
    arguments = {"name": variable, "start": cut.start, "length": length}
    return f"read_var({json.dumps(arguments, ensure_ascii=False)})"
