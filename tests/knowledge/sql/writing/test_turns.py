"""Do connections of one process that write a file wait for one another in turn?"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.connection.grouping import Change
from tool_engine.knowledge.sql.writing import sqlite as writing
from tool_engine.knowledge.sql.writing.sqlite import SQLiteDatabase

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
