"""What becomes of a task that is cancelled, in whichever state, through whichever door?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.mcp_server.tasks.test_client_tasks import connect, send
from tests.server.conftest import Client, served, write_tokens
from tests.warm_async import start
from tool_engine import (
    ConcurrencyConfig,
    QueueApprover,
    TaskHandle,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
)
from tool_engine.background.places import EACH
from tool_engine.mcp_server import MCPServer
from tool_engine.server import create_app

BOUND = 120.0
STATES = ("waits", "asks for a slot", "asks for consent", "runs", "has ended")


class Place(NamedTuple):
    """An engine, and its doors."""

    engine: ToolEngine
    ann: Client
    mcp: Any
    records: str | None
    ends: list[ToolEngineEvent]
    """The final events."""


async def by_handle(place: Place, task_id: str) -> bool:
    return await (await place.engine.tasks.get(task_id)).cancel("enough")


async def by_tasks(place: Place, task_id: str) -> bool:
    return await place.engine.tasks.cancel(task_id, "ann", reason="enough")


async def by_http(place: Place, task_id: str) -> bool:
    answer = await place.ann.send("DELETE", f"/v1/tasks/{task_id}?reason=enough")
    return bool(answer.json["is_cancelled"])


async def by_mcp(place: Place, task_id: str) -> bool:
    before = (await place.engine.tasks.get(task_id)).state
    assert await send(place.mcp, "tasks/cancel", task_id) == {"resultType": "complete"}
    return not before.is_final


async def by_command(place: Place, task_id: str) -> bool:
    words = ("task", "cancel", task_id, "--reason", "enough", "--json")
    program = await start("-m", "tool_engine.cli", *words, "--records", str(place.records))
    program.stdin.close()
    return bool(json.loads(await program.stdout.read())["cancelled"])


DOORS: tuple[Callable[[Place, str], Awaitable[bool]], ...] = (
    *(by_handle, by_tasks, by_http, by_mcp, by_command),
)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if request.param == "memory":
        return None
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/kept.db"
    server = request.getfixturevalue("postgres_server")
    return str(await asyncio.to_thread(server.emptied_database))


@asynccontextmanager
async def open_place(folder: Path, records: str | None) -> AsyncIterator[Place]:
    config = ToolEngineConfig(
        tools_directory=str(folder), auto_reload=False, records=records, close_timeout=1.0
    )
    limits = ConcurrencyConfig(max_concurrent=1)
    async with asyncio.timeout(BOUND), AsyncExitStack() as stack:
        engine = ToolEngine(config, concurrency=limits, approver=QueueApprover())
        await stack.enter_async_context(engine)
        await engine.load()
        never = asyncio.Event()

        for name, keys in (("work", {}), ("ask", {"permission": "ask_always"})):
            engine.register_tool({"name": name, "description": "Waits", **keys}, never.wait)
        engine.register_tool({"name": "quick", "description": "Ends"}, lambda: 1)
        ends: list[ToolEngineEvent] = []
        engine.subscribe(lambda event: ends.append(event) if event.execution_result else None)
        tokens = await asyncio.to_thread(write_tokens, folder / "tokens.json")
        app = await asyncio.to_thread(create_app, engine, auth=str(tokens))
        service = await stack.enter_async_context(served(app))
        mcp = await stack.enter_async_context(connect(MCPServer(engine, principal="ann")))
        yield Place(engine, service.client("ann"), mcp, records, ends)


async def bring(engine: ToolEngine, state: str) -> TaskHandle:
    """Start a task, and wait until it is in a state."""
    name = {"asks for consent": "ask", "has ended": "quick"}.get(state, "work")
    handle = await engine.start(name, {}, ToolExecutionContext("ann"))

    def is_there() -> bool:
        return {
            "waits": handle.status == "queued",
            "asks for a slot": handle.state.call_id is not None,
            "asks for consent": handle.status == "input_required",
            "runs": handle.status == "running",
            "has ended": handle.state.is_final,
        }[state]

    while not is_there():  # noqa: ASYNC110 - several things may change it
        await asyncio.sleep(0.01)
    return handle


@pytest.mark.parametrize("state", STATES)
async def test_one_end_and_one_record(tmp_path: Path, records: str | None, state: str) -> None:
    """Each door says whether it had ended; it ends once, as cancelled, and holds nothing."""
    async with open_place(tmp_path, records) as place:
        await cancel_at_each_door(place, state)


async def cancel_at_each_door(place: Place, state: str) -> None:
    engine = place.engine
    if state in ("waits", "asks for a slot"):
        before = 1 + (EACH if state == "waits" else 0)
        others = [await engine.start("work") for _ in range(before)]
        while others[0].status != "running":  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    is_over = state == "has ended"
    for door in DOORS:
        if door is by_command and place.records is None:
            continue
        handle = await bring(engine, state)
        assert await door(place, handle.id) is not is_over, door
        result = await handle.wait()
        assert (result.error_type, handle.status) == (
            (None, "succeeded") if is_over else ("cancelled", "cancelled")
        )
        if not is_over:
            assert str(handle.state.message).startswith("the task was cancelled: "), door
        assert not await door(place, handle.id), door
        records = await engine.query_call_records(task_id=handle.id)
        assert [each.call_id for each in records] == [handle.state.call_id], door
        ends = [each for each in place.ends if each.data.get("task_id") == handle.id]
        # What has not been taken is ended by the command itself.
        assert len(ends) == (0 if door is by_command and state == "waits" else 1), door
        assert (await engine.tasks.get(handle.id)).state.result is not None
    metrics = engine.controller.get_metrics()
    assert (metrics.active, metrics.queue_length) == (
        {"waits": (1, EACH), "asks for a slot": (1, 0)}.get(state, (0, 0))
    )
    assert await engine.approvals.pending() == []
