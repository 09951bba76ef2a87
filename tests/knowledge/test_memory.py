"""What is particular to keeping records in memory: its bounds, and leaving others room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.knowledge.calls import entry_of
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.record import RecordQuery


def fill(storage: MemoryStorage, count: int, output: Any = None) -> None:
    for number in range(count):
        result = ToolExecutionResult(True, f"tool_{number}", output or {})
        storage.add(entry_of(result))


async def test_oldest_go_first() -> None:
    """The newest `max_records` stay, and how many went is counted."""
    storage = MemoryStorage(max_records=3)
    fill(storage, 5)
    records = await storage.query(RecordQuery())
    assert [record.tool_name for record in records] == ["tool_4", "tool_3", "tool_2"]
    assert (len(storage), storage.dropped) == (3, 2)
    assert (await storage.totals(RecordQuery())).dropped == 2
    assert repr(storage) == "<MemoryStorage 3/3 kept, 2 dropped>"


async def test_large_outputs_are_bounded_by_their_bytes() -> None:
    """Records with large outputs go earlier, so that memory stays bounded; the newest stay."""
    storage = MemoryStorage(max_bytes=200_000)
    fill(storage, 100, {"text": "x" * 10_000})
    assert len(storage) <= 21
    assert storage.dropped == 100 - len(storage)
    assert (await storage.query(RecordQuery(limit=1)))[0].tool_name == "tool_99"


def test_small_outputs_are_bounded_by_their_number() -> None:
    """Small records are never weighed: only their number counts."""
    storage = MemoryStorage(max_bytes=1)
    fill(storage, 100)
    assert len(storage) == 100


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, None])
def test_bounds_must_be_counts(bound: Any) -> None:
    """A bound is a whole number of 1 or more."""
    with pytest.raises(ConfigurationError, match="max_records must be a whole number >= 1"):
        MemoryStorage(bound)
    with pytest.raises(ConfigurationError, match="max_bytes must be a whole number >= 1"):
        MemoryStorage(max_bytes=bound)


@pytest.mark.parametrize("question", ["query", "totals"])
async def test_long_question_leaves_others_room(question: str) -> None:
    """A question over many records lets other tasks run meanwhile, and answers as of its start."""
    storage = MemoryStorage()
    fill(storage, 2_000)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            fill(storage, 1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    answer: Any = await getattr(storage, question)(RecordQuery())
    task.cancel()
    await asyncio.wait([task])
    assert turns >= 10
    assert (answer.total if question == "totals" else len(answer)) == 2_000
