"""What an error about kept records, events or sessions says to do is done, and it goes.

A newer version of tool-engine is a copy of this one with something more in it, which runs in a
process of its own. Rows as in `test_cures_of_errors`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Executable, text

from tests import postgres_server as servers
from tests.cli.talking import in_pipe
from tests.contracts.test_approval_storage_contract import request_for
from tests.contracts.test_cures_of_errors import names_cure
from tests.knowledge.sql.conftest import BOUND
from tests.ports import free_port
from tests.warm import run
from tool_engine import ToolEngine, ToolEngineConfig, ToolSession
from tool_engine.errors import (
    ConfigurationError,
    MissingExtraError,
    RecordsUnavailableError,
    SessionError,
)
from tool_engine.knowledge.sql import session_statements
from tool_engine.knowledge.sql.schema import packed_json
from tool_engine.knowledge.sql.storage import SQLRecordStorage

ROOT = Path(__file__).parents[2]
KNOWLEDGE, SQL = "knowledge/", "knowledge/sql/"
OTHER_VERSION = KNOWLEDGE + "memory_approvals.py: delete the session …"
CURSOR = KNOWLEDGE + "cursor.py: leave … out to read …"
SET = SQL + "connection/address.py: set it before the engine starts"
WRITE = SQL + "connection/address.py: write the secret into it"
ITS_VERSION = SQL + "event_reader.py: read it with the version of tool-engine that the engine has"
START = SQL + "sql_events.py: start it, or leave out keep_events"
DAMAGED = SQL + "schema/packed_json.py: delete the session …, or take the database from a copy"
LESS = SQL + "schema/packed_json.py: keep less of it"
INSTALL = SQL + "connection/opening.py: run: pip install 'tool-engine[…]'"
UPGRADE = "upgrade tool-engine, or name another database"
NEWER = f"{SQL}schema/schema.py: {UPGRADE}"
PAST = SQL + "schema/event_rows.py: go on after …"
NUMBERS = SQL + "sql_events.py: UPDATE tool_event_numbers SET reserved = … WHERE id = 1"  # noqa: S608 - a message
COPY = SQL + "writing/sqlite.py: take the database from a copy"
TRIED = {
    OTHER_VERSION, CURSOR, SET, WRITE, ITS_VERSION, START, DAMAGED, LESS, INSTALL, PAST, NUMBERS,
    COPY, NEWER,
}  # fmt: skip
MAKE = """
import asyncio, sys
from tool_engine import ToolEngine, ToolEngineConfig
async def main():
    config = ToolEngineConfig(auto_reload=False, records=sys.argv[1], keep_events=100)
    async with ToolEngine(config) as engine:
        engine.register_tool({"name": "t", "description": "A thing.", "effect": "read"}, run)
        assert (await engine.execute("t", {})).is_success
async def run(): return 1
asyncio.run(main())
"""
"""A program whose engine keeps a call and its events."""


def config(url: str | None, **more: object) -> ToolEngineConfig:
    return ToolEngineConfig(auto_reload=False, records=url, **more)  # type: ignore[arg-type]


async def opens(url: str | None, **more: object) -> None:
    """An engine begins and ends."""
    async with asyncio.timeout(BOUND), ToolEngine(config(url, **more)):
        pass


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/calls.db"
    fresh: str = request.getfixturevalue("postgres_server").fresh_database()
    return fresh


@pytest_asyncio.fixture
async def engine(url: str) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(config(url)) as opened:
        yield opened


async def change(engine: ToolEngine, statement: Executable) -> None:
    """Does to the database what no program of ours does."""
    storage = engine.store.storage
    assert isinstance(storage, SQLRecordStorage)
    async with storage._database.reader.connection() as connection:
        await connection.execute(statement)


@pytest.mark.parametrize(
    ("row", "damage"),
    [
        (DAMAGED, b"garbage"),
        (DAMAGED, packed_json.pack_text("[1]", "it")[1]),
        (OTHER_VERSION, None),
    ],
)
async def test_damaged_session(engine: ToolEngine, row: str, damage: bytes | None) -> None:
    """The message names the session to delete, also where all of them are asked."""
    sessions, approvals = engine.store.sessions, engine.store.approvals
    for name in ("other", "chat"):
        await sessions.save(name, {"turn": 1})
        await approvals.put(request_for(session_id=name, token=name))
    tables = {"approvals"} if damage is None else {"sessions", "approvals"}
    data = damage or packed_json.pack_text('{"token": 1}', "it")[1]
    for table in tables:
        statement = getattr(session_statements, table).update().values(data=data)
        await change(engine, statement.where(text("session_id = 'chat'")))
    failures: list[SessionError] = []
    for read in (approvals.pending(), sessions.load("chat")):
        try:
            await read
        except SessionError as error:
            failures.append(error)
    told = [each for each in failures if names_cure(row, str(each))]
    assert told, failures
    for each in told:
        assert "delete the session 'chat'" in str(each)
    assert await sessions.delete("chat")
    assert [each.session_id for each in await approvals.pending()] == ["other"]
    assert await sessions.load("chat") is None


@pytest.mark.parametrize("is_oldest_first", [False, True])
@pytest.mark.parametrize("field", ["before", "after"])
async def test_place_in_the_records(engine: ToolEngine, field: str, is_oldest_first: bool) -> None:
    """Both cures: an id of a record that was read, and none."""

    @engine.tool(effect="read")
    async def count(number: int) -> int:
        """Gives it."""
        return number

    for number in range(3):
        await engine.execute("count", {"number": number})
    order: dict[str, Any] = {"oldest_first": is_oldest_first}
    wrong: dict[str, Any] = {field: "nothing"}
    with pytest.raises(ConfigurationError) as raised:
        await engine.query_call_records(**wrong, **order)
    assert names_cure(CURSOR, str(raised.value)), raised.value
    records = await engine.query_call_records(limit=2, **order)
    given: dict[str, Any] = {field: records[-1].record_id}
    assert len(await engine.query_call_records(**given, **order)) == 1
    every = [each.params["number"] for each in await engine.query_call_records(**order)]
    assert every == ([0, 1, 2] if is_oldest_first else [2, 1, 0])


async def test_too_large_session(engine: ToolEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with less in it is kept."""
    monkeypatch.setattr(packed_json, "MOST_BYTES", 2_000)
    session = ToolSession(engine, "chat")
    with pytest.raises(SessionError) as raised:
        await session.save({"text": os.urandom(4_000).hex()})
    assert names_cure(LESS, str(raised.value)), raised.value
    await session.save({"text": "short"})
    assert await engine.store.sessions.load("chat") is not None


async def test_secret_of_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine begins once its variable is set, or its file has something in it."""
    place, file = f"sqlite:///{tmp_path}/calls.db", tmp_path / "secret"
    file.touch()
    for row, named in ((SET, "${env:URL_OF_CURES}"), (WRITE, f"${{file:{file}}}")):
        with pytest.raises(ConfigurationError) as raised:
            await opens(named)
        assert names_cure(row, str(raised.value)), raised.value
    monkeypatch.setenv("URL_OF_CURES", place)
    file.write_text(place)
    await opens("${env:URL_OF_CURES}")
    await opens(f"${{file:{file}}}")


async def test_database_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started, it serves; without kept events an engine begins before it does."""
    port = free_port()
    url = servers.PostgresServer(port, ROOT).url()
    with pytest.raises(RecordsUnavailableError) as raised:
        await opens(url, keep_events=10)
    assert names_cure(START, str(raised.value)), raised.value
    await opens(url)
    monkeypatch.setattr(servers, "free_port", lambda: port)
    with servers.running_server():
        await opens(url, keep_events=10)


def test_missing_library(tmp_path: Path, url: str) -> None:
    """What the message says to install brings the library that is missing."""
    name = "aiosqlite" if url.startswith("sqlite") else "asyncpg"
    without = f"import sys; sys.modules[{name!r}] = None\n{MAKE}"
    failed = subprocess.run(
        [sys.executable, "-c", without, url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND,
    )
    assert failed.returncode != 0
    message = failed.stderr.strip().splitlines()[-1]
    assert MissingExtraError.__name__ in message
    assert names_cure(INSTALL, message), message
    (extra,) = re.findall(r"pip install 'tool-engine\[(\w+)\]'", message)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    brought = project["optional-dependencies"][extra]
    assert any(each.startswith(name) for each in brought), brought
    make(tmp_path, str(ROOT), url)


def newer(folder: Path, file: str, old: str, new: str) -> str:
    """Where a copy of the package is in which one text of a file is another."""
    # With what is compiled: Python takes it as long as a file is as old and as long as it was.
    shutil.copytree(ROOT / "tool_engine", folder / "tool_engine")
    changed = folder / "tool_engine" / file
    before = changed.read_text("utf-8")
    assert before.count(old) == 1
    changed.write_text(before.replace(old, new), "utf-8")
    return str(folder)


def make(place: Path, version: str, url: str) -> None:
    """An engine of a version keeps a call and its events."""
    if version == str(ROOT):
        run(["-c", MAKE, url], cwd=place, timeout=BOUND).check_returncode()
        return
    words = [sys.executable, "-c", MAKE, url]
    env = {**os.environ, "PYTHONPATH": version}
    subprocess.run(words, cwd=place, env=env, check=True, timeout=BOUND)


def test_tables_of_a_newer_version(tmp_path: Path, url: str) -> None:
    """The newer version reads them, and this one writes to another database."""
    last = '("ALTER TABLE tool_sessions ADD COLUMN {if_missing}revision TEXT",),\n'
    more = '    ("CREATE TABLE tool_newer (id INTEGER)",),\n'
    version = newer(tmp_path / "newer", "knowledge/sql/schema/schema.py", last, last + more)
    make(tmp_path, version, url)
    history = ("--records", url, "history")
    refused = in_pipe(tmp_path, *history)
    assert refused.code != 0
    assert names_cure(NEWER, " ".join(refused.err.split())), refused
    upgraded = in_pipe(tmp_path, *history, PYTHONPATH=version)
    assert (upgraded.code, upgraded.err) == (0, "")
    another = f"sqlite:///{tmp_path}/another.db"
    make(tmp_path, str(ROOT), another)
    assert in_pipe(tmp_path, "--records", another, "history").code == 0


def test_events_of_a_newer_version(tmp_path: Path, url: str) -> None:
    """The version that wrote them tells of them."""
    old, new = '"execution_completed"', '"execution_well_completed"'
    version = newer(tmp_path / "newer", "model/event.py", old, new)
    make(tmp_path, version, url)
    events = ("--records", url, "events", "--json")
    refused = in_pipe(tmp_path, *events)
    assert refused.code != 0
    assert names_cure(ITS_VERSION, " ".join(f"{refused.err} {refused.out}".split())), refused
    told = in_pipe(tmp_path, *events, PYTHONPATH=version)
    assert (told.code, new.strip('"') in told.out) == (0, True), told


def damage(file: Path, statement: str) -> None:
    """Does to a file of records what no program of ours does."""
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(statement).rowcount > 0


async def test_damaged_event(tmp_path: Path) -> None:
    """Those behind it are read by going on after it."""
    file, url = tmp_path / "calls.db", f"sqlite:///{tmp_path}/calls.db"
    make(tmp_path, str(ROOT), url)
    damage(file, "UPDATE tool_events SET body = '[' WHERE sequence = 2")
    async with asyncio.timeout(BOUND), ToolEngine(config(url, keep_events=100)) as engine:
        with pytest.raises(RecordsUnavailableError) as raised:
            async for _ in engine.events(after=0):
                pass
        assert names_cure(PAST, str(raised.value)), raised.value
        (place,) = re.findall(r"go on after (\d+)", str(raised.value))
        async for event in engine.events(after=int(place)):
            assert event.sequence == int(place) + 1
            break


async def test_damaged_numbers_of_events(tmp_path: Path) -> None:
    """The statement of the message is run, and the engine goes on where it stopped."""
    file, url = tmp_path / "calls.db", f"sqlite:///{tmp_path}/calls.db"
    make(tmp_path, str(ROOT), url)
    damage(file, "UPDATE tool_event_numbers SET reserved = 0")
    with pytest.raises(RecordsUnavailableError) as raised:
        await opens(url, keep_events=100)
    assert names_cure(NUMBERS, str(raised.value)), raised.value
    damage(file, str(raised.value).rpartition("; ")[2])
    await opens(url, keep_events=100)


async def test_damaged_version(tmp_path: Path) -> None:
    """A copy from before is put in its place."""
    file, url = tmp_path / "calls.db", f"sqlite:///{tmp_path}/calls.db"
    make(tmp_path, str(ROOT), url)
    before = await asyncio.to_thread(shutil.copy, file, tmp_path / "copy.db")
    damage(file, "UPDATE tool_engine_schema SET version = 'three'")
    with pytest.raises(ConfigurationError) as raised:
        await opens(url, keep_events=100)
    assert names_cure(COPY, str(raised.value)), raised.value
    await asyncio.to_thread(shutil.copy, before, file)
    await opens(url, keep_events=100)
