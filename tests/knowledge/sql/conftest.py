"""Storages in a SQLite file and in a real PostgreSQL server, and calls to keep in them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.knowledge.calls import entry_of
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import CallEntry

NOON = datetime(2025, 12, 5, 12, tzinfo=UTC)
BOUND = 30.0
Open = Callable[..., Awaitable[SQLRecordStorage]]


def call(number: int, error_type: str | None = None, /, **fields: Any) -> CallEntry:
    """A call that ended `number` seconds after noon."""
    result = ToolExecutionResult(
        is_success=error_type is None,
        tool_name=fields.pop("tool_name", "echo"),
        output=fields.pop("output", {"number": number}),
        error=fields.pop("error", None if error_type is None else "it failed"),
        error_type=error_type,
        execution_time=fields.pop("execution_time", 0.25),
        executed_at=fields.pop("executed_at", NOON + timedelta(seconds=number)),
    )
    context = ToolExecutionContext(
        caller_id=fields.pop("caller_id", None),
        caller_type=fields.pop("caller_type", "direct"),
        conversation_id=fields.pop("conversation_id", None),
        workflow_id=fields.pop("workflow_id", None),
        parent_call_id=fields.pop("parent_call_id", None),
        session_id=fields.pop("session_id", None),
        task_id=fields.pop("task_id", None),
    )
    params = fields.pop("params", {})
    fields.setdefault("call_id", f"call-{number}")
    return entry_of(result, params, context, fields.pop("tool", None), **fields)


def ask_file(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What the file itself says, beside the code under test."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        found = connection.execute(sql).fetchall()
        connection.commit()
        return found


async def until(condition: Callable[[], bool]) -> None:
    """Waits, for a bounded time, for something that nothing tells of."""
    async with asyncio.timeout(BOUND):
        while not condition():  # noqa: ASYNC110 - what it waits for happens in a database
            await asyncio.sleep(0.01)


def empty_folder(folder: Path) -> None:
    """Deletes the files of a folder."""
    for path in folder.iterdir():
        path.unlink()


def write_broken(path: Path, data: bytes) -> None:
    """Puts a file there that is no database."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "calls.db"


@pytest.fixture
async def open_storage() -> AsyncIterator[Open]:
    """Opens storages, and closes them after the test."""
    opened: list[SQLRecordStorage] = []

    async def open_one(place: Path | str, **settings: Any) -> SQLRecordStorage:
        url = place if isinstance(place, str) else f"sqlite:///{place}"
        storage = SQLRecordStorage(url, **settings)
        opened.append(storage)
        await storage.open()
        return storage

    yield open_one
    for storage in opened:
        await storage.close()
