"""How does one task go through its call, once an engine has taken it?

Its state is written before its tool begins: a process that is killed leaves a task of which it is
known whether its tool may have run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tool_engine.errors import (
    AdmissionError,
    CircuitOpenError,
    ControllerClosedError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    SlotRejectedError,
)
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.progress import ToolProgress
from tool_engine.model.task import INPUT_REQUIRED, QUEUED, RUNNING, KeptTask, TaskState

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_LIMITS: Final = (
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    CircuitOpenError,
    SlotRejectedError,
)
"""What the queue's limits say to a caller; a task waits on."""
_PAUSE: Final = 0.1
"""The least seconds until a refused task asks for a slot again."""
_LONGEST_PAUSE: Final = 5.0
_PATIENCE: Final = 1e9
"""Seconds that a task may wait in line: its `ttl` bounds it."""


class TaskContext(ToolExecutionContext, kw_only=True):
    """The context of a call that a task makes."""

    _run: Any = None

    @property
    def task(self) -> Any:
        """What runs the call as a task."""
        return self._run

    def note_failure(self, result: ToolExecutionResult) -> None:
        """Keep the result of a call that is cancelled."""
        if self._run is not None:
            self._run.result = result


class _EndedError(AdmissionError):
    """A task has to end while it waits."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        # Of this one alone: its kind has none.
        self.__dict__["error_type"] = refusal.error_type


class TaskRun:
    """A task that this engine has taken: it ends here, or is given back.

    Args:
        engine: The engine.
        kept: The task.
        write: Writes a state, and returns False where the task is no longer this engine's.
        on_change: Called when the task needs no place among those that wait any more, and when it
            needs one.
    """

    def __init__(
        self,
        engine: ToolEngine,
        kept: KeptTask,
        write: Callable[[KeptTask, TaskState], Awaitable[bool]],
        on_change: Callable[[], None],
    ) -> None:
        self._engine = engine
        self.kept = kept
        self._write = write
        self._on_change = on_change
        self.task: asyncio.Task[None] | None = None
        self.result: ToolExecutionResult | None = None
        self.has_begun = False
        """Whether its tool may have run."""
        self.is_asking = False
        self.is_lost = False
        """Whether another engine has it by now."""
        self.is_unwritten = False
        """Whether the storage does not know yet how it is."""
        self._ending: Refusal | None = None
        self._wait: asyncio.Timeout | None = None
        self._has_started = self._is_over = False

    @property
    def is_waiting(self) -> bool:
        """True if it waits in line for a slot."""
        return not self.has_begun and not self.is_asking

    async def run_call(self) -> ToolExecutionResult:
        """Make the call, and return how it ended."""
        self._has_started = True
        kept = self.kept
        state, context = kept.state, kept.context or ToolExecutionContext()
        refusal = self._ending or self._find_refusal()
        if refusal is not None:
            return self.refuse(refusal)
        listener = _Listener(self, context.on_progress or kept.on_progress)
        names = ToolExecutionContext.__struct_fields__
        fields = {name: getattr(context, name) for name in names}
        own = TaskContext(**{**fields, "on_progress": listener.hear}, _run=self)
        try:
            result = await self._engine.execute(state.tool_name, kept.params, own)
        except asyncio.CancelledError:
            if self.result is None:
                raise
            result = self.result
        finally:
            self._is_over = True
        return result

    def refuse(self, refusal: Refusal) -> ToolExecutionResult:
        """End the call without its tool: one result, one record, one event."""
        self._is_over = True
        kept = self.kept
        return self._engine.refuse(kept.state.tool_name, kept.params, kept.context, refusal)

    def end(self, refusal: Refusal) -> bool:
        """Have the task end for a reason; False: it has ended."""
        if self._is_over or self._ending is not None or self.task is None:
            return False
        self._ending = refusal
        if self._wait is not None:
            self._wait.reschedule(asyncio.get_running_loop().time())
        elif self._has_started:
            # One that was cancelled before its first step would do nothing, and so never end.
            self.task.cancel()
        return True

    @property
    def ending(self) -> Refusal | None:
        """Why it has to end; None: it does not."""
        return self._ending

    def _find_refusal(self) -> Refusal | None:
        state, tool = self.kept.state, self._engine.get(self.kept.state.tool_name)
        if tool is not None and tool.definition_hash != self.kept.definition_hash:
            return _changed_refusal(state.tool_name)
        if tool is not None and tool.background == "never":
            return Refusal("execution_rejected", explain_never(state.tool_name))
        return None

    # What the pipeline says of the call.

    def note_asking(self, call: Any, *, is_asking: bool) -> None:
        """Note that the call waits for consent, or does so no more."""
        self.is_asking, self.is_unwritten = is_asking, True
        status = INPUT_REQUIRED if is_asking else QUEUED
        self.kept.state = replace(self.kept.state, status=status, call_id=call.call_id)
        self._on_change()

    async def admit(self, request: Any, queued: Callable[[], None], call: Any) -> Any:
        """Return a slot for the call, once its task is written as running.

        Raises:
            AdmissionError: The task has to end, or the engine is closed.
        """
        state = self.kept.state
        self.kept.state = replace(state, status=QUEUED, call_id=call.call_id)
        if call.slot is None:
            call.slot = await self._wait_for_slot(request, queued, call.call_id)
        try:
            await self._begin_task(call)
        except BaseException:
            self._engine.controller.release(call.slot, outcome=None)
            call.slot = None
            raise
        return call.slot

    async def _wait_for_slot(self, request: Any, queued: Callable[[], None], call_id: str) -> Any:
        controller: Any = self._engine.controller
        request = replace(request, timeout=_PATIENCE)
        self._wait = asyncio.timeout(None)
        try:
            async with self._wait:
                if self._ending is not None:
                    raise _EndedError(self._ending)
                while True:
                    try:
                        return await controller.admit(request, queued, call_id)
                    except _LIMITS as error:
                        if isinstance(error, ControllerClosedError):
                            raise
                        self.kept.state = replace(self.kept.state, message=str(error))
                        pause = min(error.retry_after or 1.0, _LONGEST_PAUSE)
                        await asyncio.sleep(max(pause, _PAUSE))
        except TimeoutError:
            if self._ending is None:
                raise
            raise _EndedError(self._ending) from None
        finally:
            self._wait = None

    async def _begin_task(self, call: Any) -> None:
        tool = call.plan.tool
        if tool.definition_hash != self.kept.definition_hash:
            # It has changed while consent was asked for.
            raise _EndedError(_changed_refusal(tool.name))
        now = datetime.now(UTC)
        state = replace(self.kept.state, status=RUNNING, started_at=now, message=None)
        if self._ending is not None:
            # Its end and its slot came at once.
            raise _EndedError(self._ending)
        if not await self._write(self.kept, state):
            self.is_lost = True
            raise _EndedError(Refusal("cancelled", "another engine has taken the task"))
        self.has_begun = True
        self.is_unwritten = False
        self._on_change()

    def take_progress(self, report: ToolProgress) -> None:
        """Take what the tool reports, at most ten times a second: it only rises."""
        state = self.kept.state
        if not state.is_final and (state.progress is None or report.done >= state.progress.done):
            self.kept.state = replace(state, progress=report)
            self.is_unwritten = True


class _Listener:
    """Hears the progress of a task, and passes it on to the caller's own listener."""

    def __init__(self, run: TaskRun, other: Callable[[ToolProgress], object] | None) -> None:
        self._run, self._other = run, other

    def hear(self, report: ToolProgress) -> None:
        self._run.take_progress(report)
        if self._other is not None:
            self._other(report)


def explain_never(tool_name: str) -> str:
    """Return why a tool does not run as a task."""
    return (
        f"tool {tool_name!r} runs only while its caller waits (background: never); call it with "
        "execute"
    )


def _changed_refusal(tool_name: str) -> Refusal:
    return Refusal(
        "execution_rejected",
        f"the definition of {tool_name!r} has changed since the task was started; start it again",
    )
