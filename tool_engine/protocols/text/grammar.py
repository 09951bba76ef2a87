"""Which patterns find the markers of a text protocol, even where the text ends inside one?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

LINE_START: Final = r"(?<=[\r\n])"
"""A prefix for markers that count only at the beginning of a line."""


def make_literal(text: str) -> list[str]:
    return [re.escape(character) for character in text]


def make_token(name: str, atoms: Sequence[str]) -> str:
    r"""Return a pattern for a marker, complete or cut off.

    A match is the whole marker if its `lastgroup` is `name`, an empty group; of a beginning it is
    None. So one search finds both complete and possible markers. Each atom is a part of the marker
    and may match nothing.
    """
    pattern = f"{atoms[-1]}(?P<{name}>)"
    for atom in reversed(atoms[:-1]):
        pattern = f"{atom}(?:{pattern}|\\Z)"
    return pattern


def one_of(tokens: Sequence[str], flags: int = 0) -> re.Pattern[str]:
    return re.compile("|".join(tokens), flags)


_THINK_TAIL: Final = [*make_literal("think"), "(?:ing|in\\Z|i\\Z)?", r"(?:\s[^<>]{0,200})?", ">"]
_THINK: Final = "(?i:" + make_token("think", ["<", r"\s?", *_THINK_TAIL]) + ")"
_THOUGHT: Final = "(?i:" + make_token("thought", ["<", r"\s?", "/", r"\s?", *_THINK_TAIL]) + ")"
_RUN: Final = rf"(?P<ticks>(?:{LINE_START}[ ]{{0,3}})?`+)"
_INDENT: Final = rf"{LINE_START}[ ]{{1,3}}\Z"
_TILDES: Final = make_token("tildes", [LINE_START + "[ ]{0,3}~", "~", "~"])
_LINE_END: Final = "(?P<line>[\r\n])"


class Grammar:
    """The markers of one text protocol, as patterns.

    Args:
        openers: What begins a call: name -> atoms for `token`.
        quotes: Pairs of atoms that begin and end a region in which nothing is a call.
        starts: The characters without which no opener begins.
    """

    def __init__(
        self,
        openers: Mapping[str, Sequence[str]],
        quotes: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
        starts: str = "<",
        flags: int = 0,
    ) -> None:
        calls = [make_token(name, atoms) for name, atoms in openers.items()]
        opened = [make_token(f"quote{place}", pair[0]) for place, pair in enumerate(quotes)]
        closed = [make_token("unquote", pair[1]) for pair in quotes]
        plain = [*calls, *opened, _THINK, _THOUGHT]
        self.openers = frozenset(openers)
        self.text = one_of([*plain, _RUN, _INDENT, _TILDES], flags)
        self.unquoted_text = one_of(plain, flags)
        self.span = one_of([*plain, _RUN, _LINE_END], flags)
        self.thoughts = one_of([_THINK, _THOUGHT, *calls], flags), one_of([_THINK, _THOUGHT])
        """Each pair of patterns: with calls and without."""
        self.regions = [(one_of([end, *calls], flags), one_of([end], flags)) for end in closed]
        self.fences = {mark: _match_fence(mark, 3, calls, flags) for mark in "`~"}
        self.deep_fences = {"`": _match_fence("`", 15, calls, flags)}
        """The same for fenced code in a list."""
        self.starts = re.compile(f"[{starts}`~\r\n]")


def _match_fence(
    mark: str, most: int, calls: list[str], flags: int
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    end = [f"(?P<end>{LINE_START}[ ]{{0,{most}}}{mark})", rf"{LINE_START}[ ]{{1,{most}}}\Z"]
    return one_of([*end, *calls], flags), one_of(end)


class BlockReader(Protocol):
    """A reader of the text after the marker that begins a call."""

    returned: str | None
    """Taken text that is no part of a call, to be read again."""

    def feed(self, text: str, start: int) -> int:
        """Take `text` from `start` on.

        Returns where the block ends in it, or -1: not yet. When there is something `returned`, it
        is over, and all of `text` up to its end is taken.
        """

    def close(self) -> None:
        """End the block, as the reply ends."""


class Sink(Protocol):
    """The receiver of a scanner's finds, in the order of the reply."""

    def add_text(self, text: str) -> None:
        """Take text for the user."""

    def add_reasoning(self, text: str) -> None:
        """Take text inside think tags."""

    def skip(self, region: str, position: int) -> None:
        """Note a call at `position`, where calls do not count."""

    def give_up(self, position: int) -> None:
        """Note too many marks: what follows is text."""

    def end_unbegun_thought(self, position: int) -> None:
        """Note the end of a thought that was never begun."""

    def open(self, marker: str, text: str, position: int) -> BlockReader:
        """Begin a call with this marker."""

    def open_reply(self) -> BlockReader | None:
        """Return a reader if the whole reply may be one call."""
