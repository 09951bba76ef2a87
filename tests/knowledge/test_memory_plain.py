"""A call that came without a context and succeeded at once is kept in the short form."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import MemoryStorage, ToolEngine, ToolEngineConfig, ToolKnowledgeStore
from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.memory import SMALL, PlainEntry
from tool_engine.model.record import KeptCall, RecordQuery, ToolCallRecord

_OWN = {"record_id", "call_id", "created_at", "execution_time", "process"}
"""What differs between two calls."""


class OwnStorage(MemoryStorage):
    """Another class than the engine's: it is given whole entries."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[KeptCall] = []

    def add(self, kept: KeptCall) -> None:
        self.given.append(kept)
        super().add(kept)


def short_form_of(storage: MemoryStorage) -> list[bool]:
    return [isinstance(each, PlainEntry) for each in storage._kept]


async def keep(storage: RecordStorage, folder: Any, text: str) -> list[ToolCallRecord]:
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    async with ToolEngine(config, store=ToolKnowledgeStore(storage)) as engine:

        @engine.tool(concurrency={"priority": 3})
        async def say(text: str) -> str:
            """Say it."""
            return text

        for _ in range(3):
            result = await engine.execute("say", {"text": text})
            assert result.is_success
        return await engine.store.query_call_records()


@pytest.mark.parametrize(
    "text", ["short", "token=abcdefghij0123456789", "x" * SMALL, "y" * 200_000]
)
async def test_same_records(tmp_path: Any, text: str) -> None:
    """Its record says the same as that of a whole entry, however it was kept; secrets too."""
    short, whole = MemoryStorage(), OwnStorage()
    shown = await keep(short, tmp_path, text)
    expected = await keep(whole, tmp_path, text)
    assert not any(isinstance(each, PlainEntry) for each in whole.given)

    def rest_of(record: ToolCallRecord) -> dict[str, Any]:
        return {name: value for name, value in record.to_dict().items() if name not in _OWN}

    assert [rest_of(each) for each in shown] == [rest_of(each) for each in expected]
    assert [each.priority for each in shown] == [3, 3, 3]
    assert len({each.record_id for each in shown}) == 3


async def test_which_form(tmp_path: Any) -> None:
    """Only what is small is kept so: what is large counts against the storage's bytes."""
    small, large = MemoryStorage(), MemoryStorage()
    await keep(small, tmp_path, "short")
    await keep(large, tmp_path, "x" * SMALL)
    assert any(short_form_of(small))
    assert not any(short_form_of(large))


async def test_bounds_and_cursor(tmp_path: Any) -> None:
    """The oldest go first, and a reader goes on from any record that is left."""
    storage = MemoryStorage(max_records=2)
    newest, older = await keep(storage, tmp_path, "short")
    assert storage.dropped == 1
    before = await storage.query(RecordQuery(before=newest.record_id))
    after = await storage.query(RecordQuery(after=older.record_id))
    assert [each.record_id for each in before] == [older.record_id]
    assert [each.record_id for each in after] == [newest.record_id]
