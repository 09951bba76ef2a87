"""What do the global options say, and which folder of tools follows?"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tool_engine.cli.failures import EXIT_INTERRUPTED, CommandError
from tool_engine.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio

    from tool_engine.catalog.kinds import ServerDefinition
    from tool_engine.cli.settings_file import SettingsFile
    from tool_engine.config import ToolEngineConfig

DEFAULT_TOOLS = "tools"
LOCK_VARIABLE: Final = "TOOL_ENGINE_LOCK"
_ENDS: Final[list[signal.Signals]] = [
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Not every system has both."""
CALLS_CANCELLED: Final = "the running calls were cancelled"
_PATIENCE: Final = 1.0
"""Seconds that a shutdown may still take after a second signal."""
_LAST_PATIENCE: Final = 5.0
"""Seconds that a server may still take after a second signal, to write how its tasks ended."""
_SECOND: Final = 2
_hurries: Final[list[Callable[[], object]]] = []
_SIGNALLED: Final = EXIT_INTERRUPTED - signal.SIGINT
"""Added by shells to a signal's number in the exit code of the process."""


VARIABLES: Final[Mapping[str, str]] = {
    "tools": "TOOL_ENGINE_TOOLS",
    "path": "TOOL_ENGINE_PATH",
    "records": "TOOL_ENGINE_RECORDS",
    "sources": "TOOL_ENGINE_SOURCES",
    "mcp_servers": "TOOL_ENGINE_MCP_CONFIG",
    "cluster": "TOOL_ENGINE_CLUSTER",
    "lock": LOCK_VARIABLE,
}
"""The variables of the environment, by the setting that each says."""
VARIABLE_PREFIX: Final = "TOOL_ENGINE_"
OPTIONS: Final[Mapping[str, str]] = {
    **{key: f"--{key}" for key in ("tools", "path", "records", "cluster")},
    "sources": "--source",
    "mcp_servers": "--mcp-config",
}
"""The options of all commands that say a setting."""


class Settings(NamedTuple):
    """The global options, and behind them the settings of the project."""

    chosen: str | None = None
    """The folder named on the command line or in the environment."""
    is_recursive: bool = False
    is_flat: bool = False
    """Whether sub-folders are left out, whatever the project's settings say."""
    sources: tuple[str, ...] = ()
    """The databases of SQL tools, as `NAME=URL`."""
    records: str | None = None
    """The database named for records of calls, or `none`."""
    cluster: str | None = None
    """The database named for limits that processes share, or `none`."""
    path: str | None = None
    """The named folder of the project's Python modules."""
    mcp_config: str | None = None
    """The named file of servers of tools, such as `.mcp.json`."""
    file: SettingsFile | None = None
    """The settings of the project, which hold where no option and no variable says more."""
    origins: Mapping[str, str] = {}
    """The option or the variable that says a setting, by its name."""

    def origin_of(self, key: str) -> str:
        """Return what says a setting: `--records`, `TOOL_ENGINE_RECORDS`, `tool-engine.toml:3`."""
        if key in self.origins:
            return self.origins[key]
        is_in_file = self.file is not None and key in self.file.values
        return self.file.place(key) if self.file is not None and is_in_file else ""

    @contextlib.contextmanager
    def placed_errors(self) -> Iterator[None]:
        """Have an error about a setting, which begins with its name, say what says it.

        Raises:
            CommandError: The block has raised a `ConfigurationError`.
        """
        try:
            yield
        except ConfigurationError as error:
            found = re.match(r"\w+", str(error))
            place = self.origins.get(found[0], "") if found is not None else ""
            text = f"{place}: {error}" if place else str(error)
            raise CommandError(text, error_type=error.error_type) from error

    @property
    def tools(self) -> str:
        """The folder to read, whether it exists or not."""
        return self.chosen or self.read_file("tools", DEFAULT_TOOLS)

    @property
    def mcp_servers(self) -> str | tuple[ServerDefinition, ...] | None:
        """The servers of tools: the path of a file, or what the project's settings define."""
        servers: str | tuple[ServerDefinition, ...] | None
        servers = self.mcp_config or self.read_file("mcp_servers")
        return servers

    @property
    def lock_file(self) -> str:
        """The lock file of the folder, whether it exists or not."""
        from tool_engine.catalog.approval.lock import default_lock_file

        return self.read_file("lock_file") or default_lock_file(self.tools)

    def read_file(self, key: str, default: Any = None) -> Any:
        """Return what the project's settings say, or else the default."""
        return default if self.file is None else self.file.values.get(key, default)

    def folder(self) -> str:
        """Return the folder to read."""
        path = Path(self.tools)
        if path.is_dir() or self.is_without_folder:
            return self.tools
        from tool_engine.named_file import explain_missing

        state = "is not a folder" if path.exists() else explain_missing(path)
        said = self.origin_of("tools")
        raise CommandError(
            f"{f'{said}: ' if said else ''}the tools folder {self.tools!r} {state}; name another "
            "with `tool-engine --tools DIR ...` or the variable TOOL_ENGINE_TOOLS, or begin a "
            "project with `tool-engine init`",
            error_type="no_tools_folder",
        )

    @property
    def is_without_folder(self) -> bool:
        """True if the tools of servers are all there is: no folder is named, and none is there."""
        is_named = self.chosen is not None or self.read_file("tools") is not None
        return self.mcp_servers is not None and not is_named and not Path(self.tools).exists()

    @property
    def project(self) -> str:
        """The folder that Python modules of tools are imported from."""
        return os.path.abspath(self.path or os.path.join(self.tools, os.pardir))  # noqa: PTH100, PTH118 - follows no link

    @property
    def lock(self) -> str:
        """`enforce` where only approved tools may be called."""
        lock: str = os.environ.get(LOCK_VARIABLE) or self.read_file("lock", "off")
        return lock

    def engine_config(self, **changes: Any) -> ToolEngineConfig:
        """Return the configuration of an engine on the folder, without automatic reload.

        Its tools find the modules of the project, as they do in a program in that folder.
        """
        from tool_engine.config import ToolEngineConfig

        put_first(self.project)
        fields = {**self.engine_fields(), **changes}
        with self.placed_errors():
            return ToolEngineConfig(tools_directory=self.folder(), **fields)

    def named_sources(self) -> dict[str, str]:
        """Return the databases that options or a variable name."""
        return dict(read_source(each, self.origin_of("sources")) for each in self.sources)

    @property
    def concurrency(self) -> dict[str, Any]:
        """The limits, with the database of the cluster that an option or a variable names."""
        from tool_engine.cli.settings_file import NOWHERE

        said = dict(self.read_file("concurrency", {}))
        if self.cluster == NOWHERE:
            said.pop("cluster", None)
        elif self.cluster is not None:
            said["cluster"] = {**(said.get("cluster") or {}), "url": self.cluster}
        return said

    def engine_fields(self) -> dict[str, Any]:
        """Return the fields of an engine's configuration that options and settings decide."""
        said = {} if self.file is None else self.file.engine_fields()
        if limits := self.concurrency:
            said["concurrency"] = limits
        else:
            said.pop("concurrency", None)
        return {
            "auto_reload": False,
            **said,
            "recursive": self.is_recursive,
            "lock": self.lock,
            "sources": {**said.get("sources", {}), **self.named_sources()},
            "mcp_servers": self.mcp_servers,
            # The records are opened by commands, which share them.
            "records": None,
        }


def put_first(folder: str) -> None:
    """Put an absolute folder first on Python's path, as approvals look there."""
    sys.path[:] = [folder, *(each for each in sys.path if each != folder)]


def read_source(text: str, origin: str = "--source") -> tuple[str, str]:
    """Return the name and the URL of a `--source`, or of what else says one."""
    name, mark, url = text.partition("=")
    if not name or not mark:
        # Not the text: what was meant for a URL may hold a password.
        raise CommandError(
            f"{origin} takes NAME=URL, such as shop=sqlite:///shop.db", error_type="usage_error"
        )
    return name, url


def run_async(
    command: Coroutine[Any, Any, int],
    *,
    log_level: int = logging.WARNING,
    explain: Callable[[], str] = lambda: CALLS_CANCELLED,
) -> int:
    """Run a command's coroutine; Ctrl-C cancels it and the running calls.

    So does the end of the process (SIGTERM) or of its terminal (SIGHUP): programs that tools have
    started do not go on without it. The coroutine returns the exit code; log lines from `log_level`
    on go to stderr. `explain` returns what has become of its work at such an end.

    Raises:
        CommandError: Ctrl-C was pressed, or a signal ended the process.
    """
    import asyncio

    from tool_engine.cli.logs import logs_on_stderr

    try:
        with logs_on_stderr(log_level):
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


@contextlib.contextmanager
def hurried_by(hurry: Callable[[], object]) -> Iterator[None]:
    """Have a second signal call `hurry`, which ends what the first one lets end; a third cuts off.

    What must be written, such as how tasks have ended, has some seconds for that.
    """
    _hurries.append(hurry)
    try:
        yield
    finally:
        _hurries.remove(hurry)


def hurry_after_signal(loop: asyncio.AbstractEventLoop, again: Callable[[], object]) -> None:
    """After a second signal, or at the end, call `again` if the cancellation takes long.

    What is left behind then, such as a call in a thread, is not reported.
    """
    loop.call_later(_PATIENCE, again)
    loop.set_exception_handler(lambda *_: None)


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
        if len(came) == _SECOND and _hurries:
            for hurry in _hurries:
                hurry()
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
