"""How do hours of concurrency pass in a moment, always in the same order?

Real tasks and futures run on a `VirtualLoop`; only its clock is virtual. When nothing is ready,
time jumps to the next timer: there are no sleeps and no sockets. So a run depends only on the
program and the seed, and a program that can never continue is an error at once instead of a hang.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import sys
import threading
import weakref
from asyncio import Future, Handle, Task, TimerHandle, _set_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, cast

from tool_engine.testing.loop_failures import (
    CallbackError,
    DeadlockError,
    Failing,
    deadlock_text,
    failing_text,
)

if TYPE_CHECKING:
    # At run time no method of `AbstractEventLoop` is abstract; the type stubs say they all are.
    from asyncio import BaseEventLoop as _EventLoop
else:
    from asyncio import AbstractEventLoop as _EventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Handler = Callable[[asyncio.AbstractEventLoop, Failing], object]

_COMPACT_FROM: Final = 64
_NESTED: Final = (
    "a virtual loop cannot run inside a running event loop; in a coroutine, run it in a thread: "
    "`await asyncio.to_thread(run, ...)`, or `asyncio.to_thread(simulate, ...)`"
)
_logger: Final = logging.getLogger("asyncio")


class ScheduledCall(asyncio.Handle):
    """A callback that runs once, in a context, unless it is cancelled.

    Like asyncio's own handle, without its further work, which costs more than most callbacks.
    """

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        """None once it is cancelled."""
        self.args = args
        self.context = copy_context() if context is None else context

    def cancel(self) -> None:
        """Cancel the callback and release its arguments."""
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def __repr__(self) -> str:
        return f"<ScheduledCall {self.callback or 'cancelled'}>"


class ScheduledTimer(asyncio.TimerHandle):
    """A callback that runs at a time."""

    __slots__ = ("args", "callback", "context", "due", "on_cancel")

    def __init__(
        self,
        due: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        on_cancel: Callable[[], None],
    ) -> None:
        self.due = due
        self.callback: Callable[..., object] | None = callback
        """None once it is cancelled."""
        self.args = args
        self.context = copy_context() if context is None else context
        self.on_cancel: Callable[[], None] | None = on_cancel
        """Notifies the loop; None once the timer is no longer among the loop's timers."""

    def cancel(self) -> None:
        """Cancel the callback and release its arguments."""
        if self.callback is not None and self.on_cancel is not None:
            self.on_cancel()
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        """Return the virtual time at which it runs."""
        return self.due

    def __repr__(self) -> str:
        return f"<ScheduledTimer at {self.due:g} {self.callback or 'cancelled'}>"


class VirtualLoop(_EventLoop):
    """An event loop on virtual time: deterministic, and as fast as its callbacks.

    It has no sockets, no child processes and no threads: asking for them raises. A function for
    a thread pool (`asyncio.to_thread`) runs on the loop.

    Args:
        seed: None: callbacks run in the order in which they became ready, as on any loop. A number
            shuffles those that are ready at the same time, reproducibly: a search for races.
        start: The time at the beginning, in seconds.

    Example:
        >>> with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        ...     runner.run(asyncio.sleep(3600.0))
    """

    def __init__(self, *, seed: int | None = None, start: float = 0.0) -> None:
        self.unhandled: list[Failing] = []
        """Failures that no handler or awaiting task received."""
        self.fails_at_once: bool = True
        """True if such a failure ends the run as `CallbackError`; else it is only kept."""
        self._now = start
        self._random = None if seed is None else random.Random(seed)  # noqa: S311 - an order, no secret
        self._ready: deque[ScheduledCall | ScheduledTimer] = deque()
        self._timers: list[tuple[float, int, ScheduledTimer]] = []
        self._timers_made = self._timers_cancelled = 0
        self._thread: int | None = None
        self._is_stopping = self._is_closed = self._is_debugging = False
        self._handler: Handler | None = None
        self._factory: Any = None
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Run `callback` in the next turn."""
        if self._is_closed:
            raise self._closed_error()
        call = ScheduledCall(callback, args, context)
        self._ready.append(call)
        return call

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """As `call_soon`; raise in other threads, whose timing is chance."""
        if self._thread not in (None, threading.get_ident()):
            raise RuntimeError(
                "another thread called into a VirtualLoop, whose order would then be chance; keep "
                "threads out of what runs on it, or use an ordinary event loop"
            )
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        """Run `callback` after `delay` seconds of virtual time."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        """Run `callback` at the virtual time `when`; never if it is infinite."""
        if self._is_closed:
            raise self._closed_error()
        timer = ScheduledTimer(when, callback, args, context, self._count_cancelled)
        self._timers_made += 1
        heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def create_future(self) -> Future[Any]:
        """Return a new future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override] # later versions of Python have more options
        self, coro: Coroutine[Any, Any, T], **options: Any
    ) -> Task[T]:
        """Run a coroutine as a task; the options are those of `asyncio.Task`."""
        if self._is_closed:
            coro.close()
            raise self._closed_error()
        if self._factory is not None:
            made: Task[T] = self._factory(self, coro, **options)
            return made
        return asyncio.Task(coro, loop=self, **options)

    def set_task_factory(self, factory: Any) -> None:
        """Set what makes tasks; None: `asyncio.Task`."""
        self._factory = factory

    def get_task_factory(self) -> Any:
        """Return what makes tasks, if it is not `asyncio.Task`."""
        return self._factory

    def run_in_executor(  # type: ignore[override] # there is no thread to wait for
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> Future[T]:
        """Run a function in the next turn: threads would bring chance."""
        del executor
        future: Future[T] = self.create_future()
        self.call_soon(_settle_future, future, func, args)
        return future

    def run_forever(self) -> None:
        """Run until `stop()`.

        Raises:
            DeadlockError: Nothing will ever happen any more.
            CallbackError: A callback failed.
        """
        if self._is_closed:
            raise self._closed_error()
        if _is_a_loop_running():
            raise RuntimeError(_NESTED)
        hooks = sys.get_asyncgen_hooks()
        self._thread = threading.get_ident()
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._finalize_generator)
        _set_running_loop(self)
        try:
            while not self._is_stopping:
                self._run_turn()
        finally:
            self._is_stopping = False
            self._thread = None
            _set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until the future is done; return its result or raise."""
        is_new = not asyncio.isfuture(future)
        awaited = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
        awaited.add_done_callback(self._stop_after)
        try:
            self.run_forever()
        except BaseException:
            if is_new and awaited.done() and not awaited.cancelled():
                # Its exception is the one on its way, and is not to be logged as lost too.
                awaited.exception()
            raise
        finally:
            awaited.remove_done_callback(self._stop_after)
        if not awaited.done():
            raise RuntimeError("the VirtualLoop was stopped before the future was done")
        return awaited.result()

    def stop(self) -> None:
        """End `run_forever` after the present turn."""
        self._is_stopping = True

    def is_running(self) -> bool:
        """True while the loop runs."""
        return self._thread is not None

    def is_closed(self) -> bool:
        """True once the loop was closed."""
        return self._is_closed

    def close(self) -> None:
        """Forget every callback; it cannot run any more."""
        if self._thread is not None:
            raise RuntimeError("a VirtualLoop cannot be closed while it runs; stop it first")
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators that have begun and not ended."""
        generators = list(self._generators)
        self._generators.clear()
        for generator in generators:
            await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's signature
        """Does nothing: there are no threads."""

    def get_debug(self) -> bool:
        """True if asyncio's debug mode is on."""
        return self._is_debugging

    def set_debug(self, enabled: bool) -> None:
        """Make tasks and futures note where they were made, or not."""
        self._is_debugging = enabled

    def get_exception_handler(self) -> Handler | None:
        """Return the handler of failures, if it is not the loop itself."""
        return self._handler

    def set_exception_handler(self, handler: Handler | None) -> None:
        """Set the handler of failures; None: they end the run."""
        self._handler = handler

    def default_exception_handler(self, context: Failing) -> None:
        """Keep a failure until the turn ends; log it after the end."""
        if self._is_closed:
            error = context.get("exception")
            _logger.error(failing_text(context), exc_info=error or False)
        else:
            self.unhandled.append(context)

    def call_exception_handler(self, context: Failing) -> None:
        """Pass a failure that nothing awaits to the handler."""
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def raise_unhandled(self) -> None:
        """Raise the first failure that no handler received, if any."""
        if self.unhandled:
            failings, self.unhandled = self.unhandled, []
            more = f" (and {len(failings) - 1} more)" if len(failings) > 1 else ""
            raise CallbackError(failing_text(failings[0]) + more) from failings[0].get("exception")

    def _run_turn(self) -> None:
        """Run what is ready now, and nothing that becomes ready meanwhile."""
        if not self._ready:
            self._jump_to_timer()
        if self._timers:
            self._take_due_timers()
        if self._random is not None and len(self._ready) > 1:
            shuffled = list(self._ready)
            self._random.shuffle(shuffled)
            self._ready = deque(shuffled)
        ready = self._ready
        for _ in range(len(ready)):
            call = ready.popleft()
            if call.callback is None:
                continue
            try:
                call.context.run(call.callback, *call.args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is reported
                self.call_exception_handler({"message": f"{call!r} raised", "exception": error})
        if self.unhandled and self.fails_at_once:
            self.raise_unhandled()

    def _take_due_timers(self) -> None:
        timers, now = self._timers, self._now
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            timer.on_cancel = None
            if timer.callback is None:
                self._timers_cancelled -= 1
            else:
                self._ready.append(timer)

    def _jump_to_timer(self) -> None:
        """Move the clock to the next timer."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heappop(timers)[2].on_cancel = None
            self._timers_cancelled -= 1
        if not timers or timers[0][0] == math.inf:
            raise DeadlockError(deadlock_text(self))
        # A timer of the past is due now: time never goes back.
        self._now = max(self._now, timers[0][0])

    def _closed_error(self) -> RuntimeError:
        return RuntimeError("the VirtualLoop is closed and runs nothing more; make a new one")

    def _count_cancelled(self) -> None:
        self._timers_cancelled += 1
        timers = self._timers
        if len(timers) > _COMPACT_FROM and 2 * self._timers_cancelled > len(timers):
            timers[:] = [entry for entry in timers if entry[2].callback is not None]
            heapify(timers)
            self._timers_cancelled = 0

    def _stop_after(self, future: Future[Any]) -> None:
        if not future.cancelled():
            error = future.exception()
            if isinstance(error, KeyboardInterrupt | SystemExit):
                # It goes up through `run_forever` by itself; a second stop would outlive this run.
                return
        self.stop()

    def _finalize_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.discard(generator)
        if not self._is_closed:
            self.call_soon(self.create_task, generator.aclose())


def run(coroutine: Coroutine[Any, Any, T], *, seed: int | None = None) -> T:
    """Run a coroutine on a new virtual loop, like `asyncio.run`.

    Args:
        coroutine: What to run. Tasks that it leaves behind are cancelled.
        seed: As for `VirtualLoop`.

    Raises:
        DeadlockError: Everything waits, and nothing will ever happen.
        CallbackError: A callback failed, or a task that was never awaited.

    Example:
        >>> run(asyncio.sleep(3600.0, "an hour later"))
        'an hour later'
    """
    if _is_a_loop_running():
        coroutine.close()
        raise RuntimeError(_NESTED)
    loop = VirtualLoop(seed=seed)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                result = runner.run(coroutine)
            finally:
                # The clean-up goes on whatever fails in it; the first failure is raised below.
                loop.fails_at_once = False
    except BaseException as error:
        for failing in loop.unhandled:
            error.add_note(failing_text(failing))
        raise
    loop.raise_unhandled()
    return result


def _settle_future(future: Future[T], function: Callable[..., T], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        result = function(*args)
    except Exception as error:  # noqa: BLE001 - passed on to what awaits the future
        future.set_exception(error)
    else:
        future.set_result(result)


def _is_a_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
