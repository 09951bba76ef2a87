"""Which queries on finished calls does a holder of a store offer?"""

from __future__ import annotations

from typing import Any, Unpack

from tool_engine.knowledge.store import RecordFilters, ToolKnowledgeStore
from tool_engine.model.record import ToolCallRecord, ToolCallSummary


class RecordsView:
    """The queries on finished calls, answered from `store`."""

    store: ToolKnowledgeStore

    async def query_call_records(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """Return records of finished calls, newest first; see `ToolKnowledgeStore`."""
        return await self.store.query_call_records(**filters)

    async def get_call_summary(self, conversation_id: str) -> ToolCallSummary:
        """Return the totals of one conversation's calls."""
        return await self.store.get_call_summary(conversation_id)

    async def get_call_statistics(self) -> dict[str, Any]:
        """Return the totals of all calls."""
        return await self.store.get_call_statistics()
