"""Which kept texts are repeated word for word in arguments, whoever typed them?

Only letters and digits count, whatever their case and width, so that line breaks, escapes and
punctuation hide nothing. What was translated, encoded or told in other words is not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tool_engine.session.variables import Variable

__all__ = ["LEAST", "MOST_SEARCHED", "MOST_SOUGHT", "Copy", "copies"]

LEAST: Final = 48
"""Letters and digits in a row that make a copy: about eight words."""
MOST_SOUGHT: Final = 131_072
"""The most letters and digits of the arguments that are looked at, from their beginning."""
MOST_SEARCHED: Final = 2_097_152
"""The most characters of variables that are looked at; those that were used last go first."""
_BLOCK: Final = 16
"""Each run of `LEAST` holds a whole block, wherever blocks begin."""
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[nrtbf])")
_NO_LETTER: Final = re.compile(r"[\W_]+")
_NO_ASCII_LETTER: Final = bytes(code for code in range(128) if not chr(code).isalnum())
_LOWER: Final = bytes(range(256)).lower()


class Copy(NamedTuple):
    """A text that stands in the arguments and in variables."""

    variable: Variable
    """The one that held it first."""
    size: int
    """Letters and digits in a row that are the same."""


def copies(value: Any, variables: Iterable[Variable]) -> Iterator[Copy]:
    """The variables of which a long piece stands in `value`.

    A piece belongs to the variable that held it first: what a tool echoed later is no other text.

    Args:
        value: JSON values; their texts count as one, so that splitting hides nothing.
        variables: Where to look, the last used first.
    """
    sought = _Sought(_sought(value))
    if sought.is_empty:
        return
    holders: list[str] = []
    for variable, text in _oldest_first(variables):
        for piece in sought.pieces(text):
            if not any(piece in holder for holder in holders):
                holders.append(text)
                yield Copy(variable, len(piece))
                break


class _Sought:
    """A text, and where in it each block begins first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.is_empty = len(text) < LEAST
        last = -1 if self.is_empty else len(text) - _BLOCK
        self._places = {text[place : place + _BLOCK]: place for place in range(last, -1, -1)}

    def pieces(self, other: str) -> Iterator[str]:
        """The longest runs that are the same here and in `other`, at least `LEAST` long."""
        place = done = 0
        while place + _BLOCK <= len(other):
            found = self._places.get(other[place : place + _BLOCK])
            begin, end = (0, 0) if found is None else self._grown(found, other, place, done)
            if end - begin >= LEAST:
                yield other[begin:end]
                place = done = end
            else:
                place += _BLOCK

    def _grown(self, mine: int, other: str, place: int, floor: int) -> tuple[int, int]:
        """Where the run in `other` begins and ends that has the block at `place` in it."""
        text = self._text
        before = 0
        while (
            before < min(mine, place - floor)
            and text[mine - before - 1] == other[place - before - 1]
        ):
            before += 1
        after = _BLOCK
        most = min(len(text) - mine, len(other) - place)
        while after < most and text[mine + after] == other[place + after]:
            after += 1
        return place - before, place + after


def _oldest_first(variables: Iterable[Variable]) -> list[tuple[Variable, str]]:
    """As many as may be searched, with their letters, by when they got what they hold."""
    left = MOST_SEARCHED
    searched = []
    for variable in variables:
        text = variable.text[:left]
        left -= len(text)
        letters = _letters(text)
        if len(letters) >= LEAST:
            searched.append((variable, letters))
        if not left:
            break
    return sorted(searched, key=lambda each: each[0].updated.timestamp())


def _sought(value: Any) -> str:
    """The letters of a value: all in their order, then those of texts that keys stand between."""
    told = list(_texts(value))
    whole = "".join(letters for letters, _ in told)[:MOST_SOUGHT]
    if not any(is_key for _, is_key in told):
        return whole
    values = "".join(letters for letters, is_key in told if not is_key)[:MOST_SOUGHT]
    # No variable has a line break between its letters.
    return f"{whole}\n{values}"


def _texts(value: Any) -> Iterator[tuple[str, bool]]:
    """The letters of every text in a value, however deep it is, and whether it is a key."""
    rest = [(value, False)]
    while rest:
        item, is_key = rest.pop()
        if isinstance(item, str):
            yield _letters(item), is_key
        elif isinstance(item, dict):
            pairs = reversed(item.items())
            rest.extend(each for key, part in pairs for each in ((part, False), (key, True)))
        elif isinstance(item, list | tuple):
            rest.extend((part, False) for part in reversed(item))


def _letters(text: str) -> str:
    if "\\" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return text.encode().translate(_LOWER, _NO_ASCII_LETTER).decode()
    return _NO_LETTER.sub("", unicodedata.normalize("NFKC", text)).casefold()
