"""Where does an executor run, and how does the engine watch an attempt?"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol

from tool_engine.interfaces.executor import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class ExecutionBackend(Protocol):
    """Carries out attempts to run tools, here or elsewhere.

    There is one for each place: the engine's process, worker processes, a fleet. The plan of a tool
    chooses it once for all calls, by what the definition says as `entry.config.isolation`. What a
    tool reports meanwhile goes to `context.report_progress` and `context.log`, in its order.

    An attempt is a coroutine that the engine drives: it keeps the slot, the deadline and the
    record, whatever becomes of the backend. All that may cross to another process is JSON: the
    tool's name and definition hash, the arguments, the seconds left, and `context.to_wire()`. What
    may be left out has a default here: derive from this class, and write what is abstract.
    """

    @abstractmethod
    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        """Carry out one attempt, at most once, and return the tool's output.

        What is returned and raised is dealt with as that of `ToolExecutor.execute`. The work has to
        end by `context.deadline`, on the clock of the engine's loop. At the deadline, and when its
        caller is cancelled, the coroutine is cancelled: it ends the work, and ends itself when the
        work has really stopped, for the slot is held until then. A caller does not wait for that
        after its deadline, and not after a cancellation where `leaves_on_cancel` says so. Work that
        may have run and whose end is not known is an error, and never begun again.
        """

    def takes(self, executor: ToolExecutor, tool: Tool) -> bool:
        """Return whether calls run here, not in the engine's process."""
        del executor, tool
        return True

    def leaves_on_cancel(self, executor: ToolExecutor) -> bool:
        """Return whether a cancelled caller goes on before the work stops."""
        del executor
        return False

    def function_for(self, executor: ToolExecutor) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return `execute` for one executor: asked once for each tool."""
        return partial(self.execute, executor)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - bounds what cannot be stopped
        """Release resources within `timeout` seconds; return the number of leftovers."""
        del timeout
        return 0


class Run(Protocol):
    """One attempt to run a tool under its deadline; made by the engine.

    Either `is_done` after its start, or to be awaited. Awaiting returns by the deadline, whatever
    the tool does, and raises nothing of the tool's: its end is in the attributes.
    """

    function: Callable[..., Coroutine[Any, Any, Any]] | None
    """What is run, with `args` and `kwargs`; set before the start."""
    kwargs: dict[str, Any]
    args: tuple[Any, ...]
    deadline: float
    """On the loop's clock."""
    leaves_on_cancel: bool
    """Whether a caller that is cancelled goes on at once; see `ExecutionBackend`."""
    on_end: Callable[[], object] | None
    """Called once when the work of a detached run has stopped."""
    value: Any
    """What the tool returned."""
    error: BaseException | None
    """What the tool raised."""
    cancellation: asyncio.CancelledError | None
    """What cancelled the caller."""
    end_reason: str | None
    """Why the run was ended from outside: its time ran out, or `end` was called."""
    is_done: bool
    """Whether the work has stopped."""
    is_detached: bool
    """Whether the caller went on before that."""
    is_troubled: bool
    """Whether there is an error, a cancellation or an end from outside."""

    @property
    def is_timed_out(self) -> bool:
        """Whether the deadline came first."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller was cancelled."""

    @property
    def is_ending(self) -> bool:
        """Whether no caller waits for the attempt's value any more."""

    def start(self, caller: asyncio.Task[Any] | None) -> bool:
        """Run to the first wait or the end, within the task `caller`; return True at the end."""

    def end(self, reason: str) -> None:
        """Cancel the work and let the caller go on."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop that it runs on."""

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait for the end of the work or the deadline."""
