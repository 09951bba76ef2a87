"""What becomes of tasks while their engine gives no slots: paused, drained, or about to end?"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.background.test_tasks import BOUND, Work, until
from tool_engine import (
    ConcurrencyConfig,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)

Make = Callable[[], Awaitable[ToolEngine]]
WAYS: dict[str, Callable[[ToolEngine], object]] = {
    "paused": lambda engine: engine.controller.pause(),
    "draining": lambda engine: asyncio.ensure_future(engine.controller.drain(BOUND)),
    "about to end": lambda engine: engine.tasks.rest(),
}


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def make(request: pytest.FixtureRequest, tmp_path: Path, work: Work) -> AsyncIterator[Make]:
    made: list[ToolEngine] = []
    records = None if request.param == "memory" else f"sqlite:///{tmp_path / 'kept.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        records = await asyncio.to_thread(server.emptied_database)

    async def make_one() -> ToolEngine:
        config = ToolEngineConfig(
            tools_directory="none", auto_reload=False, records=records, close_timeout=0.5
        )
        engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=1))
        made.append(engine)
        work.add_to(engine)
        await engine.load()
        engine.tasks.open()
        return engine

    yield make_one
    for engine in made:
        await engine.close()


def count_statements(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what an engine asks its storage that gives a task to it, or takes it back."""
    storage, counts = engine.tasks.feeding.storage, Counter[str]()  # type: ignore[attr-defined]

    def counted(name: str) -> Any:
        ask = getattr(storage, name)

        async def count(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            if name == "give_back":
                counts[f"{name} {args[0].state.id}"] += 1
            return await ask(*args, **options)

        return count

    for name in ("claim", "give_back", "take"):
        monkeypatch.setattr(storage, name, counted(name))
    return counts


@pytest.mark.parametrize("way", WAYS)
async def test_what_waits_goes_on_waiting(
    make: Make, work: Work, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither ends nor is asked for again and again; new ones wait, and it is said why."""
    engine = await make()
    handles = [await engine.start("work", {"number": each}) for each in range(9)]
    await work.until_ran(1)
    await until(handles[0], "running")
    counts = count_statements(engine, monkeypatch)
    kept = WAYS[way](engine)
    work.gate.set()
    await handles[0].wait(BOUND)
    handles.append(await engine.start("work", {"number": 9}))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert counts == {}
    state = await handles[9].refresh()
    said = rf"number \d of the tasks .*; this engine is {way}, and takes none of them"
    assert re.fullmatch(said, state.message or ""), state
    assert {(await each.refresh()).status for each in handles} <= {"queued", "running", "succeeded"}
    if way != "about to end":
        engine.controller.resume()
        assert all([(await each.wait(BOUND)).is_success for each in handles])
        assert sorted(work.ran) == list(range(10))
    del kept


async def test_one_that_comes_to_its_slot_in_a_drain(make: Make, work: Work) -> None:
    """Who was taken, or allowed, meanwhile waits on, and does not begin anew."""
    engine = await make()
    feeding = engine.tasks.feeding  # type: ignore[attr-defined]
    work.gate.set()
    engine.controller.pause()
    handle = await engine.start("work", {"number": 1})
    assert await engine.controller.drain(BOUND)
    assert await feeding.take_queued(handle.id)
    for _ in range(20):
        await asyncio.sleep(0.01)
    state = await handle.refresh()
    assert state.status == "queued"
    assert "draining" in str(state.message)
    engine.controller.resume()
    assert (await handle.wait(BOUND)).is_success
    assert work.ran == [1]


async def test_another_engine_takes_them(make: Make, work: Work) -> None:
    """What waits at a paused engine runs at one that is not, and no wait is promised too short."""
    work.gate.set()
    engine, other = await make(), await make()
    if not engine.tasks.feeding.storage.is_shared:  # type: ignore[attr-defined]
        return
    engine.controller.pause()
    handle = await engine.start("work", {"number": 1}, ToolExecutionContext("ann"))
    assert (await handle.wait(BOUND)).is_success
    assert other.controller.get_metrics().total_acquired == 1


async def test_closing_asks_for_none(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While what runs gets its time to end, nothing is taken and given back."""
    engine = await make()
    handles = [await engine.start("work", {"number": each}) for each in range(9)]
    await work.until_ran(1)
    await until(handles[0], "running")
    while not engine.controller.get_metrics().queue_length:  # noqa: ASYNC110 - soon
        await asyncio.sleep(0.001)
    counts = count_statements(engine, monkeypatch)
    await engine.close()
    assert counts["claim"] <= 2
    back = [each for each in counts if each.startswith("give_back ")]
    assert len(back) == counts["give_back"], "a task was given back twice"


async def test_what_is_being_asked_for_is_not_given_back_first(
    make: Make, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question that is under way as an engine closes would take it once more."""
    engine = await make()
    storage = engine.tasks.feeding.storage  # type: ignore[attr-defined]
    if not storage.is_shared:
        return
    counts, claim = count_statements(engine, monkeypatch), storage.claim
    handles = [await engine.start("work", {"number": each}) for each in range(9)]
    async with asyncio.timeout(BOUND):
        while engine.controller.get_metrics().queue_length < 4:  # noqa: ASYNC110 - soon
            await asyncio.sleep(0.001)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def wait_and_claim(*args: Any, **options: Any) -> Any:
        asked.set()
        await answer.wait()
        return await claim(*args, **options)

    monkeypatch.setattr(storage, "claim", wait_and_claim)
    for each in handles[1:3]:
        await each.cancel()  # their places are free
    async with asyncio.timeout(BOUND):
        await asked.wait()
    closing = asyncio.create_task(engine.close())
    with suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            while not counts["give_back"]:  # noqa: ASYNC110 - it never comes
                await asyncio.sleep(0.01)
    answer.set()
    await closing
    back = [each for each in counts if each.startswith("give_back ")]
    assert len(back) == counts["give_back"] > 0


class ClosedAtNight(ToolConcurrencyController):
    """A controller of a program's own, which says itself when it is shut."""

    why: str | None = "closed for the night"

    def explain_shut(self) -> str | None:
        return self.why


async def test_a_controller_of_the_programs_own(tmp_path: Path, work: Work) -> None:
    """It is asked, too: `AdmissionController.explain_shut`."""
    own = ClosedAtNight(ConcurrencyConfig(max_concurrent=1))
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config, controller=own) as engine:
        work.add_to(engine)
        work.gate.set()
        handle = await engine.start("work", {"number": 1})
        state = await handle.refresh()
        assert "this engine is closed for the night, and takes none of them" in str(state.message)
        own.why = None
        assert (await handle.wait(BOUND)).is_success
