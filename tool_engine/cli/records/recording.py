"""Where are the command line's calls kept, and how read?

One SQLite file per tools folder, in the customary place for this user's state. A failure of it is
reported once and never fails a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from tool_engine.catalog.definition_files import find_target
from tool_engine.cli.broken import report_load_errors
from tool_engine.cli.console import safe_text
from tool_engine.cli.failures import EXIT_FAILED, CommandError
from tool_engine.cli.logs import hide_load_errors
from tool_engine.cli.settings import Settings
from tool_engine.cli.settings_file import NOWHERE
from tool_engine.cli.signals import waits_for
from tool_engine.cli.slow_servers import warn_of_slow_servers
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolEngineError
from tool_engine.events.memory import event_storage_for
from tool_engine.interfaces import ApprovalStorage, Approver, RecordStorage, SessionStorage
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.record import KeptCall, RecordQuery, ToolCallRecord
from tool_engine.model.settings.retention import RecordsURL

_SQLITE: Final = "sqlite:///"
_INTERVAL: Final = 0.5
_FLUSH_LIMIT: Final = 5.0
_CLOSE_LIMIT: Final = 2.0
"""Seconds that the end of a command may wait for a file that another process holds locked."""
_LIBRARIES: Final = ("sqlalchemy", "aiosqlite")
_INSTALL: Final = "run: pip install 'tool-engine[sql]'"


def records_place(settings: Settings) -> str | None:
    """Return the URL of the records' database; None: no records."""
    named = settings.records
    if named is None:
        path = _default_file(settings.tools)
        return None if path is None else f"{_SQLITE}{quote(str(path))}"
    if named == NOWHERE:
        return None
    if "://" not in named and not named.startswith("${"):
        raise CommandError(
            f"{settings.origin_of('records')} takes the URL of a database, such as "
            "sqlite:///calls.db, or none"
        )
    with settings.placed_errors():
        return RecordsURL(named)


def name_processes(settings: Settings) -> Callable[[str | None], str]:
    """Return what gives the name that lines show of a process; empty: it says nothing.

    Many share a server; of those that share a file on this machine, only given names say more
    than a number.
    """
    if (records_place(settings) or "").startswith("postgres"):
        return lambda process: process or "-"
    own = re.compile(re.escape(socket.gethostname()) + r"-\d+")
    return lambda process: "" if own.fullmatch(process or "") else process or ""


@contextlib.asynccontextmanager
async def recording_engine(
    settings: Settings,
    *,
    approver: Approver | None = None,
    is_server: bool = False,
    must_record: bool = False,
    prepare: Callable[[ToolEngine], object] | None = None,
    **changes: Any,
) -> AsyncIterator[ToolEngine]:
    """Open an engine on the tools folder, with recorded calls where possible.

    Args:
        settings: The global options.
        approver: Decides about calls of no session.
        is_server: Whether it reads what other processes have recorded, and must record.
        must_record: Whether it is of no use where the database that is named cannot be used.
        prepare: Gets the engine before it loads: tasks that were queued begin with that.
        changes: Fields of `ToolEngineConfig`.

    Raises:
        CommandError: It must record, and cannot.
    """
    # What other programs have left is theirs to run, unless a command is for that.
    config = settings.engine_config(**{"run_tasks": False, **changes})
    place = records_place(settings)
    is_named = settings.records is not None
    storage = None
    if place is not None:
        try:
            storage = await _open_storage(place, None if is_server else config.max_records)
        except CommandError as error:
            if is_named and (is_server or must_record):
                raise
            if is_named or error.kind != "missing_extra":
                sys.stderr.write(f"warning: {safe_text(str(error))}\n")
    store = None if storage is None else ToolKnowledgeStore(storage)
    # In memory they cost a third of what they do there: a default file is for records alone.
    kept = event_storage_for(config, place) if is_named and is_server else None
    engine = ToolEngine(config, store=store, approver=approver, event_storage=kept)
    if prepare is not None:
        prepare(engine)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(waits_for(engine))
        with hide_load_errors() as found, warn_of_slow_servers(engine):
            await stack.enter_async_context(engine)
        report_load_errors(settings, engine, found.count("workflow_finding"))
        yield engine


@contextlib.asynccontextmanager
async def open_records(
    settings: Settings, *, may_be_missing: bool = True, stays_with_file: bool = False
) -> AsyncIterator[ToolKnowledgeStore]:
    """Open the records of earlier calls, or of other programs.

    Args:
        settings: The global options.
        may_be_missing: Whether a missing file means that there are no records.
        stays_with_file: Whether the present file is read even after its replacement.

    Raises:
        CommandError: None are kept, or a library to read them is not installed.
        RecordsUnavailableError: The database does not answer.
    """
    place = records_place(settings)
    if place is None:
        raise CommandError(
            "there are no records: they are kept nowhere; name their database with --records URL "
            "or the variable TOOL_ENGINE_RECORDS",
            error_type="no_records",
        )
    if not _has_libraries():
        raise CommandError(
            f"records need the extra sql; {_INSTALL}",
            error_type="missing_extra",
            exit_code=EXIT_FAILED,
        )
    path = _file_of(place)
    if path is not None and not await asyncio.to_thread(path.exists):
        if settings.records is not None:
            raise CommandError(
                f"there is no file {str(path)!r}, which {settings.origin_of('records')} names; "
                "a call that is recorded there makes it",
                error_type="no_records",
            )
        if may_be_missing:
            yield ToolKnowledgeStore(MemoryStorage())
            return
    store = ToolKnowledgeStore(_sql_storage(place, stays_with_file=stays_with_file))
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def open_events(settings: Settings) -> AsyncIterator[Any]:
    """Open an `EventReader` of the events beside the records.

    `open_records` has checked that the settings name a database.
    """
    module = import_module("tool_engine.knowledge.sql.event_reader")
    reader = module.EventReader(records_place(settings))
    try:
        yield reader
    finally:
        await reader.close()


async def newest_records(settings: Settings, query: RecordQuery) -> list[ToolCallRecord]:
    async with open_records(settings) as store:
        return list(reversed(await store.storage.query(query)))


async def records_file(settings: Settings) -> tuple[int, int] | None:
    """Return the records' present file; None for a server or no file."""
    path = _file_of(records_place(settings) or "")
    if path is None:
        return None
    try:
        found = await asyncio.to_thread(path.stat)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


async def records_written(engine: ToolEngine) -> None:
    """Wait until all calls are written, or for a time limit."""
    flush = getattr(engine.store.storage, "flush", None)
    if flush is not None:
        await flush()


class _FileRecords:
    """Keeps calls in a SQLite file and in memory.

    Writing needs no library; loading those for questions takes longer than most calls.
    """

    def __init__(self, url: str, max_records: int) -> None:
        writing = import_module("tool_engine.knowledge.sql.writing.sqlite")
        address = import_module("tool_engine.knowledge.sql.connection.address").Address.of(url)
        writer = import_module("tool_engine.knowledge.sql.writing.writer")
        self._busy = import_module("tool_engine.knowledge.sql.database_errors").BusyError
        memory = MemoryStorage(max_records)
        self._remember = memory.add
        self.query, self.totals = memory.query, memory.totals
        self._database = writing.SQLiteDatabase(address, is_synchronous=False)
        self._writer = writer.RecordWriter(self._database, _INTERVAL)
        self._write = self._writer.buffer.add
        # The modules of sessions are loaded when the first session needs them.
        opening = import_module("tool_engine.knowledge.sql.connection.opening")
        self._kept = opening.LazyDatabase(url, is_synchronous=False)

    @property
    def sessions(self) -> SessionStorage:
        kept: SessionStorage = import_module(
            "tool_engine.knowledge.sql.sql_sessions"
        ).SQLSessionStorage(self._kept)
        return kept

    @property
    def approvals(self) -> ApprovalStorage:
        module = import_module("tool_engine.knowledge.sql.sql_approvals")
        kept: ApprovalStorage = module.SQLApprovalStorage(self._kept)
        return kept

    @property
    def tasks(self) -> TaskStorage:
        kept: TaskStorage = import_module("tool_engine.knowledge.sql.sql_tasks").SQLTaskStorage(
            self._kept
        )
        return kept

    def add(self, kept: KeptCall) -> None:
        self._remember(kept)
        self._write(kept)

    async def open(self) -> None:
        # A process that holds it locked may release it before the calls have ended.
        with contextlib.suppress(self._busy):
            await self._database.open()

    async def flush(self, timeout: float = _FLUSH_LIMIT) -> bool:  # noqa: ASYNC109 - returns in time
        return bool(await self._writer.flush(timeout))

    async def close(self) -> None:
        await self._writer.close(_CLOSE_LIMIT)
        await self._kept.finish(_CLOSE_LIMIT)
        await self._kept.close()


async def _open_storage(place: str, max_records: int | None) -> RecordStorage:
    """Open what keeps calls; with `max_records` a file is read only as far as it is written here.

    Raises:
        CommandError: Nothing is kept there.
    """
    if not _has_libraries():
        raise CommandError(
            f"calls are not recorded: records need the extra sql; {_INSTALL}",
            error_type="missing_extra",
            exit_code=EXIT_FAILED,
        )
    try:
        if max_records is None or _file_of(place) is None:
            storage: Any = await asyncio.to_thread(_sql_storage, place)
        else:
            storage = await asyncio.to_thread(_FileRecords, place, max_records)
        await storage.open()
    except Exception as error:
        raise CommandError(
            f"calls are not recorded: {_explain_error(error)}; name another database with "
            "--records URL, or none",
            error_type="records_unavailable",
            exit_code=EXIT_FAILED,
        ) from error
    opened: RecordStorage = storage
    return opened


def _sql_storage(place: str, *, stays_with_file: bool = False) -> RecordStorage:
    module = import_module("tool_engine.knowledge.sql.storage")
    storage: RecordStorage = module.SQLRecordStorage(place, stays_with_file=stays_with_file)
    return storage


def _has_libraries() -> bool:
    return all(find_spec(name) is not None for name in _LIBRARIES)


def _explain_error(error: Exception) -> str:
    if isinstance(error, ToolEngineError):
        return str(error)
    explained = import_module("tool_engine.knowledge.sql.connection.address").explain_error
    text: str = explained(error)
    return text


def _file_of(place: str) -> Path | None:
    if not place.startswith(_SQLITE):
        return None
    return Path(unquote(place.removeprefix(_SQLITE))).expanduser()


def _default_file(tools: str) -> Path | None:
    """Return the file for a tools folder; None without a home."""
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME"
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():
        try:
            home = Path.home()
        except RuntimeError:
            return None
        mac = sys.platform == "darwin"
        base = home / ("Library/Application Support" if mac else ".local/state")
    folder = Path(find_target(tools))
    # The name is for people, the digest distinguishes folders of one name.
    project = folder.parent if folder.name == "tools" else folder
    name = re.sub(r"[^\w.-]+", "_", project.name, flags=re.ASCII)[:40] or "calls"
    digest = hashlib.sha256(os.fsencode(str(folder))).hexdigest()[:12]
    return base / "tool-engine" / f"{name}-{digest}.db"
