"""Does a task wait for an engine that has its tool, while engines of two versions run?"""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from tests.background.test_restarts import Make, die, live_on, make, work
from tests.background.test_tasks import BOUND, Work
from tool_engine import TaskHandle, ToolEngine

__all__ = ["make", "work"]


def give_tool(*engines: ToolEngine) -> None:
    """Has engines know a tool that only the new version has."""
    for engine in engines:

        @engine.tool(name="fresh")
        async def fresh() -> str:
            """Be new."""
            return "fresh"


async def open_both(old: ToolEngine, new: ToolEngine) -> None:
    """Have both run tasks, and know of each other; the new one takes none yet."""
    new.controller.pause()
    new.tasks.feeding.open()  # type: ignore[attr-defined]
    await new.tasks.feeding.storage.beat(new.tasks.feeding.worker)  # type: ignore[attr-defined]
    old.tasks.feeding.open()  # type: ignore[attr-defined]


async def until_left(engine: ToolEngine) -> None:
    """Wait until an engine has seen a task of a tool that it lacks."""
    async with asyncio.timeout(BOUND):
        while "fresh" not in repr(engine.tasks.feeding.left):  # type: ignore[attr-defined]  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)


async def start_at(engine: ToolEngine, count: int = 1) -> list[TaskHandle]:
    """Start tasks of the new tool, which their engine leaves to others."""
    return [await engine.start("fresh", {}) for _ in range(count)]


async def test_it_waits_for_one_that_has_its_tool(make: Make, work: Work) -> None:
    """One without it leaves it, says so once, and runs what it has."""
    with capture_logs() as lines:
        old, new = await make(), await make(run_tasks=False)
        live_on(old, new)
        give_tool(new)
        await open_both(old, new)
        tasks = await start_at(new, 6)
        await until_left(old)
        other = await old.start("work", {"number": 1})
        work.gate.set()
        assert (await other.wait(BOUND)).is_success
        assert {each.status for each in tasks} == {"queued"}
        shown = await old.tasks.get(tasks[0].id)
        assert "this engine has no such tool, and leaves it to others" in (
            shown.state.message or ""
        )
        new.controller.resume()
        for each in tasks:
            assert (await each.wait(BOUND)).is_success
    assert [each["tool"] for each in lines if each["event"] == "tasks_left"] == ["fresh"]


async def test_it_runs_once_its_tool_is_there(make: Make) -> None:
    """An engine that has the tool by now takes what it has left."""
    old, new = await make(), await make(run_tasks=False)
    live_on(old, new)
    give_tool(new)
    await open_both(old, new)
    (task,) = await start_at(new)
    await until_left(old)
    give_tool(old)
    assert (await task.wait(BOUND)).is_success


async def test_it_ends_where_no_other_engine_lives(make: Make) -> None:
    """The last one ends it, as one does that is alone."""
    old, new = await make(), await make(run_tasks=False)
    give_tool(new)
    await open_both(old, new)
    (task,) = await start_at(new)
    await until_left(old)
    await die(new)
    result = await (await old.tasks.get(task.id)).wait(BOUND)
    assert result.error_type == "tool_not_found"


async def test_it_ends_after_a_while(make: Make) -> None:
    """Nothing is left for ever to engines that may not have the tool either."""
    old, new = await make(), await make(run_tasks=False)
    live_on(old, new)
    give_tool(new)
    old.tasks.feeding.left.patience = 1.0  # type: ignore[attr-defined]
    await open_both(old, new)
    (task,) = await start_at(new)
    result = await task.wait(BOUND)
    assert result.error_type == "tool_not_found"
    assert "or this engine has other tools" in (result.error or "")
