"""What is particular to keeping conversations in memory: bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.memory_sessions import MemorySessionStorage
from tool_engine.knowledge.store import ToolKnowledgeStore


async def test_those_saved_longest_ago_go() -> None:
    """A save brings a conversation to the front; how many went is counted."""
    storage = MemorySessionStorage(max_sessions=2)
    for name in ("a", "b", "a", "c"):
        await storage.save(name, {})
    assert [each.session_id for each in await storage.list()] == ["c", "a"]
    assert await storage.load("b") is None
    assert (len(storage), storage.dropped) == (2, 1)
    assert repr(storage) == "<MemorySessionStorage 2/2 kept, 1 dropped>"


async def test_large_ones_are_bounded_by_their_bytes() -> None:
    """Memory stays bounded, and the one that was saved last always stays."""
    storage = MemorySessionStorage(max_bytes=10_000)
    for turn in range(5):
        for name in ("a", "b", "c"):
            await storage.save(name, {"turn": turn, "text": "x" * 4_000})
    assert [each.session_id for each in await storage.list()] == ["c", "b"]
    await storage.save("large", {"text": "x" * 50_000})
    assert [each.session_id for each in await storage.list()] == ["large"]
    assert await storage.delete("large")
    for name in ("a", "b"):
        await storage.save(name, {"text": "x" * 4_000})
    assert len(storage) == 2


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "9"])
@pytest.mark.parametrize("name", ["max_sessions", "max_bytes"])
def test_bound_that_cannot_be(name: str, bound: Any) -> None:
    """A bound that makes no sense is refused."""
    with pytest.raises(ConfigurationError, match=name):
        MemorySessionStorage(**{name: bound})


async def test_stores_do_not_share(tmp_path: Any) -> None:
    """Two engines without a database never see each other's conversations; each keeps its own."""
    one, other = ToolKnowledgeStore(), ToolKnowledgeStore(MemoryStorage())
    await one.sessions.save("chat", {"turn": 1})
    assert await one.sessions.load("chat") == {"turn": 1}
    assert await other.sessions.load("chat") is None
    assert one.approvals is not other.approvals
