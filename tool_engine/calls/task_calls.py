"""How does the call of a task go whose slot is free when the task is started?

Its tool takes its first step while the task is started, as that of any call does. Only a tool that
waits needs an asyncio task: then the steps of `pipeline` go on there, and so does a call of which
anything is to be asked that no plain one is asked.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgspec

from tool_engine.backends.task import ToolTask, task_of
from tool_engine.calls.call import ANONYMOUS, Call, name_call
from tool_engine.calls.plan import Plan
from tool_engine.interfaces import AdmissionController
from tool_engine.knowledge.snapshot import pack_plain
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import serials


class BegunCall(msgspec.Struct, eq=False):
    """A call that was looked up and validated, and has its slot: what is left is to run it."""

    call: Call
    plan: Plan
    arguments: dict[str, Any]
    slot: Any
    run: Any = None
    """The run of its tool, once that has begun."""


class TaskCalls:
    """The calls of the tasks of one engine.

    Args:
        pipeline: Takes the calls of the engine through their steps.
    """

    __slots__ = ("_bus", "_ending", "_pipeline", "_plans", "_runs", "controller")

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._plans = pipeline._plans  # noqa: SLF001 - the pipeline's other half
        self.controller: AdmissionController = pipeline._controller  # noqa: SLF001 - as above
        """What gives their slots, as the pipeline has it: what a foreign one raises is kept off."""
        self._bus = pipeline._bus  # noqa: SLF001 - the pipeline's other half
        self._runs = pipeline._runs  # noqa: SLF001 - the pipeline's other half
        self._ending = pipeline._ending  # noqa: SLF001 - the pipeline's other half

    def begin_call(self, name: str, params: Any, context: ToolExecutionContext) -> BegunCall | None:
        """Begin a task's call, with its slot; None: there is none, or more is to be asked."""
        pipeline, controller = self._pipeline, self.controller
        try:
            plan, packed = self._plans.get(name), pack_plain(params)
        except Exception:  # noqa: BLE001 - a foreign value may raise anything
            return None
        if plan is None or plan.is_special or (found := plan.accept_task(params, packed)) is None:
            return None
        request = plan.request
        if context is not ANONYMOUS:
            request = plan.choose_request(controller.config, context, found, None)
        call_id = name_call(pipeline.id_prefix)
        slot = controller.admit_nowait(request, pipeline._time(), call_id)  # noqa: SLF001 - as above
        if slot is None:
            return None
        call = Call(pipeline, next(serials), call_id, name, packed, context, plan, slot)
        return BegunCall(call, plan, found, slot)

    def is_current(self, begun: BegunCall) -> bool:
        """Return True if no tool has changed since a call was begun, and the engine is open."""
        return self._plans.get(begun.call.tool_name) is begun.plan

    def run_tool(self, begun: BegunCall) -> ToolExecutionResult | None:
        """Run the tool of a call to its first wait; None: that, or more, is for `finish_call`."""
        pipeline, call, plan, slot = self._pipeline, begun.call, begun.plan, begun.slot
        try:
            if self._bus.has_subscribers:
                pipeline.announce_start(call, slot)
            loop, deadline = pipeline._loop, call.deadline_from(slot.acquired_at)  # noqa: SLF001 - as above
            run = ToolTask(loop, deadline, self._runs, call, plan.direct, begun.arguments)
            if plan.direct is None:
                call.bind_run(run, plan)
            begun.run = run
            return self._end_call(begun) if run.start(task_of(loop)) else None
        except BaseException:
            pipeline.end_broken(call, slot)
            raise

    def asks_turn(self, begun: BegunCall) -> bool:
        """Return True if the tool of a call waits for nothing but one turn of the loop."""
        run: ToolTask = begun.run
        return run.waits_for_turn

    def take_turn(self, begun: BegunCall) -> ToolExecutionResult | None:
        """Go on with a tool that asked for one turn of the loop, and had it; None as above."""
        run: ToolTask = begun.run
        if not run.waits_for_turn or not run.take_turn():
            return None
        try:
            return self._end_call(begun)
        except BaseException:
            self._pipeline.end_broken(begun.call, begun.slot)
            raise

    def _end_call(self, begun: BegunCall) -> ToolExecutionResult | None:
        """End a call whose tool has ended, if that went well."""
        call, plan, slot, run = begun.call, begun.plan, begun.slot, begun.run
        if run.is_troubled or (ready := plan.ready(run.value)) is None:
            return None
        now = self._pipeline._time()  # noqa: SLF001 - the pipeline's other half
        if self.controller.release(slot, now):
            failed: ToolExecutionResult = self._pipeline._end_failed(call, slot, run, now)  # noqa: SLF001 - as above
            return failed
        result: ToolExecutionResult = self._ending.succeed(call, plan, slot, ready, now)
        return result

    def finish_call(self, begun: BegunCall) -> Coroutine[Any, Any, ToolExecutionResult]:
        """Take a call to its end, whose tool waits or has failed."""
        made: Coroutine[Any, Any, ToolExecutionResult] = self._pipeline.complete_call(
            begun.call, begun.plan, begun.slot, begun.run
        )
        return made

    def break_off(self, begun: BegunCall) -> ToolExecutionResult:
        """End a call whose tool waits on a loop that ends; that is yet to be closed."""
        ended: ToolExecutionResult = self._pipeline.end_broken(begun.call, begun.slot)
        return ended

    def return_id(self, call_id: str) -> None:
        """Let another call have the id of one that was begun, and is not made."""
        self._pipeline.present.return_id(call_id)
