"""Questions follow an index, in both databases; pages are stable while records come."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import postgresql, sqlite

from tests.knowledge.sql.conftest import BOUND, NOON, Open, call
from tool_engine.knowledge.sql import queries
from tool_engine.knowledge.sql.schema.keys import record_id_of
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.model.record import RecordQuery

OUTCOMES = (None, None, None, "timeout", None, "queue_full", None, None, "execution_error", None)
INDEXED = {
    "tool_calls_conversation": RecordQuery(conversation_id="chat-7"),
    "tool_calls_tool": RecordQuery(tool_name="tool-3"),
    "tool_calls_caller": RecordQuery(caller_id="caller-9"),
    "tool_calls_workflow": RecordQuery(workflow_id="flow-4"),
    "tool_calls_session": RecordQuery(session_id="session-4"),
    "tool_calls_task": RecordQuery(task_id="task-4"),
    "tool_calls_parent": RecordQuery(parent_call_id="call-1"),
    "tool_calls_call": RecordQuery(call_id="call-77"),
    "tool_calls_error": RecordQuery(error_type="queue_full"),
    "tool_calls_record": RecordQuery(record_id="made elsewhere"),
}
"""The index that each question has to use."""


async def filled(storage: SQLRecordStorage, count: int) -> SQLRecordStorage:
    for number in range(count):
        storage.add(
            call(
                number,
                OUTCOMES[number % 10],
                tool_name=f"tool-{number % 50}",
                conversation_id=f"chat-{number % 100}",
                caller_id=f"caller-{number % 30}",
                workflow_id=f"flow-{number % 20}" if number % 5 == 0 else None,
                parent_call_id=f"call-{number // 500}" if number % 25 == 0 else None,
                session_id=f"session-{number % 40}" if number % 5 == 0 else None,
                task_id=f"task-{number % 40}" if number % 5 == 0 else None,
            )
        )
    assert await storage.flush(BOUND)
    return storage


@pytest.fixture
async def on_sqlite(database: Path, open_storage: Open) -> SQLRecordStorage:
    return await filled(await open_storage(database), 5_000)


@pytest.fixture
async def on_postgres(postgres_server: Any, open_storage: Open) -> SQLRecordStorage:
    url = await asyncio.to_thread(postgres_server.fresh_database)
    storage = await filled(await open_storage(url), 5_000)
    async with storage._database.reader.connection() as connection:
        await connection.execute(text("ANALYZE"))
    return storage


async def plan_of(storage: SQLRecordStorage, statement: Any) -> str:
    is_sqlite = storage.url.startswith("sqlite")
    dialects: Any = sqlite if is_sqlite else postgresql
    sql = str(statement.compile(dialect=dialects.dialect(), compile_kwargs={"literal_binds": True}))
    explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
    async with storage._database.reader.connection() as connection:
        rows = (await connection.exec_driver_sql(f"{explain} {sql}")).fetchall()
    return "\n".join(str(row[-1]) for row in rows)


async def test_last_calls_follow_an_index(on_sqlite: SQLRecordStorage) -> None:
    """The last 50 calls of anything are read from its index, in order, without sorting."""
    for index, indexed in INDEXED.items():
        query = RecordQuery(**{**indexed.conditions, "limit": 50})
        plan = await plan_of(on_sqlite, queries.select_records(query))
        assert f"SEARCH tool_calls USING INDEX {index}" in plan
        assert "TEMP B-TREE" not in plan, index


async def test_last_calls_follow_the_key(on_sqlite: SQLRecordStorage) -> None:
    """Without a filter, in a range of time and page by page the rows themselves are followed."""
    for fields in (
        {"start": NOON, "end": NOON + timedelta(hours=1)},
        {"before": record_id_of(10**18)},
        {"after": record_id_of(10)},
    ):
        plan = await plan_of(on_sqlite, queries.select_records(RecordQuery(limit=50, **fields)))
        assert "SEARCH tool_calls USING INTEGER PRIMARY KEY" in plan
        assert "TEMP B-TREE" not in plan
    for query in (RecordQuery(is_success=False), RecordQuery(outcome="timeout")):
        plan = await plan_of(on_sqlite, queries.select_records(query))
        assert "tool_calls_failed" in plan
        assert "TEMP B-TREE" not in plan


async def test_summary_follows_an_index(on_sqlite: SQLRecordStorage) -> None:
    """The summary of a conversation looks at its calls only."""
    plan = await plan_of(on_sqlite, queries.sum_calls(RecordQuery(conversation_id="chat-7")))
    assert "SEARCH tool_calls USING COVERING INDEX tool_calls_conversation" in plan


async def test_postgres_follows_an_index(on_postgres: SQLRecordStorage) -> None:
    """In PostgreSQL, too, no question about a few calls reads the table."""
    for index, query in INDEXED.items():
        wanted = RecordQuery(**{**query.conditions, "limit": 10})
        plan = await plan_of(on_postgres, queries.select_records(wanted))
        # Of what is frequent, the last ones are found on the way back through the rows.
        assert f"using {index} on" in plan or "Backward using tool_calls_pkey" in plan, plan
        assert "Seq Scan on tool_calls" not in plan
    for query in (RecordQuery(limit=10), RecordQuery(start=NOON, limit=10)):
        assert "tool_calls_pkey" in await plan_of(on_postgres, queries.select_records(query))
    failed = await plan_of(
        on_postgres, queries.select_records(RecordQuery(is_success=False, limit=10))
    )
    assert "tool_calls_failed" in failed


async def test_pages_are_stable(on_sqlite: SQLRecordStorage) -> None:
    """K42: page by page every record is seen once, whatever comes meanwhile."""
    seen: list[str] = []
    page = RecordQuery(conversation_id="chat-7", limit=7)
    number = 10_000
    while records := await on_sqlite.query(page):
        seen += [record.call_id or "" for record in records]
        for _ in range(3):
            number += 1
            on_sqlite.add(call(number, conversation_id="chat-7"))
        page = RecordQuery(conversation_id="chat-7", limit=7, before=records[-1].record_id)
    assert seen == [f"call-{number}" for number in range(4_907, 0, -100)]


async def test_statistics_agree_with_the_rows(on_sqlite: SQLRecordStorage) -> None:
    """Rates and percentiles are those of the calls, per tool too."""
    for number in range(100):
        on_sqlite.add(
            call(number, tool_name="timed", execution_time=(number + 1) / 100, bucket="b")
        )
    statistics = await on_sqlite.statistics(RecordQuery(tool_name="timed"))
    times = statistics.by_tool["timed"]["execution_time"]
    assert statistics.by_bucket["b"]["execution_time"] == times == statistics.execution_time
    assert times["max"] == 1.0
    for name, exact in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert exact <= times[name] <= exact * 1.03
    assert (await on_sqlite.statistics(RecordQuery())).total == 5_100


@pytest.mark.parametrize("table", ["tool_values", "tool_definitions", "tool_calls"])
async def test_tables_are_plain_to_read(on_sqlite: SQLRecordStorage, table: str) -> None:
    """An operator can read the tables: no column is a secret code, and JSON is text."""
    async with on_sqlite._database.reader.connection() as connection:
        await connection.execute(text(f"SELECT * FROM {table}"))  # noqa: S608 - no input
        found = await connection.execute(
            text("SELECT json_extract(result, '$.number') FROM tool_calls ORDER BY key LIMIT 1")
        )
        assert found.scalar_one() == 0
