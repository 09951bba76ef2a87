"""Where may a text be cut without leaving half a secret unrecognised?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tool_engine.redaction.text import redact_text

_WINDOW: Final = 4_096
"""Characters on each side of a cut that are checked; private keys are about as long."""
_NEAR: Final = 64
"""Characters up to which the next place is twice as far, and four times as far from there on."""


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
