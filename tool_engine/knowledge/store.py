"""Which calls were made, and what do they add up to?

`append` is on the path of every call and does nothing but hand over one entry; everything else
happens when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from msgspec.structs import replace

from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.entry import kept_record
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.snapshot import bounded_text
from tool_engine.logger import get_logger
from tool_engine.model.record import (
    CallEntry,
    KeptCall,
    RecordQuery,
    ToolCallRecord,
    ToolCallSummary,
    success_rate,
)
from tool_engine.redaction import redact_text

__all__ = ["RecordFilters", "ToolKnowledgeStore"]

_log: Final = get_logger(__name__)
_LOG_EVERY: Final = 1_000


class RecordFilters(TypedDict, total=False):
    """The keywords of a query; what is left out, or None, matches all. See `RecordQuery`."""

    record_id: str | None
    call_id: str | None
    parent_call_id: str | None
    tool_name: str | None
    caller_id: str | None
    conversation_id: str | None
    workflow_id: str | None
    is_success: bool | None
    error_type: str | None
    start: datetime | None
    end: datetime | None
    limit: int | None
    offset: int


class ToolKnowledgeStore:
    """The records of finished calls, and the questions that can be asked about them.

    Args:
        storage: Where records are kept; None: the newest 10,000 in memory.

    Example:
        >>> store = ToolKnowledgeStore(MemoryStorage(max_records=500))
        >>> failed = await store.get_failed(tool_name="http_request", limit=20)
    """

    def __init__(self, storage: RecordStorage | None = None) -> None:
        self.storage: RecordStorage = MemoryStorage() if storage is None else storage
        self.failed = 0
        """Calls that the storage refused to take, against its contract."""
        self._add = self.storage.add
        if type(self.storage) is MemoryStorage:
            # It keeps to its contract: every call saves the step that watches over others.
            self.append = self._add  # type: ignore[method-assign, assignment]

    def __repr__(self) -> str:
        return f"<ToolKnowledgeStore over {self.storage!r}, {self.failed} failed>"

    def append(self, entry: CallEntry) -> None:
        """Keeps one finished call; never waits, never raises.

        A very long error message keeps its beginning; arguments and output are bounded already, by
        `snapshot`.
        """
        if entry.error is not None:
            entry.error = bounded_text(entry.error)
        try:
            self._add(entry)
        except Exception as failure:  # noqa: BLE001 - a storage must not fail the call
            self._storage_failed(entry, failure)

    def add(self, record: ToolCallRecord) -> None:
        """Keeps a record that was made elsewhere, copied and with secrets hidden."""
        self.storage.add(kept_record(record))

    async def query_call_records(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """The records that match every filter, newest first; all of them unless `limit` is given.

        Args:
            **filters: `tool_name`, `conversation_id`, `caller_id`, `workflow_id`, `is_success`,
                `error_type`, `call_id`, `parent_call_id`, `record_id`; `start` (included) and
                `end` (left out) for `created_at`; `limit` and `offset`.

        Raises:
            ConfigurationError: A limit or offset below 0, or a time without a zone.
        """
        return list(await self.storage.query(RecordQuery(**filters)))

    async def get_failed(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """The records of calls that did not succeed; the filters of `query_call_records`."""
        filters["is_success"] = False
        return await self.query_call_records(**filters)

    async def get(self, record_id: str) -> ToolCallRecord | None:
        """The record with this id, or None."""
        found = await self.query_call_records(record_id=record_id, limit=1)
        return found[0] if found else None

    async def get_whole(self, call_id: str) -> ToolCallRecord | None:
        """The record of a call with its result whole, also where limits cut it; None: not kept.

        `"_truncated" in record.result` says that even here only the beginning was kept.
        """
        found = await self.storage.query(RecordQuery(call_id=call_id, limit=1, whole=True))
        return found[0] if found else None

    async def get_output(self, call_id: str) -> dict[str, Any] | None:
        """The whole output of a call, secrets hidden; None where no record of it is kept.

        It is what `result.metadata["cut"]` refers to: what the tool returned or, of a tool with
        `result.select`, what that picked.
        """
        record = await self.get_whole(call_id)
        return None if record is None else record.result

    async def get_call_summary(self, conversation_id: str) -> ToolCallSummary:
        """What the kept calls of one conversation add up to."""
        totals = await self.storage.totals(RecordQuery(conversation_id=conversation_id))
        totals = replace(totals, tool_usage=_visible(totals.tool_usage))
        return ToolCallSummary.from_totals(conversation_id, totals)

    async def get_call_statistics(self, **filters: Unpack[RecordFilters]) -> dict[str, Any]:
        """What all kept calls, or those that match the filters, add up to.

        Returns:
            `total_records`, `success_count`, `failure_count`, `success_rate` (percent, two
            decimals), `avg_execution_time` and `total_execution_time` (seconds, four decimals),
            `tool_distribution` (calls per tool), `error_distribution` (failed calls per error
            type) and `dropped_records` (calls that the storage had to let go, not counted here).
        """
        totals = await self.storage.totals(RecordQuery(**filters))
        average = totals.execution_time / totals.total if totals.total else 0.0
        return {
            "total_records": totals.total,
            "success_count": totals.successful,
            "failure_count": totals.total - totals.successful,
            "success_rate": success_rate(totals.successful, totals.total),
            "avg_execution_time": round(average, 4),
            "total_execution_time": round(totals.execution_time, 4),
            "tool_distribution": _visible(totals.tool_usage),
            "error_distribution": dict(totals.error_types),
            "dropped_records": totals.dropped,
        }

    async def close(self) -> None:
        """Lets the storage write what is left and give back what it holds."""
        close = getattr(self.storage, "close", None)
        if close is not None:
            await close()

    def _storage_failed(self, entry: KeptCall, failure: Exception) -> None:
        self.failed += 1
        if self.failed % _LOG_EVERY == 1:
            _log.error(
                "record_lost",
                tool_name=entry.tool_name,
                call_id=entry.call_id,
                error=redact_text(f"{type(failure).__name__}: {failure}"),
                lost=self.failed,
            )


def _visible(usage: Mapping[str, int]) -> dict[str, int]:
    """Calls per tool; what no tool is called is text that a model wrote."""
    return {redact_text(name): count for name, count in usage.items()}
