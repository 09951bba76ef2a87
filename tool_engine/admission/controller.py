"""May a call run now, and if not, when? The door to the slots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

from tool_engine.admission import refusal
from tool_engine.admission.bridge import ControllerBridge
from tool_engine.admission.dispatch import broken_accounting
from tool_engine.admission.entrance import Entrance
from tool_engine.admission.lease import SlotLease
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, PARKED, RELEASED, ZOMBIE, ConcurrencySlot
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ConfigurationError, ToolEngineError
from tool_engine.interfaces import AdmissionUser
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.json.copying import live
from tool_engine.model.settings.known_fields import KnownArguments

__all__ = ["ToolConcurrencyController"]


@live("pass it on as it is, or make another one with its config")
class ToolConcurrencyController(Entrance, KnownArguments):
    """Gives slots to calls: at most so many at once, in all, per bucket and per key.

    Works alone, without an engine. It may be created anywhere and is used from one event loop;
    others, and threads, use its `bridge()`.

    Args:
        config: The limits and the strategy.
        clock: Seconds, monotonic; for tests.

    Example:
        >>> controller = ToolConcurrencyController(ConcurrencyConfig(bucket_limits={"http": 5}))
        >>> async def fetch():
        ...     async with controller.slot("http") as slot:
        ...         return slot.queue_wait
    """

    __slots__ = ("_requests", "_user", "on_configure")

    def __init__(
        self,
        config: ConcurrencyConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config or ConcurrencyConfig(), clock)
        self._requests: dict[str | None, AdmissionRequest] = {}
        self._user: AdmissionUser | None = None
        self.on_configure: list[Callable[[], None]] = []
        """Called after each `configure`."""

    def attach(self, user: AdmissionUser) -> None:
        """Take note of the engine whose calls it admits; see `interfaces.AdmissionController`.

        Raises:
            ConfigurationError: It has an engine.
        """
        if self._user is not None:
            raise ConfigurationError(
                "the controller admits the calls of another engine, which would close it; make one "
                "for each engine"
            )
        self._user = user
        self.current_slot = user.current_slot
        self.leader_of = user.leader_of
        self.on_configure.append(user.forget_plans)

    def admit_nowait(  # noqa: C901 - the path of every call, without a step in between
        self, request: AdmissionRequest, now: float | None = None, call_id: str | None = None
    ) -> ConcurrencySlot | None:
        """Gives a slot if the call may run at once, else None; never waits and never raises.

        `now`, on the controller's clock, saves a caller that knows it another look.
        """
        lane = request.spot
        if lane is None or lane.is_gone:
            lane = request.spot = self._open(request)
        if now is None:
            now = self._clock()
        weight = request.weight
        if request.is_bypass and (
            self._closed_because is None
            or (self._closed_because == "draining" and request.parent is not None)
        ):
            return self._let_bypass(lane, request, now, call_id)
        bucket = lane.bucket
        used = self._used + weight
        bucket_used = bucket.used + weight
        if used > self._limit or bucket_used > bucket.most:
            return self._turn_away(lane, request, now, call_id)
        if self._is_shut or (
            self._waiting and (lane.waiting or self._root.entries or bucket.entries)
        ):
            return self._turn_away(lane, request, now, call_id)
        if lane.is_gated:
            if self._is_open(lane, request, now):
                return self._admit_gated(lane, request, now, call_id)
            return self._turn_away(lane, request, now, call_id)
        # The same as `_take`, written out: every call that need not wait comes this way.
        self._used = used
        bucket.used = bucket_used
        if used > self._most_used:
            self._most_used = used
        acquired = self._acquired
        slot = ConcurrencySlot(lane, weight, acquired + self._enqueued, now, request, call_id)
        if self._aging is not None or request.parent is not None:
            slot.key, slot.arrival, _ = self._order_of(request, now)
        self._acquired = acquired + 1
        if call_id is None:
            slot.is_listed = True
            self._held.add(slot)
        return slot

    async def admit(
        self,
        request: AdmissionRequest,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> ConcurrencySlot:
        """Waits until the call may run.

        Args:
            request: What the call needs.
            on_queued: Called once, before the wait, if the call has to wait.
            call_id: The call, for `snapshot` and `explain`.

        Raises:
            AdmissionError: The call was refused, at once or after waiting.
        """
        slot = self.admit_nowait(request, None, call_id)
        if slot is not None:
            self.watch(slot)
            return slot
        waiter = self._enqueue(request, call_id)
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

    def release(
        self, slot: ConcurrencySlot, now: float | None = None, *, outcome: bool | None = True
    ) -> None:
        """Gives the slot back and hands it to the next waiter; a second time changes nothing.

        Args:
            slot: What `acquire` gave.
            now: The time on the controller's clock; saves a caller that knows it another look.
            outcome: What breakers are told: the call succeeded, failed, or None for neither.
        """
        state = slot.state
        if state is ACTIVE:
            # The same as `_put_back`, written out, as in `admit_nowait`.
            lane = slot.lane
            if now is None:
                now = self._clock()
            # What was counted at its start is undone, whatever bounds its lane by now.
            if slot.is_gated or lane.is_gated:
                self._release_gated(slot, now, outcome)
            else:
                slot.state = RELEASED
                bucket, weight = lane.bucket, slot.weight
                self._used -= weight
                bucket.used = bucket_used = bucket.used - weight
                if bucket_used < 0:
                    raise broken_accounting(slot)
                if slot.is_listed:
                    self._held.remove(slot)
                self._released += 1
                self._held_seconds += (held := now - slot.acquired_at - slot.counted)
                if self._waiting:
                    bucket.served.append(held)
                    self._hand_over(lane)
        elif state is not RELEASED:
            self._release_special(slot, state, outcome)
        if self._idle:
            self._wake_idle()

    def try_acquire(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        key: str | None = None,
        weight: int = 1,
    ) -> ConcurrencySlot | None:
        """A slot if one is free for this call now, else None; never waits."""
        return self.admit_nowait(
            AdmissionRequest.of(self.config, bucket, context, priority, key, weight)
        )

    async def acquire(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        key: str | None = None,
        weight: int = 1,
        timeout: float | None = None,  # noqa: ASYNC109 - bounds the wait, as in asyncio's locks
    ) -> ConcurrencySlot:
        """Waits for a slot, which must be given back with `release`.

        Args:
            bucket: The limit to count against; None: only the global one.
            context: Who calls; its `caller_type` may bypass the limits.
            priority: Smaller is more urgent; None: the context's, else 5.
            key: What the call shares with others, see `KeyLimits`; None: the context's.
            weight: How many units of the limits the call takes.
            timeout: Seconds to wait at most; None: the configured `queue_timeout`.

        Raises:
            QueueFullError: As many wait as may.
            QueueTimeoutError: The time to wait ran out.
            RateLimitedError: The rate allows no call in that time.
            CircuitOpenError: The breaker of the bucket is open.
            SlotRejectedError: The strategy is `reject` and no slot is free; the weight is over the
                limit; or too many zombies hold slots.
            ControllerClosedError: The controller is closed or draining.
        """
        return await self.admit(
            AdmissionRequest.of(self.config, bucket, context, priority, key, weight, timeout)
        )

    def slot(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        key: str | None = None,
        weight: int = 1,
        timeout: float | None = None,
    ) -> SlotLease:
        """Acquires on entry and releases on exit; arguments and errors as for `acquire`."""
        if context is None and priority is None and key is None and timeout is None and weight == 1:
            request = self._requests.get(bucket)
            if request is None:
                request = self._requests[bucket] = AdmissionRequest.of(self.config, bucket)
        else:
            config = self.config
            request = AdmissionRequest.of(config, bucket, context, priority, key, weight, timeout)
        return SlotLease(self, request)

    def park(self, slot: ConcurrencySlot) -> None:
        """Lends a slot out while its call waits for a call of its own, so that none deadlocks.

        Each `park` needs one `unpark`.
        """
        slot.nested += 1
        if slot.is_bypass:
            return
        if slot.state is PARKED:
            self._withdraw_resuming(slot)
        elif slot.state is ACTIVE:
            slot.state = PARKED
            self._parked += 1
            slot.lane.lent.add(slot)
            self._put_back(slot, self._clock())

    async def unpark(self, slot: ConcurrencySlot) -> None:
        """Takes a parked slot again, ahead of all calls that wait, once no nested call is left."""
        waiter = self._ask_back(slot)
        if waiter is not None and waiter.is_waiting:
            # What is cancelled here may be a task of a tool that goes on: its call still gets
            # its slot back. If it ends, `release` takes the waiter out of the line.
            await waiter.future

    def unpark_nowait(self, slot: ConcurrencySlot) -> None:
        """Do the same without the wait: the slot counts again as soon as there is room for it.

        For a call that is ending: it is not held up, and its tool may go on nevertheless.
        """
        self._ask_back(slot)

    def _ask_back(self, slot: ConcurrencySlot) -> Waiter | None:
        slot.nested -= 1
        if slot.nested < 0:
            raise ToolEngineError(f"{slot!r} was unparked more often than parked")
        if slot.nested or slot.state is not PARKED:
            return None
        order = (-inf, slot.arrival, self._acquired + self._enqueued)
        waiter = Waiter(slot.lane, slot.request, order, self._clock(), slot.call_id)
        waiter.resumes, slot.resuming = slot, waiter
        self._join(waiter)
        self._note_peak()
        return waiter

    def stay_parked(self, slot: ConcurrencySlot) -> None:
        """In place of `unpark`, for a call that has ended: nothing of it runs."""
        slot.nested -= 1

    def mark_overdue(self, slot: ConcurrencySlot, outcome: bool | None = False) -> None:
        """Notes that the call has ended for its caller while its work goes on: a zombie.

        The slot stays taken until `release`; breakers are told of the `outcome` now.
        """
        if slot.is_overdue or slot.state is RELEASED:
            return
        slot.is_overdue = True
        self._end_probes(slot, outcome, self._clock())
        if slot.state is ACTIVE:
            slot.state = ZOMBIE
            self._zombies += 1
            self._update_gate()

    def renew(self, slot: ConcurrencySlot) -> None:
        """Says that the holder is alive: `slot_ttl` starts anew."""
        slot.renewed_at = self._clock()

    def configure(self, config: ConcurrencyConfig) -> None:
        """Applies another configuration at once, to calls that wait too.

        A limit that grows lets exactly as many more run; one that shrinks ends no call: slots are
        given again when enough were given back. Calls that wait keep the time that they came and
        the `queue_timeout` that they came with.
        """
        self.config = config
        self._requests = {}
        self._set_up()
        self._layout.configure(config)
        self._line_up_anew()
        self._update_gate()
        self._hand_over_all()
        self._refuse_behind_open()
        for tell in self.on_configure:
            tell()

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

    def pause_bucket(self, name: str, seconds: float) -> None:
        """Gives no slots of a bucket for `seconds`, at most `max_bucket_pause`; calls wait.

        What a server asks for with `Retry-After`. A shorter pause does not end a longer one, but
        0 does.
        """
        bucket = self._layout.bucket(name)
        if not seconds > 0:
            self._end_pause(bucket, at_once=True)
        else:
            until = self._clock() + min(seconds, self.config.max_bucket_pause)
            bucket.paused_until = max(until, bucket.paused_until or until)
            bucket.most = -1
        self._refresh(bucket)
        self._give_out()  # room that was kept for a call of the bucket, too

    def bridge(self) -> ControllerBridge:
        """What other event loops and threads use in place of the controller.

        Raises:
            RuntimeError: No event loop is running: call it where the controller is used.
        """
        return ControllerBridge(self, asyncio.get_running_loop())

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
        for lane in list(self._lanes.values()):
            for waiter in lane.waiting_calls():
                if waiter.resumes is None:
                    self._dismiss(waiter, refusal.closed("closed"))
        self._hand_over_all()
        if self._idle:
            self._wake_idle()

    def __repr__(self) -> str:
        return (
            f"<ToolConcurrencyController {self._used}/{self._limit} in use, {self._waiting} wait, "
            f"{self._zombies} zombies, {self._closed_because or 'open'}>"
        )
