"""How does a database keep records for an engine?

`SQLRecordStorage` takes calls at the cost of an append and answers queries; the libraries for the
database are loaded when it is opened.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.sql.connection.address import explain_error
from tool_engine.knowledge.sql.connection.opening import LazyDatabase
from tool_engine.knowledge.sql.schema.rows import record_of_row
from tool_engine.knowledge.sql.sql_approvals import SQLApprovalStorage
from tool_engine.knowledge.sql.sql_sessions import SQLSessionStorage
from tool_engine.knowledge.sql.sql_tasks import SQLTaskStorage
from tool_engine.knowledge.sql.writing.buffer import MOST_ENTRIES
from tool_engine.knowledge.sql.writing.writer import RecordWriter, Trouble
from tool_engine.logger import get_logger
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.setting_kinds import check_function, check_object, check_switch
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.record import RecordQuery, ToolCallRecord
from tool_engine.model.settings.retention import DURABILITIES, RecordRetention, RecordsURL
from tool_engine.model.statistics import CallStatistics, RecordTotals

_log: Final = get_logger(__name__)
_INTERVALS: Final = {"buffered": 0.5, "batch": 0.02, "call": 0.0}
"""Seconds that a call waits for others to be written with it."""
_SOON: Final = 2.0
"""Seconds that a query waits for the newest calls to be written."""
_CLOSE_LIMIT: Final = 5.0


@refuse_copying("open the same address again")
class SQLRecordStorage:
    """Keeps records in a SQLite file or a PostgreSQL database.

    Args:
        url: `sqlite:///calls.db` or `postgresql://user:${env:PASSWORD}@host/records`.
        durability: `buffered`, `batch` or `call`; see the setting `durability`.
        retention: Which records are kept; None: all.
        on_trouble: Called with the name and the fields of each line that the storage logs.
        stays_with_file: Whether questions go on being asked of the file that was opened first, when
            it was deleted or replaced: to read the last that was written to it.

    Raises:
        ConfigurationError: The URL is wrong, or there is no such durability.

    Example:
        >>> store = ToolKnowledgeStore(SQLRecordStorage("sqlite:///calls.db"))
    """

    def __init__(
        self,
        url: str,
        *,
        durability: str = "buffered",
        retention: RecordRetention | None = None,
        on_trouble: Trouble | None = None,
        stays_with_file: bool = False,
    ) -> None:
        check_choice("durability", durability, DURABILITIES)
        check_switch("stays_with_file", stays_with_file)
        if retention is not None:
            check_object("retention", retention, RecordRetention, "RecordRetention(...)")
        if on_trouble is not None:
            check_function("on_trouble", on_trouble, "of what is wrong")
        self.url = RecordsURL(url)
        self.durability = durability
        self.retention = RecordRetention() if retention is None else retention
        self.on_trouble = on_trouble
        self._database = LazyDatabase(
            str(self.url), is_synchronous=durability == "call", stays_with_file=stays_with_file
        )
        self._writer = RecordWriter(self._database, _INTERVALS[durability], self._report_trouble)
        self._pruning: asyncio.Task[None] | None = None
        self._is_closed = False
        self.sessions = SQLSessionStorage(self._database)
        self.approvals = SQLApprovalStorage(self._database)
        """The requests for consent and their answers, in the same database."""
        self.add = self._writer.buffer.add
        """Take one call; never waits, never raises."""
        self.tasks = SQLTaskStorage(self._database, self.add)
        """The calls that outlive their caller, in the same database."""

    def __repr__(self) -> str:
        return f"<SQLRecordStorage {self.url!r} {self.durability}, {self._writer!r}>"

    @property
    def waiting(self) -> int:
        """Calls that are not in the database yet."""
        return self._writer.waiting

    @property
    def dropped(self) -> int:
        """Calls that were lost since the storage was made."""
        return self._writer.dropped

    async def open(self) -> None:
        """Connect, create and migrate the tables; wait for a server that starts later.

        Called by `ToolEngine.load`; without it the first call opens the database.

        Raises:
            ConfigurationError: The database cannot be used; the message says why.
            MissingExtraError: Its libraries are not installed.
        """
        problem = await self._database.start()
        if problem is not None:
            _log.warning(
                "records_unreachable",
                error=explain_error(problem),
                hint=f"the newest {MOST_ENTRIES:,} calls are kept in memory until it answers",
            )
        if self.retention.has_bounds and self._pruning is None:
            self._pruning = asyncio.create_task(self._keep_pruned(), name="tool-engine-retention")

    async def committed(self) -> bool:
        """Wait until every added call is committed.

        Returns:
            Whether they are; False at once while the database takes nothing, else after 5 seconds.
        """
        return await self._writer.committed()

    async def flush(self, timeout: float = _SOON) -> bool:  # noqa: ASYNC109 - it returns, in time
        """Write what waits; return whether it was written within `timeout` seconds."""
        return await self._writer.flush(timeout)

    async def query(self, query: RecordQuery) -> list[ToolCallRecord]:
        """Return the matching records, newest first.

        Raises:
            ConfigurationError: `before` or `after` names no record.
            RecordsUnavailableError: The database does not answer.
        """
        if query.limit == 0:
            return []
        async with self._hold_reader() as reader:
            query = await _load_queries().place_ids(reader, query)
            return list(await reader.made(_load_queries().select_records(query), record_of_row))

    async def totals(self, query: RecordQuery) -> RecordTotals:
        """Return the totals of the matching records; limit and offset do not count.

        Raises:
            ConfigurationError: `before` or `after` names no record.
            RecordsUnavailableError: The database does not answer.
        """
        async with self._hold_reader() as reader:
            rows = await _load_summing().read_totals(
                reader, await _load_queries().place_ids(reader, query)
            )
        usage: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        successful, seconds = 0, 0.0
        for tool, outcome, error_type, count, total, _ in sorted(rows, key=lambda row: -row[5]):
            usage[tool] += count
            seconds += total
            if outcome == "succeeded":
                successful += count
            else:
                errors[error_type or "unknown"] += count
        return RecordTotals(
            total=usage.total(),
            successful=successful,
            execution_time=seconds,
            tool_usage=dict(usage.most_common()),
            error_types=dict(errors.most_common()),
            dropped=self.dropped,
        )

    async def statistics(self, query: RecordQuery) -> CallStatistics:
        """Return outcomes and durations of matching records, ignoring limit and offset.

        Raises:
            ConfigurationError: `before` or `after` names no record.
            RecordsUnavailableError: The database does not answer.
        """
        async with self._hold_reader() as reader:
            query = await _load_queries().place_ids(reader, query)
            found: CallStatistics = await _load_summing().read_statistics(reader, query)
        return found

    async def count_processes(self, query: RecordQuery) -> list[tuple[str | None, str, int]]:
        """Return processes, outcomes, and how many matching calls had both.

        Raises:
            ConfigurationError: `before` or `after` names no record.
            RecordsUnavailableError: The database does not answer.
        """
        async with self._hold_reader() as reader:
            queries = _load_queries()
            query = await queries.place_ids(reader, query)
            (rows,) = await reader.rows(queries.count_processes(query))
        return [tuple(row) for row in rows]

    async def prune(self, retention: RecordRetention | None = None) -> int:
        """Remove the records that are not to be kept, in small steps.

        Old sessions go too where `max_session_age` says so, and requests that have expired.

        Args:
            retention: Which are; None: those of the storage's own setting.

        Returns:
            How many records were removed.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        from tool_engine.knowledge.sql.retention import prune_database

        async with self._hold_reader() as reader:
            address = self._database.address
            kind = "" if address is None else address.kind
            now = await self.approvals.learn_time()
            return await prune_database(reader, retention or self.retention, kind, now)

    async def removed_until(self) -> datetime | None:
        """Return when the newest removed record's call ended, or None.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        from tool_engine.knowledge.sql.retention import removed_until

        async with self._hold_reader() as reader:
            return await removed_until(reader)

    async def close(self) -> None:
        """Write what is left, for 5 seconds at most, and close the connections."""
        self._is_closed = True
        pruning, self._pruning = self._pruning, None
        if pruning is not None:
            pruning.cancel()
            await asyncio.wait([pruning])
        try:
            await self._writer.close(_CLOSE_LIMIT)
        finally:
            await self._database.finish(_CLOSE_LIMIT)

    @asynccontextmanager
    async def _hold_reader(self) -> AsyncIterator[Any]:
        """Yield the reading side once the newest calls are written or take too long."""
        if not self._is_closed:
            await self.tasks.records.settle(_SOON)
            await self._writer.flush(_SOON)
        async with self._database.asked() as reader:
            yield reader

    async def _keep_pruned(self) -> None:
        while True:
            try:
                removed = await self.prune()
                if removed:
                    _log.info("records_pruned", removed=removed)
            except RecordsUnavailableError as error:
                _log.warning("records_not_pruned", error=str(error))
            await asyncio.sleep(self.retention.interval)

    def _report_trouble(self, name: str, fields: dict[str, Any]) -> None:
        if self.on_trouble is not None:
            self.on_trouble(name, fields)


def _load_queries() -> Any:
    from tool_engine.knowledge.sql import queries

    return queries


def _load_summing() -> Any:
    from tool_engine.knowledge.sql import summing

    return summing
