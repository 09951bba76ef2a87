"""Are the estimates of waits as right as they say?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, controller_of
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.view import ServiceTimes, find_percentile
from tool_engine.interfaces.admission_view import WaitExplanation


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([3.0], 0.99, 3.0),
        ([5.0, 1.0, 3.0], 0.5, 3.0),
        ([float(n) for n in range(100)], 0.9, 90.0),
        ([float(n) for n in range(100)], 1.0, 99.0),
    ],
)
def test_percentile(values: list[float], share: float, expected: float | None) -> None:
    """C25: the value below which that share lies; None when there are no values."""
    assert find_percentile(values, share) == expected


def test_what_is_left_of_a_call_depends_on_its_age() -> None:
    """A call runs on as one did that ran as long; one that outran all, for as long as it did."""
    times = ServiceTimes([1.0, 2.0, 4.0, 8.0], None)
    assert (times.mean, times.whole(None)) == (3.75, 3.75)
    assert [times.rest(age, None) for age in (0.0, 3.0, 5.0, 8.0, 20.0)] == [4.0, 5.0, 3.0, 0, 12.0]
    luck = Random(1)  # noqa: S311 - times, no secret
    assert {times.whole(luck) for _ in range(50)} == {1.0, 2.0, 4.0, 8.0}
    assert {times.rest(3.0, luck) for _ in range(50)} == {1.0, 5.0}


def test_of_some_calls_only_the_mean_is_known() -> None:
    """Most are taken to be short then, and few long; without even that, nothing is known."""
    times = ServiceTimes([], 2.0)
    assert times.mean == pytest.approx(2.0, rel=0.01)
    assert times.spread == pytest.approx(2.0, rel=0.05)
    unknown = ServiceTimes([], None)
    assert unknown.whole(None) == unknown.rest(3.0, None) == float("inf")


async def test_there_is_no_estimate_without_anything_to_go_by(crew_of: MakeCrew) -> None:
    """C25: None as long as no call has ended, and while the controller is paused."""
    crew = crew_of(max_concurrent=1)
    first, second = AdmissionRequest(call_id="a"), AdmissionRequest(call_id="b")
    await crew.call("a", request=first)
    await crew.call("b", request=second)
    assert _waits(crew.controller.explain("b")) == (None, None)
    await asyncio.sleep(2.0)
    await crew.end("a")
    await crew.call("c", request=first)
    assert _waits(crew.controller.explain("a")) == (2.0, 2.0)
    crew.controller.pause()
    assert _waits(crew.controller.explain("a")) == (None, None)


async def test_a_pause_says_itself_how_long_it_takes(crew_of: MakeCrew) -> None:
    """C17: no call need have run for that."""
    crew = crew_of()
    crew.controller.pause_bucket("http", 5.0)
    await crew.call("a", request=AdmissionRequest("http", call_id="a", lane="http"))
    await asyncio.sleep(2.0)
    assert _waits(crew.controller.explain("a")) == (3.0, 3.0)


async def test_a_long_queue_is_estimated_from_the_mean(crew_of: MakeCrew) -> None:
    """C25: behind very many, the sum of what they take is near to its mean."""
    crew = crew_of(max_concurrent=1, queue_size=1000)
    await _let_run(crew, [1.0, 3.0])
    await crew.call("first")
    for number in range(400):
        crew.begin(str(number), request=AdmissionRequest(call_id=f"call {number}"))
    await asyncio.sleep(0)
    told = crew.controller.explain("call 399")
    assert told.wait_p50 == pytest.approx(3.0 + 399 * 2.0, abs=1.0)
    assert told.wait_p90 == pytest.approx(
        801 * (1 + 1.2816 * 0.5 * (1 / 400 + 1 / 2) ** 0.5), rel=0.01
    )


SERVICES: list[tuple[int, float, Callable[[Random], float]]] = [
    (1, 1.0, lambda luck: luck.expovariate(1.0)),
    (4, 1.0, lambda luck: luck.uniform(0.5, 1.5)),
    (4, 1.65, lambda luck: luck.lognormvariate(0.0, 1.0)),
]
"""Slots, the mean time, and how one is drawn."""


async def test_half_and_nine_tenths_of_the_waits_lie_below() -> None:
    """C25: p50 and p90 are what they say, for the next one and for those behind it."""
    told: list[tuple[float, WaitExplanation]] = []
    for places, mean, draw in SERVICES:
        told += await _look_now_and_then(places, mean, draw)
    assert len(told) > 150
    half = sum(wait <= each.wait_p50 for wait, each in told if each.wait_p50 is not None)
    nine = sum(wait <= each.wait_p90 for wait, each in told if each.wait_p90 is not None)
    assert 0.4 < half / len(told) < 0.6, half / len(told)
    assert 0.84 < nine / len(told) < 0.96, nine / len(told)


async def _look_now_and_then(
    places: int, mean: float, draw: Callable[[Random], float]
) -> list[tuple[float, WaitExplanation]]:
    """How long some calls waited, and what was said of them while they did."""
    controller = controller_of(max_concurrent=places, queue_size=1000, queue_timeout=None)
    loop = asyncio.get_running_loop()
    luck = Random(7)  # noqa: S311 - times, no secret
    started: dict[str, float] = {}
    told: dict[str, tuple[float, WaitExplanation]] = {}

    async def call(name: str) -> None:
        slot = await controller.admit(AdmissionRequest(call_id=name))
        started[name] = loop.time()
        await asyncio.sleep(draw(luck))
        controller.release(slot)

    async with asyncio.TaskGroup() as group:
        for number in range(900):
            group.create_task(call(f"call {number}"))
            # Now a few wait, now many.
            await asyncio.sleep(luck.expovariate(0.95 * places / mean))
            name = f"call {number - luck.choice([0, 0, 1, 3])}"
            if number > 300 and number % 6 == 0 and name not in started:
                told[name] = (loop.time(), controller.explain(name))
    return [(started[name] - at, each) for name, (at, each) in told.items()]


def _waits(told: WaitExplanation) -> tuple[float | None, float | None]:
    assert told.state == "waiting"
    return told.wait_p50, told.wait_p90


async def _let_run(crew: Crew, seconds: list[float]) -> None:
    controller = crew.controller
    for each in seconds:
        slot = await controller.acquire()
        queued = asyncio.create_task(controller.acquire())
        await asyncio.sleep(each)
        controller.release(slot)
        controller.release(await queued)
