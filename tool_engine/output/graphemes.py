"""Where in a text does one visible character end and the next begin?

The rules for extended grapheme clusters of Unicode's annex 29, with the character data that Python
has. Where that is insufficient, characters count as joined: a cut one character off is not noticed,
but half a letter is another letter.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_ZWJ: Final = "\u200d"
_ZWNJ: Final = "\u200c"
_FLAGS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""The regional indicators, two of which are a flag."""
_EXTENDING: Final = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f") | frozenset(
    map(chr, (*range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)))
)
"""Characters that extend the previous one and are no marks: joiners, vowels, skin colours, tags."""
_PREPENDED: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"
    "\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941\U00011a3a"
    "\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46\U00011f02"
)
"""Characters that belong to the next one."""
_SEPARATE: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
_VIRAMA: Final = 9
"""The combining class of the signs that join two consonants into one letter."""
_MOST_MARKS: Final = 32
"""The most marks between two consonants that are looked at."""
_LONGEST: Final = 128
"""Code points of a character: the longest emoji has ten, Unicode's stream-safe form 31."""
_WINDOW: Final = 4_096


def cluster_start(text: str, place: int) -> int:
    """Return the last place up to `place` where a cut splits no character.

    It is `place` itself inside a hundred marks and more: they are no character.
    """
    return _find_edge(text, place, -1)


def cluster_end(text: str, place: int) -> int:
    """Return the first place from `place` on where a cut splits no character.

    It is `place` itself inside a hundred marks and more: they are no character.
    """
    return _find_edge(text, place, 1)


def _find_edge(text: str, place: int, step: int) -> int:
    # A row of letters that seems to be one character without end is cut between two letters.
    for joined in (is_joined, _is_marked):
        edge = place
        while 0 < edge < len(text) and joined(text, edge):
            edge += step
            if abs(edge - place) > _LONGEST:
                break
        else:
            return edge
    return place


def _is_marked(text: str, place: int) -> bool:
    """True if the character behind `place` is a mark of the one before."""
    return _extends_previous(text[place])


def is_joined(text: str, place: int) -> bool:
    """True if both sides of `place` are one visible character or line end.

    Args:
        text: Any text.
        place: More than 0, and less than its length.
    """
    before, behind = text[place - 1], text[place]
    if before.isascii() and behind.isascii():
        return before == "\r" and behind == "\n"
    if _is_separate(before) or _is_separate(behind):
        return False
    if _extends_previous(behind) or before in _PREPENDED:
        return True
    if before == _ZWJ and not behind.isalnum() and not behind.isspace():
        return True
    if behind in _FLAGS:
        return _flags_before(text, place) % 2 == 1
    return _is_syllable(before, behind) or _is_conjunct(text, place)


def _is_separate(character: str) -> bool:
    """True for controls, formats and halves of surrogate pairs, which never join."""
    if character in _EXTENDING or character in _PREPENDED:
        return False
    return unicodedata.category(character) in _SEPARATE


def _extends_previous(character: str) -> bool:
    return character in _EXTENDING or unicodedata.category(character).startswith("M")


def _flags_before(text: str, place: int) -> int:
    """Return how many regional indicators stand directly before `place`."""
    end = place
    while end > 0:
        part = text[max(0, end - _WINDOW) : end]
        rest = part.rstrip(_FLAGS)
        end -= len(part) - len(rest)
        if rest:
            break
    return place - end


def _is_syllable(before: str, behind: str) -> bool:
    """True if two parts of Korean letters are one syllable."""
    first, second = _hangul_kind(before), _hangul_kind(behind)
    if first == "L":
        return second in ("L", "V", "LV", "LVT")
    if first in ("LV", "V"):
        return second in ("V", "T")
    return first in ("LVT", "T") and second == "T"


def _hangul_kind(character: str) -> str:
    code = ord(character)
    if 0xAC00 <= code <= 0xD7A3:
        return "LVT" if (code - 0xAC00) % 28 else "LV"
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    return "T" if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB else ""


def _is_conjunct(text: str, place: int) -> bool:
    """True if a virama joins the Indic consonant behind with the one before."""
    if unicodedata.category(text[place]) != "Lo":
        return False
    is_linked = False
    for at in range(place - 1, max(-1, place - 2 - _MOST_MARKS), -1):
        character = text[at]
        if unicodedata.combining(character) == _VIRAMA:
            is_linked = True
        elif character not in (_ZWJ, _ZWNJ) and unicodedata.category(character) != "Mn":
            return is_linked and unicodedata.category(character) == "Lo"
    return False
