"""Which databases do SQL tools use during a test?

Each one that a test prepares is a new SQLite file made by the test's script. The script is confined
to that file and to a few seconds: the author of a definition must not reach anything else on the
machine that tests it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.executors.sql.sql_executor import SQLExecutor
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.model.tool import Tool

_SECONDS: Final = 5.0
"""Seconds that all statements of one script may take together."""
_PAGE: Final = 4096
_MOST_PAGES: Final = 64 * 1024 * 1024 // _PAGE
_MOST_VALUE: Final = 1024 * 1024
_LONGEST_PATTERN: Final = 100
"""Characters of a LIKE: nothing stops SQLite while it compares one text."""
_STEPS: Final = 10_000
_REFUSED: Final = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_PRAGMA,
        sqlite3.SQLITE_CREATE_VTABLE,
        sqlite3.SQLITE_DROP_VTABLE,
        # The limit of the pages does not hold for these.
        sqlite3.SQLITE_CREATE_TEMP_TABLE,
        sqlite3.SQLITE_CREATE_TEMP_VIEW,
        sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_INDEX,
    }
)
_REFUSED_FUNCTIONS: Final = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
)


class ScratchSources:
    """The databases of one test, in their own folder. Methods block.

    Args:
        scripts: Maps the names of sources to SQL scripts.

    Raises:
        ToolExecutionError: A script is wrong, too slow, too large, or leads out of its database.
    """

    def __init__(self, scripts: Mapping[str, str]) -> None:
        # It goes with its last reference too, and at the end of the program.
        self._held = tempfile.TemporaryDirectory(
            prefix="tool-engine-test-", ignore_cleanup_errors=True
        )
        self.sources: dict[str, DatabaseSource] = {}
        """The sources for the executor."""
        try:
            for number, (name, script) in enumerate(scripts.items()):
                path = Path(self._held.name).resolve() / f"{number}.db"
                try:
                    _make_database(path, script)
                except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                    raise ToolExecutionError(f"sources.{name}: {_explain_error(error)}") from None
                self.sources[name] = DatabaseSource(url=f"sqlite:///{path.as_posix()}")
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the databases; idempotent."""
        self._held.cleanup()


class ScratchSQLExecutor:
    """Runs SQL tools in the databases of the running test.

    A test without databases reads from the sources of the engine, and writes nothing.

    Args:
        real: Queries the sources of the engine.
    """

    def __init__(self, real: ToolExecutor) -> None:
        self.real = real
        self._sources: ScratchSources | None = None
        self._executor = SQLExecutor()
        self.is_used = False
        """True if the test has used a database."""
        self.missing = ""
        """What must be installed before a database can be used."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Return the rows; see `SQLExecutor`.

        Raises:
            ToolExecutionError: The test has no such source, or the database refused the statement.
        """
        self.is_used = True
        entry = tool.implementation_config
        try:
            if self._sources is None:
                return await self._in_the_real_one(tool, params, context)
            if entry.get("source") not in self._sources.sources:
                raise ToolExecutionError(
                    f"the test has no source {entry.get('source')!r}, and the real one is not "
                    "used; add it to the test's sources"
                )
            return await self._executor.execute(tool, params, context)
        except MissingExtraError as error:
            self.missing = str(error)
            raise

    async def _in_the_real_one(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        name = tool.implementation_config.get("source")
        cure = f'give the test a database of its own: sources: {{{name}: "CREATE TABLE …"}}'
        if tool.implementation_config.get("readonly") is False:
            raise ToolExecutionError(
                f"the statement would write to the real source {name!r}, which a test leaves "
                f"alone; {cure}"
            )
        try:
            return await self.real.execute(tool, params, context)
        except ToolExecutionError as error:
            if str(error).startswith(f"the engine has no source {name!r}"):
                raise ToolExecutionError(f"{error}; or {cure}") from None
            raise

    async def use(self, sources: ScratchSources | None) -> None:
        """Close the databases of the last test, and use those of the next."""
        executor, self._sources = self._executor, sources
        self._executor = SQLExecutor(None if sources is None else sources.sources)
        self.is_used, self.missing = False, ""
        await executor.close()


def _make_database(path: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute(f"PRAGMA max_page_count = {_MOST_PAGES}")
        connection.execute("PRAGMA foreign_keys = 1")
        connection.execute("PRAGMA trusted_schema = 0")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LONGEST_PATTERN)
        end = monotonic() + _SECONDS
        connection.set_authorizer(_authorize_action)
        connection.set_progress_handler(lambda: monotonic() > end, _STEPS)
        # One transaction is one write to the disk; a script may still begin its own.
        connection.executescript(script)


def _authorize_action(action: int, _: str | None, name: str | None, *__: object) -> int:
    is_function = action == sqlite3.SQLITE_FUNCTION
    if action in _REFUSED or (is_function and str(name).lower() in _REFUSED_FUNCTIONS):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _explain_error(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        return f"the script runs for more than {_SECONDS:g} s; make less data"
    if code == sqlite3.SQLITE_FULL:
        return f"the database gets larger than {_MOST_PAGES * _PAGE >> 20} MiB; make less data"
    if code == sqlite3.SQLITE_AUTH:
        return f"the script may only make its own database: {error}"
    return f"SQLite refused the script: {error}"
