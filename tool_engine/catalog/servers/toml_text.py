"""Where does each part of a TOML text stand?

The standard library reads TOML, without places. The text is one that it has read: what is looked
for here is only where keys and values begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tool_engine.catalog.servers.json_text import Mark, mark_at
from tool_engine.catalog.yaml.document import Path

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TEXT: Final = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL
)
_OTHER: Final = re.compile(r"[^,\]}#\r\n]+")
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPED: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


class TOMLDocument:
    """A part of a TOML text, and where each part of it stands.

    Args:
        value: What the part says.
        text: The whole text.
        above: The keys that lead to the part.
    """

    has_text: Final = True

    def __init__(self, value: Any, text: str, above: Path = ()) -> None:
        self.value = value
        self._above = above
        self._places = _Reader(text).read()
        self._lines = [0, *(found.end() for found in re.finditer(r"\n", text))]

    def marks(self, places: Iterable[tuple[Path, bool]]) -> list[Mark]:
        """Return where keys and values stand; of one that is missing, what it is missing in."""
        return [self._find_mark((*self._above, *path), at_key=at_key) for path, at_key in places]

    def number_as_written(self, path: Path, mark: Any) -> None:
        """A number reads as it is written."""

    def read_comment(self, mark: Any) -> str:
        """Return nothing: a value is never empty."""
        return ""

    def find_key(self, path: Path) -> tuple[int, int]:
        """Return the line and the column of a key, counted from 1."""
        (mark,) = self.marks([(path, True)])
        return mark.line + 1, mark.column + 1

    def _find_mark(self, path: Path, *, at_key: bool) -> Mark:
        # A table has no value of its own: its key is where it begins.
        while path and (path, at_key) not in self._places:
            if not at_key and (path, True) in self._places:
                at_key = True
            else:
                path, at_key = path[:-1], True
        return mark_at(self._lines, self._places.get((path, at_key), 0))


class _Reader:
    """Notes where keys and values begin."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._places: dict[tuple[Path, bool], int] = {}
        self._counts: dict[Path, int] = {}
        """How many tables each list of tables has so far."""

    def read(self) -> dict[tuple[Path, bool], int]:
        table: Path = ()
        self._skip_match(_BLANK)
        while self._at < len(self._text):
            if self._begins_with("["):
                table = self._read_heading()
            else:
                self._read_pair(table)
            self._skip_match(_BLANK)
        return self._places

    def _read_heading(self) -> Path:
        is_list = self._text.startswith("[[", self._at)
        self._at += 2 if is_list else 1
        parts = self._read_key()
        self._at += 2 if is_list else 1
        path: Path = ()
        for number, (part, start) in enumerate(parts, 1):
            path = (*path, part)
            self._places.setdefault((path, True), start)
            if is_list and number == len(parts):
                self._counts[path] = self._counts.get(path, -1) + 1
            if path in self._counts:
                path = (*path, self._counts[path])
                self._places.setdefault((path, True), start)
        return path

    def _read_pair(self, table: Path) -> None:
        path = table
        for part, start in self._read_key():
            path = (*path, part)
            self._places.setdefault((path, True), start)
        self._at += 1
        self._skip_match(_SPACE)
        self._read_value(path)

    def _read_key(self) -> list[tuple[str, int]]:
        """Read a key with dots, and the space around it."""
        parts: list[tuple[str, int]] = []
        while True:
            self._skip_match(_SPACE)
            start = self._at
            word = self._take_match(_TEXT) or self._take_match(_BARE_KEY)
            parts.append((_read_word(word), start))
            self._skip_match(_SPACE)
            if not word or not self._begins_with("."):
                return parts
            self._at += 1

    def _read_value(self, path: Path) -> None:
        self._places[path, False] = self._at
        if self._begins_with("["):
            self._read_items(path)
        elif self._begins_with("{"):
            self._read_inline(path)
        elif not (self._take_match(_TEXT) or self._take_match(_OTHER)):
            self._at = len(self._text)  # no TOML after all

    def _read_items(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._has_more("]"):
            self._read_value((*path, number))
            number += 1

    def _read_inline(self, path: Path) -> None:
        self._at += 1
        while self._has_more("}"):
            self._read_pair(path)

    def _has_more(self, end: str) -> bool:
        """Pass over a comma, and return False behind the end."""
        self._skip_match(_BLANK)
        if self._begins_with(","):
            self._at += 1
            self._skip_match(_BLANK)
        if self._begins_with(end):
            self._at += 1
            return False
        return self._at < len(self._text)

    def _begins_with(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _take_match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _skip_match(self, pattern: re.Pattern[str]) -> None:
        self._take_match(pattern)


def _read_word(word: str) -> str:
    """Return a part of a key without its quotes."""
    if word.startswith("'"):
        return word[1:-1]
    return _ESCAPE.sub(_read_escape, word[1:-1]) if word.startswith('"') else word


def _read_escape(found: re.Match[str]) -> str:
    word = found[1]
    return chr(int(word[1:], 16)) if len(word) > 1 else _ESCAPED.get(word, word)
