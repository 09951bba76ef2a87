"""Which JSON objects are in a stream of one JSON array, or of concatenated objects?

`generateContent` streams an array unless it is asked for server-sent events. The array may be cut
anywhere: each object is returned as soon as it is whole.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = re.compile(r'["\\]')
_BETWEEN: Final = re.compile(r"[\s,\[\]]*")


class JSONDocuments:
    """A splitter of text into its JSON objects, in linear time."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._parts: list[str] = []
        self._depth = 0
        self._is_in_text = False
        self._is_escaped = False

    def feed(self, chunk: bytes | bytearray | memoryview | str) -> list[str]:
        """Return the completed objects, and stray text between them."""
        text = chunk if isinstance(chunk, str) else self._decoder.decode(bytes(chunk))
        found: list[str] = []
        place = 0
        while place < len(text):
            if self._depth == 0:
                place = self._read_between(text, place, found)
            if self._depth:
                place = self._read_object(text, place, found)
        return found

    def close(self) -> list[str]:
        """Return the rest: an unclosed object, or stray text."""
        rest = "".join((*self._parts, self._decoder.decode(b"", final=True)))
        self._parts, self._depth = [], 0
        return [rest] if rest.strip() else []

    def _read_between(self, text: str, place: int, found: list[str]) -> int:
        if not self._parts:
            separators = _BETWEEN.match(text, place)
            place = separators.end() if separators else place
        begin = text.find("{", place)
        other = text[place:] if begin < 0 else text[place:begin]
        if other:
            self._parts.append(other)
        if begin < 0:
            return len(text)
        if self._parts:
            found.append("".join(self._parts))
            self._parts = []
        self._depth = 1
        self._parts.append("{")
        return begin + 1

    def _read_object(self, text: str, place: int, found: list[str]) -> int:
        start = place
        while place < len(text):
            if self._is_escaped:
                self._is_escaped = False
                place += 1
                continue
            mark = (_INSIDE if self._is_in_text else _OUTSIDE).search(text, place)
            if mark is None:
                break
            place = mark.end()
            self._pass_mark(mark.group())
            if self._depth == 0:
                found.append("".join((*self._parts, text[start:place])))
                self._parts = []
                return place
        self._parts.append(text[start:])
        return len(text)

    def _pass_mark(self, mark: str) -> None:
        if mark == "\\":
            self._is_escaped = True
        elif mark == '"':
            self._is_in_text = not self._is_in_text
        else:
            self._depth += 1 if mark in "{[" else -1
