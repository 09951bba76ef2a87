"""Which parameters are in a block of VCP, and is it whole?"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from tool_engine.protocols.vcp.vcp_markers import BETWEEN, CLOSERS, unescape_marks

_KEY: Final = re.compile(r"[A-Za-z0-9_-]+(?::[A-Za-z0-9_]+)?")
_RESERVED_WITH_COLON: Final = re.compile(r"(?:ink|vref|river):[A-Za-z0-9_]+")
_KEY_LIKE: Final = re.compile(r"[A-Za-z0-9_-][\"']?\s{0,8}[:：=]")
_LOST: Final = re.compile(r"[A-Za-z0-9_-]\s{0,8}[:：]\s{0,8}「始")
_MOST_KEY: Final = 256
_SHOWN: Final = 60
# Results for a model show no marks, so there are none here.
_FORM: Final = "write every parameter as its name, a colon, and its value between its two marks"


class Field(NamedTuple):
    key: str
    value: str


class Block(NamedTuple):
    fields: list[Field]
    raw: str
    repairs: list[str]
    notes: list[str]
    error: str | None
    is_cut: bool


class BlockListener(Protocol):
    """A listener to a block while it is read."""

    def open_field(self, key: str) -> None:
        """Begin a parameter's value."""

    def add_field(self, field: Field) -> None:
        """Take a whole parameter."""

    def add_raw(self, text: str) -> None:
        """Take the next part of the block, without its marks."""

    def end(self, block: Block) -> None:
        """End the block."""

    def return_marker(self) -> None:
        """Give back the first mark as text."""


class VCPMarks(NamedTuple):
    between: re.Pattern[str] = BETWEEN
    closers: dict[str, re.Pattern[str]] = CLOSERS
    is_fuzzy: bool = False


class VCPBlockReader:
    """A linear reader of one block, from after its first mark."""

    def __init__(self, marker: str, listener: BlockListener, marks: VCPMarks) -> None:
        self.returned: str | None = None
        self._listener = listener
        self._marks = marks
        self._raw = [marker]
        self._part: list[str] = []
        self._tail = ""
        """Text that may be the beginning of a mark."""
        self._key: str | None = None
        self._kind = "plain"
        self._fields: list[Field] = []
        self._repairs: list[str] = []
        self._notes: list[str] = []
        self._errors: list[str] = []
        self._end_mark: str | None = None
        """The end mark that was read, which more `>` may follow."""
        self._most_more = 2

    def feed(self, text: str, start: int) -> int:
        held = len(self._tail)
        text, place = self._tail + text[start:], 0
        self._tail = ""
        while self._end_mark is None:
            is_between = self._key is None
            pattern = self._marks.between if is_between else self._marks.closers[self._kind]
            match = pattern.search(text, place)
            end = len(text) if match is None else match.start()
            if end > place:
                self._take_text(text[place:end])
            if match is None or match.lastgroup is None:
                self._tail = text[end:]
                return -1
            place = match.end()
            if match.lastgroup == "start":
                self._begin_other(match[0])
                return start + place - held
            if match.lastgroup == "end":
                self._end_mark = match[0]
            else:
                self._take_mark(match)
        place = self._end_with_more(text, place)
        return -1 if place < 0 else start + place - held

    def _end_with_more(self, text: str, place: int) -> int:
        """End the block, with up to two `>` too many."""
        while self._marks.is_fuzzy and self._most_more:
            if place == len(text):
                return -1
            if text[place] != ">":
                break
            place += 1
            self._most_more -= 1
        self._end_block(self._end_mark or "")
        return place

    def _begin_other(self, mark: str) -> None:
        """End this block, as another one begins before it was closed."""
        if self._fields:
            self.returned = mark
            self._end_block(mark, is_start=True)
        else:
            self._give_back(mark)

    def _give_back(self, rest: str) -> None:
        """Give the block back: a mention of the mark calls nothing."""
        self.returned = "".join([*self._raw[1:], rest])
        self._listener.return_marker()

    def close(self) -> None:
        if self._end_mark is not None:
            self._end_block(self._end_mark)
        elif self._fields or self._key is not None:
            if self._tail:
                self._take_text(self._tail)
            self._end_block("")
        else:
            self._give_back(self._tail)

    def _take_text(self, text: str) -> None:
        self._raw.append(text)
        self._part.append(text)
        self._listener.add_raw(text)

    def _take_mark(self, match: re.Match[str]) -> None:
        part, self._part = "".join(self._part), []
        self._raw.append(match[0])
        self._listener.add_raw(match[0])
        if match.lastgroup != "close":
            self._open_value(part, match)
            return
        assert self._key is not None  # noqa: S101 - only a value has a closing mark
        value = unescape_marks(part) if self._kind == "escape" else part
        self._check_value(self._key, part)
        if self._kind == "fuzzy" or (self._kind == "plain" and match[0] != "「末」"):
            self._note_repair(f"the marks of {self._key!r} were read as 「始」 and 「末」")
        field, self._key = Field(self._key, value), None
        self._fields.append(field)
        self._listener.add_field(field)

    def _open_value(self, part: str, match: re.Match[str]) -> None:
        kind = str(match.lastgroup)
        rest, key = self._split_key(part)
        self._check_between(rest)
        if key is None:
            self._errors.append(f"a value has no name before {match[0]}; {_FORM}")
        self._kind = kind
        self._key = key or ""
        if key:
            self._listener.open_field(key)

    def _split_key(self, part: str) -> tuple[str, str | None]:
        bare = part.rstrip()
        if not bare.endswith((":", "：")):
            return part, None
        if bare.endswith("："):
            self._note_repair("the wide colon ： was read as :")
        bare = bare[:-1].rstrip()
        match = _KEY.match(bare[::-1])
        if match is None:
            return bare, None
        key = match[0][::-1]
        if len(key) > _MOST_KEY:
            self._errors.append(f"the name of a parameter has {len(key)} characters")
            return "", key[:_MOST_KEY]
        if ":" in key and _RESERVED_WITH_COLON.fullmatch(key) is None:
            key = key.rpartition(":")[2]
        return bare[: len(bare) - len(key)], key

    def _check_between(self, text: str) -> None:
        rest = text.strip(" \t\r\n,;，；、>" if self._marks.is_fuzzy else " \t\r\n,;，；、")
        if not rest:
            return
        shown = rest if len(rest) <= _SHOWN else rest[:_SHOWN] + "…"
        if "「" in rest or "」" in rest or _KEY_LIKE.search(rest):
            self._errors.append(
                f"the block holds {shown!r}, which is no parameter: a value was cut short, or its "
                f"marks are missing; {_FORM}, and a value that holds marks itself between the "
                "ESCAPE marks"
            )
        else:
            self._notes.append(f"the block holds {shown!r}, which is no parameter: left out")

    def _check_value(self, key: str, value: str) -> None:
        if self._kind == "plain" and (found := _LOST.search(value)):
            self._errors.append(
                f"the value of {key!r} has no end before the next parameter, at {found[0]!r}; "
                "close every value with its end mark"
            )

    def _note_repair(self, sentence: str) -> None:
        if sentence not in self._repairs:
            self._repairs.append(sentence)

    def _end_block(self, mark: str, *, is_start: bool = False) -> None:
        """End the block at a mark, another block or the reply's end."""
        is_cut = is_start or not mark
        if self._key is not None:
            where = "the end of the block" if mark else "the reply ended"
            self._errors.insert(
                0,
                f"the value of {self._key!r} was not closed before {where}, so the call was not "
                "run; write it again, and a value that holds marks itself between the ESCAPE marks",
            )
            is_cut = True
        else:
            self._check_between("".join(self._part))
            if is_cut:
                self._errors.insert(
                    0,
                    "the block was not closed with its end mark, so the call was not run; write it "
                    "again",
                )
        if mark and not is_start:
            self._raw.append(mark)
        raw, error = "".join(self._raw), "; ".join(self._errors) or None
        block = Block(self._fields, raw, self._repairs, self._notes, error, is_cut)
        self._listener.end(block)
