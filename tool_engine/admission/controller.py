"""May a call run now, and if not, when? Gives slots, and takes them back.

The public door. What is in use, and which call is next, is the affair of its `SlotPool`; here it is
changed in the two methods that every call passes, and nowhere else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from tool_engine.admission import refusal
from tool_engine.admission.announcing import SlotEvent
from tool_engine.admission.bridge import ControllerBridge
from tool_engine.admission.lines import Lane
from tool_engine.admission.load.adaptive import refuse_samples
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, PARKED, RELEASED, ZOMBIE, ConcurrencySlot, SlotBlock
from tool_engine.admission.view import ControllerView
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ToolEngineError
from tool_engine.interfaces import AdmissionUser
from tool_engine.interfaces.admission_view import ConcurrencySnapshot, WaitExplanation
from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.json.copying import refuse_copying

if TYPE_CHECKING:
    from tool_engine.interfaces.lease_source import LeaseSource


@refuse_copying("pass it on as it is, or make another one with its config")
class ToolConcurrencyController(KnownArguments):
    """Gives slots to calls: at most so many at once, in all, per bucket and per key.

    Works alone, without an engine. It may be created anywhere and is used from one event loop;
    others, and threads, use its `bridge()`.

    Args:
        config: The limits and the strategy.
        clock: Seconds, monotonic; for tests.
        leases: Gives units of limits that processes share; None: all limits are its own.

    Example:
        >>> controller = ToolConcurrencyController(ConcurrencyConfig(bucket_limits={"http": 5}))
        >>> async def fetch():
        ...     async with controller.slot("http") as slot:
        ...         return slot.queue_wait
    """

    __slots__ = (
        "_clock",
        "_gate",
        "_layout",
        "_pool",
        "_queue",
        "_requests",
        "_user",
        "_view",
        "config",
        "on_configure",
    )

    def __init__(
        self,
        config: ConcurrencyConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        leases: LeaseSource | None = None,
    ) -> None:
        self.config = config = refusal.checked_parts(config, clock, leases)
        self._clock = clock
        self._pool = pool = SlotPool(config, clock)
        # The same as in the pool, one step nearer to the path of every call.
        self._gate, self._queue, self._layout = pool.gate, pool.queue, pool.layout
        self._view = ControllerView(pool, clock)
        if leases is not None:
            import_module("tool_engine.admission.cluster.leasing").LeaseDesk(pool, leases)
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
            raise refusal.make_attached_error()
        self._user = self._view.user = user
        self.on_configure.append(user.forget_plans)
        self._layout.on_limit_adapted = user.note_limit

    def share_pool(self) -> SlotPool | None:
        """Return what plain calls change as the methods below do; None: a subclass has its own."""
        return self._pool if type(self) is ToolConcurrencyController else None

    def admit_nowait(  # noqa: C901 - the path of every call, without a step in between
        self, request: AdmissionRequest, now: float | None = None, call_id: str | None = None
    ) -> ConcurrencySlot | None:
        """Give a slot if the call may run at once, else None; never waits and never raises.

        `now`, on the controller's clock, saves a caller that knows it another look.
        """
        lane = request.spot
        if lane is None or lane.is_gone:
            lane = request.spot = self._open_lane(request)
        if now is None:
            now = self._clock()
        weight = request.weight
        if request.is_bypass and self._gate.lets_bypass(request):
            return self._pool.admit_bypass(lane, request, now, call_id)
        pool, queue, bucket = self._pool, self._queue, lane.bucket
        used = pool.used + weight
        bucket_used = bucket.used + weight
        if used > pool.limit or bucket_used > bucket.most:
            return self._turn_away(lane, request, now, call_id)
        # Room is not enough: a slot that is free while a call waits is kept for that one.
        if pool.is_shut or (queue.waiting and (lane.waiting or queue.keeps_room(bucket))):
            return self._turn_away(lane, request, now, call_id)
        if lane.is_gated:
            if lane.is_open(request, now):
                return pool.admit_gated(lane, request, now, call_id)
            return self._turn_away(lane, request, now, call_id)
        # The same as `SlotPool.take`, written out: every call that need not wait comes this way.
        pool.used = used
        bucket.used = bucket_used
        if used > pool.most_used:
            pool.most_used = used
        acquired = pool.acquired
        slot = ConcurrencySlot(lane, weight, acquired + queue.enqueued, now, request, call_id)
        if pool.aging is not None or request.parent is not None:
            slot.key, slot.arrival, _ = pool.order_of(request, now)
        pool.acquired = acquired + 1
        if call_id is None:
            slot.is_listed = True
            pool.held.add(slot)
        return slot

    async def admit(
        self,
        request: AdmissionRequest,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> ConcurrencySlot:
        """Wait until the call may run.

        Args:
            request: What the call needs.
            on_queued: Called once, before the wait, if the call has to wait.
            call_id: The call, for `snapshot` and `explain`.

        Raises:
            AdmissionError: The call was refused, at once or after waiting.
        """
        waiter = self._begin_wait(request, call_id)
        if isinstance(waiter, ConcurrencySlot):
            return waiter
        if waiter.is_waiting:
            try:
                if on_queued is not None:
                    self._pool.tell_queued(waiter, on_queued)
                await waiter.future
            except BaseException:
                self.give_up(waiter)
                raise
        if waiter.slot is None:
            raise ToolEngineError(f"{waiter!r} was woken without a slot")
        return waiter.slot

    def give_up(self, waiter: Waiter) -> None:
        """End the wait of a task that waits no more."""
        # A cancellation may come after the slot was given and before this task is woken.
        if waiter.slot is not None:
            self.release(waiter.slot, outcome=None)
        else:
            self._pool.give_up(waiter)

    def release(
        self, slot: ConcurrencySlot, now: float | None = None, *, outcome: bool | None = True
    ) -> bool | None:
        """Give the slot back and hand it to the next waiter; a second time changes nothing.

        Returns None: what is not shared is never lost.

        Args:
            slot: What `acquire` gave.
            now: The time on the controller's clock; saves a caller that knows it another look.
            outcome: What breakers count: the call succeeded, failed, or None for neither.
        """
        pool, state = self._pool, slot.state
        if state is ACTIVE:
            lane = slot.lane
            if now is None:
                now = self._clock()
            # What was counted at its start is undone, whatever bounds its lane by now.
            if slot.is_gated or lane.is_gated:
                pool.release_gated(slot, outcome, now)
            else:
                # The same as `SlotPool.put_back`, written out, as in `admit_nowait`.
                slot.state = RELEASED
                bucket, weight = lane.bucket, slot.weight
                pool.used -= weight
                bucket.used = bucket_used = bucket.used - weight
                if bucket_used < 0:
                    raise refusal.make_accounting_error(slot)
                if slot.is_listed:
                    pool.held.remove(slot)
                pool.released += 1
                pool.held_seconds += (held := now - slot.acquired_at - slot.counted)
                if self._queue.waiting:
                    bucket.served.append(held)
                    pool.hand_over(lane, now)
        elif state is not RELEASED:
            pool.release_special(slot, state, outcome)
        if pool.idle:
            pool.wake_idle()
        return None

    async def open(self) -> None:
        """Get ready for calls: there is nothing to be done where all limits are its own."""

    async def leave(self) -> None:
        """Let go of everything: of what others share, there is nothing."""

    def try_acquire(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        key: str | None = None,
        weight: int = 1,
    ) -> ConcurrencySlot | None:
        """Return a slot if one is free for this call now, else None; never waits."""
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
        """Wait for a slot, which must be given back with `release`.

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
    ) -> SlotBlock:
        """Acquire on entry and releases on exit; arguments and errors as for `acquire`."""
        config = self.config
        if context is None and priority is None and key is None and timeout is None and weight == 1:
            request = self._requests.get(bucket)
            if request is None:
                request = self._requests[bucket] = AdmissionRequest.of(config, bucket)
        else:
            request = AdmissionRequest.of(config, bucket, context, priority, key, weight, timeout)
        return SlotBlock(self, request)

    # Lending: the slot of a call that waits for a call of its own, so that none deadlocks.

    def park(self, slot: ConcurrencySlot) -> None:
        """Lend a slot out while its call waits for a call of its own; needs one `unpark`."""
        slot.nested += 1
        if slot.is_bypass:
            return
        if slot.state is PARKED:
            self._pool.withdraw(slot)
        elif slot.state is ACTIVE:
            self._pool.lend(slot)

    async def unpark(self, slot: ConcurrencySlot) -> None:
        """Take a parked slot again, ahead of all calls that wait, once no nested call is left."""
        waiter = self._pool.ask_back(slot)
        if waiter is not None and waiter.is_waiting:
            # What is cancelled here may be a task of a tool that goes on: its call still gets
            # its slot back. If it ends, `release` takes the waiter out of the line.
            await waiter.future

    def unpark_nowait(self, slot: ConcurrencySlot) -> None:
        """Do the same without the wait, for a call that ends: it counts once there is room."""
        self._pool.ask_back(slot)

    def stay_parked(self, slot: ConcurrencySlot) -> None:
        """In place of `unpark`, for a call that has ended: nothing of it runs."""
        slot.nested -= 1

    def mark_overdue(self, slot: ConcurrencySlot, outcome: bool | None = False) -> None:
        """Note that the call has ended for its caller while its work goes on: a zombie.

        The slot stays taken until `release`; breakers count the `outcome` now.
        """
        if slot.is_overdue or slot.state is RELEASED:
            return
        slot.is_overdue = True
        self._pool.end_probes(slot, outcome, self._clock())
        if slot.state is ACTIVE:
            slot.state = ZOMBIE
            self._pool.count_zombies(1)

    def renew(self, slot: ConcurrencySlot) -> None:
        """Note that the holder is alive: `slot_ttl` starts anew."""
        slot.renewed_at = self._clock()

    # Limits that move.

    def configure(self, config: ConcurrencyConfig) -> None:
        """Apply another configuration at once, to calls that wait too.

        A limit that grows lets exactly as many more run; one that shrinks ends no call. Calls that
        wait keep the time that they came and the `queue_timeout` that they came with.
        What is no configuration raises `ConfigurationError`.
        """
        pool = self._pool
        self.config = config = refusal.checked_limits(config, pool.leases)
        self._requests = {}
        pool.use(config)
        self._layout.configure(config)
        for waiter in self._queue.regroup(config, self._view.all_slots(), pool.rank):
            # Limits may have shrunk below the weight of a call, which would wait without an end.
            error = refusal.find_impossible(waiter.request, waiter.lane, pool.limit)
            if error is not None and waiter.resumes is None:
                pool.reject_waiter(waiter, error)
            elif (lease := waiter.lane.bucket.lease) is not None:
                lease.note_waiter(waiter)
        pool.update_gate()
        pool.hand_over_all()
        pool.refuse_behind_open()
        for callback in self.on_configure:
            callback()

    def adopt(self, requests: Iterable[AdmissionRequest]) -> None:
        """Apply what the newest definitions of tools say of their limits; counts go on.

        A call that waits keeps its place and its bucket; its rate, breaker and key limit are those
        that its tool has now, if it had any when the call came.
        """
        is_news = False
        for request in requests:
            is_news |= self._layout.adopt(request)
        if is_news:
            self._pool.hand_over_all()
            self._pool.refuse_behind_open()

    def tools_in_line(self) -> set[str]:
        """Return the tools of the catalog with limits of their own for which calls wait."""
        return self._layout.tools_in_line() if self._queue.waiting else set()

    def pause(self) -> None:
        """Give no more slots; calls wait, running ones go on."""
        self._gate.is_paused = True
        self._pool.update_gate()

    def resume(self) -> None:
        """End a pause or a drain."""
        self._gate.resume()
        self._pool.update_gate()
        self._pool.hand_over_all()

    def pause_bucket(self, name: str, seconds: float) -> None:
        """Give no slots of a bucket for `seconds`, at most `max_bucket_pause`; calls wait.

        What a server asks for with `Retry-After`. A shorter pause does not end a longer one, but
        0 does.
        """
        bucket = self._layout.bucket(name)
        if not seconds > 0:
            bucket.end_pause(inf)
        else:
            bucket.pause(self._clock() + min(seconds, self.config.max_bucket_pause))
        self._queue.refresh(bucket)
        self._pool.give_out()  # room that was kept for a call of the bucket, too

    def note_overload(self, slot: ConcurrencySlot) -> None:
        """Note that the service had no room for the call: it refused, or the time ran out.

        An `adaptive` limit shrinks, once for all calls that were in flight together. To be called
        before `release` or `mark_overdue`.
        """
        refuse_samples(slot, self._clock())

    def pause_left(self, bucket: str) -> float:
        """Return the seconds until the pause of a bucket ends; 0.0: there is none."""
        until = self._layout.bucket(bucket).paused_until
        return 0.0 if until is None else max(0.0, until - self._clock())

    def explain_shut(self) -> str | None:
        """Return why no call that comes now gets a slot, such as `paused`; None: some do."""
        return self._gate.explain_shut()

    def bridge(self) -> ControllerBridge:
        """Return what other event loops and threads use in place of the controller.

        Raises:
            RuntimeError: No event loop is running: call it where the controller is used.
        """
        return ControllerBridge(self, asyncio.get_running_loop())

    async def drain(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - an answer, not a failure
    ) -> bool:
        """Refuse new calls and wait until nothing runs and nothing waits.

        Args:
            timeout: Seconds to wait at most; None: as long as it takes.

        Returns:
            True when all is done, False when the time ran out. New calls stay refused until
            `resume`.
        """
        self._gate.shut("draining")
        self._pool.update_gate()
        if self._pool.is_idle():
            return True
        future = asyncio.get_running_loop().create_future()
        self._pool.idle.append(future)
        try:
            done, _ = await asyncio.wait([future], timeout=timeout)
        finally:
            self._pool.idle.remove(future)
        return bool(done)

    def disown(self, reason: str) -> None:
        """Refuse every slot in a process that was forked; who waits belongs to the parent."""
        self._gate.disown(f"the controller cannot be used here: {reason}")
        self._pool.update_gate()

    def close(self) -> None:
        """Refuse new calls for good and end the wait of those that wait; idempotent."""
        self._gate.shut("closed")
        self._pool.update_gate()
        for lane in list(self._layout.lanes.values()):
            for waiter in lane.waiting_calls():
                if waiter.resumes is None:
                    self._pool.reject_waiter(waiter, refusal.make_closed_error("closed"))
        self._pool.hand_over_all()
        self._pool.wake_idle()

    # What is only looked at: see `ControllerView`.

    def subscribe(self, callback: Callable[[SlotEvent], None]) -> Callable[[], None]:
        """Call `callback` with each `SlotEvent` from now on; returns what ends that.

        It is called shortly after, so that it delays no grant; what it raises is logged. Calls that
        bypass the limits have no slot to report.

        Example:
            >>> controller = ToolConcurrencyController()
            >>> unsubscribe = controller.subscribe(lambda event: print(event.event_type))
        """
        return self._pool.announcer.subscribe(callback, self._layout.observe)

    def get_metrics(self) -> ConcurrencyMetrics:
        """Return all sums, taken in one step."""
        return self._view.metrics()

    def get_bucket_metrics(self) -> dict[str, dict[str, Any]]:
        """Return per bucket: `current`, `limit` (None: no own), `queue` and `utilization`."""
        return self._view.bucket_metrics()

    def snapshot(self) -> ConcurrencySnapshot:
        """Return who holds a slot, who waits, in which order and why.

        Takes 2 to 30 µs for each call that it lists.
        """
        return self._view.snapshot()

    def explain(self, call_id: str) -> WaitExplanation:
        """Explain why a call waits: behind which, for what, and about how much longer.

        Order and times are a forecast: no other call comes, and calls run as long as the last ones
        did. Takes some 10 ms, and 60 µs more for each call that waits.
        """
        return self._view.explain(call_id)

    def watch(self, slot: ConcurrencySlot) -> None:
        """Let views show a slot; until then its tool is in its first step."""
        self._pool.held.show(slot)

    def count_timeout(self) -> None:
        """Count a call that ran out of time while it ran."""
        self._pool.count_timeout()

    def __repr__(self) -> str:
        return f"<ToolConcurrencyController {self._view.describe()}>"

    # What becomes of a call that cannot run at once?

    def _open_lane(self, request: AdmissionRequest) -> Lane:
        """Return the lane of a request that comes for the first time, perhaps of an edited tool."""
        if request.edition:
            self.adopt((request,))
        return self._layout.open(request)

    def _turn_away(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> ConcurrencySlot | None:
        """Look again: a pause may be over, or a call that is too heavy for its bucket alone."""
        bucket = lane.bucket
        if bucket.paused_until is not None and bucket.end_pause(now):
            return self.admit_nowait(request, now, call_id)
        if bucket.lets_alone(request.weight) and self._pool.is_free_for(lane, request, now):
            return self._pool.admit_gated(lane, request, now, call_id)
        self._layout.let_go(lane)
        return None

    # Not in `admit`, whose frame is as large as all its names while it waits.
    def _begin_wait(
        self, request: AdmissionRequest, call_id: str | None
    ) -> ConcurrencySlot | Waiter:
        """Give a slot at once, or let the call wait, unless it must be refused."""
        now, lane = self._clock(), request.spot
        # Behind those who wait already it would only be turned away.
        if request.is_bypass or lane is None or lane.is_gone or not lane.waiting:
            slot = self.admit_nowait(request, now, call_id)
            if slot is not None:
                self._pool.held.show(slot)
                return slot
        return self._enqueue_call(request, now, call_id)

    def _enqueue_call(self, request: AdmissionRequest, now: float, call_id: str | None) -> Waiter:
        """Let a call that could not start at once wait, unless it must be refused."""
        lane = self._layout.open(request)
        if not lane.keys:
            return self._join_line(lane, request, now, call_id)
        lane.refs += 1
        try:
            return self._join_line(lane, request, now, call_id)
        finally:
            lane.refs -= 1
            self._layout.let_go(lane)

    def _join_line(
        self, lane: Lane, request: AdmissionRequest, now: float, call_id: str | None
    ) -> Waiter:
        pool = self._pool
        is_plain = not (pool.is_shut or lane.is_gated or request.weight > 1)
        if not is_plain or lane.bucket.lease is not None:
            pool.check_may_wait(lane, request, now)
        order, overload = pool.order_of(request, now), lane.bucket.overload
        if overload is not None:
            order = overload.place_call(order, lane.bucket.waiting, now)
        future = asyncio.get_running_loop().create_future()
        waiter = Waiter(lane, request, request.weight, order, now, future, call_id)
        waiter.is_queued = request.parent is None
        pool.join(waiter)
        if not waiter.is_waiting:
            return waiter
        is_asking = pool.leases is not None and pool.leases.begin_asking(waiter)
        if not is_asking and (error := pool.settle_wait(waiter, now)) is not None:
            raise error
        timeout = self.config.queue_timeout if request.timeout is None else request.timeout
        if timeout is not None:
            self._queue.set_deadline(waiter, timeout)
        return waiter
