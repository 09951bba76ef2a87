"""How does a tool run that is made of calls of other tools?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.workflow.broken_links import broken_links
from tool_engine.executors.workflow.evaluation import (
    LEFT_OUT,
    EvaluationError,
    Scope,
    is_true,
    kind_of,
)
from tool_engine.executors.workflow.step_outcome import StepError, StepState, failure_of, make_error
from tool_engine.executors.workflow.template import render_tree
from tool_engine.executors.workflow.workflow_entry import Step, Workflow, compile_entry
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class WorkflowExecutor:
    """The executor of `run_workflow`: the steps of `entry.steps`, in order.

    Each step is a call of its own, with its own slot, deadline, record and events; the record names
    the workflow's call as its parent. A workflow with a step that cannot succeed, because the tools
    of the catalog do not fit it, fails before it does anything.
    """

    def __init__(self) -> None:
        self._workflows: CompiledEntries[Workflow] = CompiledEntries(compile_entry)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Return `entry.output`, or else the last step's output."""
        workflow = self._workflows.of(tool)
        if broken := broken_links(tool):
            raise ToolExecutionError(
                f"the workflow does not fit the tools that are there, and did nothing: "
                f"{'; '.join(broken)}"
            )
        return await run_workflow(workflow, params, context)


MAX_CALLS: Final = 1000
"""The most calls of one run, those of inner workflows included."""
MAX_DEPTH: Final = 20
_MARGIN: Final = 0.1
"""The most seconds that are reserved to report what was done when the time is up."""
_MARGIN_SHARE: Final = 0.05
_TICK: Final = 0.001
_TIMEOUTS: Final = ("timeout", "queue_timeout")


class _Budget(msgspec.Struct):
    """The remaining calls of a workflow and those inside it."""

    calls_left: int = MAX_CALLS
    is_over: bool = False
    """True if the outermost workflow has ended: later calls in its context start a new budget."""


class _Level(msgspec.Struct, frozen=True):
    depth: int
    budget: _Budget


_level: ContextVar[_Level | None] = ContextVar("tool_engine_workflow_level", default=None)


async def run_workflow(
    workflow: Workflow, params: dict[str, Any], context: ToolExecutionContext
) -> Any:
    """Run the steps; return the output, or raise with `details` of all steps."""
    outer = _level.get()
    if outer is None or outer.budget.is_over:
        outer = _Level(0, _Budget())
    if outer.depth >= MAX_DEPTH:
        raise ToolExecutionError(
            f"workflows run inside one another {MAX_DEPTH} deep, which is the most; make them "
            "flatter"
        )
    token = _level.set(_Level(outer.depth + 1, outer.budget))
    try:
        return await _Run(workflow, params, context, outer.budget).run()
    finally:
        _level.reset(token)
        if outer.depth == 0:
            outer.budget.is_over = True


# Each call of a step is a call like any other: `context.call` takes it through the pipeline. This
# only decides which calls there are, and what follows from their results.
class _Run:
    def __init__(
        self,
        workflow: Workflow,
        params: dict[str, Any],
        context: ToolExecutionContext,
        budget: _Budget,
    ) -> None:
        self._workflow = workflow
        self._states = {step.id: StepState(step) for step in workflow.all_steps()}
        self._facts: dict[str, dict[str, Any]] = {}
        self._scope = Scope(params, self._facts)
        self._budget = budget
        self._leaves = sum(not step.branches for step in workflow.all_steps())
        self._ended = 0
        """How many steps are over, of those that are no groups of others."""
        self._parts: dict[str, float] = {}
        """Of a step that runs for each item: which part of it is over."""
        self._now = asyncio.get_running_loop().time
        self._margin, self._deadline = 0.0, context.deadline
        if context.deadline is not None:
            # The steps end a little earlier, which leaves time to report what was done.
            left = max(context.deadline - self._now(), 0.0)
            self._margin = min(_MARGIN, _MARGIN_SHARE * left)
            self._deadline = context.deadline - self._margin
            context = msgspec.structs.replace(context, deadline=self._deadline)
        self._context = context

    async def run(self) -> Any:
        try:
            for step in self._workflow.steps:
                await self._run_step(step)
            self._report_progress()
            return self._make_output()
        except StepError as error:
            raise failure_of(error, self._states.values()) from None

    def _make_output(self) -> Any:
        if self._workflow.output is None:
            return self._states[self._workflow.steps[-1].id].output
        output = _render_tree(self._workflow.output, self._scope)
        return None if output is LEFT_OUT else output

    async def _run_step(self, step: Step) -> None:
        state = self._states[step.id]
        state.status = "running"
        try:
            if step.condition is not None and not _condition_holds(step.condition, self._scope):
                state.status = "skipped"
                for branch in step.branches:
                    self._end_step(self._states[branch.id], "skipped")
            else:
                if not step.branches:
                    self._report_progress(step.id)
                state.output = await self._run_work(step, state)
        except StepError as error:
            state.status = "failed"
            state.error = state.error or error
            error.step = error.step or step
            if error.is_final or step.on_error == "fail":
                raise
            state.output = self._make_substitute(step, self._scope)
        except BaseException:
            state.status = "cancelled"
            raise
        self._end_step(state, state.status)

    def _end_step(self, state: StepState, status: Any) -> None:
        if status == "running":
            status = "succeeded" if state.error is None else "failed"
        state.status = status
        self._facts[state.step.id] = state.facts()
        self._parts.pop(state.step.id, None)
        self._ended += not state.step.branches

    def _report_progress(self, step: str | None = None) -> None:
        """Report how many steps are over, and which one is at work."""
        # Without an engine around it there is none to report to.
        if self._context.bound_call is not None:
            done = self._ended + sum(self._parts.values())
            self._context.report_progress(done, self._leaves, step)

    async def _run_work(self, step: Step, state: StepState) -> Any:
        if step.branches:
            await _run_all(partial(self._run_step, branch) for branch in step.branches)
            return {branch.id: self._states[branch.id].output for branch in step.branches}
        if step.for_each is None:
            return await self._call_tool(step, state, self._scope)
        return await self._call_each(step, state)

    async def _call_each(self, step: Step, state: StepState) -> list[Any]:
        items = _render_tree(step.for_each, self._scope)
        if not isinstance(items, list | tuple):
            raise StepError(f"for_each needs a list, got {kind_of(items)}")
        if len(items) > step.limit:
            raise StepError(
                f"for_each has {len(items)} items, and the limit is {step.limit}; raise limit or "
                "ask for less"
            )
        outputs: list[Any] = [None] * len(items)
        over = 0
        numbered = enumerate(items)

        async def take_turns() -> None:
            nonlocal over
            # Several run this at once, and each item is taken once.
            for index, item in numbered:
                outputs[index] = await self._call_one(step, state, self._scope.at(item, index))
                over += 1
                self._parts[step.id] = over / len(items)
                self._report_progress(step.id)

        if step.max_parallel == 1:
            await take_turns()
        else:
            await _run_all([take_turns] * min(step.max_parallel, len(items)))
        return outputs

    async def _call_one(self, step: Step, state: StepState, scope: Scope) -> Any:
        try:
            return await self._call_tool(step, state, scope)
        except StepError as error:
            error.index = scope.index
            error.step = step
            state.error = state.error or error
            if error.is_final or step.on_error == "fail":
                raise
            return self._make_substitute(step, scope)

    async def _call_tool(self, step: Step, state: StepState, scope: Scope) -> Any:
        arguments = _render_tree(step.params, scope)
        self._require_time()
        if self._budget.calls_left <= 0:
            raise StepError(
                f"the run has made {MAX_CALLS} calls, which is the most; ask for less, or lower "
                "the limits of its for_each",
                is_final=True,
            )
        self._budget.calls_left -= 1
        state.calls += 1
        result = await self._context.call(step.tool, arguments, timeout=step.timeout)
        if result.is_success:
            state.calls_done += 1
            return result.output
        error = make_error(result)
        # An inner workflow ends a little earlier still, for the same reason.
        error.is_final = error.error_type in _TIMEOUTS and self._is_late(2 * self._margin)
        raise error

    def _make_substitute(self, step: Step, scope: Scope) -> Any:
        """Return the output in place of a failed step's, as `on_error` says."""
        if step.on_error == "continue":
            return None
        try:
            value = _render_tree(step.on_error["use"], scope)
        except StepError as error:
            error.step = step
            raise
        return None if value is LEFT_OUT else value

    def _is_late(self, margin: float) -> bool:
        return self._deadline is not None and self._now() >= self._deadline - margin - _TICK

    def _require_time(self) -> None:
        if self._is_late(0.0):
            raise StepError(
                "the time of the workflow is up; raise its timeout or ask for less",
                "timeout",
                is_final=True,
            )


def _render_tree(tree: Any, scope: Scope) -> Any:
    try:
        return render_tree(tree, scope)
    except EvaluationError as error:
        raise StepError(str(error)) from None


def _condition_holds(condition: Any, scope: Scope) -> bool:
    try:
        return is_true(condition, scope)
    except EvaluationError as error:
        raise StepError(f"if: {error}") from None


async def _run_all(works: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run all at once; the first failure ends the others and is raised."""
    errors: list[StepError] = []

    async def watch(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # No failure reaches the group: together with a cancellation, it would hide that.
        try:
            await work()
        except StepError as error:
            errors.append(error)
            for task in tasks:
                if task is not asyncio.current_task():
                    task.cancel()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch(work)) for work in works]
    if errors:
        raise errors[0]
