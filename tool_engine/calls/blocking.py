"""How does code that cannot await call an engine, on the engine's loop or one of its own?

An engine lives on one event loop. Where none runs, the first blocking call starts one in a thread,
which becomes the home of the engine for async callers, too: one controller, one set of limits.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, cast, overload
from weakref import WeakSet

from tool_engine.calls.home_loop import HomeLoop, run_blocking
from tool_engine.errors import EngineClosedError
from tool_engine.forking import disown_in_child
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.progress import ToolProgress

_T = TypeVar("_T")
_P = ParamSpec("_P")
_EXIT_GRACE: Final = 1.0
"""Seconds that calls have to end by themselves when the interpreter exits."""
_JOIN_LIMIT: Final = 5.0
"""Seconds for which the end of the thread is waited for, where its work does not end."""


class OwnLoop:
    """An event loop in a thread of its own, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_up = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Future[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs."""
        with self._lock:
            if self._thread is None:
                disown_in_child(self)
                self._is_up = threading.Event()
                # A daemon: the interpreter's exit waits for no tool.
                thread = threading.Thread(
                    target=self._run_loop, name="tool-engine-loop", daemon=True
                )
                thread.start()
                self._thread = thread
            # Also of a start whose wait was interrupted.
            self._is_up.wait()
            return cast("asyncio.AbstractEventLoop", self._loop)

    def end(self) -> None:
        """Cancel what is left and end the thread; from the loop itself, do not wait for it."""
        with self._lock:
            thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._set_end)
        if thread is not threading.current_thread():
            thread.join(_JOIN_LIMIT)
            with self._lock:
                self._thread = self._loop = self._end = None

    def _set_end(self) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(None)

    def disown(self, reason: str) -> None:
        """Forget the thread, which a forked process does not have."""
        del reason
        self._lock = threading.Lock()
        self._thread = self._loop = self._end = None

    def _run_loop(self) -> None:
        with asyncio.Runner() as runner:
            loop = self._loop = runner.get_loop()
            end = self._end = loop.create_future()
            loop.call_soon(self._is_up.set)
            while not end.done():
                # Raised by what was called; it goes to the caller, and ends no other call.
                with suppress(KeyboardInterrupt, SystemExit):
                    loop.run_until_complete(end)


class BlockingCalls:
    """The part of an engine that is for code that cannot await."""

    if TYPE_CHECKING:
        _own_loop: OwnLoop
        _home: HomeLoop
        _closing: asyncio.Task[None] | None
        _disowned: EngineClosedError | None

        def execute(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, ToolExecutionResult]:
            """Run one tool."""

        async def close(self) -> None:
            """End all calls, watchers and connections."""

    def execute_sync(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        on_progress: Callable[[ToolProgress], object] | None = None,
    ) -> ToolExecutionResult:
        """Run one tool and block until it has ended: for scripts, Flask and notebooks.

        The call runs on the loop that the engine lives on, else on one in a thread of its own,
        which `close()` ends. KeyboardInterrupt cancels the call.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: Who calls, and within which limits.
            on_progress: Hears, in the thread of that loop, how far the tool has come.

        Raises:
            ConfigurationError: The context is none, or `on_progress` is no plain function.
            ToolEngineError: The engine lives on this thread's loop: await `execute` there.
            EngineClosedError: That loop ended during the call, or the process was forked.
        """
        call = partial(self.execute, tool_name, params, context, on_progress=on_progress)
        # What is no context is refused by the call.
        known = context if isinstance(context, ToolExecutionContext) else None
        return self._run_blocking(call, known)

    def sync(self) -> SyncEngine[Self]:
        """Return the engine for code that cannot await: `with engine.sync() as tools:`."""
        return SyncEngine(self)

    def _run_blocking(
        self,
        work: Callable[[], Coroutine[Any, Any, _T]],
        context: ToolExecutionContext | None = None,
    ) -> _T:
        if self._disowned is not None:
            raise self._disowned
        home = self._home.running()
        if home is not None:
            return run_blocking(work, home, context)
        if self._closing is None:
            _close_at_exit()
            _open.add(self)
            return run_blocking(work, self._own_loop.start(), context)
        # A closed engine answers, and keeps no thread for it.
        passing = OwnLoop()
        try:
            return run_blocking(work, passing.start(), context)
        finally:
            passing.end()

    def _end_own_loop(self) -> None:
        if self._own_loop.is_running:
            # A call of the closed engine is answered on another loop than one that ends.
            self._home.leave()
            self._own_loop.end()

    def _close_blocking(self) -> None:
        if self._disowned is None:
            try:
                self._run_blocking(self.close)
            finally:
                self._own_loop.end()

    def _close_at_exit(self) -> None:
        async def close() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_GRACE):
                    await self.close()
            if self._closing is not None and not self._closing.done():
                # Asks it for haste.
                self._closing.cancel()
                await asyncio.wait([self._closing])

        with suppress(Exception):
            self._run_blocking(close)
        self._own_loop.end()


_Engine = TypeVar("_Engine", bound=BlockingCalls)


class SyncEngine(Generic[_Engine]):
    """An engine for code that cannot await; made by `engine.sync()`.

    Any number of threads may use it at once, and async callers the engine itself: the limits hold
    across all of them. It blocks the thread that calls it, and that thread's event loop, too.

    Args:
        engine: The engine.

    Example:
        >>> with ToolEngine(ToolEngineConfig(tools_directory="tools")).sync() as tools:
        ...     print(tools.execute("calculator", {"expression": "1+2"}).output)
    """

    __slots__ = ("engine",)

    def __init__(self, engine: _Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Self:
        self.load()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SyncEngine of {self.engine!r}>"

    def load(self) -> None:
        """Load the folder of definitions; see `ToolEngine.load`."""
        self.run(cast("Any", self.engine).load)

    def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        on_progress: Callable[[ToolProgress], object] | None = None,
    ) -> ToolExecutionResult:
        """Run one tool; see `ToolEngine.execute_sync`."""
        return self.engine.execute_sync(tool_name, params, context, on_progress=on_progress)

    def start(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        ttl: float = 3600.0,
        idempotency_key: str | None = None,
    ) -> Any:
        """Start a task; see `ToolEngine.start`. Its methods are run with `run`."""
        options = {"ttl": ttl, "idempotency_key": idempotency_key}
        start = partial(cast("Any", self.engine).start, tool_name, params, context, **options)
        return self.run(start)

    @overload
    def run(
        self, function: Callable[_P, Awaitable[_T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...

    @overload
    def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...

    def run(self, function: Callable[_P, Any], /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        """Call a function on the engine's loop, await what it returns, and return that.

        Such as `tools.run(session.execute, "read_file", {"path": "a"})`, or
        `tools.run(engine.reload)`.

        Args:
            function: An async or a plain one.
            args: Its arguments.
            kwargs: Its arguments by name.

        Raises:
            ToolEngineError: The engine lives on this thread's loop.
            EngineClosedError: That loop ended meanwhile, or the process was forked.
        """

        async def work() -> Any:
            made = function(*args, **kwargs)
            return await made if isawaitable(made) else made

        return self.engine._run_blocking(work)  # noqa: SLF001 - the engine's other half

    def close(self) -> None:
        """End all calls, watchers and connections, and the thread; idempotent."""
        self.engine._close_blocking()  # noqa: SLF001 - the engine's other half


_open: Final[WeakSet[BlockingCalls]] = WeakSet()


def _close_all() -> None:
    for engine in tuple(_open):
        if engine._own_loop.is_running:  # noqa: SLF001 - the engine's other half
            engine._close_at_exit()  # noqa: SLF001 - the engine's other half


@cache
def _close_at_exit() -> None:
    """Have engines closed at the exit of the interpreter, while there are still threads for it."""
    # The last to be registered is the first to be called: before the executors of asyncio close,
    # which `atexit` comes after.
    import_module("concurrent.futures.thread")
    getattr(threading, "_register_atexit", atexit.register)(_close_all)
