"""How is a text cut that is too long for a model?

Its beginning and its end, and between them a line that says how much was left out. That line counts
in the limit. What is shown never reads as another value: no cut goes through a character, a number
or a secret, and what is left of JSON is no JSON any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tool_engine.output.places import Splits, place_to_cut

# A JSON text that is cut within one of its strings would still be one: but a string holds no line
# break, and nothing outside of a string begins with an ellipsis.
_MARKERS: Final = {
    "en": "\n… [{:,} characters left out] …\n",
    "zh": "\n… [省略 {:,} 个字符] …\n",
}
_ELLIPSIS: Final = "…"
_LEAST_SHOWN: Final = 20
"""The fewest characters that are worth showing beside the line between them."""


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
