"""Where in streamed JSON are the name, the arguments and the end of a call?

The tracker only follows strings and brackets, so that it goes on where JSON is malformed: a quote
inside a string ends it only before what can follow a string. In valid JSON that is always so.
"""

from __future__ import annotations

import json
import re
from typing import Final, Protocol

from tool_engine.protocols.text.grammar import make_literal, make_token, one_of

START_TAG: Final = "<function_call>"
END_TAG: Final = "</function_call>"
NAMES: Final = ("name", "tool_name", "tool")
IDS: Final = ("id", "call_id", "tool_call_id")
ARGUMENTS: Final = ("arguments", "parameters", "args", "params", "input")
RECORD: Final = "function_call_record"
"""A call that was made before, in a conversation that is replayed. U44."""
_TAGS: Final = [
    make_token("end", make_literal(END_TAG)),
    make_token("start", make_literal(START_TAG)),
]
_OUTSIDE: Final = one_of([r'(?P<mark>[{}\[\]",:])', *_TAGS])
_INSIDE: Final = one_of([r'(?P<mark>["\\])', _TAGS[0]])
_RUN: Final = re.compile(r"[{\[]{2,}")
_BEHIND_STRING: Final = re.compile(r"[,:}\]<#]|/[/*]")
"""What a string is over before; with comments, which the arguments may have."""
_LEVELS: Final = 3
"""How many levels of an item may hold the call's name: itself, and wrappers in it."""
_MOST_TEXT: Final = 512


class ItemListener(Protocol):
    """A listener to the top objects, alone or in a list."""

    def open_item(self) -> None:
        """Begin an object."""

    def see_key(self, key: str) -> None:
        """Take the first key of an object."""

    def see_name(self, name: str) -> None:
        """Take the name of the tool that it calls."""

    def see_id(self, call_id: str) -> None:
        """Take the id by which the model matches the result."""

    def add_arguments(self, text: str) -> None:
        """Take the next part of its arguments."""

    def close_item(self, text: str) -> None:
        """End the object, which is whole."""


class JSONTracker:
    def __init__(self, listener: ItemListener) -> None:
        self._listener = listener
        self.raw: list[str] = []
        self.outside: list[str] = []
        self.item: list[str] | None = None
        self.depth = 0
        self.tag: str | None = None
        self.tail = ""
        self.is_in_string = False
        self.has_line_break = False
        """True if the open string has a raw line break: it is no JSON."""
        self._is_pending = False
        """True after a quote that ends the string only if the next character can follow one."""
        self._is_escaped = False
        self._base = 0
        """The depth outside of the items: 1 in a list."""
        self._keys: dict[int, str | None] = {}
        """Outer level of the item -> the key whose value is read; None: a key comes next."""
        self._text: list[str] | None = None
        self._text_size = 0
        self._ended = 0
        self._is_first = True
        self._arguments_depth = 0
        """The depth outside of the arguments that are being read; 0: none are."""
        self._unreported: list[str] = []
        """The parts of the arguments that the listener has not got yet."""

    @property
    def levels(self) -> int:
        return self.depth - self._base

    def feed(self, text: str, start: int) -> int:
        """Take `text` from `start`; return where it stops, or -1."""
        place = self._feed_text(text, start)
        self._report_arguments()
        return place

    def _feed_text(self, text: str, start: int) -> int:
        held = len(self.tail)
        text, place = self.tail + text[start:], 0
        self.tail, self.tag = "", None
        while place < len(text):
            depth = self.depth
            if self._is_escaped or self._is_pending:
                place = self._take_deciding(text, place)
                continue
            match = (_INSIDE if self.is_in_string else _OUTSIDE).search(text, place)
            end = len(text) if match is None else match.start()
            if end > place:
                self.take(text[place:end])
            if match is None:
                return -1
            if match.lastgroup is None:
                self.tail = text[end:]
                return -1
            place = match.end()
            if match.lastgroup != "mark":
                self.tag = match.lastgroup
                return start + place - held
            place = self._take_mark(text, end)
            if depth and not self.depth:
                return start + place - held
        return -1

    def take(self, text: str) -> None:
        self.raw.append(text)
        if self.item is None:
            self.outside.append(text)
            return
        self.item.append(text)
        if self._text is not None and self._text_size < _MOST_TEXT:
            self._text.append(text)
            self._text_size += len(text)
        if self.is_in_string and "\n" in text:
            self.has_line_break = True
        if self._arguments_depth:
            self._unreported.append(text)

    def take_tag(self) -> None:
        """Take the tag that was found as text."""
        self.take(START_TAG if self.tag == "start" else END_TAG)

    def _report_arguments(self) -> None:
        if self._unreported:
            self._listener.add_arguments("".join(self._unreported))
            self._unreported.clear()

    def _take_deciding(self, text: str, place: int) -> int:
        """Take the character that decides what a backslash or quote was."""
        if self._is_escaped:
            self._is_escaped = False
            self.take(text[place])
            return place + 1
        end = place
        while end < len(text) and text[end].isspace():
            end += 1
        if end > place:
            self.take(text[place:end])
        if text[end:] == "/":
            # Perhaps a comment, perhaps not.
            self.tail = "/"
            return len(text)
        if end < len(text):
            self._is_pending = False
            if _BEHIND_STRING.match(text, end):
                self._close_string()
        return end

    def _take_mark(self, text: str, place: int) -> int:
        mark = text[place]
        if self.is_in_string:
            self._take_in_string(mark)
        elif mark == '"':
            self._open_string()
        elif mark in "{[":
            return self._open_bracket(text, place)
        elif mark in "}]":
            self._close_bracket(mark)
        else:
            level = self.depth - self._base
            if mark == "," and level in self._keys:
                self._keys[level] = None
            self.take(mark)
        return place + 1

    def _take_in_string(self, mark: str) -> None:
        if mark == "\\":
            self._is_escaped = True
        else:
            self._is_pending = True
            self._ended = self._text_size
        self.take(mark)

    def _open_string(self) -> None:
        if self.item is None:
            self.take('"')
            return
        level = self.depth - self._base
        key = self._keys.get(level, "")
        if key in ARGUMENTS and not self._arguments_depth:
            self._arguments_depth = self.depth
        self.take('"')
        self.is_in_string, self.has_line_break = True, False
        self._text = [] if key is None or key in NAMES or key in IDS else None
        self._text_size = 0

    def _close_string(self) -> None:
        parts, self._text, self.is_in_string = self._text, None, False
        if self._arguments_depth == self.depth:
            self._arguments_depth = 0
        level = self.depth - self._base
        if parts is None or level not in self._keys:
            return
        text = _decode_text("".join(parts)[: min(self._ended, _MOST_TEXT)])
        key = self._keys[level]
        if key is not None:
            (self._listener.see_name if key in NAMES else self._listener.see_id)(text)
            return
        self._keys[level] = text
        if self._is_first:
            self._is_first = False
            self._listener.see_key(text)

    def _open_bracket(self, text: str, place: int) -> int:
        mark, level = text[place], self.depth - self._base
        if self.item is None:
            is_item = mark == "{" and level == 0
            if not is_item:
                self._base += mark == "[" and self.depth == 0
                self.depth += 1
                self.take(mark)
                return place + 1
            self.item, self._keys, self._is_first = [], {1: None}, True
            self._listener.open_item()
        elif level > _LEVELS or self._arguments_depth:
            run = _RUN.match(text, place)
            opened = mark if run is None else run[0]
            self.depth += len(opened)
            self.take(opened)
            return place + len(opened)
        elif self._keys.get(level, "") in ARGUMENTS:
            self._arguments_depth = self.depth
        elif mark == "{" and level < _LEVELS and self._keys.get(level) not in (None, RECORD):
            self._keys[level + 1] = None
        self.depth += 1
        self.take(mark)
        return place + 1

    def _close_bracket(self, mark: str) -> None:
        self._keys.pop(self.depth - self._base, None)
        self.depth = max(0, self.depth - 1)
        self.take(mark)
        if self._arguments_depth == self.depth:
            self._arguments_depth = 0
        if self.item is None:
            self._base = min(self._base, self.depth)
        elif self.depth == self._base:
            text, self.item = "".join(self.item), None
            self._report_arguments()
            self._listener.close_item(text)


def _decode_text(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
