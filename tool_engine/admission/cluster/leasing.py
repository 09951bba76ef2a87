"""Which units of a shared limit may this process use, and which of its calls wait for more?

A lease moves the limit of a bucket, and that is all that the way of a call sees of it. What waits
for nothing but units has a place in the line of all processes; what something of this process holds
up has none, for it could not start when its turn comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from tool_engine.admission.lines import Bucket, Lane
from tool_engine.admission.slot import ConcurrencySlot, Order
from tool_engine.admission.waiting import Waiter
from tool_engine.interfaces.lease_source import LeaseSource

if TYPE_CHECKING:
    from tool_engine.admission.pool import SlotPool


class Lease:
    """The units of one bucket that this process may use.

    Args:
        bucket: The bucket.
        desk: What passes on what is asked.
    """

    __slots__ = (
        *("_bucket", "_desk", "_lost", "_places", "_unasked"),
        *("asked_units", "is_local", "is_wanted", "most", "units"),
    )

    def __init__(self, bucket: Bucket, desk: LeaseDesk) -> None:
        self._bucket = bucket
        self._desk = desk
        self.units = 0
        self.most = 0
        """The most that may be in use: units that others may have by now count beside those."""
        self.is_local = False
        """Whether its source cannot be reached, and this process has the limit to itself."""
        self.is_wanted = False
        """Whether what is idle goes back."""
        self._lost: set[ConcurrencySlot] = set()
        """Slots whose units others may have, and whose work has not ended."""
        self._places: set[Waiter] = set()
        """Those that have a place in the line of all processes."""
        self.asked_units = 0
        """The units that those wait for."""
        # Of lanes without keys, where not only the first may go. The first of the others is known.
        self._unasked: list[tuple[Order, Waiter]] = []

    def find_limit(self) -> int | None:
        """Return how many units there are at most for this process; None: any number."""
        own, shared = self._bucket.limit, self._desk.source.limit_of(self._bucket.name)
        return min((each for each in (own, shared) if each is not None), default=None)

    def note_waiter(self, waiter: Waiter) -> None:
        """Take note of a call that has come to wait."""
        is_blocked = self._bucket.offered is None and waiter.lane.offered is not None
        if self.remember(waiter) and is_blocked:
            self.ask_source()

    def remember(self, waiter: Waiter) -> bool:
        """Have a call asked for in its turn; False: its line is asked who is its first."""
        is_alone = bool(waiter.lane.keys) or waiter.lane.above is not self._bucket
        if not is_alone:
            heappush(self._unasked, (waiter.order, waiter))
        return not is_alone

    def note_blocked(self) -> None:
        """Take note that the bucket may wait for units: it asks once all else is settled."""
        self._desk.hold_up(self._bucket)

    def ask_source(self) -> None:
        """Give a place to each call that waits for nothing but units."""
        bucket, unasked, desk = self._bucket, self._unasked, self._desk
        if len(self._places) >= bucket.waiting:
            return
        for order, line in bucket.entries:
            if line.offered == order and (not isinstance(line, Lane) or line.keys):
                heappush(unasked, (line.head.order, line.head))
        while unasked:
            waiter = unasked[0][1]
            if waiter.is_waiting and waiter not in self._places:
                if not desk.has_room_for(waiter, self.asked_units):
                    return
                self._places.add(waiter)
                self.asked_units += waiter.weight
                desk.ask_for(waiter)
            heappop(unasked)

    def take_place(self, waiter: Waiter) -> bool:
        """Take the place of a waiter from it; False: it has none."""
        if waiter not in self._places:
            return False
        self._places.remove(waiter)
        self.asked_units -= waiter.weight
        return True

    def withdraw(self, waiter: Waiter) -> None:
        """Give up the place of a waiter, if it has one."""
        self._desk.end_asking(waiter)
        if self.take_place(waiter):
            self._desk.source.withdraw(waiter)

    def has_place(self, waiter: Waiter) -> bool:
        """Return whether a waiter has a place in the line of all processes."""
        return waiter in self._places

    def set_units(self, units: int) -> None:
        """Take note of how many units are on lease."""
        self.units = units
        self.most = units + self.count_lost()
        self._bucket.update_most()

    def count_lost(self) -> int:
        """Return how many units are in use that others may have by now."""
        return sum(slot.weight for slot in self._lost)

    @property
    def is_watched(self) -> bool:
        """True if the end of each call is to be heard of."""
        return self.is_wanted or bool(self._lost)

    def lose(self, slots: Iterable[ConcurrencySlot]) -> None:
        """Take note that others may have all units, with those of some slots."""
        self._lost.update(slots)
        self.set_units(0)

    def take_back(self, slot: ConcurrencySlot) -> None:
        """Take note that a slot uses no units any more."""
        if slot in self._lost:
            self._lost.remove(slot)
            self.set_units(self.units)
            if not self._lost:
                self._desk.gate(self._bucket)
        self.return_idle()

    def return_idle(self) -> None:
        """Give back what is idle, if it is wanted."""
        idle = self.most - self._bucket.used
        if self.is_wanted and idle > 0:
            self.set_units(self.units - idle)
            self._desk.source.give_back(self._bucket.name, idle)


class LeaseDesk:
    """Passes on what calls need of a source, and what that gives.

    Args:
        pool: The slots of the controller.
        source: Where its units come from.
    """

    __slots__ = ("_asking", "_counts", "_held_up", "_pool", "source")

    def __init__(self, pool: SlotPool, source: LeaseSource) -> None:
        self._pool = pool
        self.source = source
        self._asking: dict[Waiter, Callable[[], None] | None] = {}
        """Calls of which it is not known yet whether they wait, and what is called if they do."""
        self._counts: Counter[Any] = Counter()
        """How many those are, by the names of buckets and keys."""
        self._held_up: set[Bucket] = set()
        """Buckets in which calls wait that could not have started when their turn came."""
        pool.leases = pool.layout.leases = self
        for name in source.buckets:
            pool.layout.bucket(name)
        source.attach(self)

    def lease_of(self, bucket: Bucket) -> Lease | None:
        """Return the lease of a bucket that is made; None: it is not shared."""
        return Lease(bucket, self) if bucket.name in self.source.buckets else None

    def has_room_for(self, waiter: Waiter, asked: int) -> bool:
        """Return whether a call could start now, beside all that have asked, if it had its units.

        Args:
            waiter: The call.
            asked: How many units of its bucket those wait for.
        """
        bucket: Bucket = waiter.lane.bucket
        if not self._is_free_for(waiter):
            self._held_up.add(bucket)
            return False
        # What comes free, or a timer, brings the bucket back.
        if bucket.delay(waiter, self._pool.clock()) > 0:
            return False
        used = bucket.used + asked
        return bucket.limit is None or used + waiter.weight <= bucket.limit or not used

    def hold_up(self, bucket: Bucket) -> None:
        """Look at a bucket when something has changed."""
        self._held_up.add(bucket)

    def ask_again(self) -> None:
        """Give places to those that were held up."""
        held_up, self._held_up = self._held_up, set()
        for bucket in held_up:
            if bucket.lease is not None and bucket.offered is None and bucket.entries:
                bucket.lease.ask_source()

    # A call asks before it waits.

    def ask_for(self, waiter: Waiter) -> None:
        """Give a call a place in the line of all processes."""
        is_strict = waiter.is_queued and self._pool.has_to_go(waiter, len(self._asking))
        self.source.ask(waiter, is_strict=is_strict)

    def begin_asking(self, waiter: Waiter) -> bool:
        """Have a call that has come just now ask whether it waits; False: that is known."""
        lease: Lease | None = waiter.lane.bucket.lease
        if lease is None or not waiter.is_queued or not lease.has_place(waiter):
            return False
        self._asking[waiter] = None
        self._counts.update(_names_of(waiter))
        waiter.is_queued = False
        self._pool.queue.queued -= 1
        return True

    def tell_queued(self, waiter: Waiter, on_queued: Callable[[], None]) -> None:
        """Call `on_queued` once it is known that a call waits."""
        if waiter in self._asking:
            self._asking[waiter] = on_queued
        else:
            on_queued()

    def end_asking(self, waiter: Waiter) -> Callable[[], None] | None:
        """Take note that what becomes of a call is known; return what is called if it waits."""
        if waiter not in self._asking:
            return None
        self._counts.subtract(_names_of(waiter))
        self._counts += Counter()
        return self._asking.pop(waiter)

    def count_asking(self, name: Any) -> int:
        """Return how many calls of a bucket or a key may not have to wait."""
        return self._counts[name]

    # What the source says: see `interfaces.LeaseHolder`.

    def keep_waiting(self, waiter: Waiter) -> None:
        """Let a call wait that has asked, or refuse it."""
        if waiter not in self._asking:
            return
        pool, on_queued = self._pool, self.end_asking(waiter)
        waiter.is_queued = True
        pool.queue.queued += 1
        error = pool.settle_wait(waiter, pool.clock())
        if error is not None:
            waiter.wake(error)
        elif on_queued is not None:
            on_queued()

    def refuse_all(self) -> None:
        """End the wait of calls that the source has a reason to refuse."""
        for bucket in list(self._pool.layout.buckets.values()):
            error = None if bucket.lease is None else self.source.refuse(bucket.name)
            lanes = [lane for lane in self._pool.layout.lanes.values() if lane.bucket is bucket]
            for waiter in [each for lane in lanes if error for each in lane.waiting_calls()]:
                if waiter.resumes is None:
                    self._pool.reject_waiter(waiter, error)

    def count_used(self, bucket: str) -> int:
        """Return how many units of a bucket are in use, but for those that were lost."""
        found = self._pool.layout.bucket(bucket)
        return found.used - (0 if found.lease is None else found.lease.count_lost())

    def start(self, waiter: Waiter, units: int) -> bool:
        """Start a call whose units have come; False: it cannot, or waits no more."""
        bucket: Bucket = waiter.lane.bucket
        lease: Lease | None = bucket.lease
        if lease is None or not lease.take_place(waiter):
            return False
        lease.set_units(units)
        if self._grant_units(waiter):
            return True
        if waiter.is_waiting:
            # It asks anew when the source has heard that it could not start.
            self.keep_waiting(waiter)
        if waiter.is_waiting:
            lease.remember(waiter)
            self._pool.queue.refresh(waiter.lane)
            self._held_up.add(bucket)
        return False

    def set_local(self, is_local: bool) -> None:
        """Say in explanations whether the process goes by the limits alone."""
        for bucket in self._pool.layout.buckets.values():
            if bucket.lease is not None:
                bucket.lease.is_local = is_local

    def pause(self, bucket: str, seconds: float) -> None:
        """Give no slots of a bucket for some time, as another process says."""
        found, pool = self._pool.layout.bucket(bucket), self._pool
        found.pause(pool.clock() + seconds)
        pool.queue.refresh(found)
        pool.give_out()  # room that was kept for a call of the bucket, too

    def lose_all(self) -> list[ConcurrencySlot]:
        """Take note that others may have all units; return the slots that use some."""
        lost: dict[Bucket, list[ConcurrencySlot]] = {}
        for slot in self._pool.held:
            if slot.lane.bucket.lease is not None:
                lost.setdefault(slot.lane.bucket, []).append(slot)
        for bucket in list(self._pool.layout.buckets.values()):
            if bucket.lease is not None:
                bucket.lease.lose(lost.get(bucket, ()))
                self.gate(bucket)
        return [slot for slots in lost.values() for slot in slots]

    def gate(self, bucket: Bucket) -> None:
        """Look again whether the end of each call of a bucket is to be heard of."""
        self._pool.layout.gate(bucket)

    def set_units(self, bucket: str, units: int, *, is_wanted: bool) -> None:
        """Take note of how many units are on lease, and whether they are wanted elsewhere."""
        found = self._pool.layout.bucket(bucket)
        lease: Lease | None = found.lease
        if lease is None:
            return
        if lease.is_wanted is not is_wanted:
            lease.is_wanted = is_wanted
            self.gate(found)
        lease.set_units(units)
        lease.return_idle()
        if found.waiting:
            self._pool.queue.refresh(found)
            self._pool.give_out()

    def _is_free_for(self, waiter: Waiter) -> bool:
        """Return whether there is room in all, and none is kept for another one before it."""
        pool, resumes = self._pool, waiter.resumes is not None
        first = pool.queue.find_first()
        if (pool.is_shut and not resumes) or (first is not None and first[0] < waiter.order):
            return False
        return pool.used + waiter.weight <= pool.limit or (resumes and not pool.used)

    def _grant_units(self, waiter: Waiter) -> bool:
        """Give a waiter its slot, unless something of this process holds it up by now."""
        pool, lane = self._pool, waiter.lane
        if not (waiter.is_waiting and self._is_free_for(waiter)):
            return False
        now, line = pool.clock(), lane
        while line.above is not None:
            if not line.lets(waiter, now):
                return False
            line = line.above
        is_asked = lane.is_gated and waiter.resumes is None
        error = pool.refuse_head(waiter, lane, now) if is_asked else None
        if error is not None:
            pool.reject_waiter(waiter, error)
            return False
        pool.grant(waiter, now)
        pool.queue.refresh(lane, now)
        return True


def _names_of(waiter: Waiter) -> list[Any]:
    return [waiter.lane.bucket.name, *(key.name for key in waiter.lane.keys)]
