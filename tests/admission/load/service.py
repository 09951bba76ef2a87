"""A service that gets slower, or refuses, as more calls run at once: what adaptive limits meet.

Time is virtual and chance has a seed, so the same scenario gives the same figures. The controller
is the real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Final

from tool_engine.admission import ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError
from tool_engine.testing import run

_REFUSAL: Final = 0.005
"""Seconds that a refusal takes."""
_RETRIES: Final = 3
_SLOWER: Final = {"ramp": 0.4}
"""Seconds of waiting that are allowed beside the rule: where the page says that it fails."""
_SMALL: Final = 0.05
"""Seconds that are no wait to speak of; the service alone takes 0.1."""


def always(value: float) -> Callable[[float], float]:
    """A value that stays."""
    return lambda now: value


@dataclass(frozen=True)
class Scenario:
    """What happens to a service, and how many ask for it, over the seconds of a run."""

    name: str
    rate: Callable[[float], float]
    """Calls that come in a second."""
    capacity: Callable[[float], float] = field(default_factory=lambda: always(20.0))
    """Calls that run side by side without being slower."""
    draw: Callable[[Random, float], float] = lambda luck, now: 0.1 * luck.lognormvariate(0.0, 0.3)
    """The seconds of a call alone."""
    refuses_above: Callable[[float], float] = field(default_factory=lambda: always(inf))
    """Calls at once from which on the service answers 429."""
    retry_after: float = 0.5
    penalty: float = 1.5
    """Beyond the capacity, twice as many calls take 2 ** penalty times as long."""
    seconds: float = 90.0
    start: int | None = 10
    """The operator's first guess; None: none."""
    best: int = 20
    """What `find_best` finds."""


@dataclass
class Outcome:
    """What came of a run."""

    throughput: float = 0.0
    """Calls that succeeded, a second."""
    wait_p95: float = 0.0
    """Seconds that 19 of 20 calls took beyond their own, in our line or in the service."""
    refused: int = 0
    """Answers 429."""
    limits: list[tuple[float, int]] = field(default_factory=list)
    """The limit over time."""
    in_flight: list[tuple[float, int]] = field(default_factory=list)


def run_scenario(
    scenario: Scenario,
    *,
    limit: int | None = None,
    adaptive: dict[str, Any] | None = None,
    seed: int = 1,
) -> Outcome:
    """Run a scenario under a limit that stays, or one that finds itself."""
    first = limit or scenario.start
    config = ConcurrencyConfig(
        max_concurrent=1_000,
        queue_size=10_000,
        queue_timeout=5.0,
        bucket_limits={} if first is None else {"http": first},
        adaptive={} if adaptive is None else {"http": adaptive},  # type: ignore[dict-item]
    )
    luck = Random(seed)  # noqa: S311 - no secret
    return run(_Run(scenario, config, luck).play())


def longest_wait(scenario: Scenario, stays: Outcome) -> float:
    """Return the wait that a limit which finds itself may have, beside the best one that stays."""
    return max(1.5 * stays.wait_p95, stays.wait_p95 + _SLOWER.get(scenario.name, _SMALL))


class _Run:
    def __init__(self, scenario: Scenario, config: ConcurrencyConfig, luck: Random) -> None:
        self.scenario, self.config, self.luck = scenario, config, luck
        self.at_work = 0
        self.waits: list[float] = []
        self.outcome = Outcome()

    async def play(self) -> Outcome:
        scenario, outcome = self.scenario, self.outcome
        loop = asyncio.get_running_loop()
        self.controller = ToolConcurrencyController(self.config, clock=loop.time)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self.watch())
            while loop.time() < scenario.seconds:
                await asyncio.sleep(self.luck.expovariate(scenario.rate(loop.time())))
                group.create_task(self.call(scenario.draw(self.luck, loop.time())))
            watch.cancel()
        outcome.throughput = len(self.waits) / scenario.seconds
        ordered = sorted(self.waits)
        outcome.wait_p95 = ordered[int(0.95 * len(ordered))]
        return outcome

    async def watch(self) -> None:
        while True:
            now = asyncio.get_running_loop().time()
            row = self.controller.get_bucket_metrics()["http"]
            self.outcome.limits.append((now, row["limit"]))
            self.outcome.in_flight.append((now, self.at_work))
            await asyncio.sleep(0.25)

    async def call(self, alone: float) -> None:
        """A call that tries again after a refusal, as a patient caller does."""
        loop, controller = asyncio.get_running_loop(), self.controller
        came = loop.time()
        for _ in range(1 + _RETRIES):
            try:
                slot = await controller.acquire("http")
            except AdmissionError:
                return
            if await self.serve(alone):
                controller.release(slot)
                if loop.time() <= self.scenario.seconds:
                    self.waits.append(loop.time() - came - alone)
                return
            self.outcome.refused += 1
            controller.note_overload(slot)
            controller.pause_bucket("http", self.scenario.retry_after)
            controller.release(slot, outcome=False)

    async def serve(self, alone: float) -> bool:
        """Whether the service answered; it takes longer the more calls it has."""
        now = asyncio.get_running_loop().time()
        if self.at_work >= self.scenario.refuses_above(now):
            await asyncio.sleep(_REFUSAL)
            return False
        self.at_work += 1
        load = self.at_work / self.scenario.capacity(now)
        await asyncio.sleep(alone * max(1.0, load) ** self.scenario.penalty)
        self.at_work -= 1
        return True


def _neighbour(now: float) -> float:
    """Others take half of the service, now and then: for 4 of each 11 seconds."""
    return 10.0 if now % 11.0 < 4.0 else 20.0


def _draw_bimodal(luck: Random, now: float) -> float:
    del now
    return (0.5 if luck.random() < 0.1 else 0.05) * luck.lognormvariate(0.0, 0.2)


def _draw_cold(luck: Random, now: float) -> float:
    return 0.1 * max(1.0, 6.0 - now) * luck.lognormvariate(0.0, 0.3)


SCENARIOS: Final = (
    Scenario("step", always(140.0), lambda now: 8.0 if 30.0 <= now < 60.0 else 20.0, best=18),
    Scenario("ramp", lambda now: 20.0 + 160.0 * (1.0 - abs(now - 45.0) / 45.0)),
    Scenario(
        "429 storm",
        always(110.0),
        always(40.0),
        refuses_above=lambda now: 6.0 if 30.0 <= now < 50.0 else 16.0,
        best=16,
    ),
    Scenario("bimodal", always(150.0), draw=_draw_bimodal, best=22),
    Scenario("cold start", always(140.0), draw=_draw_cold, start=None),
    Scenario("noisy neighbour", always(120.0), _neighbour, best=16),
)
LIMITS: Final = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 40, 50, 64)


def find_best(scenario: Scenario, limits: tuple[int, ...] = LIMITS) -> tuple[int, Outcome]:
    """The limit that stays and lets most calls succeed; of almost equal ones, the shortest wait."""
    tried = {limit: run_scenario(scenario, limit=limit) for limit in limits}
    most = max(each.throughput for each in tried.values())
    good = {limit: each for limit, each in tried.items() if each.throughput >= 0.99 * most}
    best = min(good, key=lambda limit: good[limit].wait_p95)
    return best, good[best]
