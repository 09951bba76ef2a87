"""Where may a text be cut without changing the meaning of what is left?

Half of an emoji is another emoji, half of a number another number, half of an escaped quote ends or
begins a text of JSON, and half of a secret is no longer recognised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tool_engine.output.graphemes import cluster_end, cluster_start

Splits = Callable[[str, int], bool]
"""True if a cut of a text at a position would leave half of a secret on one side."""
_PLAIN: Final = re.compile(r"[\d.eE+-]{2}")
_GROUPED: Final = re.compile(r"\d[,'_]\d")
"""A comma separates digits in `1,234,567`, but also numbers in `[1,2,3]`."""
_LONGEST_NUMBER: Final = 40
"""Characters; longer runs of digits are no readable numbers and may be cut."""
_LONGEST_RUN: Final = 1_000
"""The most backslashes that are examined for which one escapes the next."""


def place_to_cut(text: str, place: int, step: int, splits: Splits) -> int:
    """Return the nearest place where a cut splits no character, number, escape or secret.

    A single thing that reaches to the end of the text is left out whole: then it is 0, or the
    length of the text.

    Args:
        text: What is to be cut.
        place: Where, at best.
        step: -1 to look before `place`, 1 to look behind it.
        splits: Finds where a secret would be split.
    """
    jump = step
    while 0 < place < len(text):
        edge = cluster_start(text, place) if step < 0 else cluster_end(text, place)
        edge = _beside_number(text, edge, step)
        if _is_escaped(text, edge):
            edge += step
        if edge == place:
            if not splits(text, place):
                break
            edge = place + jump
            jump *= 2
        place = min(max(edge, 0), len(text))
    return place


def _beside_number(text: str, place: int, step: int) -> int:
    """Return the edge of the number around `place`; `place` outside of numbers."""
    for splits in (_splits_grouped, _splits_plain):
        edge = place
        while 0 < edge < len(text) and splits(text, edge):
            edge += step
            if abs(edge - place) > _LONGEST_NUMBER:
                break
        else:
            return edge
    return place


def _splits_plain(text: str, place: int) -> bool:
    return _PLAIN.fullmatch(text, place - 1, place + 1) is not None


def _splits_grouped(text: str, place: int) -> bool:
    starts = (place - 1, place - 2)
    return _splits_plain(text, place) or any(_GROUPED.match(text, at) for at in starts if at >= 0)


def _is_escaped(text: str, place: int) -> bool:
    """True if the character behind `place` belongs to a backslash before it."""
    before = text[max(0, place - _LONGEST_RUN) : place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
