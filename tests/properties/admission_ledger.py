"""Does a controller keep its promises, checked at every single step and cheaply?

The ledger keeps its own books of what is given, taken back and waited for, from the few methods
through which all of that passes; each step costs it the same, however many wait.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Any

import pytest

from tests.properties.admission_calls import Breaker
from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController, controller
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, PARKED, RELEASED, ZOMBIE
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import CollisionPolicy, ToolRate

__all__ = ["Ledger", "WatchedController"]

Name = tuple[Any, ...]
Place = tuple[float, int, int, int]
MINDS_LENT = (
    CollisionPolicy.REJECT,
    CollisionPolicy.CANCEL_NEWEST,
    CollisionPolicy.CANCEL_IN_PROGRESS,
)
ALL: Name = ("all",)
ROUNDING = 1e-6
"""Seconds by which sums and differences of times may disagree, and much more."""


class Ledger:
    """What the controller has given and to whom; asserts what must be true of it."""

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        self.config = config
        self.clock = clock
        self.held: dict[ConcurrencySlot, list[Name]] = {}
        self.lent: dict[ConcurrencySlot, None] = {}
        self.used: Counter[Name] = Counter()
        self.starts: dict[Name, deque[float]] = {}
        self.breakers: dict[Name, Breaker] = {}
        self.probes: dict[ConcurrencySlot, list[tuple[Breaker, int]]] = {}
        self.roots: dict[ConcurrencySlot, tuple[float, int, int]] = {}
        """When the first call that led to the slot asked, its priority and its number."""
        self.waiting: dict[Waiter, tuple[tuple[float, int, int], int]] = {}
        self.lanes: dict[Name, list[tuple[Place, Waiter]]] = {}
        self.paused_until: dict[str, float] = {}
        self.number = 0
        self.grants = 0
        self.configure(config)

    # Under which names is a call counted, and how much may be used of each?

    def names(self, request: AdmissionRequest) -> list[Name]:
        names: list[Name] = [ALL, ("bucket", request.bucket)]
        if self.config.has_keys and request.key is not None:
            names.append(("key", request.key))
        if request.tool_key is not None:
            names.append(("tool key", request.tool_name, request.tool_key))
        return names

    def limit(self, name: Name, request: AdmissionRequest) -> float:
        config = self.config
        if name == ALL:
            return config.max_concurrent
        if name[0] == "tool key":
            return request.tool_key_limit or math.inf
        if name[0] == "bucket":
            return config.bucket_limits.get(name[1], math.inf)
        limits = config.key_limits
        limit = None if limits is None else limits.limit_of(name[1])
        return math.inf if limit is None else limit

    def rates(self, request: AdmissionRequest) -> Iterator[tuple[Name, ToolRate]]:
        if request.rate is not None:
            yield ("line", request.line), request.rate
        shared = self.config.bucket_rates.get(request.bucket)
        if shared is not None:
            yield ("bucket", request.bucket), shared

    def breakers_of(self, request: AdmissionRequest) -> list[Breaker]:
        found = []
        if request.breaker is not None:
            own = ("tool", request.tool_name)
            found.append(self.breakers.setdefault(own, Breaker(request.breaker)))
        if request.bucket in self.config.breakers:
            found.append(self.breakers["bucket", request.bucket])
        return found

    def configure(self, config: ConcurrencyConfig) -> None:
        """The rules are others from here on, for those who hold and those who wait too."""
        for bucket, policy in config.breakers.items():
            self.breakers.setdefault(("bucket", bucket), Breaker(policy)).policy = policy
        self.config, self.used, self.lanes = config, Counter(), {}
        for slot in self.held:
            names = self.held[slot] = self.names(slot.request)
            self.used.update(dict.fromkeys(names, slot.weight))
        for waiter in self.waiting:
            self._line_up(waiter)

    # What happens to slots?

    def take(self, slot: ConcurrencySlot) -> None:
        """C2, C14, C17, C18, C20: a slot was given, and everything allowed it."""
        if slot in self.held:
            return
        request, weight = slot.request, slot.weight
        goes_on = slot in self.lent
        if slot not in self.roots:
            self.roots[slot] = self._root(request)
        if slot.is_bypass:
            return
        names = self.held[slot] = self.names(request)
        for name in names:
            used = self.used[name] = self.used[name] + weight
            limit = self.limit(name, request)
            is_alone = goes_on and used == weight
            assert used <= limit or is_alone, f"{used} units in use of {name}, limit {limit}"
        if goes_on:
            del self.lent[slot]
        else:
            self._start(slot)

    def _start(self, slot: ConcurrencySlot) -> None:
        now, request = self.clock(), slot.request
        for name, rate in self.rates(request):
            starts = self.starts.setdefault(name, deque())
            while starts and now - starts[0] >= rate.period + ROUNDING:
                starts.popleft()
            starts.append(now)
            recent = sum(now - start < rate.period - ROUNDING for start in starts)
            assert recent <= rate.calls, f"{recent} starts, {name} allows {rate}"
        assert now >= self.paused_until.get(request.bucket, 0.0) - ROUNDING, (
            f"{request.bucket} is paused"
        )
        probes = self.probes[slot] = []
        for breaker in self.breakers_of(request):
            assert not breaker.is_open(now), f"a call started behind {breaker}"
            probes.append((breaker, breaker.start()))

    def give(self, slot: ConcurrencySlot) -> None:
        """A slot was given back, or lent out."""
        names = self.held.pop(slot, None)
        for name in names or ():
            self.used[name] -= slot.weight
        if slot.state is PARKED:
            self.lent[slot] = None

    def end(self, slot: ConcurrencySlot, outcome: bool | None) -> None:
        """The call of a slot has ended, as far as breakers care."""
        for breaker, epoch in self.probes.pop(slot, ()):
            breaker.end(epoch, outcome, self.clock())

    # What happens to those who wait?

    def join(self, waiter: Waiter) -> None:
        if waiter.resumes is not None:
            # Those who go on come before all others; among them, whose first call came first.
            self.number += 1
            root = (-math.inf, 0, self.roots[waiter.resumes][2])
        else:
            root = self._root(waiter.request)
        self.waiting[waiter] = (root, self.number)
        self._line_up(waiter)

    def leave(self, waiter: Waiter) -> None:
        del self.waiting[waiter]

    def grant(self, waiter: Waiter) -> None:
        """C3, C4, C5: whoever is given a slot is the first in its line."""
        self.grants += 1
        first = self._first(self.lanes[self._lane(waiter.request)])
        assert first is waiter, f"{self._shown(waiter)} overtakes {first and self._shown(first)}"

    def _root(self, request: AdmissionRequest) -> tuple[float, int, int]:
        self.number += 1
        if request.parent is not None:
            return self.roots[request.parent]
        return (self.clock(), request.priority, self.number)

    def _lane(self, request: AdmissionRequest) -> Name:
        key = request.key if self.config.has_keys else None
        return (
            request.line,
            key,
            request.tool_name if request.tool_key else None,
            request.tool_key,
        )

    def _line_up(self, waiter: Waiter) -> None:
        (asked, priority, number), own = self.waiting[waiter]
        is_aging = self.config.strategy == "priority"
        key = asked + self.config.aging_interval * priority if is_aging else min(asked, 0.0)
        nested = own if waiter.request.parent is not None or waiter.resumes is not None else 0
        lane = self.lanes.setdefault(self._lane(waiter.request), [])
        heappush(lane, ((key, number, nested, own), waiter))

    def _shown(self, waiter: Waiter) -> str:
        return f"<{waiter.request} at {waiter.order}, in the ledger {self.waiting[waiter]}>"

    def _first(self, lane: list[tuple[Place, Waiter]]) -> Waiter | None:
        while lane and lane[0][1] not in self.waiting:
            heappop(lane)
        return lane[0][1] if lane else None

    def stop(self) -> None:
        """Looks on no more: a promise was broken, and the rest would only say so again."""
        for name in ("take", "give", "end", "join", "leave", "grant"):
            setattr(self, name, lambda *_: None)

    # Does anybody wait for nothing?

    def check_waiting(self, *, is_paused: bool) -> None:
        """C4, C16: every line has something before it, or room is kept for a heavier call."""
        firsts = [first for lane in self.lanes.values() if (first := self._first(lane))]
        for first in firsts:
            if is_paused and first.resumes is None:
                continue
            blockers = {
                name
                for other in firsts
                for name in self._too_full(other)
                if other.weight > first.weight
            }
            kept = blockers.intersection([*self.names(first.request), ALL])
            assert kept or self._too_full(first) or self._is_delayed(first), (
                f"{first.request} waits for nothing; in use: {self.used}"
            )

    def _too_full(self, waiter: Waiter) -> list[Name]:
        request = waiter.request
        full = []
        for name in self.names(request):
            used = self.used[name]
            if name[0] == "tool key" and waiter.resumes is None:
                used += self._lent_by_others(name, request)
            if used + waiter.weight > self.limit(name, request) and (used or not waiter.resumes):
                full.append(name)
        return full

    def _lent_by_others(self, name: Name, request: AdmissionRequest) -> int:
        if request.collision not in MINDS_LENT:
            return 0
        above, parent = set(), request.parent
        while parent is not None:
            above.add(parent)
            parent = parent.request.parent
        lent = [slot for slot in self.lent if slot not in above]
        return sum(slot.weight for slot in lent if name in self.names(slot.request))

    def _is_delayed(self, waiter: Waiter) -> bool:
        """Up to and with the moment at which the delay ends: its timer may be about to ring."""
        if waiter.resumes is not None:
            return False
        now, request = self.clock(), waiter.request
        for name, rate in self.rates(request):
            starts = self.starts.get(name, ())
            if sum(now - start <= rate.period + ROUNDING for start in starts) >= rate.calls:
                return True
        return now <= self.paused_until.get(request.bucket, -1.0) + ROUNDING


class WatchedPool(SlotPool):
    """The real pool; whatever it gives, takes back and has wait is entered in a ledger."""

    __slots__ = ("ledger",)

    def __init__(
        self, ledger: Ledger, config: ConcurrencyConfig, clock: Callable[[], float]
    ) -> None:
        self.ledger = ledger
        super().__init__(config, clock)

    def take(self, slot: ConcurrencySlot) -> None:
        super().take(slot)
        self.ledger.take(slot)

    def put_back(self, slot: ConcurrencySlot, now: float) -> None:
        self.ledger.give(slot)
        super().put_back(slot, now)

    def join(self, waiter: Waiter) -> None:
        self.ledger.join(waiter)
        super().join(waiter)

    def leave(self, waiter: Waiter) -> None:
        self.ledger.leave(waiter)
        super().leave(waiter)

    def grant(self, waiter: Waiter, now: float) -> None:
        self.ledger.grant(waiter)
        entry = self.ledger.waiting.get(waiter)
        super().grant(waiter, now)
        if entry is not None and waiter.resumes is None and waiter.slot is not None:
            # What its call calls stands where the waiter stood.
            self.ledger.roots[waiter.slot] = entry[0]

    def pass_on(self, waiter: Waiter, now: float) -> None:
        self.ledger.grant(waiter)
        root = self.ledger.waiting[waiter][0]
        self.ledger.leave(waiter)
        super().pass_on(waiter, now)
        assert waiter.slot is not None
        self.ledger.take(waiter.slot)
        self.ledger.roots[waiter.slot] = root


class WatchedController(ToolConcurrencyController):
    """The real controller; whatever it gives and takes is entered in a ledger."""

    __slots__ = ("ledger",)

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        self.ledger = Ledger(config, clock)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(controller, "SlotPool", partial(WatchedPool, self.ledger))
            super().__init__(config, clock=clock)

    def admit_nowait(
        self, request: AdmissionRequest, now: float | None = None, call_id: str | None = None
    ) -> ConcurrencySlot | None:
        slot = super().admit_nowait(request, now, call_id)
        if slot is not None:
            self.ledger.take(slot)
        return slot

    def release(
        self, slot: ConcurrencySlot, now: float | None = None, *, outcome: bool | None = True
    ) -> None:
        if slot.state is not RELEASED:
            self.ledger.end(slot, outcome)
            if slot.state in (ACTIVE, ZOMBIE):
                self.ledger.give(slot)
            self.ledger.lent.pop(slot, None)
        super().release(slot, now, outcome=outcome)

    def mark_overdue(self, slot: ConcurrencySlot, outcome: bool | None = False) -> None:
        if slot.state is not RELEASED and not slot.is_overdue:
            self.ledger.end(slot, outcome)
        super().mark_overdue(slot, outcome)

    def configure(self, config: ConcurrencyConfig) -> None:
        self.ledger.configure(config)
        super().configure(config)

    def pause_bucket(self, name: str, seconds: float) -> None:
        until = self._clock() + min(seconds, self.config.max_bucket_pause)
        paused = self.ledger.paused_until
        paused[name] = max(until, paused.get(name, 0.0)) if seconds > 0 else 0.0
        super().pause_bucket(name, seconds)

    def check(self) -> None:
        """C26: the sums, by the books of both."""
        ledger = self.ledger
        held = len(ledger.held)
        pool, queue = self._pool, self._queue
        assert pool.acquired == pool.released + held, (pool.acquired, pool.released, held)
        assert pool.used == ledger.used[ALL], (pool.used, ledger.used)
        assert queue.waiting == len(ledger.waiting), (queue.waiting, len(ledger.waiting))
        for (scope, name), breaker in ledger.breakers.items():
            layout = self._layout
            counts = layout.buckets[name] if scope == "bucket" else None
            own = counts.counts if counts else layout._tool_counts[name, None]
            assert own._breaker is not None
            assert own._breaker.failures == breaker.failures, (name, own._breaker, breaker)
        gone = pool.granted + pool.timed_out_in_queue + pool.cancelled + pool.rejected_in_queue
        assert queue.enqueued - pool.turned_away == gone + queue.waiting, self.get_metrics()

    def check_idle(self) -> None:
        """C14: nothing is held, nobody waits, and what is idle costs nothing."""
        m = self.get_metrics()
        left = (m.current_concurrent, m.queue_length, m.active, m.parked, m.zombies)
        assert (*left, m.bypass_active) == (0, 0, 0, 0, 0, 0), m
        assert not self._layout.keys, self._layout.keys
        assert not [lane for lane in self._layout.lanes.values() if lane.keys or lane.waiting]
        assert not self._pool.held
        assert not self.ledger.held
        assert not self.ledger.lent
