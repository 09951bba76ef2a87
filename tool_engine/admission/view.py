"""What is the controller doing, and why does a call wait?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from math import fsum, inf, log, sqrt
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tool_engine.admission.breaker import STATES
from tool_engine.admission.key import SHARED, Key
from tool_engine.admission.lines import Bucket, Lane
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.reasons import Reason, find_reason, name_of
from tool_engine.admission.slot import ACTIVE, BYPASS, PARKED, ZOMBIE, ConcurrencySlot, Order
from tool_engine.admission.waiting import Waiter
from tool_engine.interfaces import AdmissionUser
from tool_engine.interfaces.admission_view import (
    ConcurrencySnapshot,
    HeldSlot,
    WaitExplanation,
    WaitingCall,
)
from tool_engine.interfaces.metrics import ConcurrencyMetrics

if TYPE_CHECKING:
    from tool_engine.admission.forecast import Forecast

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


class ControllerView:
    """Reads a pool and its lines, and changes nothing in them.

    Each view is taken in one step, so that its figures fit together.

    Args:
        pool: The slots.
        clock: Seconds, monotonic.
    """

    __slots__ = ("_clock", "_layout", "_pool", "_queue", "user")

    def __init__(self, pool: SlotPool, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._queue = pool.queue
        self._layout = pool.layout
        self._clock = clock
        self.user: AdmissionUser | None = None
        """The engine, if there is one: knows which call runs, and which call follows which."""

    def describe(self) -> str:
        """Return what `repr` shows."""
        pool = self._pool
        return (
            f"{pool.used}/{pool.limit} in use, {pool.queue.waiting} wait, "
            f"{pool.zombies} zombies, {pool.gate.closed_because or 'open'}"
        )

    def metrics(self) -> ConcurrencyMetrics:
        """Return all sums."""
        return self._make_metrics(self.all_slots(), self._clock())

    def bucket_metrics(self) -> dict[str, dict[str, Any]]:
        """Return per bucket how many units are in use, of how many, and how many calls wait."""
        found = {}
        for name, bucket in self._layout.buckets.items():
            limit = bucket.limit if bucket.lease is None else bucket.lease.find_limit()
            found[name] = {
                "current": bucket.used,
                "limit": limit,
                "queue": bucket.waiting,
                "utilization": bucket.used / limit if limit else 0.0,
            }
        return found

    def snapshot(self) -> ConcurrencySnapshot:
        """Return who holds a slot, who waits, in which order and why."""
        now = self._clock()
        held = sorted(self.all_slots(), key=_slot_age)
        buckets = self.bucket_metrics()
        for name, bucket in self._layout.buckets.items():
            buckets[name] |= _describe_bucket(bucket, now)
        keys, tool_keys = self._busy_keys()
        return ConcurrencySnapshot(
            self._make_metrics(held, now),
            self._pool.gate.is_paused,
            buckets,
            keys,
            tool_keys,
            self._layout.breaker_states(now),
            [self._held_slot(slot, now) for slot in held],
            self._waiting_calls(now),
            self._pool.gate.closed_because == "draining",
        )

    def explain(self, call_id: str) -> WaitExplanation:
        """Explain why a call waits, or what else there is to say of it."""
        for waiter in self._queue.waiters():
            if name_of(waiter) == call_id:
                return self._explain_wait(waiter, call_id)
        for slot in self.all_slots():
            if name_of(slot) == call_id:
                return self._state_of(slot, call_id)
        lost = None if self.user is None else self.user.explain_lost(call_id)
        unknown = WaitExplanation(call_id, "unknown", reason=lost or "")
        return unknown if lost else self._shared_run(call_id) or unknown

    def _shared_run(self, call_id: str) -> WaitExplanation | None:
        """What there is to say of a call that waits for no slot, but for another call."""
        leader = None if self.user is None else self.user.leader_of(call_id)
        if leader is None:
            return None
        theirs = self.explain(leader)
        return msgspec.structs.replace(
            theirs, call_id=call_id, state="sharing", holders=[leader], reason=str(theirs)
        )

    def _make_metrics(self, slots: Iterable[ConcurrencySlot], now: float) -> ConcurrencyMetrics:
        pool, queue = self._pool, self._queue
        enqueued = queue.enqueued - pool.turned_away
        return ConcurrencyMetrics(
            current_concurrent=pool.used,
            queue_length=queue.waiting,
            total_acquired=pool.acquired,
            total_rejected=pool.rejected,
            total_timeout=pool.timed_out,
            avg_execution_time=pool.held_seconds / pool.released if pool.released else 0.0,
            active=pool.acquired - pool.released - pool.zombies,
            parked=pool.parked,
            zombies=pool.zombies,
            bypass_active=pool.bypass_active,
            total_released=pool.released,
            total_enqueued=enqueued,
            total_dequeued=enqueued - queue.waiting,
            total_granted=pool.granted,
            total_queue_timeout=pool.timed_out_in_queue,
            total_cancelled=pool.cancelled,
            total_rejected_in_queue=pool.rejected_in_queue,
            total_execution_time=pool.held_seconds,
            max_concurrent_observed=pool.most_used,
            max_queue_length_observed=pool.most_waiting,
            overdue=sum(self._is_overdue(slot, now) for slot in slots),
        )

    def all_slots(self) -> Iterator[ConcurrencySlot]:
        """Yield the slots that are held or lent, in no order."""
        yield from self.holders()
        for lane in self._layout.lanes.values():
            yield from lane.lent

    def holders(self) -> Iterator[ConcurrencySlot]:
        """Yield the slots that are held, that of the call which looks among them.

        A call that took a slot at once is on no list before its tool waits for something. No other
        code can look until then: so it is enough to ask which call is running at this moment.
        """
        yield from self._pool.held.listed()
        current = None if self.user is None else self.user.current_slot()
        if current is not None and not current.is_listed and current.state is ACTIVE:
            # A tool may look into the controller of an engine that is not its own.
            bucket = current.lane.bucket
            if self._layout.buckets.get(bucket.name) is bucket:
                yield current

    def _is_overdue(self, slot: ConcurrencySlot, now: float) -> bool:
        ttl = self._pool.config.slot_ttl
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
            if value is not None and not scope.startswith(SHARED):
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
        lanes = self._layout.lanes.values()
        is_plain = all(lane.above is lane.bucket and not lane.keys for lane in lanes)
        # Where nothing but buckets holds calls up, the order within each is that of the line.
        for waiter in (
            sorted(self._queue.waiters(), key=_order_of) if is_plain else self._list_line(now)
        ):
            request, bucket = waiter.request, waiter.lane.bucket.name
            positions[bucket] = position = positions.get(bucket, 0) + 1
            reason = self._find_reason(waiter, now, reasons)
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
                    reason.name_first(waiter),
                )
            )
        return rows

    def _find_reason(self, waiter: Waiter, now: float, known: dict[Lane, Reason]) -> Reason:
        """Return what holds a call up; asked once per lane, as its calls share it."""
        lane, is_paused = waiter.lane, self._pool.gate.is_paused
        if is_paused or lane not in known:
            known[lane] = find_reason(waiter, self._pool, now, is_paused=is_paused)
        return known[lane]

    def _state_of(self, slot: ConcurrencySlot, call_id: str) -> WaitExplanation:
        now = self._clock()
        text = f"{_RUNNING[slot.state]}; it began {now - slot.acquired_at:.2f} s ago"
        if self._is_overdue(slot, now):
            text += " and is overdue"
        if self.user is not None and (place := self.user.explain_place(call_id)):
            text += f"; {place}"
        state = "parked" if slot.state is PARKED else "running"
        return WaitExplanation(call_id, state, slot.bucket, reason=text)

    def _explain_wait(self, waiter: Waiter, call_id: str) -> WaitExplanation:
        now = self._clock()
        bucket: Bucket = waiter.lane.bucket
        before = self._list_line(now, waiter)
        ahead = [each for each in before[:-1] if each.lane.bucket is bucket]
        reason = self._find_reason(waiter, now, {})
        holders = sorted(self._holders_of(reason.full), key=_slot_age)
        return WaitExplanation(
            call_id,
            "waiting",
            bucket.name,
            len(ahead) + 1,
            [name_of(each) or _NAMELESS for each in ahead[:_MOST_NAMES]],
            [name_of(slot) or slot.slot_id for slot in holders[:_MOST_NAMES]],
            reason.text_for(waiter),
            now - waiter.enqueued_at,
            *self._estimate_wait(waiter, before, now),
            reason.name_first(waiter),
        )

    def _holders_of(self, full: Any) -> Iterable[ConcurrencySlot]:
        if full is None:
            return ()
        if isinstance(full, Key):
            return full.holders
        slots = (slot for slot in self.holders() if slot.state is not BYPASS)
        return (slot for slot in slots if full is self._queue.root or slot.lane.bucket is full)

    def _list_line(self, now: float, until: Waiter | None = None) -> list[Waiter]:
        """Those who wait, in the order in which they will go; the last one is `until`."""
        times = self._service_times(unknown=1.0)
        waiters = list(self._queue.waiters())
        forecast = self._run_forecast(waiters, now, times, None)
        forecast.run(until)
        line = [waiter for waiter, _ in forecast.served]
        if len(line) < len(waiters):
            # There is no telling when: what holds them up has no end that is known.
            served = set(line)
            line += sorted((each for each in waiters if each not in served), key=_order_of)
        return line if until is None else line[: line.index(until) + 1]

    def _run_forecast(
        self,
        waiters: Iterable[Waiter],
        now: float,
        times: dict[str, ServiceTimes],
        luck: Random | None,
    ) -> Forecast:
        pool = self._pool
        # By name: only who asks for a forecast needs one.
        made: type[Forecast] = import_module("tool_engine.admission.forecast").Forecast
        forecast = made(
            pool.config, now, pool.used, self._queue.round, lambda name: times[name].whole(luck)
        )
        for slot in sorted(self.holders(), key=_slot_age):
            if slot.state is not BYPASS:
                age = now - slot.acquired_at - slot.counted
                forecast.hold(slot, times[slot.bucket].rest(age, luck))
        for waiter in waiters:
            forecast.add_waiter(waiter)
        return forecast

    def _service_times(self, unknown: float) -> dict[str, ServiceTimes]:
        pool = self._pool
        mean = pool.held_seconds / pool.released if pool.released else None
        buckets = self._layout.buckets.items()
        return {name: ServiceTimes(bucket.served, mean, unknown) for name, bucket in buckets}

    def _estimate_wait(
        self, waiter: Waiter, line: list[Waiter], now: float
    ) -> tuple[float | None, float | None]:
        """Seconds until `waiter` gets its slot, with 50 % and with 90 %; `line` goes before it."""
        if self._pool.gate.is_paused and waiter.resumes is None:
            return None, None
        lease = waiter.lane.bucket.lease
        if lease is not None and not lease.foresees(waiter):
            return None, None
        times = self._service_times(unknown=inf)
        # Also those who keep room until they can go, though others go before them.
        line = sorted(
            {*line, *(each for each in self._queue.waiters() if each.order < waiter.order)},
            key=_order_of,
        )
        runs = min(_MOST_RUNS, _MOST_STEPS // (len(line) + sum(1 for _ in self.holders())))
        if runs < _FEWEST_RUNS or all(each.spread == 0 for each in times.values()):
            # Of very many calls, chance makes little of the sum.
            wait = self._run_forecast(self._queue.waiters(), now, times, None).run(waiter) - now
            error = times[waiter.lane.bucket.name].error_of_sum(len(line))
            return _finite_or_none(wait), _finite_or_none(wait * (1.0 + NINE_TENTHS * error))
        luck = Random(0)  # noqa: S311 - an estimate, no secret
        waits = [self._run_forecast(line, now, times, luck).run(waiter) - now for _ in range(runs)]
        return _finite_or_none(find_percentile(waits, 0.5)), _finite_or_none(
            find_percentile(waits, 0.9)
        )


def _finite_or_none(seconds: float | None) -> float | None:
    return None if seconds == inf else seconds


def _slot_age(slot: ConcurrencySlot) -> tuple[float, int]:
    return (slot.acquired_at, slot.arrival)


def _order_of(waiter: Waiter) -> Order:
    return waiter.order


def _state_of_breaker(bucket: Bucket, now: float) -> str | None:
    """Return the worse of its own and the one that it shares with other processes."""
    breakers = [bucket.breaker, None if bucket.lease is None else bucket.lease.breaker]
    states = [breaker.state(now) for breaker in breakers if breaker is not None]
    return max(states, key=STATES.index, default=None)


def _describe_bucket(bucket: Bucket, now: float) -> dict[str, Any]:
    paused = 0.0 if bucket.paused_until is None else max(0.0, bucket.paused_until - now)
    waits = sorted(bucket.waits)
    return {
        "leased": bucket.lease.units
        if bucket.lease is not None and bucket.lease.is_shared
        else None,
        "rejected": bucket.rejected,
        "wait_p50": find_percentile(waits, 0.5),
        "wait_p95": find_percentile(waits, 0.95),
        "wait_p99": find_percentile(waits, 0.99),
        "paused_for": paused,
        "breaker": _state_of_breaker(bucket, now),
        "adaptive": None if bucket.adaptive is None else bucket.adaptive.to_dict(),
        "overload": None if bucket.overload is None else bucket.overload.to_dict(now),
    }


NINE_TENTHS: Final = 1.2816
"""Standard deviations above the mean below which nine tenths of a normal distribution lie."""
_STEPS: Final = 100
_EXPONENTIAL: Final = [-log(1.0 - (step + 0.5) / _STEPS) for step in range(_STEPS)]
"""Times of calls of which only the mean is known, as shares of it: most are short, few long."""


def find_percentile(values: Iterable[float], share: float) -> float | None:
    """The value below which `share` of the values lie; None when there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


class ServiceTimes:
    """Seconds for which calls of one bucket hold their slots.

    Args:
        observed: Those of the last calls.
        mean: That of all calls, for when there are none of the last; None: nothing is known.
        unknown: What to take for them then.
    """

    __slots__ = ("_ordered", "mean", "spread")
    mean: float
    spread: float
    """The standard deviation."""

    def __init__(self, observed: Sequence[float], mean: float | None, unknown: float = inf) -> None:
        if not observed:
            observed = [unknown] if mean is None else [mean * share for share in _EXPONENTIAL]
        self._ordered = sorted(observed)
        first, last = self._ordered[0], self._ordered[-1]
        self.mean, self.spread = first, 0.0
        if first != last:
            self.mean = fsum(observed) / len(observed)
            squares = fsum((each - self.mean) ** 2 for each in observed)
            self.spread = sqrt(squares / len(observed))

    def whole(self, luck: Random | None) -> float:
        """How long a call runs: as long as some call did, or the mean without `luck`."""
        return self.mean if luck is None else luck.choice(self._ordered)

    def error_of_sum(self, count: int) -> float:
        """The standard deviation of what `count` calls take together, as a share of it.

        Part of it is that the mean is only known from those that were observed.
        """
        if self.spread == 0:
            return 0.0
        return self.spread / self.mean * sqrt(1 / count + 1 / len(self._ordered))

    def rest(self, age: float, luck: Random | None) -> float:
        """How much longer a call runs that has run for `age` seconds.

        As long as some call did that ran as long; without `luck`, as the median of those. One that
        has outrun all others is taken to go on for as long as it has outrun them.
        """
        ordered = self._ordered
        first, end = bisect_right(ordered, age), len(ordered)
        if first == end:
            return age - ordered[-1]
        return ordered[(first + end) // 2 if luck is None else luck.randrange(first, end)] - age
