"""Which characters of a text would deceive its reader, and how are they shown?

A control character can wipe out a terminal line, a line break can forge a log line, and a direction
mark can make a path look like another. Consent prompts, definition errors, log lines and the
command line all show such characters in one way.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_DECEPTIVE: Final = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, direction marks, invisible characters and halves of surrogate pairs."""
_UNSEEN: Final = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""The same without line breaks, tabs, and selectors of an emoji's or a letter's form."""
_LAYOUT: Final = frozenset("\n\t")


def is_deceptive(text: str) -> bool:
    """True if a text may differ from what it looks like.

    Line breaks count, too.
    """
    return deceptive_characters().search(text) is not None


def without_unseen(text: str) -> str:
    """Return a text without its invisible characters."""
    return _compile_unseen().sub("", text)


@cache
def deceptive_characters() -> re.Pattern[str]:
    """Return what matches one deceptive character; made at the first use, as it takes a while."""
    return re.compile(_DECEPTIVE)


@cache
def _compile_unseen() -> re.Pattern[str]:
    return re.compile(_UNSEEN)


def escape_hidden(text: str, *, keeps_lines: bool = False) -> str:
    r"""Return `text` with every deceptive character escaped, such as `\x1b` or `\u202e`.

    Args:
        text: Any text.
        keeps_lines: Whether line breaks and tabs stay as they are.
    """
    kept = _LAYOUT if keeps_lines else frozenset()

    def shown(found: re.Match[str]) -> str:
        character = found.group()
        return character if character in kept else _escape_character(ord(character))

    return deceptive_characters().sub(shown, text)


def cut_middle(text: str, most: int) -> str:
    """Cut the middle out of `text` beyond `most` characters, and count it."""
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]} […{left_out:,} characters…] {text[len(text) - half :]}"


def _escape_character(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
