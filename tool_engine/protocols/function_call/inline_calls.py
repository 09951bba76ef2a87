"""Is an object in the middle of a line a call, or a part of what the line says?"""

from __future__ import annotations

from tool_engine.protocols.function_call.call_readers import ObjectReader
from tool_engine.protocols.function_call.item_calls import TagDecoder
from tool_engine.protocols.function_call.json_tracker import END_TAG, START_TAG


class InlineReader(ObjectReader):
    """A reader of an object in a line, which a call must end."""

    def __init__(self, decoder: TagDecoder, marker: str, position: int) -> None:
        super().__init__(decoder, marker, position)
        self._text = ""
        self._is_over = False

    def _take_name(self, name: str) -> None:
        self._calls.see_name(name)

    def _take_item(self, text: str) -> None:
        self._text = text

    def feed(self, text: str, start: int) -> int:
        """Take `text` from `start`; return where the line ends, or -1."""
        place = start
        while not self._is_over:
            place = self._tracker.feed(text, place)
            if place < 0:
                return -1
            tag = self._tracker.tag
            self._is_over = tag is None
            if tag is not None:
                self._tracker.take(END_TAG if tag == "end" else START_TAG)
        end = place
        while end < len(text) and text[end] in " \t":
            end += 1
        self._tracker.raw.append(text[place:end])
        if end == len(text):
            return -1
        if text[end] in "\r\n":
            self._end_call()
        else:
            self._decoder.refuse_inline(self._position)
            self.returned = self._join_raw()
        return end

    def close(self) -> None:
        if self._is_over:
            self._end_call()
        else:
            super().close()

    def _end_call(self) -> None:
        self._calls.open_item()
        self._calls.take(self._text)
        self._finish_block(None)


class QuotedReader:
    """A reader that gives an apparent call back as text."""

    def __init__(self, marker: str) -> None:
        self.returned: str | None = None
        self._marker = marker

    def feed(self, text: str, start: int) -> int:
        self.returned = self._marker
        return start

    def close(self) -> None:
        self.returned = self._marker
