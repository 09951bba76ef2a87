"""Which questions about finished calls can be asked of whoever holds a store?"""

from __future__ import annotations

from typing import Any, Unpack

from tool_engine.knowledge.store import RecordFilters, ToolKnowledgeStore
from tool_engine.model.record import ToolCallRecord, ToolCallSummary

__all__ = ["RecordsView"]


class RecordsView:
    """The questions about finished calls, answered from `store`."""

    store: ToolKnowledgeStore

    async def query_call_records(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """The records of finished calls, newest first; see `ToolKnowledgeStore`."""
        return await self.store.query_call_records(**filters)

    async def get_call_summary(self, conversation_id: str) -> ToolCallSummary:
        """What the calls of one conversation add up to."""
        return await self.store.get_call_summary(conversation_id)

    async def get_call_statistics(self) -> dict[str, Any]:
        """What all calls add up to."""
        return await self.store.get_call_statistics()
