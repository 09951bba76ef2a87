"""In which order, and when, do calls that wait get their slots, if no other call comes?

The lines are copied, and the queue itself says who is next in the copy, on a clock that jumps. To
work the order out again would be to write every rule a second time, and sooner or later
differently.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from math import inf, nextafter

from tool_engine.admission.counts import ToolCounts
from tool_engine.admission.key import Key
from tool_engine.admission.layout import Layout
from tool_engine.admission.lines import Bucket, Lane, Line, ToolLine
from tool_engine.admission.load.overload import Places
from tool_engine.admission.queue import Queue
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.admission.throttle import Throttle
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig


class _Double(Waiter, eq=False, kw_only=True):
    """Stands in line in the place of a waiter, and calls `note` where that one would wake."""

    note: Callable[[], None]

    @classmethod
    def of(cls, original: Waiter, lane: Lane, note: Callable[[], None]) -> _Double:
        request, weight = original.request, original.weight
        places = (original.order, original.enqueued_at, original.future)
        double = cls(lane, request, weight, *places, due=original.due, note=note)
        if original.resumes is not None:
            double.resumes = ConcurrencySlot(lane, weight, 0, 0.0, request)
        return double

    def wake(self, error: object = None) -> None:
        """Note that its turn has come."""
        self.note()


class Forecast:
    """What becomes of those who hold slots and of those who wait; used once.

    Args:
        config: The limits.
        now: The time, on the controller's clock.
        used: How many units of the limit in all are in use.
        turn: Under `fair`: the round of the call that was served last.
        seconds: How long a call of a bucket is taken to run.
    """

    __slots__ = (
        "_bucket_copies",
        "_counts_copies",
        "_due",
        "_events",
        "_key_copies",
        "_lane_copies",
        "_limit",
        "_now",
        "_number",
        "_queue",
        "_seconds",
        "_tool_line_copies",
        "_used",
        "served",
    )

    def __init__(
        self,
        config: ConcurrencyConfig,
        now: float,
        used: int,
        turn: float,
        seconds: Callable[[str], float],
    ) -> None:
        self._now = now
        self._used = used
        self._limit = config.max_concurrent
        self._queue = Queue(Layout(config), self._read_time, self._wake_later, _never_expire)
        self._queue.round = turn
        self._seconds = seconds
        self._lane_copies: dict[Lane, Lane] = {}
        self._tool_line_copies: dict[ToolLine, ToolLine] = {}
        self._counts_copies: dict[ToolCounts, ToolCounts] = {}
        self._bucket_copies: dict[Bucket, Bucket] = {}
        self._key_copies: dict[Key, Key] = {}
        self._due: dict[Line, float] = {}
        self._events: list[tuple[float, int, ConcurrencySlot | Line]] = []
        self._number = 0
        self.served: list[tuple[Waiter, float]] = []
        """Who got a slot, and when, in this order."""

    def hold(self, slot: ConcurrencySlot, seconds: float) -> None:
        """Has a slot be given back in `seconds`."""
        lane = self._copy_lane(slot.lane)
        double = ConcurrencySlot(lane, slot.weight, 0, slot.acquired_at, slot.request)
        self._schedule_at(self._now + seconds, double)

    def add_waiter(self, waiter: Waiter) -> None:
        """Put a waiter in line."""
        lane, places = self._copy_lane(waiter.lane), waiter.lane.bucket.places
        double = _Double.of(waiter, lane, partial(self._note_served, waiter))
        lane.push(double)
        if lane.bucket.places is not None:
            lane.bucket.places.add(double, places.find(waiter))
        self._queue.waiting += 1

    def run(self, until: Waiter | None = None) -> float:
        """Lets time pass until all have been served, or `until` has.

        Returns:
            When the last of them was served; infinity when it cannot be known.
        """
        for lane in sorted(self._lane_copies.values(), key=Lane.first):
            self._queue.refresh(lane)
        self._give_out()
        looked_at = 0
        while True:
            for waiter, at in self.served[looked_at:]:
                if waiter is until:
                    return at
            looked_at = len(self.served)
            waiting = self._queue.waiting
            if not waiting or not self._events or self._events[0][0] == inf:
                return inf if waiting else self._now
            self._advance_time()

    def _read_time(self) -> float:
        return self._now

    def _schedule_at(self, when: float, what: ConcurrencySlot | Line) -> None:
        self._number += 1
        heappush(self._events, (when, self._number, what))

    def _advance_time(self) -> None:
        self._now, _, event = heappop(self._events)
        if isinstance(event, ConcurrencySlot):
            self._put_back(event)
        else:
            self._due.pop(event, None)
            lane = self._queue.end_delay(event)
            if lane is not None:
                self._hand_over(lane)

    def _put_back(self, slot: ConcurrencySlot) -> None:
        lane = slot.lane
        self._used -= slot.weight
        lane.bucket.used -= slot.weight
        lane.uncount_keys(slot)
        if self._queue.waiting:
            self._hand_over(lane)

    def _hand_over(self, lane: Lane) -> None:
        self._queue.refresh_after(lane, self._now)
        self._give_out()

    def _give_out(self) -> None:
        queue = self._queue
        while head := queue.next(self._used, self._limit, self._now, is_paused=False):
            self._grant_slot(head)
            queue.refresh(head.lane, self._now)

    def _grant_slot(self, waiter: Waiter) -> None:
        lane: Lane = waiter.lane
        slot = ConcurrencySlot(lane, waiter.weight, 0, self._now, waiter.request)
        if waiter.resumes is None:
            lane.count_start(slot, self._now)
        if lane.bucket.places is not None:
            lane.bucket.places.serve(waiter)
        self._queue.leave(waiter)
        self._queue.serve(waiter)
        self._used += slot.weight
        lane.bucket.used += slot.weight
        lane.count_keys(slot)
        self._schedule_at(self._now + self._seconds(slot.bucket), slot)
        waiter.wake()

    def _note_served(self, waiter: Waiter) -> None:
        self.served.append((waiter, self._now))

    def _wake_later(self, line: Line, delay: float) -> None:
        # A delay can be too small to be seen on the clock.
        when = max(self._now + delay, nextafter(self._now, inf))
        if when < self._due.get(line, inf):
            self._due[line] = when
            self._schedule_at(when, line)

    def _copy_lane(self, lane: Lane) -> Lane:
        copy = self._lane_copies.get(lane)
        if copy is None:
            bucket = self._copy_bucket(lane.bucket)
            above: Line = bucket
            if isinstance(lane.above, ToolLine):
                above = self._tool_line(lane.above, bucket)
            keys = tuple(self._copy_key(key) for key in lane.keys)
            share = None if lane.share is None else self._copy_key(lane.share)
            copy = self._lane_copies[lane] = Lane(lane.id, above, bucket, keys, share)
            copy.update(is_observed=False)
        return copy

    def _tool_line(self, line: ToolLine, bucket: Bucket) -> ToolLine:
        copy = self._tool_line_copies.get(line)
        if copy is None:
            copy = self._tool_line_copies[line] = ToolLine(bucket, self._copy_counts(line))
        return copy

    def _copy_counts(self, line: ToolLine) -> ToolCounts:
        copy = self._counts_copies.get(line.counts)
        if copy is None:
            copy = ToolCounts(line.counts.name, line.counts.owner)
            copy.throttle = _copy_throttle(line)
            self._counts_copies[line.counts] = copy
        return copy

    def _copy_bucket(self, bucket: Bucket) -> Bucket:
        copy = self._bucket_copies.get(bucket)
        if copy is None:
            copy = self._bucket_copies[bucket] = Bucket(bucket.name, self._queue.root)
            copy.set_limit(bucket.find_usable())
            copy.adaptive = bucket.adaptive  # only read
            copy.places = None if bucket.places is None else Places()
            copy.throttle = _copy_throttle(bucket)
            copy.paused_until = bucket.paused_until
            copy.used = bucket.used
        return copy

    def _copy_key(self, key: Key) -> Key:
        copy = self._key_copies.get(key)
        if copy is None:
            copy = self._key_copies[key] = Key(key.name)
            copy.set_limit(key.find_usable())
            copy.used, copy.weight = key.used, key.weight
            copy.round, copy.credit = key.round, key.credit
            # Only read: which lanes have lent a slot out, and for how long is not known.
            copy.lanes = key.lanes
        return copy


def _never_expire(waiter: Waiter) -> None:
    del waiter


def _copy_throttle(line: Line) -> Throttle | None:
    return None if line.throttle is None else line.throttle.copy()
