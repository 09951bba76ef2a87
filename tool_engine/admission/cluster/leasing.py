"""How does a controller use limits that its process shares with others?

A lease moves the limit of a bucket, and that is all that the way of a call sees of it. What waits
for nothing but units has a place in the line of all processes; what something of this process holds
up has none, for it could not start when its turn comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from tool_engine.admission import refusal
from tool_engine.admission.cluster.cluster_limits import TOOL, name_definition, name_tool_rate
from tool_engine.admission.cluster.lease import Lease
from tool_engine.admission.cluster.shared_breaker import SharedBreaker
from tool_engine.admission.counts import ToolCounts
from tool_engine.admission.key import SHARED, Key, name_resource
from tool_engine.admission.lines import Bucket, Lane, ToolLine
from tool_engine.admission.request import HiddenValue, hash_value, shorten_value
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.admission.waiting import Waiter
from tool_engine.errors import AdmissionError
from tool_engine.interfaces.lease_source import LeaseSource, Needs, SharedLimits

if TYPE_CHECKING:
    from tool_engine.admission.pool import SlotPool


class LeaseDesk:
    """Passes on what calls need of a source, and what that gives.

    Args:
        pool: The slots of the controller.
        source: Where its units come from.
    """

    __slots__ = (
        *("_asking", "_counts", "_defined", "_held_up", "_keys", "_lost", "_pool", "_stale"),
        *("_tools", "_until", "_wanted"),
        *("granting", "is_local", "limits", "probe", "source", "units"),
    )

    def __init__(self, pool: SlotPool, source: LeaseSource) -> None:
        self._pool = pool
        self.source = source
        self.limits = source.limits
        """What is shared."""
        self.units: dict[str, int] = {}
        """The units of keys that are on lease, by resource."""
        self._lost: Counter[str] = Counter()
        """Those in use that others may have by now."""
        self._wanted: set[str] = set()
        """The resources of keys of which what is idle goes back."""
        self._defined: dict[str, int] = {}
        """The units of each of its keys that a tool has defined, by its name."""
        self._stale: set[str] = set()
        """The resources of keys whose units were granted under a higher limit of their tool."""
        self.is_local = False
        """Whether its source cannot be reached, and this process has the limits to itself."""
        self.granting: Waiter | None = None
        """The call that starts just now because its turn has come among all processes."""
        self.probe: tuple[str, int] | None = None
        """That call tries a breaker: which one, and as what number; None: it does not."""
        self._keys: WeakValueDictionary[str, Key] = WeakValueDictionary()
        """Those that are shared, by resource."""
        self._tools: dict[str, ToolCounts] = {}
        """Tools whose definition says what is shared, by the names of their breakers."""
        self._until: dict[str, float | None] = {}
        """Until when those breakers are open, on the controller's clock."""
        self._asking: dict[Waiter, Callable[[], None] | None] = {}
        """Calls of which it is not known yet whether they wait, and what is called if they do."""
        self._counts: Counter[Any] = Counter()
        """How many those are, by the names of buckets and keys; None: in all."""
        self._held_up: set[Bucket] = set()
        """Buckets in which calls wait that could not have started when their turn came."""
        pool.leases = pool.layout.leases = self
        self.share_limits(source.limits)
        source.attach(self)

    # What is shared?

    def share_limits(self, limits: SharedLimits) -> None:
        """Share other limits than before."""
        self.limits, layout = limits, self._pool.layout
        for name in (*limits.buckets, *limits.rates, *limits.breakers):
            layout.bucket(name)
        for bucket in layout.buckets.values():
            self.set_up(bucket)
            layout.gate(bucket)
        for key in layout.keys.values():
            self.limit_key(key)
        for lane in list(layout.lanes.values()):
            for waiter in lane.waiting_calls():
                error = refusal.find_impossible(waiter.request, lane, self._pool.limit)
                if error is not None and waiter.resumes is None:
                    self._pool.reject_waiter(waiter, error)
        self._pool.hand_over_all()

    def set_up(self, bucket: Bucket) -> None:
        """Give a bucket the lease that it needs by now; one that it has stays."""
        limits, name = self.limits, bucket.name
        is_needed = limits.keys or any(
            name in each for each in (limits.buckets, limits.rates, limits.breakers)
        )
        if bucket.lease is None and is_needed:
            bucket.lease = Lease(bucket, self)
        if bucket.lease is not None:
            bucket.lease.share_limits()

    def need_lease(self, bucket: Bucket) -> None:
        """Give a bucket a lease in any case: one of its tools shares something."""
        if bucket.lease is None:
            bucket.lease = Lease(bucket, self)
            bucket.lease.share_limits()

    def share_tool(self, tool: ToolCounts, *, is_shared: bool) -> None:
        """Let the rate and the breaker of a tool hold for all processes, or for this one."""
        tool.is_shared = is_shared
        if is_shared:  # what a process had for itself may come to be shared while its calls wait
            for line in tool.lines:
                self.need_lease(line.above)
        name = f"{TOOL}{tool.name}"
        if not is_shared or tool.breaker is None:
            return
        breaker = SharedBreaker(tool.breaker.policy, name, self)
        breaker.turn_over(self._until.get(name))
        tool.breaker, self._tools[name] = breaker, tool

    def limit_key(self, key: Key) -> None:
        """Let the limit of a key that is shared move with the units that are here."""
        scope, value = key.name
        if scope.startswith(SHARED):
            kind = scope.removeprefix(SHARED)
            key.set_limit(self.limits.keys.get(kind))
            resource = None if key.limit is None else name_resource(kind, value)
        elif key.is_of_cluster and key.limit is not None:
            resource = self._name_own(scope, value)
            self._note_defined(scope, key.limit)
        else:
            resource = None
        key.resource = resource
        if resource is None:
            key.set_limit(key.limit)
            return
        self._keys[resource] = key
        self._move_limit(key)
        for lane in key.lanes:
            self.need_lease(lane.bucket)

    def _note_defined(self, tool: str, limit: int) -> None:
        """Give the units of a tool's keys back where it has lowered its limit.

        They would be used again without a question, and the others would never hear of the limit.
        """
        before, self._defined[tool] = self._defined.get(tool, limit), limit
        if before <= limit:
            return
        for resource in [r for r in self.units if name_definition(r) == f"key:{TOOL}{tool}"]:
            self._stale.add(resource)
            self._return_idle(self._keys.get(resource), resource)

    def _name_own(self, tool: str, value: Any) -> str:
        """Return what processes call a key of a tool; nothing as long as that is not known."""
        if isinstance(value, HiddenValue):
            secret = self.source.find_secret()
            if secret is None:
                return ""
            return name_resource(f"{TOOL}{tool}", hash_value(value.data, secret))
        return name_resource(f"{TOOL}{tool}", shorten_value(str(value)))

    def _move_limit(self, key: Key) -> None:
        if (resource := key.resource) is not None:
            units = self.units.get(resource, 0) + self._lost[resource]
            key.most = (key.limit or 0) if self.is_local else units

    def keeps(self, key: Key, units: int) -> bool:
        """Return whether that many units of a key are here, and wanted nowhere else."""
        is_going = key.resource in self._wanted or key.resource in self._stale
        return key.resource is None or (not is_going and units <= key.most)

    def describe_key(self, key: Key) -> str:
        """Return what a call waits for that waits for units of a key, as the end of a sentence."""
        units = self.units.get(key.resource or "", 0)
        return (
            f"key {key.name[1]!r} has {units} of a limit of {key.limit} that it shares with other "
            f"processes, with {key.used} in use, and waits for more"
        )

    def list_lanes(self) -> list[Lane]:
        """Return all lines of calls that there are."""
        return list(self._pool.layout.lanes.values())

    def list_slots(self) -> Iterator[ConcurrencySlot]:
        """Yield the slots that are listed, in no order."""
        yield from self._pool.held.listed()

    def needs_of(self, waiter: Waiter) -> Needs:
        """Return what a call needs of other processes."""
        lane: Lane = waiter.lane
        bucket, above = lane.bucket, lane.above
        lease: Lease = bucket.lease
        units, limits = {}, {}
        for key in lane.keys:
            if key.resource is not None:
                units[key.resource] = waiter.weight
                if key.is_of_cluster:
                    limits[name_definition(key.resource)] = key.limit or 0
        if lease.is_shared:
            units[f"bucket:{bucket.name}"] = waiter.weight
        if waiter.resumes is not None:
            return Needs(units, None, limits)
        if lease.throttle is not None:
            units[f"rate:{bucket.name}"] = 1
        if isinstance(above, ToolLine) and above.counts.is_shared and above.throttle is not None:
            rate = above.throttle.rate
            resource = name_tool_rate(above.counts.name, rate)
            units[resource], limits[resource] = 1, rate.calls
        breakers = _list_breakers(lane)
        # Of two that may be tried, one after the other is.
        breaker = next((each for each in breakers if not each.is_closed), None)
        breaker = breaker or next(iter(breakers), None)
        if breaker is None:
            return Needs(units, None, limits)
        return Needs(units, breaker.name, limits, breaker.shared_policy)

    def refuse(self, lane: Lane) -> AdmissionError | None:
        """Return why calls of a lane can be given no units; None: they can, or need none."""
        lease: Lease | None = lane.bucket.lease
        if lease is None or not lease.shares(lane):
            return None
        return self.source.refuse(lane.bucket.name)

    def has_room_for(self, waiter: Waiter, asked: int) -> bool:
        """Return whether a call could start now, beside all that have asked, if it had its units.

        Args:
            waiter: The call.
            asked: How many units of its bucket those wait for.
        """
        lane: Lane = waiter.lane
        bucket, used = lane.bucket, lane.bucket.used + asked
        delay = lane.delay_of(waiter, self._pool.clock())
        has_room = bucket.limit is None or used + waiter.weight <= bucket.limit or not used
        is_named = all(key.resource != "" for key in lane.keys)  # what others call them is known
        if has_room and is_named and delay <= 0 and self._is_free_for(waiter):
            return True
        self._held_up.add(bucket)
        if delay > 0:
            # What a key holds up does not stand where rates and pauses have their timers.
            self._pool.wake_later(bucket, delay)
        return False

    def hold_up(self, bucket: Bucket) -> None:
        """Look at a bucket when something has changed."""
        self._held_up.add(bucket)

    def ask_again(self) -> None:
        """Give places to those that were held up."""
        held_up, self._held_up = self._held_up, set()
        for bucket in held_up:
            if bucket.lease is not None and bucket.waiting:
                bucket.lease.ask_source()

    # A call asks before it waits.

    def ask_for(self, waiter: Waiter) -> None:
        """Give a call a place in the line of all processes."""
        is_strict = waiter.is_queued and self._pool.has_to_go(waiter, self._counts.__getitem__)
        is_strict |= any(not each.is_closed for each in _list_breakers(waiter.lane))
        self.source.ask(waiter, self.needs_of(waiter), is_strict=is_strict)

    def begin_asking(self, waiter: Waiter) -> bool:
        """Have a call that has come just now ask whether it waits; False: that is known."""
        lease: Lease | None = waiter.lane.bucket.lease
        if lease is None or not waiter.is_queued:
            return False
        if not lease.has_place(waiter) and self._pool.has_to_go(waiter, self._counts.__getitem__):
            lease.ask_up_to(waiter)
        if not lease.has_place(waiter):
            return False
        self._asking[waiter] = None
        self._counts.update(_names_of(waiter))
        self._pool.queue.mark_queued(waiter, is_queued=False)
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

    # What the source says: see `interfaces.LeaseHolder`.

    @property
    def shares_breakers(self) -> bool:
        """Whether calls start without asking as long as a breaker of the cluster is closed."""
        return bool(self._tools or self.limits.breakers)

    def keep_waiting(self, waiter: Waiter) -> None:
        """Let a call wait that has asked, or refuse it."""
        if waiter.is_waiting and self._is_no_probe(waiter):
            pool = self._pool
            breakers = _list_breakers(waiter.lane)
            breaker = next(each for each in breakers if not each.is_closed)
            pool.reject_waiter(waiter, refusal.make_probe_error(waiter.lane, breaker))
            pool.hand_over(waiter.lane)
            return
        if waiter not in self._asking:
            return
        pool, on_queued = self._pool, self.end_asking(waiter)
        pool.queue.mark_queued(waiter, is_queued=True)
        error = pool.settle_wait(waiter, pool.clock())
        if error is not None:
            waiter.wake(error)
        elif on_queued is not None:
            on_queued()

    def refuse_all(self) -> None:
        """End the wait of calls that the source has a reason to refuse."""
        for lane in self.list_lanes():
            error = self.refuse(lane)
            if error is not None:
                for waiter in [each for each in lane.waiting_calls() if each.resumes is None]:
                    self._pool.reject_waiter(waiter, error)
                self._pool.hand_over(lane)

    def count_used(self, resource: str) -> int:
        """Return how many units of a resource are in use, but for those that were lost."""
        kind, _, name = resource.partition(":")
        if kind == "bucket":
            found = self._pool.layout.bucket(name)
            return found.used - (0 if found.lease is None else found.lease.count_lost())
        key = self._keys.get(resource)
        return 0 if key is None else key.used - self._lost[resource]

    def start(
        self, waiter: Waiter, units: Mapping[str, int], probe: tuple[str, int] | None = None
    ) -> bool:
        """Start a call whose units have come; False: it cannot, or waits no more."""
        bucket: Bucket = waiter.lane.bucket
        lease: Lease | None = bucket.lease
        if lease is None or not lease.take_place(waiter):
            return False
        for resource, count in units.items():
            self._note_units(resource, count)
        self.granting, self.probe = waiter, probe
        shared = [key for key in waiter.lane.keys if key.resource is not None]
        # Which call of the key is next was decided for all processes.
        blocked = [lane for key in shared for lane in key.unblock_all()]
        try:
            is_started = self._grant_units(waiter)
        finally:
            self.granting = self.probe = None
        for lane in blocked:
            self._pool.queue.refresh(lane)
        if is_started:
            self.ask_again()
            return True
        self._line_up_again(waiter)
        return False

    def ask_anew(self, waiter: Waiter) -> None:
        """Have a call ask anew whose units were lost before it could start."""
        if waiter.lane.bucket.lease.take_place(waiter):
            self._line_up_again(waiter)
            self._pool.give_out()

    def _line_up_again(self, waiter: Waiter) -> None:
        if waiter.is_waiting:
            # It asks anew when the source has heard that it could not start.
            self.keep_waiting(waiter)
        if waiter.is_waiting:
            waiter.lane.bucket.lease.remember(waiter)
            self._pool.queue.refresh(waiter.lane)
            self._held_up.add(waiter.lane.bucket)

    def set_local(self, is_local: bool) -> None:
        """Go by the limits alone, or by what all processes have."""
        self.is_local = is_local
        for key in self._keys.values():
            self._move_limit(key)
        self._pool.hand_over_all()

    def pause(self, bucket: str, seconds: float) -> None:
        """Give no slots of a bucket for some time, as another process says."""
        found, pool = self._pool.layout.bucket(bucket), self._pool
        found.pause(pool.clock() + seconds)
        pool.queue.refresh(found)
        pool.give_out()  # room that was kept for a call of the bucket, too

    def turn_breaker(self, breaker: str, left: float | None) -> None:
        """Open or close a breaker, as all processes know it."""
        pool = self._pool
        until = None if left is None else pool.clock() + left
        found: Any
        lines: list[Any]
        if breaker.startswith(TOOL):
            self._until[breaker] = until
            tool = self._tools.get(breaker)
            found, lines = (None, []) if tool is None else (tool.breaker, tool.lines)
        else:
            lines = [pool.layout.bucket(breaker)]
            found = None if lines[0].lease is None else lines[0].lease.breaker
        if isinstance(found, SharedBreaker):
            found.turn_over(until)
            pool.refuse_behind_open()
            for line in lines:
                pool.queue.refresh(line)
            pool.give_out()

    def lose_all(self) -> list[ConcurrencySlot]:
        """Take note that others may have all units; return the slots that use some."""
        lost: dict[Bucket, list[ConcurrencySlot]] = {}
        for slot in self._pool.held.listed():
            lane: Lane = slot.lane
            lease: Lease | None = lane.bucket.lease
            keys = [key.resource for key in lane.keys if key.resource is not None]
            if lease is not None and (lease.is_shared or keys) and not lease.is_lost(slot):
                lost.setdefault(lane.bucket, []).append(slot)
                self._lost.update(dict.fromkeys(keys, slot.weight))
        self.units.clear()
        for key in self._keys.values():
            self._move_limit(key)
        for bucket in list(self._pool.layout.buckets.values()):
            if bucket.lease is not None:
                bucket.lease.lose(lost.get(bucket, ()))
                self.gate(bucket)
        return [slot for slots in lost.values() for slot in slots]

    def take_keys_back(self, slot: ConcurrencySlot, *, was_lost: bool) -> None:
        """Take note that a slot uses no units of its keys any more."""
        for key in slot.lane.keys:
            resource = key.resource
            if resource is None:
                continue
            if was_lost:
                self._lost.subtract({resource: slot.weight})
                self._lost += Counter()
                self._move_limit(key)
            self._return_idle(key, resource)

    def gate(self, bucket: Bucket) -> None:
        """Look again whether the end of each call of a bucket is to be heard of."""
        self._pool.layout.gate(bucket)

    def set_units(self, resource: str, units: int, *, is_wanted: bool) -> None:
        """Take note of how many units are on lease, and whether they are wanted elsewhere."""
        self._note_units(resource, units)
        kind, _, name = resource.partition(":")
        if kind == "key":
            (self._wanted.add if is_wanted else self._wanted.discard)(resource)
            key = self._keys.get(resource)
            if key is not None:
                self._return_idle(key, resource)
                if key.waiting:
                    self._look_again(list(key.lanes))
            return
        found = self._pool.layout.bucket(name)
        lease: Lease | None = found.lease
        if lease is None:
            return
        if lease.is_wanted is not is_wanted:
            lease.is_wanted = is_wanted
            self.gate(found)
        lease.return_idle()
        self._look_again((found,))

    def _look_again(self, lines: Iterable[Bucket | Lane]) -> None:
        waiting = [line for line in lines if line.waiting]
        for line in waiting:
            self._pool.queue.refresh(line)
        if waiting:
            self._pool.give_out()

    def _note_units(self, resource: str, units: int) -> None:
        kind, _, name = resource.partition(":")
        if kind == "key":
            self.units[resource] = units
            if not units:
                del self.units[resource]
                self._stale.discard(resource)
            if (key := self._keys.get(resource)) is not None:
                self._move_limit(key)
        elif (lease := self._pool.layout.bucket(name).lease) is not None:
            lease.set_units(units)

    def _return_idle(self, key: Key | None, resource: str) -> None:
        units, used = self.units.get(resource, 0), 0 if key is None else key.used
        idle = min(units, units + self._lost[resource] - used)
        if (resource in self._wanted or resource in self._stale) and idle > 0:
            self._note_units(resource, units - idle)
            self.source.give_back(resource, idle)

    def _is_no_probe(self, waiter: Waiter) -> bool:
        """Return whether a call would try a breaker that others try already."""
        if self.is_local or waiter.resumes is not None:
            return False
        return any(not each.is_closed for each in _list_breakers(waiter.lane))

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
        else:
            pool.grant(waiter, now)
        pool.queue.refresh(lane, now)
        return error is None


def _names_of(waiter: Waiter) -> list[Any]:
    return [None, waiter.lane.bucket.name, *(key.name for key in waiter.lane.keys)]


def _list_breakers(lane: Lane) -> list[SharedBreaker]:
    """Return those that processes share, that of the bucket first."""
    return [each for each in reversed(lane.breakers) if isinstance(each, SharedBreaker)]
