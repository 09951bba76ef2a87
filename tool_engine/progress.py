"""How far has a call come, and why did its run end as it did?"""

from __future__ import annotations

from asyncio import get_running_loop
from copy import deepcopy
from math import inf
from typing import Any, Final

import msgspec

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.backends.task import ABORTED, SUPERSEDED, ToolTask, task_of
from tool_engine.errors import ToolEngineError
from tool_engine.failure import Failure, failure_of
from tool_engine.model.call import DEFAULT_TIMEOUT, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.caller import check_context
from tool_engine.model.concurrency import DEFAULT_PRIORITY
from tool_engine.model.settable import settable
from tool_engine.plan import Plan

__all__ = [
    "ANONYMOUS",
    "CANCELLED",
    "Call",
    "attempt_of",
    "end_of",
    "nested_context",
    "slot_of_this_task",
    "too_late",
]

ANONYMOUS: Final = ToolExecutionContext()
"""The context of a call that comes without one."""
CANCELLED: Final = Failure("cancelled", "the caller cancelled the call")
_SUPERSEDED: Final = Failure(
    "cancelled", "a newer call with the same key took the place of this one"
)
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
    bell: Any = None
    """The future that ends a pause between two attempts, with the reason."""
    arguments: dict[str, Any] | None = None
    """What another attempt starts with; set where there may be one."""
    retries: int = 0
    attempt_log: list[dict[str, Any]] | None = None
    findings: list[dict[str, Any]] | None = None
    waited: float = 0.0
    """Seconds that it waited for a slot that it never had."""
    limited: Any = None
    """The `LimitedOutput` of a call that succeeded, where its tool's limits changed the output."""
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
    def priority(self) -> int:
        """How urgent it is: the caller's word, else the tool's."""
        if self.context.priority is not None:
            return self.context.priority
        return DEFAULT_PRIORITY if self.plan is None else self.plan.request.priority

    @property
    def timeout(self) -> float:
        """Seconds that the tool may run: the caller's word, else the tool's, else the default."""
        timeout = self.context.timeout
        if timeout is DEFAULT_TIMEOUT or timeout is None:
            return 0.0 if self.plan is None else self.plan.timeout
        return timeout

    def supersede(self) -> None:
        """Ends the run: a newer call with the same key takes its place."""
        if self.run is not None:
            self.run.end(SUPERSEDED)
        self.end_pause(SUPERSEDED)

    def end_pause(self, reason: str) -> None:
        """Ends the pause between two attempts, if this is one, and with it the call."""
        if self.bell is not None and not self.bell.done():
            self.bell.set_result(reason)

    def deadline_from(self, started: float) -> float:
        """When the call must have ended, on the loop's clock, if its tool starts at `started`."""
        deadline, outer = started + self.timeout, self.context.deadline
        return deadline if outer is None or deadline < outer else outer

    def aim(self, run: ToolTask, plan: Plan) -> None:
        """Lets the run call an executor, with the arguments that it holds, and the context."""
        arguments, run.kwargs = run.kwargs, {}
        if plan.retry is not None and self.arguments is None:
            self.arguments = deepcopy(arguments)
        plan.aim(run, plan.executor, plan.tool, arguments, self.bind(run.deadline))

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
    if run.end_reason is SUPERSEDED:
        return _SUPERSEDED
    if run.error is not None and not run.is_timed_out:
        return failure_of(run.error)
    return too_late(call, seconds)


def too_late(call: Call, seconds: float = inf) -> Failure:
    """The failure of a call whose deadline passed after `seconds`."""
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
    check_context(source)
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
        session_id=source.session_id or outer.session_id,
        # What a conversation forbids, a tool cannot do for it.
        scope=outer.scope if source.scope is None else source.scope,
        _is_for_tool=context is None,
    )


def attempt_of(failure: Failure | None, seconds: float) -> dict[str, Any]:
    """One attempt, as it stands in `metadata["attempt_log"]`."""
    return {
        "is_success": failure is None,
        "error_type": None if failure is None else failure.error_type,
        "error": None if failure is None else failure.error,
        "execution_time": seconds,
    }


def slot_of_this_task() -> ConcurrencySlot | None:
    """The slot of the call whose tool runs here; None outside of tools."""
    try:
        task: Any = task_of(get_running_loop())
    except RuntimeError:
        return None
    return task.call.slot if type(task) is ToolTask else None
