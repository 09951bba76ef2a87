"""Listens to an engine and checks what must hold for every call, however it ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from tool_engine import (
    ConcurrencyConfig,
    ToolCallRecord,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionResult,
)
from tool_engine.model.event import PASSING

EMPTY_FOLDER = str(Path(__file__).parent)
"""A folder without definitions."""

QUEUED = ToolEngineEventType.EXECUTION_QUEUED
STARTED = ToolEngineEventType.EXECUTION_STARTED
RETRIED = ToolEngineEventType.EXECUTION_RETRIED
APPROVALS = (
    ToolEngineEventType.APPROVAL_REQUESTED,
    ToolEngineEventType.APPROVAL_ANSWERED,
)
FINAL = {
    None: ToolEngineEventType.EXECUTION_COMPLETED,
    "validation_error": ToolEngineEventType.VALIDATION_ERROR,
    "cancelled": ToolEngineEventType.EXECUTION_CANCELLED,
}


def make_engine(max_concurrent: int = 10, **concurrency: Any) -> ToolEngine:
    """An engine without definitions; `close_timeout` goes to the engine, the rest to its limits."""
    config = {
        key: concurrency.pop(key)
        for key in ("close_timeout", "strict_validation", "max_records")
        if key in concurrency
    }
    return ToolEngine(
        ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False, **config),
        concurrency=ConcurrencyConfig(max_concurrent=max_concurrent, **concurrency),
    )


def final_type(error_type: str | None) -> ToolEngineEventType:
    return FINAL.get(error_type, ToolEngineEventType.EXECUTION_FAILED)


class Audit:
    """The events of all calls of one engine, and the checks that join them with the records."""

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine
        self.events: list[ToolEngineEvent] = []
        self.unsubscribe = engine.subscribe(self._hear)

    def _hear(self, event: ToolEngineEvent) -> None:
        # Questions to people come before and after all that the call itself does.
        if event.call_id is not None and event.event_type not in APPROVALS:
            self.events.append(event)

    def kinds(self, call_id: str | None = None) -> list[str]:
        """The kinds of events, in order, of one call or of all."""
        return [event.event_type.value for event in self.events if call_id in (None, event.call_id)]

    async def records(self) -> list[ToolCallRecord]:
        return list(reversed(await self.engine.query_call_records()))

    async def last(self) -> ToolCallRecord:
        return (await self.engine.query_call_records(limit=1))[0]

    async def check(self, results: list[ToolExecutionResult] | None = None) -> None:
        """One record and one final event per call, in agreement; nothing held, nothing waiting."""
        records = {record.call_id: record for record in await self.records()}
        assert len(records) == len(await self.records())
        by_call: dict[str | None, list[ToolEngineEvent]] = {}
        for event in self.events:
            by_call.setdefault(event.call_id, []).append(event)
        assert by_call.keys() == records.keys()
        for call_id, record in records.items():
            _check_call(by_call[call_id], record)
        for result in results or ():
            _check_result(result, records[result.call_id])
        check_idle(self.engine)


def _check_call(events: list[ToolEngineEvent], record: ToolCallRecord) -> None:
    kinds = [event.event_type for event in events]
    told = [place for place, kind in enumerate(kinds) if kind in PASSING]
    # What a tool says while it runs comes between the start and the end.
    assert not told or told[-1] < len(kinds) - 1, kinds
    # Of a run that it shares, a call hears without a start of its own.
    tool = events[0].tool
    is_shared = tool is not None and tool.concurrency.collision == "single_flight"
    assert not told or is_shared or kinds.index(STARTED) < told[0], kinds
    kinds = [kind for kind in kinds if kind not in PASSING]
    final = events[-1]
    assert kinds[-1] is final_type(record.error_type), (kinds, record)
    retries = [RETRIED] * max(0, record.attempts - 1)
    before = kinds[: len(kinds) - 1 - len(retries)]
    assert kinds[:-1] == [*before, *retries], (kinds, record)
    assert before in ([], [QUEUED], [STARTED], [QUEUED, STARTED])
    assert record.reached_executor == (STARTED in kinds)
    assert record.is_success == (record.error_type is None)
    assert record.attempts >= (1 if record.reached_executor else 0)
    for event in events:
        assert event.tool_name == record.tool_name
        assert (event.execution_result is not None) == (event is final)
    assert final.execution_result is not None
    assert final.data["queue_wait"] == final.execution_result.metadata["queue_wait"]
    _check_result(final.execution_result, record)


def _check_result(result: ToolExecutionResult, record: ToolCallRecord) -> None:
    assert result.call_id == record.call_id
    assert result.tool_name == record.tool_name
    assert result.is_success == record.is_success
    assert result.error_type == record.error_type
    assert {"tool_version", "definition_hash", "bucket", "queue_wait", "attempts"} <= set(
        result.metadata
    )
    assert result.metadata["attempts"] == record.attempts


def check_idle(engine: ToolEngine) -> None:
    """C26: the counters add up, and no slot, waiter or zombie is left."""
    metrics = engine.controller.get_metrics()
    assert metrics.total_acquired == metrics.total_released + metrics.active + metrics.zombies
    assert metrics.total_enqueued == (
        metrics.total_granted
        + metrics.total_queue_timeout
        + metrics.total_cancelled
        + metrics.total_rejected_in_queue
        + metrics.queue_length
    )
    left = (
        metrics.current_concurrent,
        metrics.queue_length,
        metrics.active,
        metrics.parked,
        metrics.zombies,
        metrics.bypass_active,
    )
    assert left == (0, 0, 0, 0, 0, 0), metrics
    for bucket in engine.controller.get_bucket_metrics().values():
        assert bucket["current"] == bucket["queue"] == 0


async def turns(count: int = 20) -> None:
    """Lets everybody else go on for a while, without any time passing."""
    for _ in range(count):
        await asyncio.sleep(0)


def tally(results: list[ToolExecutionResult]) -> Counter[str | None]:
    return Counter(result.error_type for result in results)
