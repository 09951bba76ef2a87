"""Asking about finished calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.knowledge.calls import entry_of
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import KeptCall, ToolCallRecord
from tool_engine.model.statistics import ToolCallSummary

NOON = datetime(2025, 12, 5, 12, tzinfo=UTC)


def keep(
    store: ToolKnowledgeStore,
    tool_name: str = "echo",
    *,
    error_type: str | None = None,
    conversation_id: str | None = None,
    caller_id: str | None = None,
    workflow_id: str | None = None,
    minute: int = 0,
    execution_time: float = 0.5,
    params: Any = None,
    call_id: str | None = None,
) -> None:
    result = ToolExecutionResult(
        is_success=error_type is None,
        tool_name=tool_name,
        output={} if error_type else {"result": 1},
        error="it failed" if error_type else None,
        error_type=error_type,
        execution_time=execution_time,
        executed_at=NOON + timedelta(minutes=minute),
    )
    context = ToolExecutionContext(
        caller_id=caller_id,
        caller_type="direct",
        conversation_id=conversation_id,
        workflow_id=workflow_id,
    )
    store.append(entry_of(result, params or {}, context, call_id=call_id))


def record(record_id: str = "r1", **changes: Any) -> ToolCallRecord:
    values: dict[str, Any] = {
        "record_id": record_id,
        "tool_name": "elsewhere",
        "params": {"password": "p", "deep": {"list": [1]}},
        "result": {"result": float("nan")},
        "execution_time": 0.1,
        "is_success": True,
        "error": None,
        "caller_id": None,
        "caller_type": "direct",
        "conversation_id": None,
        "workflow_id": None,
        "created_at": NOON,
    }
    return ToolCallRecord(**{**values, **changes})


@pytest.fixture
def store() -> ToolKnowledgeStore:
    return ToolKnowledgeStore()


async def test_record_has_every_field_of_the_document(store: ToolKnowledgeStore) -> None:
    """K41: a record tells what was called, by whom, how it ended, and when."""
    context = ToolExecutionContext.for_conversation("agent_1", "conv_1", parent_call_id="c0")
    result = ToolExecutionResult(
        True, "echo", {"result": "hi"}, execution_time=0.25, executed_at=NOON
    )
    store.append(
        entry_of(
            result,
            {"message": "hi"},
            context,
            call_id="c1",
            bucket="custom",
            queue_wait=0.5,
            attempts=2,
        )
    )
    (kept,) = await store.query_call_records()
    assert kept.to_dict() == {
        "record_id": kept.record_id,
        "tool_name": "echo",
        "params": {"message": "hi"},
        "result": {"result": "hi"},
        "execution_time": 0.25,
        "is_success": True,
        "error": None,
        "caller_id": "agent_1",
        "caller_type": "conversation_agent",
        "conversation_id": "conv_1",
        "workflow_id": None,
        "created_at": "2025-12-05T12:00:00+00:00",
        "call_id": "c1",
        "parent_call_id": "c0",
        "error_type": None,
        "reached_executor": True,
        "tool_version": None,
        "definition_hash": None,
        "bucket": "custom",
        "queue_wait": 0.5,
        "attempts": 2,
        "priority": 5,
        "weight": 1,
        "generation": 1,
        "key": None,
        "result_size": 11,
        "agent_id": "agent_1",
        "session_id": None,
        "task_id": None,
        "origin": None,
        "process": None,
        "decided_by": None,
    }


async def test_record_does_not_follow_later_changes(store: ToolKnowledgeStore) -> None:
    """K41: a record is what the call was, whatever caller and tool change afterwards."""
    context = ToolExecutionContext(conversation_id="conv_1")
    result = ToolExecutionResult(True, "echo", {"items": [1]})
    store.append(entry_of(result, {}, context))
    result.output["items"].append(2)
    result.is_success = False
    context.conversation_id = "conv_2"
    (kept,) = await store.query_call_records(conversation_id="conv_1")
    assert kept.is_success
    assert kept.result == {"items": [1]}
    kept.result["items"].append(3)
    (again,) = await store.query_call_records()
    assert again.result == {"items": [1]}


async def test_failed_calls(store: ToolKnowledgeStore) -> None:
    """U21: the calls that failed, with the other filters."""
    keep(store, "a")
    keep(store, "b", error_type="timeout")
    keep(store, "c", error_type="execution_error")
    assert [each.tool_name for each in await store.get_failed()] == ["c", "b"]
    assert [each.tool_name for each in await store.get_failed(error_type="timeout")] == ["b"]
    assert [each.error_type for each in await store.get_failed(limit=1)] == ["execution_error"]


async def test_long_error_is_cut(store: ToolKnowledgeStore) -> None:
    """An error message that goes on for pages keeps its beginning and tells its length."""
    store.append(entry_of(ToolExecutionResult(False, "echo", error="x" * 100_000)))
    (kept,) = await store.query_call_records()
    assert kept.error is not None
    assert len(kept.error) < 20_000
    assert kept.error.endswith("[100,000 characters in all]")


async def test_one_record_by_its_id(store: ToolKnowledgeStore) -> None:
    """A record is found by its id, one that was made elsewhere too; an unknown id finds None."""
    keep(store, "a", call_id="c1")
    keep(store, "b")
    store.add(record("r1"))
    (kept,) = await store.query_call_records(call_id="c1")
    assert await store.get(kept.record_id) == kept
    found = await store.get("r1")
    assert found is not None
    assert found.tool_name == "elsewhere"
    assert await store.get("nobody") is None


async def test_conversation_summary(store: ToolKnowledgeStore) -> None:
    """K43, K45: the summary of one conversation, and its brief form."""
    for number in range(9):
        keep(store, "http_request" if number < 6 else "echo", conversation_id="conv_001")
    keep(store, "echo", conversation_id="conv_001", error_type="timeout")
    keep(store, "echo", conversation_id="conv_002")
    summary = await store.get_call_summary("conv_001")
    assert summary == ToolCallSummary(
        conversation_id="conv_001",
        total_calls=10,
        successful_calls=9,
        failed_calls=1,
        success_rate=90.0,
        tool_usage={"http_request": 6, "echo": 4},
    )
    assert summary.to_brief() == {
        "total_calls": 10,
        "success_rate": 90.0,
        "tool_usage": {"http_request": 6, "echo": 4},
        "has_errors": True,
    }
    assert summary == ToolCallSummary.of(
        "conv_001", await store.query_call_records(conversation_id="conv_001")
    )


async def test_names_that_are_shown_alike_are_added_up() -> None:
    """U21: two names that no tool has, alike once their secrets are hidden, are counted as one."""
    store = ToolKnowledgeStore(Plain())
    for name in ("use token=abcdef-1", "use token=abcdef-2", "echo"):
        keep(store, name, conversation_id="conv_001")
    usage = {"use token=[hidden]": 2, "echo": 1}
    assert (await store.get_call_summary("conv_001")).tool_usage == usage
    assert (await store.get_call_statistics())["tool_distribution"] == usage


async def test_summary_of_an_unknown_conversation(store: ToolKnowledgeStore) -> None:
    """K43: a conversation without calls has a rate of 0.0 and no errors."""
    summary = await store.get_call_summary("nobody")
    assert (summary.total_calls, summary.success_rate) == (0, 0.0)
    assert summary.to_brief()["has_errors"] is False


async def test_statistics(store: ToolKnowledgeStore) -> None:
    """K44, U21: what all calls add up to, and those that match."""
    keep(store, "echo", execution_time=0.1, caller_id="a")
    keep(store, "echo", execution_time=0.2)
    keep(store, "http_request", execution_time=0.4, error_type="timeout", caller_id="a")
    statistics = await store.get_call_statistics()
    assert statistics == statistics | {
        "total_records": 3,
        "success_count": 2,
        "failure_count": 1,
        "success_rate": 66.67,
        "avg_execution_time": 0.2333,
        "total_execution_time": 0.7,
        "tool_distribution": {"echo": 2, "http_request": 1},
        "error_distribution": {"timeout": 1},
        "dropped_records": 0,
        "outcomes": {"succeeded": 2, "timeout": 1},
    }
    assert statistics["by_tool"]["http_request"]["error_types"] == {"timeout": 1}
    assert (await store.get_call_statistics(caller_id="a"))["total_records"] == 2


async def test_statistics_of_nothing(store: ToolKnowledgeStore) -> None:
    """U21: rate and average are 0.0 when there are no records."""
    statistics = await store.get_call_statistics()
    assert (statistics["total_records"], statistics["success_rate"]) == (0, 0.0)
    assert statistics["avg_execution_time"] == 0.0


async def test_statistics_tell_of_dropped_records() -> None:
    """What no longer counts because it had to go is said."""
    store = ToolKnowledgeStore(MemoryStorage(max_records=2))
    for _ in range(5):
        keep(store)
    statistics = await store.get_call_statistics()
    assert (statistics["total_records"], statistics["dropped_records"]) == (2, 3)


async def test_record_made_elsewhere_is_copied_and_hidden(store: ToolKnowledgeStore) -> None:
    """A record that is added is kept as it is now, as JSON values, with secrets hidden."""
    added = record(error="sk-" + "a" * 20, is_success=False)
    store.add(added)
    added.params["deep"]["list"].append(2)
    (kept,) = await store.query_call_records()
    assert kept.params == {"password": "[hidden]", "deep": {"list": [1]}}
    assert kept.result == {"result": "NaN"}
    assert kept.error == "[hidden]"
    assert (await store.get_call_statistics())["error_distribution"] == {"unknown": 1}


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"limit": -1}, "limit must be a whole number >= 0, got -1"),
        ({"limit": True}, "limit must be a whole number >= 0"),
        ({"limit": "5"}, "limit must be a whole number >= 0"),
        ({"offset": -1}, "offset must be a whole number >= 0"),
        ({"start": datetime(2025, 1, 1)}, "start must be a datetime with a time zone"),  # noqa: DTZ001 - the mistake
        ({"end": "2025-01-01"}, "end must be a datetime with a time zone"),
        ({"start": NOON, "end": NOON - timedelta(1)}, "start must not be after end"),
    ],
)
async def test_question_that_cannot_be_is_refused(
    store: ToolKnowledgeStore, filters: dict[str, Any], message: str
) -> None:
    """U21: a limit below 0 or a time without a zone is refused, not guessed."""
    for ask in (store.query_call_records, store.get_failed, store.get_call_statistics):
        with pytest.raises(ConfigurationError, match=message):
            await ask(**filters)


async def test_unknown_filter_is_refused(store: ToolKnowledgeStore) -> None:
    """A filter that does not exist is a mistake of the caller, not a filter that matches all."""
    with pytest.raises(ConfigurationError, match=r"no field 'tool'; did you mean 'tool_name'\?"):
        await store.query_call_records(tool="echo")  # type: ignore[call-arg]


class Plain:
    """A storage that has no statistics of its own."""

    def __init__(self) -> None:
        memory = MemoryStorage()
        self.add, self.query, self.totals = memory.add, memory.query, memory.totals


class Refusing(MemoryStorage):
    """A storage that breaks its contract, and has something to close."""

    is_closed = False

    def add(self, kept: KeptCall) -> None:
        raise OSError("disk full: sk-" + "a" * 20)

    async def close(self) -> None:
        self.is_closed = True


async def test_failing_storage_fails_no_call() -> None:
    """A storage that raises loses the record, counted and logged, and never fails the call."""
    store = ToolKnowledgeStore(Refusing())
    with capture_logs() as logs:
        for _ in range(3):
            keep(store)
    assert store.failed == 3
    assert [line["event"] for line in logs] == ["record_lost"]
    assert logs[0]["error"] == "OSError: disk full: [hidden]"
    assert repr(store) == (
        "<ToolKnowledgeStore over <MemoryStorage 0/10000 kept, 0 dropped>, 3 failed>"
    )


async def test_closing_closes_the_storage() -> None:
    """`close` reaches a storage that has something to close, and needs none that has not."""
    storage = Refusing()
    await ToolKnowledgeStore(storage).close()
    assert storage.is_closed
    await ToolKnowledgeStore().close()
