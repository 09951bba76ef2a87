"""May a call run now, and if not, when? The door to the slots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf

from tool_engine.admission import refusal
from tool_engine.admission.dispatch import SlotDispatcher, broken_accounting
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, BYPASS, PARKED, RELEASED, ZOMBIE, ConcurrencySlot
from tool_engine.admission.waiting import Lane, Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, ToolEngineError
from tool_engine.model.call import ToolExecutionContext

__all__ = ["ToolConcurrencyController"]


class ToolConcurrencyController(SlotDispatcher):
    """Gives slots to calls: at most so many at once, in all and per bucket.

    Works alone, without an engine. It may be created anywhere and is used from one event loop.

    Args:
        config: The limits and the strategy.
        clock: Seconds, monotonic; for tests.

    Example:
        >>> controller = ToolConcurrencyController(ConcurrencyConfig(bucket_limits={"http": 5}))
        >>> async def fetch():
        ...     async with controller.slot("http") as slot:
        ...         return slot.queue_wait
    """

    __slots__ = (
        "_bypass",
        "_closed_because",
        "_idle",
        "_is_flooded",
        "_is_shut",
    )

    def __init__(
        self,
        config: ConcurrencyConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config or ConcurrencyConfig(), clock)
        self._bypass = self.config.bypass_caller_types
        self._closed_because: str | None = None
        self._is_shut = self._is_flooded = False
        self._idle: list[asyncio.Future[None]] = []

    def admit_nowait(
        self, request: AdmissionRequest, now: float | None = None
    ) -> ConcurrencySlot | None:
        """Gives a slot if the call may run at once, else None; never waits and never raises.

        `now`, on the controller's clock, saves a caller that knows it another look.
        """
        lane = self._lanes.get(request.lane)
        if lane is None:
            lane = self._open_lane(request)
        if now is None:
            now = self._clock()
        weight = request.weight
        if request.is_bypass and (
            self._closed_because is None
            or (self._closed_because == "draining" and request.parent is not None)
        ):
            return self._let_bypass(lane, request, now)
        bucket = lane.bucket
        used = self._used + weight
        bucket_used = bucket.used + weight
        if used > self._limit or bucket_used > bucket.most:
            return None
        if self._is_shut or (self._waiting and (lane.waiting or self._line or bucket.held_up)):
            return None
        if lane.throttle is not None:
            if lane.throttle.delay(now) > 0:
                return None
            lane.throttle.count(now)
        # The same as `_take`, written out: every call that need not wait comes this way.
        self._used = used
        bucket.used = bucket_used
        if used > self._most_used:
            self._most_used = used
        acquired = self._acquired
        slot = ConcurrencySlot(lane, weight, acquired + self._enqueued, now)
        if self._aging is not None or request.parent is not None:
            slot.key, slot.arrival, _ = self._order_of(request, now)
        self._acquired = acquired + 1
        return slot

    async def admit(
        self, request: AdmissionRequest, on_queued: Callable[[], None] | None = None
    ) -> ConcurrencySlot:
        """Waits until the call may run.

        Args:
            request: What the call needs.
            on_queued: Called once, before the wait, if the call has to wait.

        Raises:
            AdmissionError: The call was refused, at once or after waiting.
        """
        slot = self.admit_nowait(request)
        if slot is not None:
            return slot
        waiter = self._enqueue(request)
        if waiter.is_waiting:
            try:
                if on_queued is not None:
                    on_queued()
                await waiter.future
            except BaseException:
                self._give_up(waiter)
                raise
        if waiter.slot is None:
            raise ToolEngineError(f"{waiter!r} was woken without a slot")
        return waiter.slot

    def release(self, slot: ConcurrencySlot, now: float | None = None) -> None:
        """Gives the slot back and hands it to the next waiter; a second time changes nothing.

        `now`, on the controller's clock, saves a caller that knows it another look.
        """
        state = slot.state
        if state is ACTIVE:
            # The same as `_put_back`, written out, as in `admit_nowait`.
            slot.state = RELEASED
            bucket, weight = slot.lane.bucket, slot.weight
            self._used -= weight
            bucket.used = bucket_used = bucket.used - weight
            if bucket_used < 0:
                raise broken_accounting(slot)
            self._released += 1
            held = (self._clock() if now is None else now) - slot.acquired_at
            self._held_seconds += held - slot.counted
            if self._waiting:
                self._hand_over(bucket)
        elif state is not RELEASED:
            self._release_special(slot, state)
        if self._idle:
            self._wake_idle()

    def try_acquire(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        weight: int = 1,
    ) -> ConcurrencySlot | None:
        """A slot if one is free for this call now, else None; never waits."""
        return self.admit_nowait(
            AdmissionRequest.of(bucket, context, priority, weight, None, self._bypass)
        )

    async def acquire(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        weight: int = 1,
        timeout: float | None = None,  # noqa: ASYNC109 - bounds the wait, as in asyncio's locks
    ) -> ConcurrencySlot:
        """Waits for a slot, which must be given back with `release`.

        Args:
            bucket: The limit to count against; None: only the global one.
            context: Who calls; its `caller_type` may bypass the limits.
            priority: Smaller is more urgent; None: the context's, else 5.
            weight: How many units of the limits the call takes.
            timeout: Seconds to wait at most; None: the configured `queue_timeout`.

        Raises:
            QueueFullError: As many wait as may.
            QueueTimeoutError: The time to wait ran out.
            SlotRejectedError: The strategy is `reject` and no slot is free; the weight is over the
                limit; or too many zombies hold slots.
            ControllerClosedError: The controller is closed or draining.
        """
        return await self.admit(
            AdmissionRequest.of(bucket, context, priority, weight, timeout, self._bypass)
        )

    @asynccontextmanager
    async def slot(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        weight: int = 1,
        timeout: float | None = None,  # noqa: ASYNC109 - bounds the wait for the slot, not the body
    ) -> AsyncIterator[ConcurrencySlot]:
        """Acquires on entry and releases on exit; arguments and errors as for `acquire`."""
        request = AdmissionRequest.of(bucket, context, priority, weight, timeout, self._bypass)
        slot = await self.admit(request)
        try:
            yield slot
        finally:
            self.release(slot)

    def park(self, slot: ConcurrencySlot) -> None:
        """Lends a slot out while its call waits for a call of its own.

        So nesting cannot deadlock, at any depth and any limit. Each `park` needs one `unpark`.
        """
        slot.nested += 1
        if slot.is_bypass:
            return
        if slot.state is PARKED:
            self._withdraw_resuming(slot)
        elif slot.state is ACTIVE:
            slot.state = PARKED
            self._parked += 1
            self._put_back(slot, self._clock())

    async def unpark(self, slot: ConcurrencySlot) -> None:
        """Takes a parked slot again, ahead of everybody who waits, once no nested call is left."""
        slot.nested -= 1
        if slot.nested < 0:
            raise ToolEngineError(f"{slot!r} was unparked more often than parked")
        if slot.nested or slot.state is not PARKED:
            return
        order = (-inf, slot.arrival, self._acquired + self._enqueued)
        waiter = Waiter(slot.lane, slot.weight, order, self._clock())
        waiter.resumes = slot
        slot.resuming = waiter
        self._join(waiter)
        if waiter.is_waiting:
            try:
                await waiter.future
            except BaseException:
                self._give_up(waiter)
                raise

    def stay_parked(self, slot: ConcurrencySlot) -> None:
        """In place of `unpark`, for a call that is ending and does not want its slot back."""
        slot.nested -= 1

    def mark_overdue(self, slot: ConcurrencySlot) -> None:
        """Notes that the call has ended for its caller while its work goes on: a zombie.

        The slot stays taken until `release`.
        """
        if slot.is_overdue or slot.state is RELEASED:
            return
        slot.is_overdue = True
        if slot.state is ACTIVE:
            slot.state = ZOMBIE
            self._zombies += 1
            self._update_gate()

    def pause(self) -> None:
        """Gives no more slots; calls wait, running ones go on."""
        self._is_paused = True
        self._update_gate()

    def resume(self) -> None:
        """Ends a pause or a drain."""
        if self._closed_because != "closed":
            self._closed_because = None
        self._is_paused = False
        self._update_gate()
        self._hand_over_all()

    async def drain(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - an answer, not a failure
    ) -> bool:
        """Refuses new calls and waits until nothing runs and nothing waits.

        Args:
            timeout: Seconds to wait at most; None: as long as it takes.

        Returns:
            True when all is done, False when the time ran out. New calls stay refused until
            `resume`.
        """
        if self._closed_because is None:
            self._closed_because = "draining"
        self._update_gate()
        if self._is_idle():
            return True
        future = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        try:
            done, _ = await asyncio.wait([future], timeout=timeout)
        finally:
            self._idle.remove(future)
        return bool(done)

    def close(self) -> None:
        """Refuses new calls for good and ends the wait of those that wait; idempotent."""
        self._closed_because = "closed"
        self._update_gate()
        for lane in self._lanes.values():
            for _, waiter in sorted(lane.waiters, key=lambda entry: entry[0]):
                if waiter.is_waiting and waiter.resumes is None:
                    self._dismiss(waiter, refusal.closed("closed"))
        self._hand_over_all()
        if self._idle:
            self._wake_idle()

    def __repr__(self) -> str:
        return (
            f"<ToolConcurrencyController {self._used}/{self._limit} in use, {self._waiting} wait, "
            f"{self._zombies} zombies, {self._closed_because or 'open'}>"
        )

    def _let_bypass(self, lane: Lane, request: AdmissionRequest, now: float) -> ConcurrencySlot:
        key, arrival, _ = self._order_of(request, now)
        if request.parent is None:
            # It takes no number of its own: it stands right behind the last call that took one.
            arrival -= 1
        slot = ConcurrencySlot(lane, request.weight, arrival, now, key)
        slot.is_bypass, slot.state = True, BYPASS
        self._bypass_active += 1
        return slot

    def _enqueue(self, request: AdmissionRequest) -> Waiter:
        """Lets a call that could not start at once wait, unless it must be refused."""
        lane = self._lanes[request.lane]
        error = self._refusal(request, lane)
        if error is not None:
            self._rejected += 1
            lane.bucket.rejected += 1
            raise error
        now = self._clock()
        waiter = Waiter(lane, request.weight, self._order_of(request, now), now)
        waiter.is_queued = request.parent is None
        timeout = self.config.queue_timeout if request.timeout is None else request.timeout
        if timeout is not None:
            loop = asyncio.get_running_loop()
            waiter.timer = loop.call_later(timeout, self._expire, waiter, timeout)
        self._join(waiter)
        return waiter

    def _refusal(self, request: AdmissionRequest, lane: Lane) -> AdmissionError | None:
        return (
            refusal.impossible(request, lane, self._limit)
            or self._refusal_when_shut(request)
            or (None if request.parent is not None else self._refusal_to_wait(lane))
        )

    def _refusal_when_shut(self, request: AdmissionRequest) -> AdmissionError | None:
        reason = self._closed_because
        if reason == "closed" or (reason is not None and request.parent is None):
            return refusal.closed(reason)
        return refusal.flooded(self._zombies) if self._is_flooded else None

    def _refusal_to_wait(self, lane: Lane) -> AdmissionError | None:
        if self.config.strategy == "reject":
            delay = 0.0 if lane.throttle is None else lane.throttle.delay(self._clock())
            if delay > 0:
                return refusal.too_fast(lane, delay)
            return refusal.no_room(lane, self._used, self._limit, self._estimated_wait())
        if self._queued >= self.config.queue_size:
            return refusal.full(lane, self._queued, self.config.queue_size, self._estimated_wait())
        return None

    def _release_special(self, slot: ConcurrencySlot, state: str) -> None:
        slot.state = RELEASED
        if slot.is_bypass:
            self._bypass_active -= 1
        elif state is PARKED:
            self._withdraw_resuming(slot)
            self._parked -= 1
        else:
            self._zombies -= 1
            self._update_gate()
            self._put_back(slot, self._clock())

    def _update_gate(self) -> None:
        most = self.config.max_zombies
        self._is_flooded = most is not None and self._zombies >= most
        self._is_shut = self._is_paused or self._is_flooded or self._closed_because is not None

    def _wake_idle(self) -> None:
        if self._is_idle():
            for future in self._idle:
                if not future.done():
                    future.set_result(None)
