"""Is a task whose time is over gone at once, though it is removed some seconds later?"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from tests.background.test_resting import Make, make, work  # noqa: F401 - fixtures
from tests.background.test_tasks import BOUND, Work
from tool_engine import (
    TaskConflictError,
    TaskHandle,
    TaskNotFoundError,
    ToolEngine,
    ToolExecutionContext,
)

ANN = ToolExecutionContext("ann")


@pytest.fixture
async def engine(make: Make, work: Work, monkeypatch: pytest.MonkeyPatch) -> ToolEngine:  # noqa: F811 - a fixture
    """One that removes nothing, as between two looks."""
    made = await make()
    work.gate.set()

    async def remove_none(now: datetime) -> int:
        return 0

    storage = made.tasks.feeding.storage  # type: ignore[attr-defined]
    monkeypatch.setattr(storage, "remove_expired", remove_none)
    return made


async def end(engine: ToolEngine, number: int, **options: Any) -> TaskHandle:
    handle = await engine.start("work", {"number": number}, ANN, **options)
    assert (await handle.wait(BOUND)).is_success
    return handle


def pass_time(engine: ToolEngine, seconds: float) -> None:
    """Sets the clock of the tasks on."""
    engine.tasks._clock._began += seconds  # type: ignore[attr-defined]


async def test_what_is_over_is_not_there(engine: ToolEngine) -> None:
    """Neither by its id nor in lists, whose pages are as long as ever."""
    old = [await end(engine, each, ttl=60) for each in range(2)]
    new = [await end(engine, each, ttl=600) for each in range(3)]
    old.append(await end(engine, 9, ttl=60))
    assert len(await engine.tasks.list("ann")) == 6
    pass_time(engine, 61)
    for each in old:
        with pytest.raises(TaskNotFoundError):
            await engine.tasks.get(each.id, "ann")
        with pytest.raises(TaskNotFoundError):
            await engine.tasks.cancel(each.id)
        with pytest.raises(TaskNotFoundError):
            await engine.tasks.list("ann", after=each.id)
    ids = [each.id for each in reversed(new)]
    assert [each.id for each in await engine.tasks.list("ann", limit=2)] == ids[:2]
    found = await engine.tasks.list("ann", after=ids[1], status="succeeded", results=True)
    assert [each.id for each in found] == ids[2:]


@pytest.mark.parametrize("owner", ["ann", None])
async def test_its_key_is_free(engine: ToolEngine, work: Work, owner: str | None) -> None:  # noqa: F811 - a fixture
    """After its time the same request runs again, and another one is no conflict."""
    context = ToolExecutionContext(owner)

    async def start(number: int) -> TaskHandle:
        asked = {"number": number}
        handle = await engine.start("work", asked, context, ttl=86_400, idempotency_key="k")
        await handle.wait(BOUND)
        return handle

    first = await start(1)
    pass_time(engine, 86_399)
    assert (await start(1)).id == first.id
    with pytest.raises(TaskConflictError):
        await start(2)
    pass_time(engine, 2)
    again = await asyncio.gather(*(start(1) for _ in range(5)))
    assert len({each.id for each in again}) == 1
    assert again[0].id != first.id
    assert work.ran == [1, 1]
    pass_time(engine, 86_401)
    assert (await start(2)).id not in (first.id, again[0].id)


async def test_one_that_waits_past_its_time(engine: ToolEngine) -> None:
    """Until an engine looks it waits, and it is said that it will end."""
    engine.controller.pause()
    handle = await engine.start("work", {"number": 1}, ANN, ttl=60)
    pass_time(engine, 61)
    said = "its ttl is over: it ends as soon as an engine that runs tasks looks"
    state = await handle.refresh()
    assert state.status == "timeout" or state.message == said
    engine.controller.resume()
    assert (await handle.wait(BOUND)).error_type == "timeout"
