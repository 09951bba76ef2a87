"""Must a call that cannot run at once wait, is it refused, or does another one give way to it?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tool_engine.admission import refusal
from tool_engine.admission.breaker import OPEN
from tool_engine.admission.fairness import join
from tool_engine.admission.lines import Lane
from tool_engine.admission.reporting import SlotReporter
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import (
    ACTIVE,
    BYPASS,
    PARKED,
    RELEASED,
    ZOMBIE,
    ConcurrencySlot,
    Order,
)
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError
from tool_engine.model.settings.concurrency import CollisionPolicy

__all__ = ["Entrance"]


class Entrance(SlotReporter):
    """What is asked of a call before it may stand in line, and of a slot when it comes back."""

    __slots__ = ("_closed_because", "_idle", "_is_flooded", "_is_shut")

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        super().__init__(config, clock)
        self._closed_because: str | None = None
        self._is_shut = self._is_flooded = False
        self._idle: list[asyncio.Future[None]] = []

    def _let_bypass(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> ConcurrencySlot:
        key, arrival, _ = self._order_of(request, now)
        if request.parent is None:
            # It takes no number of its own: it stands right behind the last call that took one.
            arrival -= 1
        slot = ConcurrencySlot(lane, request.weight, arrival, now, request, call_id)
        slot.key, slot.state, slot.is_bypass, slot.is_listed = key, BYPASS, True, True
        slot.is_gated = True
        lane.refs += 1
        self._bypass_active += 1
        self._held.add(slot)
        return slot

    def adopt(self, requests: Iterable[AdmissionRequest]) -> None:
        """Applies what the newest definitions of tools say of their limits; counts go on.

        A call that waits keeps its place and its bucket; its rate, breaker and key limit are those
        that its tool has now.
        """
        is_news = False
        for request in requests:
            is_news |= self._layout.adopt(request)
        if is_news:
            self._hand_over_all()
            self._refuse_behind_open()

    def tools_in_line(self) -> set[str]:
        """The tools of the catalog with limits of their own for which calls wait."""
        return self._layout.tools_in_line() if self._waiting else set()

    def _open(self, request: AdmissionRequest) -> Lane:
        """The lane of a request that comes for the first time, perhaps of an edited tool."""
        if request.edition:
            self.adopt((request,))
        return self._layout.open(request)

    def pause_left(self, bucket: str) -> float:
        """Seconds until the pause of a bucket ends; 0.0 where there is none."""
        until = self._layout.bucket(bucket).paused_until
        return 0.0 if until is None else max(0.0, until - self._clock())

    def _is_open(self, lane: Lane, request: AdmissionRequest, now: float) -> bool:
        """Whether keys, rates and breakers let one more call start."""
        # Those who came first go first, in whichever bucket they wait for the tool's rate.
        if lane.above is not None and any(each.best() for each in lane.above.kin):
            return False
        return (
            all(key.lets(request.weight) for key in lane.keys)
            and lane.has_place(request)
            and all(throttle.delay(now) <= 0 for throttle in lane.throttles)
            and all(breaker.delay(now) <= 0 for breaker in lane.breakers)
        )

    def _admit_gated(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> ConcurrencySlot:
        key, arrival, _ = self._order_of(request, now)
        slot = ConcurrencySlot(lane, request.weight, arrival, now, request, call_id)
        slot.key = key
        self._count_start(slot, now)
        self._take(slot)
        if self._announcer:
            self._announcer.granted(slot, now)
        return slot

    def _release_gated(self, slot: ConcurrencySlot, now: float, outcome: bool | None) -> None:
        slot.state, slot.on_superseded = RELEASED, None
        self._end_probes(slot, outcome, now)
        self._uncount(slot)
        if self._announcer:
            self._announcer.released(slot, now)
        self._put_back(slot, now)

    def _release_special(self, slot: ConcurrencySlot, state: str, outcome: bool | None) -> None:
        slot.state = RELEASED
        now = self._clock()
        self._end_probes(slot, outcome, now)
        if self._announcer and not slot.is_bypass:
            self._announcer.released(slot, now)
        if slot.is_bypass:
            self._bypass_active -= 1
            self._held.discard(slot)
            self._uncount(slot)
        elif state is PARKED:
            self._withdraw_resuming(slot)
            self._parked -= 1
            slot.lane.lent.discard(slot)
            self._uncount(slot)
            self._hand_over(slot.lane)
        else:
            self._zombies -= 1
            self._update_gate()
            self._uncount(slot)
            self._put_back(slot, now)

    def _uncount(self, slot: ConcurrencySlot) -> None:
        """Its lane no longer counts a slot; the gates may be others by now than at its start."""
        if slot.is_gated:
            slot.is_gated = False
            self._let_go(slot.lane)

    def _let_go(self, lane: Lane) -> None:
        lane.refs -= 1
        if not lane.refs:
            self._layout.let_go(lane)

    def _withdraw_resuming(self, slot: ConcurrencySlot) -> None:
        """A parked slot is not wanted back after all, or not yet."""
        waiter, slot.resuming = slot.resuming, None
        if waiter is not None and waiter.is_waiting:
            self._dismiss(waiter, None)
            self._hand_over(waiter.lane)

    def _end_probes(self, slot: ConcurrencySlot, outcome: bool | None, now: float) -> None:
        """Tells the breakers how the call ended; calls that wait behind an open one are refused."""
        probes, slot.probes = slot.probes, ()
        for breaker, probe in probes:
            breaker.end(probe, outcome, now)
            if breaker.delay(now) > 0:
                for lane in [each for each in self._lanes.values() if breaker in each.breakers]:
                    self._refuse_waiting(lane, now)

    def _refuse_waiting(self, lane: Lane, now: float) -> None:
        for waiter in lane.waiting_calls():
            error = refusal.broken(lane, now)
            if error is not None and waiter.resumes is None:
                self._dismiss(waiter, error)
        self._hand_over(lane)

    def _refuse_behind_open(self) -> None:
        """After a change of the limits: a breaker that is open may stand above those who wait."""
        now = self._clock()
        for lane in [each for each in self._lanes.values() if each.waiting and each.breakers]:
            if any(breaker.state(now) == OPEN for breaker in lane.breakers):
                self._refuse_waiting(lane, now)

    def _turn_away(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> ConcurrencySlot | None:
        """Looks again where a pause held the call up that has not been ended yet."""
        bucket = lane.bucket
        until = bucket.paused_until
        if until is not None and until <= now:
            self._end_pause(bucket, at_once=True)
            return self.admit_nowait(request, now, call_id)
        if not lane.refs:
            self._layout.let_go(lane)
        return None

    def _enqueue(self, request: AdmissionRequest, call_id: str | None) -> Waiter:
        """Lets a call that could not start at once wait, unless it must be refused."""
        lane = self._layout.open(request)
        lane.refs += 1
        try:
            return self._stand_in_line(lane, request, call_id)
        finally:
            self._let_go(lane)

    def _stand_in_line(self, lane: Lane, request: AdmissionRequest, call_id: str | None) -> Waiter:
        now = self._clock()
        error = (
            refusal.impossible(request, lane, self._limit)
            or self._refusal_when_shut(request)
            or refusal.broken(lane, now)
            or self._collision(request, lane)
        )
        if error is not None:
            raise self._refused(lane, request, error)
        waiter = Waiter(lane, request, self._order_of(request, now), now, call_id)
        waiter.is_queued = request.parent is None
        self._join(waiter)
        if not waiter.is_waiting:
            return waiter
        error = self._refusal_to_wait(lane, waiter) if waiter.is_queued else None
        if error is not None:
            self._turned_away += 1
            self._leave(waiter)
            self._hand_over(lane)
            raise self._refused(lane, request, error)
        self._note_peak()
        if self._announcer:
            self._announcer.queued(waiter, now)
        timeout = self.config.queue_timeout if request.timeout is None else request.timeout
        if timeout is not None:
            self._deadlines.add(waiter, timeout, self._waiting)
        return waiter

    def _refused(
        self, lane: Lane, request: AdmissionRequest, error: AdmissionError
    ) -> AdmissionError:
        self._rejected += 1
        lane.bucket.rejected += 1
        if self._announcer:
            self._announcer.refused(request, self._clock(), error)
        return error

    def _refusal_when_shut(self, request: AdmissionRequest) -> AdmissionError | None:
        reason = self._closed_because
        if reason == "closed" or (reason is not None and request.parent is None):
            return refusal.closed(reason)
        return refusal.flooded(self._zombies) if self._is_flooded else None

    def _refusal_to_wait(self, lane: Lane, waiter: Waiter) -> AdmissionError | None:
        """Why a call that cannot run now may not wait either; it stands in line already."""
        config, bucket = self.config, lane.bucket
        wait = self._estimated_wait(self._waiting - 1)
        if config.strategy == "reject":
            delay = self._delay(waiter)
            if delay > 0:
                return refusal.too_fast(waiter, delay)
            return refusal.no_room(lane, self._used, self._limit, wait)
        if self._queued > config.queue_size:
            return refusal.full("the queue", self._queued - 1, config.queue_size, lane, wait)
        if bucket.queue_size is not None and bucket.waiting > bucket.queue_size:
            name = f"the queue of bucket {bucket.name!r}"
            return refusal.full(name, bucket.waiting - 1, bucket.queue_size, lane, wait)
        limits = config.key_limits
        size = None if limits is None else limits.queue_size
        for key in lane.keys:
            scope, value = key.name
            if size is not None and not scope and value is not None and key.waiting > size:
                name = f"the queue of key {value!r}"
                return refusal.full(name, key.waiting - 1, size, lane, wait)
        return None

    def _collision(self, request: AdmissionRequest, lane: Lane) -> AdmissionError | None:
        """Applies the collision policy of a tool whose key is busy."""
        if request.collision is CollisionPolicy.QUEUE or request.tool_key is None:
            return None
        own = lane.keys[-1]
        waiting = [each for line in own.lanes for each in line.waiting_calls() if not each.resumes]
        excess = lane.load(request) + request.weight - own.most
        excess += sum(each.weight for each in waiting)
        if excess <= 0:
            return None
        if request.collision in (CollisionPolicy.REJECT, CollisionPolicy.CANCEL_NEWEST):
            return refusal.collides(request)
        if request.collision is CollisionPolicy.CANCEL_IN_PROGRESS:
            excess = self._supersede(lane, request, excess)
        for waiter in sorted(waiting, key=lambda each: (each.enqueued_at, each.order)):
            if excess > 0 and waiter.is_waiting:
                excess -= waiter.weight
                self._dismiss(waiter, refusal.superseded(request))
                self._hand_over(waiter.lane)
        return None

    def _supersede(self, lane: Lane, request: AdmissionRequest, excess: int) -> int:
        """Ends the oldest calls in progress until there is room; says how much is still missing."""
        holders = [*lane.keys[-1].holders, *lane.lent_by_others(request)]
        for slot in sorted(holders, key=lambda each: (each.acquired_at, each.arrival)):
            if excess > 0:
                excess -= slot.weight
                if slot.on_superseded is not None and not slot.is_overdue:
                    slot.on_superseded()
        return excess

    def _line_up_anew(self) -> None:
        """Sorts those who wait by the rules of a new configuration."""
        waiters = [each for lane in list(self._lanes.values()) for each in lane.waiting_calls()]
        for line in (self._root, *self._layout.lines()):
            line.withdraw()
            # A waiter keeps its order in another lane: what the old one left would be its double.
            line.entries.clear()
        for waiter in waiters:
            waiter.lane.forget(waiter)
        for lane in self._lanes.values():
            lane.waiters = []
        # The slots are in a set: lanes must not be made in an order that is chance.
        slots = sorted(self._all_slots(), key=lambda each: (each.acquired_at, str(each.lane.id)))
        for slot in slots:
            self._move(slot)
        for waiter in waiters:
            waiter.is_waiting, waiter.due, old = True, None, waiter.lane
            if waiter.resumes is not None:
                waiter.lane = waiter.resumes.lane
            else:
                waiter.request = waiter.request.under(self.config)
                waiter.lane = self._layout.open(waiter.request)
                key = self._key_of(waiter.enqueued_at, waiter.request)
                waiter.order = (key, *waiter.order[1:])
            if waiter.lane.share is not None:
                join(waiter.lane.share, self._round)
            waiter.lane.push(waiter)
            if old is not waiter.lane:
                self._layout.let_go(old)
        self._refuse_impossible(waiters)

    def _move(self, slot: ConcurrencySlot) -> None:
        """Counts a slot that is held against the keys of a new configuration."""
        slot.key = self._key_of(slot.acquired_at - slot.queue_wait, slot.request)
        slot.request = slot.request.under(self.config)
        old, new = slot.lane, self._layout.open(slot.request)
        if new is old:
            return
        if slot.state in (ACTIVE, ZOMBIE):
            for key in old.keys:
                key.used -= slot.weight
                key.holders.remove(slot)
            for key in new.keys:
                key.used += slot.weight
                key.holders.add(slot)
        elif slot.state is PARKED:
            old.lent.discard(slot)
            new.lent.add(slot)
        self._uncount(slot)
        slot.lane, slot.is_gated = new, True
        new.refs += 1

    def _order_of(self, request: AdmissionRequest, now: float) -> Order:
        # Each grant and each wait counts up one of the two: the sum numbers the calls as they come.
        arrival = self._acquired + self._enqueued
        key = self._key_of(now, request)
        # The place of the call that asks, but its key under the present rules: it may have ended
        # before they were made.
        return (key, arrival, 0) if (by := request.parent) is None else (key, by.arrival, arrival)

    def _key_of(self, asked_at: float, request: AdmissionRequest) -> float:
        """What the strategy puts before the arrival; the call of a call has that of the first."""
        if self._aging is None:
            return 0.0
        while (parent := request.parent) is not None:
            asked_at, request = parent.acquired_at - parent.queue_wait, parent.request
        return asked_at + self._aging * request.priority

    def _refuse_impossible(self, waiters: list[Waiter]) -> None:
        """Ends waits without an end: limits may have shrunk below the weight of a call."""
        for waiter in waiters:
            error = refusal.impossible(waiter.request, waiter.lane, self._limit)
            if error is not None and waiter.resumes is None:
                self._dismiss(waiter, error)

    def _note_peak(self) -> None:
        self._most_waiting = max(self._most_waiting, self._waiting)

    def _update_gate(self) -> None:
        most = self.config.max_zombies
        self._is_flooded = most is not None and self._zombies >= most
        self._is_shut = self._is_paused or self._is_flooded or self._closed_because is not None

    def _wake_idle(self) -> None:
        if self._is_idle():
            for future in self._idle:
                if not future.done():
                    future.set_result(None)
