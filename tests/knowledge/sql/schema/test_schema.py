"""Which tables does the database have, and how were they created?"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from tests.knowledge.calls import entry_of
from tests.knowledge.sql.conftest import BOUND, NOON, Open, ask_file
from tests.sources_of_tools import tool
from tool_engine.knowledge.sql.schema.schema import MIGRATIONS
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.record import CallEntry, RecordQuery

OLD = Path(__file__).parent.parent / "version_4.sql"


def _call_of_source(number: int) -> CallEntry:
    given = msgspec.structs.replace(tool("a"), source="<mcp:github>")
    result = ToolExecutionResult(True, "a", {"number": number}, executed_at=NOON)
    return entry_of(result, tool=given, call_id=f"new-{number}")


async def _check_origins(storage: SQLRecordStorage, before: int) -> None:
    """New calls know their origin, and those of before none; both are read in one go."""
    for number in range(2):
        storage.add(_call_of_source(number))
    assert await storage.flush(BOUND)
    found = await storage.query(RecordQuery())
    new = {each.call_id for each in found if each.origin == "mcp:github"}
    assert new == {"new-0", "new-1"}
    assert len(found) == before + 2
    assert all(each.origin is None for each in found if each.call_id not in new)
    assert len(await storage.query(RecordQuery(origin="mcp:github"))) == 2


async def test_calls_of_a_version_without_origins(tmp_path: Path, open_storage: Open) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text())
    storage = await open_storage(path)
    assert ask_file(path, "SELECT version FROM tool_engine_schema") == [(len(MIGRATIONS),)]
    await _check_origins(storage, 12)


async def _check_deciders(storage: SQLRecordStorage) -> None:
    """New calls name who decided, and those of before no one."""
    refused = ToolExecutionResult(False, "a", error="no", executed_at=NOON)
    storage.add(entry_of(refused, tool=tool("a"), call_id="new", decided_by="ann"))
    assert await storage.flush(BOUND)
    found = await storage.query(RecordQuery())
    assert {each.call_id: each.decided_by for each in found} == {"new": "ann", "old": None}


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_calls_of_a_version_without_deciders(
    request: pytest.FixtureRequest, tmp_path: Path, open_storage: Open, kind: str, *, has_run: bool
) -> None:
    """A database of 0.1.0 keeps its rows, and takes new ones."""
    column = ("ALTER TABLE tool_calls DROP COLUMN decided_by",)
    url = await _old_database(request, tmp_path, open_storage, kind, 12, () if has_run else column)
    await _check_deciders(await open_storage(url))


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_the_version_before(
    request: pytest.FixtureRequest, tmp_path: Path, open_storage: Open, kind: str, *, has_run: bool
) -> None:
    """What was kept goes on, on a server too; a statement that has run may run again."""
    statements = ["UPDATE tool_definitions SET origin = NULL"]
    if not has_run:
        statements += (
            "DROP INDEX tool_definitions_origin",
            "ALTER TABLE tool_definitions DROP COLUMN origin",
        )
    url = await _old_database(request, tmp_path, open_storage, kind, 7, statements)
    await _check_origins(await open_storage(url), 1)


async def _old_database(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    open_storage: Open,
    kind: str,
    version: int,
    statements: Iterable[str],
) -> str:
    """A database of an older version with one call, made of a new one by statements."""
    url = f"sqlite:///{tmp_path}/calls.db"
    if kind == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.fresh_database)
    storage = await open_storage(url)
    old = ToolExecutionResult(True, "a", {"number": 5}, executed_at=NOON)
    storage.add(entry_of(old, tool=tool("a"), call_id="old"))
    assert await storage.flush(BOUND)
    async with storage._database.reader.connection() as connection:
        for statement in (*statements, f"UPDATE tool_engine_schema SET version = {version}"):  # noqa: S608 - a number
            await connection.execute(text(statement))
    await storage.close()
    return url
