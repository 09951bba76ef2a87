"""Which calls were made, and what do they add up to?

`append` is on the path of every call and only hands over one entry; the rest happens on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from msgspec.structs import replace

from tool_engine.interfaces import ApprovalStorage, RecordStorage, SessionStorage
from tool_engine.interfaces.checking import check_part
from tool_engine.interfaces.failing_storage import ask_for_all, ask_for_one, ask_storage
from tool_engine.knowledge.entry import kept_record, secrets_of_kept
from tool_engine.knowledge.memory import MemoryStorage, storage_for
from tool_engine.knowledge.snapshot import bounded_text
from tool_engine.logger import get_logger
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.copying import copied_whole
from tool_engine.model.outcome import success_rate
from tool_engine.model.record import CallEntry, KeptCall, RecordQuery, ToolCallRecord
from tool_engine.model.settings.retention import RecordRetention
from tool_engine.model.statistics import (
    CallStatistics,
    RecordTotals,
    ToolCallSummary,
    sum_processes,
)
from tool_engine.redaction import redact_text, words_of

if TYPE_CHECKING:
    from tool_engine.config import ToolEngineConfig
    from tool_engine.interfaces.task_storage import TaskStorage
    from tool_engine.knowledge.memory_sessions import MemorySessionStorage

_log: Final = get_logger(__name__)
_KIND: Final = "record"
_LOG_EVERY: Final = 1_000


class RecordFilters(TypedDict, total=False):
    """The keywords of a query; left out or None matches all. See `RecordQuery`."""

    record_id: str | None
    call_id: str | None
    parent_call_id: str | None
    tool_name: str | None
    caller_id: str | None
    conversation_id: str | None
    workflow_id: str | None
    session_id: str | None
    task_id: str | None
    process: str | None
    origin: str | None
    is_success: bool | None
    error_type: str | None
    outcome: str | None
    min_execution_time: float | None
    start: datetime | None
    end: datetime | None
    limit: int | None
    offset: int
    before: str | None
    after: str | None
    oldest_first: bool


@copied_whole
class ToolKnowledgeStore(KnownArguments):
    """The records of finished calls, and the queries on them.

    Args:
        storage: Where records are kept; None: the newest 10,000 in memory.

    Raises:
        ConfigurationError: It is no storage of records.

    Example:
        >>> store = ToolKnowledgeStore(MemoryStorage(max_records=500))
        >>> failed = await store.get_failed(tool_name="http_request", limit=20)
    """

    def __init__(self, storage: RecordStorage | None = None) -> None:
        if storage is not None:
            check_part("storage", storage, RecordStorage)
        self.storage: RecordStorage = MemoryStorage() if storage is None else storage
        self.failed = 0
        """Calls that the storage refused to take, against its contract."""
        self._in_memory: Any = None
        self._tasks: Any = None
        self._add = self.storage.add
        if type(self.storage) is MemoryStorage:
            # It keeps its contract, so each call skips the watching step.
            self.append = self._add  # type: ignore[method-assign, assignment]

    def __repr__(self) -> str:
        return f"<ToolKnowledgeStore over {self.storage!r}, {self.failed} failed>"

    def append(self, entry: CallEntry) -> None:
        """Keep one finished call; never waits, never raises.

        A very long error message keeps its beginning; arguments and output are bounded already, by
        `take_snapshot`.
        """
        if entry.error is not None:
            entry.error = bounded_text(entry.error)
        try:
            self._add(entry)
        except BaseException as failure:  # a storage must not fail the call
            if ends_caller(failure):
                raise
            self._storage_failed(entry, failure)

    def add(self, record: ToolCallRecord) -> None:
        """Keep a record made elsewhere, copied and with secrets hidden."""
        self.storage.add(kept_record(record))

    async def query_call_records(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """Return the records that match every filter, newest first.

        All of them unless `limit` is given.

        Args:
            **filters: `tool_name`, `origin`, `conversation_id`, `session_id`, `task_id`,
                `process`, `caller_id`, `workflow_id`, `is_success`, `error_type`, `outcome`,
                `call_id`, `parent_call_id`, `record_id`; `min_execution_time` in seconds; `start`
                (included) and `end` (left out) for `created_at`; `limit` and `offset`; `before` and
                `after`, each a `record_id` to go on from; `oldest_first`.

        Raises:
            ConfigurationError: A limit or offset below 0, a duration that is no positive number, a
                time without a zone, an outcome that there is not, or `before` or `after` is no
                record's id.
            RecordsUnavailableError: The storage failed, or its database does not answer.
        """
        return list(await self._find_records(RecordQuery(**filters)))

    async def get_failed(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """Return the failed calls' records; filters as in `query_call_records`."""
        filters["is_success"] = False
        return await self.query_call_records(**filters)

    async def get(self, record_id: str) -> ToolCallRecord | None:
        """Return the record with this id, or None."""
        found = await self.query_call_records(record_id=record_id, limit=1)
        return found[0] if found else None

    async def get_whole(self, call_id: str) -> ToolCallRecord | None:
        """Return a call's record with its whole, uncut result; None: not kept.

        `"_truncated" in record.result` says that even here only the beginning was kept.
        """
        query = RecordQuery(call_id=call_id, limit=1, whole=True)
        found = await self._find_records(query)
        return found[0] if found else None

    async def get_tools_below(self, call_id: str) -> frozenset[str]:
        """Return the tools called by a call, directly or below, as far as kept."""
        names: set[str] = set()
        seen, left = {call_id}, [call_id]
        while left:
            query = RecordQuery(parent_call_id=left.pop())
            for record in await self._find_records(query):
                names.add(record.tool_name)
                if record.call_id is not None and record.call_id not in seen:
                    seen.add(record.call_id)
                    left.append(record.call_id)
        return frozenset(names)

    async def get_output(self, call_id: str) -> dict[str, Any] | None:
        """Return the whole output of a call, secrets hidden; None: no record is kept.

        It is what `result.metadata["cut"]` refers to: what the tool returned or, of a tool with
        `result.select`, what that picked.
        """
        record = await self.get_whole(call_id)
        return None if record is None else record.result

    async def get_call_summary(self, conversation_id: str) -> ToolCallSummary:
        """Return the totals of the kept calls of one conversation."""
        query = RecordQuery(conversation_id=conversation_id)
        totals = await ask_for_one(_KIND, self.storage, "totals", RecordTotals, query)
        totals = replace(totals, tool_usage=shown_usage(totals.tool_usage))
        return ToolCallSummary.from_totals(conversation_id, totals)

    async def get_call_statistics(
        self, *, by_process: bool = False, **filters: Unpack[RecordFilters]
    ) -> dict[str, Any]:
        """Return the totals of all kept calls, or of those that match the filters.

        Args:
            by_process: Whether to count each process's calls, too, under `by_process`: a database
                reads all of them for that.
            **filters: As in `query_call_records`.

        Returns:
            `total_records`, `success_count`, `failure_count`, `success_rate` (percent, two
            decimals), `avg_execution_time` and `total_execution_time` (seconds, four decimals),
            `tool_distribution` (calls per tool), `error_distribution` (failed calls per error
            type), `dropped_records` (calls that the storage had to let go, not counted here), and
            `outcomes`, `execution_time`, `queue_wait`, `by_tool` and `by_bucket` as in
            `CallStatistics`.
        """
        query = RecordQuery(**filters)
        found = await self._compute_statistics(query)
        succeeded = found.outcomes.get("succeeded", 0)
        return {
            "total_records": found.total,
            "success_count": succeeded,
            "failure_count": found.total - succeeded,
            "success_rate": success_rate(succeeded, found.total),
            "avg_execution_time": round(found.execution_time["avg"], 4),
            "total_execution_time": round(found.total_execution_time, 4),
            "tool_distribution": {name: each["total"] for name, each in found.by_tool.items()},
            "error_distribution": found.error_types,
            "dropped_records": await self._count_dropped(),
            "outcomes": found.outcomes,
            "execution_time": found.execution_time,
            "queue_wait": found.queue_wait,
            "by_tool": found.by_tool,
            "by_bucket": found.by_bucket,
            **({"by_process": await self._count_processes(query)} if by_process else {}),
        }

    async def prune(self, retention: RecordRetention | None = None) -> int:
        """Remove records that are not to be kept, in small steps, oldest first.

        Args:
            retention: Which records stay; None: as the setting `retention` says.

        Returns:
            How many were removed; 0 for a storage that bounds itself, as memory does.
        """
        if getattr(self.storage, "prune", None) is None:
            return 0
        return await ask_for_one(_KIND, self.storage, "prune", int, retention)

    @property
    def sessions(self) -> SessionStorage:
        """The kept conversations: in the records' database, if there is one."""
        found: SessionStorage | None = getattr(self.storage, "sessions", None)
        return self._memory_of_sessions() if found is None else found

    @property
    def approvals(self) -> ApprovalStorage:
        """The requests for consent and their answers, kept where the sessions are."""
        found: ApprovalStorage | None = getattr(self.storage, "approvals", None)
        return self._memory_of_sessions().approvals if found is None else found

    @property
    def tasks(self) -> TaskStorage:
        """The calls that outlive their caller: in the records' database, if there is one."""
        found: TaskStorage | None = getattr(self.storage, "tasks", None)
        if found is None:
            if self._tasks is None:
                # Loaded late: most engines have no tasks.
                self._tasks = import_module(
                    "tool_engine.knowledge.memory_tasks"
                ).MemoryTaskStorage()
            found = self._tasks
        return found

    async def open(self) -> None:
        """Let the storage connect; without this the first call does.

        Raises:
            ConfigurationError: The storage cannot be used; the message says why.
            MissingExtraError: The libraries of its database are not installed.
        """
        if getattr(self.storage, "open", None) is not None:
            await ask_storage(_KIND, self.storage, "open")

    def _memory_of_sessions(self) -> MemorySessionStorage:
        if self._in_memory is None:
            # Loaded late: most engines have no sessions.
            self._in_memory = import_module(
                "tool_engine.knowledge.memory_sessions"
            ).MemorySessionStorage()
        kept: MemorySessionStorage = self._in_memory
        return kept

    async def _count_dropped(self) -> int:
        dropped: int | None = getattr(self.storage, "dropped", None)
        if dropped is None:
            query = RecordQuery(limit=0)
            return (await ask_for_one(_KIND, self.storage, "totals", RecordTotals, query)).dropped
        return dropped

    async def _compute_statistics(self, query: RecordQuery) -> CallStatistics:
        if getattr(self.storage, "statistics", None) is None:
            return CallStatistics.of_records(await self._find_records(query), redact_text)
        return await ask_for_one(_KIND, self.storage, "statistics", CallStatistics, query)

    async def _count_processes(self, query: RecordQuery) -> dict[str, dict[str, Any]]:
        counts: Iterable[tuple[str | None, str, int]]
        if getattr(self.storage, "count_processes", None) is None:
            found = await self._find_records(query)
            counts = ((each.process, each.outcome.value, 1) for each in found)
        else:
            counts = await ask_for_all(_KIND, self.storage, "count_processes", tuple, query)
        return sum_processes(counts)

    async def close(self) -> None:
        """Let the storage write what is left and release its resources."""
        if getattr(self.storage, "close", None) is not None:
            await ask_storage(_KIND, self.storage, "close")

    async def _find_records(self, query: RecordQuery) -> Sequence[ToolCallRecord]:
        return await ask_for_all(_KIND, self.storage, "query", ToolCallRecord, query)

    def _storage_failed(self, entry: KeptCall, failure: BaseException) -> None:
        self.failed += 1
        if self.failed % _LOG_EVERY == 1:
            _log.error(
                "record_lost",
                tool_name=entry.tool_name,
                call_id=entry.call_id,
                error=words_of(failure, secrets_of_kept(entry)),
                lost=self.failed,
            )


def shown_usage(usage: Mapping[str, int]) -> dict[str, int]:
    """Return calls per tool, most used first, with secrets in names hidden.

    A name that no tool has is text that a model wrote; names that look alike when shown are counted
    as one.
    """
    shown: Counter[str] = Counter()
    for name, count in usage.items():
        shown[redact_text(name)] += count
    return dict(shown.most_common())


def checked_store(store: object, config: ToolEngineConfig) -> ToolKnowledgeStore:
    """Return the store of an engine; None: a new one, of the storage that the settings name.

    Raises:
        ConfigurationError: It is no store.
    """
    if store is None:
        return ToolKnowledgeStore(storage_for(config))
    check_object("store", store, ToolKnowledgeStore, "ToolKnowledgeStore(storage)")
    return cast("ToolKnowledgeStore", store)


class RecordsView:
    """The queries on finished calls, answered from `store`."""

    store: ToolKnowledgeStore

    async def query_call_records(self, **filters: Unpack[RecordFilters]) -> list[ToolCallRecord]:
        """Return records of finished calls, newest first; see `ToolKnowledgeStore`."""
        return await self.store.query_call_records(**filters)

    async def get_call_summary(self, conversation_id: str) -> ToolCallSummary:
        """Return the totals of one conversation's calls."""
        return await self.store.get_call_summary(conversation_id)

    async def get_call_statistics(self) -> dict[str, Any]:
        """Return the totals of all calls."""
        return await self.store.get_call_statistics()
