"""Do connections of one process that write a file wait for one another in turn?"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.knowledge.sql import reader
from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.connection.grouping import Change
from tool_engine.knowledge.sql.connection.turns import identify_file, take_turn, turn_of
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.sql.writing import sqlite as writing
from tool_engine.knowledge.sql.writing.sqlite import SQLiteDatabase
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.settings.retention import RecordRetention

BOUND = 20.0
BUSY_WAIT = 0.05
INSERT: tuple[str, Any] = ("INSERT INTO tool_event_numbers (id, reserved) VALUES (1, 7)", {})


async def test_a_writer_waits_however_long_another_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its turn, and not for a moment in which it finds the file free."""
    monkeypatch.setattr(writing, "_BUSY_WAIT", BUSY_WAIT)
    address = Address.of(f"sqlite:///{tmp_path}/kept.db")
    databases = [SQLiteDatabase(address, is_synchronous=False) for _ in range(2)]
    for each in databases:
        await each.open()
    begun, gate = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        gate.wait(BOUND)

    holding = asyncio.create_task(asyncio.to_thread(databases[0]._commit_work, hold))
    assert await asyncio.to_thread(begun.wait, BOUND)
    changing = asyncio.create_task(asyncio.to_thread(databases[1].change, [Change([INSERT])]))
    done, _ = await asyncio.wait([changing], timeout=10 * BUSY_WAIT)
    gate.set()
    await holding
    await changing
    assert not done
    for each in databases:
        await each.close()


async def save_session(storage: SQLRecordStorage) -> None:
    await storage.sessions.save("one", {"messages": []})


async def ask_person(storage: SQLRecordStorage) -> None:
    request = ApprovalRequest(
        token="a" * 32,
        session_id="one",
        tool_name="work",
        tool_version="1.0.0",
        definition_hash="",
        params={},
        asked_at=1.0,
        expires_at=4e9,
    )
    await storage.approvals.put(request)


async def remove_old(storage: SQLRecordStorage) -> None:
    await storage.prune(RecordRetention(max_age=1.0, max_session_age=1.0))


@pytest.mark.parametrize("write", [save_session, ask_person, remove_old])
async def test_whatever_is_written_waits_in_turn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[SQLRecordStorage], Awaitable[None]],
) -> None:
    """Sessions, questions and what is removed wait as records do, however long that takes."""
    for each in (writing, reader):
        monkeypatch.setattr(each, "_BUSY_WAIT", BUSY_WAIT)
    url = f"sqlite:///{tmp_path}/kept.db"
    other = SQLiteDatabase(Address.of(url), is_synchronous=False)
    await other.open()
    storage = SQLRecordStorage(url)
    await save_session(storage)
    begun, gate = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        gate.wait(BOUND)

    holding = asyncio.create_task(asyncio.to_thread(other._commit_work, hold))
    assert await asyncio.to_thread(begun.wait, BOUND)
    working = asyncio.ensure_future(write(storage))
    done, _ = await asyncio.wait([working], timeout=20 * BUSY_WAIT)
    gate.set()
    await holding
    await working
    assert not done
    await other.close()
    await storage.close()


async def test_a_turn_that_is_not_wanted_any_more(tmp_path: Path) -> None:
    """Who is cancelled while it waits for a turn, or has just got it, gives it back."""
    path = tmp_path / "kept.db"
    path.touch()
    lock = turn_of(await asyncio.to_thread(identify_file, path))

    async def take() -> None:
        async with take_turn(path):
            await asyncio.sleep(0)

    for turns in range(6):
        await asyncio.to_thread(lock.acquire)
        taking = asyncio.create_task(take())
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait([taking])
        lock.release()
        async with asyncio.timeout(BOUND):
            await take()
    assert await asyncio.to_thread(lock.acquire, timeout=BOUND)
    lock.release()
