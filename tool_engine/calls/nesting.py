"""How does a tool make another call, and who has its slot meanwhile?

A tool that waits for a call of its own needs no slot: its own is parked, so that nested calls can
not block each other, and taken back before the tool goes on.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, get_running_loop
from functools import partial
from typing import Any, Protocol

from tool_engine.backends.task import task_of
from tool_engine.calls.call import (
    ANONYMOUS,
    Call,
    end_work_of,
    ended_error,
    inner_context,
    joined_context,
    nested_context,
)
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.calls.present import PresentCalls
from tool_engine.calls.uses import is_use, take_uses
from tool_engine.interfaces import AdmissionController, Slot
from tool_engine.logger import current_call
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool


class _Pipeline(Protocol):
    home_loop: HomeLoop
    present: PresentCalls
    home: object
    """The engine."""

    def is_at_home(self, loop: AbstractEventLoop) -> bool: ...

    def find_shared(self, name: object, context: ToolExecutionContext) -> Tool | None: ...

    def refuse(
        self, tool_name: str, params: Any, context: ToolExecutionContext | None, refusal: Refusal
    ) -> ToolExecutionResult: ...

    async def take_steps(
        self,
        tool_name: str,
        params: Any,
        context: ToolExecutionContext | None,
        *,
        parent: Slot | None,
    ) -> ToolExecutionResult: ...


class InnerCalls:
    """Make the calls of tools, and of work that tools have started.

    Args:
        pipeline: Takes them through their steps.
        controller: Parks slots.
    """

    def __init__(self, pipeline: _Pipeline, controller: AdmissionController) -> None:
        self._pipeline = pipeline
        self._controller = controller

    async def make_call(
        self, near: Call, tool_name: str, params: Any, context: Any, call_id: str | None
    ) -> ToolExecutionResult:
        """Make a call for the tool of `near`, or for work that it has started."""
        self._pipeline.present.check_inner(call_id)
        if not near.is_owned_by(self._pipeline):
            return await self._make_across(near, tool_name, params, context)
        if near.is_over:
            if near.is_broken_off:
                raise ended_error(near.call_id, tool_name)
            inner = inner_context(near, context)
            return await self._execute_inside(tool_name, params, inner, None)
        own = None if context is ANONYMOUS else context
        return await self.nest(near.bind(near.deadline), tool_name, params, None, own)

    async def _make_across(
        self, near: Call, tool_name: str, params: Any, context: ToolExecutionContext
    ) -> ToolExecutionResult:
        """Make a call for a call of another engine: engines lend each other no slots.

        Where a call of this engine led to it, that one lends its slot, since it waits for this
        call.
        """
        maker, inner = near.of(self._pipeline), inner_context(near, context)
        if near.is_over and not near.is_broken_off:
            if maker is None or maker.is_over:
                return await self._execute_inside(tool_name, params, inner, None)
            # Work that it left behind belongs to the call that led to it, while that runs.
            near, inner = maker, joined_context(maker, inner)
        inner.made_by(near)
        with near.helped():
            # Checked after it is noted: the other engine may end it from another loop's thread.
            if near.is_overdue or near.is_broken_off:
                raise ended_error(near.call_id, tool_name)
            if near.is_ending:
                await end_work_of(near, tool_name)
            if maker is not None and maker.is_lending:
                return await self._lend_slot(maker, tool_name, params, inner)
            return await self._execute_inside(tool_name, params, inner, None)

    async def nest(
        self,
        outer: ToolExecutionContext,
        tool_name: str,
        params: Any,
        timeout: float | None,  # noqa: ASYNC109 - the timeout of the nested call
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        """Make a call for the call of `outer`, whose slot is parked meanwhile."""
        if not self._pipeline.is_at_home(get_running_loop()):
            take = partial(self.nest, outer, tool_name, params, timeout, context)
            return await self._pipeline.home_loop.carry(take, outer)
        call: Call = outer.bound_call
        if call.is_over or call.slot.is_overdue:
            raise ended_error(outer.call_id, tool_name)
        if call.is_ending:
            await end_work_of(call, tool_name)
        inner, lender = nested_context(outer, context, timeout), call
        near = current_call.get()
        if near is not None and near is not call and near.is_lending:
            # The tool of one call uses the context of another: both hold.
            inner, call = joined_context(near, inner), near
            maker = near.of(self._pipeline)
            if maker is not None and maker.is_lending:
                lender = maker
        inner.made_by(call)
        if lender is call:
            return await self._lend_slot(call, tool_name, params, inner)
        with call.helped():
            return await self._lend_slot(lender, tool_name, params, inner)

    async def _lend_slot(
        self, call: Call, tool_name: str, params: Any, inner: ToolExecutionContext
    ) -> ToolExecutionResult:
        """Make an inner call of `call`, or of work that it led to, with its slot parked."""
        slot, run, loop = call.slot, call.run, get_running_loop()
        if run is not None and run.get_loop() is not loop:
            # Only its own loop may touch the slot.
            return await self._execute_inside(tool_name, params, inner, None)
        task: Any = task_of(loop)
        is_helper = call.take_helper(task)
        self._controller.park(slot)
        try:
            return await self._execute_inside(tool_name, params, inner, slot)
        finally:
            if is_helper:
                call.helpers.discard(task)
            run = call.run if is_helper else task
            # Work that cannot be cancelled continues with its inner calls, so it can wait.
            if run is not None and run.is_ending and not run.leaves_on_cancel:
                self._controller.unpark_nowait(slot)
            else:
                await self._controller.unpark(slot)

    async def _execute_inside(
        self,
        tool_name: str,
        params: Any,
        inner: ToolExecutionContext,
        parent: Slot | None,
    ) -> ToolExecutionResult:
        """Run a tool's inner call, and count it as a use where a conversation counts."""
        pipeline = self._pipeline
        tool = None if inner.scope is None else pipeline.find_shared(tool_name, inner)
        uses = take_uses(inner.scope, tool_name, tool, pipeline.home)
        if isinstance(uses, Refusal):
            return pipeline.refuse(tool_name, params, inner, uses)
        result = await pipeline.take_steps(tool_name, params, inner, parent=parent)
        if uses and not is_use(result):
            for each in uses:
                each.give_back()
        return result
