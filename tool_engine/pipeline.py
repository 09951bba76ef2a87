"""What happens to one call, in which order?

look up -> validate -> admit -> run -> shape output -> record -> publish -> ToolExecutionResult

This is the only place that knows the order. Every way out of a call goes through `CallEnding`,
which makes its one result, one record and one final event.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from contextvars import copy_context
from copy import deepcopy
from functools import partial
from time import monotonic
from typing import Any

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import RELEASED, ConcurrencySlot
from tool_engine.backends.local import LocalBackend
from tool_engine.backends.task import ABORTED, TIMED_OUT, ToolTask, task_of
from tool_engine.ending import (
    ANONYMOUS,
    CANCELLED,
    Call,
    CallEnding,
    attempt_of,
    end_of,
    nested_context,
)
from tool_engine.errors import (
    AdmissionError,
    ToolEngineError,
    ToolExecutionError,
    UnboundContextError,
)
from tool_engine.events import EventBus
from tool_engine.failure import Failure, failure_of, refusal_of
from tool_engine.knowledge.snapshot import pack, snapshot
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.record import next_serial
from tool_engine.model.tool import RetryPolicy, Tool
from tool_engine.plan import Plan, Planner

__all__ = ["Pipeline"]


class Pipeline:
    """Takes calls through the steps; one per engine."""

    __slots__ = (
        "_backend",
        "_bus",
        "_bypass",
        "_controller",
        "_ending",
        "_explain_missing",
        "_find",
        "_id_prefix",
        "_is_closed",
        "_loop",
        "_pauses",
        "_planner",
        "_plans",
        "_time",
    )

    def __init__(
        self,
        find: Callable[[str], Tool | None],
        explain_missing: Callable[[str], str],
        planner: Planner,
        controller: ToolConcurrencyController,
        backend: LocalBackend,
        ending: CallEnding,
        bus: EventBus,
        id_prefix: str,
    ) -> None:
        self._find = find
        self._explain_missing = explain_missing
        self._planner = planner
        self._controller = controller
        self._bypass = controller.config.bypass_caller_types
        self._backend = backend
        self._ending = ending
        self._bus = bus
        self._id_prefix = id_prefix
        self._plans: dict[str, Plan] = {}
        self._pauses: set[asyncio.Future[None]] = set()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._time: Callable[[], float] = monotonic

    def forget_plans(self) -> None:
        """Tools or executors have changed: later calls are planned anew."""
        self._plans = {}

    def close(self) -> None:
        """Every call from now on ends as `engine_closed`."""
        self._is_closed = True
        self._plans = {}

    def abort(self) -> None:
        """Ends the calls that are still running as `engine_closed`."""
        self._backend.abort()
        for bell in self._pauses:
            if not bell.done():
                bell.set_result(None)

    async def execute(  # noqa: C901, PLR0912 - the steps are to be read in one place
        self,
        tool_name: str,
        params: Any = None,
        context: ToolExecutionContext | None = None,
        *,
        parent: ConcurrencySlot | None = None,
    ) -> ToolExecutionResult:
        """Takes one call through all steps; see `ToolEngine.execute`."""
        loop = get_running_loop()
        if loop is not self._loop:
            self._use(loop)
        task: Any = task_of(loop)
        if type(task) is ToolTask and parent is None and task.call.owner is self:
            return await self._nest_in(task, tool_name, params, context)  # type: ignore[no-any-return]
        context = ANONYMOUS if context is None else context
        try:
            plan = self._plans.get(tool_name)
            packed = pack(params)
        except Exception:  # noqa: BLE001 - a foreign value may raise anything
            plan, packed = None, snapshot(params)
        serial = next_serial()
        call = Call(self, serial, f"{self._id_prefix}{serial}", tool_name, packed, context, plan)
        if plan is None or (arguments := plan.accept(params, packed)) is None:
            checked = self._check(call, params, packed)
            if isinstance(checked, Failure):
                return self._ending.fail(call, checked)
            plan, arguments = checked
        request = plan.request
        if context is not ANONYMOUS:
            request = self._request(request, context, parent)
        slot = self._controller.admit_nowait(request, self._time())
        if slot is None and (slot := await self._wait_for_slot(call, request)) is None:
            return call.ended()
        call.slot = slot
        try:
            if self._bus.has_subscribers:
                self._ending.publish(call, ToolEngineEventType.EXECUTION_STARTED)
            deadline, home = slot.acquired_at + plan.timeout, self._backend
            if context is not ANONYMOUS:
                deadline = call.deadline_from(slot.acquired_at)
            run = ToolTask(loop, deadline, home, copy_context(), call, plan.direct, arguments)
            if plan.direct is None:
                self._aim(run, call, plan)
            run.start(task)
            if not run.is_done:
                call.run = run
                await run
                call.run = None
            if run.is_troubled and plan.retry is not None:
                run = await self._retry(call, plan, plan.retry, slot, run)
        except BaseException:
            self._controller.release(slot)
            self._ending.fail(call, CANCELLED)
            raise
        now = self._time()
        if run.is_troubled:
            return self._settle_badly(call, slot, run, now)
        self._controller.release(slot, now)
        return self._ending.succeed(call, plan, slot, run.value, now)

    async def _nest_in(
        self, run: ToolTask, tool_name: str, params: Any, context: ToolExecutionContext | None
    ) -> ToolExecutionResult:
        outer: ToolExecutionContext = run.call.bind(run.deadline)
        return await self.nest(outer, tool_name, params, None, context)

    async def nest(
        self,
        outer: ToolExecutionContext,
        tool_name: str,
        params: Any,
        timeout: float | None,  # noqa: ASYNC109 - the timeout of the nested call
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        """A call made by the call that `outer` is bound to, whose slot is parked meanwhile."""
        call: Call = outer.bound_call
        slot = call.slot
        if slot.state is RELEASED or slot.is_overdue:
            raise UnboundContextError(
                f"cannot call {tool_name!r}: the call {outer.call_id} that this context is bound "
                "to has ended"
            )
        inner = nested_context(outer, context, timeout)
        task: Any = task_of(get_running_loop())
        self._controller.park(slot)
        try:
            return await self.execute(tool_name, params, inner, parent=slot)
        finally:
            is_inside = type(task) is ToolTask and task.call is call
            run = task if is_inside else call.run
            if run is not None and run.is_ending:
                self._controller.stay_parked(slot)
            else:
                await self._controller.unpark(slot)

    def _check(
        self, call: Call, params: Any, packed: bytes
    ) -> tuple[Plan, dict[str, Any]] | Failure:
        """Look-up and validation of a call about which there is something to say."""
        plan = call.plan
        if plan is None:
            found = self._look_up(call)
            if isinstance(found, Failure):
                return found
            call.plan = plan = found
        arguments = plan.accept(params, packed)
        if arguments is None:
            findings = plan.explain(params)
            call.findings = [each.to_dict() for each in (*findings.errors, *findings.warnings)]
            if not findings.is_valid:
                messages = "; ".join(each.message for each in findings.errors)
                return Failure("validation_error", f"invalid arguments: {messages}")
            arguments = findings.validated_params
        if plan.executor is None:
            return self._planner.unknown_executor(plan.tool)
        return plan, arguments

    def _look_up(self, call: Call) -> Plan | Failure:
        if self._is_closed:
            return Failure("engine_closed", "the engine is closed and takes no more calls")
        name = call.tool_name
        tool = self._find(name) if isinstance(name, str) else None
        if tool is None:
            call.tool_name = str(name)
            return Failure("tool_not_found", self._explain_missing(call.tool_name))
        plan = self._plans.get(name)
        if plan is None:
            try:
                plan = self._plans[name] = self._planner.plan(tool)
            except ToolEngineError as error:
                return failure_of(ToolExecutionError(str(error)))
            plan.request.is_bypass = ANONYMOUS.caller_type in self._bypass
        return plan

    def _request(
        self,
        request: AdmissionRequest,
        context: ToolExecutionContext,
        parent: ConcurrencySlot | None,
    ) -> AdmissionRequest:
        is_bypass = context.caller_type in self._bypass
        is_other = is_bypass is not request.is_bypass
        if is_other or context.priority is not None or parent is not None:
            return request.for_caller(context.priority, is_bypass, parent)
        return request

    async def _wait_for_slot(self, call: Call, request: AdmissionRequest) -> ConcurrencySlot | None:
        """The slot; None for a call that was refused, which then has its result."""
        queued = partial(self._ending.publish, call, ToolEngineEventType.EXECUTION_QUEUED)
        try:
            return await self._controller.admit(request, queued)
        except AdmissionError as error:
            call.result = self._ending.fail(call, refusal_of(error))
            return None
        except BaseException:
            self._ending.fail(call, CANCELLED)
            raise

    def _aim(self, run: ToolTask, call: Call, plan: Plan) -> None:
        """Lets the run call an executor, with the arguments that it holds, and the context."""
        arguments, run.kwargs = run.kwargs, {}
        if plan.retry is not None and call.arguments is None:
            call.arguments = deepcopy(arguments)
        plan.aim(run, plan.executor, plan.tool, arguments, call.bind(run.deadline))

    def _use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads the clock of `loop`, without the detour through a method where that is the same."""
        self._loop = loop
        self._ending.forget_date()
        is_plain = type(loop).time is asyncio.BaseEventLoop.time
        self._time = monotonic if is_plain else loop.time

    async def _retry(
        self, call: Call, plan: Plan, retry: RetryPolicy, slot: ConcurrencySlot, run: ToolTask
    ) -> ToolTask:
        """Runs the tool again until it succeeds, its policy is used up or its time is."""
        loop = get_running_loop()
        deadline = run.deadline
        most = min(retry.attempts, 1 + call.context.max_retries)
        pause, began = retry.backoff, slot.acquired_at
        log = call.attempt_log = []
        while True:
            seconds = loop.time() - began
            failure = None if run.error is None else end_of(call, run, seconds)
            log.append(attempt_of(failure, seconds))
            if failure is None or run.is_ending or isinstance(run.error, KeyboardInterrupt):
                return run
            if failure.error_type not in retry.on or call.retries + 1 >= most:
                return run
            if loop.time() + pause >= deadline:
                return run
            reason = await self._pause(slot, pause, deadline)
            if reason is not None:
                run.end_reason, run.is_troubled = reason, True
                return run
            pause *= 2
            began = loop.time()
            call.retries += 1
            params = deepcopy(call.arguments)
            run = ToolTask(loop, deadline, self._backend, copy_context(), call, None, params or {})
            self._aim(run, call, plan)
            run.start(task_of(loop))
            if not run.is_done:
                call.run = run
                await run
                call.run = None

    async def _pause(self, slot: ConcurrencySlot, seconds: float, deadline: float) -> str | None:
        """Waits between two attempts, without the slot; says why if there must be no other."""
        self._controller.park(slot)
        bell = get_running_loop().create_future()
        self._pauses.add(bell)
        try:
            await asyncio.wait([bell], timeout=seconds)
        except BaseException:
            self._controller.stay_parked(slot)
            raise
        finally:
            self._pauses.discard(bell)
        if bell.done():
            self._controller.stay_parked(slot)
            return ABORTED
        try:
            async with asyncio.timeout_at(deadline):
                await self._controller.unpark(slot)
        except TimeoutError:
            return TIMED_OUT
        return None

    def _settle_badly(
        self, call: Call, slot: ConcurrencySlot, run: ToolTask, now: float
    ) -> ToolExecutionResult:
        """The tool failed, or its caller need not wait for it any more."""
        if run.is_detached:
            self._controller.mark_overdue(slot)
            run.on_end = partial(self._controller.release, slot)
        else:
            self._controller.release(slot, now)
        seconds = now - slot.acquired_at
        failure = end_of(call, run, seconds)
        if failure.error_type == "timeout":
            self._controller.count_timeout()
        result = self._ending.fail(call, failure, seconds)
        if run.cancellation is not None:
            raise run.cancellation
        if isinstance(run.error, KeyboardInterrupt):
            raise run.error
        return result
