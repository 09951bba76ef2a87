"""How many records a second come into a database through the engine's writer?

From the first append to the last commit: with redaction, JSON, every index, the statistics that are
kept beside them, and the log that survives a kill. And how long questions about them take.

`python -m tests.benchmarks.records` measures nothing else.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec

from tests.benchmarks import report
from tests.knowledge.calls import entry_of
from tool_engine.knowledge.sql.schema.rows import RowMaker
from tool_engine.knowledge.sql.schema.schema import COLUMNS
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import CallEntry, RecordQuery
from tool_engine.model.tool import Tool, ToolCategory

__all__ = ["records"]

COUNT = 40_000
TURNS = 5
LIMIT = 60.0
SQLITE_BUDGET = 100_000
"""Records a second."""
POSTGRES_BUDGET = 20_000
APPEND_BUDGET = 0.2
"""Microseconds that a call pays for its record."""
QUESTION_BUDGETS = (10.0, 20.0, 100.0)
"""Milliseconds for the questions of `question_times`."""
FLOOR = "rows of the same size with sqlite3 by hand, without an index"
TOOL = Tool("add", "add", "1.0.0", "Adds", ToolCategory.CUSTOM, [], [], {})


def entries() -> list[CallEntry]:
    """Finished calls of one tool, of 100 conversations and 20 agents."""
    now = datetime.now(UTC)
    return [
        entry_of(
            ToolExecutionResult(
                True,
                "add",
                {"result": number},
                execution_time=0.001 * (number % 7),
                executed_at=now + timedelta(microseconds=20 * number),
            ),
            {"a": number, "b": 2},
            ToolExecutionContext(f"agent-{number % 20}", conversation_id=f"chat-{number % 100}"),
            TOOL,
            call_id=f"call-1f3-18f3b3b3b-1-{number:x}",
        )
        for number in range(COUNT)
    ]


async def rate(url: str) -> float:
    """Records a second in the best of some turns; each has more rows in the table before it."""
    storage = SQLRecordStorage(url)
    await storage.open()
    best = 0.0
    for _ in range(TURNS):
        kept = entries()
        started = time.perf_counter()
        for each in kept:
            storage.add(each)
        if not await storage.flush(LIMIT):
            raise TimeoutError(f"{storage!r} took more than {LIMIT:g} s for {COUNT:,} records")
        best = max(best, COUNT / (time.perf_counter() - started))
    await storage.close()
    return best


def floor(path: str) -> float:
    """Rows a second that the library writes into one table with 500 to a commit."""
    rows = RowMaker().batch(entries()).rows
    places = ", ".join("?" * len(COLUMNS))
    best = 0.0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"CREATE TABLE rows ({', '.join(COLUMNS)})")
        for _ in range(TURNS):
            started = time.perf_counter()
            for at in range(0, COUNT, 500):
                connection.execute("BEGIN")
                connection.executemany(f"INSERT INTO rows VALUES ({places})", rows[at : at + 500])  # noqa: S608 - names of columns
                connection.execute("COMMIT")
            best = max(best, COUNT / (time.perf_counter() - started))
    return best


async def question_times(url: str) -> dict[str, float]:
    """Milliseconds for each question, the best of some, about what is in the database."""
    storage = SQLRecordStorage(url)
    await storage.open()
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "the last 50 calls": lambda: storage.query(RecordQuery(limit=50)),
        "the summary of a conversation": lambda: storage.totals(
            RecordQuery(conversation_id="chat-7")
        ),
        "the statistics of all calls": lambda: storage.statistics(RecordQuery()),
    }
    found = {}
    for name, ask in questions.items():
        times = []
        for _ in range(TURNS):
            started = time.perf_counter()
            await ask()
            times.append(time.perf_counter() - started)
        found[name] = min(times) * 1000
    await storage.close()
    return found


async def append_cost(url: str) -> float:
    """Microseconds of one append, without those in which the writer began its work."""
    storage = SQLRecordStorage(url)
    (entry, *_), best = entries(), float("inf")
    for _ in range(40):
        started = time.perf_counter()
        for _ in range(500):
            storage.add(entry)
        best = min(best, (time.perf_counter() - started) / 500 * 1e6)
    await storage.close()
    return best


@contextmanager
def _postgres_url() -> Iterator[str | None]:
    """A new database on a server of its own; None where there is no server to start."""
    if find_spec("asyncpg") is None:
        yield None
        return
    servers = import_module("tests.postgres_server")
    try:
        with servers.running_server() as server:
            yield server.url()
    except servers.NoServerError:
        yield None


async def records() -> bool:
    """Measures the writer; whether each budget is kept. Without the libraries nothing is said."""
    if find_spec("sqlalchemy") is None or find_spec("aiosqlite") is None:
        print("(records in databases: SQLAlchemy and aiosqlite are not installed)")
        return True
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        cost = await append_cost(f"sqlite:///{folder}/appended.db")
        kept = report.budget("one append of a record", cost, APPEND_BUDGET, " µs")
        rates[FLOOR] = floor(f"{folder}/floor.db")
        rates["into a SQLite file"] = await rate(f"sqlite:///{folder}/calls.db")
        times = await question_times(f"sqlite:///{folder}/calls.db")
    with _postgres_url() as url:
        if url is not None:
            rates["into PostgreSQL"] = await rate(url)
    report.rates(f"Records through the writer, {COUNT:,} at a time", rates)
    del rates[FLOOR]
    for (name, found), least in zip(rates.items(), (SQLITE_BUDGET, POSTGRES_BUDGET), strict=False):
        what = f"microseconds for one record {name}"
        kept &= report.budget(what, 1e6 / found, 1e6 / least, " µs")
    for (name, found), most in zip(times.items(), QUESTION_BUDGETS, strict=True):
        kept &= report.budget(f"{name} among {TURNS * COUNT:,}", found, most, " ms")
    return kept


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(records()) else 1)
