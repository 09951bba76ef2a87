"""What may be asked of the tasks of an engine?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextvars import Context
    from datetime import datetime

    from tool_engine.model.call import ToolExecutionContext
    from tool_engine.model.progress import ToolProgress
    from tool_engine.model.task import TaskHandle, TaskState


class Tasks(Protocol):
    """The calls of an engine that outlive their caller: `engine.tasks`."""

    def read_clock(self) -> datetime:
        """Return the time, UTC, that all programs with these tasks agree on."""

    async def get(self, task_id: str, owner: str | None = None) -> TaskHandle:
        """Return a task; `TaskNotFoundError`: there is none, or it is that of another owner."""

    async def list(
        self,
        owner: str | None = None,
        status: str | None = None,
        limit: int = 100,
        after: str | None = None,
        tool_name: str | None = None,
        *,
        results: bool = False,
    ) -> Sequence[TaskState]:
        """Return tasks as they are, the newest first, and with `results` what came of them."""

    async def cancel(
        self, task_id: str, owner: str | None = None, *, reason: str | None = None
    ) -> bool:
        """Cancel a task; False if it had ended before."""

    async def cancel_all(
        self,
        owner: str | None = None,
        status: str | None = None,
        tool_name: str | None = None,
        *,
        reason: str | None = None,
        is_meant: Callable[[TaskState], bool] = ...,
    ) -> int:
        """Cancel tasks that have not ended, in few statements; return how many."""

    async def find_tool(self, owner: str, key: str) -> str | None:
        """Return the tool of the task that an owner has started with a key, or None."""

    async def start(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        ttl: float = 3600.0,
        idempotency_key: str | None = None,
        run_in: Context | None = None,
        on_progress: Callable[[ToolProgress], object] | None = None,
        is_late: bool = False,
        is_awaited: bool = False,
    ) -> TaskHandle:
        """Start a task; see `ToolEngine.start`. `is_awaited`: its caller waits for it."""

    async def keep(self, task_id: str) -> bool:
        """Keep a task that was started late; False if it has ended.

        Raises:
            TooManyTasksError: Its owner has as many as it may have; it goes on.
        """

    async def forget(self, task_id: str) -> bool:
        """Forget a task that has ended; False if there is none."""

    @property
    def runs_here(self) -> bool:
        """True if this engine runs what it starts, and leaves it to no other."""

    def open(self) -> None:
        """Run what is queued, from now on."""

    async def run_one(self, task_id: str) -> bool:
        """Run one task out of its turn, and no other one; False: it is not queued."""

    def rest(self) -> None:
        """Take no more of what is queued: this engine is about to end."""

    def serve(self) -> None:
        """Run what others start or leave behind, unless this engine leaves that to others.

        An engine that found no task at its start looks every few seconds only.
        """

    async def close(self) -> None:
        """End, or leave to later engines, what has not ended."""
