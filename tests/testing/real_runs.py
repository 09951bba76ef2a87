"""Calls that really run, against a service that behaves as is known.

It is asked over HTTP on the loopback address, or by a function in virtual time: there a forecast
is compared with an engine at work, whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionError,
    ToolExecutionResult,
)
from tool_engine.testing import Figures, Trace, TraceCall, learn_services, run, simulate

__all__ = ["SCENARIOS", "Comparison", "Scenario", "compare", "compare_virtually", "run_really"]

BUCKET = "http"
TOOLS = ("work", "study", "hurry")
REFUSED = "the service answered 429"
SECONDS = {"name": "seconds", "type": "number", "required": True, "description": "How long"}


class Arrival(msgspec.Struct, frozen=True):
    """A call that will be made."""

    at: float
    """Seconds from the begin."""
    tool: str
    seconds: float
    """How long the service works on it, if it is alone."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls come, what the service is like, and which limit is tried out after which."""

    make: Callable[[random.Random, int], list[Arrival]]
    """Makes so many calls."""
    recorded: int
    tried: int
    places: int | None = None
    """The service refuses calls beyond so many at once."""
    retry_after: float = 0.5
    speed_limit: int | None = None
    """So many at once are as fast as one alone; more share that speed."""
    strategy: str = "fifo"


def make_steady(chance: random.Random, count: int) -> list[Arrival]:
    """Calls that come as often as a queue can just not keep up with."""
    at, found = 0.0, []
    for _ in range(count):
        found.append(Arrival(at, "work", chance.uniform(0.08, 0.12)))
        at += chance.expovariate(1 / 0.02)
    return found


def make_burst(chance: random.Random, count: int) -> list[Arrival]:
    """Three times a third of them at once."""
    return [
        Arrival(3.0 * (number * 3 // count) * count / 200, "work", chance.uniform(0.08, 0.12))
        for number in range(count)
    ]


def make_waves(chance: random.Random, count: int) -> list[Arrival]:
    """Twenty at once, again and again: each wave ends with few that are alone."""
    return [
        Arrival(0.5 * (number // 20), "work", chance.uniform(0.08, 0.12)) for number in range(count)
    ]


def make_mixed(chance: random.Random, count: int) -> list[Arrival]:
    """Many short calls, and some that are ten times as long."""
    at, found = 0.0, []
    for number in range(count):
        is_long = number % 6 == 0
        found.append(Arrival(at, "study" if is_long else "work", 0.3 if is_long else 0.05))
        at += chance.expovariate(1 / 0.018)
    return found


def make_ranked(chance: random.Random, count: int) -> list[Arrival]:
    """A third of the calls may go before the others."""
    at, found = 0.0, []
    for number in range(count):
        found.append(
            Arrival(at, "hurry" if number % 3 == 0 else "work", chance.uniform(0.08, 0.12))
        )
        at += chance.expovariate(1 / 0.02)
    return found


SCENARIOS = {
    "steady": Scenario(make=make_steady, recorded=4, tried=3),
    "burst": Scenario(make=make_burst, recorded=4, tried=8),
    "mixed": Scenario(make=make_mixed, recorded=3, tried=4),
    "refusing": Scenario(make=make_burst, recorded=8, tried=5, places=6),
    "priorities": Scenario(make=make_ranked, recorded=3, tried=4, strategy="priority"),
    "crowded": Scenario(make=make_burst, recorded=9, tried=4, speed_limit=6),
    "waves": Scenario(make=make_waves, recorded=9, tried=4, speed_limit=6),
}


class Provider:
    """The service: it works as long as it is asked to."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._left: dict[asyncio.Future[None], float] = {}
        self._at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """Do that for a request over HTTP."""
        if await self.work(float(request.query["seconds"])):
            return web.json_response({})
        pause = self._scenario.retry_after
        return web.Response(status=429, headers={"Retry-After": f"{pause}"})

    async def work(self, seconds: float) -> bool:
        """Work for so long, if that call is alone; False: there is no room for it."""
        places = self._scenario.places
        if places is not None and len(self._left) >= places:
            return False
        done = asyncio.get_running_loop().create_future()
        self._pass_time()
        self._left[done] = seconds
        self._plan()
        await done
        return True

    def _speed(self) -> float:
        limit = self._scenario.speed_limit
        return 1.0 if limit is None or len(self._left) <= limit else limit / len(self._left)

    def _pass_time(self) -> None:
        now = asyncio.get_running_loop().time()
        passed, self._at = (now - self._at) * self._speed(), now
        for each in self._left:
            self._left[each] -= passed

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._left:
            soonest = max(0.0, min(self._left.values())) / self._speed()
            self._timer = asyncio.get_running_loop().call_later(soonest, self._end_due)

    def _end_due(self) -> None:
        self._pass_time()
        for each in [each for each, left in self._left.items() if left <= 1e-4]:
            del self._left[each]
            each.set_result(None)
        self._plan()


def define(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": "Asks the service.",
        "category": BUCKET,
        "parameters": [SECONDS],
        "concurrency": {"priority": 1 if name == "hurry" else 5},
    }


def define_request(name: str, port: int) -> dict[str, Any]:
    request = {
        "method": "GET",
        "url": f"http://127.0.0.1:{port}/",
        "query": {"seconds": "{seconds}"},
    }
    entry = {"type": "http", "request": request, "allow": [f"127.0.0.1:{port}"]}
    return {**define(name), "entry": entry}


@asynccontextmanager
async def serving(scenario: Scenario) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/", Provider(scenario).answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def limits_of(scenario: Scenario, limit: int) -> ConcurrencyConfig:
    return ConcurrencyConfig(
        max_concurrent=64,
        bucket_limits={BUCKET: limit},
        strategy=scenario.strategy,
        queue_size=10_000,
        queue_timeout=None,
    )


def settings_of(scenario: Scenario, limit: int) -> ToolEngineConfig:
    return ToolEngineConfig(
        auto_reload=False, tools_directory="none", concurrency=limits_of(scenario, limit)
    )


async def make_calls(
    engine: ToolEngine,
    arrivals: list[Arrival],
    note: Callable[[ToolExecutionResult], None] | None = None,
) -> None:
    """Make each call when it is due; `note` gets its result as it ends."""
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def call(arrival: Arrival) -> None:
        due = loop.create_future()
        loop.call_at(begin + arrival.at, due.set_result, None)
        await due
        result = await engine.execute(arrival.tool, {"seconds": arrival.seconds})
        if note is not None:
            note(result)

    async with asyncio.TaskGroup() as group:
        for arrival in arrivals:
            group.create_task(call(arrival))


def draw_arrivals(scenario: Scenario, count: int, seed: int) -> list[Arrival]:
    return scenario.make(random.Random(seed), count)  # noqa: S311 - a test, no secret


async def run_really(scenario: Scenario, limit: int, count: int, seed: int = 1) -> Trace:
    """Make the calls of a scenario under a limit, and return what was recorded."""
    async with (
        serving(scenario) as port,
        ToolEngine(settings_of(scenario, limit)) as engine,
    ):
        engine.register_tools([define_request(name, port) for name in TOOLS])
        await engine.execute("work", {"seconds": 0.01})
        await make_calls(engine, draw_arrivals(scenario, count, seed))
        records = await engine.query_call_records(limit=count)
    return Trace.of(records)


async def run_virtually(scenario: Scenario, limit: int, count: int, seed: int = 1) -> Trace:
    """Do the same in virtual time, where the service is a function."""
    loop, provider, found = asyncio.get_running_loop(), Provider(scenario), []

    async def ask(seconds: float, context: ToolExecutionContext) -> None:
        if not await provider.work(seconds):
            context.back_off(scenario.retry_after)
            raise ToolExecutionError(REFUSED)

    def note(result: ToolExecutionResult) -> None:
        now, about = loop.time(), result.metadata
        started = now - result.execution_time
        asked = started - about.get("queue_wait", 0.0)
        found.append(
            TraceCall(
                call_id=about["call_id"],
                tool_name=result.tool_name,
                enqueued_at=round(asked, 6),
                started_at=round(started, 6),
                ended_at=round(now, 6),
                bucket=BUCKET,
                priority=1 if result.tool_name == "hurry" else 5,
                was_refused=not result.is_success and REFUSED in str(result.error),
            )
        )

    async with ToolEngine(settings_of(scenario, limit)) as engine:
        for name in TOOLS:
            engine.register_tool(define(name), ask)
        await make_calls(engine, draw_arrivals(scenario, count, seed), note)
    return Trace.of(found)


class Comparison(msgspec.Struct, frozen=True):
    """What was foretold of a limit, and what came."""

    foretold: tuple[float, float, float, float]
    """Half and 95 % of the waits, seconds; calls served a second; calls that were refused."""
    came: tuple[float, float, float, float]

    @property
    def errors(self) -> tuple[float, ...]:
        """How far off each was, as a share of what came; 20 ms, or one call, are no error."""
        slack = (0.02, 0.02, 0.0, 1.0)
        return tuple(
            max(0.0, abs(said - real) - least) / max(real, least, 1e-9)
            for said, real, least in zip(self.foretold, self.came, slack, strict=True)
        )


def measure(calls: tuple[TraceCall, ...]) -> tuple[float, float, float, float]:
    figures, refused = Figures.of(calls), sum(call.was_refused for call in calls)
    served = (figures.ran - refused) / figures.makespan
    return figures.wait_p50, figures.wait_p95, round(served, 2), refused


async def compare(scenario: Scenario, count: int) -> Comparison:
    """Record a run under one limit, foretell another, and make it come true."""
    recorded = await run_really(scenario, scenario.recorded, count)
    services = learn_services(recorded.calls)
    report = await asyncio.to_thread(
        simulate, recorded, limits_of(scenario, scenario.tried), services=services
    )
    real = await run_really(scenario, scenario.tried, count)
    return Comparison(measure(report.simulated_calls), measure(real.calls))


def compare_virtually(scenario: Scenario, count: int, seed: int = 1) -> Comparison:
    """Do the same in virtual time."""
    recorded = run(run_virtually(scenario, scenario.recorded, count, seed))
    services, limits = learn_services(recorded.calls), limits_of(scenario, scenario.tried)
    report = simulate(recorded, limits, services=services)
    real = run(run_virtually(scenario, scenario.tried, count, seed))
    return Comparison(measure(report.simulated_calls), measure(real.calls))
