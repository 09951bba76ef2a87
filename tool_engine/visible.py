"""Which characters of a text would deceive its reader, and how are they shown?

A control character can wipe out a line of a terminal, a line break forge a line of a log, and a
mark of the writing direction make a path look like another one. Prompts for consent, the errors of
definitions, log lines and the command line show such characters in one way.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["DECEPTIVE", "cut_middle", "is_deceptive", "visible", "without_unseen"]

DECEPTIVE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, marks of direction, what is not seen at all, and halves of surrogate pairs.
"""
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""The same but for lines and tabs, and what only chooses among the forms of an emoji or a letter.
"""
_LAYOUT: Final = frozenset("\n\t")


def is_deceptive(text: str) -> bool:
    """Whether a text may be another one than it looks like; line breaks count, too."""
    return DECEPTIVE.search(text) is not None


def without_unseen(text: str) -> str:
    """A text without the characters that its reader does not see."""
    return _UNSEEN.sub("", text)


def visible(text: str, *, keeps_lines: bool = False) -> str:
    r"""`text` with every such character written out, such as `\x1b` or `\u202e`.

    Args:
        text: Any text.
        keeps_lines: Whether line breaks and tabs stay as they are.
    """
    kept = _LAYOUT if keeps_lines else frozenset()

    def shown(found: re.Match[str]) -> str:
        character = found.group()
        return character if character in kept else _escape(ord(character))

    return DECEPTIVE.sub(shown, text)


def cut_middle(text: str, most: int) -> str:
    """`text` with its middle left out, and counted, where it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]} […{left_out:,} characters…] {text[len(text) - half :]}"


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
