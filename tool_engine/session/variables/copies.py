"""Which kept texts do arguments repeat word for word?

Only letters and digits count, in any case and width, so that line breaks, escapes and punctuation
hide nothing. Translated, encoded or reworded text is not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from tool_engine.model.json.output import to_text
from tool_engine.session.variables.letters import LEAST, letters_of
from tool_engine.session.variables.store import Variable
from tool_engine.session.variables.traces import EDGE, Trace, Traced, beginning

__all__ = ["LEAST", "MOST_SEARCHED", "MOST_SOUGHT", "Copy", "copies"]

MOST_SOUGHT: Final = 131_072
"""The most letters and digits of the arguments that are searched, from the beginning."""
MOST_SEARCHED: Final = 2_097_152
"""The most characters of variables that are searched, the last used first."""
_BLOCK: Final = 16
"""Each run of `LEAST` holds a whole block, wherever blocks begin."""


class Copy(NamedTuple):
    """A text that occurs both in the arguments and in variables."""

    variable: Variable
    """The variable that held it first."""
    size: int
    """The number of equal letters and digits in a row."""


class _Holder(NamedTuple):
    variable: Variable
    pieces: Iterable[str]
    text: str | None
    """All its letters; None: it is gone, and only the found pieces are known."""


def copies(
    value: Any, variables: Iterable[Variable], traces: Iterable[Trace] = ()
) -> Iterator[Copy]:
    """Find the variables of which a long piece occurs in `value`.

    A piece belongs to the variable that held it first: what a tool echoed later is no other text.

    Args:
        value: JSON values; all that they hold counts as one text, so that splitting hides nothing.
        variables: Where to look, the last used first.
        traces: Of variables that are gone. What is found of one is named like it, and without a
            value.
    """
    ways = [letters for letters in _ways(value) if len(letters) >= LEAST]
    if not ways:
        return
    sought = _Sought(ways)
    holders = [_Holder(each, sought.pieces(text), text) for each, text in _searched(variables)]
    holders += _gone(ways, traces)
    texts: list[str] = []
    parts: list[str] = []
    for holder in sorted(holders, key=lambda each: each.variable.updated.timestamp()):
        piece = next((each for each in holder.pieces if not _is_held(each, texts, parts)), None)
        if holder.text is None:
            parts += holder.pieces
        elif piece is not None:
            texts.append(holder.text)
        if piece is not None:
            yield Copy(holder.variable, len(piece))


def _is_held(piece: str, texts: Iterable[str], parts: Iterable[str]) -> bool:
    """Return True if an older variable held a piece; the ends of a traced one are unknown."""
    return any(piece in each for each in texts) or any(piece[EDGE:-EDGE] in each for each in parts)


def _gone(ways: list[str], traces: Iterable[Trace]) -> list[_Holder]:
    sought = [Traced(letters) for letters in ways]
    found = []
    for each in traces:
        pieces = [piece for way in sought for piece in way.pieces(each.marks)]
        if pieces:
            gone = Variable(name=each.name, value=None, labels=each.labels, updated=each.updated)
            found.append(_Holder(gone, pieces, None))
    return found


class _Sought:
    """Texts with the first place of each block in each of them."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = [(text, _places(text)) for text in texts]
        first = self._texts[0][1]
        # Most blocks of other texts occur nowhere, which is quickly seen.
        self._blocks = first.keys() if len(texts) == 1 else {*chain(*(at for _, at in self._texts))}

    def pieces(self, other: str) -> Iterator[str]:
        """Find the longest equal runs here and in `other`, of at least `LEAST` letters."""
        place = done = 0
        while place + _BLOCK <= len(other):
            begin = end = 0
            if (block := other[place : place + _BLOCK]) in self._blocks:
                begin, end = self._longest(block, other, place, done)
            if end - begin >= LEAST:
                yield other[begin:end]
                place = done = end
            else:
                place += _BLOCK

    def _longest(self, block: str, other: str, place: int, floor: int) -> tuple[int, int]:
        """Return where the longest equal run around a block begins and ends in `other`."""
        runs = [
            _grown(text, places[block], other, place, floor)
            for text, places in self._texts
            if block in places
        ]
        return max(runs, key=lambda run: run[1] - run[0])


def _places(text: str) -> dict[str, int]:
    last = len(text) - _BLOCK
    return {text[place : place + _BLOCK]: place for place in range(last, -1, -1)}


def _grown(text: str, mine: int, other: str, place: int, floor: int) -> tuple[int, int]:
    """Return where the run in `other` begins and ends that equals the one at `mine`."""
    before = 0
    while (
        before < min(mine, place - floor) and text[mine - before - 1] == other[place - before - 1]
    ):
        before += 1
    after = _BLOCK
    most = min(len(text) - mine, len(other) - place)
    while after < most and text[mine + after] == other[place + after]:
        after += 1
    return place - before, place + after


def _searched(variables: Iterable[Variable]) -> list[tuple[Variable, str]]:
    left = MOST_SEARCHED
    searched = []
    for variable in variables:
        # Of a long list no more is written than is looked at.
        text = beginning(variable.value, left) if variable.chars > left else variable.text
        left -= len(text)
        letters = letters_of(text)
        if len(letters) >= LEAST:
            searched.append((variable, letters))
        if not left:
            break
    return searched


def _ways(value: Any) -> Iterable[str]:
    """Return the letters of a value in order: all, and without keys, other values or both.

    A model that repeats rows writes their keys and numbers, too; one that hides a text may put them
    between its words.
    """
    told = list(_told(value))
    return dict.fromkeys(
        "".join(letters for letters, kind in told if kind not in left_out)[:MOST_SOUGHT]
        for left_out in ("", "k", "n", "kn")
    )


def _told(value: Any) -> Iterator[tuple[str, str]]:
    """Find the letters of a value at any depth: texts `t`, keys `k`, and the rest `n`."""
    rest = [(value, "t")]
    while rest:
        item, kind = rest.pop()
        if isinstance(item, str):
            yield letters_of(item), kind
        elif isinstance(item, dict):
            pairs = reversed(item.items())
            rest.extend(each for key, part in pairs for each in ((part, "t"), (key, "k")))
        elif isinstance(item, list | tuple):
            rest.extend((part, "t") for part in reversed(item))
        else:
            yield letters_of(to_text(item)), "n"
