"""Which decisions about a tool are the same for all of its calls?

Everything that is the same for all calls of a definition is worked out once and kept until the
next reload or registration.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tool_engine.admission.request import AdmissionRequest, tool_key_of
from tool_engine.backends.local import LocalBackend
from tool_engine.calls.failure import Failure
from tool_engine.calls.returned_value import UNCHECKED, Readying, choose_readying
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.interfaces import ExecutionBackend, Slot, ToolExecutor
from tool_engine.knowledge.entry import secret_names
from tool_engine.knowledge.snapshot import keep_output
from tool_engine.model.call import ToolExecutionContext, ValidationError, ValidationResult
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import name_of
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.model.settings.concurrency import CollisionPolicy
from tool_engine.model.tool import RetryPolicy, Tool
from tool_engine.redaction import words_of
from tool_engine.validation import ToolParameterValidator

_Accept = Callable[[Any, bytes], dict[str, Any] | None]
_Explain = Callable[[Any], ValidationResult]
_Misfits = Callable[[dict[str, Any]], list[ValidationError]]
_SHARED: Final = CollisionPolicy.SINGLE_FLIGHT


class PlacedExecutor:
    """Runs tools with `executor` where `backend` runs them."""

    def __init__(self, executor: ToolExecutor, backend: ExecutionBackend) -> None:
        self._function = backend.function_for(executor)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return await self._function(tool, params, context)


class Placing(NamedTuple):
    """How a tool runs at its place of execution."""

    function: Callable[..., Coroutine[Any, Any, Any]] | None
    """Called with the tool, the arguments and the context; None: no such executor."""
    leaves_on_cancel: bool
    """Whether a cancelled caller continues before the work has stopped."""
    is_elsewhere: bool = False
    """Whether it is not this process that runs it, so that the end of its work may stay unknown."""
    direct: Callable[..., Coroutine[Any, Any, Any]] | None = None
    """An async function that takes the arguments as keywords, in place of the executor."""


class Plan:
    __slots__ = (
        "accept",
        "accept_task",
        "bucket",
        "direct",
        "executor",
        "explain",
        "facts",
        "function",
        "has_secrets",
        "is_elsewhere",
        "is_keyed",
        "is_plain",
        "is_shared",
        "is_special",
        "leaves_on_cancel",
        "needs_consent",
        "ready",
        "ready_in_thread",
        "request",
        "retry",
        "runs",
        "timeout",
        "tool",
    )

    def __init__(
        self,
        tool: Tool,
        accept: _Accept,
        explain: _Explain,
        executor: ToolExecutor | None,
        placing: Placing,
        timeout: float,
        request: AdmissionRequest,
        generation: int = 0,
        runs: object = None,
        readying: Readying = UNCHECKED,
    ) -> None:
        self.tool = tool
        self.ready, self.ready_in_thread = readying
        self.runs = executor if runs is None else runs
        """The executor as registered, without wrappers."""
        # Without an executor every call takes the way on which that is found out.
        can_run = executor is not None and tool.background != "required"
        self.accept = accept if can_run else _accept_nothing
        """Returns the validated arguments if there are no findings about them, else None."""
        self.accept_task = accept if executor is not None else _accept_nothing
        """The same for the call of a task, which some tools demand."""
        self.explain = explain
        """Returns the findings about arguments that were not accepted."""
        self.executor: Any = executor
        """None when no executor has the handler's name."""
        self.function: Any = placing.function
        self.leaves_on_cancel = placing.leaves_on_cancel
        self.is_elsewhere = placing.is_elsewhere
        self.retry: RetryPolicy | None = tool.retry if tool.may_retry else None
        self.direct = placing.direct if self.retry is None else None
        self.timeout = timeout
        """Seconds for a call whose caller gives no timeout."""
        wants = tool.concurrency
        self.is_shared = wants.collision is _SHARED
        """Whether like calls share one result."""
        self.is_keyed = wants.key is not None or self.is_shared
        """Whether each call asks for a slot in its own way."""
        asks = None if tool.permission is None else tool.permission.execution
        self.needs_consent = asks not in (None, ExecutionPolicy.AUTO)
        """Whether it needs approval, or may not run, unless a session decides otherwise."""
        self.is_special = self.is_keyed or self.needs_consent
        """Whether a call outside any session cannot take the shortest way."""
        self.has_secrets = bool(secret_names(tool))
        """Whether the definition declares some."""
        self.is_plain = not (self.is_special or request.is_bypass)
        """Whether a call can go the way of `plain_calls`."""
        self.request = request
        self.bucket = tool.bucket
        self.facts: dict[str, Any] = {
            "call_id": None,
            "tool_version": tool.version,
            "definition_hash": tool.definition_hash,
            "generation": generation,
            "bucket": tool.bucket,
            "queue_wait": 0.0,
            "attempts": 1,
        }
        """The metadata of a call that ran at once; to copy it costs half of making it."""

    def choose_request(
        self,
        config: ConcurrencyConfig,
        context: ToolExecutionContext,
        arguments: dict[str, Any],
        parent: Slot | None,
    ) -> AdmissionRequest:
        """Return what one call asks the controller for: mostly what all calls of the tool do."""
        if (maker := context._call) is not None:  # noqa: SLF001 - without a function for each call
            maker.note_inside(self.tool)
        if (
            # Who calls changes nothing about how it is admitted.
            not parent
            and context.priority is None
            and not self.is_keyed
            and config.key_limits is None
            and (config.cluster is None or not config.cluster.key_limits)
            and config.strategy != "fair"
            and (context.caller_type in config.bypass_caller_types) is self.request.is_bypass
        ):
            return self.request
        key = None
        if not self.is_shared:
            is_shared = self.request.is_shared
            key = tool_key_of(self.tool, context, arguments, is_shared=is_shared)
        return self.request.for_caller(config, context, key, parent or None)


def _accept_convertible(accept: _Accept, misfits: _Misfits) -> _Accept:
    """Return `accept`, except for arguments that the tool's function cannot take."""

    def accept_converting(params: Any, packed: bytes) -> dict[str, Any] | None:
        arguments = accept(params, packed)
        return None if arguments is None or misfits(arguments) else arguments

    return accept_converting


def _explain_misfits(explain: _Explain, misfits: _Misfits) -> _Explain:
    def explain_converting(params: Any) -> ValidationResult:
        result = explain(params)
        found = misfits(result.validated_params) if result.is_valid else []
        return (
            replace(result, is_valid=False, errors=found, validated_params={}) if found else result
        )

    return explain_converting


def _accept_nothing(params: Any, packed: bytes) -> None:
    del params, packed


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
        accept: _Accept = compiled.accept_packed
        explain: _Explain = compiled.explain
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
            f"tool {tool.name!r} runs only as a task (background: required); start it with "
            f"engine.start({tool.name!r}, ...)",
        )

    def _unknown_executor(self, tool: Tool) -> Failure:
        """Return the failure of a tool whose handler is not registered."""
        near = self._registry.nearest(tool.handler)
        hint = f"; did you mean {near!r}?" if near else ""
        return Failure(
            "executor_not_found",
            f"tool {tool.name!r} needs the executor {tool.handler!r}, which is unknown{hint}; "
            f"register it with engine.register_executor({tool.handler!r}, ...) or correct "
            "entry.handler",
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
