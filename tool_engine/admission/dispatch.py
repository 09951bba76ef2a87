"""Who gets the next free slot?

Everything is decided synchronously: queues and counters change in methods without `await`, so that
no lock is needed and no cancellation can come between. A freed slot is given to the next waiter
before that waiter is woken.

After every change no waiter is left that could run: `_line` holds the lanes whose head waits for
room in the global limit; a lane whose head waits for its bucket or its rate stands there instead.
The head of the line is never overtaken, so a heavy call cannot be starved by light ones.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from tool_engine.admission.metrics import ConcurrencyMetrics
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, ZOMBIE, ConcurrencySlot, Order
from tool_engine.admission.throttle import Throttle
from tool_engine.admission.waiting import Bucket, Lane, Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, QueueTimeoutError, RateLimitedError, ToolEngineError

__all__ = ["SlotDispatcher", "broken_accounting"]


def broken_accounting(slot: ConcurrencySlot) -> ToolEngineError:
    """More was given back than was taken: a counter that were clamped would hide the leak."""
    return ToolEngineError(f"{slot!r} was given back twice: the accounting is broken")


class SlotDispatcher(ABC):
    """The slots, the lines in front of them, and the counters of both."""

    __slots__ = (
        "_acquired",
        "_aging",
        "_buckets",
        "_bypass_active",
        "_cancelled",
        "_clock",
        "_dismissed",
        "_enqueued",
        "_expired",
        "_granted",
        "_held_seconds",
        "_is_paused",
        "_lanes",
        "_limit",
        "_line",
        "_most_used",
        "_most_waiting",
        "_parked",
        "_queued",
        "_rejected",
        "_released",
        "_timed_out",
        "_used",
        "_waiting",
        "_zombies",
        "config",
    )

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        self.config = config
        self._clock = clock
        self._limit = config.max_concurrent
        self._aging = config.aging_interval if config.strategy == "priority" else None
        self._buckets = {name: Bucket(name, limit) for name, limit in config.bucket_limits.items()}
        self._lanes: dict[str, Lane] = {}
        self._line: list[tuple[Order, Lane]] = []
        self._is_paused = False
        self._used = 0
        self._parked = self._zombies = self._bypass_active = 0
        self._acquired = self._released = self._rejected = 0
        self._waiting = self._queued = 0
        self._enqueued = self._granted = self._expired = self._cancelled = self._dismissed = 0
        self._timed_out = 0
        self._held_seconds = 0.0
        self._most_used = self._most_waiting = 0

    def get_metrics(self) -> ConcurrencyMetrics:
        """All counters, taken in one step."""
        return ConcurrencyMetrics(
            current_concurrent=self._used,
            queue_length=self._waiting,
            total_acquired=self._acquired,
            total_rejected=self._rejected,
            total_timeout=self._timed_out,
            avg_execution_time=self._held_seconds / self._released if self._released else 0.0,
            active=self._acquired - self._released - self._zombies,
            parked=self._parked,
            zombies=self._zombies,
            bypass_active=self._bypass_active,
            total_released=self._released,
            total_enqueued=self._enqueued,
            total_dequeued=self._enqueued - self._waiting,
            total_granted=self._granted,
            total_queue_timeout=self._expired,
            total_cancelled=self._cancelled,
            total_rejected_in_queue=self._dismissed,
            total_execution_time=self._held_seconds,
            max_concurrent_observed=self._most_used,
            max_queue_length_observed=self._most_waiting,
        )

    def get_bucket_metrics(self) -> dict[str, dict[str, Any]]:
        """Per bucket: `current`, `limit`, `queue` and `utilization`.

        `limit` is None, and `utilization` 0.0, for a bucket that only the global limit holds.
        """
        return {
            name: {
                "current": bucket.used,
                "limit": bucket.limit,
                "queue": bucket.waiting,
                "utilization": bucket.used / bucket.limit if bucket.limit else 0.0,
            }
            for name, bucket in self._buckets.items()
        }

    @abstractmethod
    def release(self, slot: ConcurrencySlot, now: float | None = None) -> None:
        """Gives a slot back; the controller says how."""

    @abstractmethod
    def _update_gate(self) -> None:
        """Notes whether new calls may pass, after a change of what that depends on."""

    @abstractmethod
    def _wake_idle(self) -> None:
        """Ends the wait of those who drain, if nothing runs and nothing waits."""

    def count_timeout(self) -> None:
        """Counts a call that ran out of time while it ran."""
        self._timed_out += 1

    def _is_idle(self) -> bool:
        held = self._acquired - self._released
        busy = held + self._parked + self._bypass_active + self._waiting
        return not busy

    def _open_lane(self, request: AdmissionRequest) -> Lane:
        bucket = self._buckets.get(request.bucket)
        if bucket is None:
            bucket = self._buckets[request.bucket] = Bucket(request.bucket, None)
        throttle = None if request.rate is None else Throttle(request.rate)
        lane = self._lanes[request.lane] = Lane(bucket, throttle)
        return lane

    def _order_of(self, request: AdmissionRequest, now: float) -> Order:
        # Each grant and each wait counts up one of the two: the sum numbers the calls as they come.
        arrival = self._acquired + self._enqueued
        if request.parent is not None:
            key, inherited, _ = request.parent.order
            return (key, inherited, arrival)
        key = 0.0 if self._aging is None else now + self._aging * request.priority
        return (key, arrival, 0)

    def _take(self, slot: ConcurrencySlot) -> None:
        self._used = used = self._used + slot.weight
        slot.lane.bucket.used += slot.weight
        self._acquired += 1
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
        bucket = slot.lane.bucket
        self._used -= slot.weight
        bucket.used -= slot.weight
        if self._used < 0 or bucket.used < 0:
            raise broken_accounting(slot)
        self._released += 1
        self._held_seconds += now - slot.acquired_at - slot.counted
        if self._waiting:
            self._hand_over(bucket)

    def _join(self, waiter: Waiter) -> None:
        """Puts a waiter in its line, and lets it through at once if it may run."""
        lane = waiter.lane
        lane.push(waiter)
        self._enqueued += 1
        self._waiting += 1
        if waiter.is_queued:
            self._queued += 1
        if self._waiting > self._most_waiting:
            self._most_waiting = self._waiting
        if lane.head() is waiter:
            self._offer(lane)
            self._hand_over(lane.bucket)

    def _leave(self, waiter: Waiter) -> None:
        waiter.lane.forget(waiter)
        self._waiting -= 1
        if waiter.is_queued:
            self._queued -= 1

    def _grant(self, waiter: Waiter) -> None:
        now = self._clock()
        self._leave(waiter)
        self._granted += 1
        slot = waiter.resumes
        if slot is None:
            key, arrival, _ = waiter.order
            slot = ConcurrencySlot(waiter.lane, waiter.weight, arrival, now, key)
            slot.queue_wait = now - waiter.enqueued_at
            if waiter.lane.throttle is not None:
                waiter.lane.throttle.count(now)
        else:
            slot.counted = now - slot.acquired_at
            slot.resuming = None
            self._parked -= 1
        self._take(slot)
        waiter.slot = slot
        waiter.wake()

    def _dismiss(self, waiter: Waiter, error: AdmissionError | None) -> None:
        """Ends a wait without a slot."""
        self._leave(waiter)
        self._dismissed += 1
        waiter.wake(error)

    def _give_up(self, waiter: Waiter) -> None:
        """The task of a waiter was cancelled: whatever it was given meanwhile passes on."""
        if waiter.is_waiting:
            self._cancelled += 1
            self._leave(waiter)
            waiter.wake()
            self._hand_over(waiter.lane.bucket)
            self._wake_idle()
        elif waiter.slot is not None and waiter.resumes is None:
            self.release(waiter.slot)

    def _withdraw_resuming(self, slot: ConcurrencySlot) -> None:
        """A parked slot is not wanted back after all, or not yet."""
        waiter, slot.resuming = slot.resuming, None
        if waiter is not None and waiter.is_waiting:
            self._dismiss(waiter, None)
            self._hand_over(waiter.lane.bucket)

    def _hand_over_all(self) -> None:
        for bucket in list(self._buckets.values()):
            self._hand_over(bucket)

    def _expire(self, waiter: Waiter, timeout: float) -> None:
        """The timer of a waiter has run out."""
        waiter.timer = None
        lane = waiter.lane
        self._expired += 1
        self._timed_out += 1
        self._leave(waiter)
        where = f"bucket {lane.bucket.name!r}"
        held = self._zombies
        zombies = f", {held} slots are held by work that outlived its call" if held else ""
        error: AdmissionError
        if lane.throttle is not None and lane.throttle_timer is not None:
            delay = lane.throttle.delay(self._clock())
            error = RateLimitedError(
                f"waited {timeout:g} s in {where}, but its rate of {lane.throttle.rate} allows no "
                f"call for another {delay:.2f} s; call less often or raise the tool's rate",
                retry_after=delay,
            )
        else:
            error = QueueTimeoutError(
                f"waited {timeout:g} s for a slot in {where} ({self._waiting} others wait"
                f"{zombies}); raise queue_timeout or max_concurrent, or make fewer calls at once",
                retry_after=self._estimated_wait(),
            )
        waiter.wake(error)
        self._hand_over(lane.bucket)
        self._wake_idle()

    def _offer(self, lane: Lane) -> None:
        """Lets a lane stand in the line under the order of its head."""
        head = lane.head()
        if head is None or (lane.throttle_timer is not None and head.resumes is None):
            lane.offered = None
        elif lane.offered != head.order:
            lane.offered = head.order
            heappush(self._line, (head.order, lane))

    def _hand_over(self, bucket: Bucket) -> None:
        """Gives out all slots that can be given, after something changed in `bucket`."""
        if bucket.held_up:
            held_up, bucket.held_up = bucket.held_up, []
            for lane in held_up:
                self._offer(lane)
        line = self._line
        while line:
            order, lane = line[0]
            if lane.offered != order:
                heappop(line)
                continue
            head = lane.head()
            if head is None or head.order != order:
                heappop(line)
                self._offer(lane)
                continue
            if self._is_paused and head.resumes is None:
                return
            if not self._may_leave_lane(lane, head):
                heappop(line)
                lane.offered = None
                continue
            # Asked last, so that no room is kept for a head that could not use it.
            if self._used + head.weight > self._limit:
                return
            heappop(line)
            lane.offered = None
            self._grant(head)
            self._offer(lane)

    def _may_leave_lane(self, lane: Lane, head: Waiter) -> bool:
        """Whether bucket and rate let the head through; if not, notes who brings the lane back."""
        bucket = lane.bucket
        if bucket.held_up or not bucket.has_room(head.weight):
            bucket.held_up.append(lane)
            return False
        if lane.throttle is None or head.resumes is not None:
            return True
        delay = lane.throttle.delay(self._clock())
        if delay > 0:
            loop = asyncio.get_running_loop()
            lane.throttle_timer = loop.call_later(delay, self._end_throttle, lane)
            return False
        return True

    def _end_throttle(self, lane: Lane) -> None:
        lane.throttle_timer = None
        self._offer(lane)
        self._hand_over(lane.bucket)

    def _estimated_wait(self) -> float | None:
        """Seconds until a slot may be free, from the mean time for which slots were held."""
        if not self._released:
            return None
        mean = self._held_seconds / self._released
        return mean * (self._waiting + 1) / self._limit
