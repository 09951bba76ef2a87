"""What happens to one call, in which order?

look up -> validate -> ask for consent -> admit -> run -> shape output -> record -> publish
-> ToolExecutionResult

This is the only place that knows the order. Every way out of a call goes through `CallEnding`,
which makes its one result, one record and one final event.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest, tool_key_of
from tool_engine.admission.slot import RELEASED, ConcurrencySlot
from tool_engine.backends.local import LocalBackend
from tool_engine.backends.task import ToolTask, task_of
from tool_engine.consent import Consents, is_same
from tool_engine.ending import CallEnding
from tool_engine.errors import (
    AdmissionError,
    ToolEngineError,
    ToolExecutionError,
    UnboundContextError,
)
from tool_engine.events import EventBus
from tool_engine.failure import Failure, failure_of, refusal_of
from tool_engine.interfaces import CallScope
from tool_engine.knowledge.snapshot import pack, snapshot
from tool_engine.logger import current_call
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.caller import check_context
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.record import next_serial
from tool_engine.model.tool import Tool
from tool_engine.plan import Plan, Planner
from tool_engine.progress import (
    ANONYMOUS,
    CANCELLED,
    Call,
    end_of,
    nested_context,
    slot_of_this_task,
)
from tool_engine.retrying import Retries
from tool_engine.sharing import Flight, Flights, leads_flight

__all__ = ["Pipeline"]

_FAULTS: Final = ("execution_error", "timeout")
"""What a circuit breaker counts."""


class Pipeline:
    """Takes calls through the steps; one per engine."""

    __slots__ = (
        "_backend",
        "_bus",
        "_consents",
        "_controller",
        "_ending",
        "_explain_missing",
        "_find",
        "_flights",
        "_id_prefix",
        "_is_closed",
        "_loop",
        "_planner",
        "_plans",
        "_retries",
        "_time",
    )

    def __init__(
        self,
        find: Callable[[str], Tool | None],
        explain_missing: Callable[[Call], Failure],
        planner: Planner,
        controller: ToolConcurrencyController,
        backend: LocalBackend,
        ending: CallEnding,
        bus: EventBus,
        id_prefix: str,
        scope: CallScope | None = None,
    ) -> None:
        self._find = find
        self._explain_missing = explain_missing
        self._planner = planner
        self._controller = controller
        controller.current_slot = slot_of_this_task
        self._backend = backend
        self._ending = ending
        self._flights = Flights(ending, controller.followed)
        self._bus = bus
        self._id_prefix = id_prefix
        self._plans: dict[str, Plan] = {}
        self._consents = Consents(ending, scope)
        self._retries = Retries(controller, backend, ending, self._room, self._suspend)
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._time: Callable[[], float] = monotonic

    def back_off(self, call: Call, seconds: float) -> None:
        """The service behind the tool of `call` asks for a pause."""
        if call.plan is not None:
            self._controller.pause_bucket(call.plan.bucket, seconds)

    def forget_plans(self) -> None:
        """Tools or executors have changed: later calls are planned anew."""
        self._plans = {}

    def close(self) -> None:
        """Every call from now on ends as `engine_closed`."""
        self._is_closed = True
        self._plans = {}
        self._consents.close()

    async def end_questions(
        self,
        timeout: float,  # noqa: ASYNC109 - what happens afterwards is up to the caller
    ) -> None:
        """Waits, after `close`, until every call that waited for consent has its end."""
        await self._consents.drain(timeout)

    def abort(self) -> None:
        """Ends the calls that are still running as `engine_closed`."""
        self._backend.abort()
        self._retries.abort()

    async def execute(  # noqa: C901, PLR0912 - the steps are to be read in one place
        self,
        tool_name: str,
        params: Any = None,
        context: ToolExecutionContext | None = None,
        *,
        parent: ConcurrencySlot | None = None,
        leads: Flight | None = None,
    ) -> ToolExecutionResult:
        """Takes one call through all steps; see `ToolEngine.execute`."""
        if (loop := get_running_loop()) is not self._loop:
            self._use(loop)
        if type(task := task_of(loop)) is ToolTask and parent is None and task.call.owner is self:
            return await self._nest_in(task, tool_name, params, context)  # type: ignore[no-any-return]
        context = context if context is not None and check_context(context) else ANONYMOUS
        try:
            plan = self._plans.get(tool_name)
            packed = pack(params)
        except Exception:  # noqa: BLE001 - a foreign value may raise anything
            plan, packed = None, snapshot(params)
        serial = next_serial()
        call = Call(self, serial, f"{self._id_prefix}{serial}", tool_name, packed, context, plan)
        if plan is None or (arguments := plan.accept(params, packed)) is None:
            if isinstance(checked := self.check(call, params, packed), Failure):
                return self._ending.fail(call, checked)
            plan, arguments = checked
        request = plan.request
        if context is not ANONYMOUS or plan.is_special:
            if plan.is_shared or not self._consents.is_free(call, plan, arguments):
                ready = await self._prepare(call, params, packed, arguments, parent, leads)
                if not isinstance(ready, tuple):
                    return ready
                plan, arguments = ready
            request = self._request(plan, context, arguments, parent)
        slot = self._controller.admit_nowait(request, self._time(), call.call_id)
        if slot is None and (slot := await self._wait_for_slot(call, request)) is None:
            return call.ended()
        call.slot = slot
        try:
            room = self._open_room(call, slot) if self._bus.has_subscribers else copy_context()
            began, direct = slot.acquired_at, plan.direct
            deadline = began + plan.timeout if context is ANONYMOUS else call.deadline_from(began)
            run = ToolTask(loop, deadline, self._backend, room, call, direct, arguments)
            if direct is None:
                call.aim(run, plan)
            run.start(task)
            if not run.is_done:
                self._suspend(call, plan, slot, run)
                await run
            if run.is_troubled and plan.retry is not None:
                run = await self._retries.run(call, plan, plan.retry, slot, run)
        except BaseException:
            self._controller.release(slot, outcome=None)
            self._ending.fail(call, CANCELLED)
            raise
        now = self._time()
        if run.is_troubled:
            return self._settle_badly(call, slot, run, now)
        self._controller.release(slot, now)
        return self._ending.succeed(call, plan, slot, run.value, now)

    async def _prepare(
        self,
        call: Call,
        params: Any,
        packed: bytes,
        arguments: dict[str, Any],
        parent: ConcurrencySlot | None,
        leads: Flight | None,
    ) -> tuple[Plan, dict[str, Any]] | ToolExecutionResult:
        """What a call may run; or its result, when nobody consents or another call runs for it."""
        plan: Any = call.plan
        # Who leads others has consent already, to what the tool was then.
        has_consent = leads is not None and is_same(plan.tool, leads.tool)
        if not has_consent and (plan.needs_consent or call.context.scope is not None):
            consented = await self._consents.ask(self, call, params, packed, plan, arguments)
            if consented is None:
                return call.ended()
            plan, arguments = consented
        if plan.is_shared and not leads_flight(call, leads):
            return await self._flights.take(self, call, params, arguments, parent)
        return plan, arguments

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

    def refuse(
        self,
        tool_name: str,
        params: Any,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> ToolExecutionResult:
        """The end of a call that its caller does not let run; see `ToolEngine.refuse`."""
        task: Any = task_of(get_running_loop())
        if type(task) is ToolTask and task.call.owner is self:
            context = nested_context(task.call.bind(task.deadline), context, None)
        serial = next_serial()
        call_id = f"{self._id_prefix}{serial}"
        context = ANONYMOUS if context is None else context
        check_context(context)
        call = Call(self, serial, call_id, tool_name, snapshot(params), context)
        found = self.look_up(call)
        call.plan = None if isinstance(found, Failure) else found
        return self._ending.fail(call, Failure(*msgspec.structs.astuple(refusal)))

    def check(
        self, call: Call, params: Any, packed: bytes
    ) -> tuple[Plan, dict[str, Any]] | Failure:
        """Look-up and validation of a call about which there is something to say."""
        plan = call.plan
        if plan is None:
            found = self.look_up(call)
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

    def look_up(self, call: Call) -> Plan | Failure:
        """The plan for the tool that a call names."""
        if self._is_closed:
            return Failure("engine_closed", "the engine is closed and takes no more calls")
        name = call.tool_name
        tool = self._find(name) if isinstance(name, str) else None
        if tool is None and call.context.scope is not None:
            own = call.context.scope.own(name)
            if own is not None:
                return self._planner.plan(*own)
        if tool is None:
            call.tool_name = str(name)
            return self._explain_missing(call)
        plan = self._plans.get(name)
        if plan is None:
            try:
                plan = self._plans[name] = self._planner.plan(tool)
            except ToolEngineError as error:
                return failure_of(ToolExecutionError(str(error)))
        return plan

    def _request(
        self,
        plan: Plan,
        context: ToolExecutionContext,
        arguments: dict[str, Any],
        parent: ConcurrencySlot | None,
    ) -> AdmissionRequest:
        request, config = plan.request, self._controller.config
        if not plan.is_keyed and not config.has_keys and parent is None:
            is_bypass = context.caller_type in config.bypass_caller_types
            if is_bypass is request.is_bypass and context.priority is None:
                return request
        key = None if plan.is_shared else tool_key_of(plan.tool, context, arguments)
        return request.for_caller(config, context, key, parent)

    async def _wait_for_slot(self, call: Call, request: AdmissionRequest) -> ConcurrencySlot | None:
        """The slot; None for a call that was refused, which then has its result."""
        queued = partial(self._ending.publish, call, ToolEngineEventType.EXECUTION_QUEUED)
        began = self._time()
        try:
            return await self._controller.admit(request, queued, call.call_id)
        except AdmissionError as error:
            call.waited = self._time() - began
            call.result = self._ending.fail(call, refusal_of(error))
            return None
        except BaseException:
            call.waited = self._time() - began
            self._ending.fail(call, CANCELLED)
            raise

    def _use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads the clock of `loop`, without the detour through a method where that is the same."""
        self._loop = loop
        is_plain = type(loop).time is asyncio.BaseEventLoop.time
        self._time = monotonic if is_plain else loop.time
        self._ending.use_clock(self._time)

    def _open_room(self, call: Call, slot: ConcurrencySlot) -> Context:
        """Tells of the start, whereupon somebody may look for the slot; where the tool runs."""
        self._controller.watch(slot)
        self._ending.publish(call, ToolEngineEventType.EXECUTION_STARTED)
        return self._room(call)

    def _room(self, call: Call) -> Context:
        room = copy_context()
        if self._bus.binds_calls:
            room.run(current_call.set, call)
        return room

    def _suspend(self, call: Call, plan: Plan, slot: ConcurrencySlot, run: ToolTask) -> None:
        """From here on others can see the call, and end it."""
        call.run = run
        self._controller.watch(slot)
        if plan.is_keyed:
            slot.on_superseded = call.supersede

    def _settle_badly(
        self, call: Call, slot: ConcurrencySlot, run: ToolTask, now: float
    ) -> ToolExecutionResult:
        """The tool failed, or its caller need not wait for it any more."""
        seconds = now - slot.acquired_at
        failure = end_of(call, run, seconds)
        outcome = False if failure.error_type in _FAULTS else None
        if run.is_detached:
            self._controller.mark_overdue(slot, outcome)
            run.on_end = partial(self._controller.release, slot)
        else:
            self._controller.release(slot, now, outcome=outcome)
        if failure.error_type == "timeout":
            self._controller.count_timeout()
        result = self._ending.fail(call, failure, seconds)
        if run.cancellation is not None:
            raise run.cancellation
        if isinstance(run.error, KeyboardInterrupt):
            raise run.error
        return result
