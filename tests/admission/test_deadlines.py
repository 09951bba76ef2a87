"""Does every waiter give up at its own time, with one timer for all?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew
from tool_engine.errors import QueueTimeoutError


def now() -> float:
    return asyncio.get_running_loop().time()


async def until(crew: Crew, when: float) -> list[str]:
    """Who has given up by then."""
    await asyncio.sleep(when - now())
    await crew.turn()
    return list(crew.errors)


async def test_each_at_its_own_time(crew_of: MakeCrew) -> None:
    """C7: soonest first, whatever the order of asking."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await crew.call("holder")
    for seconds in (30.0, 10.0, 20.0, 5.0, 40.0):
        await crew.call(f"w{seconds:g}", timeout=seconds)
    await crew.call("patient")
    times = (4.9, 5.1, 10.1, 20.1, 30.1, 39.9, 40.1, 1000.0)
    gave_up = [await until(crew, when) for when in times]
    assert gave_up[0] == []
    assert gave_up[-1] == ["w5", "w10", "w20", "w30", "w40"]
    assert [len(each) for each in gave_up] == [0, 1, 2, 3, 4, 4, 5, 5]
    await crew.end("holder")
    assert crew.started == ["holder", "patient"]


async def test_same_time(crew_of: MakeCrew) -> None:
    """C7: all whose time is over give up in one go, in the order of asking."""
    crew = crew_of(max_concurrent=1, queue_timeout=7.0)
    await crew.call("holder", "a", "b", "c")
    assert await until(crew, 7.0) == ["a", "b", "c"]
    assert crew.controller.get_metrics().total_queue_timeout == 3


async def test_default_and_own_timeout(crew_of: MakeCrew) -> None:
    """C7: `timeout=` goes before `queue_timeout`; the message names the seconds that were given."""
    crew = crew_of(max_concurrent=1, queue_timeout=7.0)
    await crew.call("holder", "default")
    await crew.call("longer", timeout=9.0)
    assert await until(crew, 8.0) == ["default"]
    assert await until(crew, 9.0) == ["default", "longer"]
    assert [str(each)[:11] for each in crew.errors.values()] == ["waited 7 s ", "waited 9 s "]
    assert all(isinstance(each, QueueTimeoutError) for each in crew.errors.values())


async def test_first_one_is_cancelled(crew_of: MakeCrew) -> None:
    """C8: the others keep their time, and nothing rings for the one that has left."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await crew.call("holder")
    await crew.call("first", timeout=5.0)
    await crew.call("second", timeout=10.0)
    await crew.cancel("first")
    assert await until(crew, 9.9) == []
    assert await until(crew, 10.0) == ["second"]
    assert crew.controller.get_metrics().total_queue_timeout == 1


async def test_first_one_is_granted(crew_of: MakeCrew) -> None:
    """C7: a call that has its slot in time is left alone."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await crew.call("holder")
    await crew.call("first", timeout=5.0)
    await crew.call("second", timeout=10.0)
    await crew.end("holder")
    assert await until(crew, 20.0) == ["second"]
    assert crew.started == ["holder", "first"]


async def test_sooner_deadline_comes_later(crew_of: MakeCrew) -> None:
    """C7: a call that comes last may have to give up first."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await crew.call("holder")
    await crew.call("long", timeout=100.0)
    await until(crew, 50.0)
    await crew.call("short", timeout=1.0)
    assert await until(crew, 51.0) == ["short"]
    assert await until(crew, 100.0) == ["short", "long"]


async def test_giving_up_lets_others_go(crew_of: MakeCrew) -> None:
    """C16, C7: when a heavy call gives up, those that it kept waiting start in the same moment."""
    crew = crew_of(max_concurrent=2, queue_timeout=None)
    await crew.call("holder")
    await crew.call("heavy", weight=2, timeout=5.0)
    await crew.call("light", timeout=5.0)
    assert await until(crew, 5.0) == ["heavy"]
    assert crew.started == ["holder", "light"]


@pytest.mark.parametrize("how", ["granted", "cancelled", "too late", "closed", "refused"])
async def test_nothing_is_armed_when_nobody_waits(crew_of: MakeCrew, how: str) -> None:
    """C24: no timer outlives those that it is for."""
    crew = crew_of(max_concurrent=1, queue_timeout=60.0, queue_size=2)
    assert not crew.is_timer_set
    await crew.call("holder", "a", "b", "c")
    assert crew.is_timer_set
    if how == "granted":
        await crew.serve(2)
    elif how == "cancelled":
        await crew.cancel("a", "b")
    elif how == "too late":
        await until(crew, 60.0)
    elif how == "closed":
        crew.controller.close()
    else:
        crew.controller.configure(crew.controller.config)
        await crew.cancel("b", "a")
    await crew.turn()
    assert not crew.is_timer_set
    assert not crew.deadlines


async def test_one_timer_for_all(crew_of: MakeCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    """C30: a thousand waiters set one timer, not a thousand."""
    crew = crew_of(max_concurrent=1, queue_size=2000)
    await crew.call("holder")
    armed: list[float] = []
    loop = asyncio.get_running_loop()
    original = loop.call_at

    def count(when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        armed.append(when)
        return original(when, *args, **kwargs)

    monkeypatch.setattr(loop, "call_at", count)
    for number in range(1000):
        crew.begin(f"w{number}", timeout=60.0)
    await crew.turn()
    assert crew.controller.get_metrics().queue_length == 1000
    assert armed == [60.0]


async def test_those_who_left_are_forgotten(crew_of: MakeCrew) -> None:
    """C30: a long wait of one call does not keep the deadlines of all that came and went."""
    crew = crew_of(max_concurrent=1, queue_timeout=3600.0)
    await crew.call("holder", "patient")
    for number in range(500):
        task = crew.begin(f"w{number}")
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
    assert crew.deadlines is not None
    assert len(crew.deadlines) < 200


async def test_configure_keeps_the_deadlines(crew_of: MakeCrew) -> None:
    """C18: those who wait keep the timeout that they came with."""
    crew = crew_of(max_concurrent=1, queue_timeout=10.0)
    await crew.call("holder", "old")
    await crew.configure(max_concurrent=1, queue_timeout=3.0)
    await crew.call("new")
    assert await until(crew, 3.0) == ["new"]
    assert await until(crew, 10.0) == ["new", "old"]


async def test_call_that_goes_on_has_no_deadline(crew_of: MakeCrew) -> None:
    """C23: a parked slot is waited for without a bound: its call runs already."""
    crew = crew_of(max_concurrent=1, queue_timeout=5.0)
    await crew.call("outer")
    crew.controller.park(crew.slots["outer"])
    await crew.call("other")
    task = asyncio.create_task(crew.controller.unpark(crew.slots["outer"]))
    await until(crew, 500.0)
    assert not task.done()
    await crew.end("other")
    assert task.done()
    assert not crew.is_timer_set
