"""What is kept of a call that outlives its caller?"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.json.data import Data
from tool_engine.model.progress import ToolProgress

QUEUED: Final = "queued"
RUNNING: Final = "running"
INPUT_REQUIRED: Final = "input_required"
FINAL: Final = ("succeeded", "failed", "timeout", "cancelled", "rejected")
TASK_STATUSES: Final = (QUEUED, RUNNING, INPUT_REQUIRED, *FINAL)


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
    """How its call ended."""

    @property
    def is_final(self) -> bool:
        """True if it has ended: it never changes again."""
        return self.status in FINAL


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
    bound_to: str | None = None
    """The worker that alone can run it, since it alone has the arguments; None: any."""
    key: str | None = None
    """The `idempotency_key`."""
    digest: str = ""
    """What was asked for, to tell another call with the same key."""
    worker: str | None = None
    """The engine that has taken it; None: none has."""
    number: int = 0
    """Its place among those of equal priority."""
    tool: Any = None
    """The tool whose secrets are hidden in what is written; None: it has none."""
    done: Any = None
    """The event that its end sets; None: nothing waits for it here."""

    @property
    def is_bound(self) -> bool:
        """True if it can run only in the engine that started it."""
        return self.bound_to is not None

    def end_waiting(self) -> None:
        """Wake what waits for its end."""
        if isinstance(self.done, asyncio.Event):
            self.done.set()
