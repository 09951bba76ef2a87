"""How are secrets in a text found and hidden, and where may it be cut without half of one?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Final

from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.shapes import SHORTEST_WORD, shape_spans
from tool_engine.redaction.spelling import Span, merge_spans

HIDDEN: Final = "[hidden]"
"""The text that replaces a secret."""
_WORDS: Final = re.compile(r"[A-Za-z0-9 ]*")
_WINDOW: Final = 4_096
"""Characters on each side of a cut that are checked; private keys are about as long."""
_NEAR: Final = 64
"""Characters up to which the next place is twice as far, and four times as far from there on."""
_LONGEST_QUOTE: Final = 80
"""Characters of a text that a message repeats."""
_MOST_READ: Final = 4_096
"""Read before cutting, so that a longer secret is still recognized as a whole."""


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


def splits_secret(text: str, place: int, hide: Callable[[str], str] = redact_text) -> bool:
    """Return True if a cut before `place` splits something that is hidden.

    `hide` hides what is secret here, such as `OwnSecrets.text`.
    """
    before = text[max(0, place - _WINDOW) : place]
    behind = text[place : place + _WINDOW]
    around = before + behind
    hidden = hide(around)
    # Mostly there is nothing to hide, and so nothing to split: one search says it.
    return hidden != around and hidden != hide(before) + hide(behind)


def place_to_cut(
    text: str, place: int, step: int = -1, hide: Callable[[str], str] = redact_text
) -> int:
    """Return a place near `place` where a cut splits nothing hidden, such as the end of a line.

    Args:
        text: The text to cut.
        place: The place wanted.
        step: -1 to look before `place`, 1 to look behind it.
        hide: Hides what is secret here, such as `OwnSecrets.text`.
    """
    if not 0 < place < len(text) or not splits_secret(text, place, hide):
        return min(max(place, 0), len(text))
    # A line ends near most places, and hardly ever within a secret.
    start = max(0, place - _WINDOW)
    line = 1 + (text.rfind("\n", start, place) if step < 0 else text.find("\n", place))
    if 0 < abs(place - line) <= _WINDOW and line and not splits_secret(text, line, hide):
        return line
    # Each look takes milliseconds where the text is full of secrets.
    while True:
        place = min(max(place + step, 0), len(text))
        if not 0 < place < len(text) or not splits_secret(text, place, hide):
            return place
        step *= 2 if abs(step) < _NEAR else 4


def describe_value(value: object) -> str:
    """Return a value in words: of a list or a mapping no entry, which might be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {redact_text(value[:_MOST_READ])[:_LONGEST_QUOTE]!r}"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def describe_unfit(value: object, fits: Callable[[object], bool]) -> str:
    """Return a value in words; of a list the first entry that does not fit."""
    unfit = [each for each in value if not fits(each)] if isinstance(value, list) else []
    return f"a list with {describe_value(unfit[0])}" if unfit else describe_value(value)
