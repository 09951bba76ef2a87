"""How are secrets in a text found and hidden?"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.shapes import SHORTEST_WORD, shape_spans
from tool_engine.redaction.spelling import Span, merge_spans

HIDDEN: Final = "[hidden]"
"""The text that replaces a secret."""


def redact_text(text: str) -> str:
    """Return `text` with everything that looks like or is a known secret hidden.

    Takes time in proportion to the length of `text`, whatever it holds.
    """
    if len(text) < SHORTEST_WORD and text.isalnum() and not len(known_secrets):
        return text
    return hide_spans(text, secret_spans(text))


def secret_spans(text: str) -> list[Span]:
    """Return the spans of `text` that `redact_text` hides."""
    # Its patterns take long to compile: a program that hides nothing does not wait for them.
    pairs = import_module("tool_engine.redaction.pairs").pair_spans(text)
    # All are searched in the original text: hiding one first could break up another.
    return [*known_secrets.spans(text), *shape_spans(text), *pairs]


def hide_spans(text: str, spans: list[Span]) -> str:
    """Return `text` with `[hidden]` for each span; spans may overlap."""
    if not spans:
        return text
    spans = merge_spans(spans)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return HIDDEN.join(map(text.__getitem__, map(slice, (0, *ends), (*starts, len(text)))))
