"""What happens to records while their database does not work: nothing is lost that still waits."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.knowledge.sql.conftest import (
    BOUND,
    Open,
    ask_file,
    call,
    empty_folder,
    until,
    write_broken,
)
from tests.postgres import running_server
from tests.warm_async import start
from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.sql import storage as storage_module
from tool_engine.knowledge.sql.connection.address import Address
from tool_engine.knowledge.sql.schema.rows import RowMaker
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.sql.writing.sqlite import SQLiteDatabase
from tool_engine.model.record import RecordQuery

HOLD = (
    "import sqlite3, sys, time\n"
    "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "connection.execute('BEGIN EXCLUSIVE')\n"
    "print('locked', flush=True)\n"
    "sys.stdin.readline()\n"
)


def events(logs: Any) -> list[str]:
    return [line["event"] for line in logs]


async def test_locked_by_another_process(database: Path, open_storage: Open) -> None:
    """While another process holds the file, calls wait; they are written when it lets go."""
    storage = await open_storage(database)
    holder = await start("-c", HOLD, str(database))
    assert await asyncio.wait_for(holder.stdout.readline(), BOUND) == b"locked\n"
    for number in range(100):
        storage.add(call(number))
    assert not await storage.flush(1.5)
    assert storage.waiting == 100
    await asyncio.wait_for(holder.communicate(b"\n"), BOUND)
    await until(lambda: storage.waiting == 0)
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(100,)]
    assert storage.dropped == 0


async def test_table_is_dropped(database: Path, open_storage: Open) -> None:
    """A table that somebody drops is made anew; what came after that is kept, and told once."""
    storage = await open_storage(database)
    storage.add(call(1))
    assert await storage.flush(BOUND)
    ask_file(database, "DROP TABLE tool_calls")
    with capture_logs() as logs:
        for number in range(2, 10):
            storage.add(call(number))
        await until(lambda: storage.waiting == 0)
    records = await storage.query(RecordQuery(oldest_first=True))
    assert [record.result["number"] for record in records] == list(range(2, 10))
    assert events(logs) == ["records_not_written", "records_written_again"]


async def test_file_is_deleted(database: Path, open_storage: Open) -> None:
    """Rows never go into a file that nobody can see any more."""
    storage = await open_storage(database)
    storage.add(call(1))
    assert await storage.flush(BOUND)
    empty_folder(database.parent)
    storage.add(call(2))
    assert await storage.flush(BOUND)
    assert ask_file(database, "SELECT call_id FROM tool_calls") == [("call-2",)]


async def test_file_becomes_garbage(database: Path, open_storage: Open) -> None:
    """While the file is no database calls wait, told once; they are written once it is moved."""
    storage = await open_storage(database)
    storage.add(call(1))
    assert await storage.flush(BOUND)
    empty_folder(database.parent)
    write_broken(database, os.urandom(50_000))
    with capture_logs() as logs:
        storage.add(call(2))
        assert not await storage.flush(BOUND)
        storage.add(call(3))
        with pytest.raises(RecordsUnavailableError):
            await storage.query(RecordQuery())
        assert events(logs) == ["records_not_written"]
        empty_folder(database.parent)
        await until(lambda: storage.waiting == 0)
    records = await storage.query(RecordQuery())
    assert [record.call_id for record in records] == ["call-3", "call-2"]


@pytest.mark.parametrize("how", ["deleted", "replaced", "again and again"])
async def test_file_is_taken_away_in_the_middle_of_a_commit(
    database: Path, tmp_path: Path, how: str
) -> None:
    """What was committed into a file that nobody will see again is not taken for kept."""
    writing = SQLiteDatabase(Address.of(f"sqlite:///{database}"), is_synchronous=True)
    await writing.open()
    shutil.copy(database, tmp_path / "older")
    taken_away = 0

    def take_away() -> None:
        nonlocal taken_away
        if taken_away and how != "again and again":
            return
        taken_away += 1
        database.unlink()
        if how == "replaced":
            shutil.copy(tmp_path / "older", database)

    batch = RowMaker().batch([call(number) for number in range(20)])
    batch.under_way = take_away
    if how == "again and again":
        with pytest.raises(sqlite3.OperationalError, match="again and again"):
            await writing.write(batch)
    else:
        await writing.write(batch)
        assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(20,)]
    assert taken_away
    await writing.close()


async def test_folder_is_deleted(database: Path, open_storage: Open) -> None:
    """The folder is made anew, too."""
    storage = await open_storage(database)
    empty_folder(database.parent)
    database.parent.rmdir()
    storage.add(call(1))
    assert await storage.flush(BOUND)
    assert len(await storage.query(RecordQuery())) == 1


FULL = """
import asyncio, json, resource, signal, sys
from structlog.testing import capture_logs
from tests.knowledge.sql.conftest import call
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.record import RecordQuery

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    storage = SQLRecordStorage(sys.argv[1])
    await storage.open()
    with capture_logs() as logs:
        limit(200_000)
        for number in range(5_000):
            storage.add(call(number, params={"text": "x" * 500}))
        fitted = await storage.flush(10)
        failed = storage.waiting
        limit(resource.RLIM_INFINITY)
        while not await storage.flush(10):
            await asyncio.sleep(0.05)
    totals = await storage.totals(RecordQuery())
    await storage.close()
    told = [line["event"] for line in logs]
    print(json.dumps([fitted, failed > 0, totals.total, totals.dropped, told]))

asyncio.run(asyncio.wait_for(main(), 60))
"""


async def test_disk_is_full(database: Path) -> None:
    """A disk that takes no more loses nothing that waits, and is told once."""
    # A limit on the size of files: the kernel refuses the write, as it does on a full disk.
    process = await start("-c", FULL, f"sqlite:///{database}")
    output, _ = await asyncio.wait_for(process.communicate(), BOUND * 2)
    assert json.loads(output) == [
        False,
        True,
        5_000,
        0,
        ["records_not_written", "records_written_again"],
    ]
    assert ask_file(database, "PRAGMA integrity_check") == [("ok",)]


READ_ONLY = """
import asyncio, ctypes, json, os, sys
from pathlib import Path
from structlog.testing import capture_logs
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import ConfigurationError

folder = Path(sys.argv[1])
records = f"sqlite:///{folder}/calls.db"
if os.geteuid() == 0:
    # Nobody stops root from writing, unless it gives up its capabilities.
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0

async def main():
    config = ToolEngineConfig(records=records, auto_reload=False, tools_directory=str(folder / "t"))
    engine = ToolEngine(config)

    @engine.tool(description="Says it again")
    async def echo(word: str) -> str:
        return word

    await engine.load()
    await engine.execute("echo", {"word": "first"})
    await engine.store.storage.flush(10)
    for path in folder.glob("calls.db*"):
        path.unlink()
    (folder / "calls.db").touch(0o400)
    with capture_logs() as logs:
        results = [await engine.execute("echo", {"word": "hi"}) for _ in range(200)]
        fitted = await engine.store.storage.flush(10)
        waiting = engine.store.storage.waiting
        try:
            await ToolEngine(config).load()
            refused = ""
        except ConfigurationError as error:
            refused = str(error).partition("cannot be used: ")[2]
        (folder / "calls.db").chmod(0o600)
        while not await engine.store.storage.flush(10):
            await asyncio.sleep(0.05)
    statistics = await engine.get_call_statistics()
    await engine.close()
    told = [line["event"] for line in logs if line["event"].startswith("records")]
    print(json.dumps([
        all(each.is_success for each in results), fitted, waiting, refused[:45],
        statistics["total_records"], statistics["dropped_records"], told,
    ]))

asyncio.run(asyncio.wait_for(main(), 60))
"""


async def test_file_is_read_only(tmp_path: Path) -> None:
    """A file that may only be read fails no call: they wait, are told of once, and come in later.

    An engine that starts with it says so.
    """
    process = await start("-c", READ_ONLY, str(tmp_path))
    output, errors = await asyncio.wait_for(process.communicate(), BOUND * 2)
    assert process.returncode == 0, errors.decode()
    assert json.loads(output) == [
        True,
        False,
        200,
        "OperationalError: attempt to write a readonly",
        200,
        0,
        ["records_not_written", "records_written_again"],
    ]


async def test_file_may_not_grow(database: Path, open_storage: Open) -> None:
    """A database that is full takes nothing more; once there is room it has everything."""
    storage = await open_storage(database)
    storage.add(call(0))
    assert await storage.flush(BOUND)
    writing: Any = storage._database._database
    ((pages,),) = ask_file(database, "PRAGMA page_count")
    await asyncio.to_thread(writing._connection.execute, f"PRAGMA max_page_count = {pages + 3}")
    with capture_logs() as logs:
        for number in range(1, 500):
            storage.add(call(number, params={"text": "x" * 500}))
        # The connection is made anew after a failure, and with it the bound is gone.
        await until(lambda: storage.waiting == 0)
    assert events(logs) == ["records_not_written", "records_written_again"]
    assert "full" in logs[0]["error"]
    assert ask_file(database, "SELECT count(*) FROM tool_calls") == [(500,)]
    assert (await storage.statistics(RecordQuery())).total == 500


async def test_close_is_bounded(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that takes nothing holds up the end for a bounded time, and the loss is told."""
    monkeypatch.setattr(storage_module, "_CLOSE_LIMIT", 0.5)
    storage = SQLRecordStorage(f"sqlite:///{database}")
    await storage.open()
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    for number in range(10):
        storage.add(call(number))
    with capture_logs() as logs:
        async with asyncio.timeout(BOUND):
            await storage.close()
    holder.execute("ROLLBACK")
    holder.close()
    assert storage.dropped == 10
    assert events(logs) == ["records_dropped"]


# A server.


async def test_server_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine starts before its server; what was called meanwhile is written when it is there."""
    monkeypatch.setattr(storage_module, "_CLOSE_LIMIT", 0.5)
    storage = SQLRecordStorage("postgresql://owner:x@127.0.0.1:1/calls")
    with capture_logs() as logs:
        await storage.open()
        storage.add(call(1))
        assert not await storage.flush(BOUND)
        with pytest.raises(RecordsUnavailableError, match=r"127\.0\.0\.1:1/calls"):
            await storage.query(RecordQuery())
    assert events(logs) == ["records_unreachable", "records_not_written"]
    assert storage.waiting == 1
    await storage.close()


class Restarts:
    """Ends the server of a folder, and starts it again as it was."""

    def __init__(self, folder: Path) -> None:
        self._pid_file = folder / "data" / "postmaster.pid"
        self._log = folder / "log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        process = Path(f"/proc/{self._pid}")
        self._command = process.joinpath("cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        self._owner = process.stat().st_uid

    @property
    def _pid(self) -> int:
        return int(self._pid_file.read_text().split()[0])

    def restart(self, sign: int) -> None:
        """Blocks until the server takes connections again."""
        self.end(sign)
        ready = self._log.read_text(errors="replace").count("ready to accept")
        limit = time.monotonic() + BOUND
        while self._log.read_text(errors="replace").count("ready to accept") == ready:
            # After a kill the server's own processes may need a moment to notice.
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert time.monotonic() < limit, self._log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)

    def end(self, sign: int) -> None:
        pid = self._pid
        os.kill(pid, sign)
        # Both are children of this process. One that nobody has asked counts as running.
        os.waitpid(pid, 0)
        if self._process is not None:
            self._process.wait(BOUND)

    def _start(self) -> None:
        owner = self._owner if os.geteuid() == 0 else None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._folder, user=owner
            )


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
async def test_server_is_restarted_under_load(sign: int) -> None:
    """A server that is restarted or killed while it takes records has them all afterwards, once."""
    with running_server() as server:
        restarts = Restarts(server.folder)
        url = await asyncio.to_thread(server.fresh_database)
        storage = SQLRecordStorage(url, durability="batch")
        await storage.open()
        added = 0

        async def load() -> None:
            nonlocal added
            while True:
                for _ in range(50):
                    added += 1
                    storage.add(call(added))
                await asyncio.sleep(0.01)

        loading = asyncio.create_task(load())
        await until(lambda: added > 500)
        await asyncio.to_thread(restarts.restart, sign)
        before = added
        await until(lambda: added > before + 500)
        loading.cancel()
        await asyncio.wait([loading])
        await until(lambda: storage.waiting == 0)
        totals = await storage.totals(RecordQuery())
        assert (totals.total, totals.dropped) == (added, 0)
        await storage.close()
        await asyncio.to_thread(restarts.end, signal.SIGKILL)
