"""What has a reader missed that comes back after a restart, or to another engine than before?

Several engines that keep their events in one database have numbers of their own: a life each. A
reader hears of one engine at a time, and says where it was in each of those that it has heard of.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tool_engine.events.event_filter import WantedEvents
from tool_engine.events.log import EventLog
from tool_engine.interfaces import EventLife
from tool_engine.model.event import ToolEngineEvent

MOST_PLACES: Final = 8
"""Engines of which a reader says where it was: the newest."""
_END: Final = 2**63 - 1
_PAGE: Final = 100
"""Events that are read at once: each may have an output of 64 KiB."""


class Gap(NamedTuple):
    """Events that are not kept any more, or never were."""

    missing: int | None
    """How many, of this reader and of others; None: that is not known."""


Missed: TypeAlias = ToolEngineEvent | Gap


class _Part(NamedTuple):
    """What is read of one life: the numbers above `after`."""

    first: int
    after: int
    until: int
    is_ended: bool
    is_news: bool
    """Whether the reader has not heard yet that the end of it is unknown."""


class MissedEvents:
    """Gives a reader what other engines kept since it left, and says where to go on here.

    Args:
        log: Of the present engine.
        numbers: The number of the event that it read last, and those of the last ones of other
            engines.

    Example:
        >>> missed = await engine.find_missed_events([17])
        >>> before = [each async for each in missed.read()]
        >>> events = engine.events(after=missed.after)
    """

    def __init__(self, log: EventLog, numbers: Sequence[int]) -> None:
        self.after = log.current() if not numbers else numbers[0]
        """The number to go on after in the present engine."""
        self._log = log
        self._parts: list[_Part] = []
        self._places: dict[int, int] = {}
        """The first number of each life that goes on -> where the reader is in it."""
        self._is_gap = False

    @classmethod
    async def find(cls, log: EventLog, numbers: Sequence[int]) -> MissedEvents:
        """Ask which engines there were.

        Raises:
            ConfigurationError: The engine is not loaded.
            RecordsUnavailableError: The database does not answer.
        """
        missed = cls(log, numbers)
        is_here = [log.first <= each <= log.current() for each in numbers]
        if log.has_lives and not all(is_here):
            missed._plan_parts(await log.list_lives(), numbers)
        return missed

    @property
    def others(self) -> tuple[int, ...]:
        """Where the reader is in the lives of other engines that have not ended, newest first."""
        return self._list_places(self._log.first)

    def others_of(self, event: ToolEngineEvent) -> tuple[int, ...]:
        """Return where the reader is in other lives, once it has heard this event from `read`."""
        number = event.sequence or 0
        return self._list_places(max(each for each in self._places if each <= number))

    async def read(self, wanted: WantedEvents | None = None) -> AsyncIterator[Missed]:
        """Yield the events that other engines kept, and where some are missing, how many.

        Args:
            wanted: Which events; None: all.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        missing: int | None = 0
        for part in self._parts:
            last = part.after
            while page := await self._log.read_life(last, part.until, _PAGE):
                for event in page:
                    number = event.sequence or 0
                    missing = _add_missing(missing, number - last - 1)
                    self._places[part.first] = last = number
                    if wanted is None or wanted.has(event):
                        if missing != 0:
                            yield Gap(missing)
                            missing = 0
                        yield event
                await asyncio.sleep(0)
            if part.is_ended:
                self._places.pop(part.first, None)
                missing = _add_missing(missing, part.until - last)
            elif part.is_news:
                missing = None
        if missing != 0 or self._is_gap:
            yield Gap(None if self._is_gap else missing)

    def _plan_parts(self, lives: Sequence[EventLife], numbers: Sequence[int]) -> None:
        own, firsts = self._log.first, [each.first for each in lives]
        places: dict[int, int] = {}
        for number in reversed(numbers):
            places[_find_first((*firsts, own), number)] = number
        newest = max(places)
        here = places.get(own)
        left = _find_first((*firsts, own), numbers[0])
        for first, last in lives:
            is_known = first in places
            if not is_known and not newest < first < own:
                continue  # of another server, of which it has never heard
            place = places[first] if is_known else first - 1
            if last is None:
                end = min((each for each in (*firsts, own) if each > first), default=_END) - 1
            else:
                end = last
            is_news = not is_known or first == left
            self._parts.append(_Part(first, place, end, last is not None, is_news))
            if is_known:
                self._places[first] = place
        # It comes from a life that is not written down any more.
        self._is_gap = left == 0 and numbers[0] != 0
        if here is not None:
            self.after = self._places[own] = here
        elif newest < own:
            self.after = own - 1
        else:  # of what happened here before it knows nothing
            self.after, self._is_gap = self._log.current(), True

    def _list_places(self, without: int) -> tuple[int, ...]:
        places = [place for first, place in self._places.items() if first != without]
        return tuple(sorted(places, reverse=True)[: MOST_PLACES - 1])


def _find_first(firsts: Sequence[int], number: int) -> int:
    """Return the first number of the life that has this number; 0: none has."""
    known = sorted(firsts)
    at = bisect_right(known, number)
    return known[at - 1] if at else 0


def _add_missing(missing: int | None, more: int) -> int | None:
    return None if missing is None else missing + max(0, more)
