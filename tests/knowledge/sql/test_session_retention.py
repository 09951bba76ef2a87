"""Old conversations go, and requests that have expired; what somebody waits for stays."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.contracts.test_approval_storage_contract import request_for
from tests.knowledge.sql.conftest import BOUND, Open, call
from tests.knowledge.sql.test_sql_sessions import changed
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.sql.sql_approvals import SQLApprovalStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention

YES = ApprovalDecision(is_approved=True)
DAY = 86_400.0


@pytest.fixture(params=["sqlite", "postgresql"])
async def storage(
    request: pytest.FixtureRequest, database: Path, open_storage: Open
) -> SQLRecordStorage:
    if request.param == "sqlite":
        return await open_storage(database)
    server = request.getfixturevalue("postgres_server")
    return await open_storage(await asyncio.to_thread(server.fresh_database))


async def aged(storage: SQLRecordStorage, session_id: str, days: float) -> None:
    """Lets a conversation have been saved so many days ago."""
    at = int((time.time() - days * DAY) * 1e6)
    statement = "UPDATE tool_sessions SET updated_at = :at WHERE session_id = :id"
    await changed(storage, statement, at=at, id=session_id)


async def ids(storage: SQLRecordStorage) -> list[str]:
    return sorted(each.session_id for each in await storage.sessions.list())


async def test_old_sessions_go(storage: SQLRecordStorage) -> None:
    """With all that belongs to them, unless somebody is being asked; records stay."""
    soon = time.time() + DAY
    for name, days in (("young", 1), ("old", 9), ("asked", 9), ("answered", 9), ("late", 9)):
        await storage.sessions.save(name, {"name": name})
        await storage.approvals.remember(request_for(name), YES)
        await aged(storage, name, days)
    for name, expires in (("asked", soon), ("answered", soon), ("late", time.time() - 1)):
        await storage.approvals.put(request_for(name, f"t-{name}", expires_at=expires))
    assert await storage.approvals.claim("t-answered")
    storage.add(call(1, session_id="old"))
    assert await storage.prune(RecordRetention(max_session_age=5 * DAY)) == 0
    assert await ids(storage) == ["asked", "young"]
    assert await storage.approvals.remembered("old", request_for("old").fingerprint) is None
    assert await storage.approvals.remembered("asked", request_for("asked").fingerprint)
    assert [each.session_id for each in await storage.approvals.pending()] == ["asked"]
    assert len(await storage.query(RecordQuery(session_id="old"))) == 1
    assert await storage.sessions.prune(1e300) == 0


async def test_many_old_sessions_are_counted(storage: SQLRecordStorage) -> None:
    """They go in small steps, however many they are."""
    for number in range(45):
        await storage.sessions.save(f"chat-{number}", {})
    await changed(storage, "UPDATE tool_sessions SET updated_at = 1")
    await storage.sessions.save("chat-3", {})
    assert await storage.sessions.prune(DAY) == 44
    assert await ids(storage) == ["chat-3"]


async def test_saved_while_it_is_removed(postgres_server: Any, open_storage: Open) -> None:
    """A conversation that somebody goes on with meanwhile stays."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    storage = await open_storage(url)
    await storage.sessions.save("chat", {})
    await aged(storage, "chat", 9)
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'tests'"
    async with storage._database.reader.connection() as connection:
        now = int(time.time() * 1e6)
        await connection.execute(text(f"UPDATE tool_sessions SET updated_at = {now}"))  # noqa: S608 - a number
        pruning = asyncio.create_task(storage.sessions.prune(DAY))
        async with asyncio.timeout(BOUND):
            while not await asyncio.to_thread(postgres_server.ask, waits):  # noqa: ASYNC110 - a server tells nobody
                await asyncio.sleep(0.01)
    assert await pruning == 0
    assert await ids(storage) == ["chat"]


async def test_decisions_of_sessions_that_are_not_kept(storage: SQLRecordStorage) -> None:
    """They go by their own age; those of kept sessions stay as long as these."""
    await storage.sessions.save("kept", {})
    then = SQLApprovalStorage(storage._database, clock=lambda: time.time() - 9 * DAY)
    for name in ("kept", "gone"):
        await then.remember(request_for(name), YES)
    await storage.approvals.remember(request_for("new"), YES)
    assert await storage.sessions.prune(5 * DAY) == 0
    found = {
        name: await storage.approvals.remembered(name, request_for(name).fingerprint) is not None
        for name in ("kept", "gone", "new")
    }
    assert found == {"kept": True, "gone": False, "new": True}


async def test_expired_requests_go(storage: SQLRecordStorage) -> None:
    """With every look at what is old; without one, a day later with the next request."""
    now = time.time()

    async def tokens() -> list[str]:
        async with storage._database.reader.connection() as connection:
            rows = await connection.execute(text("SELECT token FROM tool_approvals"))
            return sorted(token for (token,) in rows)

    await storage.approvals.put(request_for(token="older", expires_at=now - 2 * DAY))
    await storage.approvals.put(request_for(token="old", expires_at=now - DAY / 2))
    await storage.approvals.put(request_for(token="open", expires_at=now + DAY))
    assert await tokens() == ["old", "open"]
    await storage.prune()
    assert await tokens() == ["open"]


async def test_engine_looks_for_old_sessions(database: Path, open_storage: Open) -> None:
    """The setting alone is enough."""
    storage = await open_storage(database)
    await storage.sessions.save("old", {})
    await aged(storage, "old", 3)
    await open_storage(database, retention=RecordRetention(max_session_age=DAY))
    async with asyncio.timeout(BOUND):
        while await ids(storage):  # noqa: ASYNC110 - a database tells nobody
            await asyncio.sleep(0.01)


async def test_sessions_cost_no_records(database: Path, open_storage: Open) -> None:
    """The bound for records counts records: a large conversation pushes none of them out."""
    storage = await open_storage(database)
    for number in range(600):
        storage.add(call(number))
    await storage.sessions.save("chat", {"text": os.urandom(3_000_000).hex()})
    assert await storage.prune(RecordRetention(max_bytes=2_000_000)) == 0


@pytest.mark.parametrize("age", [0, -1, True, "9"])
def test_age_that_cannot_be(age: Any) -> None:
    """A bound that makes no sense is refused."""
    with pytest.raises(ConfigurationError, match=r"retention\.max_session_age"):
        RecordRetention(max_session_age=age)
