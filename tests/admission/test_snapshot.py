"""Does one look at the controller show all of it, and only what is true at one moment?"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, context, controller_of
from tests.admission.virtual_time import VirtualTimeLoop
from tests.effort import share_of
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, PARKED, ConcurrencySlot
from tool_engine.config import ConcurrencyConfig, KeyLimits
from tool_engine.interfaces.admission_view import ConcurrencySnapshot
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate


def check_view(controller: ToolConcurrencyController) -> ConcurrencySnapshot:
    """C25, C26: rows, sums and counters of one snapshot agree with one another."""
    seen = controller.snapshot()
    m = seen.metrics
    assert m == controller.get_metrics()
    states = Counter(row.state for row in seen.held)
    assert states == +Counter(
        active=m.active, parked=m.parked, zombie=m.zombies, bypass=m.bypass_active
    )
    assert m.overdue == sum(row.is_overdue for row in seen.held)
    taking = [row for row in seen.held if row.state in ("active", "zombie")]
    assert sum(row.weight for row in taking) == m.current_concurrent
    assert len(seen.waiting) == m.queue_length
    for name, bucket in seen.buckets.items():
        assert bucket["current"] == sum(row.weight for row in taking if row.bucket == name)
        line = [row.position for row in seen.waiting if row.bucket == name]
        assert line == list(range(1, bucket["queue"] + 1))
    for key, row in seen.keys.items():
        assert row["current"] == sum(each.weight for each in taking if each.key == key)
        assert row["queue"] == sum(each.key == key for each in seen.waiting)
    ids = [row.slot_id for row in seen.held]
    assert len(set(ids)) == len(ids)
    assert all(row.held_for >= 0 and row.queue_wait >= 0 for row in seen.held)
    assert all(row.waited >= 0 and row.reason for row in seen.waiting)
    ages = [row.held_for for row in seen.held]
    assert ages == sorted(ages, reverse=True)
    json.dumps(seen.to_dict(), allow_nan=False)
    return seen


class Walk:
    """Does at random what can be done to a controller."""

    def __init__(self, **limits: Any) -> None:
        self.crew = Crew(queue_timeout=50.0, slot_ttl=20.0, **limits)
        self.controller = self.crew.controller
        self.count = 0
        self.nested: list[tuple[ConcurrencySlot, str]] = []

    async def step(self, kind: str, pick: int) -> None:
        await getattr(self, kind)(pick)
        await self.crew.turn()
        check_view(self.controller)

    def some(self, pick: int, *states: str) -> ConcurrencySlot | None:
        slots = [slot for slot in self.crew.slots.values() if slot.state in states]
        return slots[pick % len(slots)] if slots else None

    async def ask(self, pick: int, parent: ConcurrencySlot | None = None) -> None:
        self.count += 1
        bucket, key = "abc"[pick % 3], ["ann", "bob", None][pick % 5 % 3]
        request = AdmissionRequest.of(
            self.controller.config,
            bucket,
            priority=3 + pick % 4,
            key=key,
            weight=1 + (pick % 7 == 0),
            context=context("workflow_node" if pick % 11 == 0 else "direct"),
        )
        request.parent = parent
        if pick % 4 == 0 and parent is None:
            request.tool_name, request.tool_key, request.tool_key_limit = "tool", "same", 2
            request.line = f"{bucket} of tool"
            request.rate = ToolRate(2, 8.0)
            request = request.under(self.controller.config)
        self.crew.begin(str(self.count), request=request)

    async def ask_within(self, pick: int) -> None:
        slot = self.some(pick, ACTIVE, PARKED)
        if slot is not None:
            self.controller.park(slot)
            await self.ask(pick, slot)
            self.nested.append((slot, str(self.count)))

    async def return_from_within(self, pick: int) -> None:
        if self.nested:
            slot, name = self.nested.pop(pick % len(self.nested))
            inner = self.crew.slots.pop(name, None)
            self.crew.tasks[name].cancel()
            if inner is not None:
                self.controller.release(inner)
            self.crew.tasks[f"back {name}"] = asyncio.create_task(self.controller.unpark(slot))

    async def release(self, pick: int) -> None:
        names = list(self.crew.slots)
        if names:
            self.controller.release(self.crew.slots.pop(names[pick % len(names)]))

    async def outlive(self, pick: int) -> None:
        slot = self.some(pick, ACTIVE, PARKED)
        if slot is not None:
            self.controller.mark_overdue(slot)

    async def cancel(self, pick: int) -> None:
        names = list(self.crew.tasks)
        if names:
            self.crew.tasks[names[pick % len(names)]].cancel()

    async def renew(self, pick: int) -> None:
        if (slot := self.some(pick, ACTIVE)) is not None:
            self.controller.renew(slot)

    async def wait(self, pick: int) -> None:
        await asyncio.sleep(pick % 13)

    async def pause(self, pick: int) -> None:
        if pick % 2:
            self.controller.pause()
        else:
            self.controller.resume()

    async def pause_bucket(self, pick: int) -> None:
        self.controller.pause_bucket("abc"[pick % 3], pick % 9)

    async def configure(self, pick: int) -> None:
        strategies = ("fifo", "priority", "fair")
        # What was let in under the larger limit stays: the crew only knows limits that grow.
        config = ConcurrencyConfig(
            max_concurrent=max(4, self.controller.config.max_concurrent + pick % 2),
            strategy=strategies[pick % 3],
            bucket_limits={"a": 2 + pick % 2} if self.controller.config.bucket_limits else {},
            key_limits=KeyLimits(limit=2) if pick % 2 else None,
            queue_timeout=50.0,
            slot_ttl=20.0,
        )
        if config.bucket_limits.get("a", 9) >= self.controller.config.bucket_limits.get("a", 9):
            self.controller.configure(config)


STEPS = [
    *["ask"] * 6,
    *["release"] * 3,
    *["ask_within", "return_from_within", "outlive", "cancel", "renew", "wait"],
    *["pause", "pause_bucket", "configure"],
]


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(coroutine)


@settings(max_examples=share_of(150))
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 10_000)), max_size=40),
    strategy=st.sampled_from(["fifo", "priority", "fair"]),
    bucket_limits=st.sampled_from([{}, {"a": 2}]),
    key_limits=st.sampled_from([None, {"limit": 2, "overrides": {"bob": 3}}]),
)
@example([("ask", 1), ("outlive", 0), ("wait", 12), ("wait", 12), ("ask", 11)], "fifo", {}, None)
def test_sums_fit_at_every_moment(
    steps: list[tuple[str, int]],
    strategy: str,
    bucket_limits: dict[str, int],
    key_limits: dict[str, Any] | None,
) -> None:
    """C25, C26: whatever happens, in whatever order, rows, sums and counters agree."""

    async def walk() -> None:
        here = Walk(
            max_concurrent=4,
            strategy=strategy,
            bucket_limits=bucket_limits,
            key_limits=key_limits,
        )
        for kind, pick in steps:
            await here.step(kind, pick)
        await here.crew.leave()
        left = here.controller.snapshot()
        assert [*left.held, *left.waiting] == []

    run(walk())


async def test_it_shows_who_holds_a_slot(crew_of: MakeCrew) -> None:
    """C25: each holder with its bucket, key, weight, priority, age, wait, and whether overdue."""
    crew = crew_of(max_concurrent=3, slot_ttl=5.0)
    who = context(call_id="call_1", conversation_id="talk")
    await crew.call("ann", bucket="http", context=who, priority=2, weight=2)
    await asyncio.sleep(4.0)
    await crew.call("bob", bucket="ai")
    await asyncio.sleep(2.0)
    first, second = check_view(crew.controller).held
    assert (first.call_id, first.bucket, first.key) == ("call_1", "http", "talk")
    assert (first.weight, first.priority, first.state) == (2, 2, "active")
    assert (first.held_for, first.queue_wait, first.is_overdue) == (6.0, 0.0, True)
    assert (second.call_id, second.held_for, second.is_overdue) == (None, 2.0, False)
    crew.controller.renew(crew.slots["ann"])
    assert not check_view(crew.controller).held[0].is_overdue


async def test_a_slot_that_was_lent_out_is_not_overdue(crew_of: MakeCrew) -> None:
    """C11: `slot_ttl` counts from when a slot was taken, and from when it was taken again."""
    crew = crew_of(max_concurrent=1, slot_ttl=5.0)
    await crew.call("ann")
    crew.controller.park(crew.slots["ann"])
    await asyncio.sleep(9.0)
    assert not check_view(crew.controller).held[0].is_overdue
    await crew.controller.unpark(crew.slots["ann"])
    assert not check_view(crew.controller).held[0].is_overdue
    await asyncio.sleep(6.0)
    assert check_view(crew.controller).held[0].is_overdue
    assert crew.controller.get_metrics().overdue == 1


async def test_it_shows_who_waits(crew_of: MakeCrew) -> None:
    """C25: each waiter with its position in its bucket, its age and what holds it up."""
    crew = crew_of(max_concurrent=2, bucket_limits={"http": 1})
    await crew.call("a", "b", bucket="http")
    await asyncio.sleep(3.0)
    await crew.call("c", bucket="http", context=context(call_id="c"), priority=1)
    await crew.call("d", "e")
    rows = check_view(crew.controller).waiting
    assert [(row.bucket, row.position, row.waited) for row in rows] == [
        ("http", 1, 3.0),
        ("http", 2, 0.0),
        ("__default__", 1, 0.0),
    ]
    assert rows[0].reason == "bucket 'http' is full (1 of 1)"
    assert rows[1].reason == (
        "another call is the first of its line, and bucket 'http' is full (1 of 1)"
    )
    assert (rows[1].call_id, rows[1].priority) == ("c", 1)
    assert rows[2].reason == "all slots are in use (2 of 2)"


async def test_a_bucket_shows_what_became_of_its_calls(crew_of: MakeCrew) -> None:
    """C25: per bucket the limit, what is in use, waits, refusals, a pause and its breaker."""
    crew = crew_of(
        max_concurrent=9,
        bucket_limits={"http": 2},
        bucket_queue_sizes={"http": 2},
        breakers={"http": BreakerPolicy(failures=1, reset_after=60.0)},
    )
    await crew.call("a", "b", "c", "d", "e", bucket="http")
    await asyncio.sleep(4.0)
    await crew.end("a", "b")
    crew.controller.pause_bucket("http", 30.0)
    await asyncio.sleep(10.0)
    assert check_view(crew.controller).buckets["http"] == {
        "current": 2,
        "limit": 2,
        "queue": 0,
        "utilization": 1.0,
        "rejected": 1,
        "wait_p50": 4.0,
        "wait_p95": 4.0,
        "wait_p99": 4.0,
        "leased": None,
        "paused_for": 20.0,
        "breaker": "closed",
        "adaptive": None,
        "overload": None,
    }
    crew.controller.release(crew.slots["c"], outcome=False)
    crew.controller.pause_bucket("http", 0)
    seen = check_view(crew.controller).buckets["http"]
    assert (seen["paused_for"], seen["breaker"]) == (0.0, "open")


async def test_a_bucket_where_nobody_waited_has_no_waits() -> None:
    """C25: None, not 0, where there is nothing to say."""
    controller = controller_of(bucket_limits={"http": 2})
    seen = controller.snapshot()
    assert seen.buckets["http"]["wait_p99"] is None
    assert seen.buckets["http"]["breaker"] is None
    assert (seen.held, seen.waiting, seen.keys, seen.tool_breakers) == ([], [], {}, {})
    assert not seen.is_paused
    controller.pause()
    assert controller.snapshot().is_paused


async def test_keys_that_are_busy_are_shown(crew_of: MakeCrew) -> None:
    """C14: per key what it holds and wants; those of tools apart; idle ones are forgotten."""
    crew = crew_of(max_concurrent=9, key_limits={"limit": 1, "overrides": {"vip": 2}})
    await crew.call("a", "b", key="talk")
    await crew.call("c", key="vip")
    own = AdmissionRequest(tool_name="fetch", tool_key="0f", tool_key_limit=1, lane="own")
    await crew.call("d", request=own)
    seen = check_view(crew.controller)
    assert seen.keys == {
        "talk": {"current": 1, "limit": 1, "queue": 1},
        "vip": {"current": 1, "limit": 2, "queue": 0},
    }
    assert seen.tool_keys == {"fetch": {"0f": {"current": 1, "limit": 1, "queue": 0}}}
    await crew.end("a", "b", "c", "d")
    seen = check_view(crew.controller)
    assert (seen.keys, seen.tool_keys) == ({}, {})


async def test_the_breakers_of_tools_are_shown(crew_of: MakeCrew) -> None:
    """C20: each tool with a breaker, under its name."""
    crew = crew_of()
    policy = BreakerPolicy(failures=1, reset_after=10.0)
    request = AdmissionRequest(tool_name="pay", breaker=policy, line="pay", lane="pay")
    await crew.call("a", request=request)
    assert check_view(crew.controller).tool_breakers == {"pay": "closed"}
    crew.controller.release(crew.slots.pop("a"), outcome=False)
    assert check_view(crew.controller).tool_breakers == {"pay": "open"}
    await asyncio.sleep(10.0)
    assert check_view(crew.controller).tool_breakers == {"pay": "half_open"}


async def test_a_call_and_those_that_it_makes_have_slots_of_their_own(crew_of: MakeCrew) -> None:
    """C23: a nested call inherits its parent's place, but not the name of its slot."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    await asyncio.sleep(1.0)
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.call("inner", request=AdmissionRequest(parent=outer))
    seen = check_view(crew.controller)
    assert [row.state for row in seen.held] == ["parked", "active"]
    assert seen.held[0].slot_id != seen.held[1].slot_id == crew.slots["inner"].slot_id
    await crew.end("inner")
    await crew.controller.unpark(outer)


async def test_a_parked_call_that_wants_its_slot_back_is_shown_twice(crew_of: MakeCrew) -> None:
    """C23, C25: as parked, and as the first of those who wait."""
    crew = crew_of(max_concurrent=1)
    await crew.call("ann", context=context(call_id="ann"))
    crew.controller.park(crew.slots["ann"])
    await asyncio.sleep(1.0)
    await crew.call("bob", "cat")
    task = asyncio.create_task(crew.controller.unpark(crew.slots["ann"]))
    await crew.turn()
    seen = check_view(crew.controller)
    assert [row.state for row in seen.held] == ["parked", "active"]
    assert [row.call_id for row in seen.waiting] == ["ann", None]
    told = crew.controller.explain("ann")
    assert (told.state, told.position, told.ahead) == ("waiting", 1, [])
    await crew.end("bob")
    await task


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
async def test_ten_thousand_waiters_are_no_trouble(strategy: str, crew_of: MakeCrew) -> None:
    """C25: the work grows with the number of calls, not with its square."""
    crew = crew_of(max_concurrent=3, queue_size=10_000, strategy=strategy, bucket_limits={"a": 1})
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return 0.0

    for number in range(10_000):
        crew.begin(str(number), "ab"[number % 2], key=f"key {number % 100}")
    await asyncio.sleep(0)
    crew.controller._clock = clock
    seen = crew.controller.snapshot()
    assert len(seen.waiting) == 9997
    assert looks < 20
    asked = looks
    crew.controller.explain("nobody")
    assert looks == asked
