"""How does a tool run under a deadline without the price of a task?

A `ToolTask` drives the tool's coroutine inside the caller's own task: the first step at once, so
that a tool which never waits costs no loop iteration, and the others whenever the caller's task is
resumed. While a step runs, the `ToolTask` is asyncio's current task, so whatever the tool does to
"its" task (`asyncio.timeout`, `TaskGroup`, `cancel`) concerns the tool alone. At the deadline the
tool is cancelled; if it does not stop at once, the rest of it moves to a task of its own and the
caller goes on.

The hooks used are asyncio's documented ones for third-party task implementations
(docs.python.org, "Extending asyncio").
"""

from __future__ import annotations

import asyncio
import sys
import types
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from tool_engine.backends.current_task import CurrentTask
from tool_engine.logger import current_call
from tool_engine.model.settings.settable import settable

current_tasks: Any
"""The current task of each running loop, by loop; setting one costs less than a call."""
task_of: Callable[[asyncio.AbstractEventLoop], Any]
"""The current task of a running loop, or None."""
if sys.version_info >= (3, 14):
    # Each thread knows its own.
    class _Current:
        __setitem__ = staticmethod(asyncio.tasks._swap_current_task)  # type: ignore[attr-defined] # noqa: SLF001 - no public way

    current_tasks, task_of = _Current(), asyncio.current_task
else:
    # In these versions, which change no more, the functions for it are around one dictionary.
    current_tasks = asyncio.tasks._current_tasks  # type: ignore[attr-defined] # noqa: SLF001 - no public way
    task_of = current_tasks.get

TIMED_OUT: Final = "timed out"
"""End reason: the deadline has passed."""
ABORTED: Final = "aborted"
"""End reason: the engine closed."""
SUPERSEDED: Final = "superseded"
"""End reason: another call took its place."""
STOPPED: Final = "stopped"
"""End reason: the call was cancelled by other than its caller."""
WITHDRAWN: Final = "withdrawn"
"""End reason of a pause between two attempts: the tool is gone."""
LEASE_LOST: Final = "lease lost"
"""End reason: other processes may have what the call's slot stood for."""
_enter_call: Final = current_call.set
_TURNS: Final = 8
"""Loop turns that a cancelled task gets to end while a tool waits for it; no time passes."""


class Home(Protocol):
    """The owner of runs: see `Runs`."""

    running: dict[ToolTask, None]
    """The runs whose callers wait for them, in the order in which these began to."""
    timed: dict[int, ToolTask]
    """Those of them whose deadlines are set, by number."""

    def set_deadline(self, run: ToolTask, loop: asyncio.AbstractEventLoop) -> int:
        """End a run of a loop at its deadline while it is in `timed`; return its number there."""

    def keep(self, run: ToolTask) -> None:
        """Take over a run whose caller continues without it."""


@settable
class ToolTask(CurrentTask, msgspec.Struct, eq=False, weakref=True):
    """One run of a tool's coroutine; see `interfaces.Run`.

    To the tool it stands for its `asyncio.Task`: it has the methods that are used on a current
    task.
    """

    _loop: asyncio.AbstractEventLoop
    deadline: float
    """On the loop's clock."""
    _home: Home
    """Lists the run while its caller waits; takes it over when its caller continues without it."""
    call: Any
    function: Callable[..., Coroutine[Any, Any, Any]] | None = None
    """The function to run; called within the run, so that what it raises is the run's error."""
    kwargs: dict[str, Any] = {}
    args: tuple[Any, ...] = ()
    _context: Any = None
    """A copy of the caller's context, in which the call can be found."""
    _steps: Any = None
    value: Any = None
    error: BaseException | None = None
    is_troubled: bool = False
    """True after an error, a cancellation or an end from outside."""
    is_done: bool = False
    end_reason: str | None = None
    """Why the run was ended from outside: it timed out or was aborted."""
    cancellation: asyncio.CancelledError | None = None
    """The caller's cancellation, to be raised again with its own message."""
    is_detached: bool = False
    """True when the caller continued without waiting for the end of the work."""
    leaves_on_cancel: bool = False
    """True for work that takes its time after a cancellation, or that none reaches: a thread."""
    on_end: Callable[[], object] | None = None
    """Called once by its home when a detached run has ended."""
    _waits_for: Any = None
    _bell: _Bell | None = None
    """The future that the caller waits for while the tool's own wait is slow to cancel."""
    _must_cancel: bool = False
    _cancels: int = 0
    _seen_cancels: int = 0
    _callbacks: list[Callable[[Any], object]] | None = None
    _name: str | None = None

    @property
    def is_timed_out(self) -> bool:
        """True if the deadline passed before the work had ended."""
        return self.end_reason is TIMED_OUT

    @property
    def is_cancelled(self) -> bool:
        return self.cancellation is not None

    @property
    def is_ending(self) -> bool:
        """True if no caller waits for a value any more."""
        return self.cancellation is not None or self.end_reason is not None

    def start(self, caller: asyncio.Task[Any] | None) -> bool:
        """Run the function to its first wait or its end; return True if it has ended.

        Args:
            caller: The running task, if any.
        """
        self._steps = steps = _drive_steps(self)
        self._context = room = copy_context()
        if caller is None:
            self._run_step(None, None)
            return self.is_done
        # The same as `_run_step`, written out: this is all that most runs have.
        loop = self._loop
        current_tasks[loop] = self
        try:
            # With a default, `next` spares the StopIteration of a coroutine that has ended.
            self._waits_for = room.run(next, steps, None)
        except BaseException as raised:  # noqa: BLE001 - it becomes the call's outcome
            self._note_error(raised)
        finally:
            current_tasks[loop] = caller
        if self._callbacks is not None and self.is_done:
            self._tell_callbacks()
        return self.is_done

    @property
    def waits_for_turn(self) -> bool:
        """True if the tool waits for one turn of the loop, and nothing is to be thrown into it."""
        return self._waits_for is None and not (
            self.is_done or self._must_cancel or self.is_troubled
        )

    def take_turn(self) -> bool:
        """Go on after that turn; return True if the tool has ended."""
        self._run_step(task_of(self._loop), None)
        return self.is_done

    def _run_step(self, caller: asyncio.Task[Any] | None, error: BaseException | None) -> None:
        """Run to the next wait or the end as the current task; the tool sees `error`."""
        loop, steps = self._loop, self._steps
        if caller is None:
            _enter_task(loop, self)  # type: ignore[arg-type] # it stands for a task
        else:
            current_tasks[loop] = self
        try:
            if error is None:
                self._waits_for = self._context.run(next, steps, None)
            else:
                with suppress(StopIteration):  # their end, which the steps have noted themselves
                    self._waits_for = self._context.run(steps.throw, error)
        except BaseException as raised:  # noqa: BLE001 - it becomes the call's outcome
            self._note_error(raised)
        finally:
            if caller is None:
                _leave_task(loop, self)  # type: ignore[arg-type] # it stands for a task
            else:
                current_tasks[loop] = caller
        if self._callbacks is not None and self.is_done:
            self._tell_callbacks()

    def __await__(  # noqa: C901, PLR0912 - each function in between costs at each step of a run
        self,
    ) -> Generator[Any, Any, None]:
        """Drive the coroutine to its end, the deadline or the caller's cancellation."""
        loop, home, number = self._loop, self._home, None
        home.running[self] = None
        had_turn = False
        if self._must_cancel:
            self._pass_on_cancel()
        try:
            while not self.is_done:
                if number is None and (had_turn or self._waits_for is not None):
                    # Not before: a turn comes before any timer that is set as it is asked for.
                    number = self._set_deadline()
                waits_for, had_turn = self._waits_for, True
                if waits_for is None or (
                    self.cancellation is None and type(waits_for) is asyncio.Future
                ):
                    # What most tools wait for, without the generator in between.
                    try:
                        yield waits_for
                    except GeneratorExit:
                        self.close()
                        raise
                    except BaseException as raised:  # noqa: BLE001 - the tool is to see it
                        self._resume_tool(waits_for, raised)
                    else:
                        caller = task_of(loop)
                        if self._must_cancel or (waits_for is not None and not waits_for.done()):
                            self._resume_tool(waits_for, None)
                        elif caller is None:
                            self._run_step(None, None)
                            self._pass_on_cancel()
                        else:  # the same, written out
                            current_tasks[loop] = self
                            try:
                                self._waits_for = self._context.run(next, self._steps, None)
                            except BaseException as raised:  # noqa: BLE001 - the call's outcome
                                self._note_error(raised)
                            finally:
                                current_tasks[loop] = caller
                            if self._callbacks is not None or self._must_cancel:
                                self._end_step()
                else:
                    yield from self._wait_and_step()
                if not self.is_done and (
                    self.end_reason is not None or (self.is_cancelled and self.leaves_on_cancel)
                ):
                    self.is_detached = True
                    self._seen_cancels = 0
                    home.keep(self)
                    return
        finally:
            del home.running[self]
            if number is not None:
                del home.timed[number]

    def _set_deadline(self) -> int:
        """Let the run end at its deadline; a tool that has passed it gets no further turn."""
        loop = self._loop
        number = self._home.set_deadline(self, loop)
        if (caller := task_of(loop)) is not None:
            # Without one that it has not seen yet. In a first turn any is its own.
            not_seen = bool(getattr(caller, "_must_cancel", False))
            self._seen_cancels = caller.cancelling() - not_seen
        if self._waits_for is None and not self.is_troubled and loop.time() >= self.deadline:
            # A timer would have ended it by now; the one just set comes after all of its
            # caller's that are due. The tool waits for that: nothing else ends it.
            self._waits_for = waits_for = loop.create_future()
            waits_for._asyncio_future_blocking = True  # noqa: SLF001 - asyncio's protocol
        return number

    def _wait_and_step(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        error: BaseException | None = None
        try:
            if waits_for is None or (
                self.cancellation is None and type(waits_for) is asyncio.Future
            ):
                yield waits_for
            else:
                yield self._relay_wait(waits_for)
        except GeneratorExit:
            self.close()
            raise
        except BaseException as raised:  # noqa: BLE001 - the tool is to see it
            error = raised
        self._bell = None
        self._resume_tool(waits_for, error)

    def close(self) -> None:
        """End the tool where it waits: no loop drives the run any more."""
        self._steps.close()
        self._note_error(asyncio.CancelledError())

    def _note_error(self, error: BaseException) -> None:
        """Note what the coroutine has ended with; it becomes the call's outcome."""
        self.error, self.is_troubled, self.is_done = error, True, True

    def _resume_tool(self, waits_for: Any, error: BaseException | None) -> None:
        """Show the tool the end of its wait, unless the wait continues."""
        caller = task_of(self._loop)
        if error is not None:
            # By its type: a tool's exception may have a `__class__` that raises.
            is_cancel = issubclass(type(error), asyncio.CancelledError)
            if is_cancel and self._is_from_caller(caller, waits_for):
                self._note_cancellation(error)
                goes_on = waits_for is not None and (self._is_told or waits_for.cancel())
                if goes_on and not waits_for.done():
                    return  # it ends in its own time, and the tool with it, as in any task
            if waits_for is not None and waits_for.done() and not waits_for.cancelled():
                waits_for.exception()  # the tool sees the cancellation in its place
        elif waits_for is not None and not waits_for.done():
            return  # woken by the end of the run; what it waits for goes on
        if self._must_cancel:
            self._must_cancel = False
            error = error or asyncio.CancelledError()
        self._run_step(caller, error)
        self._pass_on_cancel()

    def _end_step(self) -> None:
        """Do what is left after a step in which the tool has used its task."""
        if self._callbacks is not None and self.is_done:
            self._tell_callbacks()
        self._pass_on_cancel()

    def _pass_on_cancel(self) -> None:
        """Cancel the wait of a tool that cancelled itself while it ran."""
        waits_for = self._waits_for
        if self._must_cancel and waits_for is not None and waits_for.cancel():
            self._must_cancel = False

    @property
    def _is_told(self) -> bool:
        """True if an end from outside cancelled the tool before its caller sees it."""
        return self.end_reason is not None and not self.is_detached

    def _note_cancellation(self, error: Any) -> None:
        self.cancellation, self.is_troubled = error, True
        self._cancels += 1

    def cancel_from_above(self, waits_for: Any, msg: Any) -> bool:
        """Cancel what the tool waits for in the moment in which the caller is cancelled.

        A run that was ended already is not cancelled twice: its caller continues.
        """
        if not self._is_told and not waits_for.cancel(msg=msg):
            return False
        self._seen_cancels += 1
        self._note_cancellation(asyncio.CancelledError(*(() if msg is None else (msg,))))
        if self._bell is not None and (self._is_told or self.leaves_on_cancel):
            self._bell.ring()
        return True

    def _relay_wait(self, waits_for: Any) -> _Bell:
        """Return a future that is done with `waits_for`, or once the run is ended.

        A task, or the future of a `gather`, takes its time to be cancelled; the caller must not.
        Nor may what cleans up after a cancellation be cancelled again by the deadline.
        """
        waits_for._asyncio_future_blocking = False  # noqa: SLF001 - asyncio's protocol
        self._bell = bell = _Bell(self, waits_for)
        bell._asyncio_future_blocking = True  # noqa: SLF001 - of awaiting futures
        return bell

    def _is_from_caller(self, caller: asyncio.Task[Any] | None, waits_for: Any) -> bool:
        """True if a cancellation came from the caller, not from what the tool waits for."""
        cancels = 0 if caller is None else caller.cancelling()
        is_more = cancels > self._seen_cancels
        self._seen_cancels = cancels
        return is_more or waits_for is None or not waits_for.done()

    async def outlive(self) -> None:
        """Drive the rest of a detached run in a task of its own."""
        while not self.is_done:
            await _Step(self)

    def end(self, reason: str) -> None:
        """End the run from outside: cancel the tool and let the caller continue."""
        if not self.is_done and self.end_reason is None:
            self.end_reason, self.is_troubled = reason, True
            if self.cancellation is None:
                self.cancel()
            if self._bell is not None:
                self._loop.call_soon(_ring_after, self._loop, self._bell, _TURNS)

    def _tell_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            self._loop.call_soon(callback, self, context=self._context)


@types.coroutine
def _drive_steps(task: ToolTask) -> Generator[Any, Any, None]:
    # Here, where the context is the tool's own already: whatever it starts has a copy of it.
    _enter_call(task.call)
    task.value = yield from task.function(*task.args, **task.kwargs)  # type: ignore[misc]
    task.is_done = True


class _Bell(asyncio.Future[None]):
    """A future that the caller awaits in place of what its tool waits for.

    Args:
        run: The tool's.
        waits_for: Rings the bell when it is done.
    """

    def __init__(self, run: ToolTask, waits_for: Any) -> None:
        super().__init__(loop=run.get_loop())
        self._cancel_run = partial(run.cancel_from_above, waits_for)
        waits_for.add_done_callback(self.ring)

    def ring(self, _: object = None) -> None:
        """Let the caller continue, unless it does already."""
        if not self.done():
            self.set_result(None)

    def cancel(self, msg: Any = None) -> bool:
        """Cancel what the tool waits for; the caller continues when that has ended."""
        return not self.done() and self._cancel_run(msg)


def _ring_after(loop: asyncio.AbstractEventLoop, bell: _Bell, turns: int) -> None:
    if turns and not bell.done():
        loop.call_soon(_ring_after, loop, bell, turns - 1)
    else:
        bell.ring()


class _Step:
    """Awaits one step of a detached run."""

    __slots__ = ("_task",)

    def __init__(self, task: ToolTask) -> None:
        self._task = task

    def __await__(self) -> Generator[Any, Any, None]:
        yield from self._task._wait_and_step()  # noqa: SLF001 - the same machine
