"""Which places of a paragraph stand in inline code?"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

_MOST_TICKS: Final = 20_000
"""The most backticks of a paragraph; with more, all of it counts as code."""
_RUN: Final = re.compile("`+")
_LINK: Final = re.compile(
    r"\]\([ \n]*(?:<[^<>\n]*>|[^\s<]\S*)?"
    r"(?:[ \n]+(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\((?:\\.|[^()\\])*\)))?",
    re.DOTALL,
)
_TAG: Final = re.compile(r"<[A-Za-z/](?:\"[^\"]*\"|'[^']*'|[^<>\"'])*>|<[A-Za-z/][^<>]*>")
_ODD_TAG: Final = re.compile(r"<[!?]")
_REFERENCE: Final = re.compile(r"\[[^\]]*\]:", re.DOTALL)


class Span(NamedTuple):
    is_code: bool
    open_runs: frozenset[int]
    """The lengths of the unclosed runs of backticks before it."""


def find_spans(text: str, mark: str, *, is_doubtful: bool = False) -> list[Span]:
    """Return what is known of each `mark`, one character, in a paragraph.

    Where the text leaves open which backticks count, a place counts as code if it may be.
    """
    ticks = text.count("`")
    if not ticks or ticks > _MOST_TICKS:
        return [Span(ticks > 0, frozenset())] * text.count(mark)
    is_doubtful = is_doubtful or _has_doubt(text)
    return list(_doubt_runs(text, mark) if is_doubtful else _pair_runs(text, mark))


def _pair_runs(text: str, mark: str) -> Iterator[Span]:
    starts: dict[int, list[int]] = {}
    for run in _RUN.finditer(text):
        starts.setdefault(len(run[0]), []).append(run.start())
    marker = re.compile(rf"\\[!-/:-@\[-`{{-~]|`+|{re.escape(mark)}")
    open_runs: frozenset[int] = frozenset()
    place = 0
    while found := marker.search(text, place):
        place = found.end()
        if found[0] == mark:
            yield Span(False, open_runs)
        elif found[0][0] == "`":
            length = len(found[0])
            closers = starts.get(length, [])
            closer = bisect_left(closers, place)
            if closer == len(closers):
                open_runs |= {length}
                continue
            count = text.count(mark, place, closers[closer])
            yield from [Span(True, open_runs)] * count
            place = closers[closer] + length


def _has_doubt(text: str) -> bool:
    """Return True if a link or tag may hold a backtick."""
    last = text.rindex("`")
    odd = _ODD_TAG.search(text, 0, last)
    if odd is not None or _REFERENCE.match(text):
        return True
    return any("`" in found[0] for kind in (_LINK, _TAG) for found in kind.finditer(text))


def _doubt_runs(text: str, mark: str) -> Iterator[Span]:
    """Treat each place between two runs of one length as code."""
    parts = text.split(mark)
    runs = [_list_lengths(part) for part in parts]
    left: dict[int, int] = {}
    for lengths in runs:
        for length in lengths:
            left[length] = left.get(length, 0) + 1
    before: frozenset[int] = frozenset()
    for lengths in runs[:-1]:
        for length in lengths:
            left[length] -= 1
        before |= lengths
        yield Span(any(left[length] for length in before), before)


def _list_lengths(text: str) -> frozenset[int]:
    """Return possible run lengths: a backslash may take a backtick away."""
    found = {len(run[0]) for run in _RUN.finditer(text)}
    after = {len(run[0]) - 2 for run in re.finditer(r"\\`+", text)}
    return frozenset(length for length in found | after if length)
