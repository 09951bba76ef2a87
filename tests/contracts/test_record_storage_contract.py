"""What every `RecordStorage` keeps to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.knowledge.calls import entry_of
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.sql.schema.keys import key_of_time, record_id_of
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.record import RecordQuery, ToolCallRecord
from tool_engine.model.statistics import RecordTotals
from tool_engine.model.tool import Tool, ToolCategory

NOON = datetime(2025, 12, 5, 12, tzinfo=UTC)

STORAGES: dict[str, Callable[[pytest.FixtureRequest], RecordStorage]] = {
    "memory": lambda request: MemoryStorage(),
    "sqlite": lambda request: SQLRecordStorage(
        f"sqlite:///{request.getfixturevalue('tmp_path')}/calls.db"
    ),
    "postgresql": lambda request: SQLRecordStorage(
        request.getfixturevalue("postgres_server").emptied_database()
    ),
}
"""One line per storage."""

LOGIN = Tool(
    "login",
    "login",
    "1.0.0",
    "Logs in",
    ToolCategory.CUSTOM,
    [],
    [ToolParameter("word", "string", secret=True)],
    {},
)

# Five calls, one a minute: tool, error type, conversation, caller, workflow, parent.
CALLS = [
    ("echo", None, "conv_1", "ann", None, None),
    ("echo", "timeout", "conv_1", "bob", None, "call_0"),
    ("login", None, "conv_2", "ann", None, None),
    ("login", "execution_error", None, "node", "wf_1", None),
    ("echo", None, "conv_2", "bob", None, "call_0"),
]


@pytest.fixture(params=list(STORAGES))
def made(request: pytest.FixtureRequest) -> RecordStorage:
    # A fresh database is made by a loop of its own.
    return STORAGES[request.param](request)


@pytest.fixture
async def storage(made: RecordStorage) -> AsyncIterator[RecordStorage]:
    yield made
    if isinstance(made, SQLRecordStorage):
        await made.close()


@pytest.fixture
def filled(storage: RecordStorage) -> RecordStorage:
    for number, (name, error_type, conversation, caller, workflow, parent) in enumerate(CALLS):
        result = ToolExecutionResult(
            is_success=error_type is None,
            tool_name=name,
            output={"number": number},
            error=error_type,
            error_type=error_type,
            execution_time=0.5,
            executed_at=NOON + timedelta(minutes=number),
        )
        context = ToolExecutionContext(
            caller_id=caller,
            caller_type="direct",
            conversation_id=conversation,
            workflow_id=workflow,
            parent_call_id=parent,
        )
        params = {"word": "hunter2", "number": number}
        storage.add(entry_of(result, params, context, LOGIN, call_id=f"call_{number}"))
    return storage


def numbers(records: Any) -> list[int]:
    return [record.result["number"] for record in records]


async def test_newest_first(filled: RecordStorage) -> None:
    """U21: records come newest first."""
    assert numbers(await filled.query(RecordQuery())) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RecordQuery(conversation_id="conv_1"), [1, 0]),
        (RecordQuery(tool_name="login"), [3, 2]),
        (RecordQuery(caller_id="ann"), [2, 0]),
        (RecordQuery(workflow_id="wf_1"), [3]),
        (RecordQuery(is_success=False), [3, 1]),
        (RecordQuery(is_success=True), [4, 2, 0]),
        (RecordQuery(error_type="timeout"), [1]),
        (RecordQuery(call_id="call_2"), [2]),
        (RecordQuery(parent_call_id="call_0"), [4, 1]),
        (RecordQuery(tool_name="echo", caller_id="bob", is_success=True), [4]),
        (RecordQuery(start=NOON + timedelta(minutes=3)), [4, 3]),
        (RecordQuery(end=NOON + timedelta(minutes=1)), [0]),
        (RecordQuery(start=NOON, end=NOON + timedelta(minutes=2)), [1, 0]),
        (RecordQuery(start=NOON, end=NOON), []),
        (RecordQuery(outcome="succeeded"), [4, 2, 0]),
        (RecordQuery(outcome="failed"), [3]),
        (RecordQuery(outcome="timeout"), [1]),
        (RecordQuery(outcome="rejected"), []),
        (RecordQuery(min_execution_time=0.5, is_success=True), [4, 2, 0]),
        (RecordQuery(min_execution_time=0.6), []),
        (RecordQuery(oldest_first=True), [0, 1, 2, 3, 4]),
        (RecordQuery(oldest_first=True, limit=2, offset=1), [1, 2]),
        (RecordQuery(limit=2), [4, 3]),
        (RecordQuery(limit=2, offset=1), [3, 2]),
        (RecordQuery(offset=4), [0]),
        (RecordQuery(offset=9), []),
        (RecordQuery(limit=0), []),
        (RecordQuery(conversation_id="conv_1", limit=1, offset=1), [0]),
        (RecordQuery(conversation_id="nobody"), []),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value.conditions),
)
async def test_filters(filled: RecordStorage, query: RecordQuery, expected: list[int]) -> None:
    """K42, U21: every filter alone and several together; then `offset`, then `limit`."""
    assert numbers(await filled.query(query)) == expected


@pytest.mark.parametrize("conversation_id", [None, "conv_1", "conv_2"])
async def test_page_by_page(filled: RecordStorage, conversation_id: str | None) -> None:
    """Whoever goes on from the last record of a page sees each once, in both directions."""
    matching = await filled.query(RecordQuery(conversation_id=conversation_id))
    for is_up in (False, True):
        seen: list[ToolCallRecord] = []
        page = RecordQuery(conversation_id=conversation_id, limit=1, oldest_first=is_up)
        while found := await filled.query(page):
            seen += found
            last = found[-1].record_id
            page = msgspec.structs.replace(page, **{"after" if is_up else "before": last})
        assert seen == (matching[::-1] if is_up else list(matching))


async def test_between_two_records(filled: RecordStorage) -> None:
    """`before` and `after` leave the records out that they name."""
    records = await filled.query(RecordQuery())
    newest, oldest = records[0].record_id, records[-1].record_id
    assert numbers(await filled.query(RecordQuery(before=newest, after=oldest))) == [3, 2, 1]
    assert numbers(await filled.query(RecordQuery(after=records[2].record_id))) == [4, 3]


async def test_after_a_record_that_is_gone(filled: RecordStorage) -> None:
    """After a record that is no longer kept come all, and before it none."""
    gone = await id_that_is_gone(filled)
    assert len(await filled.query(RecordQuery(after=gone))) == 5
    assert await filled.query(RecordQuery(before=gone)) == []


async def id_that_is_gone(storage: RecordStorage) -> str:
    """An id as the storage gives them, of a record that is older than all that it keeps."""
    if isinstance(storage, MemoryStorage):
        entry = entry_of(ToolExecutionResult(is_success=True, tool_name="echo"))
        return str(entry.record_id)
    return record_id_of(key_of_time(0))


@pytest.mark.parametrize("field", ["before", "after"])
@pytest.mark.parametrize("wrong", ["gone", "", "call_2", str(UUID(int=7)), "\0", "\ud800"])
async def test_ids_of_no_record(filled: RecordStorage, field: str, wrong: str) -> None:
    """An id that no record has is an error with its cure, and no page without records."""
    wanted: Any = {field: wrong}
    query = RecordQuery(**wanted)
    message = rf"{field} must be the record_id of a record that is kept, .* or it was removed"
    with pytest.raises(ConfigurationError, match=message):
        await filled.query(query)
    with pytest.raises(ConfigurationError, match=message):
        await filled.totals(query)
    with pytest.raises(ConfigurationError, match=message):
        await ToolKnowledgeStore(filled).query_call_records(**wanted)


async def test_ids_that_were_made_elsewhere(filled: RecordStorage) -> None:
    """A record that came with an id of its own is gone on from as every other."""
    (newest,) = await filled.query(RecordQuery(limit=1))
    later = newest.created_at + timedelta(minutes=1)
    filled.add(msgspec.structs.replace(newest, record_id="own", created_at=later))
    assert numbers(await filled.query(RecordQuery(before="own"))) == [4, 3, 2, 1, 0]
    assert await filled.query(RecordQuery(after="own")) == []
    assert (await filled.totals(RecordQuery(before="own"))).total == 5


async def test_statistics(filled: RecordStorage) -> None:
    """How calls ended and how long they took, in all and per tool and bucket."""
    result = ToolExecutionResult(
        False, "slow", {}, "x", "queue_timeout", execution_time=0.0, executed_at=NOON
    )
    filled.add(entry_of(result, call_id="s", bucket="http", queue_wait=3.0))
    statistics = await filled.statistics(RecordQuery())  # type: ignore[attr-defined]
    assert statistics.total == 6
    assert statistics.outcomes == {"succeeded": 3, "failed": 1, "timeout": 1, "rejected": 1}
    assert {name: found["total"] for name, found in statistics.by_tool.items()} == {
        "echo": 3,
        "login": 2,
        "slow": 1,
    }
    assert statistics.by_tool["echo"]["error_rate"] == 33.33
    assert statistics.execution_time == {
        "avg": 2.5 / 6,
        "p50": 0.5,
        "p95": 0.5,
        "p99": 0.5,
        "max": 0.5,
    }
    assert statistics.queue_wait["max"] == 3.0
    assert list(statistics.by_bucket) == ["http"]
    only = await filled.statistics(RecordQuery(tool_name="nobody"))  # type: ignore[attr-defined]
    assert (only.total, only.by_tool) == (0, {})


async def test_by_record_id(filled: RecordStorage) -> None:
    """A record is found by its id."""
    for record in await filled.query(RecordQuery()):
        assert await filled.query(RecordQuery(record_id=record.record_id)) == [record]


async def test_secrets_are_hidden(filled: RecordStorage) -> None:
    """No query gives a secret away."""
    records = await filled.query(RecordQuery())
    assert {record.params["word"] for record in records} == {"[hidden]"}


async def test_answers_are_the_askers_own(filled: RecordStorage) -> None:
    """Whoever changes an answer changes nothing that is kept."""
    (record,) = await filled.query(RecordQuery(limit=1))
    record.result.clear()
    assert numbers(await filled.query(RecordQuery(limit=1))) == [4]


async def test_totals(filled: RecordStorage) -> None:
    """U21: what all records add up to; limit and offset do not count."""
    assert await filled.totals(RecordQuery(limit=1, offset=1)) == RecordTotals(
        total=5,
        successful=3,
        execution_time=2.5,
        tool_usage={"echo": 3, "login": 2},
        error_types={"timeout": 1, "execution_error": 1},
    )
    assert (await filled.totals(RecordQuery(tool_name="login"))).tool_usage == {"login": 2}
    assert await filled.totals(RecordQuery(tool_name="nobody")) == RecordTotals()


async def test_record_made_elsewhere(filled: RecordStorage) -> None:
    """A record that was made elsewhere is kept beside the calls, with its own id."""
    record = ToolCallRecord(
        "r1",
        "elsewhere",
        {},
        {"number": 5},
        0.5,
        True,
        None,
        None,
        "direct",
        None,
        None,
        NOON + timedelta(minutes=5),
        call_id="x",
    )
    filled.add(record)
    assert await filled.query(RecordQuery(limit=1)) == [record]
    assert await filled.query(RecordQuery(record_id="r1")) == [record]
    assert (await filled.totals(RecordQuery())).total == 6


async def test_names_that_are_shown_alike_are_one(storage: RecordStorage) -> None:
    """U21: what no tool is called may hold a secret: such names are hidden, and nothing is lost."""
    called = ["get token=abcdef-1", "get token=abcdef-2", "get token=abcdef-2", "plain"]
    for number, name in enumerate(called):
        result = ToolExecutionResult(
            False,
            name,
            error="there is no such tool",
            error_type="tool_not_found",
            execution_time=float(number),
            executed_at=NOON,
        )
        context = ToolExecutionContext(conversation_id="conv")
        storage.add(entry_of(result, {}, context, call_id=f"call_{number}"))
    store = ToolKnowledgeStore(storage)
    usage = {"get token=[hidden]": 3, "plain": 1}
    assert (await store.get_call_summary("conv")).tool_usage == usage
    statistics = await store.get_call_statistics()
    assert statistics["tool_distribution"] == usage
    both = statistics["by_tool"]["get token=[hidden]"]
    assert (both["total"], both["failed"]) == (3, 3)
    times = both["execution_time"]
    assert times["avg"] == 1.0
    assert times["p50"] == 1.0
    assert times["max"] == 2.0


async def test_those_that_ran_long(storage: RecordStorage) -> None:
    """They are found, page by page, and added up with no other."""
    for number in range(10):
        result = ToolExecutionResult(
            True, "echo", {"number": number}, execution_time=number / 2, executed_at=NOON
        )
        storage.add(entry_of(result, call_id=f"call_{number}"))
    query = RecordQuery(min_execution_time=2.5, limit=3)
    first = list(await storage.query(query))
    assert numbers(first) == [9, 8, 7]
    assert numbers(
        await storage.query(msgspec.structs.replace(query, before=first[-1].record_id))
    ) == [6, 5]
    totals = await storage.totals(query)
    assert (totals.total, totals.execution_time) == (5, 17.5)
    found = await ToolKnowledgeStore(storage).get_call_statistics(min_execution_time=4.5)
    assert (found["total_records"], found["execution_time"]["max"]) == (1, 4.5)


async def test_empty(storage: RecordStorage) -> None:
    """A new storage answers every question with nothing."""
    assert await storage.query(RecordQuery()) == []
    assert await storage.totals(RecordQuery()) == RecordTotals()


async def test_calls_of_one_session(storage: RecordStorage) -> None:
    """A session's calls are told from those of others, and of none."""
    for number, session_id in enumerate(("a", "b", None, "a")):
        result = ToolExecutionResult(True, "echo", {"number": number}, executed_at=NOON)
        storage.add(entry_of(result, context=ToolExecutionContext(session_id=session_id)))
    found = await storage.query(RecordQuery(session_id="a", oldest_first=True))
    assert [(each.session_id, each.result["number"]) for each in found] == [("a", 0), ("a", 3)]
    assert (await storage.totals(RecordQuery(session_id="b"))).total == 1
    assert await storage.query(RecordQuery(session_id="c")) == []
    store = ToolKnowledgeStore(storage)
    assert len(await store.query_call_records(session_id="a")) == 2


def _tool_from(source: str | None) -> Tool:
    return msgspec.structs.replace(LOGIN, source=source, definition_hash="same")


async def test_calls_of_one_origin(storage: RecordStorage) -> None:
    """Each record knows where its tool came from: file, code, a source, or no tool at all.

    Looked at: the record, every question with the filter, and a record that was made elsewhere.
    """
    sources = ("<mcp:github>", None, "/tools/login.yaml", "<mcp:github>", "<mcp:other>")
    for number, source in enumerate(sources):
        result = ToolExecutionResult(True, "login", {"number": number}, executed_at=NOON)
        storage.add(entry_of(result, tool=_tool_from(source), call_id=f"call_{number}"))
    missing = ToolExecutionResult(
        False, "x", {"number": 5}, error="none", error_type="tool_not_found", executed_at=NOON
    )
    storage.add(entry_of(missing, call_id="call_5"))
    found = await storage.query(RecordQuery(oldest_first=True))
    origins = ["mcp:github", "code", "file:/tools/login.yaml", "mcp:github", "mcp:other", None]
    assert [each.origin for each in found] == origins
    for origin in {*origins, "mcp:git", "mcp:git%", ""} - {None}:
        query = RecordQuery(origin=origin)
        expected = [number for number, each in enumerate(origins) if each == origin]
        assert numbers(await storage.query(query)) == expected[::-1]
        assert (await storage.totals(query)).total == len(expected)
        statistics = await ToolKnowledgeStore(storage).get_call_statistics(origin=origin)
        assert statistics["total_records"] == len(expected)
    assert numbers(await storage.query(RecordQuery(origin="mcp:github", call_id="call_3"))) == [3]
    elsewhere = msgspec.structs.replace(found[0], record_id="r1", call_id="x", tool_version=None)
    storage.add(msgspec.structs.replace(elsewhere, definition_hash=None))
    (kept,) = await storage.query(RecordQuery(record_id="r1"))
    assert (kept.origin, kept.definition_hash) == ("mcp:github", None)
