"""What becomes of a task whose event loop ends in the very step in which it is started?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig

BOUND = 20.0


@pytest.mark.parametrize("takes_turn", [False, True], ids=["waits at once", "waits later"])
async def test_a_task_that_never_ran_ends(takes_turn: bool) -> None:
    """The end of a loop cancels all asyncio tasks, also those that have not had their first step.

    The call of a task may have begun before: it has its slot, and its tool waits.
    """
    is_closed, is_known = False, False

    async def toil() -> None:
        nonlocal is_closed
        if not is_known:
            return
        try:
            if takes_turn:
                await asyncio.sleep(0)
            await asyncio.Event().wait()
        finally:
            is_closed = True

    async with ToolEngine(ToolEngineConfig(tools_directory="none")) as engine:
        definition = {"name": "toil", "description": "toils", "parameters": []}
        engine.register_tool(definition, toil)
        # From the first on it is known how it is called, and the next one is begun at once.
        await (await engine.start("toil")).wait()
        is_known, ended = True, []
        engine.subscribe(
            lambda event: ended.append(event.call_id) if event.execution_result else None
        )
        others = asyncio.all_tasks()
        handle = await engine.start("toil")
        if takes_turn:
            await asyncio.sleep(0)
        begun = asyncio.all_tasks() - others
        for task in begun:
            task.cancel()
        result = await asyncio.wait_for(handle.wait(), BOUND)
        assert result.error_type == "engine_closed"
        assert is_closed
        assert engine.controller.get_metrics().current_concurrent == 0
        assert ended == [result.call_id]
        assert len(await engine.query_call_records(tool_name="toil")) == 2
        assert not engine.tasks.feeding.runner.runs  # type: ignore[attr-defined]


async def test_a_task_that_was_never_written_leaves_its_slot(tmp_path: Path) -> None:
    """Neither is the slot of its call lost, nor does a closing engine wait for the database."""
    loop, written = asyncio.get_running_loop(), list[Any]()

    def make_task(_: Any, work: Any, **options: Any) -> Any:
        task = asyncio.Task(work, loop=loop, **options)
        if work.__name__ == "_keep_now":
            written.append(task.cancel())
        return task

    config = ToolEngineConfig(tools_directory="none", records=f"sqlite:///{tmp_path}/kept.db")
    async with ToolEngine(config) as engine:
        definition = {"name": "toil", "description": "toils", "parameters": []}
        engine.register_tool(definition, lambda: None)
        # From the first on it is known how it is called, and the next one is begun at once.
        await (await engine.start("toil")).wait()
        loop.set_task_factory(make_task)
        try:
            with pytest.raises(asyncio.CancelledError):
                await engine.start("toil")
        finally:
            loop.set_task_factory(None)
        assert written
        assert engine.controller.get_metrics().current_concurrent == 0
        # What was asked is answered: there is nothing to wait for.
        unheard = engine.tasks.feeding.unheard  # type: ignore[attr-defined]
        await asyncio.wait_for(unheard.wait_until_heard(10 * BOUND), BOUND)
