"""What every `RecordStorage` keeps to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.knowledge.calls import entry_of
from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.record import RecordQuery, RecordTotals, ToolCallRecord
from tool_engine.model.tool import Tool, ToolCategory

NOON = datetime(2025, 12, 5, 12, tzinfo=UTC)

STORAGES: dict[str, Callable[[], RecordStorage]] = {"memory": MemoryStorage}
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
def storage(request: pytest.FixtureRequest) -> RecordStorage:
    return STORAGES[request.param]()


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


async def test_empty(storage: RecordStorage) -> None:
    """A new storage answers every question with nothing."""
    assert await storage.query(RecordQuery()) == []
    assert await storage.totals(RecordQuery()) == RecordTotals()
