"""What is said of a task whose tool is removed, changed or withdrawn while it waits?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.background.test_tasks import BOUND, until
from tool_engine import (
    ConcurrencyConfig,
    QueueApprover,
    TaskHandle,
    ToolEngine,
    ToolEngineConfig,
)

SEEN: Final = r" \(seen at \d+-\d\d-\d\d \d\d:\d\d:\d\d UTC\)"
GONE: Final = (
    rf"the tool 'work' was removed {{since}}{SEEN}{{others}}; put it back, and start it again"
)
CHANGED: Final = rf"the definition of 'work' has changed {{since}}{SEEN}; start it again"
OTHERS: Final = ", or this engine has other tools"
WORK: Final = """
name: work
description: works
timeout: {timeout}
permission: {permission}
entry: {{type: builtin, handler: worker}}
"""


async def until_so(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not is_so():  # noqa: ASYNC110 - several things may change it
            await asyncio.sleep(0.005)


class House:
    """An engine with one slot, whose tool `work` is a file."""

    def __init__(self, folder: Path, records: str | None) -> None:
        self.folder = folder
        self.approver = QueueApprover()
        self.gate = asyncio.Event()
        self.ran: list[int] = []
        config = ToolEngineConfig(
            tools_directory=str(folder),
            auto_reload=False,
            records=records,
            close_timeout=0.2,
            lock="enforce",
        )
        limits = ConcurrencyConfig(max_concurrent=1)
        self.engine = ToolEngine(config, concurrency=limits, approver=self.approver)
        self.engine.register_executor("worker", self)

    async def execute(self, tool: Any, params: Any, context: Any) -> Any:
        self.ran.append(int(tool.timeout))
        await self.gate.wait()
        return {}

    async def write(self, *, asks: bool = False, seconds: int = 30) -> None:
        permission = "ask_always" if asks else "auto"
        text = WORK.format(timeout=seconds, permission=permission)
        await asyncio.to_thread((self.folder / "work.yaml").write_text, text)
        await self.load()

    async def remove(self) -> None:
        await asyncio.to_thread((self.folder / "work.yaml").unlink)
        await self.load()

    async def withdraw(self) -> None:
        """Take the approval of the tool back."""
        await asyncio.to_thread((self.folder.parent / "tools.lock").write_text, "format = 1\n")
        await self.engine.reload()

    async def load(self) -> None:
        await self.engine.reload()
        await self.engine.lock_tools()

    async def start_in(self, where: str) -> TaskHandle:
        """Start a task, and wait until it waits: for consent, in line, or where it is kept."""
        await self.write(asks=where == "asking")
        count = {"asking": 1, "in line": 2, "kept": 9}[where]
        handle = [await self.engine.start("work") for _ in range(count)][-1]
        if where == "asking":
            await until(handle, "input_required")
        await until_so(lambda: (handle.state.call_id is None) is (where == "kept"))
        return handle


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    records = None if request.param == "memory" else f"sqlite:///{tmp_path / 'kept.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        records = await asyncio.to_thread(server.emptied_database)
    folder = tmp_path / "tools"
    await asyncio.to_thread(folder.mkdir)
    made = House(folder, records)
    async with asyncio.timeout(60), made.engine:
        yield made


async def check_end(house: House, handle: TaskHandle, error_type: str, words: str) -> None:
    """Look at what all who ask for it are shown: the same words everywhere, and no slot left."""
    result = await handle.wait(BOUND)
    assert result.error_type == error_type
    assert re.fullmatch(words, result.error or ""), result.error
    assert handle.state.message == result.error
    (record,) = await house.engine.query_call_records(task_id=handle.id)
    assert (record.error_type, record.error) == (error_type, result.error)
    assert house.approver.pending_approvals == []
    house.gate.set()
    await until_so(lambda: not house.engine.controller.get_metrics().active)


SINCE: Final = {
    "asking": "while the task waited for consent",
    "in line": "while the task waited",
    "kept": "since the task was started",
}


@pytest.mark.parametrize("where", SINCE)
async def test_removed(house: House, where: str) -> None:
    """It is said that the tool was removed, when that was seen, and what to do."""
    handle = await house.start_in(where)
    await house.remove()
    if where == "kept":
        house.gate.set()
    words = GONE.format(since=SINCE[where], others=OTHERS if where == "kept" else "")
    await check_end(house, handle, "tool_not_found", words)


async def test_the_cure_of_one_that_was_removed(house: House) -> None:
    handle = await house.start_in("asking")
    await house.remove()
    await handle.wait(BOUND)
    await house.write()
    house.gate.set()
    assert (await (await house.engine.start("work")).wait(BOUND)).is_success


@pytest.mark.parametrize("where", ["asking", "kept"])
async def test_changed(house: House, where: str) -> None:
    """It ends, and no one is asked about another definition, which would not run."""
    handle = await house.start_in(where)
    await house.write(asks=where == "asking", seconds=20)
    if where == "kept":
        house.gate.set()
    await check_end(house, handle, "execution_rejected", CHANGED.format(since=SINCE[where]))
    assert 20 not in house.ran


async def test_changed_in_line(house: House) -> None:
    """What asks for its slot runs the definition that it was started with."""
    handle = await house.start_in("in line")
    await house.write(seconds=20)
    house.gate.set()
    assert (await handle.wait(BOUND)).is_success
    assert house.ran == [30, 30]


@pytest.mark.parametrize("where", ["in line", "kept"])
async def test_changed_and_put_back(house: House, where: str) -> None:
    """What waits while a change is rolled back has not ended of it."""
    handle = await house.start_in(where)
    was = house.engine.generation
    await house.write(seconds=20)
    await house.engine.rollback(was)
    await house.engine.lock_tools()
    house.gate.set()
    assert (await handle.wait(BOUND)).is_success
    assert set(house.ran) == {30}


@pytest.mark.parametrize("where", SINCE)
async def test_withdrawn(house: House, where: str) -> None:
    """Of a tool that is there, and not approved, it is not said that it was removed."""
    handle = await house.start_in(where)
    await house.withdraw()
    house.gate.set()
    for request in house.approver.pending_approvals:
        house.approver.allow(request.token)
    words = "the tool 'work' is quarantined: it is not in .*; read it, then `tool-engine lock .*`"
    await check_end(house, handle, "tool_quarantined", words)
