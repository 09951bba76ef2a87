"""How many units of one bucket may this process use, and which of its calls ask for more?"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from tool_engine.admission.cluster.shared_breaker import SharedBreaker
from tool_engine.admission.counts import ToolCounts
from tool_engine.admission.lines import Bucket, Lane, ToolLine
from tool_engine.admission.slot import ConcurrencySlot, Order
from tool_engine.admission.throttle import Throttle
from tool_engine.admission.waiting import Waiter


class Lease:
    """What processes share of one bucket, and the units that this one may use.

    Args:
        bucket: The bucket.
        desk: The `LeaseDesk`, which passes on what is asked.
    """

    __slots__ = (
        *("_blocked", "_bucket", "desk", "_lost", "_places", "_unasked"),
        *("asked_units", "breaker", "is_shared", "is_wanted", "most", "throttle", "units"),
    )

    def __init__(self, bucket: Bucket, desk: Any) -> None:
        self._bucket = bucket
        self.desk = desk
        self.is_shared = False
        """Whether processes share its limit; else it may have a rate or a breaker that they do."""
        self.units = 0
        self.most = sys.maxsize
        """The most that may be in use: units that others may have by now count beside those."""
        self.throttle: Throttle | None = None
        """The rate that processes share; alone, this one goes by what it counts itself."""
        self.breaker: SharedBreaker | None = None
        self.is_wanted = False
        """Whether what is idle goes back."""
        self._lost: set[ConcurrencySlot] = set()
        """Slots whose units others may have, and whose work has not ended."""
        self._places: set[Waiter] = set()
        """Those that have a place in the line of all processes."""
        self.asked_units = 0
        """The units that those wait for."""
        self._blocked: dict[Lane, int] = {}
        """Lanes that wait for units of their keys, and how many of their calls have a place."""
        # Of lanes that no key holds up, where not only the first may go. That of others is known.
        self._unasked: list[tuple[Order, Waiter]] = []

    def share_limits(self) -> None:
        """Take note of what processes share by now."""
        limits, name, desk = self.desk.limits, self._bucket.name, self.desk
        is_shared = name in limits.buckets
        if is_shared and not self.is_shared:
            # What runs already has none of the units.
            self._lost.update(s for s in desk.list_slots() if s.lane.bucket is self._bucket)
        self.is_shared = is_shared
        self.set_units(self.units if is_shared else 0)
        rate, policy = limits.rates.get(name), limits.breakers.get(name)
        if rate is None:
            self.throttle = None
        elif self.throttle is None:
            self.throttle = Throttle(rate)
        else:
            self.throttle.configure(rate)
        if policy is None:
            self.breaker = None
        elif self.breaker is None:
            self.breaker = SharedBreaker(policy, name, desk)
        else:
            self.breaker.configure(policy)

    @property
    def is_alone(self) -> bool:
        """Whether this process goes by the rate alone, without the others."""
        return self.throttle is not None and self.desk.is_local

    @property
    def shared_limit(self) -> int | None:
        """How many units there are in all processes; None: any number."""
        limit: int | None = self.desk.limits.buckets.get(self._bucket.name)
        return limit

    def find_limit(self) -> int | None:
        """Return how many units there are at most for this process; None: any number."""
        own, shared = self._bucket.limit, self.shared_limit
        return min((each for each in (own, shared) if each is not None), default=None)

    # Does a call ask?

    @property
    def asks_always(self) -> bool:
        """Whether each start is decided for all processes."""
        if self.desk.is_local:
            return False
        return self.throttle is not None or not (self.breaker is None or self.breaker.is_closed)

    def asks(self, lane: Lane) -> bool:
        """Return whether each start of a lane's calls is decided for all processes."""
        above = lane.above
        if isinstance(above, ToolLine) and above.counts.is_shared and self._asks_for(above.counts):
            return True
        return self.asks_always

    def _asks_for(self, tool: ToolCounts) -> bool:
        if self.desk.is_local:
            return False
        breaker = tool.breaker
        is_open = isinstance(breaker, SharedBreaker) and not breaker.is_closed
        return tool.throttle is not None or is_open

    def shares(self, lane: Lane) -> bool:
        """Return whether calls of a lane cannot start without the others."""
        has_keys = any(key.resource is not None for key in lane.keys)
        return self.is_shared or has_keys or self.asks(lane)

    def foresees(self, waiter: Waiter) -> bool:
        """Return whether all that a call needs is here and stays, so that its wait is known."""
        lane: Lane = waiter.lane
        if self.is_wanted or waiter.weight > self.most or self.asks(lane):
            return False
        return all(self.desk.keeps(key, waiter.weight) for key in lane.keys)

    def lets_tool(self, waiter: Waiter, tool: ToolCounts) -> bool:
        """Return whether rate and breaker of a tool do not make a call ask."""
        is_asked = waiter.resumes is not None or waiter is self.desk.granting
        return is_asked or not self._asks_for(tool)

    def lets(self, waiter: Waiter) -> bool:
        """Return whether all that a call of its bucket needs of other processes is here."""
        if self._bucket.used + waiter.weight > self.most:
            return False
        is_asked = waiter.resumes is not None or waiter is self.desk.granting
        return is_asked or not self.asks_always

    def describe_lack(self, waiter: Waiter) -> str:
        """Return what a call waits for of that, as the end of a sentence."""
        bucket, desk = self._bucket, self.desk
        if bucket.used + waiter.weight > self.most:
            units = _count_units(self.units)
            if desk.is_local:
                return (
                    f"bucket {bucket.name!r} has {bucket.used} of {units} in use of this process "
                    "alone, for the database that shares its limit with other processes does not "
                    "answer"
                )
            return (
                f"bucket {bucket.name!r} has {units} of a limit that it shares with other "
                f"processes, with {bucket.used} in use, and waits for more"
            )
        above = waiter.lane.above
        if isinstance(above, ToolLine) and above.counts.is_shared and self._asks_for(above.counts):
            return (
                f"rate or breaker of tool {above.counts.name!r} are shared with other processes: "
                f"it starts when its turn has come among all{self._describe_delay(waiter)}"
            )
        if self.throttle is not None:
            return (
                f"the rate of bucket {bucket.name!r} ({self.throttle.rate}) is shared with other "
                "processes: it starts when its turn has come among all"
                f"{self._describe_delay(waiter)}"
            )
        return (
            f"the breaker of bucket {bucket.name!r} is shared with other processes, and it asks "
            "whether it may try the service"
        )

    def _describe_delay(self, waiter: Waiter) -> str:
        delay = self.desk.source.find_delay(waiter)
        return f", and the next call in {delay:.2f} s at the earliest" if delay else ""

    def note_waiter(self, waiter: Waiter) -> None:
        """Take note of a call that has come to wait."""
        lane: Lane = waiter.lane
        is_blocked = self._bucket.offered is None and lane.offered is not None
        if lane in self._blocked or (self.remember(waiter) and is_blocked):
            self.ask_source()

    def remember(self, waiter: Waiter) -> bool:
        """Have a call asked for in its turn; False: its line is asked who is its first."""
        lane: Lane = waiter.lane
        # A key without a limit, as each one has under `fair`, holds nothing up.
        is_alone = any(key.limit is not None for key in lane.keys)
        is_alone = is_alone or lane.above is not self._bucket
        if not is_alone:
            heappush(self._unasked, (waiter.order, waiter))
        return not is_alone

    def note_blocked(self) -> None:
        """Take note that the bucket may wait for units: it asks once all else is settled."""
        self.desk.hold_up(self._bucket)

    def note_lane(self, lane: Lane) -> None:
        """Take note that a lane may wait for units of its keys."""
        self._blocked.setdefault(lane, 0)
        self.desk.hold_up(self._bucket)

    def ask_source(self) -> None:
        """Give a place to each call that waits for nothing but units."""
        bucket, unasked = self._bucket, self._unasked
        if len(self._places) >= bucket.waiting:
            return
        self._ask_for_lanes()
        if bucket.offered is not None:
            return
        heads = [
            (line.head.order, line.head)
            for order, line in bucket.entries
            if line.offered == order and (not isinstance(line, Lane) or line.keys)
        ]
        heapify(heads)
        while unasked or heads:
            first = heads if not unasked or (heads and heads[0] < unasked[0]) else unasked
            waiter = first[0][1]
            is_waiting = waiter.is_waiting and waiter not in self._places
            if is_waiting and self.shares(waiter.lane) and not self._give_place(waiter):
                return
            heappop(first)

    def _ask_for_lanes(self) -> None:
        for lane, places in list(self._blocked.items()):
            if not (self._is_blocked(lane) and lane.waiting):
                del self._blocked[lane]
            elif places < lane.waiting and self._has_room_below(lane):
                waiting = [each for each in lane.waiting_calls() if each not in self._places]
                self._blocked[lane] = lane.waiting - len(waiting)
                for waiter in waiting:
                    if not self._give_place(waiter):
                        break
                    self._blocked[lane] += 1

    def _has_room_below(self, lane: Lane) -> bool:
        """Return whether the first of a lane that has no place could have one."""
        left = (each for each in lane.waiters.in_order() if each not in self._places)
        first = next(left, None)
        return first is not None and self.desk.has_room_for(first, self.asked_units)

    def _is_blocked(self, lane: Lane) -> bool:
        above = lane.above
        is_above = above is not None and above is not self._bucket and above.offered is None
        return lane.offered is None or is_above

    def _give_place(self, waiter: Waiter) -> bool:
        if not self.desk.has_room_for(waiter, self.asked_units):
            return False
        self._places.add(waiter)
        self.asked_units += waiter.weight
        self.desk.ask_for(waiter)
        return True

    def ask_up_to(self, waiter: Waiter) -> None:
        """Give a call that would be refused a place, and all before it that might start.

        Else a line with a key, a rate or a breaker asks for its first alone, and the rest would be
        refused although units are idle elsewhere.
        """
        if not self.shares(waiter.lane):
            return
        lanes = {each for each in self.desk.list_lanes() if each.bucket is self._bucket}
        calls = [each for lane in lanes for each in lane.waiting_calls()]
        for each in sorted(calls, key=lambda each: each.order):
            is_new = each not in self._places and each.order <= waiter.order
            if is_new and self._has_keys_for(each) and not self._give_place(each):
                return

    def _has_keys_for(self, waiter: Waiter) -> bool:
        """Return whether this process's keys have room beside all that have asked."""
        for key in waiter.lane.keys:
            if key.limit is not None:
                asked = sum(each.weight for each in self._places if key in each.lane.keys)
                if key.used + asked + waiter.weight > key.limit:
                    return False
        return True

    def take_place(self, waiter: Waiter) -> bool:
        """Take the place of a waiter from it; False: it has none."""
        if waiter not in self._places:
            return False
        self._places.remove(waiter)
        self.asked_units -= waiter.weight
        if waiter.lane in self._blocked:
            self._blocked[waiter.lane] -= 1
        return True

    def withdraw(self, waiter: Waiter) -> None:
        """Give up the place of a waiter, if it has one."""
        self.desk.end_asking(waiter)
        # One that could not start when its turn came has no place, and is known there all the same.
        if self.take_place(waiter) or waiter is not self.desk.granting:
            self.desk.source.withdraw(waiter)

    def has_place(self, waiter: Waiter) -> bool:
        """Return whether a waiter has a place in the line of all processes."""
        return waiter in self._places

    # How many units are there?

    def set_units(self, units: int) -> None:
        """Take note of how many units are on lease."""
        self.units = units
        self.most = units + self.count_lost() if self.is_shared else sys.maxsize
        self._bucket.update_most()

    def count_lost(self) -> int:
        """Return how many units are in use that others may have by now."""
        return sum(slot.weight for slot in self._lost)

    def is_lost(self, slot: ConcurrencySlot) -> bool:
        """Return whether others may have the units of a slot."""
        return slot in self._lost

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
        was_lost = slot in self._lost
        if was_lost:
            self._lost.remove(slot)
            self.set_units(self.units)
            if not self._lost:
                self.desk.gate(self._bucket)
        self.return_idle()
        if slot.lane.keys:
            self.desk.take_keys_back(slot, was_lost=was_lost)

    def return_idle(self) -> None:
        """Give back what is idle, if it is wanted."""
        idle = self.most - self._bucket.used
        if self.is_wanted and idle > 0:
            self.set_units(self.units - idle)
            self.desk.source.give_back(f"bucket:{self._bucket.name}", idle)


def _count_units(units: int) -> str:
    return f"{units} unit{'' if units == 1 else 's'}"
