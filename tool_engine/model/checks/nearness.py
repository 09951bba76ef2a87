"""Which known name was meant by one that is unknown?

It serves keys, options, tool names and error types alike. It ignores case and the marks between
words, and of two equally near names prefers the one with the same beginning.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from heapq import nsmallest
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from difflib import SequenceMatcher

_LONGEST: Final = 80
_MOST: Final = 1_000
"""Names that are compared by their letters, which takes some µs each."""
_PIECES: Final = 24
"""Letters of what was written from which on the likeliest names are found."""
_MOST_PAIRS: Final = 250_000
"""Pairs of letters that are compared, which takes some 30 ms."""
_LIKE_ENOUGH: Final = 0.6
_LEAST_BEGINNING: Final = 3
"""Letters that are enough for a beginning of a name to mean it."""


def find_near(
    word: object, known: Iterable[str], limit: int = 3, *, like_enough: float = _LIKE_ENOUGH
) -> list[str]:
    """Return the known names that are most like `word`, the best first.

    Args:
        word: What was written in place of a name.
        known: The names.
        limit: The most names.
        like_enough: The least likeness, from 0 to 1.

    Example:
        >>> find_near("maxRetries", ["max_retries", "retry"])
        ['max_retries']
    """
    wanted = _fold_name(str(word))
    # By name: an engine that meets no unknown name needs no likeness.
    matcher = import_module("difflib").SequenceMatcher(None, b=wanted, autojunk=False)
    names = list(known)
    scores: list[tuple[float, int]] = []
    left = _MOST_PAIRS
    for number, folded in _order_likely(map(_fold_name, names), wanted):
        if folded == wanted:
            scores.append((-2.0, number))
        elif left > 0 and _may_be_near(matcher, folded, wanted, like_enough):
            left -= len(folded) * len(wanted)
            likeness = matcher.ratio()
            if likeness >= like_enough or _is_beginning(folded, wanted, like_enough):
                scores.append((-_score_name(likeness, folded, wanted), number))
    return [names[number] for _, number in sorted(scores)[:limit]]


def find_nearest(word: object, known: Iterable[str]) -> str:
    """Return the known name that `word` probably means; empty when none is near.

    Example:
        >>> find_nearest("retries", ["returns", "retry"])
        'retry'
    """
    return next(iter(find_near(word, known, 1)), "")


def suggest_near(
    word: object, known: Iterable[str], limit: int = 1, *, like_enough: float = _LIKE_ENOUGH
) -> str:
    """Return `; did you mean 'x'?` to end a message with; empty when none is near.

    Example:
        >>> suggest_near("FIFO", ["fifo", "fair"])
        "; did you mean 'fifo'?"
    """
    near = find_near(word, known, limit, like_enough=like_enough)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _order_likely(folded: Iterable[str], wanted: str) -> list[tuple[int, str]]:
    """Return the names that may be meant, numbered as they come, the likeliest first.

    It is by the pieces of two and three letters that they share with what was written: of thousands
    not all are compared, and which ones must not depend on the order in which they stand.
    """
    starts = range(min(len(wanted), _PIECES))
    pieces = {wanted[start : start + size] for start in starts for size in (2, 3)}

    def rate(numbered: tuple[int, str]) -> tuple[int, int]:
        name = numbered[1]
        return -sum(map(name.__contains__, pieces)), abs(len(name) - len(wanted))

    return nsmallest(_MOST, enumerate(folded), key=rate)


def _may_be_near(matcher: SequenceMatcher[str], name: str, wanted: str, like_enough: float) -> bool:
    """True if a quick comparison does not rule the name out."""
    matcher.set_seq1(name)
    if _is_beginning(name, wanted, like_enough):
        return True
    return matcher.real_quick_ratio() >= like_enough <= matcher.quick_ratio()


def _is_beginning(name: str, wanted: str, like_enough: float) -> bool:
    """True if one name begins with the other, where a loose likeness is enough."""
    shorter = min(len(name), len(wanted))
    is_loose = like_enough <= _LIKE_ENOUGH
    return is_loose and _count_shared(name, wanted) == shorter >= _LEAST_BEGINNING


def _score_name(likeness: float, name: str, wanted: str) -> float:
    """Rate how near a name is: a shared beginning counts more than letters elsewhere."""
    shared = _count_shared(name, wanted) / min(len(name), len(wanted))
    return likeness + (1 - likeness) * shared / 2


def _count_shared(one: str, other: str) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _fold_name(name: str) -> str:
    name = name[:_LONGEST]
    folded = name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()
    if folded.isalnum():
        return folded
    # A name of nothing but marks is compared as it is.
    return "".join(filter(str.isalnum, folded)) or folded
