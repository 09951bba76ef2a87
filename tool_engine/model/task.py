"""What is a call that outlives its caller, for who started it and for who keeps it?"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.data import Data
from tool_engine.model.progress import ToolProgress

QUEUED: Final = "queued"
RUNNING: Final = "running"
INPUT_REQUIRED: Final = "input_required"
SUCCEEDED: Final = "succeeded"
WAITING: Final = (QUEUED, INPUT_REQUIRED)
FINAL: Final = (SUCCEEDED, "failed", "timeout", "cancelled", "rejected")
TASK_STATUSES: Final = (*WAITING, RUNNING, *FINAL)


_KEPT: Final = (
    *("caller_id", "caller_type", "conversation_id", "workflow_id", "timeout", "retry_count"),
    *("max_retries", "variables", "priority", "session_id"),
)


def fields_of(context: ToolExecutionContext) -> dict[str, Any]:
    """Return what of a context another process can use; None as timeout: the tool's own."""
    fields = {name: getattr(context, name) for name in _KEPT}
    return fields | {"timeout": None if context.timeout is DEFAULT_TIMEOUT else context.timeout}


class TaskState(msgspec.Struct, Data, frozen=True, kw_only=True):
    """A task as it is at one moment."""

    id: str
    tool_name: str
    status: str = QUEUED
    """`queued`, `running`, `input_required` (it waits for consent), or an outcome."""
    message: str | None = None
    """What it waits for, or how it ended, for people."""
    progress: ToolProgress | None = None
    owner: str | None = None
    """The `caller_id` of the context that it was started with."""
    call_id: str | None = None
    """The id of its call, as in records and events; None: the call has not begun."""
    created_at: datetime
    started_at: datetime | None = None
    """When its tool began."""
    ended_at: datetime | None = None
    expires_at: datetime
    """When it is ended, or, once it has ended, forgotten."""
    result: ToolExecutionResult | None = None
    """How its call ended; None, too, in lists, which leave it out unless they are asked for it."""

    @property
    def is_final(self) -> bool:
        """True if it has ended: it never changes again."""
        return self.status in FINAL

    def is_over(self, now: datetime | None) -> bool:
        """Return True if it has ended, and is to be forgotten at a time; None: at no time."""
        return now is not None and self.status in FINAL and self.expires_at <= now

    def without_result(self) -> TaskState:
        """Return the same without its result, as lists have it."""
        return self if self.result is None else replace(self, result=None)


class KeptTask(msgspec.Struct, weakref=True, eq=False, kw_only=True):
    """A task as its storage keeps it."""

    state: TaskState
    params: dict[str, Any] | None
    """The arguments; None: they are in the memory of another process only."""
    context: ToolExecutionContext | None
    priority: int
    definition_hash: str
    """Which definition it may run; no other one."""
    ttl: float
    """Seconds that it may take, and that its result is kept."""
    is_repeatable: bool = False
    """Whether it may run again where it is not known whether it ran."""
    is_awaited: bool = False
    """Whether its caller waits for it, as one does that may ask again."""
    bound_to: str | None = None
    """The worker that alone can run it, since it alone has the arguments; None: any."""
    key: str | None = None
    """The `idempotency_key`."""
    digest: str = ""
    """What was asked for: it differs from that of another call with the same key."""
    worker: str | None = None
    """The engine that has taken it; None: none has."""
    turn: int = 0
    """Its place among those of equal priority: owners take turns. 0: it goes before all of them."""
    number: int = 0
    """Its place among those of one turn: the first that was kept comes first."""
    tool: Any = None
    """The tool whose secrets are hidden in what is written; None: it has none."""
    is_kept: bool = True
    """Whether the storage has it; False: this process alone knows it."""
    is_late: bool = False
    """Whether it was started without being kept, as its caller waits for it at first."""
    writing: Any = None
    """The lock that has its changes written one after the other; None: none was written yet."""
    begun: Any = None
    """Its call, which has its slot, until this engine runs it; None: it begins in its turn."""
    has_place: bool = False
    """Whether a place among those that wait for a slot is kept for it until it is written."""
    run_in: Context | None = None
    """The context variables that its call sees in this process; None: none."""
    on_progress: Any = None
    """What hears its progress in this process, where its context names nothing."""
    waits: set[asyncio.Future[None]] | None = None
    """What its end completes, on the loop of the tasks; None: nothing waits for it here."""

    @property
    def is_bound(self) -> bool:
        """True if it can run only in the engine that started it."""
        return self.bound_to is not None

    def take_state(self, state: TaskState) -> None:
        """Be as the storage has it now."""
        self.state = state
        if state.status in FINAL:
            # What has run is never run again: what only its call needed is let go.
            self.params = self.context = None
            if self.run_in is not None or self.on_progress is not None:
                self.run_in = self.on_progress = None
            if self.waits is not None:
                self.wake_waiting()

    def join_wait(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Return a future that its end completes, once; `leave_wait` follows."""
        end: asyncio.Future[None] = loop.create_future()
        if self.waits is None:
            self.waits = {end}
        else:
            self.waits.add(end)
        return end

    def leave_wait(self, end: asyncio.Future[None]) -> None:
        """Let go of a future that `join_wait` gave."""
        if self.waits is not None:
            self.waits.discard(end)

    def wake_waiting(self) -> None:
        """Let what waits for its end look again how it is."""
        waits, self.waits = self.waits, None
        for end in waits or ():
            if not end.done():
                end.set_result(None)


class _Asked(Protocol):
    async def read_state(self, kept: KeptTask, /) -> TaskState: ...

    def wait_for(
        self, kept: KeptTask, limit: float | None, /
    ) -> Coroutine[Any, Any, ToolExecutionResult]: ...

    async def cancel_kept(self, kept: KeptTask, reason: str | None, /) -> bool: ...


@refuse_copying("keep its id, and ask engine.tasks.get(id) for it")
class TaskHandle:
    """A call that outlives its caller; `engine.start` and `engine.tasks.get` make it.

    Of what runs in this engine it says how it is now; `refresh` reads it of another engine's task.

    Example:
        >>> handle = await engine.start("report", {"year": 2026})
        >>> result = await handle.wait()
    """

    __slots__ = ("__weakref__", "_kept", "_tasks")

    def __init__(self, tasks: _Asked, kept: KeptTask) -> None:
        self._tasks = tasks
        self._kept = kept

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id} of {self.tool_name}: {self.status}>"

    @property
    def id(self) -> str:
        """128 random bits as text: who knows them may read and cancel the task."""
        return self._kept.state.id

    @property
    def tool_name(self) -> str:
        """The tool that it runs."""
        return self._kept.state.tool_name

    @property
    def state(self) -> TaskState:
        """The task as it is, without a question to the database."""
        return self._kept.state

    @property
    def status(self) -> str:
        """`queued`, `running`, `input_required`, or how it ended; see `TaskState`."""
        return self._kept.state.status

    @property
    def progress(self) -> ToolProgress | None:
        """How far its tool has come; None: it has reported nothing."""
        return self._kept.state.progress

    @property
    def result(self) -> ToolExecutionResult | None:
        """How its call ended; None: it has not."""
        return self._kept.state.result

    async def refresh(self) -> TaskState:
        """Read how the task is, with what it waits for as `message`.

        Raises:
            TaskNotFoundError: It has ended, and is not kept any more.
            RecordsUnavailableError: The database does not answer.
        """
        return await self._tasks.read_state(self._kept)

    def wait(self, timeout: float | None = None) -> Coroutine[Any, Any, ToolExecutionResult]:
        """Wait for the end of the task, and return its result: `await handle.wait()`.

        It never raises for a fault of the tool.

        Args:
            timeout: Seconds to wait at most; None: as long as it takes.

        Raises:
            TimeoutError: It has not ended in that time; it goes on.
            TaskNotFoundError: It has ended, and is not kept any more.
            RecordsUnavailableError: The database does not answer.
        """
        return self._tasks.wait_for(self._kept, timeout)

    async def cancel(self, reason: str | None = None) -> bool:
        """Cancel the task, and wait until it has ended where it runs in this engine.

        Args:
            reason: Why, for its message.

        Returns:
            False if it had ended before.

        Raises:
            EngineClosedError: The engine is closed, and the task is queued.
        """
        return await self._tasks.cancel_kept(self._kept, reason)
