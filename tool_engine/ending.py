"""How does a call end: with which result, record and event?"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any, Final

import msgspec

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.backends.task import ABORTED, ToolTask
from tool_engine.errors import ToolEngineError
from tool_engine.events import EventBus
from tool_engine.failure import Failure, failure_of
from tool_engine.knowledge.entry import VisibleCall, secret_names
from tool_engine.knowledge.snapshot import pack, restore, snapshot
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import DEFAULT_TIMEOUT, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.record import CallEntry
from tool_engine.model.settable import settable
from tool_engine.model.tool import Tool
from tool_engine.output.format import PLAIN, as_output
from tool_engine.plan import Plan
from tool_engine.redaction import redact, redact_text

__all__ = [
    "ANONYMOUS",
    "CANCELLED",
    "Call",
    "CallEnding",
    "attempt_of",
    "end_of",
    "nested_context",
]

_NOTHING: Final = pack({})
_FINAL_EVENTS: Final = {
    "validation_error": ToolEngineEventType.VALIDATION_ERROR,
    "cancelled": ToolEngineEventType.EXECUTION_CANCELLED,
}


ANONYMOUS: Final = ToolExecutionContext()
"""The context of a call that comes without one."""
CANCELLED: Final = Failure("cancelled", "the caller cancelled the call")
_ABORTED: Final = Failure("engine_closed", "the engine was closed while the tool ran")


@settable
class Call(msgspec.Struct, eq=False):
    """One call on its way through the steps."""

    owner: Any
    """The pipeline that takes it through."""
    serial: int
    """The number of the call in this process."""
    call_id: str
    tool_name: str
    params: bytes
    """A copy of the arguments as they came, as MessagePack, for the record."""
    context: ToolExecutionContext
    """The caller's."""
    plan: Plan | None = None
    slot: Any = None
    """Its `ConcurrencySlot`, once it has one."""
    run: Any = None
    """The `ToolTask` of the attempt that is waiting, if one is."""
    arguments: dict[str, Any] | None = None
    """What another attempt starts with; set where there may be one."""
    retries: int = 0
    attempt_log: list[dict[str, Any]] | None = None
    findings: list[dict[str, Any]] | None = None
    result: ToolExecutionResult | None = None
    """Set where it was refused when it asked for a slot."""

    def ended(self) -> ToolExecutionResult:
        """The result of a call that has one."""
        if self.result is None:
            raise ToolEngineError(f"the call {self.call_id} has not ended")
        return self.result

    @property
    def attempts(self) -> int:
        """How often the tool was run."""
        return 0 if self.slot is None else 1 + self.retries

    @property
    def timeout(self) -> float:
        """Seconds that the tool may run: the caller's word, else the tool's, else the default."""
        timeout = self.context.timeout
        if timeout is DEFAULT_TIMEOUT or timeout is None:
            return 0.0 if self.plan is None else self.plan.timeout
        return timeout

    def deadline_from(self, started: float) -> float:
        """When the call must have ended, on the loop's clock, if its tool starts at `started`."""
        deadline, outer = started + self.timeout, self.context.deadline
        return deadline if outer is None or deadline < outer else outer

    def bind(self, deadline: float) -> ToolExecutionContext:
        """The context that the tool sees: the caller's, bound to this call."""
        context = self.context
        return context.bound_to(
            self,
            self.owner.nest,
            timeout=self.timeout,
            call_id=self.call_id,
            deadline=deadline,
            retry_count=context.retry_count + self.retries,
            variables={} if context is ANONYMOUS else context.variables,
        )


def end_of(call: Call, run: ToolTask, seconds: float) -> Failure:
    """Why a run that did not succeed ended as it did, after `seconds`."""
    if run.is_cancelled:
        return CANCELLED
    if run.end_reason is ABORTED:
        return _ABORTED
    if run.error is not None and not run.is_timed_out:
        return failure_of(run.error)
    within = f"within {call.timeout:g} s"
    if call.context.deadline is not None and seconds < call.timeout:
        outer = call.context.parent_call_id
        within = f"by the deadline of the call {outer} that it is part of" if outer else ""
        within = within or "by the deadline of its context"
    return Failure(
        "timeout",
        f"tool {call.tool_name!r} did not finish {within}; raise its timeout or ask for less",
    )


def nested_context(
    outer: ToolExecutionContext, context: ToolExecutionContext | None, timeout: float | None
) -> ToolExecutionContext:
    """Who a call made by a call speaks for: its maker, unless it says otherwise."""
    source = outer if context is None else context
    return ToolExecutionContext(
        source.caller_id,
        source.caller_type,
        source.conversation_id,
        source.workflow_id,
        timeout if context is None else context.timeout,
        0,
        source.max_retries,
        source.variables,
        priority=outer.priority if source.priority is None else source.priority,
        parent_call_id=outer.call_id,
        deadline=outer.deadline,
    )


def attempt_of(failure: Failure | None, seconds: float) -> dict[str, Any]:
    """One attempt, as it stands in `metadata["attempt_log"]`."""
    return {
        "is_success": failure is None,
        "error_type": None if failure is None else failure.error_type,
        "error": None if failure is None else failure.error,
        "execution_time": seconds,
    }


class CallEnding:
    """Makes the one result, the one record and the one final event of each call."""

    __slots__ = ("_append", "_bus", "_date", "_next_date")

    def __init__(self, store: ToolKnowledgeStore, bus: EventBus) -> None:
        self._append = store.append
        self._bus = bus
        self._date = datetime.now(UTC)
        self._next_date = -inf

    def succeed(
        self, call: Call, plan: Plan, slot: ConcurrencySlot, value: Any, now: float
    ) -> ToolExecutionResult:
        """The end, at `now` on the loop's clock, of a call whose tool returned `value`."""
        date = self._date if now < self._next_date else self._read_date(now)
        seconds = now - slot.acquired_at
        kind = type(value)
        if kind is not dict:
            value = {"result": value} if kind in PLAIN else as_output(value)
        output: dict[str, Any] = value
        try:
            kept = pack(output)
        except Exception:  # noqa: BLE001 - a foreign value may raise anything
            kept = snapshot(output)
        context, queue_wait, attempts = call.context, slot.queue_wait, 1
        if call.attempt_log is not None:
            attempts += call.retries
        metadata: dict[str, Any] = {
            "call_id": call.call_id,
            "tool_version": plan.version,
            "definition_hash": plan.definition_hash,
            "bucket": plan.bucket,
            "queue_wait": queue_wait,
            "attempts": attempts,
        }
        self._append(
            CallEntry(
                call.tool_name,
                call.params,
                kept,
                seconds,
                True,
                None,
                context.caller_id,
                context.caller_type,
                context.conversation_id,
                context.workflow_id,
                date,
                call.call_id,
                context.parent_call_id,
                None,
                True,
                plan.bucket,
                queue_wait,
                attempts,
                plan.tool,
                call.serial,
            )
        )
        if attempts > 1:
            metadata["attempt_log"] = call.attempt_log
        result = ToolExecutionResult(
            True, call.tool_name, output, None, None, call.findings or [], seconds, date, metadata
        )
        if self._bus.has_subscribers:
            self.publish(call, ToolEngineEventType.EXECUTION_COMPLETED, result)
        return result

    def fail(self, call: Call, failure: Failure, seconds: float = 0.0) -> ToolExecutionResult:
        """The end of a call that did not succeed."""
        plan, slot = call.plan, call.slot
        tool = None if plan is None else plan.tool
        metadata: dict[str, Any] = {
            "call_id": call.call_id,
            "tool_version": None if tool is None else tool.version,
            "definition_hash": None if tool is None else tool.definition_hash,
            "bucket": None if plan is None else plan.bucket,
            "queue_wait": 0.0 if slot is None else slot.queue_wait,
            "attempts": call.attempts,
        }
        if failure.details is not None:
            metadata["error_details"] = failure.details
        if call.attempt_log is not None:
            metadata["attempt_log"] = call.attempt_log
        context, date = call.context, _to_the_millisecond(datetime.now(UTC))
        self._append(
            CallEntry(
                call.tool_name,
                call.params,
                _NOTHING,
                seconds,
                False,
                failure.error,
                context.caller_id,
                context.caller_type,
                context.conversation_id,
                context.workflow_id,
                date,
                call.call_id,
                context.parent_call_id,
                failure.error_type,
                slot is not None,
                metadata["bucket"],
                metadata["queue_wait"],
                call.attempts,
                tool,
                call.serial,
            )
        )
        result = ToolExecutionResult(
            False,
            call.tool_name,
            {},
            failure.error,
            failure.error_type,
            call.findings or [],
            seconds,
            date,
            metadata,
        )
        if self._bus.has_subscribers:
            kind = _FINAL_EVENTS.get(failure.error_type, ToolEngineEventType.EXECUTION_FAILED)
            self.publish(call, kind, result)
        return result

    def forget_date(self) -> None:
        """The clock by which calls end is another one from now on."""
        self._next_date = -inf

    def _read_date(self, now: float) -> datetime:
        # Reading the wall clock as a date costs as much as all the rest of making a result, so it
        # is read once per millisecond, the resolution in which dates are given.
        date = datetime.now(UTC)
        self._next_date = now + 0.001 - date.microsecond % 1_000 / 1e6
        self._date = _to_the_millisecond(date)
        return self._date

    def publish(
        self, call: Call, kind: ToolEngineEventType, result: ToolExecutionResult | None = None
    ) -> None:
        """Tells whoever listens how far the call has come."""
        if not self._bus.listens_to(kind):
            return
        plan, slot, context = call.plan, call.slot, call.context
        tool = None if plan is None else plan.tool
        shown = None if result is None else _shown(call, tool, result)
        self._bus.publish(
            ToolEngineEvent(
                kind,
                call.tool_name,
                tool,
                None if shown is None else shown.error,
                None if shown is None else shown.validation_errors,
                shown,
                call_id=call.call_id,
                data={
                    "bucket": None if plan is None else plan.bucket,
                    "queue_wait": 0.0 if slot is None else slot.queue_wait,
                    "caller_id": context.caller_id,
                    "caller_type": context.caller_type,
                    "conversation_id": context.conversation_id,
                    "parent_call_id": context.parent_call_id,
                },
            )
        )


def _to_the_millisecond(date: datetime) -> datetime:
    return date.replace(microsecond=date.microsecond // 1_000 * 1_000)


def _shown(call: Call, tool: Tool | None, result: ToolExecutionResult) -> ToolExecutionResult:
    """A copy of the result for subscribers, who may write it anywhere: secrets are hidden."""
    output, error = result.output, result.error
    if secret_names(tool):
        visible = VisibleCall(call.params, tool)
        output, error = visible.result(snapshot(output)), visible.error(error)
    else:
        error = None if error is None else redact_text(error)
        try:
            output = redact(output)
        except Exception:  # noqa: BLE001 - a foreign value may have no words for itself
            output = redact(restore(snapshot(output)))
    return ToolExecutionResult(
        result.is_success,
        result.tool_name,
        output,
        error,
        result.error_type,
        redact(result.validation_errors),
        result.execution_time,
        result.executed_at,
        {**result.metadata},
    )
