"""How is the plan for a tool's calls made: who runs it, where, and with which checks?

It is kept until the next reload or registration.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.admission.request import AdmissionRequest
from tool_engine.backends.local import LocalBackend
from tool_engine.calls.failure import Failure
from tool_engine.calls.plan import Accept, Explain, Placing, Plan
from tool_engine.calls.ready_output import Readying, choose_readying
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.interfaces import ExecutionBackend, ToolExecutor
from tool_engine.knowledge.snapshot import keep_output
from tool_engine.model.call import ToolExecutionContext, ValidationError, ValidationResult
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import name_of
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.model.settings.concurrency import CollisionPolicy
from tool_engine.model.tool import Tool
from tool_engine.redaction import words_of
from tool_engine.validation import ToolParameterValidator

_Misfits = Callable[[dict[str, Any]], list[ValidationError]]
_SHARED: Final = CollisionPolicy.SINGLE_FLIGHT


class PlacedExecutor:
    """Runs tools with `executor` where `backend` runs them."""

    def __init__(self, executor: ToolExecutor, backend: ExecutionBackend) -> None:
        function = backend.function_for(executor)
        is_async = inspect.iscoroutinefunction(function)
        self.execute = function if is_async else partial(_await_made, function)


async def _await_made(
    function: Callable[..., Any], tool: Tool, params: dict[str, Any], context: ToolExecutionContext
) -> Any:
    """Return what a function that returns an awaitable makes of a call."""
    return await function(tool, params, context)


def _accept_convertible(accept: Accept, misfits: _Misfits) -> Accept:
    """Return `accept`, except for arguments that the tool's function cannot take."""

    def accept_converting(params: Any, packed: bytes) -> dict[str, Any] | None:
        arguments = accept(params, packed)
        return None if arguments is None or misfits(arguments) else arguments

    return accept_converting


def _explain_misfits(explain: Explain, misfits: _Misfits) -> Explain:
    def explain_converting(params: Any) -> ValidationResult:
        result = explain(params)
        found = misfits(result.validated_params) if result.is_valid else []
        return (
            replace(result, is_valid=False, errors=found, validated_params={}) if found else result
        )

    return explain_converting


class _Numbers:
    """Numbers for objects, never reused, unlike their places in memory."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Any]] = {}
        self._next = itertools.count(1)

    def of(self, thing: object) -> int:
        place = id(thing)
        if place not in self._known:
            self._known[place] = next(self._next), self._hold_number(thing, place)
        return self._known[place][0]

    def _hold_number(self, thing: object, place: int) -> object:
        known = self._known
        try:
            return weakref.ref(thing, lambda _: known.pop(place, None))
        except TypeError:
            # Kept, lest another object get its number.
            return thing


class Planner:
    def __init__(
        self,
        validator: ToolParameterValidator,
        registry: ExecutorRegistry,
        local: LocalBackend,
        backend: ExecutionBackend,
        config: Callable[[], ConcurrencyConfig],
        generation: Callable[[], int] = int,
        find: Callable[[str], Tool | None] | None = None,
    ) -> None:
        self._validator = validator
        self._registry = registry
        self.explain_place = registry.places.explain_call
        self.explain_start = registry.places.explain_start
        self.give_up = registry.places.give_up
        self._local = local
        self._backend = backend
        self._config = config
        self._generation = generation
        self._find = find
        self._numbers = _Numbers()

    def plan(self, tool: Tool, own: ToolExecutor | None = None) -> Plan:
        """Return the plan for calls of `tool`, which `own` or its handler's executor runs."""
        compiled = self._validator.compiled(tool)
        runs = own or self._registry.resolve(tool)
        tool = _with_consent(tool, runs)
        accept: Accept = compiled.accept_packed
        explain: Explain = compiled.explain
        if (misfits := getattr(runs, "misfits", None)) is not None:
            accept, explain = (
                _accept_convertible(accept, misfits),
                _explain_misfits(explain, misfits),
            )
        executor, placing = self._choose_place(tool, runs)
        return Plan(
            tool,
            accept,
            explain,
            executor,
            placing,
            tool.timeout or self._config().default_timeout,
            AdmissionRequest.for_tool(tool, self._config(), self._owner_of(tool, own)),
            self._generation(),
            runs,
            _choose_readying(tool),
        )

    def _choose_place(
        self, tool: Tool, runs: ToolExecutor | None
    ) -> tuple[ToolExecutor | None, Placing]:
        """Choose where a tool runs; the limits on its results hold wherever that is."""
        if runs is None:
            return None, Placing(None, leaves_on_cancel=False)
        here, given = self._local, self._backend
        for backend in (given, self._registry.places.find(getattr(runs, "isolation", None))):
            if backend is None or backend is here:
                continue
            if (placed := self._place_elsewhere(backend, tool, runs)) is not None:
                return placed
        executor = self._limit_output(tool, runs)
        direct = getattr(executor, "direct", None)
        leaves = here.leaves_on_cancel(runs)
        return executor, Placing(here.function_for(executor), leaves, direct=direct)

    def _place_elsewhere(
        self, backend: ExecutionBackend, tool: Tool, runs: ToolExecutor
    ) -> tuple[ToolExecutor, Placing] | None:
        """Place a tool where the backend runs it; None: it does not take it.

        Raises:
            ToolExecutionError: The backend failed; the tool is not run here instead.
        """
        try:
            if not backend.takes(runs, tool):
                return None
            executor = self._limit_output(tool, PlacedExecutor(runs, backend))
            leaves = backend.leaves_on_cancel(runs)
            return executor, Placing(executor.execute, leaves, is_elsewhere=True)
        except BaseException as error:
            if ends_caller(error):
                raise
            raise ToolExecutionError(
                f"the backend {name_of(backend)} cannot say whether it runs {tool.name!r}: "
                f"{words_of(error)}"
            ) from error

    def _owner_of(self, tool: Tool, own: ToolExecutor | None) -> int | None:
        """Return the number of the executor of a conversation's own tool, for its counts."""
        wants = tool.concurrency
        is_counted = tool.rate or wants.breaker or wants.key or wants.collision is _SHARED
        return None if own is None or not is_counted else self._numbers.of(own)

    def _limit_output(self, tool: Tool, executor: ToolExecutor) -> ToolExecutor:
        """Return the executor with the tool's `result` limits on its output."""
        if tool.result is None or not tool.result.shapes_output:
            return executor
        reader = None if self._find is None else self._find("read_result")
        # A note must not name a tool that the model does not see.
        has_reader = reader is not None and reader.handler == reader.name and reader.is_enabled
        # Most tools have no limits.
        from tool_engine.output.shaping import shape_output

        return shape_output(executor, tool.result, keep_output, has_reader=has_reader)

    def find_obstacle(self, plan: Plan, context: ToolExecutionContext) -> Failure | None:
        """Return why a call with right arguments cannot run; None: it can."""
        tool = plan.tool
        if plan.executor is None:
            return self._unknown_executor(tool)
        if tool.background != "required" or context.task is not None:
            return None
        return Failure(
            "execution_rejected",
            f"tool {tool.name!r} runs only as a task (background: required); start one: with "
            "engine.start, `tool-engine task start`, or over HTTP with Prefer: respond-async",
        )

    def _unknown_executor(self, tool: Tool) -> Failure:
        """Return the failure of a tool whose handler is not registered."""
        cure, near = self._registry.missing_cure(tool)
        if near and not self._registry.is_path(tool):
            return Failure(
                "executor_not_found",
                f"tool {tool.name!r} needs the executor {tool.handler!r}, which is unknown; {cure}"
                f"; register it with engine.register_executor({tool.handler!r}, ...) or correct "
                "entry.handler",
            )
        return Failure(
            "executor_not_found",
            f"tool {tool.name!r} needs the executor {tool.handler!r}, which is unknown; {cure}",
        )


def _choose_readying(tool: Tool) -> Readying:
    try:
        return choose_readying(tool)
    except ValueError as error:
        raise ToolExecutionError(
            f"the output that {tool.name!r} declares is no usable JSON Schema: {error}"
        ) from error


def _with_consent(tool: Tool, executor: ToolExecutor | None) -> Tool:
    """Return the tool, which needs approval if its executor demands it."""
    said = tool.permission or Permission()
    is_free = said.execution in (None, ExecutionPolicy.AUTO)
    if not is_free or not getattr(executor, "needs_consent", False):
        return tool
    asks = replace(said, execution=ExecutionPolicy.ASK_ALWAYS)
    return replace(tool, permission=asks)
