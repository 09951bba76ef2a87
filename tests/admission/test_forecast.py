"""Do calls get their slots in the order, and at the times, that the forecast says?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from math import floor
from random import Random
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings

from tests.admission.virtual_time import VirtualTimeLoop
from tests.effort import share_of
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.forecast import Forecast
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import ToolRate

STEP = 1 / 64
"""Calls come one after another; all times are sums of halves, so that none is rounded."""
TICK = 2.0**-12
"""The controller's clock does not see less."""
INSTANT = TICK / 1024
"""What ends in the same tick ends in the order in which it began, as in a forecast."""
RATES = (1.375 + TICK, 1.75 + 2 * TICK)
"""Periods after which nothing else happens in the same tick."""


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(coroutine)


class Stream:
    """Calls that run for a given time each, and what became of them."""

    def __init__(self, **limits: Any) -> None:
        config = ConcurrencyConfig(queue_timeout=None, **limits)
        self.loop = asyncio.get_running_loop()
        self.controller = ToolConcurrencyController(config, clock=self.time)
        self.started: dict[str, float] = {}
        self.order: dict[str, list[str]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def time(self) -> float:
        return floor(self.loop.time() / TICK) * TICK

    async def call(self, name: str, request: AdmissionRequest, seconds: float = 1.0) -> None:
        self.tasks.append(asyncio.create_task(self._run(name, request, seconds)))
        await asyncio.sleep(STEP)

    async def end(self) -> None:
        await asyncio.gather(*self.tasks)
        assert self.controller.get_metrics().current_concurrent == 0

    async def warm_up(self, *buckets: str) -> None:
        """Calls of one second in each bucket, of which some have to wait."""
        for bucket in buckets:
            for number in range(self.controller.config.max_concurrent + 1):
                await self.call(f"warm {bucket} {number}", self.request(bucket))
            await self.end()
            self.tasks.clear()
        assert {len(b.served) > 0 for b in self.controller._layout.buckets.values()} == {True}

    def request(self, bucket: str, **how: Any) -> AdmissionRequest:
        return AdmissionRequest.of(self.controller.config, bucket, **how)

    async def _run(self, name: str, request: AdmissionRequest, seconds: float) -> None:
        slot = await self.controller.admit(request, call_id=name)
        self.started[name] = now = self.time()
        self.order.setdefault(slot.bucket, []).append(name)
        ended = self.loop.create_future()
        self.loop.call_at(now + seconds + len(self.started) * INSTANT, ended.set_result, None)
        await ended
        self.controller.release(slot)

    def predicted(self) -> dict[str, list[str]]:
        lines: dict[str, list[str]] = {}
        for row in self.controller.snapshot().waiting:
            lines.setdefault(row.bucket, []).append(str(row.call_id))
            assert row.position == len(lines[row.bucket])
        return lines


CALL = st.tuples(
    st.sampled_from("aab"),
    st.integers(1, 9),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from(["ann", "ann", "bob", "cat"]),
)


@given(
    calls=st.lists(CALL, min_size=5, max_size=25),
    strategy=st.sampled_from(["fifo", "priority", "fair"]),
    most=st.integers(3, 5),
    limits=st.sampled_from([{}, {"a": 3}]),
    seed=st.integers(0, 99),
)
def test_the_line_is_served_in_the_order_of_the_snapshot(
    calls: list[tuple[str, int, int, str]],
    strategy: str,
    most: int,
    limits: dict[str, int],
    seed: int,
) -> None:
    """C25: position and place are those of service, however long the calls run: weights too."""

    async def walk() -> None:
        stream = Stream(
            max_concurrent=most,
            strategy=strategy,
            bucket_limits=limits,
            aging_interval=STEP,
            key_limits={"weights": {"ann": 2.0}},
        )
        luck = Random(seed)  # noqa: S311 - times, no secret
        for number, (bucket, priority, weight, key) in enumerate(calls):
            # What a key gets in one bucket counts in the others, so that chance decides there.
            where = "a" if strategy == "fair" else bucket
            request = stream.request(where, priority=priority, weight=weight, key=key)
            await stream.call(str(number), request, luck.expovariate(1.0) + 1.0)
        lines = stream.predicted()
        for line in lines.values():
            for place, name in {1: line[0], len(line): line[-1]}.items():
                explained = stream.controller.explain(name)
                assert (explained.position, explained.ahead) == (place, line[: place - 1][:10])
        await stream.end()
        for bucket, line in lines.items():
            assert stream.order[bucket][-len(line) :] == line

    run(walk())


KEYED = st.tuples(
    st.sampled_from("aabc"),
    st.integers(1, 9),
    st.sampled_from(["ann", "ann", "bob", None]),
    st.sampled_from([None, None, "tool", "rated"]),
    st.sampled_from([1, 1, 1, 2]),
)


@settings(max_examples=share_of(200))
@given(
    calls=st.lists(KEYED, min_size=5, max_size=25),
    strategy=st.sampled_from(["fifo", "priority", "fair"]),
    limits=st.sampled_from([{}, {"a": 2}, {"a": 1, "b": 2}]),
    rates=st.sampled_from([{}, {"b": ToolRate(2, RATES[1])}]),
    key_limits=st.sampled_from([None, {"limit": 1}, {"limit": 2, "overrides": {"bob": 1}}]),
)
@example([("a", 5, "ann", None, 1)] * 9, "fair", {"a": 2}, {}, None)
def test_calls_that_run_alike_start_when_they_were_said_to(
    calls: list[tuple[str, int, str | None, str | None, int]],
    strategy: str,
    limits: dict[str, int],
    rates: dict[str, ToolRate],
    key_limits: dict[str, Any] | None,
) -> None:
    """C25: with constant times, the wait that `explain` gives is exact: keys, rates, buckets."""

    async def walk() -> None:
        stream = Stream(
            max_concurrent=4,
            strategy=strategy,
            bucket_limits=limits,
            bucket_rates=rates,
            key_limits=key_limits,
            aging_interval=STEP,
        )
        await stream.warm_up("a", "b", "c")
        for number, (bucket, priority, key, kind, weight) in enumerate(calls):
            most = min(limits.get(bucket, 2), 2 if key_limits is None else 1)
            request = stream.request(bucket, priority=priority, key=key, weight=min(weight, most))
            if kind is not None:
                request.tool_name = kind
                request.line = f"{bucket} {kind}"
                request.tool_key, request.tool_key_limit = key, 2
                request.rate = ToolRate(1, RATES[0]) if kind == "rated" else None
                request = request.under(stream.controller.config)
            await stream.call(str(number), request)
        stream.controller.pause_bucket("c", 2.5)
        now = stream.time()
        waits = {}
        lines = stream.predicted()
        for name in [each for line in lines.values() for each in line]:
            told = stream.controller.explain(name)
            assert told.wait_p50 == told.wait_p90
            waits[name] = told.wait_p50
        await stream.end()
        assert {name: stream.started[name] - now for name in waits} == waits
        for bucket, line in lines.items():
            assert stream.order[bucket][-len(line) :] == line

    run(walk())


def test_nobody_comes_and_nobody_is_told() -> None:
    """C25: what is forecast happens to copies alone."""

    async def walk() -> None:
        stream = Stream(max_concurrent=1)
        for name in ("a", "b", "c"):
            await stream.call(name, stream.request("http"))
        before = stream.controller.get_metrics()
        forecast = Forecast(stream.controller.config, 0.0, 0, 0.0, lambda _: 1.0)
        assert forecast.run() == 0.0
        stream.controller.snapshot()
        stream.controller.explain("c")
        assert stream.controller.get_metrics() == before
        assert list(stream.started) == ["a"]
        await stream.end()

    run(walk())
