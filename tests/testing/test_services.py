"""How do the services behind recorded calls answer when more, or fewer, are asked at once?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tool_engine import ConcurrencyConfig
from tool_engine.testing import Service, Services, TraceCall, learn_services, run, simulate
from tool_engine.testing.services import Station

NO_BOUND = {"queue_size": 100_000, "queue_timeout": None}


def make_calls(
    count: int, gap: float, seconds: Callable[[random.Random], float]
) -> list[TraceCall]:
    """Calls that would run at once, each alone, if nothing held them up."""
    chance = random.Random(3)  # noqa: S311 - the same calls each time
    at, found = 0.0, []
    for number in range(count):
        ends = at + seconds(chance)
        found.append(
            TraceCall(
                call_id=f"c{number}",
                tool_name="work",
                bucket="http",
                enqueued_at=at,
                started_at=at,
                ended_at=ends,
            )
        )
        at += chance.expovariate(1 / gap)
    return found


def record_under(calls: list[TraceCall], service: Service, limit: int) -> list[TraceCall]:
    """What a service that is known would have left as records, under a limit."""
    works = tuple(each.service for each in calls)
    services = Services(by_bucket={"http": service}, works=works)
    config = ConcurrencyConfig(max_concurrent=limit, **NO_BOUND)  # type: ignore[arg-type]
    return [*simulate(calls, config, services=services).simulated_calls]


def between(least: float, most: float) -> Callable[[random.Random], float]:
    return lambda chance: chance.uniform(least, most)


def test_a_service_that_takes_all_is_as_fast_with_more() -> None:
    """Calls that differ by themselves are no sign of a bound."""
    calls = make_calls(400, 0.1, between(0.2, 1.0))
    found = learn_services(record_under(calls, Service(), 12)).by_bucket["http"]
    assert (found.speed_limit, found.places, found.refusals) == (None, None, 0)
    assert found.works["work"] == pytest.approx(0.6, rel=0.1)
    assert found.fewest < found.most <= 12


@pytest.mark.parametrize("bound", [2, 5])
def test_a_service_that_shares_its_speed(bound: int) -> None:
    """From how many on calls slow one another down, and how long each takes alone."""
    calls = make_calls(400, 0.6 / bound, between(0.4, 0.6))
    recorded = record_under(calls, Service(speed_limit=bound), 3 * bound)
    found = learn_services(recorded)
    assert found.by_bucket["http"].speed_limit == bound
    for work, call in zip(found.works, calls, strict=True):
        assert work == pytest.approx(call.service, abs=0.02)


def test_a_service_that_refuses() -> None:
    """How many it takes, how quickly it refuses, and how long it wants to be left alone."""
    calls = make_calls(400, 0.15, between(0.4, 0.6))
    service = Service(places=4, refusal_time=0.02, pause=2.0)
    recorded = record_under(calls, service, 6)
    assert sum(each.was_refused for each in recorded) > 20
    found = learn_services(recorded).by_bucket["http"]
    assert (found.places, found.speed_limit) == (4, None)
    assert found.refusal_time == pytest.approx(0.02)
    assert found.pause == pytest.approx(2.0, abs=0.05)
    assert found.refusals == sum(each.was_refused for each in recorded)


def test_refusals_that_no_number_explains() -> None:
    """A service that refuses by chance is not taken for one with so many places."""
    chance = random.Random(4)  # noqa: S311 - the same calls each time
    recorded = [
        TraceCall(
            call_id=str(number),
            tool_name="work",
            bucket="http",
            enqueued_at=number * 0.1,
            started_at=number * 0.1,
            ended_at=number * 0.1 + 0.5,
            was_refused=chance.random() < 0.3,
        )
        for number in range(300)
    ]
    assert learn_services(recorded).by_bucket["http"].places is None


def test_calls_at_a_station_share_its_speed() -> None:
    """Two of one second each, where one at a time is as fast as can be, take two."""

    async def ask() -> list[float]:
        station, loop = Station(Service(speed_limit=1)), asyncio.get_running_loop()
        ended = []

        async def work(wait: float, seconds: float) -> None:
            await asyncio.sleep(wait)
            await station.work(seconds)
            ended.append(round(loop.time(), 6))

        async with asyncio.TaskGroup() as group:
            group.create_task(work(0.0, 1.0))
            group.create_task(work(0.0, 1.0))
            group.create_task(work(1.0, 0.25))
        return ended

    assert run(ask()) == [1.75, 2.25, 2.25]


def test_calls_without_a_slot_or_a_service() -> None:
    """Buckets of which nothing ran, or all was refused, are unknown, and no error."""
    never = TraceCall(
        call_id="n", tool_name="t", bucket="db", enqueued_at=0.0, started_at=None, ended_at=1.0
    )
    turned = TraceCall(
        call_id="r",
        tool_name="t",
        bucket="ai",
        enqueued_at=0.0,
        started_at=0.0,
        ended_at=0.1,
        was_refused=True,
    )
    found = learn_services([never, turned])
    assert (found.by_bucket["db"], found.by_bucket["ai"].refusals) == (Service(), 1)
    assert found.works == (None, None)
