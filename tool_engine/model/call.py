"""Who calls a tool, with which limits, and what came of it?"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import CellType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from msgspec.structs import force_setattr

from tool_engine.errors import ConfigurationError, UnboundContextError
from tool_engine.model.checks.bounds import check_caller
from tool_engine.model.checks.known_fields import KnownFields, KnownNames
from tool_engine.model.context_copy import (
    DEFAULT_TIMEOUT,
    crossing_part,
    deep_copy_of,
    pickled_parts,
)
from tool_engine.model.json.data import Data, fields_as_json, show_fields
from tool_engine.model.json.returned_value import copy_plain, describe_result
from tool_engine.model.outcome import Outcome, outcome_of
from tool_engine.model.progress import REPORTED, Reported, ToolLogLine, ToolProgress, check_listener

_LARGEST: Final = sys.float_info.max
"""Larger whole numbers are finite, but no clock can count so many seconds."""
_UNBOUND: Final = (
    "this context is not bound to a running call; "
    "use the context that the engine passes to the handler"
)


def check_timeout(name: str, value: float) -> None:
    """Raise `ConfigurationError` unless `value` is a positive, finite number of seconds."""
    is_number = type(value) is float or (isinstance(value, int | float) and value is not True)
    if not is_number or not 0 < value <= _LARGEST:
        raise ConfigurationError(
            f"{name} must be a positive, finite number of seconds, got {value!r}"
        )


class Refusal(msgspec.Struct, Data, frozen=True):
    """Why a call may not run: a value, never raised."""

    error_type: str
    """One of `ErrorType`."""
    error: str
    """The message for the caller, and so for a model."""
    details: dict[str, Any] | None = None
    """JSON values for programs, such as the token of an approval: `metadata["error_details"]`."""
    findings: tuple[dict[str, Any], ...] = ()
    """What is wrong with the arguments, as `ValidationError.to_dict()`: `validation_errors`."""
    decided_by: str | None = None
    """Who refused, as in a record's `decided_by`; None: no one decided."""


class ToolCall(msgspec.Struct, Data, frozen=True, kw_only=True):
    """One request of a model to run one tool."""

    call_id: str
    """The id under which the model awaits the result; unique in its reply."""
    tool_name: str
    arguments: dict[str, Any]
    """Empty when they could not be read: see `error`."""
    raw: str = ""
    """What the model wrote: the arguments of a native call, the whole block of a text protocol."""
    complete: bool = True
    """False: the reply ended inside the call, so the arguments may be half; never run it."""
    repairs: tuple[str, ...] = ()
    """Every change that was made to what the model wrote, one sentence each."""
    error: str | None = None
    """Why the call cannot be run, and what the model should do about it; None: it can."""
    has_own_id: bool = False
    """True if `call_id` was made here because the provider sent none."""
    echo: dict[str, Any] = {}
    """Fields that the provider expects back with the result, under its own names."""
    sent_names: dict[str, str] = {}
    """Argument name -> the other name that the model used for it."""

    @property
    def id(self) -> str:
        """The same as `call_id`."""
        return self.call_id

    @property
    def name(self) -> str:
        """The same as `tool_name`."""
        return self.tool_name

    @property
    def is_runnable(self) -> bool:
        """True if the model finished the call and it could be read."""
        return self.complete and self.error is None


class ValidationError(msgspec.Struct, Data, frozen=True):
    """One finding about the arguments of a call: a value, never raised.

    `error_type` is `missing_required`, `type_mismatch`, `invalid_enum`, `extra_parameter` or
    `constraint_violation`.
    """

    path: str
    """The place in the arguments, such as `headers.accept` or `items[2].name`."""
    error_type: str
    message: str
    """A sentence that a model can act on."""
    expected: Any = None
    actual: Any = None
    level: str = "error"
    """`error` refuses the call; `warning` only informs."""

    @property
    def type(self) -> str:
        """The same as `error_type`."""
        return self.error_type

    @property
    def parameter(self) -> str:
        """The name of the top-level parameter that the finding is about."""
        return self.path.partition(".")[0].partition("[")[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a mapping, as `ToolExecutionResult` holds it."""
        return {
            "parameter": self.parameter,
            "path": self.path,
            "type": self.error_type,
            "error_type": self.error_type,
            "message": self.message,
            "expected": copy_plain(self.expected),
            "actual": copy_plain(self.actual),
            "level": self.level,
        }


class ValidationResult(msgspec.Struct, Data, frozen=True):
    """True if arguments fit a tool, what was found, and the arguments with defaults filled in."""

    is_valid: bool
    errors: list[ValidationError] = []
    """All findings of level `error`; empty when valid."""
    validated_params: dict[str, Any] = {}
    """The arguments to run with; empty when not valid."""
    warnings: list[ValidationError] = []
    """Findings that do not refuse the call, such as an unknown parameter that was left out."""


class _ContextFields(msgspec.Struct, Data, metaclass=KnownFields):
    """The fields of the founding document, in its order."""

    caller_id: str | None = None
    caller_type: str = "unknown"
    """`conversation_agent`, `workflow_node`, `direct`, `tool_sub_agent`, `unknown` or your own."""
    conversation_id: str | None = None
    workflow_id: str | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    """Seconds that the tool may run. None, or left out: the tool's own `timeout` decides."""
    retry_count: int = 0
    max_retries: int = 3
    """The most retries that a tool's `retry` policy may use for this call."""
    variables: dict[str, Any] = msgspec.field(default_factory=dict)


class ToolExecutionContext(_ContextFields, kw_only=True):
    """Who calls, within which limits, and with which shared variables.

    A tool's handler receives a copy that is bound to its call: `call_id`, `deadline` and `call()`
    are set there and nowhere else. A copy of that one is bound to the same call, a deep copy has
    variables of its own. Pickled it is not bound any more and has no deadline.
    """

    priority: int | None = None
    """Smaller is more urgent; None: the tool's own, else 5."""
    call_id: str | None = None
    """Set by the engine, whatever you set: the id of the call that this context is bound to."""
    parent_call_id: str | None = None
    """Set by the engine: the call whose tool made this call."""
    task_id: str | None = None
    """Set by the engine: the task that made this call, or one above it."""
    deadline: float | None = None
    """Set by the engine: when the call must have ended, on the event loop's clock."""
    session_id: str | None = None
    """The session that the call belongs to."""
    scope: Any = None
    """What that session adds to the call: a `tool_engine.interfaces.CallScope`."""
    on_progress: Callable[[ToolProgress], object] | None = None
    """Hears how far this call has come: a plain function; its errors are logged."""
    _nested: Callable[..., Awaitable[ToolExecutionResult]] | None = None
    _call: CellType | None = None
    """Its call, in a cell: what walks through a structure would show the arguments of that call,
    and of those above it."""
    _take_report: Callable[[ToolProgress | ToolLogLine], object] | None = None
    _is_for_tool: bool = False
    _is_of_own: bool = False
    _is_changed: bool = False
    _task: CellType | None = None
    """What runs the call as a task, likewise; None: its caller waits for it."""

    if TYPE_CHECKING:

        def __copy__(self) -> Self: ...

    def __post_init__(self) -> None:
        timeout = self.timeout
        if timeout is not DEFAULT_TIMEOUT and timeout is not None:
            check_timeout("timeout", timeout)
        check_caller(self)
        if self.on_progress is not None:
            check_listener("on_progress", self.on_progress)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setattr__("_is_changed", self._is_changed or name[0] != "_")

    @classmethod
    def for_conversation(cls, agent_id: str, conversation_id: str, **kwargs: Any) -> Self:
        """Return the context of a conversation agent; other fields as keywords."""
        return cls(
            caller_id=agent_id,
            caller_type="conversation_agent",
            conversation_id=conversation_id,
            **kwargs,
        )

    @classmethod
    def for_workflow(cls, workflow_id: str, node_id: str, **kwargs: Any) -> Self:
        """Return the context of a workflow node, which is exempt from concurrency limits."""
        return cls(
            caller_id=node_id, caller_type="workflow_node", workflow_id=workflow_id, **kwargs
        )

    def bound_to(
        self,
        call: Any,
        nest: Callable[..., Awaitable[ToolExecutionResult]],
        call_id: str | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
    ) -> Self:
        """Return a copy for the tool that `call` runs; `nest` accepts its nested calls."""
        own = self.__copy__()
        # Most calls make one: what the engine sets is not checked again, and not in a loop.
        force_setattr(own, "_call", None if call is None else CellType(call))
        force_setattr(own, "_nested", nest)
        force_setattr(own, "call_id", call_id)
        force_setattr(own, "deadline", deadline)
        force_setattr(own, "timeout", timeout)
        if self._task is not None:
            force_setattr(own, "_task", None)
        if self.on_progress is not None:
            force_setattr(own, "on_progress", None)
        return own

    def for_task(self, task_id: str, task: Any, listener: Callable[[ToolProgress], object]) -> Self:
        """Return a copy for the call that a task makes; it was checked when it was made."""
        own = self.__copy__()
        force_setattr(own, "task_id", task_id)
        force_setattr(own, "_task", CellType(task))
        force_setattr(own, "on_progress", listener)
        return own

    @property
    def is_for_tool(self) -> bool:
        """True if a tool made the call for itself: a program reads its result."""
        return self._is_for_tool

    @property
    def task(self) -> Any:
        """What runs the call as a task, for the engine; None: its caller waits for it."""
        return None if self._task is None else self._task.cell_contents

    @property
    def bound_call(self) -> Any:
        """The call given to `bound_to`; None for a context of no running call."""
        return None if self._call is None else self._call.cell_contents

    def made_by(self, call: Any) -> None:
        """Note the call whose tool makes a call with this context."""
        self._call = CellType(call)

    async def call(
        self,
        tool_name: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit of the call, kept by the engine
    ) -> ToolExecutionResult:
        """Run another tool from inside a tool.

        The nested call inherits caller, conversation, priority and deadline. The slot of the
        calling tool is parked meanwhile, so that nesting cannot deadlock at any limit.

        Args:
            tool_name: The tool to run.
            params: Its arguments.
            timeout: Seconds for the nested call; the own deadline is never exceeded.

        Raises:
            UnboundContextError: The context does not belong to a running call.
        """
        if self._nested is None:
            raise UnboundContextError(f"cannot call {tool_name!r}: {_UNBOUND}")
        return await self._nested(self, tool_name, params, timeout)

    def note_failure(self, result: ToolExecutionResult) -> None:
        """Receive the result of a failed call before its caller does.

        A context made for one call, whose caller may be cancelled, overrides it.
        """
        if (task := self.task) is not None:
            task.result = result

    def back_off(self, seconds: float) -> None:
        """Report that the service behind the tool asks for a pause, as with `Retry-After`.

        The tool's bucket gives no slots for that long, at most `max_bucket_pause`.

        Raises:
            UnboundContextError: The context does not belong to a running call.
            ConfigurationError: `seconds` is not a positive, finite number.
        """
        if (call := self.bound_call) is None:
            raise UnboundContextError(f"cannot back off: {_UNBOUND}")
        check_timeout("seconds", seconds)
        call.owner.back_off(call, seconds)

    def report_overload(self) -> None:
        """Report that the service behind the tool refused for want of room, without a pause.

        The limit of the tool's bucket shrinks, if it is `adaptive`; see `back_off` for a pause.

        Raises:
            UnboundContextError: The context does not belong to a running call.
        """
        if (call := self.bound_call) is None:
            raise UnboundContextError(f"cannot report an overload: {_UNBOUND}")
        call.owner.back_off(call, None)

    def report_progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Reported:
        """Report how far the tool has come: `await context.report_progress(3, 10)`.

        In a plain function or a thread it is called without `await`. Listeners hear at most ten
        reports a second, and always the last one. What goes back is left out, until the tool is
        tried again.

        Args:
            done: How much is done, in a unit of your choice, from 0 on.
            total: How much there is to do, in the same unit; None: it is not known.
            message: What is being done, for people; secrets of the call are hidden in it.

        Raises:
            UnboundContextError: The context does not belong to a running call.
            ConfigurationError: `done` or `total` is no finite number from 0 on.
        """
        return self._pass_report(ToolProgress(done, total, message))

    def log(self, message: str, level: str = "info") -> Reported:
        """Write a line for a person who watches the call: `await context.log("page 3 is empty")`.

        In a plain function or a thread it is called without `await`.

        Args:
            message: The line; secrets of the call are hidden in it.
            level: `debug`, `info`, `warning` or `error`.

        Raises:
            UnboundContextError: The context does not belong to a running call.
            ConfigurationError: The message is no text, or there is no such level.
        """
        return self._pass_report(ToolLogLine(message, level))

    def _pass_report(self, report: ToolProgress | ToolLogLine) -> Reported:
        if self._take_report is not None:
            self._take_report(report)
        elif (call := self.bound_call) is not None:
            call.owner.take_report(call, report)
        else:
            raise UnboundContextError(f"cannot report: {_UNBOUND}")
        return REPORTED

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in show_fields(self))
        return f"{type(self).__name__}({fields})"

    __rich_repr__ = show_fields
    __deepcopy__ = deep_copy_of
    __reduce__ = pickled_parts

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values for `ToolExecutionContext(**values)`, without `scope` and secrets."""
        values = super().to_dict()
        del values["scope"], values["on_progress"]
        return values | {"timeout": None if self.timeout is DEFAULT_TIMEOUT else self.timeout}

    def to_wire(self) -> dict[str, Any]:
        """Return the part that can cross to another process, as JSON values.

        A variable that has no form in JSON, such as an open connection, stays behind.
        """
        return {
            "caller_id": self.caller_id,
            "caller_type": self.caller_type,
            "conversation_id": self.conversation_id,
            "workflow_id": self.workflow_id,
            "session_id": self.session_id,
            "retry_count": self.retry_count,
            "max_retries": self.max_retries,
            "priority": self.priority,
            "call_id": self.call_id,
            "parent_call_id": self.parent_call_id,
            "variables": crossing_part(self.variables),
        }


class ToolExecutionResult(msgspec.Struct, Data, KnownNames):
    """Everything about a finished call; `output` is its data."""

    is_success: bool
    tool_name: str
    output: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the tool returned; anything but a mapping is wrapped as `{"result": value}`."""
    error: str | None = None
    """What went wrong and what to do about it."""
    error_type: str | None = None
    """One of `ErrorType`; None on success."""
    validation_errors: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """The findings about the arguments, warnings included, as `ValidationError.to_dict()`."""
    execution_time: float = 0.0
    """Seconds that the tool ran; waiting for a slot is in `metadata["queue_wait"]`."""
    executed_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    """When the call ended, UTC, to the millisecond."""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """`call_id`, `tool_version`, `definition_hash`, `bucket`, `queue_wait`, `attempts`."""

    @property
    def outcome(self) -> Outcome:
        """Which of the five outcomes the call had."""
        return outcome_of(self.error_type)

    @property
    def call_id(self) -> str | None:
        """The id of the call, as in its events and its record."""
        return self.metadata.get("call_id")

    def __repr__(self) -> str:
        return describe_result(self)

    __rich_repr__ = show_fields

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; the output includes secrets."""
        return fields_as_json(self)
