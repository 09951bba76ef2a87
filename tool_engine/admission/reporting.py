"""What is the controller doing, and why does a call wait?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from random import Random
from typing import Any, Final

import msgspec

from tool_engine.admission.announcing import SlotEvent
from tool_engine.admission.dispatch import SlotDispatcher
from tool_engine.admission.estimate import NINE_TENTHS, ServiceTimes, percentile
from tool_engine.admission.forecast import Forecast
from tool_engine.admission.key import Key
from tool_engine.admission.lines import Bucket, Lane
from tool_engine.admission.reason import Reason, name_of, reason_of
from tool_engine.admission.slot import ACTIVE, BYPASS, PARKED, ZOMBIE, ConcurrencySlot, Order
from tool_engine.admission.snapshot import (
    ConcurrencySnapshot,
    HeldSlot,
    WaitExplanation,
    WaitingCall,
)
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.interfaces.metrics import ConcurrencyMetrics

__all__ = ["SlotReporter"]

_MOST_NAMES: Final = 10
_NAMELESS: Final = "(no id)"
_MOST_STEPS: Final = 800
"""Calls that the forecasts for one explanation go through, in all."""
_FEWEST_RUNS: Final = 9
_MOST_RUNS: Final = 200
_RUNNING: Final = {
    ACTIVE: "it has its slot",
    BYPASS: "it needs no slot",
    PARKED: "it has lent its slot out until a call of its own has ended",
    ZOMBIE: "it has ended for its caller, but its work goes on and holds the slot",
}


def _no_leader(call_id: str) -> None:
    del call_id


class SlotReporter(SlotDispatcher):
    """The views of a dispatcher. Each is taken in one step, so that its figures fit together."""

    __slots__ = ("leader_of",)

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        super().__init__(config, clock)
        self.leader_of: Callable[[str], str | None] = _no_leader
        """Finds the call whose run another one shares."""

    def subscribe(self, callback: Callable[[SlotEvent], None]) -> Callable[[], None]:
        """Calls `callback` with each `SlotEvent` from now on; returns what ends that.

        It is called shortly after, when the call that got a slot has been woken, so that it delays
        no grant; what it raises is logged. Calls that bypass the limits have no slot to tell of.

        Example:
            >>> controller = ToolConcurrencyController()
            >>> unsubscribe = controller.subscribe(lambda event: print(event.event_type))
        """
        self._announcer.add(callback)
        self._layout.observe(True)

        def unsubscribe() -> None:
            self._announcer.remove(callback)
            self._layout.observe(bool(self._announcer))

        return unsubscribe

    def get_metrics(self) -> ConcurrencyMetrics:
        """All counters, taken in one step."""
        return self._metrics(self._all_slots(), self._clock())

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
            for name, bucket in self._layout.buckets.items()
        }

    def watch(self, slot: ConcurrencySlot) -> None:
        """Lets snapshots show a slot; until then its tool is in its first step.

        A slot that was lent out in that step is shown among the parked ones already.
        """
        slot.is_listed = True
        if slot.state is ACTIVE:
            self._held.add(slot)

    def snapshot(self) -> ConcurrencySnapshot:
        """Who holds a slot, who waits, in which order and why.

        Takes 2 to 30 µs for each call that it lists: for a look into the queue, not for every call.
        """
        now = self._clock()
        held = sorted(self._all_slots(), key=_age)
        buckets = self.get_bucket_metrics()
        for name, bucket in self._layout.buckets.items():
            buckets[name] |= _details(bucket, now)
        keys, tool_keys = self._busy_keys()
        return ConcurrencySnapshot(
            self._metrics(held, now),
            self._is_paused,
            buckets,
            keys,
            tool_keys,
            self._layout.breaker_states(now),
            [self._held_slot(slot, now) for slot in held],
            self._waiting_calls(now),
        )

    def explain(self, call_id: str) -> WaitExplanation:
        """Why a call waits: behind whom, for what, and about how much longer.

        The order and the times are those of a forecast: no other call comes, and calls run as long
        as the last ones did. Takes some 10 ms, and 60 µs more for each call that waits.
        """
        for waiter in self._waiters():
            if name_of(waiter) == call_id:
                return self._explanation(waiter, call_id)
        for slot in self._all_slots():
            if name_of(slot) == call_id:
                return self._state_of(slot, call_id)
        return self._shared_run(call_id) or WaitExplanation(call_id, "unknown")

    def _shared_run(self, call_id: str) -> WaitExplanation | None:
        """What there is to say of a call that waits for no slot, but for another call."""
        leader = self.leader_of(call_id)
        if leader is None:
            return None
        theirs = self.explain(leader)
        return msgspec.structs.replace(
            theirs, call_id=call_id, state="sharing", holders=[leader], reason=str(theirs)
        )

    def _metrics(self, slots: Iterable[ConcurrencySlot], now: float) -> ConcurrencyMetrics:
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
            total_enqueued=self._enqueued - self._turned_away,
            total_dequeued=self._enqueued - self._turned_away - self._waiting,
            total_granted=self._granted,
            total_queue_timeout=self._expired,
            total_cancelled=self._cancelled,
            total_rejected_in_queue=self._dismissed,
            total_execution_time=self._held_seconds,
            max_concurrent_observed=self._most_used,
            max_queue_length_observed=self._most_waiting,
            overdue=sum(self._is_overdue(slot, now) for slot in slots),
        )

    def _all_slots(self) -> Iterator[ConcurrencySlot]:
        yield from self._holders()
        for lane in self._lanes.values():
            yield from lane.lent

    def _holders(self) -> set[ConcurrencySlot]:
        current = self.current_slot()
        if current is not None and not current.is_listed and current.state is ACTIVE:
            # A tool may look into the controller of an engine that is not its own.
            bucket = current.lane.bucket
            if self._layout.buckets.get(bucket.name) is bucket:
                self._held.add(current)
                current.is_listed = True
        return self._held

    def _waiters(self) -> Iterator[Waiter]:
        for lane in self._lanes.values():
            for _, waiter in lane.waiters:
                if waiter.is_waiting:
                    yield waiter

    def _is_overdue(self, slot: ConcurrencySlot, now: float) -> bool:
        ttl = self.config.slot_ttl
        if slot.is_overdue or ttl is None or slot.state is PARKED:
            return slot.is_overdue
        taken = slot.acquired_at + slot.counted
        since = taken if slot.renewed_at is None else max(taken, slot.renewed_at)
        return now - since > ttl

    def _busy_keys(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        keys: dict[str, Any] = {}
        tool_keys: dict[str, dict[str, Any]] = {}
        for key in self._layout.keys.values():
            scope, value = key.name
            if value is not None:
                rows = tool_keys.setdefault(scope, {}) if scope else keys
                rows[str(value)] = {
                    "current": key.used,
                    "limit": key.limit,
                    "queue": key.waiting,
                }
        return keys, tool_keys

    def _held_slot(self, slot: ConcurrencySlot, now: float) -> HeldSlot:
        request = slot.request
        return HeldSlot(
            slot.slot_id,
            name_of(slot),
            request.tool_name,
            slot.bucket,
            request.key,
            slot.weight,
            request.priority,
            slot.state,
            now - slot.acquired_at,
            slot.queue_wait,
            self._is_overdue(slot, now),
        )

    def _waiting_calls(self, now: float) -> list[WaitingCall]:
        positions: dict[str, int] = {}
        reasons: dict[Lane, Reason] = {}
        rows = []
        is_plain = all(lane.above is lane.bucket and not lane.keys for lane in self._lanes.values())
        # Where nothing but buckets holds calls up, the order within each is that of the line.
        for waiter in sorted(self._waiters(), key=_order) if is_plain else self._line(now):
            request, bucket = waiter.request, waiter.lane.bucket.name
            positions[bucket] = position = positions.get(bucket, 0) + 1
            reason = self._reason(waiter, now, reasons)
            waited = now - waiter.enqueued_at
            rows.append(
                WaitingCall(
                    name_of(waiter),
                    request.tool_name,
                    bucket,
                    request.key,
                    waiter.weight,
                    request.priority,
                    position,
                    waited,
                    reason.text_for(waiter),
                )
            )
        return rows

    def _reason(self, waiter: Waiter, now: float, known: dict[Lane, Reason]) -> Reason:
        """What holds a waiter up; asked once per lane, as its calls share it."""
        if self._is_paused and waiter.resumes is None:
            return Reason(waiter, "the controller is paused")
        lane: Lane = waiter.lane
        reason = known.get(lane)
        if reason is None:
            reason = known[lane] = reason_of(waiter, self._root, self._used, self._limit, now)
        return reason

    def _state_of(self, slot: ConcurrencySlot, call_id: str) -> WaitExplanation:
        now = self._clock()
        text = f"{_RUNNING[slot.state]}; it began {now - slot.acquired_at:.2f} s ago"
        if self._is_overdue(slot, now):
            text += " and is overdue"
        state = "parked" if slot.state is PARKED else "running"
        return WaitExplanation(call_id, state, slot.bucket, reason=text)

    def _explanation(self, waiter: Waiter, call_id: str) -> WaitExplanation:
        now = self._clock()
        bucket: Bucket = waiter.lane.bucket
        before = self._line(now, waiter)
        ahead = [each for each in before[:-1] if each.lane.bucket is bucket]
        reason = self._reason(waiter, now, {})
        holders = sorted(self._holders_of(reason.full), key=_age)
        return WaitExplanation(
            call_id,
            "waiting",
            bucket.name,
            len(ahead) + 1,
            [name_of(each) or _NAMELESS for each in ahead[:_MOST_NAMES]],
            [name_of(slot) or slot.slot_id for slot in holders[:_MOST_NAMES]],
            reason.text_for(waiter),
            now - waiter.enqueued_at,
            *self._estimate(waiter, before, now),
        )

    def _holders_of(self, full: Any) -> Iterable[ConcurrencySlot]:
        if full is None:
            return ()
        if isinstance(full, Key):
            return full.holders
        slots = (slot for slot in self._holders() if slot.state is not BYPASS)
        return (slot for slot in slots if full is self._root or slot.lane.bucket is full)

    def _line(self, now: float, until: Waiter | None = None) -> list[Waiter]:
        """Those who wait, in the order in which they will go; the last one is `until`."""
        times = self._service_times(unknown=1.0)
        waiters = list(self._waiters())
        forecast = self._forecast(waiters, now, times, None)
        forecast.run(until)
        line = [waiter for waiter, _ in forecast.served]
        if len(line) < len(waiters):
            # There is no telling when: what holds them up has no end that is known.
            served = set(line)
            line += sorted((each for each in waiters if each not in served), key=_order)
        return line if until is None else line[: line.index(until) + 1]

    def _forecast(
        self,
        waiters: Iterable[Waiter],
        now: float,
        times: dict[str, ServiceTimes],
        luck: Random | None,
    ) -> Forecast:
        forecast = Forecast(
            self.config, now, self._used, self._round, lambda name: times[name].whole(luck)
        )
        for slot in sorted(self._holders(), key=_age):
            if slot.state is not BYPASS:
                age = now - slot.acquired_at - slot.counted
                forecast.hold(slot, times[slot.bucket].rest(age, luck))
        for waiter in waiters:
            forecast.line_up(waiter)
        return forecast

    def _service_times(self, unknown: float) -> dict[str, ServiceTimes]:
        mean = self._held_seconds / self._released if self._released else None
        buckets = self._layout.buckets.items()
        return {name: ServiceTimes(bucket.served, mean, unknown) for name, bucket in buckets}

    def _estimate(
        self, waiter: Waiter, line: list[Waiter], now: float
    ) -> tuple[float | None, float | None]:
        """Seconds until `waiter` gets its slot, with 50 % and with 90 %; `line` goes before it."""
        if self._is_paused and waiter.resumes is None:
            return None, None
        times = self._service_times(unknown=inf)
        # Also those who keep room until they can go, though others go before them.
        line = sorted(
            {*line, *(each for each in self._waiters() if each.order < waiter.order)}, key=_order
        )
        runs = min(_MOST_RUNS, _MOST_STEPS // (len(line) + len(self._held)))
        if runs < _FEWEST_RUNS or all(each.spread == 0 for each in times.values()):
            # Of very many calls, chance makes little of the sum.
            wait = self._forecast(self._waiters(), now, times, None).run(waiter) - now
            error = times[waiter.lane.bucket.name].error_of_sum(len(line))
            return _known(wait), _known(wait * (1.0 + NINE_TENTHS * error))
        luck = Random(0)  # noqa: S311 - an estimate, no secret
        waits = [self._forecast(line, now, times, luck).run(waiter) - now for _ in range(runs)]
        return _known(percentile(waits, 0.5)), _known(percentile(waits, 0.9))


def _known(seconds: float | None) -> float | None:
    return None if seconds == inf else seconds


def _age(slot: ConcurrencySlot) -> tuple[float, int]:
    return (slot.acquired_at, slot.arrival)


def _order(waiter: Waiter) -> Order:
    return waiter.order


def _details(bucket: Bucket, now: float) -> dict[str, Any]:
    paused = 0.0 if bucket.paused_until is None else max(0.0, bucket.paused_until - now)
    waits = sorted(bucket.waits)
    return {
        "rejected": bucket.rejected,
        "wait_p50": percentile(waits, 0.5),
        "wait_p95": percentile(waits, 0.95),
        "wait_p99": percentile(waits, 0.99),
        "paused_for": paused,
        "breaker": None if bucket.breaker is None else bucket.breaker.state(now),
    }
