"""What is particular to conversations in a database: processes, failures, age, older tables."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.contracts.test_approval_storage_contract import request_for
from tests.knowledge.sql.conftest import BOUND, Open, ask_file, call, empty_folder, write_broken
from tests.knowledge.sql.test_queries import plan_of
from tests.warm_async import start
from tool_engine.errors import RecordsUnavailableError, SessionError
from tool_engine.knowledge.sql import session_statements
from tool_engine.knowledge.sql.schema import packed_json
from tool_engine.knowledge.sql.schema.schema import MIGRATIONS
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.record import RecordQuery

OLD = Path(__file__).with_name("version_4.sql")
"""A database of 12 calls that the version before sessions were kept has written."""
DAY = 86_400.0


@pytest.fixture(params=["sqlite", "postgresql"])
async def storage(
    request: pytest.FixtureRequest, database: Path, open_storage: Open
) -> SQLRecordStorage:
    if request.param == "sqlite":
        return await open_storage(database)
    server = request.getfixturevalue("postgres_server")
    return await open_storage(await asyncio.to_thread(server.fresh_database))


async def changed(storage: SQLRecordStorage, statement: str, **values: Any) -> None:
    async with storage._database.reader.connection() as connection:
        await connection.execute(text(statement), values)


# Processes.

CLAIM = """
import asyncio, sys
from tool_engine.knowledge.sql.storage import SQLRecordStorage

async def main():
    storage = SQLRecordStorage(sys.argv[1])
    await storage.open()
    tokens = [each.token for each in await storage.approvals.pending()]
    print("ready", flush=True)
    sys.stdin.readline()
    print(*[token for token in tokens if await storage.approvals.claim(token)])
    await storage.close()

asyncio.run(main())
"""


async def test_two_processes_claim_one_token(storage: SQLRecordStorage) -> None:
    """Of two who answer at once in different processes, one may go on, and the other learns it."""
    tokens = [f"t-{number:02}" for number in range(40)]
    for token in tokens:
        await storage.approvals.put(request_for(token=token, expires_at=time.time() + DAY))
    processes = [
        await start(
            "-c", CLAIM, str(storage.url), imports=("sqlalchemy.dialects.postgresql", "asyncpg")
        )
        for _ in range(2)
    ]
    async with asyncio.timeout(BOUND):
        for process in processes:
            assert await process.stdout.readline() == b"ready\n"
        done = await asyncio.gather(*(process.communicate(b"\n") for process in processes))
    assert [errors for _, errors in done] == [b"", b""]
    assert sorted(b" ".join(found for found, _ in done).decode().split()) == tokens
    assert await storage.approvals.pending() == []


async def test_another_process_goes_on(storage: SQLRecordStorage, open_storage: Open) -> None:
    """What one has kept another one loads, with what is still asked."""
    await storage.sessions.save("chat", {"turn": 3})
    await storage.approvals.put(request_for("chat"))
    await storage.close()
    other = await open_storage(str(storage.url))
    assert await other.sessions.load("chat") == {"turn": 3}
    assert [each.token for each in await other.approvals.pending("chat")] == ["t-1"]


async def test_no_step_of_two_writers_is_lost(
    storage: SQLRecordStorage, open_storage: Open
) -> None:
    """Of two who go on from one state one is told: whatever was kept is in what is kept last."""
    other = await open_storage(str(storage.url))

    async def count(name: str, sessions: Any) -> int:
        kept = 0
        for turn in range(15):
            found = await sessions.load("chat") or {"steps": []}
            said = {"steps": [*found["steps"], f"{name}{turn}"], "revision": f"{name}{turn}"}
            kept += await sessions.save_if("chat", said, [found.get("revision", "")])
        return kept

    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        done = [
            group.create_task(count(name, each.sessions))
            for name, each in {"a": storage, "b": other}.items()
        ]
    found = await storage.sessions.load("chat")
    assert found is not None
    assert len(set(found["steps"])) == sum(task.result() for task in done) >= 15


async def test_writers_of_all_kinds_at_once(storage: SQLRecordStorage, open_storage: Open) -> None:
    """Records, saves and answers of two storages get in one another's way, and none is lost."""
    other = await open_storage(str(storage.url))
    for number in range(4_000):
        (storage, other)[number % 2].add(call(number))
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        for number in range(30):
            one = (storage, other)[number % 2]
            group.create_task(one.sessions.save(f"chat-{number}", {"text": ["x"] * 5_000}))
            group.create_task(one.approvals.put(request_for(token=f"t-{number}")))
    assert await storage.flush(BOUND)
    assert await other.flush(BOUND)
    assert (await storage.totals(RecordQuery())).total == 4_000
    assert len(await storage.sessions.list()) == 30
    assert len(await other.approvals.pending()) == 30


# Failures.


async def test_file_belongs_to_its_user(database: Path) -> None:
    """A conversation may hold anything: nobody else may read it, nor the files beside it."""
    storage = SQLRecordStorage(f"sqlite:///{database}")
    await storage.sessions.save("chat", {"secret": "made-up"})
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    for path in database.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    await storage.close()


async def test_after_the_end(storage: SQLRecordStorage) -> None:
    """A closed storage still answers, and leaves nothing open."""
    await storage.sessions.save("chat", {"turn": 1})
    await storage.close()
    await storage.sessions.save("chat", {"turn": 2})
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        found = [group.create_task(storage.sessions.load("chat")) for _ in range(5)]
    assert [each.result() for each in found] == [{"turn": 2}] * 5
    assert "Connections in pool: 0" in storage._database.reader._engine.pool.status()


@pytest.mark.parametrize("is_folder_gone", [False, True])
async def test_file_is_deleted(database: Path, open_storage: Open, *, is_folder_gone: bool) -> None:
    """Nothing goes into a file that nobody can see any more, and nothing is read from there."""
    storage = await open_storage(database)
    await storage.sessions.save("chat", {"turn": 1})
    await storage.approvals.put(request_for())
    empty_folder(database.parent)
    if is_folder_gone:
        database.parent.rmdir()
    assert await storage.sessions.load("chat") is None
    assert not await storage.approvals.claim("t-1")
    await storage.sessions.save("chat", {"turn": 2})
    assert ask_file(database, "SELECT session_id FROM tool_sessions") == [("chat",)]


async def test_table_is_dropped(storage: SQLRecordStorage) -> None:
    """It is told once, and the table is made anew."""
    await storage.sessions.save("chat", {"turn": 1})
    await changed(storage, "DROP TABLE tool_sessions")
    with pytest.raises(RecordsUnavailableError, match=r"sessions in .* cannot be kept or read"):
        await storage.sessions.save("chat", {"turn": 2})
    await storage.sessions.save("chat", {"turn": 3})
    assert await storage.sessions.load("chat") == {"turn": 3}


async def test_locked_by_somebody_else(database: Path, open_storage: Open) -> None:
    """A save that waits too long says so, and what was kept before stays."""
    storage = await open_storage(database)
    await storage.sessions.save("chat", {"turn": 1})
    with closing(sqlite3.connect(database, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordsUnavailableError, match=r"locked; what was kept .* try again"):
            await storage.sessions.save("chat", {"turn": 2})
        holder.execute("ROLLBACK")
    assert await storage.sessions.load("chat") == {"turn": 1}
    await storage.sessions.save("chat", {"turn": 3})
    assert await storage.sessions.load("chat") == {"turn": 3}


async def test_garbage_in_its_place(database: Path, open_storage: Open) -> None:
    """A file that is no database is an error each time, and is left as it is."""
    storage = await open_storage(database)
    await storage.sessions.save("chat", {})
    empty_folder(database.parent)
    garbage = os.urandom(5_000)
    write_broken(database, garbage)
    for _ in range(2):
        with pytest.raises(RecordsUnavailableError, match="no SQLite database"):
            await storage.sessions.save("chat", {})
    assert await asyncio.to_thread(database.read_bytes) == garbage
    empty_folder(database.parent)


async def test_server_is_not_there() -> None:
    """No password is in what somebody is told."""
    storage = SQLRecordStorage("postgresql://ann:hunter2@127.0.0.1:1/none")
    for step in (storage.sessions.load("chat"), storage.approvals.put(request_for())):
        with pytest.raises(RecordsUnavailableError, match=r"127\.0\.0\.1:1/none") as caught:
            await step
        assert "hunter2" not in str(caught.value)
    await storage.close()


@pytest.mark.parametrize("damage", [b"", b"garbage", packed_json.pack_text("[1]", "it")[1]])
async def test_damaged(storage: SQLRecordStorage, damage: bytes) -> None:
    """What cannot be read is told, and never half of a conversation."""
    await storage.sessions.save("chat", {"turn": 1})
    await storage.approvals.put(request_for())
    async with storage._database.reader.connection() as connection:
        for table in ("sessions", "approvals"):
            await connection.execute(
                getattr(session_statements, table).update().values(data=damage)
            )
    with pytest.raises(
        SessionError, match=r"'chat' cannot be read: .* damaged.*delete the session 'chat'"
    ):
        await storage.sessions.load("chat")
    with pytest.raises(SessionError, match=r"damaged|is no ApprovalRequest"):
        await storage.approvals.pending()
    assert await storage.sessions.delete("chat")
    assert await storage.approvals.pending() == []


async def test_too_large(storage: SQLRecordStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation that no database takes is refused before it is sent."""
    monkeypatch.setattr(packed_json, "MOST_BYTES", 50)
    with pytest.raises(SessionError, match=r"'chat' cannot be kept: it takes \d+ bytes, 50 at"):
        await storage.sessions.save("chat", {"text": os.urandom(200).hex()})
    assert await storage.sessions.load("chat") is None


async def test_answered_arguments_are_gone(database: Path, open_storage: Open) -> None:
    """Nothing of an answered request stays but its token, and no secret was ever written."""
    storage = await open_storage(database)
    params = {"pin": "made-up-pin", "path": "made-up-path"}
    await storage.approvals.put(request_for(params=params, secret_names=("pin",)))
    ((data,),) = ask_file(database, "SELECT data FROM tool_approvals")
    shown = packed_json.unpack_value(data, "it", "chat")
    assert "made-up-path" in str(shown)
    assert "made-up-pin" not in str(shown)
    assert await storage.approvals.claim("t-1")
    assert ask_file(database, "SELECT token, is_open, data FROM tool_approvals") == [
        ("t-1", 0, None)
    ]


# Tables.


async def test_database_of_the_version_before(tmp_path: Path, open_storage: Open) -> None:
    """It gets the new tables, keeps every record, and what was counted is not counted again."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text())
        connection.execute("UPDATE tool_statistics SET seconds = seconds + 1000")
        connection.commit()
    storage = await open_storage(path)
    assert ask_file(path, "SELECT version FROM tool_engine_schema") == [(len(MIGRATIONS),)]
    assert [each.call_id for each in await storage.query(RecordQuery(oldest_first=True))] == [
        f"call-{number}" for number in range(12)
    ]
    assert (await storage.totals(RecordQuery())).execution_time > 1_000
    await storage.sessions.save("chat", {"turn": 1})
    storage.add(call(99, session_id="chat"))
    (record,) = await storage.query(RecordQuery(session_id="chat"))
    assert (record.call_id, record.session_id) == ("call-99", "chat")


async def test_postgres_of_the_version_before(postgres_server: Any, open_storage: Open) -> None:
    """The same on a server: only what is missing is made."""
    storage = await open_storage(await asyncio.to_thread(postgres_server.fresh_database))
    storage.add(call(1))
    assert await storage.flush(BOUND)
    for statement in (
        *(f"DROP TABLE tool_{name}" for name in ("sessions", "approvals", "decisions")),
        "DROP INDEX tool_calls_session",
        "UPDATE tool_engine_schema SET version = 4",
        "UPDATE tool_statistics SET seconds = seconds + 1000",
    ):
        await changed(storage, statement)
    again = await open_storage(str(storage.url))
    await again.sessions.save("chat", {"turn": 1})
    assert (await again.totals(RecordQuery())).execution_time > 1_000
    plan = await plan_of(again, session_statements.select_sessions(1, 0, 0.0))
    assert "tool_sessions" in plan


@pytest.mark.parametrize("has_run", [False, True])
async def test_sessions_of_the_version_before(
    storage: SQLRecordStorage, open_storage: Open, *, has_run: bool
) -> None:
    """What was kept before states had names goes on; a statement that has run may run again."""
    await storage.sessions.save("chat", {"turn": 1})
    if not has_run:
        await changed(storage, "ALTER TABLE tool_sessions DROP COLUMN revision")
    await changed(storage, "UPDATE tool_engine_schema SET version = 5")
    await storage.close()
    again = await open_storage(str(storage.url))
    assert await again.sessions.load("chat") == {"turn": 1}
    assert not await again.sessions.save_if("chat", {"turn": 2}, [])
    assert await again.sessions.save_if("chat", {"turn": 2}, [""])


async def test_migration_that_fails_changes_nothing(tmp_path: Path, open_storage: Open) -> None:
    """Only that a column is there already is no failure."""
    path = tmp_path / "old.db"
    storage = await open_storage(path)
    await storage.sessions.save("chat", {"turn": 1})
    await storage.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE tool_sessions")
        connection.execute("CREATE VIEW tool_sessions AS SELECT 1 AS session_id")
        connection.execute("UPDATE tool_engine_schema SET version = 5")
        connection.commit()
    with pytest.raises(RecordsUnavailableError, match="Cannot add a column to a view"):
        await SQLRecordStorage(f"sqlite:///{path}").sessions.load("chat")
    assert ask_file(path, "SELECT version FROM tool_engine_schema") == [(5,)]


async def test_no_question_reads_every_session(database: Path, open_storage: Open) -> None:
    """The newest are found by their index, what is asked by that of its session."""
    storage = await open_storage(database)
    plan = await plan_of(storage, session_statements.select_sessions(10, 0, 0.0))
    assert "SCAN tool_sessions USING INDEX tool_sessions_updated" in plan
    assert "tool_approvals USING INDEX tool_approvals_session" in plan
    plan = await plan_of(storage, session_statements.select_requests("chat", 0.0))
    assert "tool_approvals USING INDEX tool_approvals_session (session_id=?" in plan


async def test_connections_that_the_server_ended_while_idle(
    postgres_server: Any, open_storage: Open
) -> None:
    """R7: what is kept or asked goes to a new connection, and nothing of it fails or is lost."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    storage = await open_storage(url)
    name = url.rpartition("/")[2]
    ours = f"FROM pg_stat_activity WHERE datname = '{name}'"
    end = f"SELECT pg_terminate_backend(pid, 9999) {ours}"
    with ThreadPoolExecutor(1) as pool:
        for number in range(2):
            # At once, so that there are several connections.
            await asyncio.gather(*(storage.sessions.save(f"chat-{n}", {}) for n in range(4)))
            storage.add(call(2 * number))
            assert await storage.flush(BOUND)
            # Blocks the loop, which has not noticed the end when the next question comes.
            assert pool.submit(postgres_server.ask, end).result(BOUND)
            storage.add(call(2 * number + 1))
            await storage.sessions.save("chat-1", {"turn": number})
            assert await storage.sessions.load("chat-1") == {"turn": number}
            assert await storage.flush(BOUND)
    assert len(await storage.query(RecordQuery())) == 4
