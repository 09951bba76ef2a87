"""What replaces the outside world while a test runs?

Recorded answers and commands, a folder of its own for files, databases of its own for SQL. They are
set up for each test and removed after it, however it ends. Executors that the user's program
registered in place of built-in ones stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.command_executor import CommandExecutor
from tool_engine.executors.commands.shell import ShellExecutor
from tool_engine.executors.sql.sql_executor import SQLExecutor
from tool_engine.interfaces import ToolExecutor
from tool_engine.testing.exchanges import Recording
from tool_engine.testing.recorded_commands import (
    CommandRecording,
    RecordedCommandExecutor,
    RecordedShellExecutor,
)
from tool_engine.testing.recorded_http import RecordedHTTPExecutor
from tool_engine.testing.scratch import FILE_EXECUTORS, ScratchFolder
from tool_engine.testing.scratch_sources import ScratchSources, ScratchSQLExecutor


class _Removable(Protocol):
    def remove(self) -> None: ...


HeldT = TypeVar("HeldT", bound=_Removable)


class StandIns:
    """Replaces the executors of `engine` that reach out of the process.

    Args:
        engine: Used for tests alone.
    """

    def __init__(self, engine: ToolEngine) -> None:
        self._scratch: ScratchFolder | None = None
        self._http = RecordedHTTPExecutor()
        self._shell = RecordedShellExecutor()
        self._sql = ScratchSQLExecutor(
            _find_real(engine, "sql_query", SQLExecutor) or SQLExecutor()
        )
        self._commands: RecordedCommandExecutor | None = None
        engine.register_executor("http_request", self._http)
        for name, (kind, make) in FILE_EXECUTORS.items():
            if _find_real(engine, name, kind) is not None:
                engine.register_executor(name, make(lambda: self._scratch))
        if (real := _find_real(engine, "run_command", CommandExecutor)) is not None:
            self._commands = RecordedCommandExecutor(real)
            engine.register_executor("run_command", self._commands)
        if _find_real(engine, "run_shell_command", ShellExecutor) is not None:
            engine.register_executor("run_shell_command", self._shell)
        if _find_real(engine, "sql_query", SQLExecutor) is not None:
            engine.register_executor("sql_query", self._sql)

    @contextlib.asynccontextmanager
    async def of(self, case: Mapping[str, Any]) -> AsyncIterator[Scene]:
        """Set up what one test uses.

        Raises:
            ToolExecutionError: Its files or databases cannot be made.
        """
        async with contextlib.AsyncExitStack() as held:
            folder, sources = None, None
            if "files" in case or "expect_files" in case:
                folder = await _make_held(held, ScratchFolder, case.get("files", {}))
            if "sources" in case:
                sources = await _make_held(held, ScratchSources, case["sources"])
            held.push_async_callback(self._sql.use, None)
            await self._sql.use(sources)
            self._scratch = self._http.scratch = folder
            recording = self._http.recording = Recording(case.get("http", ()))
            commands = self._shell.recording = CommandRecording(case.get("command", ()))
            if self._commands is not None:
                self._commands.recording = commands
            yield Scene(case, recording, commands, folder, self._sql)


class Scene:
    """One running test: its stand-ins and what happened to them."""

    def __init__(
        self,
        case: Mapping[str, Any],
        http: Recording,
        commands: CommandRecording,
        folder: ScratchFolder | None,
        sql: ScratchSQLExecutor,
    ) -> None:
        self._case = case
        self._http, self._commands, self._folder, self._sql = http, commands, folder, sql

    @property
    def missing(self) -> str:
        """What must be installed before the test can run, or nothing."""
        return self._sql.missing

    @property
    def is_broken(self) -> bool:
        """True if the tool departed from the recording; then nothing else counts."""
        return self._http.is_broken or self._commands.is_broken

    async def problems(self, *, is_success: bool) -> list[str]:
        """Return where the tool's actions differ from the test."""
        found = self._http.problems + self._commands.problems
        if self.is_broken:
            return found
        if self._folder is not None:
            expected = self._case.get("expect_files", {})
            found = found + await asyncio.to_thread(self._folder.problems, expected)
        return [*found, *self._find_needless()] if is_success else found

    def _find_needless(self) -> Iterator[str]:
        """Yield what the test has prepared and a successful call did not use."""
        if self._folder is not None and not self._folder.is_used:
            key = "files" if "files" in self._case else "expect_files"
            yield (
                f"{key}: the tool used no folder; remove it: only the file tools of the engine, "
                "and save_to of an HTTP tool, see it"
            )
        if "sources" in self._case and not self._sql.is_used:
            yield "sources: the tool asked no database; remove it: only sql_query sees it"


async def _make_held(
    held: contextlib.AsyncExitStack, make: Callable[[Any], HeldT], given: Mapping[str, Any]
) -> HeldT:
    """Make an object in a thread; `held` removes it in another."""
    work = asyncio.get_running_loop().run_in_executor(None, make, given)
    # Before the first wait: a thread cannot be stopped, and what it makes must go.
    held.push_async_callback(_remove_made, work)
    await asyncio.wait([work])
    try:
        return work.result()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ToolExecutionError(f"what the test prepares cannot be made: {reason}") from None


async def _remove_made(work: asyncio.Future[HeldT]) -> None:
    try:
        await _wait_to_its_end(work)
    finally:
        if work.exception() is None:
            loop = asyncio.get_running_loop()
            removal = loop.run_in_executor(None, work.result().remove)
            await _wait_to_its_end(removal)
            removal.result()


async def _wait_to_its_end(work: asyncio.Future[Any]) -> None:
    """Wait for work in a thread; a cancellation is raised after its end."""
    cancellation = None
    while not work.done():
        try:
            # Neither cancels the work, which no thread may have begun yet, nor leaves it behind.
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation


def _find_real(engine: ToolEngine, name: str, kind: type[Any]) -> ToolExecutor | None:
    """Return the built-in executor of this name; None if the user replaced it."""
    found = engine._registry.get(name)  # noqa: SLF001 - no program has a use for it
    if isinstance(found, RecordedCommandExecutor | ScratchSQLExecutor):
        return found.real
    return found if isinstance(found, kind | RecordedShellExecutor) else None
