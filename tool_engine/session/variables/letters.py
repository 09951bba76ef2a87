"""Which letters of a text count when texts are compared?"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LEAST: Final = 48
"""The fewest letters and digits in a row that make a copy: about eight words."""
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[nrtbf])")
_PERCENT: Final = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_NO_LETTER: Final = re.compile(r"[\W_]+")
_NO_ASCII_LETTER: Final = bytes(code for code in range(128) if not chr(code).isalnum())
_LOWER: Final = bytes(range(256)).lower()


def letters_of(text: str) -> str:
    """Return a text's letters and digits in lower case, without widths and escapes."""
    if "%" in text:
        text = _PERCENT.sub(_decoded, text)
    if "\\" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return text.encode().translate(_LOWER, _NO_ASCII_LETTER).decode()
    return _NO_LETTER.sub("", unicodedata.normalize("NFKC", text)).casefold()


def _decoded(found: re.Match[str]) -> str:
    """Return the character that an address may hold only as `%20` and the like."""
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")
