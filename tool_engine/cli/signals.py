"""How does a command run, and what ends it at Ctrl-C or another signal?"""

from __future__ import annotations

import atexit
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tool_engine.cli.failures import EXIT_INTERRUPTED, CommandError

if TYPE_CHECKING:
    import asyncio

    from tool_engine.engine import ToolEngine

_ENDS: Final[list[signal.Signals]] = [
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Not every system has both."""
CALLS_CANCELLED: Final = "the running calls were cancelled"
_PATIENCE: Final = 1.0
"""Seconds that a shutdown may still take after a second signal."""
_LAST_PATIENCE: Final = 5.0
"""Seconds that a server may still take after a second signal, to write how its tasks ended."""
_SILENCE: Final = 1.0
"""Seconds after Ctrl-C until a command that has not ended says what it waits for."""
_SECOND: Final = 2
_open: Final[list[ToolEngine]] = []
"""The engines of the command that runs, until they are closed."""
_heard_by: Final[list[tuple[Callable[[], object], ...]]] = []
"""What hears the first signal, and what the second one."""
_SIGNALLED: Final = EXIT_INTERRUPTED - signal.SIGINT
"""Added by shells to a signal's number in the exit code of the process."""


def run_async(
    command: Coroutine[Any, Any, int],
    *,
    log_level: int = logging.WARNING,
    explain: Callable[[], str] = lambda: CALLS_CANCELLED,
    has_document: bool = False,
) -> int:
    """Run a command's coroutine; Ctrl-C cancels it and the running calls.

    So does the end of the process (SIGTERM) or of its terminal (SIGHUP): programs that tools have
    started do not go on without it. The coroutine returns the exit code; log lines from `log_level`
    on go to stderr, and so does what tools print, if stdout `has_document`. `explain` returns what
    has become of its work at such an end.

    Raises:
        CommandError: Ctrl-C was pressed, or a signal ended the process.
    """
    import asyncio

    from tool_engine.cli.console import prints_aside
    from tool_engine.cli.logs import logs_on_stderr

    try:
        with logs_on_stderr(log_level), prints_aside() if has_document else nullcontext():
            return asyncio.run(_run_interruptible(command))
    except _LeftBehindError as left:
        return left.exit_code
    except KeyboardInterrupt as error:
        number = next(iter(error.args), signal.SIGINT)
        by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
        raise CommandError(
            f"interrupted{by}; {explain()}",
            error_type="interrupted",
            exit_code=_SIGNALLED + number,
        ) from None


def run_until_interrupted(
    command: Coroutine[Any, Any, int], *, log_level: int = logging.WARNING
) -> int:
    """Run a command that goes on until a signal: that is its usual end, and no error of it."""
    try:
        return run_async(command, log_level=log_level)
    except CommandError as error:
        if error.kind != "interrupted":
            raise
        return error.exit_code


async def serve_while_open(
    made: AbstractAsyncContextManager[ToolEngine],
    serve: Callable[[ToolEngine], Awaitable[object]],
) -> None:
    """Serve an engine while it is open; a second signal leaves its calls no more time.

    From the first one on it begins no task: that might be cut off in the middle of its work.
    """
    import asyncio

    from msgspec.structs import replace

    task: Any = asyncio.current_task()
    served: list[ToolEngine] = []

    def rest() -> None:
        if served:
            served[0].tasks.rest()

    def hurry() -> None:
        if served:
            # What waits in line would take the places of what ends, where it cannot be held up.
            with contextlib.suppress(Exception):
                served[0].controller.pause()
            served[0]._pipeline.abort()  # noqa: SLF001 - as its closing does, when its time is over
            # What takes no cancelling keeps its slot, for which its closing would wait.
            served[0].config = replace(served[0].config, close_timeout=0.1)
        if is_serving:
            task.cancel()

    is_serving = True
    with _hear_signals(rest, hurry):
        async with made as engine:
            served.append(engine)
            try:
                await serve(engine)
            finally:
                # From here on it closes, which is not to be cancelled: its tasks are written.
                is_serving = False


@contextlib.contextmanager
def waits_for(engine: ToolEngine) -> Iterator[None]:
    """Have an engine's calls named where Ctrl-C does not end them within a second."""
    _open.append(engine)
    try:
        yield
    finally:
        _open.remove(engine)


def _say_what_is_left() -> None:
    """Say what a command waits for after Ctrl-C."""
    from tool_engine.cli.console import safe_text

    pipelines = [engine._pipeline for engine in _open]  # noqa: SLF001 - as above
    names = sorted({call.tool_name for each in pipelines for call, *_ in each.present})
    what = f"the call of {', '.join(names)}" if names else "what was begun"
    # Where no message can be written, as to a closed terminal, it ends as it would have.
    with contextlib.suppress(OSError):
        sys.stderr.write(
            safe_text(f"waiting for {what} to end; Ctrl-C again ends it at once") + "\n"
        )
        sys.stderr.flush()


@contextlib.contextmanager
def _hear_signals(rest: Callable[[], object], hurry: Callable[[], object]) -> Iterator[None]:
    """Have a signal call `rest`, and a second one `hurry`, which ends what the first lets end.

    A third one cuts off. What must be written, such as how tasks have ended, has some seconds.
    """
    _heard_by.append((rest, hurry))
    try:
        yield
    finally:
        _heard_by.remove((rest, hurry))


def _hand_signal(count: int) -> bool:
    """Let what hears signals know of the first or second one; True: that is enough for now."""
    for each in _heard_by if count <= _SECOND else ():
        each[count - 1]()
    return count == _SECOND and bool(_heard_by)


def hurry_after_signal(loop: asyncio.AbstractEventLoop, again: Callable[[], object]) -> None:
    """After a second signal, or at the end, call `again` if the cancellation takes long.

    What is left behind then, such as a call in a thread, is not reported.
    """
    loop.call_later(_PATIENCE, again)
    loop.set_exception_handler(lambda *_: None)
    # Nor what is collected with the interpreter, long after the loop: it would close its engine.
    atexit.register(setattr, sys, "unraisablehook", lambda *_: None)


class _LeftBehindError(SystemExit):
    """A command has ended, and what a tool has left in its loop has not."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


async def _run_interruptible(command: Coroutine[Any, Any, int]) -> int:
    import asyncio

    # asyncio's own handler cancels wherever the signal comes, in the middle of a callback too,
    # which then reports that it lost its future. A second Ctrl-C waits for nothing.
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[signal.Signals] = []

    def interrupt(number: signal.Signals) -> None:
        came.append(number)
        if came == [signal.SIGINT]:
            loop.call_later(_SILENCE, _say_what_is_left)
        if _hand_signal(len(came)):
            loop.call_later(_LAST_PATIENCE, interrupt, number)
            return
        if len(came) > 1:
            hurry_after_signal(loop, partial(interrupt, number))
        if len(came) > 1 or task is None or not task.cancel():
            raise KeyboardInterrupt(came[0])

    with contextlib.ExitStack() as heard:
        # An ignored signal stays ignored, as under `nohup`.
        ends = [each for each in _ENDS if signal.getsignal(each) is signal.SIG_DFL]
        try:
            for number in (signal.SIGINT, *ends):
                loop.add_signal_handler(number, interrupt, number)
                heard.callback(loop.remove_signal_handler, number)
        except (NotImplementedError, RuntimeError, ValueError):
            # Other systems, and other threads than the main one, have only asyncio's way.
            return await command
        try:
            exit_code = await command
        except asyncio.CancelledError:
            if came:
                _leave_behind(loop, KeyboardInterrupt(came[0]))
                raise KeyboardInterrupt(came[0]) from None
            raise
        _leave_behind(loop, _LeftBehindError(exit_code))
        return exit_code


def _leave_behind(loop: asyncio.AbstractEventLoop, end: BaseException) -> None:
    """Have `end` raised if a task takes no cancelling, for which `asyncio.run` waits for ever."""
    import asyncio

    def leave() -> None:
        raise end

    if len(asyncio.all_tasks()) > 1:
        hurry_after_signal(loop, leave)
