"""How does a call end: with which result, record and event?"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec

from tool_engine.calls.call import Call
from tool_engine.calls.failure import Failure
from tool_engine.calls.plan import Plan
from tool_engine.calls.ready_output import Ready
from tool_engine.events import EventBus
from tool_engine.interfaces import Slot
from tool_engine.knowledge.entry import VisibleCall, secrets_sent, without_values
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.snapshot import pack, restore_value, take_snapshot
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.logger import get_logger
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import (
    ShownResult,
    ToolEngineEvent,
    ToolEngineEventType,
    UnreadOutput,
)
from tool_engine.model.permission import RESULTS_INSIDE, ResultPolicy
from tool_engine.model.record import CallEntry
from tool_engine.model.refusal import finding_of
from tool_engine.model.tool import Tool
from tool_engine.output.limited import LimitedOutput
from tool_engine.redaction import redact, redact_text

_T = TypeVar("_T")
_NOTHING: Final = pack({})
_DONE: Final = ToolEngineEventType.EXECUTION_COMPLETED
_FINAL_EVENTS: Final = {
    "validation_error": ToolEngineEventType.VALIDATION_ERROR,
    "cancelled": ToolEngineEventType.EXECUTION_CANCELLED,
}

_OWN_WORDS: Final = frozenset({"call_id", "task_id", "definition_hash", "tool_version", "bucket"})
"""What the engine names by itself: a short secret that is a part of it by chance hides nothing."""
_DEEP: Final = ("attempt_log", "cut", "error_details")
"""What of a result's metadata has values inside."""
_MOST_NOTED: Final = 16_384
"""The most bytes of arguments that are kept for messages about a failing subscriber."""
_SHORT: Final = 128
"""Bytes of an output whose size a conversation finds out as soon by itself."""
_AT_ONCE: Final = 50e-6
"""Seconds between two looks at a clock that count as one moment."""
_LATE: Final = 0.1
"""Seconds after its deadline from which a call without a wait has held the event loop too long."""
_MOST_NAMED: Final = 1_000
"""The most tools that are known to have done so; then it is said again."""
_log: Final = get_logger(__name__)
_LOOKS: Final = 8
"""Tries to look at both clocks in one moment, where other programs interfere."""


class CallEnding:
    """Make the one result, the one record and the one final event of each call."""

    __slots__ = ("_blocking", "_bus", "_clock", "append", "date", "dated", "memory", "next_date")

    def __init__(self, store: ToolKnowledgeStore, bus: EventBus) -> None:
        self.append = store.append
        storage = store.storage
        self.memory = storage if type(storage) is MemoryStorage else None
        self._bus = bus
        self._blocking: set[str] = set()
        """The tools that were said to block the event loop."""
        self.date = datetime.now(UTC)
        self.dated = 0.0
        """The time on the loop's clock at which the millisecond of `date` began."""
        self.next_date = -inf
        self._clock: Callable[[], float] = monotonic

    def succeed(
        self, call: Call, plan: Plan, slot: Slot, ready: Ready, now: float
    ) -> ToolExecutionResult:
        """End a call whose tool returned `ready`, at `now` on the loop's clock."""
        date = self.date if now < self.next_date else self.read_anew(now, call, slot)
        seconds = now - slot.acquired_at
        limited, output, kept, _ = ready
        context, request, queue_wait = call.context, slot.request, slot.queue_wait
        is_task, facts, attempts = context._task is not None, plan.facts, 1  # noqa: SLF001 - the engine's own
        call.run = None  # the run knows its call: without a cycle both are freed at once
        if call.reports is not None:
            call.reports.end()
        metadata = facts | {"call_id": call.call_id}
        if queue_wait:
            metadata["queue_wait"] = queue_wait
        if call.inside is not None and (said := _said_inside(call.inside)) is not None:
            metadata[RESULTS_INSIDE] = said
        if context.task_id is not None:
            metadata["task_id"] = context.task_id
        if call.called_as is not None:
            metadata["called_as"] = call.called_as
        if call.retries:
            attempts += call.retries
            metadata["attempts"], metadata["attempt_log"] = attempts, call.attempt_log
        entry = CallEntry(
            call.tool_name,
            call.params,
            kept,
            seconds,
            date,
            now - self.dated,
            call.call_id,
            facts,
            plan.tool,
            call.serial,
            request.priority,
            True,
            None,
            None,
            True,
            queue_wait,
            attempts,
            request.key,
            context.caller_id,
            context.caller_type,
            context.conversation_id,
            context.workflow_id,
            context.parent_call_id,
            context.session_id,
            context.task_id,
            call.decided_by,
        )
        if limited is not None or (context.scope is not None and len(kept) > _SHORT):
            output = _give_output(call, ready, metadata, entry)
        (context.task.keep_record if is_task else self.append)(entry)
        notes, name = _list_findings(call) if call.findings else [], call.tool_name
        result = ToolExecutionResult(True, name, output, None, None, notes, seconds, date, metadata)
        if self._bus.has_subscribers:
            self.publish(call, _DONE, result, kept=kept if limited is None else None)
        return result

    def fail(self, call: Call, failure: Failure, seconds: float = 0.0) -> ToolExecutionResult:
        """End a call that did not succeed."""
        if call.run is not None and not call.run.is_detached:
            call.run = None
        if call.reports is not None:
            call.reports.end()
        plan, slot = call.plan, call.slot
        tool = None if plan is None else plan.tool
        if plan is None:
            # Any argument may be a secret of the tool that was meant.
            call.params = without_values(call.params)
        if failure.error_type == "tool_quarantined":
            # The definition is not approved, nor what it says is secret, so nothing is recorded.
            call.params = _NOTHING
        if failure.error_type == "validation_error":
            call.findings = [*(call.findings or ()), *failure.findings]
            if not any(each["level"] == "error" for each in call.findings):
                call.findings.append(finding_of(failure.error))
        call.kept = failure.kept
        if failure.decided_by is not None:
            call.decided_by = failure.decided_by
        failure = _without_secrets(call, failure)
        metadata: dict[str, Any] = {
            "call_id": call.call_id,
            "tool_version": None if tool is None else tool.version,
            "definition_hash": None if tool is None else tool.definition_hash,
            "generation": None if plan is None else plan.facts["generation"],
            "bucket": None if plan is None else plan.bucket,
            "queue_wait": call.waited if slot is None else slot.queue_wait,
            "attempts": call.attempts,
        }
        rare = {
            "task_id": call.context.task_id,
            "called_as": call.called_as,
            "error_details": failure.details,
            RESULTS_INSIDE: None if call.inside is None else _said_inside(call.inside),
            "attempt_log": call.attempt_log,
        }
        metadata |= {name: value for name, value in rare.items() if value is not None}
        date = datetime.now(UTC)
        result = ToolExecutionResult(
            False,
            call.tool_name,
            {},
            failure.error,
            failure.error_type,
            _list_findings(call),
            seconds,
            _to_the_millisecond(date),
            metadata,
        )
        self._keep_record(call, result, call.kept or _NOTHING, date)
        call.context.note_failure(result)
        self._publish_end(call, result)
        return result

    def _keep_record(
        self,
        call: Call,
        result: ToolExecutionResult,
        kept: bytes,
        date: datetime,
        whole: bytes | None = None,
    ) -> None:
        context, metadata = call.context, result.metadata
        plan, slot = call.plan, call.slot
        entry = CallEntry(
            call.tool_name,
            call.params,
            kept,
            result.execution_time,
            date,
            0.0,
            call.call_id,
            None if plan is None else plan.facts,
            None if plan is None else plan.tool,
            call.serial,
            call.priority,
            result.is_success,
            result.error,
            result.error_type,
            slot is not None,
            metadata["queue_wait"],
            metadata["attempts"],
            None if slot is None else slot.request.key,
            context.caller_id,
            context.caller_type,
            context.conversation_id,
            context.workflow_id,
            context.parent_call_id,
            context.session_id,
            context.task_id,
            call.decided_by,
            whole,
        )
        (self.append if context.task is None else context.task.keep_record)(entry)

    def _publish_end(self, call: Call, result: ToolExecutionResult) -> None:
        if self._bus.has_subscribers:
            failed = _FINAL_EVENTS.get(
                result.error_type or "", ToolEngineEventType.EXECUTION_FAILED
            )
            self.publish(call, _DONE if result.is_success else failed, result)

    def share(
        self, call: Call, shared: ToolExecutionResult, waited: float, leader: Call | None = None
    ) -> ToolExecutionResult:
        """End a call that ran nothing and gets the result of a like call, of `leader`."""
        call.waited = waited
        metadata = {
            **_copy_output(shared.metadata),
            "call_id": call.call_id,
            "queue_wait": waited,
            "attempts": 0,
            "shared_with": shared.call_id,
        }
        metadata.pop("task_id", None)
        if call.context.task_id is not None:
            metadata["task_id"] = call.context.task_id
        date = datetime.now(UTC)
        output, limited = shared.output, None if leader is None else leader.limited
        if limited is not None and shared.is_success:
            output = _shape_for_caller(call, limited, metadata)
        if leader is not None and leader.misfits:
            call.findings = [*(call.findings or ()), *_copy_output(leader.misfits)]
        findings = _list_findings(call)
        if shared.error_type == "validation_error":
            # The arguments are the same, and the leader knows their findings.
            findings = _copy_output(shared.validation_errors)
        result = msgspec.structs.replace(
            shared,
            output=_copy_output(output),
            validation_errors=findings,
            executed_at=_to_the_millisecond(date),
            metadata=metadata,
        )
        if limited is None or not shared.is_success:
            kept = None if leader is None else leader.kept
            self._keep_record(call, result, kept or take_snapshot(result.output), date)
        else:
            self._keep_record(call, result, limited.kept.result, date, limited.kept.whole)
        self._publish_end(call, result)
        return result

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Use this clock from now on."""
        self._clock = clock
        self.next_date = -inf

    def read_anew(self, now: float, call: Call, slot: Slot) -> datetime:
        """Read the wall clock anew at the end of a call that was not plain."""
        # The deadline may be that of its caller, who has held the loop beyond it.
        has_waited = call.retries > 0 or now < slot.acquired_at + _LATE
        return self.read_date(now, call, call.deadline, has_waited)

    def read_date(
        self, now: float, call: Call, deadline: float, has_waited: bool = False
    ) -> datetime:
        """Read the wall clock anew, at `now` on the loop's clock.

        Where a call has ended long after its deadline without a wait, warn of its tool: nothing
        else has run since the clock was read, so that each such call comes by here.

        Args:
            now: The time.
            call: It ends now.
            deadline: Its own.
            has_waited: Whether it has waited for anything but its tool: others may have run
                meanwhile. Of the tool it is known itself.
        """
        if now > deadline + _LATE and not has_waited and call.run is None:
            self._warn_of_block(call, deadline, now)
        # Reading the wall clock as a date costs as much as all the rest of making a result, so it
        # is read once per millisecond, the resolution in which results give dates.
        date, read = self._both_clocks()
        moment = date - timedelta(seconds=read - now)
        self.dated = now - moment.microsecond % 1_000 / 1e6
        self.next_date = self.dated + 0.001
        self.date = _to_the_millisecond(moment)
        return self.date

    def _warn_of_block(self, call: Call, deadline: float, now: float) -> None:
        name = call.tool_name
        if name in self._blocking:
            return
        if len(self._blocking) >= _MOST_NAMED:
            self._blocking.clear()
        self._blocking.add(name)
        _log.warning(
            "tool_blocked_loop",
            tool_name=name,
            late_seconds=round(now - deadline, 3),
            message="nothing else ran meanwhile, and no deadline ends it: write def in place of "
            "async def, await what takes long, or use isolation: process",
        )

    def _both_clocks(self) -> tuple[datetime, float]:
        for _ in range(_LOOKS):
            before = self._clock()
            date = datetime.now(UTC)
            read = self._clock()
            if read - before < _AT_ONCE:
                break
        return date, read

    def tell_retry(self, call: Call, failure: Failure, seconds: float, delay: float) -> None:
        """Report that the tool runs again, `delay` seconds after a failed attempt."""
        facts = {
            "attempt": call.attempts,
            "delay": delay,
            "error_type": failure.error_type,
            "execution_time": seconds,
        }
        self.publish(call, ToolEngineEventType.EXECUTION_RETRIED, facts=facts)

    def publish(
        self,
        call: Call,
        kind: ToolEngineEventType,
        result: ToolExecutionResult | None = None,
        facts: dict[str, Any] | None = None,
        kept: bytes | None = None,
    ) -> None:
        """Publish an event of the call.

        Args:
            call: The call.
            kind: What has happened to it.
            result: How it ended, if it did.
            facts: What only this kind has.
            kept: A snapshot of the result's output; None: it is made here.
        """
        if not self._bus.listens_to(kind):
            return
        plan, slot, context = call.plan, call.held, call.context
        tool = None if plan is None else plan.tool
        visible = call.visible if plan is not None and plan.has_secrets else None
        shown = None if result is None else _show_result(tool, visible, result, kept)
        data = {
            "bucket": None if plan is None else plan.bucket,
            "queue_wait": call.waited if slot is None else slot.queue_wait,
            "caller_id": context.caller_id,
            "caller_type": context.caller_type,
            "conversation_id": context.conversation_id,
            "session_id": context.session_id,
            "task_id": context.task_id,
            "parent_call_id": context.parent_call_id,
        }
        if facts is not None:
            data |= facts
        if result is not None and call.reports is not None:
            data |= call.reports.list_lines()
        if visible is not None and len(call.params) <= _MOST_NOTED:
            self._bus.note_secrets(call.call_id, partial(secrets_sent, call.params, tool))
        self._bus.publish(
            ToolEngineEvent(
                kind,
                call.tool_name if tool is not None else redact_text(call.tool_name),
                tool,
                None if shown is None else shown.error,
                None if shown is None else shown.validation_errors,
                shown,
                call_id=call.call_id,
                data=data,
                generation=None if plan is None else plan.facts["generation"],
            )
        )


def _said_inside(tools: dict[int, Tool]) -> str | None:
    """Return the strictest result policy in the definitions of these tools."""
    said = {each.permission.result for each in tools.values() if each.permission is not None}
    strict = (each for each in (ResultPolicy.ALWAYS, ResultPolicy.ON_ERROR) if each in said)
    found = next(strict, None)
    return None if found is None else found.value


def _shape_for_caller(
    call: Call, limited: LimitedOutput, metadata: dict[str, Any], entry: CallEntry | None = None
) -> dict[str, Any]:
    """Return the caller's output; note in `metadata` and `entry` what is left out."""
    call.limited = limited
    output, cut = limited.shown_to(call.call_id, call.context)
    metadata.pop("cut", None)
    if cut is not None:
        metadata["cut"] = cut
    if entry is not None:
        entry.whole = limited.kept.whole
    return output


def _give_output(
    call: Call, ready: Ready, metadata: dict[str, Any], entry: CallEntry
) -> dict[str, Any]:
    """Return the caller's output; a conversation gets its packed form, and makes none again."""
    limited, output, _, whole = ready
    if limited is not None:
        return _shape_for_caller(call, limited, metadata, entry)
    note_output = getattr(call.context.scope, "note_output", None)
    if note_output is not None and whole is not None:
        note_output(output, whole)
    return output


def _copy_output(output: _T) -> _T:
    """Return a copy that the caller may change, or the value itself if it cannot be copied."""
    try:
        return deepcopy(output)
    except Exception:  # noqa: BLE001 - a foreign object may refuse to be copied
        return output


def _without_secrets(call: Call, failure: Failure) -> Failure:
    visible = call.visible
    if visible is None or failure.is_hidden or failure.error_type == "approval_required":
        # A request for consent is no tool's message, and the caller needs the token in it.
        return failure
    error = visible.error(failure.error) or ""
    details = None if failure.details is None else visible.value(failure.details)
    return failure._replace(error=error, details=details)


def _list_findings(call: Call) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call.findings or []
    visible = call.visible if found else None
    shown: list[dict[str, Any]] = found if visible is None else visible.value(found)
    return shown


def _to_the_millisecond(date: datetime) -> datetime:
    return date.replace(microsecond=date.microsecond // 1_000 * 1_000)


def _show_result(
    tool: Tool | None,
    visible: VisibleCall | None,
    result: ToolExecutionResult,
    kept: bytes | None,
) -> ToolExecutionResult:
    """Return the result for subscribers, with secrets hidden; of its output when it is read."""
    error, findings = result.error, result.validation_errors
    metadata = {**result.metadata}
    for name in _DEEP:
        if name in metadata:  # else its caller could change what a late reader sees
            metadata[name] = _copy_output(metadata[name])
    if visible is not None:
        error = visible.error(error)
        own = {name: metadata[name] for name in _OWN_WORDS & metadata.keys()}
        findings, metadata = visible.value(findings), visible.value(metadata) | own
    else:
        error = None if error is None else redact_text(error)
        if "error_details" in metadata:
            # Any reader with the token of a request for consent could allow the call.
            metadata["error_details"] = redact(metadata["error_details"])
    output: Any = result.output
    if output:
        data = take_snapshot(output) if kept is None else kept
        output = UnreadOutput(redact_output if visible is None else visible.result, data)
    return ShownResult(
        result.is_success,
        # A name that no tool has is text that a model wrote.
        result.tool_name if tool is not None else redact_text(result.tool_name),
        output or {},
        error,
        result.error_type,
        redact(findings) if findings else [],
        result.execution_time,
        result.executed_at,
        metadata,
    )


def redact_output(kept: bytes) -> dict[str, Any]:
    """Return what an event shows of an output, from its snapshot."""
    shown: dict[str, Any] = redact(restore_value(kept))
    return shown
