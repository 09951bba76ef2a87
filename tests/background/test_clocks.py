"""What becomes of tasks when the clocks of programs differ, or are set?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.background.test_restarts import live_on, make
from tests.background.test_tasks import BOUND, Make, Work, until, work
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.knowledge import shared_clock
from tool_engine.knowledge.sql.connection import shared_time

__all__ = ["make", "work"]

pytestmark = pytest.mark.usefixtures("work")
SHIFTS = [timedelta(hours=-5), timedelta(hours=5)]


def shift_clock(monkeypatch: pytest.MonkeyPatch, shift: timedelta) -> None:
    """Sets the clock that programs read from now on."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + shift

    class ShiftedTime:
        @staticmethod
        def time() -> float:
            return (datetime.now(UTC) + shift).timestamp()

    monkeypatch.setattr(shared_clock, "datetime", Shifted)
    monkeypatch.setattr(shared_time, "time", ShiftedTime)


def seconds_left(engine: ToolEngine, state: Any) -> float:
    left: float = (state.expires_at - engine.tasks.read_clock()).total_seconds()
    return left


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shift", SHIFTS, ids=["behind", "ahead"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
async def test_clocks_that_differ(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch, shift: timedelta, is_first: bool
) -> None:
    """Two programs whose clocks differ by hours end no task of the other early, and none late."""
    engines = []
    for is_now in (True, False):
        if is_now is is_first:
            shift_clock(monkeypatch, shift)
        engines.append(await make())
        live_on(engines[-1])
        engines[-1].tasks.open()
        long = await engines[-1].start("work", {"number": len(engines)}, ttl=3600)
        async with asyncio.timeout(BOUND):
            # Whichever engine has it.
            while (await long.refresh()).status != "running":  # noqa: ASYNC110 - another engine's
                await asyncio.sleep(0.02)
        engines[-1].longest = long  # type: ignore[attr-defined]
        monkeypatch.undo()
    started = [await each.start("work", {"number": 9}, ttl=1800) for each in engines]
    for each in engines:
        for _ in range(2):
            await each.tasks.feeding._look_around()  # type: ignore[attr-defined]
        for handle in started:
            found = await each.tasks.get(handle.id)
            assert not found.state.is_final
            assert 1700 < seconds_left(each, found.state) < 1810
    for each in engines:
        assert (await each.longest.refresh()).status == "running"  # type: ignore[attr-defined]
        short = await each.start("work", {"number": 8}, ttl=0.5)
        assert (await short.wait(BOUND)).error_type == "timeout"
    work.gate.set()
    for handle in started:
        assert (await handle.wait(BOUND)).is_success


async def check_set_clock(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch, shift: timedelta
) -> None:
    """Sets the clock while a task runs, which goes on."""
    handle = await engine.start("work", {"number": 1}, ttl=30)
    await until(handle, "running")
    before = engine.tasks.read_clock()
    shift_clock(monkeypatch, shift)
    await engine.tasks.feeding._look_around()  # type: ignore[attr-defined]
    assert abs((engine.tasks.read_clock() - before).total_seconds()) < 20
    assert handle.status == "running"


@pytest.mark.parametrize("shift", SHIFTS, ids=["behind", "ahead"])
async def test_a_clock_that_is_set(
    make: Make, monkeypatch: pytest.MonkeyPatch, shift: timedelta
) -> None:
    """A clock that jumps by hours neither ends a task nor keeps one."""
    engine = await make()
    await check_set_clock(engine, monkeypatch, shift)


@pytest.mark.parametrize("shift", SHIFTS, ids=["behind", "ahead"])
async def test_a_clock_that_is_set_beside_memory(
    work: Work, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, shift: timedelta
) -> None:
    """The same without a database."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        work.add_to(engine)
        await check_set_clock(engine, monkeypatch, shift)
        short = await engine.start("work", {"number": 2}, ttl=0.2)
        assert (await short.wait(BOUND)).error_type == "timeout"
        work.gate.set()  # else the end waits for those that run


async def test_where_the_machine_does_not_say_when_it_started(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then each program goes on from the time that it found at its start."""
    monkeypatch.setattr(shared_time, "find_boot", lambda: None)
    engine = await make()
    work.gate.set()
    handle = await engine.start("work", {"number": 1})
    assert (await handle.wait(BOUND)).is_success
    assert abs((engine.tasks.read_clock() - datetime.now(UTC)).total_seconds()) < 20


async def test_an_engine_learns_that_it_was_taken_for_dead(make: Make, work: Work) -> None:
    """It ends what it ran at its next look, and says of the task what the database says."""
    first, second = await make(), await make()
    handle = await first.start("work", {"number": 1})
    await work.until_ran(1)
    heir, feeding = second.tasks.feeding, first.tasks.feeding  # type: ignore[attr-defined]
    second.tasks.open()
    for kept in await heir.storage.inherit(feeding.worker, heir.worker):
        await heir._take_over(kept)
    assert not await first.tasks.cancel(handle.id)
    assert (handle.status, handle.result.error_type) == ("failed", "worker_lost")  # type: ignore[union-attr]
    assert feeding.runner.runs == {}


async def test_the_next_look_of_an_engine_that_was_taken_for_dead(make: Make, work: Work) -> None:
    """The tool of a task that another engine has ended does not run on."""
    first, second = await make(), await make()
    handle = await first.start("work", {"number": 1})
    await work.until_ran(1)
    heir, feeding = second.tasks.feeding, first.tasks.feeding  # type: ignore[attr-defined]
    second.tasks.open()
    waiting = asyncio.ensure_future(handle.wait(BOUND))
    for kept in await heir.storage.inherit(feeding.worker, heir.worker):
        await heir._take_over(kept)
    await feeding._look_around()
    assert (await waiting).error_type == "worker_lost"
    assert feeding.runner.runs == {}
    assert first.controller.get_metrics().active == 0
    (listed,) = await first.tasks.list()
    assert listed.status == "failed"
