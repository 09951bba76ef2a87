"""Where does the YAML parser read something else than YAML 1.2 says?

Such a text means one thing to its author's editor and another one here, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tool_engine.catalog.yaml.document import Document

_IN_TEXT: Final = re.compile(r"\?(?=[^\s?])")
"""A question mark that is a part of a text."""
_BEHIND_BRACKET: Final = re.compile(r"#(?<=[\"'\]}]#)")
"""A comment without a blank before it."""
_GOES_ON: Final = re.compile(r"[&*][\w-]*[^\s\w,\[\]{}-]")
"""The name of an anchor that does not end."""
_CURLY_START: Final = re.compile("[\u201c\u201d\u201e\u2018\u201a]")
"""A quotation mark of a word processor."""
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

    def __init__(self, text: str, *, has_anchors: bool) -> None:
        self._text = text
        self._questions = _find_all(_IN_TEXT, "?", text)
        self._comments = _find_all(_BEHIND_BRACKET, "#", text)
        curly = () if text.isascii() else _CURLY_START.finditer(text)
        self._curly = [found.start() for found in curly]
        self._ends_in_blanks = text.endswith(" ") and _LAST_LINE.search(text) is not None
        may_go_on = has_anchors and _GOES_ON.search(text) is not None
        self.needs_each_event = self._ends_in_blanks or may_go_on
        """False: where the parts of the text begin says enough."""

    def may_be_among(self, documents: Iterable[Document]) -> bool:
        """Return True if the events of these documents of the text need a look."""
        text = self._text
        starts = set().union(*(document.starts() for document in documents))
        if any(at + 1 in starts or text[at + 1] in "]}" for at in self._questions):
            return True
        # Else the sign before it opens a text that begins with #.
        if any(text[at - 1] in "]}" or at - 1 not in starts for at in self._comments):
            return True
        # What has a tag or an anchor begins there.
        is_hidden = "!" in text or "&" in text
        return bool(self._curly) and (is_hidden or not starts.isdisjoint(self._curly))

    @property
    def may_be_there(self) -> bool:
        """False: no event needs a look."""
        some = self._questions or self._comments or self._curly
        return self.needs_each_event or bool(some)

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


def _find_all(pattern: re.Pattern[str], sign: str, text: str) -> list[int]:
    # Most texts have no such sign, which is found out in a tenth of the time.
    return [found.start() for found in pattern.finditer(text)] if sign in text else []
