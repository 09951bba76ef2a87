"""How does a call end whose tool goes away while it waits?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sources_of_tools import ListSource, definition
from tool_engine import (
    ConcurrencyConfig,
    QueueApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionError,
    ToolSession,
)
from tool_engine.model.tool import Tool

pytestmark = pytest.mark.timeout(60)
FIELDS: dict[str, dict[str, Any]] = {
    "asking": {"permission": "ask_always"},
    "queued": {},
    "pausing": {"idempotent": True, "retry": {"attempts": 9, "backoff": 30}, "timeout": 600},
}
CALLER = ToolExecutionContext(max_retries=9)


class Failing(ListSource):
    """Its tools fail, but for `hold`, which runs until it is let go."""

    def __init__(self) -> None:
        super().__init__("own:x")
        self.go_on = asyncio.Event()
        self.runs = 0

    async def execute(self, tool: Tool, params: dict[str, Any], context: Any) -> Any:
        if tool.name == "hold":
            return await self.go_on.wait()
        self.runs += 1
        raise ToolExecutionError("not today")


class World:
    """An engine with one slot, and what leaves it."""

    def __init__(self, folder: Path) -> None:
        self.queue = QueueApprover()
        self.source = Failing()
        config = ToolEngineConfig(
            tools_directory=str(folder),
            auto_reload=False,
            concurrency=ConcurrencyConfig(max_concurrent=1),
        )
        self.engine = ToolEngine(config, approver=self.queue)

    async def begin_call(self, name: str, state: str) -> asyncio.Task[Any]:
        """Make a call, and wait until it is in a state."""
        task = asyncio.create_task(self.engine.execute(name, {}, CALLER))
        while state not in [each.state for each in await self.engine.calls.list()]:
            assert not task.done(), task.result()
            await asyncio.sleep(0)
        while state == "asking" and not self.queue.pending_approvals:  # noqa: ASYNC110 - soon
            await asyncio.sleep(0)
        return task


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    async with asyncio.timeout(50), made.engine:
        yield made


async def remove_source(world: World, path: Path) -> None:
    del path
    await world.engine.remove_source(world.source)


async def list_it_no_more(world: World, path: Path) -> None:
    del path
    world.source.items = world.source.items[:1]
    await world.engine.reload()


async def delete_its_file(world: World, path: Path) -> None:
    await asyncio.to_thread(path.unlink)
    await world.engine.reload()


WAYS: dict[str, Callable[[World, Path], Any]] = {
    "its source is removed": remove_source,
    "its source has it no more": list_it_no_more,
    "its file is deleted": delete_its_file,
}


@pytest.mark.parametrize("state", FIELDS)
@pytest.mark.parametrize("way", WAYS)
async def test_it_ends_at_once(world: World, tmp_path: Path, way: str, state: str) -> None:
    """It does not wait for an answer, a slot or an attempt that could change nothing."""
    world.source.items = [definition("hold"), definition("leaves", **FIELDS[state])]
    path = tmp_path / "leaves.yaml"
    if way == "its file is deleted":
        world.source.items = [definition("hold")]
        path.write_text(
            str(definition("leaves", entry={"type": "builtin", "handler": "own"}, **FIELDS[state]))
        )
        world.engine.register_executor("own", world.source)
        await world.engine.reload()
    await world.engine.add_source(world.source)
    holding = await world.begin_call("hold", "running") if state == "queued" else None
    call = await world.begin_call("leaves", state)
    await WAYS[way](world, path)
    result = await call
    if state == "pausing":
        # It has run: the caller hears how, and not that there is no such tool.
        assert (result.error_type, result.error) == ("execution_error", "not today")
        assert world.source.runs == result.metadata["attempts"] == 1
    else:
        said = "the tool 'leaves' was removed while the call waited; call it again once it is back"
        assert (result.error_type, result.error) == ("tool_not_found", said)
    assert world.queue.pending_approvals == []
    if holding is not None:
        world.source.go_on.set()
        assert (await holding).is_success, "what runs goes on"
    metrics = world.engine.controller.snapshot().metrics
    assert (metrics.active, metrics.queue_length) == (0, 0)
    assert await world.engine.calls.list() == []


async def test_a_tool_that_leaves_while_it_runs_is_not_tried_again(world: World) -> None:
    source = world.source
    source.items = [definition("leaves", **FIELDS["pausing"])]
    await world.engine.add_source(source)

    async def leave(tool: Tool, params: dict[str, Any], context: Any) -> Any:
        await world.engine.remove_source(source)
        raise ToolExecutionError("not today")

    source.execute = leave  # type: ignore[method-assign]
    result = await world.engine.execute("leaves", {}, CALLER)
    assert (result.error, result.metadata["attempts"]) == ("not today", 1)


async def test_the_others_wait_on(world: World) -> None:
    """A change of another tool ends no wait, and no question is asked anew."""
    world.source.items = [definition("stays", permission="ask_always"), definition("leaves")]
    await world.engine.add_source(world.source)
    call = await world.begin_call("stays", "asking")
    (asked,) = world.queue.pending_approvals
    await list_it_no_more(world, Path())
    assert world.engine.get("leaves") is None
    world.queue.refuse(asked.token, "no")
    assert (await call).error_type == "execution_rejected"


async def test_a_session_hears_of_it_too(world: World) -> None:
    """The question of a conversation leaves with the tool."""
    world.source.items = [definition("hold"), definition("leaves", permission="ask_always")]
    await world.engine.add_source(world.source)
    session = ToolSession(world.engine, "s", approver=world.queue)
    call = asyncio.create_task(session.execute("leaves", {}))
    while not world.queue.pending_approvals:  # noqa: ASYNC110 - soon
        await asyncio.sleep(0)
    await list_it_no_more(world, Path())
    assert (await call).error_type == "tool_not_found"
    assert world.queue.pending_approvals == []


async def test_those_that_would_share_its_run_end_too(world: World) -> None:
    shared = {"effect": "read", "concurrency": {"collision": "single_flight", "key": "tool"}}
    world.source.items = [definition("hold"), definition("leaves", **shared)]
    await world.engine.add_source(world.source)
    holding = await world.begin_call("hold", "running")
    calls = [await world.begin_call("leaves", state) for state in ("queued", "sharing")]
    await list_it_no_more(world, Path())
    assert [(await each).error_type for each in calls] == ["tool_not_found"] * 2
    assert not holding.done()
    world.source.go_on.set()
    await holding
    assert world.engine.controller.snapshot().metrics.active == 0
