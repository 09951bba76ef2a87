"""Records as files for other programs."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.knowledge.sql.conftest import NOON, call
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.export import EXPORT_COLUMNS, export_records
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.record import RecordQuery


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    is_memory = request.param == "memory"
    storage = MemoryStorage() if is_memory else SQLRecordStorage(f"sqlite:///{tmp_path}/calls.db")
    store = ToolKnowledgeStore(storage)
    yield store
    await store.close()


async def text_of(store: ToolKnowledgeStore, *args: Any) -> str:
    return "".join([part async for part in export_records(store, *args)])


async def test_json_lines(store: ToolKnowledgeStore) -> None:
    """Every record is one line, the oldest first, over several pages."""
    for number in range(1_201):
        store.append(call(number))
    lines = [json.loads(line) for line in (await text_of(store)).splitlines()]
    assert [line["result"]["number"] for line in lines] == list(range(1_201))
    assert list(lines[0]) == list(EXPORT_COLUMNS)
    assert datetime.fromisoformat(lines[0]["created_at"]) == NOON


async def test_csv(store: ToolKnowledgeStore) -> None:
    """Columns are flat and typed: what stands in a field can be read back."""
    nasty = 'comma, "quote"\nline'
    store.append(call(1, "timeout", error=nasty, queue_wait=0.125, params={"a": [1, nasty]}))
    store.append(call(2, output={"result": nasty}))
    rows = list(csv.DictReader(io.StringIO(await text_of(store, "csv"))))
    first, second = rows
    assert (first["error"], json.loads(first["params"])) == (nasty, {"a": [1, nasty]})
    assert (first["is_success"], first["outcome"]) == ("false", "timeout")
    assert (float(first["queue_wait"]), int(first["priority"])) == (0.125, 5)
    assert first["conversation_id"] == ""
    started = datetime.fromisoformat(first["started_at"])
    waited = started - datetime.fromisoformat(first["enqueued_at"])
    assert waited == timedelta(seconds=0.125)
    assert json.loads(second["result"]) == {"result": nasty}


async def test_only_some(store: ToolKnowledgeStore) -> None:
    """A query and a limit say which records are exported."""
    for number in range(20):
        store.append(call(number, conversation_id=f"chat-{number % 2}"))
    some = await text_of(store, "jsonl", RecordQuery(conversation_id="chat-1", limit=3))
    assert [json.loads(line)["call_id"] for line in some.splitlines()] == [
        "call-1",
        "call-3",
        "call-5",
    ]
    assert await text_of(store, "jsonl", RecordQuery(tool_name="nobody")) == ""


async def test_unknown_format(store: ToolKnowledgeStore) -> None:
    """A format that there is not is refused, and the near one named."""
    with pytest.raises(ConfigurationError, match="file_format must be one of jsonl, csv"):
        await text_of(store, "parquet")
