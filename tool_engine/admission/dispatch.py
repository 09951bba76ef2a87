"""Who gets the next free slot?

Everything is decided synchronously: queues and counters change in methods without `await`, so that
no lock is needed and no cancellation can come between. A freed slot is given to the next waiter
before that waiter is woken.

After every change no waiter is left that could run. The head of the controller's line is never
overtaken, so a heavy call cannot be starved by light ones.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from tool_engine.admission import refusal
from tool_engine.admission.announcing import Announcer
from tool_engine.admission.deadlines import Deadlines
from tool_engine.admission.fairness import join, serve
from tool_engine.admission.line_up import LineUp
from tool_engine.admission.lines import Lane
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, ZOMBIE, ConcurrencySlot
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, ToolEngineError

__all__ = ["SlotDispatcher", "broken_accounting"]


def broken_accounting(slot: ConcurrencySlot) -> ToolEngineError:
    """More was given back than was taken: a counter that were clamped would hide the leak."""
    return ToolEngineError(f"{slot!r} was given back twice: the accounting is broken")


def _nothing() -> None:
    return None


class SlotDispatcher(LineUp):
    """The slots, the lines in front of them, and the counters of both."""

    __slots__ = (
        "_acquired",
        "_aging",
        "_announcer",
        "_bypass_active",
        "_cancelled",
        "_deadlines",
        "_dismissed",
        "_enqueued",
        "_expired",
        "_granted",
        "_held",
        "_held_seconds",
        "_is_paused",
        "_limit",
        "_loop",
        "_most_used",
        "_most_waiting",
        "_parked",
        "_queued",
        "_rejected",
        "_released",
        "_round",
        "_timed_out",
        "_turned_away",
        "_used",
        "_waiting",
        "_zombies",
        "config",
        "current_slot",
    )

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        super().__init__(config, clock)
        self.config = config
        self._announcer = Announcer()
        self._deadlines = Deadlines(self._expire)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: set[ConcurrencySlot] = set()
        self.current_slot: Callable[[], Any] = _nothing
        """Finds the slot of the call whose tool is running at this moment."""
        self._is_paused = False
        self._used = 0
        self._parked = self._zombies = self._bypass_active = 0
        self._acquired = self._released = self._rejected = 0
        self._waiting = self._queued = 0
        self._enqueued = self._granted = self._expired = self._cancelled = self._dismissed = 0
        self._turned_away = 0
        self._timed_out = 0
        self._held_seconds = 0.0
        self._most_used = self._most_waiting = 0
        self._round = 0.0
        self._set_up()

    @abstractmethod
    def admit_nowait(
        self, request: AdmissionRequest, now: float | None = None, call_id: str | None = None
    ) -> ConcurrencySlot | None:
        """Gives a slot if the call may run at once; the controller says when."""

    @abstractmethod
    def release(
        self, slot: ConcurrencySlot, now: float | None = None, *, outcome: bool | None = True
    ) -> None:
        """Gives a slot back; the controller says how."""

    @abstractmethod
    def _update_gate(self) -> None:
        """Notes whether new calls may pass, after a change of what that depends on."""

    @abstractmethod
    def _wake_idle(self) -> None:
        """Ends the wait of those who drain, if nothing runs and nothing waits."""

    def _set_up(self) -> None:
        config = self.config
        self._limit = config.max_concurrent
        self._aging = config.aging_interval if config.strategy == "priority" else None

    def count_timeout(self) -> None:
        """Counts a call that ran out of time while it ran."""
        self._timed_out += 1

    def _is_idle(self) -> bool:
        busy = self._acquired - self._released + self._parked + self._bypass_active + self._waiting
        return not busy

    def _take(self, slot: ConcurrencySlot) -> None:
        lane = slot.lane
        self._used = used = self._used + slot.weight
        lane.bucket.used += slot.weight
        for key in lane.keys:
            key.used += slot.weight
            key.holders.add(slot)
        self._acquired += 1
        slot.is_listed = True
        self._held.add(slot)
        if slot.is_overdue:
            slot.state = ZOMBIE
            self._zombies += 1
            self._update_gate()
        else:
            slot.state = ACTIVE
        if used > self._most_used:
            self._most_used = used

    def _put_back(self, slot: ConcurrencySlot, now: float) -> None:
        """Undoes `_take`, whatever state the slot goes to; its old state is already uncounted."""
        lane = slot.lane
        bucket = lane.bucket
        self._used -= slot.weight
        bucket.used -= slot.weight
        for key in lane.keys:
            key.used -= slot.weight
            key.holders.discard(slot)
        if self._used < 0 or bucket.used < 0 or any(key.used < 0 for key in lane.keys):
            raise broken_accounting(slot)
        self._held.discard(slot)
        self._released += 1
        held = now - slot.acquired_at - slot.counted
        self._held_seconds += held
        if self._waiting:
            bucket.served.append(held)
            self._hand_over(lane)

    def _join(self, waiter: Waiter) -> None:
        """Puts a waiter in its line, and lets it through at once if it may run."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._waiting:
                raise ToolEngineError(
                    "calls of another event loop wait in this controller; use controller.bridge() "
                    "to share it between event loops and threads"
                )
            self._loop = loop
            for line in self._layout.lines():
                line.timer = None
        lane: Lane = waiter.lane
        if lane.share is not None:
            join(lane.share, self._round)
        lane.push(waiter)
        self._enqueued += 1
        self._waiting += 1
        if waiter.is_queued:
            self._queued += 1
        best = lane.best()
        if best is not None and best[1] is waiter:
            self._hand_over(lane)

    def _leave(self, waiter: Waiter) -> None:
        lane = waiter.lane
        lane.forget(waiter)
        if not lane.refs:
            self._layout.let_go(lane)
        self._waiting -= 1
        if not self._waiting:
            self._deadlines.clear()
        if waiter.is_queued:
            self._queued -= 1

    def _grant(self, waiter: Waiter, now: float) -> None:
        lane: Lane = waiter.lane
        slot = waiter.resumes
        if slot is None:
            key, arrival, _ = waiter.order
            slot = ConcurrencySlot(
                lane, waiter.weight, arrival, now, waiter.request, waiter.call_id, key=key
            )
            slot.queue_wait = now - waiter.enqueued_at
            lane.bucket.waits.append(slot.queue_wait)
            self._count_start(slot, now)
        else:
            slot.counted = now - slot.acquired_at
            slot.resuming = None
            self._parked -= 1
            slot.lane.lent.discard(slot)
        self._leave(waiter)
        if lane.share is not None and waiter.is_new:
            self._round = serve(lane.share, waiter, self._round)
        self._granted += 1
        self._take(slot)
        waiter.slot = slot
        waiter.wake()
        if self._announcer and waiter.resumes is None:
            self._announcer.granted(slot, now)

    def _count_start(self, slot: ConcurrencySlot, now: float) -> None:
        """Tells rates and breakers that a call starts."""
        lane = slot.lane
        slot.is_gated = True
        lane.refs += 1
        for throttle in lane.throttles:
            throttle.count(now)
        slot.probes = tuple((breaker, breaker.start(now)) for breaker in lane.breakers)

    def _dismiss(self, waiter: Waiter, error: AdmissionError | None) -> None:
        """Ends a wait without a slot."""
        self._leave(waiter)
        self._dismissed += 1
        waiter.wake(error)
        self._tell_end(waiter, error)

    def _drop(self, waiter: Waiter) -> None:
        """After a wait has ended without a slot: those behind it may go."""
        self._hand_over(waiter.lane)
        self._wake_idle()

    def _give_up(self, waiter: Waiter) -> None:
        """The task of a waiter was cancelled: whatever it was given meanwhile passes on."""
        if waiter.is_waiting:
            self._cancelled += 1
            self._leave(waiter)
            self._tell_end(waiter, None)
            waiter.wake()
            self._drop(waiter)
        elif waiter.slot is not None and waiter.resumes is None:
            self.release(waiter.slot, outcome=None)

    def _expire(self, waiter: Waiter, timeout: float) -> None:
        """The timer of a waiter has run out."""
        self._expired += 1
        self._timed_out += 1
        self._leave(waiter)
        delay = self._delay(waiter)
        if delay > 0:
            error: AdmissionError = refusal.still_too_fast(waiter, timeout, delay)
        else:
            others, wait = self._waiting, self._estimated_wait()
            error = refusal.waited_too_long(waiter, timeout, others, self._zombies, wait)
        self._tell_end(waiter, error)
        waiter.wake(error)
        self._drop(waiter)

    def _tell_end(self, waiter: Waiter, error: AdmissionError | None) -> None:
        if self._announcer and waiter.resumes is None:
            self._announcer.ended(waiter, self._clock(), error)

    def _delay(self, waiter: Waiter) -> float:
        """Seconds until rates and pauses let `waiter` through."""
        lane: Lane = waiter.lane
        now, above = self._clock(), lane.above or lane.bucket
        return max(0.0, above.delay(waiter, now), lane.bucket.delay(waiter, now))

    def _hand_over(self, lane: Lane) -> None:
        """Gives out all slots that can be given, after something changed in `lane`."""
        for key in lane.keys:
            if key.held_up:
                self._refresh_key(key)
        self._refresh(lane)
        self._give_out()

    def _hand_over_all(self) -> None:
        for key in list(self._layout.keys.values()):
            for lane in key.let_up():
                self._refresh(lane)
        for line in self._layout.lines():
            self._refresh(line)
        self._give_out()

    def _give_out(self) -> None:
        while (best := self._first_in_line()) is not None:
            head = best[1]
            if self._used >= self._limit or (self._is_paused and head.resumes is None):
                return
            # No room is kept for a head that could not use it: what holds it up is asked first.
            now, lane = self._clock(), head.lane
            if not self._is_ready(lane, head, now):
                self._refresh(lane)
            elif self._used + head.weight > self._limit and (self._used or head.resumes is None):
                return
            elif head.resumes is None and (error := refusal.broken(lane, now)) is not None:
                self._dismiss(head, error)
                self._refresh(lane)
            else:
                self._grant(head, now)
                self._refresh(lane)

    def _estimated_wait(self, ahead: int | None = None) -> float | None:
        """Seconds until a slot may be free, from the mean time for which slots were held."""
        if not self._released:
            return None
        mean = self._held_seconds / self._released
        return mean * ((self._waiting if ahead is None else ahead) + 1) / self._limit
