"""How is the text of a large variable made without holding up the loop?

To write a million rows takes a third of a second, in which nothing else would run: it is done
once, in a thread and in pieces.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from tool_engine.model.json.returned_value import to_text
from tool_engine.model.json.unpacking import without_collection
from tool_engine.model.json.weighing import PIECE, Weights, packed_size
from tool_engine.session.formatting import text_in_pieces, write_part

LARGE: Final = 262_144
"""Characters from which a variable's text is made in a thread: some milliseconds."""
MOST_READY: Final = 33_554_432
"""The most characters of texts kept ready; the last one made is kept at any length."""
_HALF: Final = re.compile(r"(\\\\)|(\\ud[89a-f])")


class HasText(Protocol):
    """A variable."""

    @property
    def value(self) -> Any:
        """The value, which must not be changed."""

    @property
    def text(self) -> str:
        """The value as a model reads it."""

    @property
    def chars(self) -> int:
        """Characters of its text."""


class KeptTexts:
    def __init__(self) -> None:
        self._made: OrderedDict[int, tuple[Any, str]] = OrderedDict()

    def of(self, variable: HasText) -> str:
        """Return a variable's text; at once, if it is ready or short."""
        made = self._made.get(id(variable.value))
        return variable.text if made is None else made[1]

    async def make(self, variable: HasText) -> None:
        """Make a text ready, unless it is short or ready."""
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
        self._made.pop(id(variable.value), None)


def keep_in_pieces(value: Any) -> tuple[Any, int] | None:
    """Return a large value as kept, and its text's length.

    Other threads get their turn meanwhile. None: it can only be copied as a whole.
    """
    if not isinstance(value, dict | list | tuple):
        return None
    try:
        size = packed_size(value)
        if size is not None:
            return _keep_packed(value, size)
        return _keep_value(value, Weights(value))
    except (TypeError, ValueError, RecursionError):
        return None


def _keep_packed(value: Any, size: int | None) -> tuple[Any, int]:
    """Do the same for a value whose packed form has this size: no value is looked at by itself."""
    if size is None or size <= PIECE or not isinstance(value, dict | list | tuple) or not value:
        return _read_back(value)
    is_dict = isinstance(value, dict)
    if len(value) == 1:
        alone = dict(value) if is_dict else list(value)
        return _keep_alone(alone, lambda entry: _keep_packed(entry, size))
    entries: Any = list(value.items()) if isinstance(value, dict) else value
    step = max(1, min(len(entries) * PIECE // size, len(entries) // 2))
    made: Any = {} if is_dict else []
    chars = 0
    for at in range(0, len(entries), step):
        part: Any = entries[at : at + step]
        part = dict(part) if is_dict else part
        kept, length = _keep_packed(part, packed_size(part))
        chars += length
        if is_dict:
            made |= kept
        else:
            made += kept
    return made, chars


def _keep_value(value: Any, weights: Weights) -> tuple[Any, int]:
    if weights.of(value) <= PIECE or not isinstance(value, dict | list | tuple):
        return _read_back(value)
    made: Any = {} if isinstance(value, dict) else []
    chars = 0
    for part in weights.parts(value):
        kept, size = (
            _read_back(part)
            if len(part) > 1
            else _keep_alone(part, lambda entry: _keep_value(entry, weights))
        )
        # Two parts lose two brackets and gain a comma with its space: the length stays.
        chars += size
        if isinstance(value, dict):
            made |= kept
        else:
            made += kept
    return made, chars


def _keep_alone(part: Any, keep: Callable[[Any], tuple[Any, int]]) -> tuple[Any, int]:
    """Return the same for one entry, which may be large."""
    if isinstance(part, list):
        kept, size = keep(part[0])
        return [kept], size + 2
    ((key, item),) = part.items()
    named, begun = _read_back({key: 0})
    kept, size = keep(item)
    return dict.fromkeys(named, kept), begun - 1 + size


def _read_back(value: Any) -> tuple[Any, int]:
    text = write_part(value)
    text = without_halves(text if text.isascii() else to_text(text))
    with without_collection():
        return json.loads(text), len(text)


def without_halves(text: str) -> str:
    """Return JSON with escapes in place of half surrogate pairs."""
    return _HALF.sub(lambda found: found[1] or f"\\{found[2]}", text) if "\\ud" in text else text
