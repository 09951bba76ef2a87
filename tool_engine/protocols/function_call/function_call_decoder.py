"""Where in a reply do calls in tags or in JSON begin?"""

from __future__ import annotations

import re
from typing import Final

from tool_engine.protocols.function_call.call_readers import ObjectReader, ReplyReader, TagReader
from tool_engine.protocols.function_call.inline_calls import InlineReader, QuotedReader
from tool_engine.protocols.function_call.item_calls import TagDecoder
from tool_engine.protocols.function_call.json_tracker import START_TAG
from tool_engine.protocols.text.grammar import LINE_START, BlockReader, Grammar, literal
from tool_engine.protocols.text.text_protocol import TextProtocol

_SPACE: Final = r"\s{0,16}"


def _match_words(words: tuple[str, ...]) -> str:
    """Return an atom for one of several words, complete or cut off."""
    parts = [*words, *(f"{word[:end]}\\Z" for word in words for end in range(1, len(word)))]
    return f"(?:{'|'.join(parts)})"


_KEY: Final = [_SPACE, '"', _match_words(("tool_name", "function_call")), '"', _SPACE, ":"]
_GRAMMAR: Final = Grammar(
    {
        "tag": literal(START_TAG),
        "object": [LINE_START + r"(?:[ \t]{1,8}|(?=\{))", r"\{", *_KEY],
        # Text that was given back is read again after a `>`.
        "inline": [r"(?<!>)\{", *_KEY],
    },
    hot="<{",
)
"""A tag anywhere, and the start of a JSON call. D10, D13."""
_IN_JSON: Final = re.compile(r"""(?:\[|"\s*:|["}\]]\s*,)\s*$""")
"""The end of a text after which an object belongs to other JSON."""
_IN_QUOTES: Final = re.compile(r"""["'“‘「『(\[{\\A-Za-z0-9_]$""")
"""The end of a text after which an object in the same line is quoted."""
_BEFORE: Final = 32


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
