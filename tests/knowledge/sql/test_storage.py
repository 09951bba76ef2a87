"""Records in a database: kept across restarts, without secrets, bounded, and never in the way."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.knowledge.sql.conftest import BOUND, Open, ask_file, call, until, write_broken
from tests.postgres import PostgresServer
from tests.warm_async import start
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import (
    ConfigurationError,
    MissingExtraError,
)
from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.schema.rows import RowMaker
from tool_engine.knowledge.sql.schema.schema import MIGRATIONS
from tool_engine.knowledge.sql.writing.sqlite import SQLiteDatabase
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.record import RecordQuery, ToolCallRecord
from tool_engine.redaction import remember_secret


def settings(database: Path, **fields: Any) -> ToolEngineConfig:
    return ToolEngineConfig(
        tools_directory=str(database.parent.parent / "tools"),
        auto_reload=False,
        records=f"sqlite:///{database}",
        **fields,
    )


async def engine_on(database: Path, **fields: Any) -> ToolEngine:
    engine = ToolEngine(settings(database, **fields))

    @engine.tool(description="Says it again")
    async def echo(word: str) -> str:
        return word

    await engine.load()
    return engine


async def test_records_outlive_the_engine(database: Path) -> None:
    """K41: what one engine kept, the next one on the same database tells."""
    engine = await engine_on(database)
    context = ToolExecutionContext.for_conversation("ann", "chat")
    result = await engine.execute("echo", {"word": "hi"}, context)
    await engine.execute("nothing")
    await engine.close()
    engine = await engine_on(database)
    record, other = await engine.query_call_records(oldest_first=True)
    assert (record.params, record.result) == ({"word": "hi"}, {"result": "hi"})
    assert (record.call_id, record.conversation_id, record.agent_id) == (
        result.call_id,
        "chat",
        "ann",
    )
    assert (other.error_type, other.outcome.value, other.reached_executor) == (
        "tool_not_found",
        "failed",
        False,
    )
    assert (await engine.get_call_summary("chat")).total_calls == 1
    await engine.close()


async def test_every_fact_of_a_call_comes_back(database: Path, open_storage: Open) -> None:
    """K41: the record that is read is the one that memory would give, but for its id."""
    storage = await open_storage(database)
    entry = call(1, "timeout", bucket="http", key="k", priority=2, attempts=3, queue_wait=0.5)
    storage.add(entry)
    (record,) = await storage.query(RecordQuery())
    from tool_engine.knowledge.entry import record_of

    assert record.to_dict() | {"record_id": ""} == record_of(entry).to_dict() | {"record_id": ""}
    assert record.started_at == entry.created_at - (record.created_at - record.started_at)
    assert (record.started_at - record.enqueued_at).total_seconds() == 0.5
    assert (await storage.query(RecordQuery(record_id=record.record_id))) == [record]


async def test_file_belongs_to_its_user(database: Path, open_storage: Open) -> None:
    """The folder is made, and nobody else may read the file or what stands beside it."""
    storage = await open_storage(database)
    storage.add(call(1))
    assert await storage.flush(BOUND)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
    assert modes == {"calls.db": 0o600, "calls.db-wal": 0o600, "calls.db-shm": 0o600}
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700


async def test_no_secret_is_in_the_bytes(database: Path, open_storage: Open) -> None:
    """Secrets are hidden before they are written: in arguments, results, errors, large results."""
    storage = await open_storage(database)
    remember_secret("canary-resolved-4711")
    storage.add(call(1, params={"password": "canary-by-name"}))
    storage.add(call(2, output={"result": "take canary-resolved-4711"}))
    storage.add(call(3, "execution_error", error="refused canary-resolved-4711"))
    storage.add(call(4, output={"token": "canary-by-name", "rows": ["x" * 100] * 100}))
    assert await storage.flush(BOUND)
    for path in database.parent.iterdir():
        assert b"canary" not in path.read_bytes(), path.name
    (record,) = await storage.query(RecordQuery(call_id="call-4"))
    assert record.result["token"] == "[hidden]"


async def test_secret_known_later_is_hidden_too(database: Path, open_storage: Open) -> None:
    """What is found out to be a secret after the call is not shown any more."""
    storage = await open_storage(database)
    storage.add(call(1, params={"word": "canary-later-0815"}))
    assert await storage.flush(BOUND)
    remember_secret("canary-later-0815")
    (record,) = await storage.query(RecordQuery())
    assert record.params == {"word": "[hidden]"}


async def test_whole_output_can_be_read(database: Path) -> None:
    """What `result` limits cut is in the database, and read as from memory."""
    engine = ToolEngine(settings(database))
    definition = {
        "name": "many",
        "version": "1.0.0",
        "description": "Many rows",
        "category": "custom",
        "entry": {"type": "builtin", "handler": "many"},
        "result": {"max_items": 3},
    }
    engine.register_tool(definition, lambda: {"rows": list(range(5_000))})
    await engine.load()
    result = await engine.execute("many")
    assert len(result.output["rows"]) < 10
    output = await engine.store.get_output(result.call_id or "")
    assert output == {"rows": list(range(5_000))}
    await engine.close()


ODD = {
    "nan": float("nan"),
    "infinity": float("-inf"),
    "huge": 10**40,
    "large": 2**64 - 1,
    "half": "half \ud800",
    "nul": "a\0b",
    "bytes": b"\xff",
    7: "number as key",
}
ODD_READ = {
    "nan": "NaN",
    "infinity": "-Infinity",
    "huge": str(10**40),
    "large": 2**64 - 1,
    "half": "half \\ud800",
    "nul": "a\0b",
    "bytes": "b'\\xff'",
    "7": "number as key",
}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_values_that_json_cannot_hold(
    kind: str, database: Path, open_storage: Open, request: pytest.FixtureRequest
) -> None:
    """Whatever a caller sends or a tool returns is kept, in the documented form."""
    place: Path | str = database
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        place = await asyncio.to_thread(server.fresh_database)
    storage = await open_storage(place)
    odd_texts = {"caller_id": "a\0b", "conversation_id": "c\udfff", "tool_name": "\0"}
    storage.add(call(1, params=ODD, output={"odd": ODD}, **odd_texts))
    storage.add(call(2, "x\0", error="\0\ud800", params=[1, 2], execution_time=float("inf")))
    storage.add(call(3, execution_time=float("nan"), priority=10**30))
    third, second, first = await storage.query(RecordQuery())
    assert first.params == ODD_READ
    assert first.result == {"odd": ODD_READ}
    assert (first.caller_id, first.tool_name) == ("a\\x00b", "\\x00")
    assert (second.error, second.params) == ("\\x00\\ud800", {"value": [1, 2]})
    assert (third.execution_time, third.priority) == (0.0, 2**63 - 1)
    assert await storage.query(RecordQuery(conversation_id="c\udfff")) == [first]
    assert storage.dropped == 0


async def test_call_that_cannot_be_read_is_counted(database: Path, open_storage: Open) -> None:
    """What breaks the contract costs nobody else, and is told."""
    storage = await open_storage(database)
    with capture_logs() as logs:
        storage.add(call(1))
        storage.add(call(2, facts={}))
        storage.add(call(3))
        assert len(await storage.query(RecordQuery())) == 2
    assert storage.dropped == 1
    assert [line["event"] for line in logs] == ["record_refused"]


async def test_same_time_and_clock_set_back(database: Path, open_storage: Open) -> None:
    """Calls that ended at once, or before the last one, are all kept, in the order they came."""
    storage = await open_storage(database)
    for number in (5, 5, 5, 4, 5):
        storage.add(call(number))
    assert len(await storage.query(RecordQuery())) == 5
    records = await storage.query(RecordQuery(oldest_first=True))
    assert [record.result["number"] for record in records] == [5, 5, 5, 4, 5]


async def test_records_move_between_databases(tmp_path: Path, open_storage: Open) -> None:
    """A record that is kept again, here or elsewhere, keeps its id and is there once."""
    first, second = await open_storage(tmp_path / "a.db"), await open_storage(tmp_path / "b.db")
    for number in range(3):
        first.add(call(number))
    records = await first.query(RecordQuery())
    for _ in range(2):
        for record in records:
            first.add(record)
            second.add(record)
            second.add(ToolCallRecord(**{**record_fields(record), "record_id": "other"}))
        await asyncio.gather(first.flush(BOUND), second.flush(BOUND))
    assert await first.query(RecordQuery()) == records
    mine = [each for each in await second.query(RecordQuery()) if each.record_id != "other"]
    assert mine == records
    assert len(await second.query(RecordQuery(record_id="other"))) == 1


def record_fields(record: ToolCallRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


async def test_two_storages_on_one_file(database: Path, open_storage: Open) -> None:
    """Calls that end in the same microsecond in two engines are both kept."""
    first, second = await open_storage(database), await open_storage(database)
    for number in range(300):
        first.add(call(number, call_id=f"first-{number}"))
        second.add(call(number, call_id=f"second-{number}"))
    second._writer._rows._keys._mark = first._writer._rows._keys._mark
    await asyncio.gather(first.flush(BOUND), second.flush(BOUND))
    assert (await first.totals(RecordQuery())).total == 600


async def test_many_processes_open_a_new_file(database: Path) -> None:
    """Tables are made once, whoever comes first."""
    code = (
        "import asyncio, sys\n"
        "from tool_engine.knowledge.sql.storage import SQLRecordStorage\n"
        "async def main():\n"
        "    storage = SQLRecordStorage(sys.argv[1])\n"
        "    await storage.open()\n"
        "    await storage.close()\n"
        "asyncio.run(main())\n"
    )
    processes = [await start("-c", code, f"sqlite:///{database}") for _ in range(4)]
    for process in processes:
        _, errors = await asyncio.wait_for(process.communicate(), BOUND * 2)
        assert process.returncode == 0, errors.decode()
        assert not errors
    assert ask_file(database, "SELECT version FROM tool_engine_schema") == [(len(MIGRATIONS),)]


# Opening.


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("calls.db", "records: url must begin with sqlite: or postgresql:"),
        ("mysql://h/d", "records: url must begin with sqlite: or postgresql:"),
        ("sqlite://", "records: url of a SQLite database must name its file"),
        (7, "records: url must be a text"),
    ],
)
def test_wrong_url(url: Any, message: str) -> None:
    """A URL that is none is refused when the settings are made."""
    with pytest.raises(ConfigurationError, match=message):
        ToolEngineConfig(records=url)


def test_password_is_hidden() -> None:
    """A password in the setting is in no `repr`."""
    config = ToolEngineConfig(records="postgresql://ann:canary-pw@db/calls")
    engine = ToolEngine(config)
    for shown in (config, engine, engine.store, engine.store.storage):
        assert "canary-pw" not in repr(shown)


async def test_no_database(database: Path, open_storage: Open) -> None:
    """What is no database is told when the engine starts, and left as it is."""
    write_broken(database, b"shopping list, " * 100)
    with pytest.raises(ConfigurationError, match=r"calls\.db cannot be used: .*no SQLite database"):
        await open_storage(database)
    with database.open("rb") as file:
        assert file.read(13) == b"shopping list"


async def test_place_is_a_folder(tmp_path: Path) -> None:
    """A path that cannot be opened is told when the engine starts."""
    engine = ToolEngine(ToolEngineConfig(records=f"sqlite:///{tmp_path}", auto_reload=False))
    with pytest.raises(ConfigurationError, match=r"cannot be used: .*unable to open"):
        await engine.load()
    await engine.close()


async def test_newer_tables(database: Path, open_storage: Open) -> None:
    """Tables of a newer version are not written to."""
    storage = await open_storage(database)
    await storage.close()
    ask_file(database, "UPDATE tool_engine_schema SET version = 99")
    known = f"of version 99, and this tool_engine knows {len(MIGRATIONS)}"
    with pytest.raises(ConfigurationError, match=known):
        await open_storage(database)


async def test_missing_library(
    database: Path, open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra the engine does not start, and says what to install."""
    for name in ("tool_engine.knowledge.sql.reader", "aiosqlite"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "aiosqlite", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tool-engine\[sql\]'"):
        await open_storage(database)


async def test_secret_in_the_url(
    tmp_path: Path, open_storage: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`${env:NAME}` and `${file:PATH}` are filled in when the database is opened."""
    monkeypatch.setenv("RECORDS_FOLDER", str(tmp_path))
    (tmp_path / "whole").write_text(f"sqlite:///{tmp_path}/b.db\n")
    for url, name in (
        ("sqlite:///${env:RECORDS_FOLDER}/a.db", "a.db"),
        (f"${{file:{tmp_path}/whole}}", "b.db"),
    ):
        await open_storage(url)
        assert (tmp_path / name).exists()
    for url in ("${env:NOT_SET}", f"${{file:{tmp_path}/nothing}}"):
        with pytest.raises(ConfigurationError, match="records: the "):
            await open_storage(url)


# Closing.


async def test_close_writes_what_waits(database: Path) -> None:
    """What was acknowledged is in the database after the engine was closed."""
    engine = await engine_on(database)
    for _ in range(50):
        await engine.execute("echo", {"word": "hi"})
    await engine.close()
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(50,)]


@pytest.mark.parametrize("is_watched", [False, True])
async def test_closed_file_has_all(database: Path, tmp_path: Path, *, is_watched: bool) -> None:
    """Whoever copies the file alone after the end has every record, also while others read it."""
    engine = await engine_on(database, keep_events=100)
    with closing(sqlite3.connect(database)) as other:
        if is_watched:
            other.execute("SELECT count(*) FROM tool_calls").fetchone()
        for _ in range(50):
            await engine.execute("echo", {"word": "hi"})
        assert (await engine.get_call_statistics())["total_records"] == 50
        await engine.close()
        copy = shutil.copyfile(database, tmp_path / "copy.db")
        assert ask_file(copy, "SELECT count(*) FROM tool_calls") == [(50,)]
        assert ask_file(copy, "SELECT count(*) > 0 FROM tool_events") == [(1,)]


async def test_closes_beside_one_who_reads(database: Path) -> None:
    """Somebody who is in the midst of reading keeps nobody from closing, and sees what was."""
    engine = await engine_on(database)
    await engine.execute("echo", {"word": "hi"})
    assert len(await engine.query_call_records()) == 1
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM tool_calls").fetchone()
        await engine.execute("echo", {"word": "hi"})
        await engine.close()
        assert other.execute("SELECT count(*) FROM tool_calls").fetchone() == (1,)
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(2,)]


async def test_after_the_end(database: Path, open_storage: Open) -> None:
    """A closed storage takes nothing and counts it; what it kept can still be asked for."""
    storage = await open_storage(database)
    storage.add(call(0))
    await storage.close()
    storage.add(call(1))
    storage.add(call(2))
    assert storage.dropped == 2
    assert not await storage.flush()
    assert len(await storage.query(RecordQuery())) == 1
    assert (await storage.totals(RecordQuery())).dropped == 2


async def test_calls_that_never_suspend(database: Path) -> None:
    """Calls that leave the event loop no turn, one after the other, are all recorded meanwhile."""
    engine = await engine_on(database)
    for _ in range(50_000):
        await engine.execute("echo", {"word": "hi"})
    storage: Any = engine.store.storage
    bound = time.monotonic() + BOUND
    while storage.waiting == 50_000 and time.monotonic() < bound:
        time.sleep(0.001)  # noqa: ASYNC251 - a turn for the writer's thread, and none for the loop
    # The loop had no turn since the first call, and the writer did not wait for one.
    assert storage.waiting < 50_000
    assert await storage.flush(BOUND)
    assert (await storage.totals(RecordQuery())).total == 50_000
    assert storage.dropped == 0
    await engine.close()


async def test_added_by_another_thread(database: Path, open_storage: Open) -> None:
    """A record that a thread adds is written like any other."""
    storage = await open_storage(database)
    storage.add(call(1))
    assert await storage.flush(BOUND)
    thread = threading.Thread(target=lambda: storage.add(call(2)))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert len(await storage.query(RecordQuery())) == 2


async def test_told_when_the_file_takes_rows_by_itself(database: Path) -> None:
    """Who writes into a file learns when there is time for something else; it is the time to."""
    writing = SQLiteDatabase(Address.of(f"sqlite:///{database}"), is_synchronous=False)
    await writing.open()
    batch = RowMaker().batch([call(number) for number in range(100)])
    kept: list[Any] = []
    batch.under_way = lambda: kept.append(ask_file(database, "SELECT count(*) FROM tool_calls"))
    await writing.write(batch)
    assert kept == [[(0,)]]
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(100,)]
    await writing.close()


# Durability.


@pytest.fixture
async def careful(database: Path) -> AsyncIterator[ToolEngine]:
    engine = await engine_on(database, durability="call")
    yield engine
    await engine.close()


async def test_result_comes_after_the_commit(careful: ToolEngine, database: Path) -> None:
    """With `call`, who has a result finds its record in the file."""
    for number in range(1, 6):
        result = await careful.execute("echo", {"word": "hi"})
        assert "record" not in result.metadata
        assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(number,)]


async def test_calls_share_a_commit(careful: ToolEngine, database: Path) -> None:
    """With `call`, calls that run at once do not wait for one commit each."""
    database_of = careful.store.storage._writer  # type: ignore[attr-defined]
    commits = 0
    write = database_of._database.write

    async def counted(batch: Any) -> None:
        nonlocal commits
        commits += 1
        await write(batch)

    database_of._database.write = counted
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(careful.execute("echo", {"word": "hi"}))
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(100,)]
    assert commits < 50


async def test_call_ends_without_its_record(careful: ToolEngine, database: Path) -> None:
    """With `call`, a database that takes nothing fails no call; the result says so."""
    ask_file(database, "ALTER TABLE tool_calls RENAME COLUMN bucket TO bin")
    result = await careful.execute("echo", {"word": "hi"})
    assert result.is_success
    assert result.metadata["record"] == "not kept"
    again = await asyncio.wait_for(careful.execute("echo", {"word": "hi"}), BOUND)
    assert again.metadata["record"] == "not kept"
    ask_file(database, "ALTER TABLE tool_calls RENAME COLUMN bin TO bucket")
    await until(lambda: careful.store.storage.waiting == 0)  # type: ignore[attr-defined]
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(2,)]


async def test_cancelled_while_it_waits_for_the_commit(careful: ToolEngine, database: Path) -> None:
    """With `call`, who is cancelled in the commit is cancelled; the record tells how it ended."""
    await careful.execute("echo", {"word": "first"})
    with locked(database):
        waiting = asyncio.create_task(careful.execute("echo", {"word": "hi"}))
        await until(lambda: careful.store.storage.waiting == 1)  # type: ignore[attr-defined]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await until(lambda: careful.store.storage.waiting == 0)  # type: ignore[attr-defined]
    (record, _) = await careful.query_call_records()
    assert (record.is_success, record.params) == (True, {"word": "hi"})


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Somebody else holds the file locked."""
    connection = sqlite3.connect(database, isolation_level=None, timeout=10)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


async def test_store_bounds_what_it_is_asked(database: Path, open_storage: Open) -> None:
    """A store over a database gives the same questions as over memory."""
    storage = await open_storage(database)
    store = ToolKnowledgeStore(storage)
    for number in range(10):
        store.append(call(number, "timeout" if number % 5 == 0 else None, bucket="http"))
    statistics = await store.get_call_statistics()
    assert statistics["outcomes"] == {"succeeded": 8, "timeout": 2}
    assert statistics["by_bucket"]["http"]["error_rate"] == 20.0
    assert statistics["execution_time"]["p95"] == 0.25


async def test_storm(database: Path) -> None:
    """Every call has one record, whatever becomes of it: calls = results + cancelled = records."""
    engine = ToolEngine(settings(database, concurrency=ConcurrencyConfig(8, 20)))

    @engine.tool(description="Ends in some way", timeout=0.05)
    async def any_end(number: int) -> int:
        if number % 7 == 0:
            raise ValueError(number)
        await asyncio.sleep(1.0 if number % 11 == 0 else 0.0)
        return number

    await engine.load()
    tasks = []
    for number in range(2_000):
        params = {"number": "no number" if number % 13 == 0 else number}
        tasks.append(asyncio.create_task(engine.execute("any_end", params)))
        if number % 5 == 0:
            await asyncio.sleep(0)
        if number % 17 == 0:
            tasks[number // 2].cancel()
    ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), BOUND)
    unstarted = sum(isinstance(end, asyncio.CancelledError) for end in ends)
    outcomes = (await engine.get_call_statistics())["outcomes"]
    assert set(outcomes) >= {"succeeded", "failed", "timeout", "rejected"}
    # A task that is cancelled before its first step has called nothing.
    assert 2_000 - unstarted <= sum(outcomes.values()) <= 2_000
    records = await engine.query_call_records()
    assert len({record.call_id for record in records}) == sum(outcomes.values())
    await engine.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("owner:", "owner:canary-"), "password authentication failed"),
        (("owner:", "nobody:"), "password authentication failed"),
        (("/postgres", "/missing"), 'database "missing" does not exist'),
    ],
)
async def test_wrong_server(
    postgres_server: PostgresServer, open_storage: Open, change: tuple[str, str], message: str
) -> None:
    """What the server refuses for good is told when the engine starts, without the password."""
    url = postgres_server.url().replace(*change)
    with pytest.raises(ConfigurationError, match=message) as caught:
        await open_storage(url)
    assert postgres_server.password not in str(caught.value)
