"""How are secrets in a text found and hidden?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Final

from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.shapes import SHORTEST_WORD, shape_spans
from tool_engine.redaction.spelling import Span, merge_spans

HIDDEN: Final = "[hidden]"
"""The text that replaces a secret."""
_WORDS: Final = re.compile(r"[A-Za-z0-9 ]*")


def redact_text(text: str) -> str:
    """Return `text` with everything that looks like or is a known secret hidden.

    Takes time in proportion to the length of `text`, whatever it holds.
    """
    if len(text) < SHORTEST_WORD and not len(known_secrets):
        # Most texts of a table are a word or a few.
        if text.isalnum():
            return text
        if _WORDS.fullmatch(text) and not ("asic " in text or "earer " in text):
            return text
    return hide_spans(text, secret_spans(text))


def secret_spans(text: str) -> list[Span]:
    """Return the spans of `text` that `redact_text` hides."""
    # All are searched in the original text: hiding one first could break up another.
    pairs = _load_pairs()(text)
    return [*known_secrets.spans(text), *shape_spans(text), *pairs]


@cache
def _load_pairs() -> Callable[[str], Iterable[Span]]:
    # Its patterns take long to compile: a program that hides nothing does not wait for them.
    find: Callable[[str], Iterable[Span]] = import_module("tool_engine.redaction.pairs").pair_spans
    return find


def hide_spans(text: str, spans: list[Span]) -> str:
    """Return `text` with `[hidden]` for each span; spans may overlap."""
    if not spans:
        return text
    spans = merge_spans(spans)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return HIDDEN.join(map(text.__getitem__, map(slice, (0, *ends), (*starts, len(text)))))
