"""What is the text of a large variable, without making it again at every look?

To write a million rows down takes a third of a second, in which nothing else would run: it happens
once, in a thread and in pieces.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from typing import Any, Final, Protocol

from tool_engine.model.json.output import to_text
from tool_engine.session.formatting import PIECE, text_in_pieces, weight_of, written

__all__ = ["LARGE", "MOST_READY", "HasText", "KeptTexts", "kept_in_pieces", "without_halves"]

LARGE: Final = 262_144
"""Characters from which on the text of a variable is made in a thread: some milliseconds."""
MOST_READY: Final = 33_554_432
"""The most characters of texts that are ready; the one that was made last is, whatever it has."""
_ROWS: Final = 512
"""Entries of a list that are copied at one go, unless they are large."""
_HALF: Final = re.compile(r"(\\\\)|(\\ud[89a-f])")


class HasText(Protocol):
    """A variable."""

    @property
    def value(self) -> Any:
        """What it holds; nobody changes it."""

    @property
    def text(self) -> str:
        """The same as a model reads it."""

    @property
    def chars(self) -> int:
        """Characters of its text."""


class KeptTexts:
    """The texts of the large variables that were read last."""

    def __init__(self) -> None:
        self._made: OrderedDict[int, tuple[Any, str]] = OrderedDict()

    def of(self, variable: HasText) -> str:
        """The text of a variable; at once, if it is ready or short."""
        made = self._made.get(id(variable.value))
        return variable.text if made is None else made[1]

    async def make(self, variable: HasText) -> None:
        """Makes a text ready, unless it is short or ready."""
        value = variable.value
        if variable.chars <= LARGE or isinstance(value, str) or id(value) in self._made:
            return
        text = await asyncio.to_thread(text_in_pieces, value)
        # With the value, so that no other one gets its identity.
        self._made[id(value)] = value, text
        while (
            len(self._made) > 1 and sum(len(each) for _, each in self._made.values()) > MOST_READY
        ):
            self._made.popitem(last=False)

    def forget(self, variable: HasText) -> None:
        """Lets go of the text of a variable that is gone."""
        self._made.pop(id(variable.value), None)


def kept_in_pieces(value: Any) -> tuple[Any, int] | None:
    """A large value as it is kept, and how many characters its text has; see `copied`.

    Other threads get their turn meanwhile. None: it can only be copied as a whole.
    """
    if not isinstance(value, dict | list | tuple):
        return None
    try:
        return _kept(value, ())
    except (TypeError, ValueError, RecursionError):
        return None


def _kept(value: Any, around: tuple[int, ...]) -> tuple[Any, int]:
    if id(value) in around:
        raise ValueError("it holds itself")
    if weight_of(value) > PIECE:
        if isinstance(value, dict):
            return _kept_dict(value, (*around, id(value)))
        if isinstance(value, list | tuple):
            return _kept_list(value, (*around, id(value)))
    return _read(value)


def _read(value: Any) -> tuple[Any, int]:
    text = written(value)
    text = without_halves(text if text.isascii() else to_text(text))
    return json.loads(text), len(text)


def without_halves(text: str) -> str:
    """JSON in which half of a surrogate pair is the letters of its escape, which can be written."""
    return _HALF.sub(lambda found: found[1] or f"\\{found[2]}", text) if "\\ud" in text else text


def _kept_list(
    value: list[Any] | tuple[Any, ...], around: tuple[int, ...]
) -> tuple[list[Any], int]:
    made: list[Any] = []
    chars = 0
    for at in range(0, len(value), _ROWS):
        few = value[at : at + _ROWS]
        # Of two parts, two brackets go, and a comma with its space comes.
        if weight_of(few) <= PIECE:
            part, size = _read(few)
            made += part
            chars += size
            continue
        for item in few:
            part, size = _kept(item, around)
            made.append(part)
            chars += size + 2
    return made, chars


def _kept_dict(value: dict[Any, Any], around: tuple[int, ...]) -> tuple[dict[str, Any], int]:
    made: dict[str, Any] = {}
    chars = few_weight = 0
    few: dict[Any, Any] = {}
    for key, item in value.items():
        weight = weight_of(item) + weight_of(key)
        if few and few_weight + weight > PIECE:
            part, size = _read(few)
            made |= part
            chars += size
            few, few_weight = {}, 0
        if weight > PIECE:
            name, size = _read({key: 0})
            part, more = _kept(item, around)
            made[next(iter(name))] = part
            chars += size - 1 + more
        else:
            few[key] = item
            few_weight += weight
    if few:
        part, size = _read(few)
        made |= part
        chars += size
    return made, chars
