"""Where may a text be cut without leaving half a secret unrecognised?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tool_engine.redaction.text import redact_text

_WINDOW: Final = 4_096
"""Characters on each side of a cut that are checked; private keys are about as long."""


def splits_secret(text: str, place: int, hide: Callable[[str], str] = redact_text) -> bool:
    """Return True if a cut before `place` splits something that is hidden.

    `hide` hides what is secret here, such as `OwnSecrets.text`.
    """
    before = text[max(0, place - _WINDOW) : place]
    behind = text[place : place + _WINDOW]
    return hide(before + behind) != hide(before) + hide(behind)


def place_to_cut(
    text: str, place: int, step: int = -1, hide: Callable[[str], str] = redact_text
) -> int:
    """Return the place nearest to `place` where a cut splits nothing hidden.

    Args:
        text: The text to cut.
        place: The place wanted.
        step: -1 to look before `place`, 1 to look behind it.
        hide: Hides what is secret here, such as `OwnSecrets.text`.
    """
    while 0 < place < len(text) and splits_secret(text, place, hide):
        place = min(max(place + step, 0), len(text))
        step *= 2
    return min(max(place, 0), len(text))
