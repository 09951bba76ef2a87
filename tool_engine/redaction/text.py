"""What of a text may be shown?"""

from __future__ import annotations

from typing import Final

from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.pairs import pair_spans
from tool_engine.redaction.shapes import shape_spans
from tool_engine.redaction.spelling import Span, merged

__all__ = ["HIDDEN", "hide_spans", "redact_text", "secret_spans"]

HIDDEN: Final = "[hidden]"
"""What stands in the place of a secret."""


def redact_text(text: str) -> str:
    """`text` with everything that looks like a secret, or is a resolved one, hidden.

    Takes time in proportion to the length of `text`, whatever it holds.
    """
    return hide_spans(text, secret_spans(text))


def secret_spans(text: str) -> list[Span]:
    """Where in `text` anything stands that `redact_text` hides."""
    # All are looked for in the text as it is: one that is hidden first may be a part of another.
    return [*known_secrets.spans(text), *shape_spans(text), *pair_spans(text)]


def hide_spans(text: str, spans: list[Span]) -> str:
    """`text` with `[hidden]` in the place of each of the spans, which may overlap."""
    if not spans:
        return text
    spans = merged(spans)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return HIDDEN.join(map(text.__getitem__, map(slice, (0, *ends), (*starts, len(text)))))
