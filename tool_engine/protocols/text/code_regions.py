"""Which parts of a reply are code, so that a call in them is only quoted?

By the rules of CommonMark, but that a code span ends on its line: a backtick that nothing closes
there is an ordinary character, except right before a block that the same number follows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final

from tool_engine.protocols.text.grammar import Grammar, Sink

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


class CodeRegions(ABC):
    """A reader that finds the code in a reply, slice by slice.

    Each mode is a method that takes the buffer and a place in it, and returns the place up to which
    it has read.
    """

    def __init__(self, grammar: Grammar, sink: Sink) -> None:
        self._grammar = grammar
        self._sink = sink
        self._buffer = "\n"
        self._offset = -1
        self._queue: deque[str] = deque()
        self._is_closed = False
        self._waits = False
        self._mode: Callable[[str, int], int] = self._read_text
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

    @abstractmethod
    def _read_text(self, buffer: str, place: int) -> int:
        """Read outside of every region."""

    @abstractmethod
    def _pass_on(self, text: str) -> None:
        """Pass text on."""

    def _take_text(self, text: str) -> None:
        if len(text) <= _SLICE:
            self._buffer += text
        else:
            self._queue.extend(_cut_slices(text))
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
