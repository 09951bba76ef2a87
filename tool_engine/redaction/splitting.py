"""Would a cut of a text leave half of a secret, which nothing recognises any more?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tool_engine.redaction.text import redact_text

__all__ = ["splits_secret"]

_WINDOW: Final = 4_096
"""Characters on each side of a cut that are looked at; private keys are about as long."""


def splits_secret(text: str, place: int, secrets: Iterable[str] = ()) -> bool:
    """Whether a cut of `text` before the character at `place` splits something that is hidden.

    Args:
        text: What is to be cut.
        place: Where.
        secrets: Values that are secret here, beside those that `redact_text` knows.
    """
    before = text[max(0, place - _WINDOW) : place]
    behind = text[place : place + _WINDOW]
    for secret in secrets:
        around = len(secret) - 1
        if around > 0 and secret in before[-around:] + behind[:around]:
            return True
    return redact_text(before + behind) != redact_text(before) + redact_text(behind)
