"""Do limits that learn, overload, priorities and shares agree on who may run, in all buckets?

The machine of `test_admission_machine.py` has a model, which says who comes first. Here there is
none: what must hold is asked of the controller itself, so that policies may be mixed of which no
plain list says who is next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.effort import share_of
from tests.properties.admission_audit import audit
from tool_engine import (
    AdaptivePolicy,
    ConcurrencyConfig,
    KeyLimits,
    OverloadPolicy,
    ToolConcurrencyController,
    ToolRate,
)
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.lines import Bucket, Lane
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.waiting import Waiter
from tool_engine.errors import AdmissionError
from tool_engine.testing import run

BUCKETS = ("a", "b", "c")
NOTHING = (0, 0, 0, 0)
TURNS = 5
"""More steps of the loop than any hand-over takes."""


def draw_config(luck: Random, strategies: tuple[str, ...]) -> ConcurrencyConfig:
    """Some limits, most of them tight."""
    strategy = luck.choice(strategies)
    orders = ["arrival", "adaptive_lifo", "adaptive_lifo"][: 3 if strategy == "fifo" else 1]

    def some(share: float, make: Callable[[], Any]) -> dict[str, Any]:
        return {name: make() for name in BUCKETS if luck.random() < share}

    def adapt() -> AdaptivePolicy:
        kind = luck.choice(["aimd", "gradient2"])
        return AdaptivePolicy(kind, luck.randint(1, 2), luck.choice([2, 3, 6]), luck.random() < 0.1)

    def shed() -> OverloadPolicy:
        times = luck.choice([(0.05, 0.2), (0.2, 0.5)])
        return OverloadPolicy(luck.choice(["codel", "none"]), luck.choice(orders), *times)

    return ConcurrencyConfig(
        max_concurrent=luck.choice([1, 2, 3, 6]),
        queue_size=luck.choice([2, 50, 50]),
        strategy=strategy,
        bucket_limits=some(0.5, lambda: luck.randint(1, 3)),
        adaptive=some(0.4, adapt),
        overload=some(0.6, shed),
        bucket_queue_sizes=some(0.2, lambda: luck.choice([0, 2, 10])),
        bucket_rates=some(0.15, lambda: ToolRate(luck.choice([2, 5]), 0.5)),
        queue_timeout=luck.choice([1.0, None]),
        aging_interval=luck.choice([0.1, 10.0]),
        key_limits=luck.choice([None, KeyLimits(limit=1), KeyLimits(limit=2)]),
    )


class Play:
    """Calls of three buckets, and what may happen to them.

    Args:
        luck: Decides what does.
        strategies: Those that the limits may have.
        weights: Those that calls may have.
    """

    def __init__(self, luck: Random, strategies: tuple[str, ...], weights: tuple[int, ...]) -> None:
        self.luck, self.weights, self.strategies = luck, weights, strategies
        self.now = asyncio.get_running_loop().time
        config = draw_config(luck, strategies)
        self.controller = ToolConcurrencyController(config, clock=self.now)
        self.held: list[ConcurrencySlot] = []
        self.lent: list[ConcurrencySlot] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.waits: list[float] = []
        """What refused calls are told to wait."""

    def draw_request(self, parent: ConcurrencySlot | None = None) -> AdmissionRequest:
        luck, config = self.luck, self.controller.config
        priority, key = luck.choice([1, 5, 9]), luck.choice([None, "k", "m"])
        weight, timeout = luck.choice(self.weights), luck.choice([None, None, 0.3])
        bucket = luck.choice(BUCKETS)
        made = AdmissionRequest.of(config, bucket, None, priority, key, weight, timeout)
        return replace(made, parent=parent)

    def pick(self, slots: list[ConcurrencySlot]) -> ConcurrencySlot | None:
        return self.luck.choice(slots) if slots else None

    # What happens.

    def ask(self, parent: ConcurrencySlot | None = None) -> None:
        async def ask(request: AdmissionRequest) -> None:
            try:
                self.held.append(await self.controller.admit(request))
            except AdmissionError as error:
                self.waits.append(error.retry_after or 0.0)

        for _ in range(self.luck.choice([1, 1, 2, 5]) if parent is None else 1):
            self.tasks.append(asyncio.create_task(ask(self.draw_request(parent))))

    def attempt(self) -> None:
        """C1: what is refused to a call that does not wait, no call is given at once."""
        request = self.draw_request()
        slot = self.controller.admit_nowait(request)
        if slot is not None:
            self.held.append(slot)
            return
        waiting = self.controller.admit(request)
        try:
            waiting.send(None)
        except AdmissionError as error:
            self.waits.append(error.retry_after or 0.0)
        except StopIteration:
            raise AssertionError(f"{request} was given at once, by waiting for it") from None
        finally:
            waiting.close()

    def end(self) -> None:
        if (slot := self.pick(self.held)) is not None:
            self.held.remove(slot)
            if self.luck.random() < 0.1:
                self.controller.note_overload(slot)
            for _ in range(self.luck.choice([1, 1, 2])):
                self.controller.release(slot, outcome=self.luck.choice([True, True, False, None]))

    def cancel(self) -> None:
        if self.tasks:
            self.luck.choice(self.tasks).cancel()

    def nest(self) -> None:
        if (slot := self.pick(self.held)) is not None:
            self.controller.park(slot)
            self.lent.append(slot)
            self.ask(slot)

    def go_on(self) -> None:
        if (slot := self.pick(self.lent)) is not None:
            self.lent.remove(slot)
            if self.luck.random() < 0.5:
                self.tasks.append(asyncio.create_task(self.controller.unpark(slot)))
            else:
                self.luck.choice([self.controller.unpark_nowait, self.controller.stay_parked])(slot)

    def outlive(self) -> None:
        if (slot := self.pick(self.held)) is not None:
            self.controller.mark_overdue(slot, self.luck.choice([True, False, None]))

    def configure(self) -> None:
        self.controller.configure(draw_config(self.luck, self.strategies))

    def pause(self) -> None:
        self.controller.pause_bucket(self.luck.choice(BUCKETS), self.luck.choice([0.1, 0.5, 0]))

    async def leave(self) -> tuple[int, int, int, int]:
        """Let all go on, and end it; what still runs, waits, is lent or outlives its call."""
        self.controller.configure(ConcurrencyConfig(max_concurrent=1000))
        for bucket in BUCKETS:
            self.controller.pause_bucket(bucket, 0)
        for _ in range(TURNS):
            await asyncio.sleep(1.0)
        assert self.controller.get_metrics().queue_length == 0
        for task in self.tasks:
            task.cancel()
        for ended in await asyncio.gather(*self.tasks, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), ended
        for slot in self.held:
            self.controller.release(slot)
        left = self.controller.get_metrics()
        return left.current_concurrent, left.queue_length, left.parked, left.zombies

    # What must hold after each.

    def check(self) -> None:
        audit(self.controller, None)
        assert all(wait >= 0 for wait in self.waits)
        for bucket in self.controller._layout.buckets.values():
            self.check_places(bucket)
        if self.weights == (1,):
            for lane in self.controller._layout.lanes.values():
                for waiter in lane.waiting_calls():
                    assert self.is_held_up(lane, waiter), f"{waiter.order} waits for nothing"

    def check_places(self, bucket: Bucket) -> None:
        """C4: each that waits has a place among those of other buckets, and no two the same."""
        if bucket.places is not None:
            lanes = self.controller._layout.lanes.values()
            of_bucket = [lane for lane in lanes if lane.bucket is bucket]
            waiting = [each for lane in of_bucket for each in lane.waiting_calls()]
            places = [bucket.places.find(each) for each in waiting if each.resumes is None]
            assert None not in places
            assert len(set(places)) == len(places)

    def is_held_up(self, lane: Lane, waiter: Waiter) -> bool:
        """C2, C4: whether a limit, a rate or a pause lets a call of weight 1 not run."""
        pool, bucket, goes_on = self.controller._pool, lane.bucket, waiter.resumes is not None
        if not goes_on and lane.delay_of(waiter, self.now()) > 0:
            return True
        counts = [(pool.used, pool.limit), (bucket.used, bucket.limit)]
        counts += [(key.used, key.limit) for key in lane.keys]
        return any(limit is not None and used >= limit for used, limit in counts)


STEPS: tuple[tuple[Callable[[Play], None], int], ...] = (
    (Play.ask, 7),
    (Play.end, 6),
    (Play.attempt, 2),
    (Play.cancel, 2),
    (Play.nest, 2),
    (Play.go_on, 2),
    (Play.outlive, 1),
    (Play.configure, 1),
    (Play.pause, 1),
)


async def play(
    seed: int, strategies: tuple[str, ...], weights: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Plays once, and asks after each step what must hold; returns what is left at the end."""
    luck = Random(seed)  # noqa: S311 - for a play, no secret
    game = Play(luck, strategies, weights)
    steps, shares = zip(*STEPS, strict=True)
    for step in luck.choices(steps, shares, k=luck.randint(20, 100)):
        step(game)
        await asyncio.sleep(luck.choice([0, 0, 0.01, 0.05, 0.2, 0.4]))
        for _ in range(TURNS):
            await asyncio.sleep(0)
        game.check()
    return await game.leave()


@settings(max_examples=share_of(120), deadline=None)
@given(st.integers(0, 1 << 30))
def test_no_light_call_waits_for_nothing(seed: int) -> None:
    """C2, C4, C9, C19, C21: under each strategy, whatever changes, is lent, cancelled or shed."""
    strategies = ("fifo", "fifo", "fair", "priority", "reject")
    assert run(play(seed, strategies, (1,)), seed=seed) == NOTHING


@settings(max_examples=share_of(120), deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_call_that_does_not_wait_is_given_what_one_that_waits_would_be(seed: int) -> None:
    """C1, C16, C19: also heavy ones, under limits that have sunk below them.

    Room that is kept for a heavy call is kept also from one that comes before it by its priority or
    share, and does not wait.
    """
    assert run(play(seed, ("fifo", "reject"), (1, 1, 1, 2, 3)), seed=seed) == NOTHING
