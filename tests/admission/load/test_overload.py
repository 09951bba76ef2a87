"""Does a bucket to which more calls come than it can serve serve some of them soon?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission.crew import check
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    OverloadPolicy,
    SlotRejectedError,
    ToolConcurrencyController,
)
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import AdmissionError
from tool_engine.testing import run


class Crowd:
    """Calls that take a tenth of a second each, on ten slots: a hundred a second."""

    def __init__(self, **overload: Any) -> None:
        policy = {"http": OverloadPolicy(**overload)} if overload else {}
        self.controller = ToolConcurrencyController(
            ConcurrencyConfig(
                max_concurrent=50,
                queue_size=10_000,
                bucket_limits={"http": 10},
                overload=policy,
                queue_timeout=30.0,
            ),
            clock=asyncio.get_running_loop().time,
        )
        self.waits: list[tuple[float, float]] = []
        """When each call came that ran, and how long it waited."""
        self.errors: list[AdmissionError] = []

    async def call(self) -> None:
        came = asyncio.get_running_loop().time()
        try:
            slot = await self.controller.acquire("http")
        except AdmissionError as error:
            self.errors.append(error)
            return
        self.waits.append((came, slot.queue_wait))
        await asyncio.sleep(0.1)
        self.controller.release(slot)

    async def come(self, rate: Callable[[float], float], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while loop.time() < seconds:
                group.create_task(self.call())
                await asyncio.sleep(1 / rate(loop.time()))
        check(self.controller)

    def wait_p95(self, first: float, last: float) -> float:
        """Of the calls that came in between and ran."""
        waits = sorted(wait for came, wait in self.waits if first <= came < last)
        return waits[int(0.95 * len(waits))]

    @property
    def state(self) -> dict[str, Any]:
        return self.controller.snapshot().buckets["http"]["overload"]  # type: ignore[no-any-return]


def test_calls_that_run_have_waited_for_a_moment_only() -> None:
    """C21: at twice the load as many run as before, and those wait for twice the target at most."""

    async def play() -> None:
        plain, shed = Crowd(), Crowd(target=0.5, interval=2.0)
        async with asyncio.TaskGroup() as group:
            for crowd in (plain, shed):
                group.create_task(crowd.come(lambda now: 200.0, 60.0))
        assert plain.wait_p95(30, 60) > 10.0
        assert shed.wait_p95(10, 60) <= 1.0 + 0.1
        ran = [sum(came < 50 for came, _ in crowd.waits) for crowd in (plain, shed)]
        assert len(shed.waits) >= 0.95 * 60 * 100, ran
        assert {type(error) for error in shed.errors} == {SlotRejectedError}
        assert all(error.retry_after and error.retry_after > 0 for error in shed.errors)
        assert "bucket 'http' is overloaded: for 2 s no call has waited" in str(shed.errors[0])
        assert shed.state["refused"] == len(shed.errors)

    run(play())


def test_a_burst_is_no_overload() -> None:
    """C21: who waits long in a queue that empties again is refused nothing."""

    async def play() -> None:
        crowd = Crowd(target=0.5, interval=2.0)
        await crowd.come(lambda now: 2000.0 if now % 10 < 0.1 else 20.0, 60.0)
        assert max(wait for _, wait in crowd.waits) > 1.0
        assert crowd.errors == []
        assert not crowd.state["is_overloaded"]

    run(play())


def test_a_burst_after_an_overload_is_a_burst() -> None:
    """C21: once a call has found nobody waiting, what was before is over."""

    async def play() -> None:
        crowd = Crowd(target=0.5, interval=5.0)
        await crowd.come(lambda now: 200.0, 20.0)
        refused = len(crowd.errors)
        await crowd.come(lambda now: 20.0, 24.0)
        burst = asyncio.get_running_loop().time()
        await crowd.come(lambda now: 2000.0, burst + 0.1)
        assert 0 < refused == len(crowd.errors)
        assert crowd.wait_p95(burst, burst + 1) > 1.0

    run(play())


def test_it_ends_when_the_overload_ends() -> None:
    """C21: the first calls that wait little again are served as ever."""

    async def play() -> None:
        crowd = Crowd(target=0.5, interval=2.0, order="adaptive_lifo")
        await crowd.come(lambda now: 200.0 if now < 20 else 50.0, 60.0)
        assert crowd.wait_p95(30, 60) < 0.1
        assert not crowd.state["is_overloaded"]

    run(play())


def test_the_newest_call_goes_first_while_it_is_overloaded() -> None:
    """C21: those that run have waited for less than a tenth of what they wait in turn."""

    async def play() -> None:
        turn = Crowd(target=0.5, interval=2.0, shed="none")
        newest = Crowd(target=0.5, interval=2.0, shed="none", order="adaptive_lifo")
        async with asyncio.TaskGroup() as group:
            for crowd in (turn, newest):
                group.create_task(crowd.come(lambda now: 200.0, 30.0))
        soon = [
            sum(wait < 0.5 for came, wait in crowd.waits if 10 <= came < 25)
            for crowd in (turn, newest)
        ]
        assert soon[0] == 0
        assert soon[1] >= 0.9 * 15 * 100
        assert newest.state["refused"] == 0

    run(play())


def test_a_call_of_a_running_call_is_not_refused() -> None:
    """C21: what has been begun is not given up for what has not."""

    async def play() -> None:
        crowd = Crowd(target=0.1, interval=0.5)
        controller = crowd.controller
        outer = await controller.acquire("ai")
        request = replace(AdmissionRequest.of(controller.config, "http"), parent=outer)
        slots = [await controller.acquire("http") for _ in range(10)]
        waiting = [asyncio.create_task(crowd.call()) for _ in range(90)]
        for slot in slots:
            await asyncio.sleep(0.14)
            controller.release(slot)
        await asyncio.gather(*waiting)
        slots = [await controller.acquire("http") for _ in range(10)]
        nested = asyncio.create_task(controller.admit(request))
        await asyncio.sleep(0.3)
        assert crowd.state["is_overloaded"]
        assert crowd.errors
        for slot in slots:
            controller.release(slot)
        controller.release(await nested)
        controller.release(outer)
        check(controller)

    run(play())


class Overloaded:
    """A bucket whose newest call goes first, for calls have waited too long, and others."""

    def __init__(self, **limits: Any) -> None:
        policy = OverloadPolicy("none", "adaptive_lifo", target=0.1, interval=0.3)
        self.controller = ToolConcurrencyController(
            ConcurrencyConfig(overload={"http": policy}, queue_timeout=None, **limits),
            clock=asyncio.get_running_loop().time,
        )
        self.started: list[str] = []
        self.slots: dict[str, ConcurrencySlot] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, *names: str, bucket: str = "http", parent: Any = None) -> None:
        """Start calls that hold their slots until they are ended."""

        async def hold(name: str) -> None:
            request = replace(AdmissionRequest.of(self.controller.config, bucket), parent=parent)
            self.slots[name] = await self.controller.admit(request)
            self.started.append(name)

        for name in names:
            self.tasks.append(asyncio.create_task(hold(name)))
            await asyncio.sleep(0)

    async def end(self, *names: str) -> None:
        for name in names:
            self.controller.release(self.slots.pop(name))
            await asyncio.sleep(0)
        check(self.controller)

    async def overload(self) -> None:
        """Have calls wait too long, until one holds a slot and three wait."""
        await self.ask(*(f"old{number}" for number in range(8)))
        for number in range(4):
            await asyncio.sleep(0.35)
            await self.end(f"old{number}")
        assert self.controller.snapshot().buckets["http"]["overload"]["is_overloaded"]

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.end(*self.slots)
        assert self.controller.get_metrics().current_concurrent == 0


def test_what_the_newest_call_calls_stands_where_that_came() -> None:
    """C4, C23: in a bucket whose calls go in turn it went before all that waited there."""

    async def play() -> None:
        crew = Overloaded(bucket_limits={"http": 1, "ai": 1})
        await crew.overload()
        await crew.ask("a0", "a1", bucket="ai")
        await crew.ask("new")
        await crew.end("old4")
        assert crew.started[-1] == "new"
        outer = crew.slots["new"]
        crew.controller.park(outer)
        await crew.ask("nested", bucket="ai", parent=outer)
        await crew.end("a0")
        assert crew.started[-1] == "a1"
        await crew.end("a1")
        assert crew.started[-1] == "nested"
        crew.controller.unpark_nowait(outer)
        await crew.leave()

    run(play())


def test_a_change_back_to_turns_is_one_for_those_that_wait() -> None:
    """C18: they went on as before, the newest first, for as long as they waited."""

    async def play() -> None:
        crew = Overloaded(bucket_limits={"http": 1})
        await crew.overload()
        await crew.ask("new1", "new2")
        crew.controller.configure(ConcurrencyConfig(bucket_limits={"http": 1}))
        before = len(crew.started)
        for _ in range(5):
            await crew.end(*crew.slots)
        assert crew.started[before:] == ["old5", "old6", "old7", "new1", "new2"]
        await crew.leave()

    run(play())


def test_no_other_bucket_is_overtaken() -> None:
    """C4: where the limit in all is what is full, as many of each run as if all took turns."""

    async def play() -> None:
        crew = Overloaded(max_concurrent=1)
        await crew.overload()
        for number in range(20):
            await crew.ask(f"new{number}")
            await crew.ask(f"a{number}", bucket="ai")
        for _ in range(3):
            await crew.end(*crew.slots)
        assert crew.started[-3:] == ["new19", "new18", "new17"]
        for _ in range(10):
            await crew.end(*crew.slots)
        last = crew.started[-10:]
        assert [name[:1] for name in last] == ["n", "a"] * 5, last
        assert last[::2] == ["new16", "new15", "new14", "new13", "new12"]
        assert last[1::2] == ["a0", "a1", "a2", "a3", "a4"]
        assert crew.controller.snapshot().waiting[0].bucket == "http"
        await crew.leave()

    run(play())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"overload": {"http": {"shed": "red"}}}, r"overload\['http'\].shed must be one of"),
        ({"overload": {"http": {"order": "lifo"}}}, r"overload\['http'\].order must be one of"),
        ({"overload": {"http": {"target": 0}}}, r"overload\['http'\].target must be a positive"),
        ({"overload": {"http": {"intervall": 1}}}, "did you mean 'interval'"),
        (
            {"overload": {"http": {"order": "adaptive_lifo"}}, "strategy": "fair"},
            r"overload\['http'\].order 'adaptive_lifo' has no meaning under the strategy 'fair'",
        ),
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, Any], message: str) -> None:
    """C21: with the place, and what would do."""
    with pytest.raises(ConfigurationError, match=message):
        ConcurrencyConfig(**fields)
