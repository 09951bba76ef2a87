"""For how long have workers of a tool waited for a place, and what was ended for them?"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Any, Final, Protocol

_SECONDS_TO_PLACE: Final = 5
"""What Ray has to place a worker where there is enough of all that it needs."""
_SECONDS_TO_TAKE: Final = 10
"""After so long, what was ended has not helped: it was on another node, or others have it."""


class Waiting(Protocol):
    """What the calls of one tool wait in; see `Line`."""

    @property
    def fleet(self) -> Any:
        """What a worker needs."""

    @property
    def waiting(self) -> Sized:
        """The calls that wait."""

    @property
    def workers(self) -> Sized:
        """All workers, those that start, too."""

    @property
    def starting(self) -> int:
        """How many start."""

    @property
    def unplaced(self) -> int:
        """How many of them have no place yet."""

    def seek_room(self) -> None:
        """Have workers of others end for those."""


class Hunger:
    """The wait of one line for places; it looks once a second.

    Args:
        line: What waits.
    """

    def __init__(self, line: Waiting) -> None:
        self._line = line
        self._timer: asyncio.TimerHandle | None = None
        self.seconds = 0
        """For how long none of the line's calls could begin, for none of its workers could."""
        self._waited = 0
        self._room: dict[str, float] = {}
        """What was ended for workers that have no place yet."""

    def begin_looking(self) -> None:
        """Look from now on, until no worker is starting for a call that waits."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._look_at_line)

    def end_looking(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def note_room(self, resources: dict[str, float]) -> None:
        """Count a worker that ends for this line."""
        for name, amount in resources.items():
            self._room[name] = self._room.get(name, 0) + amount

    def note_placed(self) -> None:
        """Count one of its workers that has a place."""
        self.note_room({name: -amount for name, amount in self._line.fleet.resources.items()})

    def list_short(self, free: dict[str, float]) -> list[str]:
        """Return the resources for which others shall end a worker now."""
        wanted = self._line.fleet.resources
        short = [name for name, amount in wanted.items() if free.get(name, 0) < amount]
        if not short and self._waited < _SECONDS_TO_PLACE:
            return []
        short = short or [*wanted]  # of no node enough, perhaps
        count = self._line.unplaced
        is_made = all(self._room.get(name, 0) >= wanted[name] * count for name in short)
        return [] if is_made else short

    def _look_at_line(self) -> None:
        self._timer = None
        line = self._line
        if line.waiting and line.unplaced:
            self.seconds = 0 if len(line.workers) > line.starting else self.seconds + 1
            self._waited += 1
            if self._waited % _SECONDS_TO_TAKE == 0:
                self._room = {}
            line.seek_room()
        else:
            self.seconds = self._waited = 0
            self._room = {}
        if line.waiting and line.starting:
            self.begin_looking()
