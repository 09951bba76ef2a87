"""What do a hundred thousand tasks that wait cost those who ask for others?"""

from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy.dialects import postgresql

from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.knowledge.sql import task_claims as claims
from tool_engine.knowledge.sql import task_statements as sql
from tool_engine.knowledge.sql.changes import Step, write_for_sqlite
from tool_engine.knowledge.sql.storage import SQLRecordStorage

WAITING = 100_000 if IS_WHOLE else 20_000
MOST = 600
"""Pages that one statement may look at, of which the table has thousands."""
COPY = """
INSERT INTO tool_tasks (task_id, owner, tool_name, status, priority, turn, expires_at, state, data)
SELECT task_id || each, owner, tool_name, status, priority, each, expires_at, state, data
FROM tool_tasks, generate_series(1, $1::int) AS each WHERE tool_name = 'tool_0'
"""
NEW: dict[str, Any] = {
    **dict.fromkeys(("task_id", "owner", "state", "data"), ""),
    **dict.fromkeys(("worker", "bound_to", "call_key"), None),
    "tool_name": "tool_0",
    "status": "queued",
    "priority": 5,
    "expires_at": 0.0,
}
ASKED: dict[str, Any] = {
    "the first": claims.claim_tasks("w", 4, (), is_own=False).statement,
    "beside a full one": claims.claim_tasks("w", 4, ["tool_0"], is_own=False).statement,
    "where all are full": claims.claim_tasks(
        "w", 4, [f"tool_{each}" for each in range(9)], is_own=False
    ).statement,
    "its own": claims.claim_tasks("w", 4, ["tool_0"], is_own=True).statement,
    "expired": claims.claim_expired("w", 0.0, 64).statement,
    "forgotten": sql.remove_expired(0.0).statement,
    "whether there are any": sql.has_open(),
    "places": sql.count_ahead((5, WAITING, WAITING // 2), 1001),
    "a list": sql.select_states(None, None, 101, None, None, 0.0, results=False),
    "of those that run": sql.select_states(None, "running", 101, None, None, 0.0, results=False),
    "of those that ask": sql.select_states(
        None, "input_required", 101, None, None, 0.0, results=False
    ),
    "of those that failed": sql.select_states(None, "failed", 101, None, None, 0.0, results=False),
    "a worker's": sql.select_own("w"),
    "inherited": sql.inherit_tasks("dead", "w").statement,
    "a new one": sql.insert_task(NEW).statement.bindparams(  # type: ignore[attr-defined]
        **NEW | {"state": b"", "data": b""}
    ),
    "given up": sql.retire_worker("w")[0].statement,
}


def wait() -> None:
    """Stands for a tool: none of its tasks runs here."""


@pytest.fixture(scope="module")
def plans(postgres_server: PostgresServer) -> dict[str, str]:
    """How the server answers each, beside very many tasks of one tool and one each of others."""

    dialect: Any = postgresql.dialect

    async def ask() -> dict[str, str]:
        url = await asyncio.to_thread(postgres_server.fresh_database)
        config = ToolEngineConfig(tools_directory="none", records=url, run_tasks=False)
        async with ToolEngine(config) as engine:
            for each in range(9):
                engine.register_tool({"name": f"tool_{each}", "description": "Waits"}, wait)
                await engine.start(f"tool_{each}")
        connection = await asyncpg.connect(url)
        await connection.execute(COPY, WAITING)
        await connection.execute("VACUUM ANALYZE tool_tasks")
        found = {}
        for name, statement in ASKED.items():
            written = statement.compile(dialect=dialect(), compile_kwargs={"literal_binds": True})
            change = connection.transaction()
            await change.start()
            rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {written}")
            await change.rollback()
            found[name] = "\n".join(row[0] for row in rows)
        await connection.close()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize("name", ASKED)
def test_pages_that_are_read(plans: dict[str, str], name: str) -> None:
    """No statement reads all that waits."""
    plan = plans[name]
    read = max(map(int, re.findall(r"shared hit=(\d+)", plan)), default=0)
    read += max(map(int, re.findall(r"read=(\d+)", plan)), default=0)
    assert read < MOST, plan


@pytest.mark.parametrize(("name", "count"), [("beside a full one", 4), ("where all are full", 0)])
def test_what_is_found(plans: dict[str, str], name: str, count: int) -> None:
    """Others are found behind those of a tool that is full."""
    plan = plans[name]
    assert re.search(r"rows=(\d+) loops", plan)[1] == str(count), plan  # type: ignore[index]


def count_steps(path: Path, waiting: int) -> dict[str, int]:
    """The steps that SQLite takes for each, beside so many tasks of one tool and some of others."""

    async def make() -> None:
        storage = SQLRecordStorage(f"sqlite:///{path}")
        await storage.open()
        await storage.close()

    asyncio.run(make())
    found = {}
    with closing(sqlite3.connect(path)) as file:
        file.executemany(
            "INSERT INTO tool_tasks (task_id, owner, tool_name, status, priority, turn, expires_at,"
            " state, data) VALUES (?, '', ?, 'queued', 5, ?, 1e12, x'7b7d', x'')",
            [(f"t{each}", f"tool_{each if each < 9 else 0}", each) for each in range(waiting)],
        )
        file.commit()
        for name, statement in ASKED.items():
            steps = itertools.count()
            file.set_progress_handler(partial(lambda each: next(each) < 0, steps), 1)
            written, values = write_for_sqlite(Step(statement, NEW if name == "a new one" else {}))
            file.execute(written, values).fetchall()
            found[name] = next(steps)
            file.set_progress_handler(None, 1)
            file.rollback()
    return found


def test_steps_in_a_file(tmp_path: Path) -> None:
    """No statement takes more steps where ten times as many wait."""
    few, many = (count_steps(tmp_path / f"{each}.db", each) for each in (2_000, 20_000))
    # Places are counted up to a bound.
    few["places"] = many["places"]
    assert {name: steps for name, steps in many.items() if steps > few[name] * 1.2 + 50} == {}
