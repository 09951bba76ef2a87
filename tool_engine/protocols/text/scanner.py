"""Where in a streamed reply do calls begin, and which of them are only quoted?

One scanner serves every text protocol. It reads each character once, whatever the parts are, and
holds back only what may still become a marker. A call counts where the model itself speaks: inside
`<think>`, fenced code, inline code and block quotes it is quoted.
"""

from __future__ import annotations

import re
from typing import Final

from tool_engine.protocols.text.code_regions import CodeRegions
from tool_engine.protocols.text.grammar import BlockReader, Grammar, Sink

_MOST_MARKS: Final = 10_000
"""The most backticks, tags and other marks outside of one another."""
_MOST_SPACE: Final = 1024
"""Characters of white space that are held back before a reply that may be one call."""


class Scanner(CodeRegions):
    """A reader of one reply."""

    def __init__(
        self,
        grammar: Grammar,
        sink: Sink,
        *,
        skip_quoted: bool = True,
        is_thinking: bool = False,
        reads_whole: bool = False,
    ) -> None:
        super().__init__(grammar, sink)
        self._skips = skip_quoted
        self._pattern = grammar.text if skip_quoted else grammar.unquoted_text
        self._reads_whole = reads_whole
        self._is_blank = True
        self._marks_left = _MOST_MARKS
        self._depth = int(is_thinking)
        self._before_thought = "\n"
        self._region = 0
        self._reader: BlockReader | None = None
        if is_thinking:
            self._mode = self._read_thought
        else:
            self._mode = self._read_lead if reads_whole else self._read_text
        self._after_block = self._mode

    @property
    def is_in_thought(self) -> bool:
        return self._depth > 0

    def feed(self, text: str) -> None:
        self._take_text(text)

    def close(self) -> None:
        self._is_closed = True
        self._read_buffer()
        while self._mode == self._read_held or self._reader is not None:
            if self._reader is None:
                self._close_hold()
            else:
                self._close_block(self._reader)
            self._read_buffer()

    def _pass_on(self, text: str) -> None:
        if not text:
            return
        if self._depth:
            self._sink.add_reasoning(text)
            return
        if self._is_blank and not text.isspace():
            self._is_blank = False
        self._spoken.append(text)
        self._keep_lead(text)
        self._sink.add_text(text)

    def _read_lead(self, buffer: str, place: int) -> int:
        end = place
        while end < len(buffer) and buffer[end].isspace():
            end += 1
        is_short = end - place < _MOST_SPACE
        if end == len(buffer) and is_short and not (self._is_closed and not self._queue):
            self._waits = True
            return place
        self._mode = self._read_text
        if end < len(buffer) and is_short and buffer[end] in "{[`~":
            reader = self._sink.open_reply()
            if reader is not None:
                self._reader, self._mode, self._after_block = (
                    reader,
                    self._read_block,
                    self._read_text,
                )
        return place

    def _read_text(self, buffer: str, place: int) -> int:
        if buffer[place - 1] not in "\r\n" and not self._grammar.hot.search(buffer, place):
            self._pass_on(buffer[place:])
            return len(buffer)
        match = self._find_mark(self._pattern, buffer, place)
        if isinstance(match, int):
            return match
        start, end = match.span()
        kind = str(match.lastgroup)
        self._marks_left -= 1
        if self._marks_left < 0:
            self._mode = self._read_rest
            self._sink.give_up(self._offset + start)
            return start
        if kind == "ticks":
            return self._begin_run(match)
        if kind in self._grammar.openers:
            self._begin_block(kind, match)
        elif kind == "think":
            self._before_thought = buffer[start - 1]
            self._depth, self._mode, self._is_reported = 1, self._read_thought, False
        elif kind == "thought":
            self._sink.end_unbegun_thought(self._offset + start)
        else:
            self._begin_region(kind, match[0])
        return end

    def _read_rest(self, buffer: str, place: int) -> int:
        """Pass on the rest without calls, after too many marks."""
        self._pass_on(buffer[place:])
        return len(buffer)

    def _begin_region(self, kind: str, marker: str) -> None:
        self._pass_on(marker)
        if kind == "tildes":
            self._mode, self._run = self._read_fence_head, 3
        else:
            self._mode, self._is_reported = self._read_quote, False
            self._region = int(kind.removeprefix("quote"))

    def _begin_block(self, kind: str, match: re.Match[str]) -> None:
        if self._skips and self._is_in_quote():
            self._sink.skip("a block quote", self._offset + match.start())
            self._pass_on(match[0])
        else:
            self._open_block(kind, match)

    def _open_block(self, kind: str, match: re.Match[str]) -> None:
        self._is_blank = False
        # Text after the block does not begin a line.
        self._keep_lead(".")
        self._after_block = self._read_thought if self._depth else self._read_text
        self._reader = self._sink.open(kind, match[0], self._offset + match.start())
        self._mode = self._read_block

    def _read_block(self, buffer: str, place: int) -> int:
        reader = self._reader
        assert reader is not None  # noqa: S101 - the mode is entered with a reader
        end = reader.feed(buffer, place)
        if reader.returned is not None:
            return self._read_again(reader, len(buffer) if end < 0 else end)
        if end < 0:
            return len(buffer)
        self._mode, self._reader = self._after_block, None
        return end

    def _close_block(self, reader: BlockReader) -> None:
        reader.close()
        self._read_again(reader, len(self._buffer))

    def _read_again(self, reader: BlockReader, place: int) -> int:
        self._mode, self._reader = self._after_block, None
        before = "\n" if self._is_blank else ">"
        return self._put_back(before, reader.returned or "", place)

    def _read_thought(self, buffer: str, place: int) -> int:
        is_silent = self._skips and self._is_reported
        match = self._find_mark(self._grammar.thoughts[is_silent], buffer, place)
        if isinstance(match, int):
            return match
        start, end = match.span()
        kind = str(match.lastgroup)
        if kind in self._grammar.openers:
            if not self._skips:
                self._open_block(kind, match)
                return end
            self._report_skip("a think tag", self._offset + start)
        else:
            self._depth += 1 if kind == "think" else -1
        if self._depth:
            self._pass_on(match[0])
            return end
        self._mode = self._read_lead if self._reads_whole and self._is_blank else self._read_text
        return self._put_back(self._before_thought, "", end)

    def _read_quote(self, buffer: str, place: int) -> int:
        pattern = self._grammar.regions[self._region][self._is_reported]
        match = self._find_mark(pattern, buffer, place)
        if isinstance(match, int):
            return match
        self._pass_on(match[0])
        if match.lastgroup == "unquote":
            self._mode = self._read_text
        else:
            self._report_skip("an escaped block", self._offset + match.start())
        return match.end()
