"""What does a program hold of a task that it started or found?"""

from __future__ import annotations

from typing import Protocol

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.copying import live
from tool_engine.model.progress import ToolProgress
from tool_engine.model.task import KeptTask, TaskState


class _Asked(Protocol):
    async def read_state(self, kept: KeptTask, /) -> TaskState: ...

    async def wait_for(self, kept: KeptTask, limit: float | None, /) -> ToolExecutionResult: ...

    async def cancel_kept(self, kept: KeptTask, reason: str | None, /) -> bool: ...


@live("keep its id, and ask engine.tasks.get(id) for it")
class TaskHandle:
    """A call that outlives its caller; `engine.start` and `engine.tasks.get` make it.

    What runs in this engine is told as it is now; of another engine's task, `refresh` reads how it
    is.

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

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - of the wait, not of the task
    ) -> ToolExecutionResult:
        """Wait for the end of the task, and return its result; it never raises for its fault.

        Args:
            timeout: Seconds to wait at most; None: as long as it takes.

        Raises:
            TimeoutError: It has not ended in that time; it goes on.
            TaskNotFoundError: It has ended, and is not kept any more.
            RecordsUnavailableError: The database does not answer.
        """
        return await self._tasks.wait_for(self._kept, timeout)

    async def cancel(self, reason: str | None = None) -> bool:
        """Cancel the task, and wait until it has ended where it runs in this engine.

        Args:
            reason: Why, for its message.

        Returns:
            False if it had ended before.
        """
        return await self._tasks.cancel_kept(self._kept, reason)
