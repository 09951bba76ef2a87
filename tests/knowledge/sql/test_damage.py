"""Is a damaged database read right, or refused with the place and a cure, whatever is damaged?

Each column of each table is damaged in each way, in a copy of one file with a row of everything.
Looked at: records (lists, one, whole, pages, totals, statistics of rows and of hours, exports),
conversations (list, load, session), requests, decisions, events (kept and read elsewhere), pruning.
"""

# ruff: noqa: S608 - every statement that is put together here is the tests' own

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text

from tests.contracts.test_approval_storage_contract import NOW, request_for
from tests.effort import IS_WHOLE
from tests.knowledge.sql.conftest import BOUND, NOON, ask_file, call
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolKnowledgeStore,
    ToolSession,
)
from tool_engine.cli.app import run
from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.export import export_records
from tool_engine.knowledge.memory_approvals import standing_of
from tool_engine.knowledge.sql.event_reader import EventReader
from tool_engine.knowledge.sql.schema.schema import TABLES
from tool_engine.knowledge.sql.sql_events import SQLEventStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention

DAMAGES: Final = {
    "nothing": "NULL",
    "a text": "'damaged'",
    "an empty text": "''",
    "a list": "'[1]'",
    "bytes": "X'00fffe'",
    "broken UTF-8": "CAST(X'61ff62' AS TEXT)",
    "a negative number": "-1",
    "a huge number": "9223372036854775807",
    "infinity": "9e999",
    "a fraction": "0.5",
    "half of it": "CASE WHEN typeof({0}) IN ('text', 'blob') THEN substr({0}, 1, length({0}) / 2) "
    "ELSE {0} END",
}
"""What stands in a column instead of what was written."""
FEW: Final = ("a text", "bytes", "broken UTF-8", "infinity")
FREE: Final = {
    *("call_id", "parent_call_id", "tool_name", "error_type", "caller_id", "caller_type"),
    *("conversation_id", "workflow_id", "agent_id", "session_id", "task_id", "bucket"),
    *("admission_key", "error", "version", "definition_hash", "origin", "record_id"),
    *("revision", "token", "fingerprint"),
    *("priority", "generation", "definition_id", "weight", "attempts", "result_size", "newest"),
    *("finished_at", "created_at", "updated_at", "size", "used_at", "decided_at", "happened_at"),
    *("asked_at", "expires_at", "execution_time", "queue_wait", "bin", "wait_bin", "time_bin"),
    *("calls", "seconds", "largest", "hour", "key", "sequence", "value", "is_open", "reserved"),
    *("reached_executor", "id", "name", "engine", "process", "noted_at", "decided_by"),
}
"""Columns of which another value of the right kind tells of nothing that is wrong."""
NAMED: Final = {
    "call_id": {"whole"},
    "caller_id": {"stats of rows"},
    "conversation_id": {"summary"},
    "session_id": {"load", "restore", "of one session", "sessions", "remembered"},
    "fingerprint": {"remembered"},
    "decision_id": {"stands"},
    "principal": {"of one principal"},
    "name": {"removed"},
}
"""Questions that name what stands there: a row that says something else is not meant."""
KINDS: Final = {"TEXT": str, "INTEGER": int, "REAL": float, "BLOB": bytes}
Read = Callable[[], Awaitable[Any]]
STANDS: Final = request_for(session_id="chat", principal="ann", engine="e")
STANDING_ID: Final = standing_of(STANDS, ApprovalDecision(is_approved=True), NOW).decision_id


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a row of everything."""
    path = tmp_path_factory.mktemp("sound") / "calls.db"
    asyncio.run(_fill(path))
    return path


async def _fill(path: Path) -> None:
    url = f"sqlite:///{path}"
    config = ToolEngineConfig(auto_reload=False, records=url)
    async with ToolEngine(config) as engine:
        engine.register_tool({"name": "t", "description": "D.", "version": "1.0.0"}, lambda: 1)
        await engine.execute("t", {})
        storage: Any = engine.store.storage
        common = {"conversation_id": "c", "session_id": "chat", "caller_id": "me"}
        for number in (0, 1):
            storage.add(call(number, **common))
        storage.add(call(2, "timeout", execution_time=2.0, queue_wait=1.0, **common))
        large = {"text": "x" * 9_000}
        storage.add(call(3, output=large, **common))
        session = ToolSession(engine, "chat")
        await session.save({"turn": 1})
        request = request_for(session_id="chat", token="t-1", fingerprint="f")
        await engine.store.approvals.put(request)
        await engine.store.approvals.remember(request, ApprovalDecision(is_approved=True))
        approvals: Any = engine.store.approvals
        await approvals.keep_standing(STANDS, ApprovalDecision(is_approved=True, always="call"))
        await engine.store.prune(RecordRetention(max_count=4))
    events = SQLEventStorage(url)
    await events.open()
    for number in (1, 2, 3):
        result = ToolExecutionResult(True, "t", {"a": 1}, executed_at=NOON)
        kind = ToolEngineEventType.EXECUTION_COMPLETED
        events.append(
            ToolEngineEvent(
                kind, "t", None, None, None, result, NOON, sequence=number, data={"a": 1}
            )
        )
    await events.close()


def _columns() -> list[tuple[str, str]]:
    """From the schema itself."""
    from tool_engine.knowledge.sql.schema.schema import list_statements

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE tool_engine_schema (version INTEGER)")
        for statement in list_statements("sqlite", 0):
            connection.execute(statement)
        return [
            (table, column[1])
            for table in TABLES
            for column in connection.execute(f"PRAGMA table_info({table})")
        ]


COLUMNS: Final = _columns()


def _of_records(storage: SQLRecordStorage, record_id: str) -> dict[str, Read]:
    store = ToolKnowledgeStore(storage)

    async def exported() -> list[str]:
        return [part async for part in export_records(store, "csv")]

    async def pruned() -> int:
        await store.prune(RecordRetention(max_count=1))
        return (await storage.totals(RecordQuery(caller_id="nobody"))).total

    return {
        "history": store.query_call_records,
        "page": lambda: store.query_call_records(limit=2, oldest_first=True),
        "record": lambda: store.get(record_id),
        "whole": lambda: store.get_whole("call-3"),
        "stats": store.get_call_statistics,
        "stats of rows": lambda: store.get_call_statistics(caller_id="me"),
        "summary": lambda: store.get_call_summary("c"),
        "totals": lambda: storage.totals(RecordQuery()),
        "export": exported,
        "removed": storage.removed_until,
        "prune": pruned,
    }


def _of_sessions(storage: SQLRecordStorage, record_id: str) -> dict[str, Read]:
    store = ToolKnowledgeStore(storage)

    async def restored() -> Any:
        engine = ToolEngine(ToolEngineConfig(auto_reload=False))
        session = await ToolSession.restore(engine, "chat", storage=storage.sessions)
        return session and session.more

    return {
        "sessions": storage.sessions.list,
        "load": lambda: storage.sessions.load("chat"),
        "restore": restored,
        "pending": storage.approvals.pending,
        "of one session": lambda: storage.approvals.pending("chat"),
        "remembered": lambda: storage.approvals.remembered("chat", "f"),
        "standing": storage.approvals.list_standing,
        "of one principal": lambda: storage.approvals.list_standing("ann"),
        "stands": lambda: storage.approvals.find_standing([STANDING_ID]),
        "prune": lambda: store.prune(RecordRetention(max_session_age=1e9)),
    }


def _of_events(storage: SQLRecordStorage, record_id: str) -> dict[str, Read]:
    url = str(storage.url)
    events = EventReader(url)

    async def kept() -> Any:
        log = SQLEventStorage(url)
        try:
            await log.open()
            return await log.read(0, 10)
        finally:
            await log.close()

    async def closing_it(read: Read) -> Any:
        try:
            return await read()
        finally:
            await events.close()

    return {
        "newest events": lambda: closing_it(lambda: events.newest(10)),
        "told events": lambda: closing_it(events.whole_tail().read),
        "events": kept,
    }


def _questions(table: str) -> Callable[[SQLRecordStorage, str], dict[str, Read]]:
    if table in ("tool_sessions", "tool_approvals", "tool_decisions", "tool_standing"):
        return _of_sessions
    return _of_events if table.startswith("tool_event") else _of_records


async def _answers(path: Path, table: str, record_id: str) -> dict[str, Any]:
    """What each question gives: what is asked for, or the error."""
    found: dict[str, Any] = {}
    storage = SQLRecordStorage(f"sqlite:///{path}")
    try:
        for name, read in _questions(table)(storage, record_id).items():
            async with asyncio.timeout(BOUND):
                try:
                    found[name] = await read()
                except ToolEngineError as error:
                    found[name] = error
    finally:
        await storage.close()
    return found


_HEALTHY: Final[dict[tuple[Path, str], tuple[str, dict[str, str]]]] = {}


async def _sound_answers(sound: Path, folder: Path, table: str) -> tuple[str, dict[str, str]]:
    """The id of a record, and what each question gives where nothing is damaged; asked once."""
    if (sound, table) not in _HEALTHY:
        record_id = await _first_id(sound)
        answers = await _answers(_copied(sound, folder, "healthy"), table, record_id)
        assert not [each for each in answers.values() if isinstance(each, Exception)]
        _HEALTHY[sound, table] = record_id, {name: _plain(each) for name, each in answers.items()}
    return _HEALTHY[sound, table]


def _is_free(path: Path, table: str, column: str) -> bool:
    """Whether what stands there now could have been written."""
    if column not in FREE or table == "tool_engine_schema":
        return False
    (kind,) = [
        each[2] for each in ask_file(path, f"PRAGMA table_info({table})") if each[1] == column
    ]
    values = [each for (each,) in ask_file(path, f"SELECT {column} FROM {table}")]
    return all(
        value is None or (isinstance(value, KINDS[kind]) and value == value and value != 9e999)
        for value in values
    )


@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_each_column(sound: Path, tmp_path: Path, table: str, column: str) -> None:
    """What is read is right, or an error says which row is damaged and what to do."""
    record_id, healthy = await _sound_answers(sound, tmp_path, table)

    async def check(name: str) -> None:
        path = _copied(sound, tmp_path, name)
        try:
            ask_file(path, f"UPDATE {table} SET {column} = {DAMAGES[name].format(column)}")
        except sqlite3.IntegrityError:
            return  # it can never stand there
        # Whatever stands there, calls are not of an engine of that name: they have no process.
        is_free = column == "engine"
        is_free = is_free or (name != "broken UTF-8" and _is_free(path, table, column))
        for question, answer in (await _answers(path, table, record_id)).items():
            if isinstance(answer, ToolEngineError):
                assert _has_place_and_cure(str(answer)), (name, question, str(answer))
            elif not is_free and question not in NAMED.get(column, ()):
                assert _plain(answer) == healthy[question], (name, question)

    names = list(FEW if column in FREE else DAMAGES)
    if not IS_WHOLE:  # one of them, another in the next column
        names = [names[COLUMNS.index((table, column)) % len(names)]]
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(check(name))


async def _first_id(path: Path) -> str:
    storage = SQLRecordStorage(f"sqlite:///{path}")
    try:
        return (await storage.query(RecordQuery(call_id="call-1")))[0].record_id
    finally:
        await storage.close()


def _copied(sound: Path, folder: Path, name: str) -> Path:
    path = folder / f"{name}.db"
    for each in folder.glob(f"{name}.db*"):
        each.unlink()
    shutil.copy(sound, path)
    return path


def _has_place_and_cure(message: str) -> bool:
    is_placed = re.search(r"tool_\w+|session '|event \d|records\b|database", message)
    return is_placed is not None and bool(re.search(r"; |: take|: delete", message))


def _plain(answer: Any) -> Any:
    return repr(answer)


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES: Final[dict[str, Callable[[Path], object]]] = {
    "a text file": lambda path: path.write_text("no database\n" * 100),
    "half of it": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "its first page only": lambda path: path.write_bytes(path.read_bytes()[:4096]),
    "other bytes in the middle": lambda path: path.write_bytes(
        path.read_bytes()[:8192] + b"\xff" * 8192 + path.read_bytes()[16384:]
    ),
    "a folder": _make_folder,
    "no column": lambda path: ask_file(path, "ALTER TABLE tool_calls DROP COLUMN params"),
    "a table of other columns": lambda path: [
        ask_file(path, "DROP TABLE tool_values"),
        ask_file(path, "CREATE TABLE tool_values (a TEXT)"),
    ],
    "a newer version": lambda path: ask_file(path, "UPDATE tool_engine_schema SET version = 999"),
}


@pytest.mark.parametrize("damage", FILES)
@pytest.mark.parametrize("table", ["tool_calls", "tool_sessions", "tool_events"])
def test_file(sound: Path, tmp_path: Path, damage: str, table: str) -> None:
    """Of a file that is damaged as a whole, each answer is the right one or a typed error."""
    record_id, healthy = asyncio.run(_sound_answers(sound, tmp_path, table))
    path = _copied(sound, tmp_path, "damaged")
    FILES[damage](path)
    for question, answer in asyncio.run(_answers(path, table, record_id)).items():
        if isinstance(answer, ToolEngineError):
            assert str(path) in str(answer), (question, str(answer))
        else:
            assert _plain(answer) == healthy[question], question


async def test_the_others_are_read_around_it(sound: Path, tmp_path: Path) -> None:
    """The cures: before and after, and the statement that removes the row."""
    path = _copied(sound, tmp_path, "damaged")
    ask_file(path, "UPDATE tool_calls SET params = '{' WHERE call_id = 'call-2'")
    storage = SQLRecordStorage(f"sqlite:///{path}")
    store = ToolKnowledgeStore(storage)
    try:
        with pytest.raises(RecordsUnavailableError, match="is damaged") as found:
            await store.query_call_records()
        message = str(found.value)
        name = re.findall(r"before='([^']+)'", message)[0]
        around = [
            each.call_id
            for records in (
                await store.query_call_records(before=name),
                await store.query_call_records(after=name),
            )
            for each in records
        ]
        assert [each for each in around if each in ("call-1", "call-3")] == [
            "call-1",
            "call-3",
        ]
        ask_file(path, re.findall(r"DELETE FROM tool_calls WHERE key = -?\d+", message)[0])
        assert len(await store.query_call_records()) == 3
    finally:
        await storage.close()


async def test_statistics_are_counted_anew(sound: Path, tmp_path: Path) -> None:
    """The cure of damaged statistics, which can be made of the calls."""
    path = _copied(sound, tmp_path, "damaged")
    ask_file(path, "UPDATE tool_statistics SET calls = 'many' WHERE tool_name = 'echo'")
    storage = SQLRecordStorage(f"sqlite:///{path}")
    try:
        with pytest.raises(RecordsUnavailableError, match="tool_statistics") as found:
            await storage.statistics(RecordQuery())
        ask_file(
            path, re.findall(r"UPDATE tool_engine_schema SET version = \d", str(found.value))[0]
        )
        await storage.close()
        storage = SQLRecordStorage(f"sqlite:///{path}")
        assert (await storage.statistics(RecordQuery())).total == 4
    finally:
        await storage.close()


async def test_events_go_on_after_it(sound: Path, tmp_path: Path) -> None:
    """A damaged event ends a reading, and the message says from where it goes on."""
    path = _copied(sound, tmp_path, "damaged")
    ask_file(path, "UPDATE tool_events SET body = 'x' WHERE sequence = 2")
    log = SQLEventStorage(f"sqlite:///{path}")
    await log.open()
    try:
        with pytest.raises(RecordsUnavailableError, match=r"event 2 .*; go on after 2"):
            await log.read(0, 10)
        assert [each.sequence for each in await log.read(2, 10)] == [3]
    finally:
        await log.close()


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        *(("params", each) for each in ("{", "[1]", "")),
        *(("result", each) for each in ("{", "null", None)),
        ("outcome", "lost"),
        *(("execution_time", each) for each in (-1.0, float("nan"), float("inf"))),
        ("finished_at", 2**62),
        *(("attempts", each) for each in (-1, 2**62)),
    ],
)
async def test_in_postgresql(postgres_server: Any, column: str, damage: Any) -> None:
    """What a server lets in: it keeps the kinds, and not what is written in them."""
    storage = SQLRecordStorage(await asyncio.to_thread(postgres_server.fresh_database))
    try:
        for number in (1, 2, 3):
            storage.add(call(number, caller_id="me"))
        (other, healthy, _) = await storage.query(RecordQuery())
        statement = text(f"UPDATE tool_calls SET {column} = :damage WHERE call_id = 'call-1'")
        async with storage._database.reader.connection() as connection:
            await connection.execute(statement, {"damage": damage})
        if (column, damage) != ("attempts", 2**62):
            with pytest.raises(RecordsUnavailableError, match=r"row -?\d+.* is damaged"):
                await storage.query(RecordQuery())
        if column in ("outcome", "execution_time"):
            with pytest.raises(RecordsUnavailableError, match=r"tool_calls|row"):
                await storage.statistics(RecordQuery(caller_id="me"))
        found = await storage.query(RecordQuery(limit=2))
        assert [each.record_id for each in found] == [other.record_id, healthy.record_id]
    finally:
        await storage.close()


@pytest.mark.parametrize(
    ("damage", "commands"),
    [
        (
            "UPDATE tool_calls SET params = '{', execution_time = 'x'",
            ("history", "stats --session chat", "export"),
        ),
        ("UPDATE tool_statistics SET calls = 'x'", ("stats",)),
        ("UPDATE tool_events SET body = 'x'", ("events",)),
        ("UPDATE tool_sessions SET size = 'x'", ("sessions list",)),
        ("UPDATE tool_approvals SET data = 'x'", ("sessions pending",)),
    ],
)
def test_commands(
    sound: Path,
    tmp_path: Path,
    damage: str,
    commands: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command says what is damaged and ends with an error, and with no traceback."""
    path = _copied(sound, tmp_path, "damaged")
    ask_file(path, damage)
    for command in commands:
        code = run([*command.split(), "--records", f"sqlite:///{path}"])
        said = capsys.readouterr()
        assert code not in (0, None), command
        assert "Traceback" not in said.err + said.out, command
        assert re.search("damaged|not one that this version wrote", said.err + said.out), said
