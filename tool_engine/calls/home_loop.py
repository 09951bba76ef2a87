"""How does a call from another event loop reach the loop of an engine or session?

What lives on one loop needs no lock. So a call from elsewhere, such as from a plain tool that runs
`asyncio.run` in its thread, goes there, runs in a task of that loop, and its caller waits.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from tool_engine.admission.bridge import LOOK_INTERVAL
from tool_engine.errors import EngineClosedError, ToolEngineError
from tool_engine.forking import Inheritable, disown_in_child
from tool_engine.logger import current_call
from tool_engine.model.call import ToolExecutionContext

_T = TypeVar("_T")
_P = ParamSpec("_P")
_CURE: Final = (
    "and so may be waiting for this very call: let an async tool await "
    "asyncio.to_thread(...) where it waits for a thread"
)
_KEEP: Final = "keep the loop running on which the engine was loaded for as long as it is used"

PATIENCE: Final = 5.0
"""Seconds within which a home loop must start the work."""
PATIENCE_LATER: Final = 30.0
"""Seconds for which the home loop may stand still while the work runs."""


class HomeLoop:
    """The event loop of an object: the first that uses it, while that one runs.

    `owner` has slots, lines and runs there, which are no use to a process forked later.
    """

    __slots__ = ("_lock", "_owner", "_pid", "loop", "on_move")

    def __init__(self, owner: Inheritable | None = None) -> None:
        self._owner = owner
        self.loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._pid = 0
        self.on_move: Callable[[], object] | None = None
        """Called on the new loop when the one before has ended."""

    def is_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if it lives on the running loop; move there from a loop that rests."""
        if self.loop is loop and self._pid == os.getpid():
            return True
        with self._lock:
            home = self.loop
            # The loop of the parent process only looks as if it ran.
            has_moved = False
            if home is loop or home is None or not home.is_running() or self._pid != os.getpid():
                has_moved = home is not loop and home is not None and self._pid == os.getpid()
                self.loop, self._pid = loop, os.getpid()
                if self._owner is not None:
                    disown_in_child(self._owner)
        if has_moved and self.on_move is not None:
            self.on_move()
        return self.loop is loop

    def forget(self) -> None:
        """Have no loop any more, in a process that was forked."""
        self.loop = None

    def running(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop; None: there is none, or it does not run."""
        home = self.loop
        is_here = home is not None and self._pid == os.getpid() and home.is_running()
        return home if is_here else None

    def leave(self) -> None:
        """Let the next caller's loop be the home, though this one still runs."""
        with self._lock:
            self.loop = None

    async def carry(
        self,
        work: Callable[[], Coroutine[Any, Any, _T]],
        context: ToolExecutionContext | None = None,
    ) -> _T:
        """Run a coroutine on the home loop, with the caller's context variables.

        A cancelled caller waits until that has ended, as it would for a coroutine of its own.

        Args:
            work: Makes the coroutine.
            context: The call that it is done for, where the context variables lack it.

        Raises:
            EngineClosedError: The home loop ends, or does not run any more.
            ToolEngineError: It is blocked.
        """
        loop = asyncio.get_running_loop()
        home = loop if self.is_on(loop) else self.loop
        if home is None or home is loop:
            return await work()
        # A running loop knows its thread, though under no public name.
        if getattr(home, "_thread_id", None) == threading.get_ident():
            raise ToolEngineError(f"the engine's event loop waits for this one, {_CURE}")
        maker = current_call.get() or (context and context.bound_call)
        return await _Errand(work, home, maker).run()


def run_blocking(
    work: Callable[[], Coroutine[Any, Any, _T]],
    home: asyncio.AbstractEventLoop,
    context: ToolExecutionContext | None = None,
) -> _T:
    """Run a coroutine on a loop of another thread, and block this one meanwhile.

    KeyboardInterrupt cancels it, and is raised once it has ended; a second one does not wait.

    Args:
        work: Makes the coroutine.
        home: The loop.
        context: The call that it is done for, where the context variables lack it.

    Raises:
        EngineClosedError: The loop ends, or does not run any more.
        ToolEngineError: It is this thread's, or it is blocked.
    """
    if getattr(home, "_thread_id", None) == threading.get_ident() or home is _running_loop():
        raise ToolEngineError(
            "cannot block here: the call would run on this event loop, which could never come "
            "to it: a deadlock; use `await engine.execute(...)`, or in a tool "
            "`await context.call(...)`"
        )
    maker = current_call.get() or (context and context.bound_call)
    return _Errand(work, home, maker).block()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _AtHome(Protocol):
    _home: HomeLoop

    async def _run_at_home(self, work: Callable[[], Coroutine[Any, Any, Any]], /) -> Any:
        """Run a coroutine on that loop."""


_Lives = TypeVar("_Lives", bound=_AtHome)


def at_home(
    method: Callable[Concatenate[_Lives, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Lives, _P], Coroutine[Any, Any, _T]]:
    """Return the method such that it runs on its object's loop."""

    @wraps(method)
    async def run(self: _Lives, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self._home.loop is asyncio.get_running_loop():
            return await method(self, *args, **kwargs)
        done: _T = await self._run_at_home(partial(method, self, *args, **kwargs))
        return done

    return run


class _Errand(Generic[_T]):
    """Work on a home loop, for a caller elsewhere.

    `run`, `block`, `_check_home` and `_withdraw_errand` are the caller's; the rest happens at
    home.
    """

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, _T]],
        home: asyncio.AbstractEventLoop,
        maker: Any,
    ) -> None:
        self._work = work
        self._home = home
        self._maker = maker
        self._answer: Callable[[], object]
        self._is_answered = False
        self._task: asyncio.Task[_T] | None = None
        self._is_unwanted = False
        self._value: list[_T] = []
        self._error: BaseException | None = None
        self._looks_in_vain = 0

    async def run(self) -> _T:
        cancelled: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        self._answer = partial(loop.call_soon_threadsafe, answered.set_result, None)
        self._post_home(self._start_task)
        while not answered.done():
            try:
                await asyncio.wait([answered], timeout=LOOK_INTERVAL)
                if not answered.done():
                    self._check_home()
            except asyncio.CancelledError as error:
                cancelled = error
                self._withdraw_errand()
            except BaseException:
                # It cannot be waited for: the home loop or this one is gone.
                self._withdraw_errand()
                if cancelled is not None:
                    raise cancelled from None
                raise
        if cancelled is not None:
            raise cancelled
        return self._read_outcome()

    def block(self) -> _T:
        interrupt: KeyboardInterrupt | None = None
        # Unlocking never blocks the home loop, and waiting for a lock can be interrupted.
        answered = threading.Lock()
        answered.acquire()
        self._answer = answered.release
        is_posted = False
        while not self._is_answered:
            try:
                if not is_posted:
                    is_posted = True
                    self._post_home(self._start_task)
                if not answered.acquire(timeout=LOOK_INTERVAL):
                    self._check_home()
            except KeyboardInterrupt as error:
                self._withdraw_errand()
                if interrupt is not None:
                    raise
                interrupt = error
            except BaseException:
                self._withdraw_errand()
                if interrupt is not None:
                    raise interrupt from None
                raise
        if interrupt is not None:
            raise interrupt
        return self._read_outcome()

    def _read_outcome(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _post_home(self, action: Callable[[], object]) -> None:
        # Runs there in a copy of the context variables that are set here.
        try:
            self._home.call_soon_threadsafe(action)
        except RuntimeError:
            raise EngineClosedError(f"the engine's event loop was closed; {_KEEP}") from None

    def _check_home(self) -> None:
        """Raise an error when no answer can be expected any more."""
        # Looks are counted, not seconds: a process that was stopped has not looked.
        self._looks_in_vain += 1
        patience = PATIENCE if self._task is None else PATIENCE_LATER
        if self._looks_in_vain * LOOK_INTERVAL > patience:
            if self._home.is_running():
                raise ToolEngineError(
                    f"the engine's event loop has been blocked for {patience:g} s, {_CURE}"
                )
            raise EngineClosedError(
                f"the engine's event loop has not run for {patience:g} s; {_KEEP}"
            )
        self._post_home(self._answer_look)

    def _answer_look(self) -> None:
        self._looks_in_vain = 0

    def _withdraw_errand(self) -> None:
        self._is_unwanted = True
        with suppress(EngineClosedError):
            self._post_home(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _start_task(self) -> None:
        if self._is_unwanted:
            self._send_answer()
        else:
            self._task = self._home.create_task(self._work())
            self._task.add_done_callback(self._take_outcome)

    def _take_outcome(self, task: asyncio.Task[_T]) -> None:
        if not task.cancelled():
            self._error = task.exception()
            if self._error is None:
                self._value.append(task.result())
        elif not task.cancelling() or self._is_unwanted or _is_broken_off(self._maker):
            self._error = asyncio.CancelledError()
        else:
            # Neither its caller nor the tool that it is done for was cancelled.
            self._error = EngineClosedError(
                f"the engine's event loop ended while the call ran; {_KEEP}"
            )
        self._send_answer()

    def _send_answer(self) -> None:
        self._is_answered = True
        # A closed loop: its caller is gone.
        with suppress(RuntimeError):
            self._answer()


def _is_broken_off(maker: Any) -> bool:
    return maker is not None and maker.is_broken_off
