"""How many records a second come into a database through the engine's writer?

From the first append to the last commit: with redaction, JSON, every index, and the log that
survives a kill.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec

from tests.benchmarks import report
from tests.knowledge.calls import entry_of
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import CallEntry
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


async def append_cost(url: str) -> float:
    """Microseconds of one append; the writer has no turn meanwhile."""
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
    if find_spec("pytest") is None or find_spec("asyncpg") is None:
        yield None
        return
    fixture = import_module("tests.postgres")
    skipped = import_module("pytest").skip.Exception
    try:
        with fixture.running_server() as server:
            yield server.url()
    except skipped:
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
        rates["into a SQLite file"] = await rate(f"sqlite:///{folder}/calls.db")
    with _postgres_url() as url:
        if url is not None:
            rates["into PostgreSQL"] = await rate(url)
    report.rates(f"Records through the writer, {COUNT:,} at a time", rates)
    for (name, found), least in zip(rates.items(), (SQLITE_BUDGET, POSTGRES_BUDGET), strict=False):
        what = f"microseconds for one record {name}"
        kept &= report.budget(what, 1e6 / found, 1e6 / least, " µs")
    return kept
