"""How is a text cut that is too long for a model, and which hint says how to read the rest?

Its beginning and its end, and between them a line that says how much was left out. That line counts
in the limit. What is shown never reads as another value: no cut goes through a character, a number
or a secret, and what is left of JSON is no JSON any more.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from tool_engine.output.cut_places import Splits, place_to_cut
from tool_engine.session.variables.references import write_reference

# A JSON text that is cut within one of its strings would still be one: but a string holds no line
# break, and nothing outside of a string begins with an ellipsis.
_MARKERS: Final = {
    "en": "\n… [{:,} characters left out] …\n",
    "zh": "\n… [省略 {:,} 个字符] …\n",
}
_ELLIPSIS: Final = "…"
_LEAST_SHOWN: Final = 20
"""The fewest characters that are worth showing beside the line between them."""
_LEAST_BODY: Final = 100
"""Characters of the result that a hint must leave room for."""
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


class CutText(NamedTuple):
    """The shown parts of a text."""

    head: str
    marker: str
    """The line in place of the left-out part; empty if nothing was left out."""
    tail: str
    left_out: int
    """The number of characters that were left out."""

    @property
    def text(self) -> str:
        return f"{self.head}{self.marker}{self.tail}"


def cut_text(text: str, room: int, splits: Splits, *, language: str = "en") -> CutText:
    """Cut `text` to at most `room` characters.

    Where there is no room for both ends and the line between them, the beginning is shown with an
    ellipsis behind it. Takes time in proportion to `room`, not to the text.

    Args:
        text: Any text.
        room: At least 1.
        splits: Says where a secret would be split.
        language: Of the line: `en` or `zh`.
    """
    if len(text) <= room:
        return CutText(text, "", "", 0)
    wording = _MARKERS[language]
    left = room - len(wording.format(len(text)))
    if left < _LEAST_SHOWN:
        first = place_to_cut(text, room - len(_ELLIPSIS), -1, splits)
        return CutText(text[:first], _ELLIPSIS, "", len(text) - first)
    first = place_to_cut(text, left - left // 2, -1, splits)
    last = place_to_cut(text, len(text) - left // 2, 1, splits)
    return CutText(text[:first], wording.format(last - first), text[last:], last - first)


class Hinting(NamedTuple):
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
        cut = _Shortened(shown, total, start, left_out)
        return _list_hints(cut, self.variable, self.language, has_reader=self.has_reader)

    def longest(self, total: int) -> list[str]:
        """Return the wordings with the longest numbers that can occur."""
        cut = _Shortened(total, total, total, total)
        return _list_hints(cut, self.variable, self.language, has_reader=self.has_reader)


def cut_with_hint(text: str, most: int, splits: Splits, hinting: Hinting) -> str:
    """Return a text cut to `most` characters, with the best hint."""
    total = len(text)
    longest = hinting.longest(total)
    rank = next(
        (at for at, hint in enumerate(longest) if most - len(hint) >= _LEAST_BODY),
        len(longest) - 1,
    )
    cut = cut_text(text, most - len(longest[rank]), splits, language=hinting.language)
    return cut.text + hinting.hints(total - cut.left_out, total, len(cut.head))[rank]


def add_hint(text: str, cut: str, hinting: Hinting) -> str:
    """Return the tool's own cut, with a hint if anything is missing."""
    if cut == text:
        return cut
    if not text.startswith(cut):
        hinting = hinting._replace(is_as_kept=False)
    return cut + hinting.hints(min(len(cut), len(text)), len(text), len(cut))[0]


class _Shortened(NamedTuple):
    """What part of a text is shown, in characters."""

    shown: int
    total: int
    start: int
    """The position in the variable from which to read on."""
    left_out: int
    """Characters from there on that the model has not read, at least 1."""


def _list_hints(
    cut: _Shortened, variable: str | None, language: str, *, has_reader: bool = True
) -> list[str]:
    """Return the hint's wordings, the most helpful first, the last empty. U39, S30.

    Args:
        cut: What is shown.
        variable: The variable that holds all of the text; None: nothing holds it.
        language: `en` or `zh`.
        has_reader: Whether the model has `read_var`.
    """
    notice = _NOTICE[language].format(shown=cut.shown, total=cut.total)
    texts = [notice]
    if variable is not None:
        notice += _WHOLE[language].format(write_reference(variable))
        texts.insert(0, notice)
        if has_reader:
            texts.insert(0, notice + _NEXT[language].format(_show_call(variable, cut)))
    return [*(f"{_BEGIN}{text}{_END}" for text in texts), ""]


def _show_call(variable: str, cut: _Shortened) -> str:
    length = min(cut.left_out, MOST_AT_ONCE)
    arguments = {"name": variable, "start": cut.start, "length": length}
    return f"read_var({json.dumps(arguments, ensure_ascii=False)})"
