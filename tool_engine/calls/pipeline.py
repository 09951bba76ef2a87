"""In which order does a call go through its steps?

look up -> validate -> ask for consent -> admit -> run -> shape output -> record -> publish
-> ToolExecutionResult

This is the only place that knows the order. Every way out of a call goes through `CallEnding`,
which makes its one result, one record and one final event.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tool_engine.admission.request import AdmissionRequest
from tool_engine.backends.local import LocalBackend
from tool_engine.backends.runs import Runs
from tool_engine.backends.task import ToolTask, task_of
from tool_engine.calls.call import (
    ANONYMOUS,
    NOT_OURS,
    Call,
    context_of,
    end_of,
    inner_context,
    name_call,
    slot_of_this_call,
    too_late,
)
from tool_engine.calls.consent import Consents, freeze_arguments, let_others_run
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.failure import Failure, failure_from, failure_of, is_interrupt, refusal_of
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.calls.overdue import OverdueWork
from tool_engine.calls.plan import Plan
from tool_engine.calls.planner import Planner
from tool_engine.calls.present import QUEUED, PresentCalls, StoppedError, Wait
from tool_engine.calls.progress import take_report
from tool_engine.calls.retrying import Retries
from tool_engine.calls.sharing import Flight, Flights
from tool_engine.errors import (
    AdmissionError,
    EngineClosedError,
    ToolEngineError,
    ToolExecutionError,
)
from tool_engine.events import EventBus
from tool_engine.forking import Inheritable
from tool_engine.interfaces import AdmissionController, CallScope, Run, Slot
from tool_engine.knowledge.snapshot import pack_plain, take_snapshot
from tool_engine.logger import current_call
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.context_check import check_context, is_of_own
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.progress import ToolLogLine, ToolProgress
from tool_engine.model.record import serials
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.calls.nesting import InnerCalls

_T = TypeVar("_T")
_FAULTS: Final = ("execution_error", "timeout", "worker_lost")
"""The error types that a circuit breaker counts."""
_GONE: Final = "tool_not_found"
_TAKEN_AWAY: Final = (_GONE, "tool_quarantined")
_UNASKED: Final[Any] = False
"""Stands for a parent: it must be found out whether a tool makes the call."""


class Pipeline:
    """Take calls through all steps; one object per engine."""

    def __init__(
        self,
        find: Callable[[str], Tool | None],
        explain_missing: Callable[[Call], Failure],
        planner: Planner,
        controller: AdmissionController,
        runs: Runs,
        local: LocalBackend,
        ending: CallEnding,
        bus: EventBus,
        id_prefix: str,
        scope: CallScope | None,
        engine: Inheritable | None,
        lost_after: float,
    ) -> None:
        self._find = find
        self._explain_missing = explain_missing
        self._planner = planner
        self._controller = controller
        self._runs = runs
        self._ending = ending
        self._bus, self.note_limit = bus, partial(bus.tell_trouble, "limit_adapted")
        self._prefix = self.id_prefix = id_prefix
        self._plans: dict[str, Plan] = {}
        self._retries = Retries(controller, runs, ending, self.suspend_run, local, self.renew)
        self.present = PresentCalls(id_prefix, runs, self._retries.pauses)
        self.end_lost = self.present.end_lost
        self._flights = Flights(ending, self.present, self._find_patience)
        self._overdue = OverdueWork(controller, lost_after, planner.give_up)
        self.leader_of, self.explain_lost = self._flights.leader_of, self._overdue.explain_lost
        self.explain_place, self._explain_start = planner.explain_place, planner.explain_start
        self.home: object = engine
        self.consents = Consents(ending, scope, self.present, engine)
        self._is_closed = False
        self._disowned: EngineClosedError | None = None
        self.home_loop = HomeLoop(engine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.announced: Call | None = None
        # Loaded with the first engine, as a module that imports the package needs none.
        nesting = import_module("tool_engine.calls.nesting")
        self._inner_calls: InnerCalls = nesting.InnerCalls(self, controller)
        self.take_nested = self._inner_calls.nest  # once, not for each call
        plain = import_module("tool_engine.calls.plain_calls")
        self._take_plain: Callable[..., Any] = plain.leave_all
        self._plain, self._wires = plain, None
        self._end_run: Callable[..., Any] = plain.end_run
        self.release, self.give_up = controller.release, getattr(controller, "give_up", None)
        self._time: Callable[[], float] = monotonic
        controller.attach(self)

    def current_slot(self) -> Slot | None:
        """Return the slot of the call that runs, or starts, at this moment."""
        return slot_of_this_call() if self.announced is None else self.announced.slot

    def back_off(self, call: Call, seconds: float | None) -> None:
        """Pause the tool of `call` if the service asks for that; in any case it had no room."""
        if call.slot is not None:
            self._controller.note_overload(call.slot)
        if call.plan is not None and seconds is not None:
            self._controller.pause_bucket(call.plan.bucket, seconds)

    def take_report(self, call: Call, report: ToolProgress | ToolLogLine) -> None:
        """Take what a tool reports of its call meanwhile, from any thread."""
        if self._loop is not None and not call.is_over:
            take_report(call, report, self._ending.publish, self._flights.sharers_of, self._loop)

    def forget_plans(self) -> None:
        """Plan later calls anew, since tools or executors have changed.

        Calls that wait for a limit of their tool wait for what it is now.
        """
        self._plans.clear()
        names = self._controller.tools_in_line()
        tools = [tool for tool in map(self._find, names) if tool is not None]
        config = self._controller.config
        self._controller.adopt([AdmissionRequest.for_tool(tool, config) for tool in tools])
        if self._loop is not None and (self.present.waits or self._retries.pauses):
            # What is gone is known once the change is whole. A loop that has ended has no calls.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(
                    self.present.withdraw, self._explain_gone, self._is_another
                )

    def close(self) -> None:
        """End every call from now on as `engine_closed`."""
        self._is_closed = True
        self._plans.clear()
        self.consents.close()

    def disown(self, error: EngineClosedError) -> None:
        """Raise the error for every call from now on, and record nothing."""
        self._plans.clear()
        self._disowned = error
        self.home_loop.forget()

    def abort(self) -> None:
        """End the calls that are still running as `engine_closed`."""
        self._runs.abort()
        self._retries.abort()

    async def execute(
        self,
        tool_name: str,
        params: Any = None,
        context: ToolExecutionContext | None = None,
        *,
        on_progress: Callable[[ToolProgress], object] | None = None,
        call_id: str | None = None,
    ) -> ToolExecutionResult:
        """Take one call through all steps: the few of a plain call, if it is one."""
        if on_progress is not None or call_id is not None:
            return await self.take_steps(tool_name, params, context, on_progress, call_id)
        take, wires = self._take_plain, self._wires
        if (done := take(wires, tool_name, params, context)) is None:
            return await self.take_steps(tool_name, params, context)
        if type(done) is ToolExecutionResult:
            return done
        if type(done) is tuple:
            try:
                await done[0]  # here: a frame less
            except BaseException as error:
                if (done := self._plain.break_off_wait(wires, done, error)) is None:
                    raise
            else:
                done = self._plain.start_late(wires, done)
        if type(done) is ToolTask:
            run, end = done, self._end_run
            try:
                await run  # here: a frame less at each step of its tool
            except BaseException:
                self.end_broken(run.call, run.call.slot)
                raise
            done = end(wires, run)
        return done if type(done) is ToolExecutionResult else await done

    async def take_steps(  # noqa: C901, PLR0911, PLR0912 - the steps are to be read in one place
        self,
        tool_name: str,
        params: Any,
        context: ToolExecutionContext | None,
        on_progress: Callable[[ToolProgress], object] | None = None,
        call_id: str | None = None,
        parent: Slot | None = _UNASKED,
        begun: Flight | None = None,
    ) -> ToolExecutionResult:
        """Take one call through all steps, or one that was `begun` through what is left of them.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: The caller's, if it has one.
            on_progress: Hears of its progress.
            call_id: The id that it is to have; None: a new one.
            parent: The slot of the call that makes it; None: it makes it without one.
            begun: What has been done for it.
        """
        context = ANONYMOUS if context is None is on_progress else context_of(context, on_progress)
        if (loop := get_running_loop()) is not self._loop and not self._use_loop(loop):
            return await self._execute_at_home(tool_name, params, context, call_id)
        if (near := current_call.get() or context.bound_call) is not None and parent is _UNASKED:
            return await self._inner_calls.make_call(near, tool_name, params, context, call_id)
        if begun is None:
            call, packed, found = self._begin_call(tool_name, params, context, near, call_id)
            if isinstance(found, Failure):
                return await self._fail_checked(call, found, packed)
            plan, arguments = found
        else:
            call, plan, arguments = begun.call, begun.plan, begun.arguments
        request, asked = plan.request, context.task or self._controller
        if (context is not ANONYMOUS or plan.is_special) and call.held is None:
            if begun is None and not plan.is_free(call, arguments):
                plan, arguments = await self._prepare_call(call, params, packed, arguments, parent)
                if call.result is not None:
                    return call.result
            request = plan.choose_request(self._controller.config, context, arguments, parent)
        call.held = slot = asked.admit_nowait(request, self._time(), call.call_id)
        if slot is None and (slot := await self._wait_for_slot(call, request, arguments)) is None:
            return call.ended()
        plan = call.plan or plan
        try:
            self.announce_start(call, slot)
            run = ToolTask(loop, call.deadline, self._runs, call, plan.direct, arguments)
            if plan.direct is None:
                call.bind_run(run, plan)
            if not run.start(task_of(loop)):
                await self.suspend_run(call, plan, slot, run)  # here: a frame less a level
            output = None if run.is_troubled else plan.ready(run.value)
        except BaseException:
            self.end_broken(call, slot)
            raise
        if output is None or self._controller.release(slot, now := self._time()):
            return await self.complete_call(call, plan, slot, run, is_lost=output is not None)
        return self._ending.succeed(call, plan, slot, output, now)

    def _begin_call(
        self,
        tool_name: Any,
        params: Any,
        context: ToolExecutionContext,
        near: Call | None,
        call_id: str | None,
    ) -> tuple[Call, bytes, tuple[Plan, dict[str, Any]] | Failure]:
        """Return a new call, its packed arguments, and what it may run, or why it may not."""
        is_own = context._is_of_own  # noqa: SLF001 - the engine's own
        try:
            plan, packed = None if is_own else self._plans.get(tool_name), pack_plain(params)
        except Exception:  # noqa: BLE001 - a foreign value may raise anything
            plan, packed = None, b""
        own_id = name_call(self._prefix) if call_id is None else self.present.claim_id(call_id)
        call = Call(self, next(serials), own_id, tool_name, packed, context, plan)
        call.above = near and near.above_of(self)
        if plan is None or (arguments := plan.accept(params, packed)) is None:
            return call, packed, self.check(call, params, packed)
        return call, packed, (plan, arguments)

    async def complete_call(
        self, call: Call, plan: Plan, slot: Slot, run: ToolTask, *, is_lost: bool | None = None
    ) -> ToolExecutionResult:
        """Take a call whose tool has begun to its end; `is_lost` None: perhaps to be awaited."""
        if is_lost:
            return self._end_failed(call, slot, run, self._time())
        try:
            if is_lost is None and not run.is_done:
                await self.suspend_run(call, plan, slot, run)
            if run.is_troubled or (output := plan.ready(run.value)) is None:
                run, output = await self._retries.finish_run(call, plan, slot, run)
        except BaseException:
            self.end_broken(call, slot)
            raise
        now = self._time()
        if output is None or self._controller.release(slot, now):
            return self._end_failed(call, slot, run, now)
        return self._ending.succeed(call, plan, slot, output, now)

    async def _fail_checked(
        self, call: Call, failure: Failure, packed: bytes
    ) -> ToolExecutionResult:
        """End a call that may not run; others have a turn before much is recorded."""
        try:
            await let_others_run(packed)
        finally:
            result = self._ending.fail(call, failure)
        return result

    async def _prepare_call(
        self,
        call: Call,
        params: Any,
        packed: bytes,
        arguments: dict[str, Any],
        parent: Slot | None,
    ) -> tuple[Plan, dict[str, Any]]:
        """Return what a call may run; it has its result if it ended, or another call ran for it."""
        plan: Any = call.plan
        # From here on callers may change what they sent: it is not read again.
        params, parent = freeze_arguments(params), parent or None
        while True:
            if plan.needs_consent or call.context.scope is not None:
                consented = await self.consents.ask(self, call, params, packed, plan, arguments)
                if consented is None:
                    return plan, arguments
                plan, arguments = consented
            if not plan.is_shared:
                return plan, arguments
            call.result = await self._flights.take(self, call, plan, arguments, parent)
            if call.result is not None:
                return plan, arguments
            # It waited for another call in vain, and the tool has changed meanwhile.
            call.plan = call.findings = None
            checked = self.check(call, params, packed)
            if isinstance(checked, Failure):
                call.result = self._ending.fail(call, checked)
                return plan, arguments
            plan, arguments = checked

    def _explain_gone(self, call: Call) -> Failure | None:
        """Return why the tool of a call is gone; None: it is there, or may be approved yet."""
        if self._is_closed or self._disowned is not None:
            return None
        found = self.look_up(call)
        return found if isinstance(found, Failure) and found.error_type == _GONE else None

    def _is_another(self, call: Call, plan: Plan) -> bool:
        """Return True if a call that waits has another tool, or executor, than it had."""
        if self._is_closed or self._disowned is not None:
            return False
        now = self.look_up(call)
        return isinstance(now, Plan) and not now.runs_same(plan)

    def renew(self, call: Call, plan: Plan) -> Plan | None:
        """Return the plan by which a call runs again; None: its tool is gone, or not approved."""
        found = None if self._is_closed or self._disowned is not None else self.look_up(call)
        if isinstance(found, Failure) and found.error_type in _TAKEN_AWAY:
            return None
        now = self._plans.get(call.tool_name)
        return plan if now is None else plan.renewed_by(now)

    def recheck(self, call: Call, arguments: dict[str, Any]) -> Plan | Failure:
        """Check whether an admitted call that has waited may still start.

        Returns its tool's present plan, or why not: withdrawn, turned off or forbidden.
        """
        plan, is_free = self._plans.get(call.tool_name), call.context.scope is None
        if plan is not None and plan is call.plan and is_free and not plan.needs_consent:
            # Its definition alone decides, and no tool has changed since this plan was made.
            return plan
        now = self.look_up(call)
        if isinstance(now, Failure):
            return now
        refusal = self.consents.refusal_since(call, now, arguments)
        return now if refusal is None else failure_from(refusal)

    def _find_patience(self, plan: Plan) -> float:
        """Return the seconds that a call may wait for its slot."""
        own, config = plan.request.timeout, self._controller.config
        seconds = config.queue_timeout if own is None else own
        return inf if seconds is None else seconds

    def find_shared(self, name: object, context: ToolExecutionContext) -> Tool | None:
        """Return the tool of the engine that a call names; None: there is none."""
        return self._find(name) if isinstance(name, str) and not is_of_own(context) else None

    def refuse(
        self, tool_name: str, params: Any, context: ToolExecutionContext | None, refusal: Refusal
    ) -> ToolExecutionResult:
        """End a call that its caller does not allow to run; see `ToolEngine.refuse`."""
        context = context if context is not None and check_context(context) else ANONYMOUS
        near = current_call.get() or context.bound_call
        if near is not None:
            context = inner_context(near, context)
        call_id = name_call(self._prefix)
        call = Call(self, next(serials), call_id, tool_name, take_snapshot(params), context)
        found = self.look_up(call)
        call.plan = None if isinstance(found, Failure) else found
        if refusal.error_type == "tool_not_found" or not call.is_for_models:
            call.forget_name()
        return self._ending.fail(call, failure_from(refusal))

    def check(
        self, call: Call, params: Any, packed: bytes
    ) -> tuple[Plan, dict[str, Any]] | Failure:
        """Look up and validate a call that cannot take the short way."""
        plan, arguments = call.plan, None
        call.params = call.params or take_snapshot(params)
        if plan is None:
            found = self.look_up(call)
            if isinstance(found, Failure):
                return found
            call.plan = plan = found
            arguments = plan.accept(params, packed)
        # With a plan the short way was tried, in vain.
        if arguments is None:
            findings = plan.explain(params)
            call.findings = [each.to_dict() for each in (*findings.errors, *findings.warnings)]
            if not findings.is_valid:
                messages = "; ".join(each.message for each in findings.errors)
                return Failure("validation_error", f"invalid arguments: {messages}")
            arguments = findings.validated_params
        if (failure := self._planner.find_obstacle(plan, call.context)) is not None:
            return failure
        return plan, arguments

    def look_up(self, call: Call) -> Plan | Failure:
        """Return the plan for the tool that a call names."""
        if self._disowned is not None:
            raise self._disowned
        if self._is_closed:
            return Failure("engine_closed", "the engine is closed and takes no more calls")
        name, scope, is_own = call.tool_name, call.context.scope, is_of_own(call.context)
        tool = self.find_shared(name, call.context)
        if tool is None and scope is not None and (is_own or not self.consents.is_guest(call)):
            own = scope.own(name)
            if own is not None:
                return self._planner.plan(*own)
        if tool is None:
            if not isinstance(name, str):
                call.tool_name = str(name)
                return Failure(_GONE, word_no_name(name))
            return self._explain_missing(call)
        name = call.name_tool(tool)
        plan = self._plans.get(name)
        if plan is None:
            try:
                plan = self._plans[name] = self._planner.plan(tool)
            except ToolEngineError as error:
                return failure_of(ToolExecutionError(str(error)))
        return plan

    async def _wait_for_slot(
        self, call: Call, request: AdmissionRequest, arguments: dict[str, Any]
    ) -> Slot | None:
        queued = None
        if self._bus.has_subscribers:
            queued = partial(self._ending.publish, call, ToolEngineEventType.EXECUTION_QUEUED)
        slot, task, wait = None, call.context.task, Wait(self.present, call, QUEUED)
        admit: Any = self._controller.admit if task is None else task.admit
        try:
            with wait:
                slot = await admit(request, queued, call.call_id if task is None else call)
            now = self.recheck(call, arguments)
        except BaseException as error:
            if (why := self.explain_wait(call, slot, wait, error)) is None:
                raise
            now = why
        return self.settle_wait(call, slot, wait, now)

    def explain_wait(
        self, call: Call, slot: Slot | None, wait: Wait, error: BaseException
    ) -> Failure | None:
        """Return why a call that waited for its slot is not made; None: its caller broke it off."""
        if isinstance(error, AdmissionError):
            return refusal_of(error)
        if isinstance(error, StoppedError):
            return call.cancelled
        call.waited = self._time() - wait.began
        if slot is None:
            self._ending.fail(call, call.cancelled)
        else:
            self.end_broken(call, slot)
        return None

    def settle_wait(
        self, call: Call, slot: Slot | None, wait: Wait, now: Plan | Failure
    ) -> Slot | None:
        """Go on with the slot, by the plan of `now`; None: the call has ended."""
        if not isinstance(now, Failure):
            call.held, call.plan = slot, call.plan and call.plan.renewed_by(now)
            return slot
        call.waited = self._time() - wait.began
        if slot is not None:
            self._controller.release(slot, outcome=None)
        call.result = self._ending.fail(call, now)
        return None

    def carry(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> Coroutine[Any, Any, _T]:
        """Return a coroutine that does the work on the loop of the calls."""
        return work() if self._use_loop(get_running_loop()) else self.home_loop.carry(work)

    async def _execute_at_home(
        self, tool_name: str, params: Any, context: ToolExecutionContext, call_id: str | None
    ) -> ToolExecutionResult:
        take = partial(self.execute, tool_name, params, context, call_id=call_id)
        return await self.home_loop.carry(take, context)

    def is_at_home(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if the calls live on `loop`, or move there now."""
        return loop is self._loop or self._use_loop(loop)

    def _use_loop(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if the calls live on `loop`; move there if their own does not run."""
        if not self.home_loop.is_on(loop):
            return False
        if self._loop is loop:
            return True
        self._loop = loop
        # Its clock, without the detour through a method where that is the same.
        is_plain = type(loop).time is asyncio.BaseEventLoop.time
        self._time = clock = monotonic if is_plain else loop.time
        self._ending.use_clock(clock)
        parts: Any = (self._bus, self._plans, self, self._prefix, self._runs, self._ending)
        self._wires = wires = self._plain.make_wires(self._controller, loop, clock, *parts)
        self._take_plain = self._plain.leave_all if wires is None else self._plain.take_plain
        return True

    def announce_start(self, call: Call, slot: Slot) -> None:
        """Publish that a call has its slot, which views show from here on."""
        if self._bus.has_subscribers:
            self._controller.watch(slot)
            self._ending.publish(call, ToolEngineEventType.EXECUTION_STARTED)

    def suspend_run(self, call: Call, plan: Plan, slot: Slot, run: ToolTask) -> ToolTask:
        """Return the run, which is visible, and can be ended, from here on."""
        call.run = run
        self._controller.watch(slot)
        if plan.is_keyed:
            slot.on_superseded = call.supersede
        return run

    def end_broken(self, call: Call, slot: Slot) -> ToolExecutionResult:
        """End a call that its caller broke off."""
        call.break_off()
        self._controller.release(slot, outcome=None)
        return self._ending.fail(call, call.cancelled)

    def _end_failed(self, call: Call, slot: Slot, run: Run, now: float) -> ToolExecutionResult:
        """End a call whose tool failed, whose slot was lost, or whose caller need not wait."""
        seconds = now - slot.acquired_at
        try:
            failure = end_of(call, run, seconds) if run.is_troubled else NOT_OURS
        except BaseException:
            self.end_broken(call, slot)
            raise
        if run.is_ending:
            # By the deadline its helpers end by themselves.
            call.break_off(ends_helpers=not run.is_timed_out)
        outcome = False if failure.error_type in _FAULTS else None
        if failure.error_type == "timeout":
            if run.is_timed_out and (words := self._explain_start(call.call_id)):
                failure = too_late(call, seconds, words)
            self._controller.note_overload(slot)
            self._controller.count_timeout()
        if run.is_detached:
            self._overdue.hold_slot(call, slot, run, outcome)
        elif self._controller.release(slot, now, outcome=outcome) and not run.is_ending:
            failure = NOT_OURS
        result = self._ending.fail(call, failure, seconds)
        if run.cancellation is not None:
            raise run.cancellation
        if is_interrupt(run.error):
            raise run.error
        return result


# An engine has it as its own method, and Python's errors about arguments name the method.
Pipeline.execute.__qualname__ = "ToolEngine.execute"
