"""Which exceptions does the engine raise, and who has to act on each?

Failures of a *call* are values (`ToolExecutionResult`), never exceptions. What is raised here is
misuse of the engine, a definition that cannot be loaded, or a refusal of the concurrency
controller when it is used on its own. Each class carries the `error_type` under which the same
fault appears in results, records and events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from tool_engine.visible import escape_hidden


class ToolEngineError(Exception):
    """The root of every exception that the engine raises."""

    error_type: ClassVar[str] = "tool_engine_error"

    def __reduce__(self) -> tuple[Any, ...]:
        # Python's own way calls the class with the message, whatever it takes.
        return _remake_error, (type(self), self.args), self.__dict__


def _remake_error(kind: type[ToolEngineError], args: tuple[Any, ...]) -> ToolEngineError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class ConfigurationError(ToolEngineError, ValueError):
    """The programmer passed a value that the engine cannot work with."""

    error_type = "configuration_error"


class EngineClosedError(ToolEngineError):
    """The engine was closed, or its event loop ended under a call."""

    error_type = "engine_closed"


class EventsExpiredError(ToolEngineError, LookupError):
    """Events that a reader asks for are no longer kept."""

    error_type = "events_expired"

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(
            f"the events that follow number {after} are not all kept any more, the oldest is "
            f"{oldest}: read from there, with after={oldest - 1}, or keep more"
        )
        self.oldest: int = oldest
        """The number of the oldest event that is kept."""
        self.missed: int = oldest - 1 - after
        """How many are not kept any more."""


class EventsLostError(ToolEngineError):
    """A subscriber that must miss nothing was too slow; its subscription has ended."""

    error_type = "events_lost"


class ToolNotFoundError(ToolEngineError, LookupError):
    """No tool has this name; the message names the nearest ones."""

    error_type = "tool_not_found"


class ToolQuarantinedError(ToolNotFoundError):
    """The tool is not approved as it is; the message names the cure."""

    error_type = "tool_quarantined"


class TaskError(ToolEngineError):
    """A task cannot be started here; the message says what to do instead."""

    error_type = "task_error"


class TaskConflictError(TaskError):
    """Another call was started with the same `idempotency_key`."""

    error_type = "task_conflict"


class TooManyTasksError(TaskError):
    """The owner has as many tasks as it may have, those that have ended among them."""

    error_type = "too_many_tasks"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds until the first of those that have ended is forgotten; None: none has ended."""


class TaskNotFoundError(ToolEngineError, LookupError):
    """No task has this id, or it is that of another owner."""

    error_type = "task_not_found"


class GenerationNotFoundError(ToolEngineError, LookupError):
    """No such generation is kept; the message names the ones that are."""

    error_type = "generation_not_found"


class LockFileError(ToolEngineError):
    """The lock file is unreadable, unwritable or malformed; the message names the cure."""

    error_type = "lock_file_error"


class ApprovalConflictError(ToolEngineError):
    """What was to be approved is not what a person has read; nothing was approved."""

    error_type = "approval_conflict"


class ExecutorNotFoundError(ToolEngineError, LookupError):
    """No executor has this name; the message names the known ones."""

    error_type = "executor_not_found"


class RecordsUnavailableError(ToolEngineError):
    """The database of the records does not answer; the message says why."""

    error_type = "records_unavailable"
    has_begun = False
    """Whether a tool had begun: then the same request may do its work once more."""


class MissingExtraError(ToolEngineError, ImportError):
    """An optional dependency is not installed; the message holds the install command."""

    error_type = "missing_extra"


class UnboundContextError(ToolEngineError):
    """A call names a parent call that has ended or never existed."""

    error_type = "unbound_context"


class LiveObjectError(ToolEngineError, TypeError):
    """A live object, such as an engine, was copied or pickled.

    The message says what to do.
    """

    error_type = "live_object"


class ApprovalError(ToolEngineError):
    """An approval request's answer cannot be taken; the message says why."""

    error_type = "rejected"


class SessionError(ToolEngineError):
    """A conversation cannot be made, restored or continued; the message says why."""

    error_type = "session_error"


class SessionConflictError(SessionError):
    """The conversation was saved elsewhere meanwhile; nothing was stored, nothing was lost."""

    error_type = "session_conflict"


class ToolConflictError(ToolEngineError, ValueError):
    """Two tools of one conversation have the same name.

    The message names both and the cure.
    """

    error_type = "tool_conflict"


class ChatModelError(ToolEngineError):
    """A model gave no reply; the message has the provider's answer, without secrets."""

    error_type = "model_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        is_refusal: bool = False,
    ):
        super().__init__(message)
        self.is_refusal: bool = is_refusal
        """True if a filter of the provider refused the content of the conversation."""
        self.status: int | None = status
        """The HTTP status of the answer; None: there was none."""
        self.is_transient: bool = is_transient
        """True if the same request may succeed later."""


class VariableError(ToolEngineError, ValueError):
    """A variable cannot be kept, read or referenced; the message names the cure.

    Args:
        message: What is wrong.
        path: The place in the arguments, where it is one; the message begins with it.
    """

    error_type = "validation_error"

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path: str = path


class DefinitionProblem(NamedTuple):
    """One thing that is wrong with a definition, at one place."""

    message: str
    """What is wrong, what was expected, what was found, and the cure."""
    file: str
    line: int | None = None
    """1-based; None where the definition did not come from text."""
    column: int | None = None
    """1-based."""
    path: str = ""
    """The place inside the definition, such as `parameters[2].validation.min`."""
    expected: str = ""
    """What should stand there, where exactly one thing was expected; as in `message`."""
    got: str = ""
    """What stands there, numbers as they are written."""
    nearest: str = ""
    """The known key or word that is nearest to an unknown one."""
    cure: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        text = f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"
        # A file may have any name: a line break in it would forge a line of a log.
        return escape_hidden(text)


class DefinitionError(ToolEngineError, ValueError):
    """A tool's definition cannot be loaded; `problems` lists everything wrong with it."""

    error_type = "definition_error"

    def __init__(self, *problems: DefinitionProblem) -> None:
        if not problems:
            raise TypeError("DefinitionError needs at least one problem")
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems: tuple[DefinitionProblem, ...] = problems
        first = problems[0]
        self.file: str = first.file
        self.line: int | None = first.line
        self.column: int | None = first.column
        self.path: str = first.path


class DuplicateToolError(DefinitionError):
    """Two definitions carry the same tool name; the message names both places."""

    error_type = "duplicate_tool"


class AdmissionError(ToolEngineError):
    """The concurrency controller did not give a slot."""

    error_type = "rejected"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after: float | None = retry_after
        """The estimated seconds until a new try may succeed; None: unknown."""


class QueueFullError(AdmissionError):
    """The queue already holds its maximum of waiting calls."""

    error_type = "queue_full"


class QueueTimeoutError(AdmissionError, TimeoutError):
    """The call waited for a slot until its queue timeout."""

    error_type = "queue_timeout"


class SlotRejectedError(AdmissionError):
    """No slot is free and none is waited for.

    The strategy does not wait, or none can ever be free.
    """

    error_type = "rejected"


class RateLimitedError(AdmissionError):
    """The tool's rate allows no call now, and the strategy does not wait."""

    error_type = "rate_limited"


class CircuitOpenError(AdmissionError):
    """The breaker of the tool or bucket is open after failures."""

    error_type = "circuit_open"


class ClusterUnavailableError(AdmissionError):
    """The database that coordinates the limits of several processes cannot be asked."""

    error_type = "rejected"


class LeaseLostError(AdmissionError):
    """Other processes may have had the slot's units before the slot was given back."""

    error_type = "lease_lost"


class SupersededError(AdmissionError):
    """Another call with the same key took the place of this one."""

    error_type = "cancelled"


class ControllerClosedError(AdmissionError, EngineClosedError):
    """The controller was closed before it could give a slot."""

    error_type = "engine_closed"


class ToolExecutionError(ToolEngineError):
    """Raise it in a handler to fail a call with your message.

    An executor may raise it, too.

    The message reaches the model as it is, without the exception's class name. `details`, a
    mapping of JSON values, is kept in `result.metadata["error_details"]`; of more than 64 KB the
    beginning. With `is_final` the call is not tried again, whatever the tool's `retry` says:
    another attempt would fail alike.
    """

    error_type = "execution_error"

    def __init__(
        self, message: str, *, details: dict[str, object] | None = None, is_final: bool = False
    ) -> None:
        super().__init__(message)
        self.details: dict[str, object] = details or {}
        self.is_final: bool = is_final

    def reworded(self, message: str) -> ToolExecutionError:
        """Return the same failure with another message."""
        return ToolExecutionError(message, details=self.details, is_final=self.is_final)


class InvalidArgumentsError(ToolExecutionError):
    """The arguments fit the tool's schema, but its function does not accept them.

    The call ends as `validation_error`, with `findings` in `result.validation_errors`.
    """

    error_type = "validation_error"

    def __init__(self, message: str, findings: Iterable[dict[str, Any]]) -> None:
        super().__init__(f"invalid arguments: {message}", is_final=True)
        self.findings: list[dict[str, Any]] = list(findings)
