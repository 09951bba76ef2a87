"""Which places of a text are code, or in a block quote, by the rules of CommonMark?

Blocks are read line by line, as a Markdown reader does: block quotes, lists, fences, indented code,
HTML. Only what decides about code is kept. Where two readings are left, the place counts as code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tool_engine.protocols.text.code_spans import Span, find_spans

MARK: Final = "\0"
"""The character that marks each place in question."""
_SPAN: Final = "inline code"
_BLOCK: Final = "a block of code"
_QUOTE: Final = "a block quote"
_MOST_CONTAINERS: Final = 64
"""The most nested lists and quotes: what lies deeper counts as code."""
_MOST_LINES: Final = 20_000
"""The most lines of a text: after them, all counts as code."""
_LINE_END: Final = re.compile(r"\r\n?|\n")
_BLANK_LINE: Final = re.compile(r"(?:\r\n?|\n)[ \t]*(?:\r\n?|\n)")
_FENCE: Final = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_HEADING: Final = re.compile(r"#{1,6}(?= |$)")
_RULE: Final = re.compile(r"(?:[*][* ]*+|-[- ]*+|_[_ ]*+)$")
_UNDERLINE: Final = re.compile(r"(?:=+|-+) *$")
_ITEM: Final = re.compile(r"(?:[-+*]|([0-9]{1,9})[.)])(?= |$)")
_NAMES: Final = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|"
    "dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|"
    "hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|"
    "search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_WORD: Final = "[A-Za-z_:][A-Za-z0-9:._-]*"
_VALUE: Final = "(?:[^\"'=<>`\x00-\x20]+|'[^']*'|\"[^\"]*\")"
_TAG: Final = (
    rf"(?:<[A-Za-z][A-Za-z0-9-]*(?: +{_WORD}(?: *= *{_VALUE})?)* */?>|</[A-Za-z][A-Za-z0-9-]* *>)"
)
_BLANK: Final = re.compile("$")
_HTML: Final = [
    (re.compile(start, re.IGNORECASE), re.compile(end, re.IGNORECASE))
    for start, end in (
        (
            "<(?:script|pre|style|textarea)(?=[ >]|$)",
            "</(?:script|pre|style|textarea)>",
        ),
        ("<!--", "-->"),
        (r"<\?", r"\?>"),
        ("<![A-Za-z]", ">"),
        (r"<!\[CDATA\[", r"\]\]>"),
    )
]
_HTML_TO_BLANK: Final = re.compile(rf"</?(?:{_NAMES})(?= |/?>|$)", re.IGNORECASE)
_HTML_TAG: Final = re.compile(rf"{_TAG} *$")


@dataclass(slots=True, frozen=True)
class Place:
    region: str | None
    """`inline code`, `a block of code` or `a block quote`; None: it is plain text."""
    runs: frozenset[int] = frozenset()
    """The lengths of unclosed backtick runs before it, which an equal run would close."""


def find_places(text: str) -> list[Place]:
    lines = _LINE_END.split(text, _MOST_LINES)
    rest = lines.pop() if len(lines) > _MOST_LINES else ""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    reader.end_leaf()
    return reader.places + [Place(_BLOCK)] * rest.count(MARK)


def find_open_fence(text: str) -> str | None:
    """Return the line that closes an open fence, or None.

    Fenced code in a list or a quote ends with it.
    """
    reader = _Reader()
    for line in _LINE_END.split(text):
        reader.take(line)
    return reader.fence or None if not reader.containers else None


def find_region_within(text: str, place: Place) -> str | None:
    """Return the region that a backtick inside this block would begin."""
    first = _BLANK_LINE.split(text, 1)[0] if place.runs else ""
    runs = {len(run[0]) for run in re.finditer("`+", first)}
    return None if runs.isdisjoint(place.runs) else _SPAN


class _Reader:
    def __init__(self) -> None:
        self.places: list[Place] = []
        self.containers: list[int] = []
        """From the outside in: the indentation of an item's content, or 0 for a quote."""
        self.fence = ""
        self._paragraph: list[str] = []
        self._regions: list[str | None] = []
        self._is_doubtful = False
        """True if a part of the paragraph may be something else."""
        self._is_indented = False
        self._html: re.Pattern[str] | None = None
        """The end of the HTML around the line."""
        self._is_empty_item = False
        self._is_lost = False

    def take(self, line: str) -> None:
        if self._is_lost:
            self._add_places(line.count(MARK), _BLOCK)
            return
        if "\t" in line:
            line = line.expandtabs(4)
        matched, place, is_quote = self._match_containers(line)
        marks = line.count(MARK)
        if matched == len(self.containers) and self._goes_on(line[place:], marks):
            return
        self._begin_line(line, matched, place, is_quote)

    def _match_containers(self, line: str) -> tuple[int, int, bool]:
        """Return the continued containers, the content's place, and if quoted."""
        place, matched, is_quote = 0, 0, False
        for width in self.containers:
            rest = _count_indent(line, place)
            if not width:
                if rest > 3 or line[place + rest : place + rest + 1] != ">":
                    break
                place, is_quote = _skip_quote(line, place + rest), True
            elif place + rest >= len(line):
                if self._is_empty_item and matched == len(self.containers) - 1:
                    break
            elif rest >= width:
                place += width
            else:
                break
            matched += 1
        return matched, place, is_quote

    def _goes_on(self, rest: str, marks: int) -> bool:
        if self.fence:
            text = rest.lstrip(" ")
            run = text.rstrip(" ")
            is_end = len(rest) - len(text) <= 3 and len(run) >= len(self.fence)
            if is_end and run == self.fence[0] * len(run):
                self.fence = ""
            self._add_places(marks, _BLOCK)
            return True
        if self._html is None:
            return False
        text = rest.strip(" ")
        if self._html is _BLANK and not text:
            self._html = None
            return False
        self._add_places(marks, None)
        if self._html is not _BLANK and self._html.search(text):
            self._html = None
        return True

    def _begin_line(self, line: str, matched: int, place: int, is_quote: bool) -> None:
        is_lazy = matched < len(self.containers)
        if is_lazy:
            self.fence, self._html, self._is_indented = "", None, False
        while True:
            indent = _count_indent(line, place)
            start = place + indent
            if start >= len(line):
                self._take_blank(matched)
                return
            if indent >= 4:
                self._take_indented(line, matched, is_quote)
                return
            if line[start] == ">":
                self._open_container(matched, 0)
                place, is_quote = _skip_quote(line, start), True
            elif self._take_leaf(line[start:], matched, is_quote):
                return
            elif (item := self._find_item(line, start, matched)) is not None:
                end, is_empty = item
                self._open_container(matched, end - place)
                place, self._is_empty_item = min(end, len(line)), is_empty
            else:
                self._take_text(line[start:], matched, is_quote)
                return
            matched = len(self.containers)
            if matched > _MOST_CONTAINERS:
                self.end_leaf()
                self._is_lost = True
                self._add_places(line.count(MARK), _BLOCK)
                return

    def _open_container(self, matched: int, width: int) -> None:
        self._close_to(matched)
        self.end_leaf()
        self.containers.append(width)
        self._is_empty_item = False

    def _close_to(self, matched: int) -> None:
        if matched < len(self.containers):
            self.end_leaf()
            del self.containers[matched:]

    def _take_blank(self, matched: int) -> None:
        is_new_item = self._is_empty_item and matched == len(self.containers)
        was_indented = self._is_indented
        if matched < len(self.containers):
            self._close_to(matched)
        self.end_leaf()
        self._is_indented = was_indented and matched == len(self.containers)
        self._is_empty_item = is_new_item

    def _take_indented(self, line: str, matched: int, is_quote: bool) -> None:
        if self._paragraph:
            first = self._paragraph[0]
            is_sure = matched == len(self.containers) and not first.startswith("[")
            self._is_doubtful |= not is_sure
            region = _QUOTE if is_quote else None
            self._add_text(line.lstrip(" "), region if is_sure else _BLOCK)
            return
        self._close_to(matched)
        self._is_indented, self._is_empty_item = True, False
        self._add_places(line.count(MARK), _BLOCK)

    def _take_leaf(self, text: str, matched: int, is_quote: bool) -> bool:
        """Take a line of another kind than text; return False if not."""
        is_lazy = matched < len(self.containers)
        if found := _HEADING.match(text):
            self._end_before(matched)
            self._add_text(text[found.end() :], _QUOTE if is_quote else None)
            self.end_leaf()
        elif found := _FENCE.match(text):
            self._end_before(matched)
            self.fence = found[1] or found[2]
            self._add_places(text.count(MARK), _BLOCK)
        elif (end := self._find_html_end(text)) is not None:
            self._end_before(matched)
            self._add_places(text.count(MARK), None)
            self._html = end if end is _BLANK or not end.search(text) else None
        elif self._paragraph and not is_lazy and _UNDERLINE.match(text):
            self.end_leaf()
        elif _RULE.match(text) and len(text) - text.count(" ") >= 3:
            self._end_before(matched)
        else:
            return False
        return True

    def _end_before(self, matched: int) -> None:
        self._close_to(matched)
        self.end_leaf()
        self._is_empty_item = False

    def _find_html_end(self, text: str) -> re.Pattern[str] | None:
        if text[0] != "<":
            return None
        for start, end in _HTML:
            if start.match(text):
                return end
        if _HTML_TO_BLANK.match(text) or (not self._paragraph and _HTML_TAG.match(text)):
            return _BLANK
        return None

    def _find_item(self, line: str, start: int, matched: int) -> tuple[int, bool] | None:
        """Return an item's content place and emptiness; None: no item."""
        found = _ITEM.match(line, start)
        if found is None:
            return None
        end = found.end()
        is_empty = not line[end:].strip(" ")
        is_after_text = bool(self._paragraph) and matched == len(self.containers)
        if is_after_text and (is_empty or (found[1] is not None and int(found[1]) != 1)):
            return None
        if is_empty:
            return end + 1, True
        space = _count_indent(line, end)
        return end + (space if space <= 4 else 1), False

    def _take_text(self, text: str, matched: int, is_quote: bool) -> None:
        if not self._paragraph:
            self._close_to(matched)
        self._is_empty_item = self._is_indented = False
        self._add_text(text, _QUOTE if is_quote else None)

    def _add_text(self, text: str, region: str | None) -> None:
        self._paragraph.append(text)
        self._regions += [region] * text.count(MARK)

    def end_leaf(self) -> None:
        if self._regions:
            text = "\n".join(self._paragraph)
            spans = find_spans(text, MARK, is_doubtful=self._is_doubtful)
            self.places += map(_make_place, spans, self._regions)
        self._paragraph, self._regions, self._is_doubtful = [], [], False
        self.fence, self._html, self._is_indented = "", None, False

    def _add_places(self, marks: int, region: str | None) -> None:
        self.places += [Place(region)] * marks


def _make_place(span: Span, region: str | None) -> Place:
    return Place(_SPAN if span.is_code else region, span.open_runs)


def _count_indent(line: str, place: int) -> int:
    end = place
    while line.startswith(" ", end):
        end += 1
    return end - place


def _skip_quote(line: str, place: int) -> int:
    return place + 2 if line.startswith("> ", place) else place + 1
