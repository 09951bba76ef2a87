"""Which process kept a record, and an event?"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.postgres import PostgresServer
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention

Place = Callable[[], Awaitable[str]]


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/calls.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return await asyncio.to_thread(server.fresh_database)


def make_engine(url: str, folder: Path, process: str | None) -> ToolEngine:
    engine = ToolEngine(
        ToolEngineConfig(tools_directory=str(folder), records=url, process=process, keep_events=100)
    )

    @engine.tool
    async def work(number: int) -> int:
        """Return the number."""
        return number

    return engine


async def test_records_and_events_name_their_process(url: str, tmp_path: Path) -> None:
    for process, calls in (("web-1", 2), ("web-2", 3)):
        async with make_engine(url, tmp_path, process) as engine:
            for number in range(calls):
                await engine.execute("work", {"number": number})
    async with make_engine(url, tmp_path, "reader") as engine:
        records = await engine.store.query_call_records()
        assert [each.process for each in records] == ["web-2"] * 3 + ["web-1"] * 2
        found = await engine.store.query_call_records(process="web-1")
        assert [each.process for each in found] == ["web-1"] * 2
        assert (await engine.store.get_call_statistics(process="web-2"))["total_records"] == 3
        assert (await engine.store.get_call_statistics())["total_records"] == 5
        assert await engine.store.query_call_records(process="web-3") == []
        missed = await engine.find_missed_events([1])
        events = [each async for each in missed.read()]
        ended: list[Any] = [each for each in events if getattr(each, "execution_result", None)]
        assert [each.process for each in ended] == ["web-1"] * 2 + ["web-2"] * 3


async def test_a_process_without_a_name_of_its_own(url: str, tmp_path: Path) -> None:
    """It bears the machine's name and its id."""
    async with make_engine(url, tmp_path, None) as engine:
        await engine.execute("work", {"number": 1})
        (record,) = await engine.store.query_call_records()
    assert record.process == f"{socket.gethostname()}-{os.getpid()}"


async def test_a_name_that_no_database_takes(url: str, tmp_path: Path) -> None:
    async with make_engine(url, tmp_path, "a\0\ud800") as engine:
        await engine.execute("work", {"number": 1})
        (record,) = await engine.store.query_call_records()
        assert record.process == "a\\x00\\ud800"
        (found,) = await engine.store.query_call_records(process="a\0\ud800")
        assert found.record_id == record.record_id


async def test_engines_without_records_are_forgotten(url: str, tmp_path: Path) -> None:
    """The name of one goes with its last record; one that is at work is named again."""
    keep_one = RecordRetention(max_count=1)
    async with make_engine(url, tmp_path, "old") as engine:
        await engine.execute("work", {"number": 1})
    async with make_engine(url, tmp_path, "new") as engine:
        await engine.execute("work", {"number": 1})
        await engine.store.query_call_records()
        # A call of this moment may still be written by another process.
        await engine.store.prune(keep_one)
        assert [each.process for each in await engine.store.query_call_records()] == ["new"]
        await engine.execute("work", {"number": 2})
        records = await engine.store.query_call_records()
        assert [each.process for each in records] == ["new", "new"]


async def test_records_that_were_made_elsewhere(url: str, tmp_path: Path) -> None:
    """As they come from another database."""
    async with make_engine(f"sqlite:///{tmp_path}/other.db", tmp_path, "web-1") as engine:
        await engine.execute("work", {"number": 1})
        (record,) = await engine.store.query_call_records()
    storage = SQLRecordStorage(url)
    await storage.open()
    storage.add(record)
    storage.add(msgspec.structs.replace(record, record_id="mine", call_id="x", process="y"))
    records = await storage.query(RecordQuery())
    await storage.close()
    assert sorted(str(each.process) for each in records) == ["None", "web-1"]


async def test_records_in_memory(tmp_path: Path) -> None:
    config = ToolEngineConfig(tools_directory=str(tmp_path), process="web-1")
    async with ToolEngine(config) as engine:
        await engine.execute("unknown")
        (record,) = await engine.store.query_call_records(process="web-1")
        assert record.process == "web-1"
        assert await engine.store.query_call_records(process="web-2") == []
