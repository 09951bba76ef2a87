"""Which decisions are the same for all calls of a tool?

What it asks the controller for, whether it needs consent, how arguments are accepted, and how what
it returns is read.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from tool_engine.admission.request import AdmissionRequest, tool_key_of
from tool_engine.calls.ready_output import UNCHECKED, Readying
from tool_engine.config import ConcurrencyConfig
from tool_engine.interfaces import Slot, ToolExecutor
from tool_engine.knowledge.entry import secret_names
from tool_engine.model.call import ToolExecutionContext, ValidationResult
from tool_engine.model.foreign import ends_caller
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.model.settings.concurrency import CollisionPolicy
from tool_engine.model.tool import RetryPolicy, Tool, is_same

Accept = Callable[[Any, bytes], dict[str, Any] | None]
Explain = Callable[[Any], ValidationResult]
_SHARED: Final = CollisionPolicy.SINGLE_FLIGHT


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
        accept: Accept,
        explain: Explain,
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

    def runs_same(self, other: Plan) -> bool:
        """Return True if it has the very same tool run by the same executor."""
        return self is other or (self.runs is other.runs and is_same(self.tool, other.tool))

    def renewed_by(self, now: Plan) -> Plan:
        """Return the plan by which a call of this one goes on after it has waited.

        It keeps its definition. Where another executor runs the very same now, as when a server
        was started anew, the former one may be closed.
        """
        is_moved = self.runs is not now.runs and now.executor is not None
        return now if is_moved and is_same(self.tool, now.tool) else self

    def is_free(self, call: Any, arguments: dict[str, Any]) -> bool:
        """Return True if a `Call` may run at once, without any check.

        One that may share a run never does.
        """
        if self.is_shared:
            return False
        scope = call.context.scope
        if scope is None:
            return not self.needs_consent
        find = getattr(scope, "is_free", None)
        # For a call that came through another engine, the engine of its tool must be passed on.
        if find is None or call.above is not None:
            return False
        try:
            return find(call.call_id, self.tool, arguments) is True
        except BaseException as error:  # the consent that follows reports what is wrong
            if ends_caller(error):
                raise
            return False

    def choose_request(
        self,
        config: ConcurrencyConfig,
        context: ToolExecutionContext,
        arguments: dict[str, Any],
        parent: Slot | None,
    ) -> AdmissionRequest:
        """Return what one call asks the controller for: mostly what all calls of the tool do."""
        if context._call is not None:  # noqa: SLF001 - without a function for each call
            context.bound_call.note_inside(self.tool)
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


def _accept_nothing(params: Any, packed: bytes) -> None:
    del params, packed
