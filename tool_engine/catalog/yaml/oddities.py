"""Where does the YAML parser read something else than YAML 1.2 says?

Such a text means one thing to its author's editor and another one here, so it is refused.
"""

from __future__ import annotations

import re
from typing import Any, Final

_MAY_BE_ODD: Final = re.compile(
    r"\?[^\s?]"  # a question mark that is a part of a text
    r"|[\"'\]}*\w-]\#"  # a comment without a blank before it
    r"|[&*][\w-]*[^\s\w,\[\]{}-]"  # the name of an anchor goes on
    r"|(?:^|[\r\n])[ ]+\Z"  # the last line holds blanks only
    r"|[\u201c\u2018\u201e]\S"  # a quotation mark of a word processor
)
_LAST_LINE: Final = re.compile(r"(?:^|[\r\n])[ ]+\Z")
_QUESTION: Final = (
    "a text that begins with ? in brackets is read without it",
    'quote the text, as in "?a", or write a blank behind the ?',
)
_COMMENT: Final = ("a comment needs a blank before its #", "write a blank before the #")
_ANCHOR: Final = (
    "the name of an anchor has letters, digits, _ and - only",
    "rename it, or write a blank behind it",
)
_CURLY: Final = re.compile(
    r"[\u201c\u201d\u201e][^\u201c-\u201e]*[\u201c\u201d]|[\u2018\u201a][^\u2018-\u201a]*[\u2018\u2019]"
)
_CURLY_QUOTES: Final = (
    "curly quotation marks are a part of the text",
    "write straight ones, or quote the text with its marks",
)
_BLANKS: Final = (
    "the text ends in a line of blanks, which may or may not belong to the block of text before it",
    "remove the blanks, or end the file with a line break",
)
Oddity = tuple[str, str]
"""What is odd, and the cure."""


class Oddities:
    """The places of one text where the parser differs from YAML 1.2."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.may_be_there = _MAY_BE_ODD.search(text) is not None
        """False: no event needs a look."""
        self._ends_in_blanks = self.may_be_there and _LAST_LINE.search(text) is not None

    def find(self, event: Any) -> Oddity | None:
        text, start, end = self._text, event.start_mark.index, event.end_mark.index
        if start and text[start - 1] == "?" and end > start:
            return _QUESTION
        style = getattr(event, "style", None)
        if not style and _CURLY.fullmatch(getattr(event, "value", None) or ""):
            return _CURLY_QUOTES
        is_closed = style in ("'", '"') or (end > start and text[end - 1] in "]}")
        if is_closed and text.startswith("#", end):
            return _COMMENT
        if style in ("|", ">") and self._ends_in_blanks and self._may_hold_blanks(event):
            return _BLANKS
        name = getattr(event, "anchor", None)
        if name is not None and self._goes_on(name, start):
            return _ANCHOR
        return None

    def _may_hold_blanks(self, event: Any) -> bool:
        """Return True if the final blanks may belong to a text block."""
        start, end = event.start_mark.index, event.end_mark.index
        if self._text[end:].strip(" \r\n"):
            return False
        header = self._text[start:end].partition("\n")[0].partition("#")[0]
        return event.value.endswith(" ") or "+" in header

    def _goes_on(self, name: str, start: int) -> bool:
        at = re.compile(rf"[&*]{re.escape(name)}").search(self._text, start)
        behind = "" if at is None else self._text[at.end() : at.end() + 1]
        return bool(behind) and behind not in " \t\r\n,[]{}"
