"""Where in a reply do calls in tags or in JSON begin, and which objects are only quoted?"""

from __future__ import annotations

import re
from typing import Final

from tool_engine.protocols.function_call.call_readers import ObjectReader, ReplyReader, TagReader
from tool_engine.protocols.function_call.item_calls import TagDecoder
from tool_engine.protocols.function_call.json_tracker import START_TAG
from tool_engine.protocols.text.grammar import LINE_START, BlockReader, Grammar, make_literal
from tool_engine.protocols.text.text_protocol import TextProtocol

_SPACE: Final = r"\s{0,16}"


def _match_words(words: tuple[str, ...]) -> str:
    """Return an atom for one of several words, complete or cut off."""
    parts = [*words, *(f"{word[:end]}\\Z" for word in words for end in range(1, len(word)))]
    return f"(?:{'|'.join(parts)})"


_KEY: Final = [_SPACE, '"', _match_words(("tool_name", "function_call")), '"', _SPACE, ":"]
_GRAMMAR: Final = Grammar(
    {
        "tag": make_literal(START_TAG),
        "object": [LINE_START + r"(?:[ \t]{1,8}|(?=\{))", r"\{", *_KEY],
        # Text that was given back is read again after a `>`.
        "inline": [r"(?<!>)\{", *_KEY],
    },
    starts="<{",
)
"""A tag anywhere, and the start of a JSON call. D10, D13."""
_IN_JSON: Final = re.compile(r"""(?:\[|"\s*:|["}\]]\s*,)\s*$""")
"""The end of a text after which an object belongs to other JSON."""
_IN_QUOTES: Final = re.compile(r"""["'“‘「『(\[{\\A-Za-z0-9_]$""")
"""The end of a text after which an object in the same line is quoted."""
_BEFORE: Final = 32


class InlineReader(ObjectReader):
    """A reader of an object that ends its line, if a call."""

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
                self._tracker.take_tag()
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


class FunctionCallDecoder(TagDecoder):
    def __init__(self, protocol: TextProtocol) -> None:
        super().__init__(protocol, _GRAMMAR, reads_whole=True)

    def open(self, marker: str, text: str, position: int) -> BlockReader:
        if marker == "tag":
            return TagReader(self, text, position)
        before = self._find_text_before()
        is_quoted = marker == "inline" and _IN_QUOTES.search(before)
        if self.has_refused_enough and marker == "inline":
            return QuotedReader(text)
        if is_quoted or _IN_JSON.search(before):
            self.refuse_inline(position)
            return QuotedReader(text)
        reader = ObjectReader if marker == "object" else InlineReader
        return reader(self, text, position)

    def _find_text_before(self) -> str:
        before = ""
        for part in reversed(self.builder.text):
            before = part[-_BEFORE:] + before
            if len(before) >= _BEFORE:
                break
        return before[-_BEFORE:]

    def open_reply(self) -> BlockReader | None:
        return ReplyReader(self)
