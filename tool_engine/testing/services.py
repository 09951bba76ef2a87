"""How do the services behind recorded calls answer when more, or fewer, are asked at once?

A record says when a call ran, and beside how many others. From all of them follows how many calls
of a bucket the service works on at full speed, from how many on it refuses, and how long it wants
to be left alone then. What the records do not show stays unknown, and is said.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tool_engine.testing.trace import TraceCall

_CLEAR_TREND: Final = 5.0
"""Standard errors; a weaker trend of times with the number of calls is taken for chance."""
_NOISE: Final = 0.02
"""The share of a time by which a machine is off anyway."""
_FEWEST_RUNS: Final = 20
_JITTER: Final = 0.001
"""Shorter overlaps in seconds are not certain: records are dated to the millisecond."""
_MISJUDGED: Final = 0.03
"""The share of calls that a number of places may misjudge and still be believed."""
_SETTLED: Final = 1e-9


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of a bucket show of the service behind it."""

    speed_limit: int | None = None
    """So many calls at once run as fast as one alone; more share that. None: no sign of it."""
    places: int | None = None
    """So many calls at once are taken, and further ones refused. None: no clear number."""
    refusals: int = 0
    """The recorded calls that were refused for want of room."""
    refusal_time: float = 0.0
    """Seconds that a refusal takes, in the middle."""
    pause: float = 0.0
    """Seconds for which the bucket rests after a refusal, as `Retry-After` asks."""
    fewest: int = 0
    """Between so many and `most` calls were at the service, but for a twentieth at either end."""
    most: int = 0
    works: Mapping[str, float] = {}
    """Seconds that a call of each tool takes alone, in the middle."""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What recorded calls show of the services behind them, by bucket."""

    by_bucket: Mapping[str | None, Service]
    works: tuple[float | None, ...]
    """Seconds that each call takes alone, in the order of the calls; None: it was not run."""


class _Run(msgspec.Struct, frozen=True):
    """A call that the service worked on, and seconds at full speed under a supposition."""

    tool: str
    begin: float
    end: float

    @property
    def over(self) -> float:
        """When it is certain to make room for another one."""
        return max(self.end - _JITTER, (self.begin + self.end) / 2)


def learn_services(calls: Sequence[TraceCall]) -> Services:
    """Return what calls show of the services behind them.

    A bucket is taken for one service: what its calls share is its limit, and not seldom the host.
    """
    by_bucket: dict[str | None, list[int]] = {}
    for number, call in enumerate(calls):
        by_bucket.setdefault(call.bucket, []).append(number)
    services: dict[str | None, Service] = {}
    works: list[float | None] = [None] * len(calls)
    for bucket, numbers in by_bucket.items():
        services[bucket], found = _learn_service([calls[number] for number in numbers])
        for number, work in zip(numbers, found, strict=True):
            works[number] = work
    return Services(by_bucket=services, works=tuple(works))


def _learn_service(calls: Sequence[TraceCall]) -> tuple[Service, list[float | None]]:
    ran = [call for call in calls if call.started_at is not None]
    refused = [call for call in ran if call.was_refused]
    runs = {
        number: _Run(call.tool_name, call.started_at, call.ended_at)
        for number, call in enumerate(calls)
        if call.started_at is not None and not call.was_refused
    }
    if not runs:
        return Service(refusals=len(refused)), [None] * len(calls)
    crowd = _Crowd(runs.values())
    beside = sorted(crowd.count_at(run.begin) for run in runs.values())
    most = beside[min(len(beside) - 1, int(0.95 * len(beside)))]
    listed = [*runs.values()]
    speed_limit = _find_speed_limit(listed, crowd, most)
    works = dict(zip(runs, crowd.list_works(listed, speed_limit), strict=True))
    service = Service(
        speed_limit=speed_limit,
        places=_find_places(listed, refused, crowd),
        refusals=len(refused),
        refusal_time=statistics.median(call.service or 0.0 for call in refused) if refused else 0.0,
        pause=_find_pause(ran, refused),
        fewest=beside[int(0.05 * len(beside))],
        most=most,
        works=_list_works(listed, [*works.values()]),
    )
    return service, [works.get(number) for number in range(len(calls))]


class Station:
    """A service on the clock of a simulation."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.running = 0
        self._left: dict[asyncio.Future[None], float] = {}
        self._at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether it would refuse a further call."""
        return self.service.places is not None and self.running >= self.service.places

    async def work(self, seconds: float) -> None:
        """Work on a call that takes so long alone, beside what it does else."""
        self.running += 1
        try:
            if self.service.speed_limit is None:
                await asyncio.sleep(seconds)
            else:
                await self._share_speed(seconds)
        finally:
            self.running -= 1

    async def _share_speed(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._pass_time(loop.time())
        self._left[done] = seconds
        self._plan_end(loop)
        await done

    def _pass_time(self, now: float) -> None:
        passed = (now - self._at) * self._find_speed()
        self._at = now
        for each in self._left:
            self._left[each] -= passed

    def _find_speed(self) -> float:
        limit = self.service.speed_limit or len(self._left)
        return min(1.0, limit / len(self._left)) if self._left else 1.0

    def _plan_end(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._left:
            soonest = max(0.0, min(self._left.values())) / self._find_speed()
            self._timer = loop.call_later(soonest, self._end_due, loop)

    def _end_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pass_time(loop.time())
        for each in [each for each, left in self._left.items() if left <= _SETTLED]:
            del self._left[each]
            each.set_result(None)
        self._plan_end(loop)


class _Crowd:
    """How many calls were at the service, at each time."""

    def __init__(self, runs: Iterable[_Run]) -> None:
        changes: dict[float, int] = {}
        for run in runs:
            changes[run.begin] = changes.get(run.begin, 0) + 1
            changes[run.over] = changes.get(run.over, 0) - 1
        self.times = sorted(changes)
        self.counts: list[int] = []
        count = 0
        for time in self.times:
            count += changes[time]
            self.counts.append(count)

    def count_at(self, time: float) -> int:
        at = bisect_right(self.times, time) - 1
        return self.counts[at] if at >= 0 else 0

    def list_works(self, runs: Sequence[_Run], speed_limit: int | None) -> list[float]:
        """Return the seconds that each call takes alone, under a supposition of the speed."""
        if speed_limit is None:
            return [run.end - run.begin for run in runs]
        return self._add_up(runs, lambda count: min(1.0, speed_limit / count) if count else 1.0)

    def list_others(self, runs: Sequence[_Run], span: float | None = None) -> list[float]:
        """Return how many others there were on average from the begin of each run.

        Args:
            runs: The runs.
            span: The seconds that are looked at; None: as long as each ran.
        """
        windows = [
            run if span is None else _Run(run.tool, run.begin, run.begin + span) for run in runs
        ]
        sums = self._add_up(windows, float)
        return [
            (each - min(run.end, window.end) + run.begin) / max(window.end - run.begin, _SETTLED)
            for run, window, each in zip(runs, windows, sums, strict=True)
        ]

    def _add_up(self, runs: Sequence[_Run], weigh: Callable[[int], float]) -> list[float]:
        """Return, for each call, what the numbers of calls weigh for as long as it ran."""
        passed, until = 0.0, [0.0]
        for index in range(1, len(self.times)):
            lasted = self.times[index] - self.times[index - 1]
            passed += lasted * weigh(self.counts[index - 1])
            until.append(passed)

        def read(time: float) -> float:
            at = bisect_right(self.times, time) - 1
            return until[at] + (time - self.times[at]) * weigh(self.counts[at])

        return [read(run.end) - read(run.begin) for run in runs]


def _find_speed_limit(runs: Sequence[_Run], crowd: _Crowd, most: int) -> int | None:
    """Return the number of calls at once from which on they slow one another down."""
    works = crowd.list_works(runs, None)
    if _measure_trend(runs, works, crowd.list_others(runs)) < _CLEAR_TREND:
        return None
    # With the right number it makes no difference any more how many others there were. Looked at
    # for equal times, as of those that run until few are left most are long by themselves.
    crowds = crowd.list_others(runs, statistics.median(works))
    trends = {
        limit: abs(_measure_trend(runs, crowd.list_works(runs, limit), crowds))
        for limit in range(1, most)
    }
    return min(trends, key=lambda limit: trends[limit], default=None)


def _measure_trend(runs: Sequence[_Run], works: Sequence[float], crowds: Sequence[float]) -> float:
    """Return by how many standard errors calls take longer beside more others."""
    middle = _list_works(runs, works)
    shares = [work / max(middle[run.tool], _SETTLED) for run, work in zip(runs, works, strict=True)]
    if len(runs) < _FEWEST_RUNS or max(crowds) - min(crowds) < 1:
        return 0.0
    slope, start = statistics.linear_regression(crowds, shares)
    rest = math.fsum(
        (share - start - slope * count) ** 2 for share, count in zip(shares, crowds, strict=True)
    )
    variance = max(rest / (len(runs) - 2), _NOISE**2)
    return slope * math.sqrt(statistics.pvariance(crowds) * len(runs) / variance)


def _list_works(runs: Sequence[_Run], works: Sequence[float]) -> dict[str, float]:
    by_tool: dict[str, list[float]] = {}
    for run, work in zip(runs, works, strict=True):
        by_tool.setdefault(run.tool, []).append(work)
    return {tool: statistics.median(each) for tool, each in by_tool.items()}


def _find_places(runs: Sequence[_Run], refused: Sequence[TraceCall], crowd: _Crowd) -> int | None:
    """Return the number of calls that the service takes, if one number explains the refusals."""
    if not refused:
        return None
    # Beside how many others each came; those that were taken are among the crowd themselves.
    taken = sorted(crowd.count_at(run.begin) - 1 for run in runs)
    turned = sorted(crowd.count_at(call.started_at or 0.0) for call in refused)
    misjudged = {
        places: len(taken) - bisect_right(taken, places - 1) + bisect_right(turned, places - 1)
        for places in sorted({*turned, turned[0] + 1, taken[-1] + 1})
    }
    best = min(misjudged, key=lambda places: misjudged[places])
    return best if misjudged[best] <= _MISJUDGED * (len(taken) + len(turned)) else None


def _find_pause(ran: Sequence[TraceCall], refused: Sequence[TraceCall]) -> float:
    """Return how long no call of the bucket started after a refusal, while some waited.

    The last refusal of several is the one that counts, and the shortest time its.
    """
    starts = sorted((call.started_at or 0.0, call.enqueued_at) for call in ran)
    times = [start for start, _ in starts]
    pauses = []
    for call in refused:
        at = bisect_right(times, call.ended_at)
        if at < len(starts) and starts[at][1] <= call.ended_at:
            pauses.append(starts[at][0] - call.ended_at)
    return sorted(pauses)[len(pauses) // 10] if pauses else 0.0
