"""What does a JSON file say that a person writes, and on which line?

Comments and a comma behind the last entry are allowed, as the editors do that such files are
written for. A key that stands twice is an error.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, NoReturn

from tool_engine.catalog.limits import MAX_BYTES
from tool_engine.catalog.yaml.document import Path
from tool_engine.errors import DefinitionError, DefinitionProblem

_TOKEN: Final = re.compile(
    r"""
    (?P<text> "(?:[^"\\\r\n]|\\.)*" )
  | (?P<comment> //[^\r\n]* | /\*.*?\*/ )
  | (?P<mark> [\[\]{},:] )
  | (?P<space> [\ \t\r\n]+ )
  | (?P<other> [^\s\[\]{},:"/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_MOST_DEEP: Final = 100


class Mark(NamedTuple):
    """A place, counted from 0."""

    line: int
    column: int


class JSONDocument:
    """The value of a text, and where each part of it stands."""

    def __init__(self, value: Any, text: str, places: dict[tuple[Path, bool], int]) -> None:
        self.value = value
        self.has_text = bool(text)
        self._places = places
        self._lines = [0, *(found.end() for found in re.finditer(r"\n", text))]

    def marks(self, places: Iterable[tuple[Path, bool]]) -> list[Mark]:
        """Return where keys and values stand; of one that is missing, what it is missing in."""
        return [self._find_mark(path, at_key=at_key) for path, at_key in places]

    def number_as_written(self, path: Path, mark: Any) -> None:
        """A number of JSON reads as it is written."""

    def read_comment(self, mark: Any) -> str:
        """Return nothing: a value is never empty."""
        return ""

    def _find_mark(self, path: Path, *, at_key: bool) -> Mark:
        while path and (path, at_key) not in self._places:
            path, at_key = path[:-1], True
        return mark_at(self._lines, self._places.get((path, at_key), 0))


def mark_at(lines: list[int], offset: int) -> Mark:
    line = bisect_right(lines, offset) - 1
    return Mark(line, offset - lines[line])


def read_json(data: bytes, source: str) -> JSONDocument:
    """Return what a file says.

    Raises:
        DefinitionError: It is no JSON; says where.
    """
    if len(data) > MAX_BYTES:
        _refuse_file(source, f"the file has {len(data)} bytes; it may have {MAX_BYTES}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse_file(source, f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8")
    if not text.strip():
        _refuse_file(source, 'the file is empty; write servers into it: {"mcpServers": {...}}')
    places: dict[tuple[Path, bool], int] = {}
    reader = _Reader(text, source, places)
    plain = reader.read()
    try:
        value = json.loads(plain, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reader.refuse(error.pos, f"this is no JSON: {error.msg}; correct it")
    except (ValueError, RecursionError) as error:
        _refuse_file(source, f"this is no JSON: {error}; correct it")
    return JSONDocument(value, text, places)


class _Reader:
    """Notes where keys and values stand, and blanks out what JSON itself does not have."""

    def __init__(self, text: str, source: str, places: dict[tuple[Path, bool], int]) -> None:
        self._text = text
        self._source = source
        self._places = places
        self._open: list[list[Any]] = []
        """Of each list and mapping around this place: its key or number, and what was seen."""

    def read(self) -> str:
        """Return the text as JSON has it, of the same length."""
        plain = list[str]()
        comma: int | None = None
        before: tuple[str, int, str] | None = None
        self._note_value(0)
        for kind, start, text in self._list_tokens():
            if kind == "comment":
                plain.append(re.sub(r"[^\r\n]", " ", text))
                continue
            plain.append(text)
            if kind == "space":
                continue
            if text in ("}", "]") and comma is not None:
                plain[comma] = " "
            comma = len(plain) - 1 if text == "," else None
            # Only what follows a text says whether it is a key.
            if before is not None:
                self._take_token(*before, is_key=before[0] == "text" and text == ":")
            before = kind, start, text
        if before is not None:
            self._take_token(*before, is_key=False)
        return "".join(plain)

    def refuse(self, offset: int, message: str) -> NoReturn:
        lines = [0, *(found.end() for found in re.finditer(r"\n", self._text))]
        mark = mark_at(lines, min(offset, len(self._text)))
        _refuse_file(self._source, message, mark.line + 1, mark.column + 1)

    def _list_tokens(self) -> Iterator[tuple[str, int, str]]:
        at = 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                what = "a text that does not end" if self._text[at] == '"' else "no JSON"
                self.refuse(at, f"this is {what}; correct it")
            yield str(found.lastgroup), at, found[0]
            at = found.end()

    def _take_token(self, kind: str, start: int, text: str, *, is_key: bool) -> None:
        if text in ("{", "["):
            self._note_value(start)
            if len(self._open) >= _MOST_DEEP:
                self.refuse(start, f"it is more than {_MOST_DEEP} levels deep; make it flatter")
            self._open.append(["" if text == "{" else 0, set()])
        elif text in ("}", "]") and kind == "mark":
            if self._open:
                self._open.pop()
        elif text == "," and kind == "mark":
            if self._open and isinstance(self._open[-1][0], int):
                self._open[-1][0] += 1
        elif is_key and self._open and isinstance(self._open[-1][0], str):
            self._take_key(start, text)
        elif kind != "mark":
            self._note_value(start)

    def _take_key(self, start: int, text: str) -> None:
        try:
            key = json.loads(text)
        except json.JSONDecodeError as error:
            self.refuse(start, f"this is no JSON: {error.msg}; correct it")
        if key in self._open[-1][1]:
            self.refuse(start, f"the key {key[:80]!r} stands here a second time; remove one")
        self._open[-1][0] = key
        self._open[-1][1].add(key)
        self._places[(self._find_path(), True)] = start

    def _note_value(self, start: int) -> None:
        self._places[(self._find_path(), False)] = start

    def _find_path(self) -> Path:
        return tuple(each[0] for each in self._open)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _refuse_file(
    source: str, message: str, line: int | None = None, column: int | None = None
) -> NoReturn:
    cure = message.rpartition("; ")[2]
    raise DefinitionError(DefinitionProblem(message, source, line, column, cure=cure))
