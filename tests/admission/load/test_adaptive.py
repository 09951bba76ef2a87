"""Does a limit that finds itself stay within its bounds, learn what it should, and nothing else?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.admission.crew import check
from tests.effort import share_of
from tool_engine import (
    AdaptivePolicy,
    ConcurrencyConfig,
    ConfigurationError,
    OverloadPolicy,
    SlotRejectedError,
    ToolConcurrencyController,
)
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.load.adaptive import _show_ms
from tool_engine.errors import AdmissionError
from tool_engine.testing import run

KINDS = pytest.mark.parametrize("kind", ["aimd", "gradient2"])


def controller_of(first: int | None = None, /, **policy: Any) -> ToolConcurrencyController:
    limits = {} if first is None else {"http": first}
    config = ConcurrencyConfig(
        max_concurrent=100,
        queue_size=1000,
        queue_timeout=None,
        bucket_limits=limits,
        adaptive={"http": AdaptivePolicy(**policy)},
    )
    return ToolConcurrencyController(config, clock=asyncio.get_running_loop().time)


def state_of(controller: ToolConcurrencyController) -> dict[str, Any]:
    return controller.snapshot().buckets["http"]


async def load(
    controller: ToolConcurrencyController,
    calls: int,
    seconds: Callable[[int], float] = lambda used: 0.1,
    *,
    callers: int = 60,
    outcome: bool | None = True,
) -> None:
    """Make so many calls, from so many callers; each takes what `seconds` says of those in use."""
    left = iter(range(calls))

    async def call() -> None:
        for _ in left:
            slot = await controller.acquire("http")
            await asyncio.sleep(seconds(state_of(controller)["current"]))
            controller.release(slot, outcome=outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(call())


@KINDS
def test_it_grows_to_its_bound_while_that_costs_nothing(kind: str) -> None:
    """C19: a service that gets no slower is asked for as much as the bounds allow, and no more."""

    async def play() -> None:
        controller = controller_of(kind=kind, min=2, max=24)
        assert state_of(controller)["limit"] == 2
        await load(controller, 1500)
        seen = state_of(controller)
        assert (seen["limit"], seen["adaptive"]["refusals"]) == (24, 0)
        assert seen["adaptive"]["reason"]
        check(controller)

    run(play())


@KINDS
def test_it_shrinks_where_calls_get_slower(kind: str) -> None:
    """C19: beyond what the service can do side by side, more calls are only slower ones."""

    async def play() -> None:
        controller = controller_of(kind=kind, min=1, max=100)
        await load(controller, 3000, lambda used: 0.1 * max(1.0, used / 10) ** 1.5)
        assert 7 <= state_of(controller)["limit"] <= 18
        assert state_of(controller)["adaptive"]["baseline"] == pytest.approx(0.1, rel=0.3)

    run(play())


@KINDS
def test_refusals_of_one_burst_shrink_it_once(kind: str) -> None:
    """C19: those that were in flight together say one thing, not one each."""

    async def play() -> None:
        controller = controller_of(20, kind=kind, min=1, max=100)
        slots = [await controller.acquire("http") for _ in range(20)]
        for slot in slots:
            controller.note_overload(slot)
            controller.note_overload(slot)
            controller.release(slot, outcome=False)
        seen = state_of(controller)
        assert (seen["limit"], seen["adaptive"]["refusals"]) == (10, 1)

    run(play())


@KINDS
@pytest.mark.parametrize("outcome", [None, False])
def test_calls_that_were_cancelled_or_failed_teach_nothing(kind: str, outcome: bool | None) -> None:
    """C19: how long they took says nothing of the service."""

    async def play() -> None:
        controller = controller_of(4, kind=kind, min=1, max=100)
        await load(controller, 400, lambda used: 0.001 * used, outcome=outcome)
        seen = state_of(controller)
        assert (seen["limit"], seen["adaptive"]["baseline"]) == (4, None)

    run(play())


@KINDS
def test_it_does_not_grow_while_it_is_not_used(kind: str) -> None:
    """C19: two callers show nothing about thirty."""

    async def play() -> None:
        controller = controller_of(8, kind=kind, min=1, max=100)
        await load(controller, 500, callers=2)
        assert state_of(controller)["limit"] == 8

    run(play())


@KINDS
def test_it_can_be_frozen_and_freed_while_calls_run(kind: str) -> None:
    """C19: `configure` stops the learning at once, and lets it go on from there."""

    async def play() -> None:
        controller = controller_of(8, kind=kind, min=1, max=50)
        slots = [await controller.acquire("http") for _ in range(8)]
        policy = controller.config.adaptive["http"]
        controller.configure(
            replace(controller.config, adaptive={"http": replace(policy, freeze=True)})
        )
        for slot in slots:
            controller.note_overload(slot)
            controller.release(slot)
        await load(controller, 500)
        assert (state_of(controller)["limit"], state_of(controller)["adaptive"]["is_frozen"]) == (
            8,
            True,
        )
        controller.configure(replace(controller.config, adaptive={"http": policy}))
        await load(controller, 500)
        assert state_of(controller)["limit"] > 8

    run(play())


def test_a_slower_service_is_not_taken_for_a_busy_one() -> None:
    """C19: where fewer calls are as slow, their number is not the reason, and the limit returns."""

    async def play() -> None:
        controller = controller_of(20, min=1, max=20)
        await load(controller, 400, callers=20)
        await load(controller, 2000, lambda used: 0.3, callers=20)
        assert state_of(controller)["limit"] >= 15

    run(play())


@KINDS
def test_a_limit_at_its_least_follows_a_service_that_has_become_slower(kind: str) -> None:
    """C19: fewer may not run, and so the answers of now are all that there is to go by."""

    async def play() -> None:
        controller = controller_of(kind=kind, min=2, max=50)
        await load(controller, 400)
        while state_of(controller)["limit"] > 2:
            slot = await controller.acquire("http")
            controller.note_overload(slot)
            controller.release(slot, outcome=False)
        await load(controller, 2000, lambda used: 0.25)
        assert state_of(controller)["limit"] >= 20

    run(play())


@KINDS
def test_answers_without_any_time_are_no_measure_for_others(kind: str) -> None:
    """C19: as from a cache; everything would be slow beside them, or nothing."""

    async def play() -> None:
        controller = controller_of(kind=kind, min=1, max=24)
        await load(controller, 400, lambda used: 0.0)
        await load(controller, 4000, lambda used: 0.1 * max(1.0, used / 10) ** 1.5)
        assert 7 <= state_of(controller)["limit"] <= 18

    run(play())


def test_time_of_nested_calls_is_not_the_services() -> None:
    """C19: a call that lent its slot teaches nothing."""

    async def play() -> None:
        controller = controller_of(2, min=1, max=20)
        for _ in range(50):
            slot = await controller.acquire("http")
            controller.park(slot)
            await asyncio.sleep(1.0)
            await controller.unpark(slot)
            controller.release(slot)
        assert state_of(controller)["adaptive"]["baseline"] is None

    run(play())


def test_a_heavy_call_runs_under_a_limit_that_has_sunk_below_it() -> None:
    """C19: it runs alone, as long as the bounds allow its weight; beyond them it is refused."""

    async def play() -> None:
        controller = controller_of(2, min=1, max=8)
        light = await controller.acquire("http")
        heavy = asyncio.create_task(controller.acquire("http", weight=5))
        await asyncio.sleep(0)
        assert not heavy.done()
        controller.release(light)
        controller.release(await heavy)
        with pytest.raises(AdmissionError, match=r"can never run: the limit of bucket 'http' is 8"):
            await controller.acquire("http", weight=9)
        check(controller, has_shrunk=True)

    run(play())


def test_a_heavy_call_that_does_not_wait_runs_alone_likewise() -> None:
    """C1, C19: what `acquire` gives at once `try_acquire` gives, and nothing else."""

    async def play() -> None:
        controller = controller_of(2, min=1, max=8)
        heavy = controller.try_acquire("http", weight=5)
        assert heavy is not None
        assert controller.try_acquire("http") is None
        controller.release(heavy)
        light = await controller.acquire("http")
        assert controller.try_acquire("http", weight=5) is None
        controller.release(light)
        assert controller.try_acquire("http", weight=9) is None
        controller.pause_bucket("http", 1.0)
        assert controller.try_acquire("http", weight=5) is None
        await asyncio.sleep(1.0)
        heavy = controller.try_acquire("http", weight=5)
        assert heavy is not None
        controller.release(heavy)
        check(controller, has_shrunk=True)

    run(play())


def test_explain_says_what_the_limit_has_learned() -> None:
    """C19: who waits is told that the limit found itself, and why it is where it is."""

    async def play() -> None:
        controller = controller_of(2, min=1, max=8)
        slots = [await controller.acquire("http") for _ in range(2)]
        controller.note_overload(slots[0])
        request = asyncio.create_task(controller.acquire("http"))
        await asyncio.sleep(0)
        reason = controller.snapshot().waiting[0].reason
        assert "(adaptive, 1 to 8: a call was refused or ran out of time)" in reason
        for slot in slots:
            controller.release(slot)
        controller.release(await request)

    run(play())


def test_changes_are_reported_at_most_once_a_second() -> None:
    """C19: a storm of refusals is no storm of events."""

    async def play() -> None:
        controller = controller_of(64, min=1, max=64)
        told: list[tuple[float, dict[str, Any]]] = []
        now = asyncio.get_running_loop().time

        class User:
            def current_slot(self) -> Any:
                return None

            def leader_of(self, call_id: str) -> str | None:
                return None

            def explain_place(self, call_id: str) -> str:
                return ""

            def explain_lost(self, call_id: str) -> str | None:
                return None

            def forget_plans(self) -> None:
                pass

            def end_lost(self, slots: Any) -> None:
                pass

            def note_limit(self, facts: dict[str, Any]) -> None:
                told.append((now(), facts))

        controller.attach(User())
        for _ in range(40):
            slot = await controller.acquire("http")
            await asyncio.sleep(0.1)
            controller.note_overload(slot)
            controller.release(slot, outcome=False)
        times = [at for at, _ in told]
        assert 3 <= len(times) <= 5
        assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
        assert told[0][1] == {
            "bucket": "http",
            "previous": 64,
            "limit": 32,
            "reason": "a call was refused or ran out of time",
        }
        assert told[1][1]["previous"] == 32

    run(play())


STEP = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "attempt", "end", "end", "cancel", "lend", "overload"])
    | st.sampled_from(["overdue", "pause", "configure", "rest"]),
    st.integers(0, 9),
)
POLICIES = [
    {"http": AdaptivePolicy("aimd", 1, 5)},
    {"http": AdaptivePolicy("gradient2", 2, 9)},
    {"http": AdaptivePolicy("aimd", 3, 4, True)},
    {"http": AdaptivePolicy("gradient2", 1, 30, True)},
    {},
]

OVERLOADS = [
    {"http": OverloadPolicy(target=0.1, interval=0.3)},
    {"http": OverloadPolicy(target=0.1, interval=0.3, order="adaptive_lifo")},
    {},
]


@settings(max_examples=share_of(300), deadline=None)
@given(st.lists(STEP, max_size=120), st.integers(1, 1000))
def test_no_slot_is_lost_and_no_bound_is_passed(steps: list[tuple[str, int]], seed: int) -> None:
    """C19, C9: whatever ends how, is cancelled, lent, refused or configured, in whatever order."""
    run(_assert_sound_after_each(steps), seed=seed)


async def _assert_sound_after_each(steps: list[tuple[str, int]]) -> None:
    play = _Play()
    for what, number in steps:
        getattr(play, what)(number)
        await asyncio.sleep(number / 10 if what == "rest" else 0)
        play.check()
    await play.end_all()


class _Play:
    """Calls of one bucket, and what may happen to them."""

    def __init__(self) -> None:
        self.controller = controller_of(8, kind="gradient2", min=1, max=9)
        self.held: list[ConcurrencySlot] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.frozen: int | None = None

    def check(self) -> None:
        limit = state_of(self.controller)["limit"]
        policy = self.controller.config.adaptive.get("http")
        assert policy is None or policy.min <= limit <= policy.max
        assert self.frozen is None or limit == self.frozen
        check(self.controller, has_shrunk=True)

    def ask(self, number: int) -> None:
        async def ask() -> None:
            with contextlib.suppress(SlotRejectedError):
                self.held.append(await self.controller.acquire("http", weight=1 + number // 8))

        self.tasks.append(asyncio.create_task(ask()))

    def attempt(self, number: int) -> None:
        """What `try_acquire` refuses, `acquire` does not give at once either: C1."""
        weight = 1 + number // 3
        slot = self.controller.try_acquire("http", weight=weight)
        if slot is not None:
            self.held.append(slot)
            return
        asking = self.controller.acquire("http", weight=weight)
        with contextlib.suppress(SlotRejectedError):
            asking.send(None)
        asking.close()

    def rest(self, number: int) -> None:
        """Time passes."""

    def cancel(self, number: int) -> None:
        if self.tasks:
            self.tasks[number % len(self.tasks)].cancel()

    def pause(self, number: int) -> None:
        self.controller.pause_bucket("http", number / 5)

    def configure(self, number: int) -> None:
        adaptive, overload = POLICIES[number % len(POLICIES)], OVERLOADS[number % len(OVERLOADS)]
        config = replace(self.controller.config, adaptive=adaptive, overload=overload)
        self.controller.configure(config)
        is_frozen = "http" in adaptive and adaptive["http"].freeze
        self.frozen = state_of(self.controller)["limit"] if is_frozen else None

    def end(self, number: int) -> None:
        if self.held:
            slot = self.held.pop(number % len(self.held))
            self.controller.release(slot, outcome=(True, True, False, None)[number % 4])

    def overload(self, number: int) -> None:
        if self.held:
            self.controller.note_overload(self.held[number % len(self.held)])

    def overdue(self, number: int) -> None:
        if self.held:
            self.controller.mark_overdue(self.held[number % len(self.held)])

    def lend(self, number: int) -> None:
        async def lend(slot: ConcurrencySlot) -> None:
            self.controller.park(slot)
            try:
                await asyncio.sleep(0.2)
            finally:
                self.controller.unpark_nowait(slot)

        if self.held:
            self.tasks.append(asyncio.create_task(lend(self.held[number % len(self.held)])))

    async def end_all(self) -> None:
        self.controller.pause_bucket("http", 0)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for slot in self.held:
            self.controller.release(slot)
        metrics = self.controller.get_metrics()
        assert (metrics.current_concurrent, metrics.queue_length, metrics.parked) == (0, 0, 0)
        assert state_of(self.controller)["current"] == 0
        check(self.controller, has_shrunk=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "vegas"}, r"adaptive\['http'\].kind must be one of aimd, gradient2"),
        ({"min": 5, "max": 4}, r"adaptive\['http'\].min must be at most max, got min 5 and max 4"),
        ({"max": 0}, r"adaptive\['http'\].max must be a whole number"),
        ({"freeze": 1}, r"adaptive\['http'\].freeze must be"),
        ({"maximum": 4}, r"adaptive\['http'\] has no field 'maximum'"),
        (7, r"adaptive\['http'\] must be an AdaptivePolicy or a mapping of its fields, got 7"),
    ],
)
def test_impossible_settings_are_refused(given: Any, message: str) -> None:
    """C19: with the place, and what would do."""
    with pytest.raises(ConfigurationError, match=message):
        ConcurrencyConfig(adaptive={"http": given})


@pytest.mark.parametrize(("seconds", "words"), [(0.00123, "1.23 ms"), (1.04, "1040 ms")])
def test_times_for_people(seconds: float, words: str) -> None:
    """What a limit says of a call that takes a second has no exponent."""
    assert _show_ms(seconds) == words
