"""Where in a streamed reply do calls begin, and which of them are only quoted?

One scanner serves every text protocol. It reads each character once, whatever the parts are, and
holds back only what may still become a marker. A call counts where the model itself speaks: inside
`<think>`, fenced code, inline code and block quotes it is quoted.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final

from tool_engine.protocols.text.grammar import BlockReader, Grammar, Sink

_SLICE: Final = 4096
"""Characters that are read at a time, which bounds what is copied at a marker."""
_TICKS: Final = re.compile("`*")
_HELD: Final = re.compile("[`\r\n]")
_SPACE: Final = re.compile(r"[ \t]*")
_QUOTE: Final = re.compile(" {0,3}>")
_MOST_LEAD: Final = 4
_ITEM: Final = re.compile(r" *(?:[-*+]|[0-9]{1,9}[.)]) {1,4}")
_MOST_LOOKS: Final = 1000
"""The most searches for a list around an indented fence; after them one is assumed."""
_MOST_BEFORE: Final = 1024
"""Characters of earlier text that are searched for the list of an indented fence."""
_MOST_MARKS: Final = 10_000
"""The most backticks, tags and other marks outside of one another."""
_MOST_SPACE: Final = 1024
"""Characters of white space that are held back before a reply that may be one call."""


class Scanner:
    """A reader of one reply, slice by slice.

    Each mode is a method that takes the buffer and a place in it, and returns the place up to which
    it has read.
    """

    def __init__(
        self,
        grammar: Grammar,
        sink: Sink,
        *,
        skip_quoted: bool = True,
        is_thinking: bool = False,
        reads_whole: bool = False,
    ) -> None:
        self._grammar = grammar
        self._sink = sink
        self._buffer = "\n"
        self._offset = -1
        self._queue: deque[str] = deque()
        self._is_closed = False
        self._waits = False
        self._is_reported = False
        self._line_lead = ""
        self._spoken: deque[str] = deque(maxlen=_MOST_BEFORE)
        self._is_deep = False
        self._looks_left = _MOST_LOOKS
        self._run = 0
        self._fence_mark = "`"
        self._fence_length = 0
        self._span = 0
        self._span_start = 0
        self._may_be_fence = False
        self._held: list[str] = []
        self._held_before = ""
        self._held_from = 0
        self._line_runs: dict[int, int] = {}
        """For a line that was read to its end: run length -> where the last such run begins."""
        self._line_end = -1
        self._skips = skip_quoted
        self._pattern = grammar.text if skip_quoted else grammar.unquoted_text
        self._reads_whole = reads_whole
        self._is_blank = True
        self._marks_left = _MOST_MARKS
        self._depth = int(is_thinking)
        self._before_thought = "\n"
        self._region = 0
        self._reader: BlockReader | None = None
        first = self._read_lead if reads_whole else self._read_text
        self._mode: Callable[[str, int], int] = self._read_thought if is_thinking else first
        self._after_block = self._mode

    @property
    def is_in_thought(self) -> bool:
        return self._depth > 0

    def feed(self, text: str) -> None:
        if len(text) <= _SLICE:
            self._buffer += text
        else:
            self._queue.extend(_cut_slices(text))
        self._read_buffer()

    def close(self) -> None:
        self._is_closed = True
        self._read_buffer()
        while self._mode == self._read_held or self._reader is not None:
            if self._reader is None:
                self._close_hold()
            else:
                self._close_block(self._reader)
            self._read_buffer()

    def _read_buffer(self) -> None:
        while True:
            place, self._waits = 1, False
            while place < len(self._buffer) and not self._waits:
                place = self._mode(self._buffer, place)
            self._offset += place - 1
            self._buffer = self._buffer[place - 1 :]
            if not self._queue:
                return
            self._buffer += self._queue.popleft()

    def _put_back(self, before: str, text: str, place: int) -> int:
        self._queue.appendleft(self._buffer[place:])
        self._queue.extendleft(reversed(_cut_slices(text)))
        self._offset += place - len(text) - 1
        self._buffer = before
        return 1

    def _find_mark(self, pattern: re.Pattern[str], buffer: str, place: int) -> re.Match[str] | int:
        """Pass on text up to the next mark.

        Returns the mark; or, without one, the place up to which the buffer is read.
        """
        match = pattern.search(buffer, place)
        if match is None:
            self._pass_on(buffer[place:])
            return len(buffer)
        self._pass_on(buffer[place : match.start()])
        # Without a group the buffer ends inside of what may become a mark.
        return match if match.lastgroup is not None else self._wait_at(match.start())

    def _wait_at(self, place: int) -> int:
        """Hold back a possible marker until the reply goes on or ends."""
        if self._is_closed and not self._queue:
            self._pass_on(self._buffer[place])
            return place + 1
        self._waits = True
        return place

    def _keep_lead(self, text: str) -> None:
        start = max(text.rfind("\n"), text.rfind("\r")) + 1
        lead = "" if start else self._line_lead
        self._line_lead = lead + text[start : start + _MOST_LEAD - len(lead)]

    def _is_in_quote(self) -> bool:
        return _QUOTE.match(self._line_lead) is not None

    def _report_skip(self, region: str, position: int) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._sink.skip(region, position)

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
                self._reader, self._after_block = reader, self._read_text
                self._mode = self._read_block
        return place

    def _read_text(self, buffer: str, place: int) -> int:
        if buffer[place - 1] not in "\r\n" and not self._grammar.starts.search(buffer, place):
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

    # Code: by the rules of CommonMark, but that a code span ends on its line. A backtick that
    # nothing closes there is an ordinary character, except right before a block that the same
    # number follows.

    def _begin_run(self, match: re.Match[str]) -> int:
        self._pass_on(match[0])
        self._run = len(match[0].lstrip(" "))
        self._may_be_fence = match.string[match.start() - 1] in "\r\n"
        self._span_start = self._offset + match.end() - self._run
        self._mode = self._read_opening_run
        return match.end()

    def _read_opening_run(self, buffer: str, place: int) -> int:
        place = self._read_marks("`", buffer, place)
        if place < len(buffer):
            is_long = self._run >= 3
            self._is_deep = is_long and not self._may_be_fence and self._is_in_list()
            self._may_be_fence = is_long and (self._may_be_fence or self._is_deep)
            self._span, self._is_reported = self._run, False
            # The end of this line is not searched again for every backtick.
            is_known = self._span_start < self._line_end
            closer = self._line_runs.get(self._run, -1)
            is_plain = is_known and closer <= self._span_start
            self._mode = self._read_text if is_plain else self._read_code
        return place

    def _is_in_list(self) -> bool:
        """Return True if the run begins or continues a list item."""
        lines = "".join(self._spoken)[-_MOST_BEFORE:].splitlines()
        lead = lines.pop().rstrip("`")
        if _ITEM.fullmatch(lead):
            return True
        if not lead or lead.strip(" "):
            return False
        self._looks_left -= 1
        if self._looks_left < 0:
            return True
        while lines:
            line = lines.pop()
            item = _ITEM.match(line)
            if item is not None and item.end() <= len(lead):
                return len(lead) <= item.end() + 3
            is_paragraph = item is None and line[:1].strip() != ""
            if is_paragraph and (not lines or not lines[-1].strip()):
                return False
        return False

    def _read_code(self, buffer: str, place: int) -> int:
        """Read after backticks on their line: quoted if an equal run follows."""
        match = self._find_mark(self._grammar.span, buffer, place)
        if isinstance(match, int):
            return match
        start, kind = match.start(), match.lastgroup
        if kind == "ticks":
            self._pass_on(match[0])
            self._run, self._may_be_fence = len(match[0]), False
            self._mode = self._read_closing_run
            return match.end()
        if kind == "line":
            return self._end_line(start)
        self._held, self._mode, self._run, self._line_runs = [], self._read_held, 0, {}
        self._held_before, self._held_from = buffer[start - 1], self._offset + start
        return start

    def _read_closing_run(self, buffer: str, place: int) -> int:
        place = self._read_marks("`", buffer, place)
        if place < len(buffer):
            self._mode = self._read_text if self._run == self._span else self._read_code
        return place

    def _end_line(self, place: int) -> int:
        if self._may_be_fence:
            self._begin_fence("`", self._span)
        else:
            self._mode = self._read_text
        return place

    def _read_held(self, buffer: str, place: int) -> int:
        """Hold a marker that the rest of its line may quote."""
        end = _find_end(_TICKS, buffer, place)
        if end > place:
            self._held.append(buffer[place:end])
            self._run += end - place
            return end
        if self._run and self._end_held_run(place):
            return place
        if buffer[place] not in "\r\n":
            match = _HELD.search(buffer, place)
            end = len(buffer) if match is None else match.start()
            self._held.append(buffer[place:end])
            return end
        if self._may_be_fence:
            self._report_quoted("fenced code")
            return self._end_line(place)
        return self._release_held(place)

    def _end_held_run(self, place: int) -> bool:
        run, self._run, self._may_be_fence = self._run, 0, False
        self._line_runs[run] = self._offset + place - run
        if run == self._span:
            self._report_quoted("inline code")
            self._mode = self._read_text
        return run == self._span

    def _report_quoted(self, region: str) -> None:
        text = "".join(self._held)
        for found in self._grammar.unquoted_text.finditer(text):
            if found.lastgroup in self._grammar.openers:
                self._report_skip(region, self._held_from + found.start())
                break
        self._pass_on(text)

    def _release_held(self, place: int) -> int:
        """Release the held marker: nothing on its line closes the span."""
        self._mode = self._read_text
        self._line_end = self._offset + place
        return self._put_back(self._held_before, "".join(self._held), place)

    def _close_hold(self) -> None:
        """Settle a held marker when the reply ends on its line."""
        place = len(self._buffer)
        if self._run and self._end_held_run(place):
            return
        if self._may_be_fence:
            self._report_quoted("fenced code")
            self._mode = self._read_text
        else:
            self._release_held(place)

    def _begin_fence(self, mark: str, length: int) -> None:
        self._fence_mark, self._fence_length = mark, length
        self._is_deep = self._is_deep and mark == "`"
        self._mode, self._is_reported = self._read_fence, False

    def _read_fence_head(self, buffer: str, place: int) -> int:
        """Read after three tildes, which begin fenced code whatever follows."""
        end = self._read_marks("~", buffer, place)
        if end < len(buffer):
            self._begin_fence("~", self._run)
        return end

    def _read_fence(self, buffer: str, place: int) -> int:
        fences = self._grammar.deep_fences if self._is_deep else self._grammar.fences
        match = self._find_mark(fences[self._fence_mark][self._is_reported], buffer, place)
        if isinstance(match, int):
            return match
        self._pass_on(match[0])
        if match.lastgroup == "end":
            self._run, self._mode = 1, self._read_fence_run
        else:
            self._report_skip("fenced code", self._offset + match.start())
        return match.end()

    def _read_fence_run(self, buffer: str, place: int) -> int:
        end = self._read_marks(self._fence_mark, buffer, place)
        if end < len(buffer):
            self._mode = (
                self._read_fence_rest if self._run >= self._fence_length else self._read_fence
            )
        return end

    def _read_marks(self, mark: str, buffer: str, place: int) -> int:
        end = place
        while end < len(buffer) and buffer[end] == mark:
            end += 1
        self._pass_on(buffer[place:end])
        self._run += end - place
        return end

    def _read_fence_rest(self, buffer: str, place: int) -> int:
        """Read after a possible closing fence, which only space may follow."""
        end = _find_end(_SPACE, buffer, place)
        self._pass_on(buffer[place:end])
        if end < len(buffer):
            self._mode = self._read_text if buffer[end] in "\r\n" else self._read_fence
        return end


def _cut_slices(text: str) -> list[str]:
    return [text[start : start + _SLICE] for start in range(0, len(text), _SLICE)]


def _find_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return place if match is None else match.end()
