"""In which lines do calls wait, and what must give way before the first of a line may go?

A tree: *lanes* (calls that are held up by the same things) end in the line of their tool, if it has
a rate, and that, like all other lanes, in the line of its *bucket*; buckets stand in the
controller's line. A line stands in the one above it under the order of its first call, and only
while nothing of its own holds that call up: keys in a lane, the rate of a tool, the limit, the rate
or a pause of a bucket. So a full bucket, a full key or a slow rate delays no other call, and each
change costs O(log n).
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final

from tool_engine.admission.breaker import CircuitBreaker
from tool_engine.admission.counts import Counts, ToolCounts
from tool_engine.admission.key import COMES_LAST, Key, bound_usable
from tool_engine.admission.load.adaptive import AdaptiveLimit
from tool_engine.admission.load.overload import OverloadWatch, Places
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot, Order, walk_ancestry
from tool_engine.admission.throttle import Throttle
from tool_engine.admission.waiting import Arrivals, Waiter
from tool_engine.model.settings.concurrency import ADAPTIVE_LIFO, OverloadPolicy

_COMPACT_FROM: Final = 64
_REMEMBERED: Final = 512
"""Waits and service times per bucket from which percentiles are taken."""


class Line:
    """A line of lines, the one with the smallest order first."""

    __slots__ = ("above", "compact_at", "entries", "head", "offered", "throttle", "timer")

    keys: tuple[Key, ...] = ()
    """Which limits its calls share with those of other lines; only lanes have any."""
    kin: Sequence[Line] = ()
    """The lines that share one rate, itself among them; only lines of tools have any."""

    def __init__(self, above: Line | None, throttle: Throttle | None = None) -> None:
        self.above = above
        self.throttle = throttle
        self.timer: asyncio.TimerHandle | None = None
        """Set while the first call waits for the rate, or for the end of a pause."""
        self.entries: list[tuple[Order, Any]] = []
        """A heap of the lines below; what has changed since stays in it until it comes to the
        top, or there are too many."""
        self.compact_at = _COMPACT_FROM
        self.offered: Order | None = None
        """The order under which it stands in the line above, if it does."""
        self.head: Waiter | None = None
        """The call that it stands there for."""

    def best(self) -> tuple[Order, Waiter] | None:
        """The first call that nothing below holds up."""
        entries = self.entries
        while entries:
            # A line that stands elsewhere by now is skipped when it comes to the top: to take it
            # out where it stands would cost as much as all that wait.
            order, line = entries[0]
            if line.offered == order:
                return order, line.head
            heappop(entries)
        return None

    def offer(self, order: Order, head: Waiter) -> None:
        """Stands in the line above for `head`."""
        self.head = head
        above = self.above
        if self.offered != order and above is not None:
            if len(above.entries) >= above.compact_at:
                above.compact()
            self.offered = order
            entries = above.entries
            if entries and entries[0][1] is self:  # what it stood there under is over
                heapreplace(entries, (order, self))
            else:
                heappush(entries, (order, self))

    def compact(self) -> None:
        """Drops what has changed since it came in."""
        lines = {line: order for order, line in self.entries if line.offered == order}
        self.entries = [(order, line) for line, order in lines.items()]
        heapify(self.entries)
        self.compact_at = max(_COMPACT_FROM, 2 * len(self.entries))

    def withdraw(self) -> None:
        """Leaves the line above."""
        self.offered = self.head = None

    def delay(self, waiter: Waiter, now: float) -> float:
        """Seconds until the rate lets `waiter` through; a call that goes on is not a new one."""
        if self.throttle is None or waiter.resumes is not None:
            return 0.0
        return self.throttle.delay(now)

    def lets(self, waiter: Waiter, now: float) -> bool:
        """Whether nothing of its own holds `waiter` up."""
        return self.delay(waiter, now) <= 0


class ToolLine(Line):
    """The calls of one tool that has a rate or a breaker of its own."""

    __slots__ = ("counts", "kin")

    def __init__(self, bucket: Bucket, counts: ToolCounts) -> None:
        super().__init__(bucket, counts.throttle)
        self.counts = counts
        self.kin = counts.lines
        counts.lines.append(self)

    @property
    def breaker(self) -> CircuitBreaker | None:
        """The tool's; None: it has none now."""
        return self.counts.breaker

    def lets(self, waiter: Waiter, now: float) -> bool:
        """Whether nothing of its own holds `waiter` up."""
        if self.counts.is_shared and not waiter.lane.bucket.lease.lets_tool(waiter, self.counts):
            return False
        return super().lets(waiter, now)


class Bucket(Line):
    """A named limit inside the global one."""

    __slots__ = (
        "adaptive",
        "aside",
        "counts",
        "lease",
        "limit",
        "most",
        "name",
        "overload",
        "paused_until",
        "places",
        "queue_size",
        "rejected",
        "served",
        "used",
        "waiting",
        "waits",
    )

    def __init__(self, name: str, root: Line) -> None:
        super().__init__(root)
        self.name = name
        self.limit: int | None = None
        """None: only the global limit applies."""
        self.most = sys.maxsize
        """The limit as a number that can be compared; -1 during a pause."""
        self.queue_size: int | None = None
        self.adaptive: AdaptiveLimit | None = None
        """Finds the limit; None: the configuration says it."""
        self.overload: OverloadWatch | None = None
        """None: it has no rules of its own for calls that wait too long."""
        self.places: Places | None = None
        """None: its calls always go in the order in which they came."""
        self.lease: Any = None
        """The `Lease` of what it shares with other processes; None: it shares nothing."""
        self.counts = Counts()
        self.paused_until: float | None = None
        self.used = 0
        self.waiting = 0
        self.aside = 0
        """Those of them that count against no bound, as `Waiter.is_queued` says."""
        self.rejected = 0
        self.waits: deque[float] = deque(maxlen=_REMEMBERED)
        """Seconds that the last calls waited which had to."""
        self.served: deque[float] = deque(maxlen=_REMEMBERED)
        """Seconds for which the last calls held their slots while others waited."""

    def watch_waits(self, policy: OverloadPolicy | None) -> None:
        """Go by rules for calls that wait too long; None: there are none."""
        if policy is None or self.overload is None:
            self.overload = None if policy is None else OverloadWatch(policy)
        else:
            self.overload.policy = policy
        is_turned = policy is not None and policy.order == ADAPTIVE_LIFO
        self.places = (self.places or Places()) if is_turned else None

    def offer(self, order: Order, head: Waiter) -> None:
        """Stand in the line above for `head`, in the first place of its waiters."""
        first = None if self.places is None or head.resumes is not None else self.places.first()
        super().offer(order if first is None else (order[0], *first), head)

    @property
    def breaker(self) -> CircuitBreaker | None:
        """None: it has none now."""
        return self.counts.breaker

    def set_limit(self, limit: int | None) -> None:
        """None: only the global limit applies."""
        self.limit = limit
        self.update_most()

    def update_most(self) -> None:
        """Take note of another limit, lease or pause."""
        if self.paused_until is None:
            most = sys.maxsize if self.limit is None else self.limit
            self.most = most if self.lease is None else min(most, self.lease.most)

    def pause(self, until: float) -> None:
        """Give no slots until then; a shorter pause does not end a longer one."""
        self.paused_until = max(until, self.paused_until or until)
        self.most = -1

    def end_pause(self, now: float) -> bool:
        """Open again, if the pause is over by then; return whether it is open."""
        if self.paused_until is not None and self.paused_until <= now:
            self.paused_until = None
            self.update_most()
        return self.paused_until is None

    def find_usable(self) -> int | None:
        """Return how many units its calls here may use; None: any number."""
        if self.lease is None or not self.lease.is_shared:
            return self.limit
        return bound_usable(self.limit, self.lease.most, self.used)

    @property
    def largest(self) -> int | None:
        """The heaviest call that ever fits; None: only the global limit bounds it."""
        return self.limit if self.adaptive is None else self.adaptive.policy.max

    def lets_alone(self, weight: int) -> bool:
        """Whether a new call may pass the limit, as only one that found itself lets a call pass.

        It never shuts out what its bounds allow: it would not learn.
        """
        if self.adaptive is None or self.used or self.paused_until is not None:
            return False
        return weight <= self.adaptive.policy.max and (
            self.lease is None or weight <= self.lease.most
        )

    def has_room(self, weight: int) -> bool:
        """Whether `weight` more units fit, pause or not."""
        return self.limit is None or self.used + weight <= self.limit

    def delay(self, waiter: Waiter, now: float) -> float:
        """Seconds until rate and pause let `waiter` through."""
        delay = super().delay(waiter, now)
        if self.lease is not None and self.lease.is_alone and waiter.resumes is None:
            delay = max(delay, self.lease.throttle.delay(now))
        if self.paused_until is None or waiter.resumes is not None:
            return delay
        return max(delay, self.paused_until - now)

    def lets(self, waiter: Waiter, now: float) -> bool:
        """Whether there is room, and neither rate nor pause hold `waiter` up."""
        if self.limit is not None and self.used + waiter.weight > self.limit:
            if self.used or (waiter.resumes is None and self.adaptive is None):
                return False
            if waiter.resumes is not None:
                return self.lease is None or bool(self.lease.lets(waiter))
        if self.lease is not None and not self.lease.lets(waiter):
            return False
        if self.throttle is None and self.paused_until is None and self.lease is None:
            return True
        return self.delay(waiter, now) <= 0


class Lane(Line):
    """Calls of one tool or bucket, and of one key where there are keys: smallest order first."""

    __slots__ = (
        "breakers",
        "bucket",
        "id",
        "is_gated",
        "is_gone",
        "keys",
        "lent",
        "refs",
        "share",
        "throttles",
        "waiters",
        "waiting",
    )

    def __init__(
        self, lane_id: Any, above: Line, bucket: Bucket, keys: tuple[Key, ...], share: Key | None
    ) -> None:
        super().__init__(above)
        self.id = lane_id
        self.bucket = bucket
        self.keys = keys
        self.share = share
        """Under `fair`: whose share its calls are taken from."""
        self.refs = 0
        """Slots and waiters that know it."""
        self.lent: set[ConcurrencySlot] = set()
        """Parked slots."""
        self.waiters = Arrivals()
        self.waiting = 0
        self.is_gone = False
        """Whether another one has its place by now, or there is none."""
        self.throttles: tuple[Throttle, ...] = ()
        self.breakers: tuple[CircuitBreaker, ...] = ()
        self.is_gated = True
        """Whether there is more to do for its calls than to count in bucket and global limit."""

    def update(self, *, is_observed: bool) -> None:
        """Notes which rates and breakers stand above, after a change of them."""
        above = [self.bucket] if self.above is self.bucket else [self.above, self.bucket]
        lines: list[Any] = above
        if self.bucket.lease is not None:
            lines = [*above, self.bucket.lease]
        self.throttles = tuple(each.throttle for each in lines if each.throttle is not None)
        self.breakers = tuple(each.breaker for each in lines if each.breaker is not None)
        # With callbacks, too: so calls pay nothing for events that are not listened to.
        self.is_gated = bool(
            is_observed
            or self.keys
            or self.throttles
            or self.breakers
            or self.bucket.adaptive is not None
            or self.bucket.overload is not None
            or (self.bucket.lease is not None and self.bucket.lease.is_watched)
        )

    def best(self) -> tuple[Order, Waiter] | None:
        """The first waiter."""
        return self.waiters.first()

    def lets(self, waiter: Waiter, now: float) -> bool:
        """Whether all keys have room."""
        del now
        if not self.keys:  # then no slot of a key can be lent either
            return True
        is_new = waiter.resumes is None
        return all(key.lets(waiter.weight, waiter.order) for key in self.keys) and (
            not is_new or self.has_place(waiter.request)
        )

    def is_open(self, request: AdmissionRequest, now: float) -> bool:
        """Whether keys, rates and breakers let one more call start."""
        # Those that came first go first, in whichever bucket they wait for the tool's rate.
        if self.above is not None and any(each.best() for each in self.above.kin):
            return False
        lease = self.bucket.lease
        if lease is not None and lease.asks(self):
            return False
        return (
            all(key.lets(request.weight) for key in self.keys)
            and self.has_place(request)
            and all(throttle.delay(now) <= 0 for throttle in self.throttles)
            and all(breaker.delay(now) <= 0 for breaker in self.breakers)
        )

    def delay_of(self, waiter: Waiter, now: float) -> float:
        """Seconds until rates and pauses let `waiter` through."""
        above = self.above or self.bucket
        return max(0.0, above.delay(waiter, now), self.bucket.delay(waiter, now))

    def count_start(self, slot: ConcurrencySlot, now: float) -> None:
        """Count the start of a call in rates and breakers; `Layout.uncount` is its end."""
        slot.is_gated = True
        self.refs += 1
        for throttle in self.throttles:
            throttle.count(now)
        slot.probes = tuple((breaker, breaker.start(now)) for breaker in self.breakers)
        if (adaptive := self.bucket.adaptive) is not None:
            sample = adaptive.start(now, self.bucket.used, slot.weight)
            slot.probes += ((adaptive, sample),)

    def count_keys(self, slot: ConcurrencySlot) -> None:
        """Count a slot against the keys."""
        for key in self.keys:
            key.used += slot.weight
            key.holders.add(slot)

    def uncount_keys(self, slot: ConcurrencySlot) -> None:
        """Undo that."""
        for key in self.keys:
            key.used -= slot.weight
            key.holders.discard(slot)

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was given back to a key than was taken from it."""
        return any(key.used < 0 for key in self.keys)

    def has_place(self, request: AdmissionRequest) -> bool:
        """Whether calls in progress that have lent their slots leave room for one more."""
        lent = self.lent_by_others(request)
        return not lent or self.load(request) + request.weight <= self.keys[-1].most

    def load(self, request: AdmissionRequest) -> int:
        """Units of the limit of the tool's key that calls in progress take away."""
        lent = sum(slot.weight for slot in self.lent_by_others(request))
        return self.keys[-1].used + lent

    def lent_by_others(self, request: AdmissionRequest) -> list[ConcurrencySlot]:
        """Parked slots of the tool's key, but of calls that the request is not part of.

        Only a policy that refuses or ends calls minds them: a call that waited for them could wait
        for itself.
        """
        if not request.minds_lent:
            return []
        lent = [slot for lane in self.keys[-1].lanes for slot in lane.lent]
        above = set(walk_ancestry(request.parent)) if lent else ()
        return [slot for slot in lent if slot not in above]

    def first(self) -> Order:
        """The order of the first waiter; a lane without one comes last."""
        best = self.best()
        return COMES_LAST if best is None else best[0]

    def push(self, waiter: Waiter) -> None:
        """Adds a waiter at the place that its order gives it."""
        self.waiters.add(waiter)
        self.refs += 1
        self.waiting += 1
        self.bucket.waiting += 1
        for key in self.keys:
            key.waiting += 1
        if not waiter.is_queued:
            self.set_aside(1)
        if self.bucket.places is not None:
            self.bucket.places.add(waiter)

    def set_aside(self, count: int) -> None:
        """Have so many more of its calls count against no bound."""
        self.bucket.aside += count
        for key in self.keys:
            key.aside += count

    def forget(self, waiter: Waiter) -> None:
        """Takes a waiter out, whether it was granted, refused or gave up."""
        waiter.is_waiting = False
        self.refs -= 1
        self.waiting -= 1
        self.bucket.waiting -= 1
        for key in self.keys:
            key.waiting -= 1
        if not waiter.is_queued:
            self.set_aside(-1)
        if self.bucket.places is not None:
            self.bucket.places.drop(waiter)
        if len(self.waiters) > _COMPACT_FROM and len(self.waiters) > 2 * self.waiting:
            self.waiters.compact()

    def waiting_calls(self) -> list[Waiter]:
        """Who waits, first come first."""
        return [waiter for _, waiter in sorted(self.waiters) if waiter.is_waiting]
