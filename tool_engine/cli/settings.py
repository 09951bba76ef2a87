"""What do the global options say, and which folder of tools follows from them?"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tool_engine.cli.failures import EXIT_INTERRUPTED, CommandError

if TYPE_CHECKING:
    from tool_engine.config import ToolEngineConfig

__all__ = ["DEFAULT_TOOLS", "Settings", "hurry", "put_first", "run_async"]

DEFAULT_TOOLS = "tools"
_ENDS: Final[list[signal.Signals]] = [
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Not every system has both."""
_PATIENCE: Final = 1.0
"""Seconds that anything may still take after a second signal."""
_SIGNALLED: Final = EXIT_INTERRUPTED - signal.SIGINT
"""What shells add to a signal's number in the exit code of what it ended."""


class Settings(NamedTuple):
    """The global options."""

    chosen: str | None = None
    """The folder that somebody named, on the command line or in the environment."""
    is_recursive: bool = False
    sources: tuple[str, ...] = ()
    """The databases of SQL tools, as `NAME=URL`."""
    records: str | None = None
    """The database for records of calls that somebody named, or `none`."""
    path: str | None = None
    """The folder of the project's Python modules that somebody named."""

    @property
    def tools(self) -> str:
        """The folder to read, whether it exists or not."""
        return self.chosen or DEFAULT_TOOLS

    def folder(self) -> str:
        """The folder to read.

        Raises:
            CommandError: It is not there or not a folder; the message names the cure.
        """
        path = Path(self.tools)
        if path.is_dir():
            return self.tools
        state = "is not a folder" if path.exists() else "does not exist"
        raise CommandError(
            f"the tools folder {self.tools!r} {state}; name another with "
            "`tool-engine --tools DIR ...` or the variable TOOL_ENGINE_TOOLS",
            error_type="no_tools_folder",
        )

    @property
    def project(self) -> str:
        """The folder that Python modules of tools are imported from: above that of the tools."""
        return os.path.abspath(self.path or os.path.join(self.tools, os.pardir))  # noqa: PTH100, PTH118 - follows no link

    def engine_config(self, **changes: Any) -> ToolEngineConfig:
        """The configuration of an engine on the folder, which does not reload unless told to.

        Its tools find the modules of the project, as they do in a program that lies there.
        """
        from tool_engine.config import ToolEngineConfig

        put_first(self.project)
        fields: dict[str, Any] = {
            "auto_reload": False,
            "recursive": self.is_recursive,
            "lock": os.environ.get("TOOL_ENGINE_LOCK", "off"),
            "sources": dict(map(_source, self.sources)),
            **changes,
        }
        return ToolEngineConfig(tools_directory=self.folder(), **fields)


def put_first(folder: str) -> None:
    """Puts a folder first on Python's path, wherever it stood: what is approved is looked for so.

    Args:
        folder: Its absolute path.
    """
    sys.path[:] = [folder, *(each for each in sys.path if each != folder)]


def _source(text: str) -> tuple[str, str]:
    name, mark, url = text.partition("=")
    if not name or not mark:
        # Not the text: what was meant for a URL may hold a password.
        raise CommandError(
            "--source takes NAME=URL, such as shop=sqlite:///shop.db", error_type="usage_error"
        )
    return name, url


def run_async(command: Coroutine[Any, Any, int], *, log_level: int = logging.WARNING) -> int:
    """Runs a command's coroutine; Ctrl-C cancels it, and with it the running calls.

    So does whoever ends the process (SIGTERM) or closes its terminal (SIGHUP): programs that tools
    have started do not go on without it.

    Args:
        command: Returns the exit code.
        log_level: The least level of log lines that are printed, on stderr.

    Raises:
        CommandError: Ctrl-C was pressed, or the process was told to end.
    """
    from tool_engine.cli.logs import logs_on_stderr

    try:
        with logs_on_stderr(log_level):
            return asyncio.run(_interruptible(command))
    except KeyboardInterrupt as error:
        number = next(iter(error.args), signal.SIGINT)
        by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
        raise CommandError(
            f"interrupted{by}; the running calls were cancelled",
            error_type="interrupted",
            exit_code=_SIGNALLED + number,
        ) from None


def hurry(loop: asyncio.AbstractEventLoop, again: Callable[[], object]) -> None:
    """After a second signal: calls `again` if what asyncio cancels now takes longer than a moment.

    Nobody is told of what is left behind then, such as a call in a thread.
    """
    loop.call_later(_PATIENCE, again)
    loop.set_exception_handler(lambda *_: None)


async def _interruptible(command: Coroutine[Any, Any, int]) -> int:
    # asyncio's own handler cancels wherever the signal comes, in the middle of a callback too,
    # which then reports that it lost its future. A second Ctrl-C waits for nothing.
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[signal.Signals] = []

    def interrupt(number: signal.Signals) -> None:
        came.append(number)
        if len(came) > 1:
            hurry(loop, partial(interrupt, number))
        if len(came) > 1 or task is None or not task.cancel():
            raise KeyboardInterrupt(came[0])

    with contextlib.ExitStack() as heard:
        # What is ignored stays so, as under `nohup`.
        ends = [each for each in _ENDS if signal.getsignal(each) is signal.SIG_DFL]
        try:
            for number in (signal.SIGINT, *ends):
                loop.add_signal_handler(number, interrupt, number)
                heard.callback(loop.remove_signal_handler, number)
        except (NotImplementedError, RuntimeError, ValueError):
            # Another system, or another thread than the main one, has asyncio's way only.
            return await command
        try:
            return await command
        except asyncio.CancelledError:
            if came:
                raise KeyboardInterrupt(came[0]) from None
            raise
