"""Which calls has one agent made, and what do they add up to?

Counted as they end, or read back from the records of the calls.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tool_engine.interfaces.failing_storage import ask_storage, raise_failure
from tool_engine.knowledge.entry import VisibleCall
from tool_engine.knowledge.snapshot import bounded_text, take_snapshot
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.json.plain import name_of
from tool_engine.model.outcome import success_rate
from tool_engine.model.record import RecordQuery, ToolCallRecord
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact_text

AGENT_CALLER: Final = "tool_sub_agent"
"""The `caller_type` of an agent's calls."""
_PAGE: Final = 1_000


class AgentContext(ToolExecutionContext, kw_only=True):
    """A call's context that keeps its result for a caller who is cancelled."""

    failure: ToolExecutionResult | None = None

    def note_failure(self, result: ToolExecutionResult) -> None:
        """Keep the result that the caller will not receive."""
        self.failure = result


class PastCall(NamedTuple):
    result: ToolExecutionResult
    params: bytes
    tool: Tool | None
    is_known: bool = False
    """Whether the tool's name may be shown: a name that no tool has, a model wrote."""


class CallHistory:
    """The calls of one agent: the newest in detail, the others counted.

    Args:
        max_calls: The most calls whose details are kept.
    """

    def __init__(self, max_calls: int) -> None:
        self._calls: deque[PastCall] = deque(maxlen=max_calls)
        self._usage: Counter[tuple[str, bool]] = Counter()
        self.successful = 0
        self.execution_time = 0.0
        self.gap: str | None = None
        """Why older calls may be missing; None: all are counted."""

    @property
    def total(self) -> int:
        return self._usage.total()

    @property
    def results(self) -> list[ToolExecutionResult]:
        """Return the newest results, oldest first, as a new list."""
        return [past.result for past in self._calls]

    @property
    def newest(self) -> ToolExecutionResult:
        return self._calls[-1].result

    def add(self, past: PastCall) -> None:
        self._calls.append(past)
        self.count(past.result, is_known=past.is_known or past.tool is not None)

    def count(self, call: ToolExecutionResult | ToolCallRecord, *, is_known: bool) -> None:
        """Count a call without keeping it.

        `is_known` says whether its tool's name may be shown.
        """
        self._usage[call.tool_name, is_known] += 1
        self.successful += call.is_success
        self.execution_time += call.execution_time

    def clear(self) -> None:
        self._calls.clear()
        self._usage.clear()
        self.successful, self.execution_time, self.gap = 0, 0.0, None

    @property
    def tool_usage(self) -> dict[str, int]:
        usage: Counter[str] = Counter()
        for (name, is_known), count in self._usage.items():
            usage[name if is_known else redact_text(name)] += count
        return dict(usage)

    def summary(self) -> dict[str, Any]:
        """Return the data of `ToolSubAgent.get_execution_summary`."""
        total = self.total
        details = [_describe_call(past) for past in self._calls]
        summary = {
            "total_calls": total,
            "successful_calls": self.successful,
            "failed_calls": total - self.successful,
            "success_rate": success_rate(self.successful, total),
            "total_execution_time": round(self.execution_time, 4),
            "avg_execution_time": round(self.execution_time / total, 4) if total else 0.0,
            "tool_usage": self.tool_usage,
            "errors": [_pick_error(each) for each in details if not each["is_success"]],
            "call_details": details,
        }
        return summary if self.gap is None else {**summary, "incomplete": self.gap}

    def brief(self) -> dict[str, Any]:
        """Return the data of `ToolSubAgent.get_brief_summary`."""
        total = self.total
        return {
            "total_calls": total,
            "success_rate": success_rate(self.successful, total),
            "tool_usage": self.tool_usage,
            "has_errors": self.successful < total,
        }


async def read_history(
    store: ToolKnowledgeStore, query: RecordQuery, max_calls: int
) -> tuple[CallHistory, list[ToolCallRecord]]:
    """Read the history of an agent from its records.

    Calls that its tools made on their own are left out, as in memory.

    Args:
        store: Where the records are.
        query: Which agent's records, and which of them.
        max_calls: The most calls whose details are wanted.

    Returns:
        The history, and the records of the calls whose details it has, oldest first.

    Raises:
        RecordsUnavailableError: The database of the records does not answer.
    """
    history = CallHistory(max_calls)
    newest: list[ToolCallRecord] = []
    seen: set[str | None] = set()
    page = query
    while found := await store.storage.query(replace(page, limit=_PAGE)):
        for record in found:
            # A call ends before its maker does: newest first, the maker was read already.
            is_own = record.parent_call_id is None or record.parent_call_id not in seen
            if record.call_id is not None:
                seen.add(record.call_id)
            if record.caller_type != AGENT_CALLER or not is_own:
                continue
            if len(newest) < max_calls:
                newest.append(record)
            else:
                history.count(record, is_known=record.tool_version is not None)
        if len(found) < _PAGE:
            break
        page = replace(page, before=found[-1].record_id)
    newest.reverse()
    for record in newest:
        history.add(_past_of(record))
    history.gap = await _describe_gap(store, query.start)
    return history, newest


def record_of_refused(past: PastCall, agent_id: str, conversation_id: str | None) -> ToolCallRecord:
    """Return the record of a call refused before any engine saw it."""
    result, visible = past.result, VisibleCall(past.params, past.tool)
    return ToolCallRecord(
        record_id=str(uuid.uuid4()),
        tool_name=_name_call(past),
        params=visible.params,
        result={},
        execution_time=0.0,
        is_success=False,
        error=visible.error(result.error),
        caller_id=agent_id,
        caller_type=AGENT_CALLER,
        conversation_id=conversation_id,
        workflow_id=None,
        created_at=result.executed_at,
        error_type=result.error_type,
        reached_executor=False,
        attempts=0,
        agent_id=agent_id,
    )


def _past_of(record: ToolCallRecord) -> PastCall:
    result = ToolExecutionResult(
        record.is_success,
        record.tool_name,
        record.result,
        record.error,
        record.error_type,
        execution_time=record.execution_time,
        executed_at=to_the_millisecond(record.created_at),
        metadata={
            "call_id": record.call_id,
            "tool_version": record.tool_version,
            "definition_hash": record.definition_hash,
            "generation": record.generation,
            "bucket": record.bucket,
            "queue_wait": record.queue_wait,
            "attempts": record.attempts,
        },
    )
    is_known = record.tool_version is not None
    return PastCall(result, take_snapshot(record.params), None, is_known)


def to_the_millisecond(date: datetime) -> datetime:
    """Return a time in the resolution of dates in results."""
    return date.replace(microsecond=date.microsecond // 1_000 * 1_000)


async def _describe_gap(store: ToolKnowledgeStore, since: datetime | None) -> str | None:
    dropped = store.failed + getattr(store.storage, "dropped", 0)
    if dropped:
        return f"the store has let go of {dropped} records; older calls may be missing"
    if getattr(store.storage, "removed_until", None) is not None:
        until: object = await ask_storage("record", store.storage, "removed_until")
        if until is not None and not isinstance(until, datetime):
            why = f"it returned {name_of(until)} in place of a time or None"
            raise_failure("record", store.storage, "removed_until", why)
        if until is None or (since is not None and since > until):
            return None
        return f"records of calls until {until.isoformat()} were removed; calls may be missing"
    retention = getattr(store.storage, "retention", None)
    if retention is not None and retention.has_bounds:
        return "the store removes old records; older calls may be missing"
    return None


def _name_call(past: PastCall) -> str:
    name = past.result.tool_name
    return name if past.is_known or past.tool is not None else redact_text(name)


def _describe_call(past: PastCall) -> dict[str, Any]:
    result = past.result
    visible = VisibleCall(past.params, past.tool)
    error = None if result.error is None else bounded_text(result.error)
    return {
        "tool_name": _name_call(past),
        "is_success": result.is_success,
        "error": visible.error(error),
        "error_type": result.error_type,
        "execution_time": result.execution_time,
        "executed_at": result.executed_at.isoformat(),
        "call_id": result.call_id,
        "params": visible.params,
    }


def _pick_error(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: details[name]
        for name in ("tool_name", "error", "error_type", "executed_at", "call_id")
    }
