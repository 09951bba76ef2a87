"""An agent's history, as it happened and as the records tell it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.knowledge.calls import entry_of
from tool_engine.knowledge import past_calls as module
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.past_calls import AGENT_CALLER, CallHistory, PastCall, read_history
from tool_engine.knowledge.snapshot import take_snapshot
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import RecordQuery
from tool_engine.model.settings.retention import RecordRetention

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AGENT = ToolExecutionContext("agent", AGENT_CALLER, "chat")
QUERY = RecordQuery(caller_id="agent")


def add(store: ToolKnowledgeStore, call_id: str, **fields: Any) -> None:
    context = fields.pop("context", AGENT)
    result = ToolExecutionResult(
        fields.pop("is_success", True), fields.pop("name", "echo"), execution_time=0.5
    )
    store.append(entry_of(result, context=context, call_id=call_id, **fields))


async def ids(store: ToolKnowledgeStore, query: RecordQuery = QUERY, most: int = 100) -> list[Any]:
    history, _ = await read_history(store, query, most)
    return [result.call_id for result in history.results]


async def test_own_calls_only() -> None:
    """Calls of other callers, of other types of callers, and those that tools made, are none."""
    store = ToolKnowledgeStore()
    add(store, "1")
    add(store, "2.1", parent_call_id="2")
    add(store, "2.2.1", parent_call_id="2.2")
    add(store, "2.2", parent_call_id="2")
    add(store, "2")
    add(store, "x", context=ToolExecutionContext("agent", "conversation_agent"))
    add(store, "y", context=ToolExecutionContext("other", AGENT_CALLER))
    assert await ids(store) == ["1", "2"]


async def test_agent_inside_a_tool() -> None:
    """An agent that a tool of somebody else runs has its calls, although another call made them."""
    store = ToolKnowledgeStore()
    add(store, "1", parent_call_id="outer")
    add(store, "2", parent_call_id="outer")
    add(store, "outer", context=ToolExecutionContext("other", "direct"))
    assert await ids(store) == ["1", "2"]


@pytest.mark.parametrize("page", [1, 2, 3, 7, 8])
async def test_history_is_read_page_by_page(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a page is, every call is counted once; details are those of the newest."""
    monkeypatch.setattr(module, "_PAGE", page)
    store = ToolKnowledgeStore()
    for number in range(7):
        add(store, str(number), is_success=number % 2 == 0)
    history, records = await read_history(store, QUERY, 3)
    assert [result.call_id for result in history.results] == ["4", "5", "6"]
    assert [record.call_id for record in records] == ["4", "5", "6"]
    assert (history.total, history.successful) == (7, 4)
    assert history.execution_time == 3.5
    assert history.newest.call_id == "6"


async def test_store_that_let_records_go_says_so() -> None:
    """A history that may have a gap says so; a whole one does not."""
    store = ToolKnowledgeStore(MemoryStorage(max_records=2))
    add(store, "1")
    add(store, "2")
    history, _ = await read_history(store, QUERY, 10)
    assert "incomplete" not in history.summary()
    add(store, "3")
    history, _ = await read_history(store, QUERY, 10)
    assert history.summary()["incomplete"].startswith("the store has let go of 1 records")
    history.clear()
    assert "incomplete" not in history.summary()


async def test_store_that_removes_records_says_so() -> None:
    """Where old records are removed, nobody can say how many they were."""
    storage: Any = MemoryStorage()
    storage.retention = RecordRetention(max_age=60.0)
    history, _ = await read_history(ToolKnowledgeStore(storage), QUERY, 10)
    assert history.summary()["incomplete"].startswith("the store removes old records")
    storage.retention = RecordRetention()
    history, _ = await read_history(ToolKnowledgeStore(storage), QUERY, 10)
    assert "incomplete" not in history.summary()


async def test_store_that_says_until_when_records_were_removed() -> None:
    """What was removed counts where it may have been the agent's, and not before its time."""

    class Pruned(MemoryStorage):
        until: datetime | None = None
        retention = RecordRetention(max_age=60.0)

        async def removed_until(self) -> datetime | None:
            return self.until

    storage = Pruned()
    store = ToolKnowledgeStore(storage)

    async def gap(since: datetime | None = None) -> str | None:
        history, _ = await read_history(store, replace(QUERY, start=since), 10)
        return history.gap

    assert await gap() is None
    storage.until = NOW
    expected = f"records of calls until {NOW.isoformat()} were removed; calls may be missing"
    assert await gap() == expected
    assert await gap(NOW) == expected
    assert await gap(NOW + timedelta(seconds=1)) is None


async def test_times_and_conversations() -> None:
    """Only the calls of a time or of a conversation."""
    store = ToolKnowledgeStore()
    for number in range(4):
        chat = ToolExecutionContext("agent", AGENT_CALLER, f"chat-{number % 2}")
        add(store, str(number), context=chat, created_at=NOW + timedelta(seconds=number))
    later = RecordQuery(caller_id="agent", start=NOW + timedelta(seconds=2))
    assert await ids(store, later) == ["2", "3"]
    assert await ids(store, RecordQuery(caller_id="agent", conversation_id="chat-1")) == ["1", "3"]


def test_names_that_a_model_wrote_are_hidden() -> None:
    """What no tool is called may hold a secret; two such names may become one."""
    history = CallHistory(10)
    for letter in "ab":
        name = f"sk-{letter * 30}"
        history.add(PastCall(ToolExecutionResult(False, name), take_snapshot({}), None))
    assert history.tool_usage == {"[hidden]": 2}
    assert history.summary()["call_details"][0]["tool_name"] == "[hidden]"
