"""Which slots are held, and who gets the next free one?

The only room where what is in use is changed, but for two methods of the controller that every call
passes: there `take` and `put_back` are written out. Queues and sums change in methods without
`await`, so that no lock is needed and no cancellation can come between.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from tool_engine.admission import collision, refusal
from tool_engine.admission.announcing import Announcer
from tool_engine.admission.breaker import OPEN
from tool_engine.admission.estimate import estimate_wait
from tool_engine.admission.gate import Gate
from tool_engine.admission.layout import Layout
from tool_engine.admission.lines import Lane, Line
from tool_engine.admission.load.adaptive import void_samples
from tool_engine.admission.queue import Queue
from tool_engine.admission.reasons import find_reason
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import (
    ACTIVE,
    BYPASS,
    PARKED,
    RELEASED,
    ZOMBIE,
    ConcurrencySlot,
    HeldSlots,
    Order,
)
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, ToolEngineError


class SlotPool:
    """The slots of one controller, their sums, and the hand-over to those that wait.

    At any moment `acquired == released + active + zombies`, and `queue.enqueued == granted +
    timed_out_in_queue + cancelled + rejected_in_queue + turned_away + queue.waiting`.

    Args:
        config: The limits.
        clock: Seconds, monotonic.
    """

    __slots__ = (
        "acquired",
        "aging",
        "announcer",
        "bypass_active",
        "cancelled",
        "clock",
        "config",
        "gate",
        "granted",
        "held",
        "held_seconds",
        "idle",
        "is_shut",
        "layout",
        "leases",
        "limit",
        "look_at",
        "most_used",
        "most_waiting",
        "parked",
        "queue",
        *("rejected", "rejected_in_queue", "released"),
        "room",
        "timed_out",
        "timed_out_in_queue",
        "turned_away",
        "used",
        "zombies",
    )

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.announcer = Announcer()
        self.gate = Gate()
        self.is_shut = False
        """Whether a new call may not just pass, whatever the gate's reason."""
        self.layout = Layout(config)
        self.leases: Any = None
        """The `LeaseDesk`; None: all limits are this process's own."""
        self.look_at = inf
        """From then on, a look at what is on lease comes before the next slot."""
        self.queue = Queue(self.layout, clock, self.wake_later, self._expire_waiter)
        self.idle: list[asyncio.Future[None]] = []
        """Those who wait until nothing runs and nothing waits."""
        self.used = self.most_used = 0
        """Units of the limit that are in use."""
        self.held = HeldSlots()
        self.acquired = 0
        """Slots given; a parked one that is taken again counts again."""
        self.released = 0
        self.held_seconds = 0.0
        self.parked = self.zombies = self.bypass_active = self.most_waiting = 0
        self.rejected = 0
        """Calls refused without waiting."""
        self.turned_away = 0
        """Those of them that stood in line for a moment."""
        self.granted = self.timed_out_in_queue = self.cancelled = self.rejected_in_queue = 0
        """Waits that ended: with a slot, by their time, by a cancellation, by the controller."""
        self.timed_out = 0
        """Calls whose time ran out, waiting or running."""
        self.use(config)

    def use(self, config: ConcurrencyConfig) -> None:
        """Go by the limits of a configuration; the layout is the caller's affair."""
        self.config = config
        self.limit = config.max_concurrent
        self.aging = config.aging_interval if config.strategy == "priority" else None
        self.update_gate()

    # A slot is taken, and given back.

    def take(self, slot: ConcurrencySlot) -> None:
        """Count a slot, of a new call or one that was lent."""
        lane = slot.lane
        self.used = used = self.used + slot.weight
        lane.bucket.used += slot.weight
        if lane.keys:
            lane.count_keys(slot)
        self.acquired += 1
        slot.is_listed = True
        self.held.add(slot)
        slot.state = ZOMBIE if slot.is_overdue else ACTIVE
        if slot.is_overdue:
            self.count_zombies(1)
        if used > self.most_used:
            self.most_used = used

    def put_back(self, slot: ConcurrencySlot, now: float) -> None:
        """Undo `take`, whatever state the slot goes to; its old state is already uncounted."""
        lane = slot.lane
        bucket = lane.bucket
        self.used -= slot.weight
        bucket.used -= slot.weight
        if lane.keys:
            lane.uncount_keys(slot)
        if self.used < 0 or bucket.used < 0 or (lane.keys and lane.is_overdrawn):
            raise refusal.make_accounting_error(slot)
        self.held.discard(slot)
        self.released += 1
        held = now - slot.acquired_at - slot.counted
        self.held_seconds += held
        if bucket.lease is not None:
            bucket.lease.take_back(slot)
        if self.queue.waiting:
            bucket.served.append(held)
            self.hand_over(lane, now)

    def admit_gated(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> ConcurrencySlot:
        """Give a slot of a lane for whose calls there is more to count."""
        key, arrival, _ = self.order_of(request, now)
        slot = ConcurrencySlot(lane, request.weight, arrival, now, request, call_id)
        slot.key = key
        lane.count_start(slot, now)
        self.take(slot)
        if self.announcer:
            self.announcer.granted(slot, now)
        return slot

    def is_free_for(self, lane: Lane, request: AdmissionRequest, now: float) -> bool:
        """Return whether nothing but the limit of its bucket holds a new call up."""
        queue, is_full = self.queue, self.used + request.weight > self.limit
        is_taken = queue.waiting and (lane.waiting or queue.keeps_room(lane.bucket))
        return not (self.is_shut or is_full or is_taken) and lane.is_open(request, now)

    def admit_bypass(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> ConcurrencySlot:
        """Give a slot that counts against nothing."""
        key, arrival, _ = self.order_of(request, now)
        if request.parent is None:
            # It takes no number of its own: it stands right behind the last call that took one.
            arrival -= 1
        slot = ConcurrencySlot(lane, request.weight, arrival, now, request, call_id)
        slot.key, slot.state, slot.is_bypass, slot.is_listed = key, BYPASS, True, True
        slot.is_gated = True
        lane.refs += 1
        self.bypass_active += 1
        self.held.add(slot)
        return slot

    def release_gated(self, slot: ConcurrencySlot, outcome: bool | None, now: float) -> None:
        """Take back an active slot for which more was counted, or is now."""
        slot.state, slot.on_superseded = RELEASED, None
        self.end_probes(slot, outcome, now)
        self.layout.uncount(slot)
        if self.announcer:
            self.announcer.released(slot, now)
        self.put_back(slot, now)

    def release_special(self, slot: ConcurrencySlot, state: str, outcome: bool | None) -> None:
        """Take back a slot that is not active: it bypassed, is lent, or is a zombie's."""
        slot.state = RELEASED
        now = self.clock()
        self.end_probes(slot, outcome, now)
        if self.announcer and not slot.is_bypass:
            self.announcer.released(slot, now)
        if slot.is_bypass:
            self.bypass_active -= 1
            self.held.discard(slot)
            self.layout.uncount(slot)
        elif state is PARKED:
            self.withdraw(slot)
            self.parked -= 1
            slot.lane.lent.discard(slot)
            self.layout.uncount(slot)
            self.hand_over(slot.lane)
        else:
            self.count_zombies(-1)
            self.layout.uncount(slot)
            self.put_back(slot, now)

    def lend(self, slot: ConcurrencySlot) -> None:
        """Let others have an active slot for a while."""
        slot.state = PARKED
        self.parked += 1
        slot.lane.lent.add(slot)
        # How long it takes from here on is the affair of other calls.
        void_samples(slot)
        self.put_back(slot, self.clock())

    def ask_back(self, slot: ConcurrencySlot) -> Waiter | None:
        """Let a lent slot stand in line, before all that ask for a new one, if all is ready."""
        slot.nested -= 1
        if slot.nested < 0:
            raise ToolEngineError(f"{slot!r} was unparked more often than parked")
        if slot.nested or slot.state is not PARKED:
            return None
        number = self.acquired + self.queue.enqueued
        order = (-inf, slot.arrival, number)
        request, now, future = slot.request, self.clock(), get_running_loop().create_future()
        waiter = Waiter(slot.lane, request, request.weight, order, now, future, slot.call_id)
        waiter.resumes, slot.resuming = slot, waiter
        self.join(waiter)
        self.note_peak()
        return waiter

    def withdraw(self, slot: ConcurrencySlot) -> None:
        """Stop waiting for a lent slot: it is not wanted back after all, or not yet."""
        waiter, slot.resuming = slot.resuming, None
        if waiter is not None and waiter.is_waiting:
            self.reject_waiter(waiter, None)
            self.hand_over(waiter.lane)

    def count_zombies(self, more: int) -> None:
        """Count zombies; too many of them shut the gate."""
        self.zombies += more
        self.update_gate()

    def update_gate(self) -> None:
        """Take note of a change of the gate, the limits, or how many zombies there may be."""
        self.is_shut = self.gate.update(self.zombies, self.config.max_zombies)
        # For who looks at nothing else: none, where the gate or the strategy has a say.
        self.room = -1 if self.is_shut or self.aging is not None else self.limit

    # A wait begins, and ends once: granted, refused, or given up.

    def check_may_wait(self, lane: Lane, request: AdmissionRequest, now: float) -> None:
        """Raise why a call may not even stand in line, if it may not."""
        error = (
            refusal.find_impossible(request, lane, self.limit)
            or self.gate.refuse(request, self.zombies)
            or (None if self.leases is None else self.leases.refuse(lane))
            or refusal.find_open_breaker(lane, now)
            or self._apply_collision_policy(request, lane)
        )
        if error is not None:
            raise self.reject(lane, request, error)

    def _apply_collision_policy(
        self, request: AdmissionRequest, lane: Lane
    ) -> AdmissionError | None:
        """Apply the collision policy of a tool whose key is busy."""
        excess = collision.count_excess(request, lane)
        if excess <= 0:
            return None
        if collision.is_refused(request):
            return refusal.make_collision_error(request)
        for waiter in collision.give_way(request, lane, excess):
            self.reject_waiter(waiter, refusal.make_superseded_error(request))
            self.hand_over(waiter.lane)
        return None

    def join(self, waiter: Waiter) -> None:
        """Put a waiter in its line, and let it through at once if it may run."""
        is_first, lane = self.queue.join(waiter), waiter.lane
        if is_first:
            self.hand_over(lane)
        if waiter.is_waiting and (lease := lane.bucket.lease) is not None:
            lease.note_waiter(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Take a waiter out of its line, whatever became of it."""
        self.queue.leave(waiter)
        if (lease := waiter.lane.bucket.lease) is not None:
            lease.withdraw(waiter)

    def grant(self, waiter: Waiter, now: float) -> None:
        """Give a waiter its slot."""
        lane: Lane = waiter.lane
        slot = waiter.resumes
        if slot is None:
            key, arrival = waiter.order[0], abs(waiter.order[1])
            slot = ConcurrencySlot(
                lane, waiter.weight, arrival, now, waiter.request, waiter.call_id, key=key
            )
            slot.queue_wait = now - waiter.enqueued_at
            lane.bucket.waits.append(slot.queue_wait)
            if lane.is_gated:
                lane.count_start(slot, now)
        else:
            slot.counted = now - slot.acquired_at
            slot.resuming = None
            self.parked -= 1
            slot.lane.lent.discard(slot)
        if lane.bucket.places is not None:
            lane.bucket.places.serve(waiter)
        self.leave(waiter)
        if lane.share is not None:
            self.queue.serve(waiter)
        self.granted += 1
        # Taken before the waiter wakes: no newcomer can come between. A waiter that is cancelled
        # after that passes the slot on, see `give_up`.
        self.take(slot)
        waiter.slot = slot
        waiter.wake()
        if self.announcer and waiter.resumes is None:
            self.announcer.granted(slot, now)

    def pass_on(self, waiter: Waiter, now: float) -> None:
        """Give its slot to the first of the only lane where calls wait, which is not gated.

        The same as `grant`, written out: where more calls come than can run, each comes this way.
        """
        lane, weight, holder, future = waiter.lane, waiter.weight, waiter.holder, waiter.future
        bucket, waited = lane.bucket, now - waiter.enqueued_at
        if holder is not None:
            holder.lane, holder.arrival, holder.began = lane, waiter.order[1], now
            holder.waited = waited
        else:
            key, arrival, _ = waiter.order
            waiter.slot = slot = ConcurrencySlot(
                lane, weight, arrival, now, waiter.request, waiter.call_id, True, key
            )
            slot.queue_wait = waited
            self.held.add(slot)
        bucket.waits.append(waited)
        self.queue.leave_alone(waiter, lane)
        self.granted += 1
        bucket.used += weight
        self.used = used = self.used + weight
        if used > self.most_used:
            self.most_used = used
        self.acquired += 1
        if not future.done():
            future.set_result(None)

    def reject_waiter(self, waiter: Waiter, error: AdmissionError | None) -> None:
        """End a wait without a slot; then `hand_over` has to look who stands in its place."""
        self.leave(waiter)
        self.rejected_in_queue += 1
        waiter.wake(error)
        self._announce_end(waiter, error)

    def give_up(self, waiter: Waiter) -> None:
        """End the wait of a task that was cancelled; what it was given meanwhile passes on."""
        if waiter.is_waiting:
            self.cancelled += 1
            self.leave(waiter)
            self._announce_end(waiter, None)
            waiter.wake()
            self._let_next(waiter)

    def _expire_waiter(self, waiter: Waiter) -> None:
        """End a wait whose time is over."""
        self.timed_out_in_queue += 1
        self.timed_out += 1
        now = self.clock()
        delay = refusal.find_delay(waiter, now)
        reason = find_reason(waiter, self, now, is_paused=self.gate.is_paused)
        self.leave(waiter)
        others, wait = self.queue.waiting, self.estimated_wait(waiter.lane, more=1)
        error = refusal.make_expired_error(waiter, delay, reason, (others, self.zombies), wait)
        self._announce_end(waiter, error)
        waiter.wake(error)
        self._let_next(waiter)

    def _let_next(self, waiter: Waiter) -> None:
        """After a wait has ended without a slot, those behind it may go."""
        self.hand_over(waiter.lane)
        self.wake_idle()

    def _announce_end(self, waiter: Waiter, error: AdmissionError | None) -> None:
        if self.announcer and waiter.resumes is None:
            self.announcer.ended(waiter, self.clock(), error)

    def refuse_wait(self, waiter: Waiter, now: float) -> AdmissionError | None:
        """Return why a call that stands in line already may not wait, if it may not."""
        queue = self.queue
        if not refusal.is_strict(waiter, self.config, queue.queued):
            return None
        wait = partial(self.estimated_wait, waiter.lane)
        known = waiter, self.config, queue.queued, self.used, now, wait, lambda _: 0
        return refusal.refuse_to_wait(*known)

    def has_to_go(self, waiter: Waiter, asking: Callable[[object], int]) -> bool:
        """Return whether a call that stands in line may not wait, if all that ask have to."""
        queued, now, config = self.queue.queued + asking(None), self.clock(), self.config
        known = waiter, config, queued, self.used, now, lambda: None, asking
        return refusal.is_strict(waiter, config, queued) and bool(refusal.refuse_to_wait(*known))

    def settle_wait(self, waiter: Waiter, now: float) -> AdmissionError | None:
        """Let a call that stands in line wait, or take it out; return why it may not wait."""
        error = self.refuse_wait(waiter, now) if waiter.is_queued else None
        if error is not None:
            self.turn_away(waiter)
            return self.reject(waiter.lane, waiter.request, error)
        self.note_peak()
        if self.announcer:
            self.announcer.queued(waiter, now)
        return None

    def tell_queued(self, waiter: Waiter, on_queued: Callable[[], None]) -> None:
        """Call `on_queued`, now or once it is known that a call waits."""
        if self.leases is None:
            on_queued()
        else:
            self.leases.tell_queued(waiter, on_queued)

    def turn_away(self, waiter: Waiter) -> None:
        """Take a waiter out again that may not wait."""
        self.turned_away += 1
        self.leave(waiter)
        self.hand_over(waiter.lane)

    def reject(
        self, lane: Lane, request: AdmissionRequest, error: AdmissionError
    ) -> AdmissionError:
        """Count a call that is refused without waiting; return the error to be raised."""
        self.rejected += 1
        lane.bucket.rejected += 1
        if self.announcer:
            self.announcer.refused(request, self.clock(), error)
        return error

    def count_timeout(self) -> None:
        """Count a call that ran out of time while it ran."""
        self.timed_out += 1

    def note_peak(self) -> None:
        """Note how many wait, if that has never been more."""
        if self.queue.waiting > self.most_waiting:
            self.most_waiting = self.queue.waiting

    # After every change, no waiter is left that could run.

    def hand_over(self, lane: Lane, now: float | None = None) -> None:
        """Give out all slots that can be given, after something changed in `lane`."""
        now, queue = self.clock() if now is None else now, self.queue
        if (
            queue.waiting == lane.waiting
            and not (lane.is_gated or self.parked or self.is_shut or lane.bucket.paused_until)
            and lane.bucket.lease is None
        ):
            while (head := queue.next_alone(lane, self.used, self.limit)) is not None:
                self.pass_on(head, now)
                if self.used >= self.limit and lane.waiting:
                    return
            return
        queue.refresh_after(lane, now)
        self.give_out(now)

    def hand_over_all(self) -> None:
        """Give out all slots that can be given, after any change."""
        self.queue.refresh_all()
        self.give_out()

    def give_out(self, now: float | None = None) -> None:
        """Give slots to those at the front, as long as there are any."""
        queue, gate = self.queue, self.gate
        now = self.clock() if now is None else now
        while head := queue.next(self.used, self.limit, now, is_paused=gate.is_paused):
            lane: Lane = head.lane
            is_asked = lane.is_gated and head.resumes is None
            error = self.refuse_head(head, lane, now) if is_asked else None
            if error is not None:
                self.reject_waiter(head, error)
            else:
                self.grant(head, now)
            queue.refresh(lane, now)
        if self.leases is not None:
            self.leases.ask_again()

    def refuse_head(self, head: Waiter, lane: Lane, now: float) -> AdmissionError | None:
        """Return why a call whose turn has come is not made any more, if it is not."""
        overload = lane.bucket.overload
        if overload is not None and head.is_queued and overload.refuses(head, now):
            wait = self.estimated_wait(lane) or overload.policy.interval
            return refusal.make_late_error(lane, now - head.enqueued_at, overload.policy, wait)
        return refusal.find_open_breaker(lane, now)

    def wake_later(self, line: Line, delay: float) -> None:
        """Look at a line again in `delay` seconds, or before, if that is set already."""
        loop = asyncio.get_running_loop()
        if line.timer is not None:
            if line.timer.when() <= loop.time() + delay:
                return
            line.timer.cancel()
        line.timer = loop.call_later(delay, self._end_delay, line)

    def _end_delay(self, line: Line) -> None:
        lane = self.queue.end_delay(line)
        if lane is not None:
            self.hand_over(lane)
        elif self.leases is not None:
            self.leases.ask_again()

    # Breakers.

    def end_probes(self, slot: ConcurrencySlot, outcome: bool | None, now: float) -> None:
        """Count a call's end in the breakers; refuse what waits behind an open one."""
        probes, slot.probes = slot.probes, ()
        for breaker, probe in probes:
            breaker.end(probe, outcome, now)
            if breaker.delay(now) > 0:
                lanes = self.layout.lanes.values()
                for lane in [each for each in lanes if breaker in each.breakers]:
                    self._refuse_waiting(lane, now)

    def refuse_behind_open(self) -> None:
        """After a change of the limits, an open breaker may stand above those that wait."""
        now = self.clock()
        lanes = self.layout.lanes.values()
        for lane in [each for each in lanes if each.waiting and each.breakers]:
            if any(breaker.state(now) == OPEN for breaker in lane.breakers):
                self._refuse_waiting(lane, now)

    def _refuse_waiting(self, lane: Lane, now: float) -> None:
        for waiter in lane.waiting_calls():
            error = refusal.find_open_breaker(lane, now)
            if error is not None and waiter.resumes is None:
                self.reject_waiter(waiter, error)
        self.hand_over(lane)

    # Places in line.

    def order_of(self, request: AdmissionRequest, now: float) -> Order:
        """Return the place in line of a call that asks now."""
        # Each grant and each wait counts up one of the two: the sum numbers the calls as they come.
        arrival = self.acquired + self.queue.enqueued
        if self.aging is None is request.parent:
            return (0.0, arrival, 0)
        key = self.rank(now, request)
        # The place of the call that asks, but its key under the present rules: it may have ended
        # before they were made.
        return (key, arrival, 0) if (by := request.parent) is None else (key, by.arrival, arrival)

    def rank(self, asked_at: float, request: AdmissionRequest) -> float:
        """Return what the strategy puts before the arrival; a call of a call has the first one's.

        It never changes while the call waits, so that aging needs no timer.
        """
        if self.aging is None:
            return 0.0
        while (parent := request.parent) is not None:
            asked_at, request = parent.acquired_at - parent.queue_wait, parent.request
        return asked_at + self.aging * request.priority

    def estimated_wait(self, lane: Lane, *, more: int = 0) -> float | None:
        """Return the seconds until a call that waits, or one more, may have a slot, if known."""
        mean, now = self.held_seconds / self.released if self.released else None, self.clock()
        return estimate_wait(lane, self.queue.waiting, self.limit, mean, now, more=more)

    def is_idle(self) -> bool:
        """Return whether nothing runs and nothing waits."""
        busy = self.acquired - self.released + self.parked
        return not (busy + self.bypass_active + self.queue.waiting)

    def wake_idle(self) -> None:
        """End the wait of those who drain, if nothing runs and nothing waits."""
        if self.is_idle():
            for future in self.idle:
                if not future.done():
                    future.set_result(None)
