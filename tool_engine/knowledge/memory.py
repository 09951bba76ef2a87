"""How are records kept in memory, and when are they kept elsewhere?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from tool_engine.config import DEFAULT_MAX_RECORDS, ToolEngineConfig
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.cursor import no_such_record
from tool_engine.knowledge.entry import bound_entry, record_of
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.json.copying import copied_whole
from tool_engine.model.record import CallEntry, KeptCall, RecordQuery, ToolCallRecord, is_own_id
from tool_engine.model.statistics import CallStatistics, RecordTotals
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact_text

_STEP: Final = 128
"""Entries checked before other tasks get a chance to run."""
_SLOW: Final = 16_384
"""Bytes from which a record is made in a thread: hiding its secrets takes long."""
_LARGE: Final = 4_096
"""Bytes from which a snapshot counts against `max_bytes`."""
SMALL: Final = _LARGE
"""Bytes of arguments and result together up to which a call is kept as a `PlainEntry`."""


CallerFacts: TypeAlias = tuple[str | None, str, str | None, str | None, str | None, str | None]
"""What a record says of who called: as the fields of `CallEntry`, from `caller_id` on."""


class PlainEntry(msgspec.Struct, gc=False):
    """A call that succeeded without special rules: a third of its `CallEntry`."""

    params: bytes
    result: bytes
    execution_time: float
    date: datetime
    after: float
    call_id: str
    facts: dict[str, Any]
    tool: Tool
    serial: int
    caller: CallerFacts | None = None
    """Who called; None: it came without a context."""
    queue_wait: float = 0.0

    @property
    def record_id(self) -> str:
        return self.complete().record_id

    def complete(self) -> CallEntry:
        """Return the whole entry; what is left out has its usual value."""
        entry = CallEntry(
            self.tool.name,
            self.params,
            self.result,
            self.execution_time,
            self.date,
            self.after,
            self.call_id,
            self.facts,
            self.tool,
            self.serial,
            self.tool.concurrency.priority,
            queue_wait=self.queue_wait,
        )
        if self.caller is not None:
            (
                entry.caller_id,
                entry.caller_type,
                entry.conversation_id,
                entry.workflow_id,
                entry.parent_call_id,
                entry.session_id,
            ) = self.caller
        return entry


_Kept: TypeAlias = KeptCall | PlainEntry


@copied_whole
class MemoryStorage(KnownArguments):
    """Keeps the newest records in memory; the oldest go first.

    Args:
        max_records: The most records that are kept.
        max_bytes: About the most bytes that their arguments and outputs take.

    Raises:
        ConfigurationError: A bound that is not a whole number of 1 or more.

    Example:
        >>> store = ToolKnowledgeStore(MemoryStorage(max_records=500))
    """

    def __init__(
        self, max_records: int = DEFAULT_MAX_RECORDS, *, max_bytes: int = 268_435_456
    ) -> None:
        _check_bound("max_records", max_records)
        _check_bound("max_bytes", max_bytes)
        self.max_records = max_records
        self.max_bytes = max_bytes
        self._kept: deque[_Kept] = deque(maxlen=max_records)
        self.keep_small = self._kept.append
        """Keeps a call of at most `SMALL` bytes, which its caller counts in `added`."""
        self.added = 0
        """Records that were added since the storage was made."""
        self._unweighed = 0

    @property
    def dropped(self) -> int:
        """Records dropped since the storage was made."""
        return self.added - len(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<MemoryStorage {len(self._kept)}/{self.max_records} kept, {self.dropped} dropped>"

    def add(self, kept: KeptCall) -> None:
        """Take one call; drop the oldest where a bound is passed."""
        self.added += 1
        self.keep_small(kept)
        # Only snapshots count as large: a dict's length is its number of keys.
        is_large = len(kept.result) > _LARGE or len(kept.params) > _LARGE
        if is_large or kept.error is not None or kept.whole is not None:
            if type(kept) is CallEntry:
                bound_entry(kept)
            self._weigh_entry(kept)

    async def query(self, query: RecordQuery) -> list[ToolCallRecord]:
        """Return the matching records, newest first."""
        records: list[ToolCallRecord] = []
        if query.limit == 0:
            return records
        skip = query.offset
        async for kept in self._find_matching(query):
            if skip:
                skip -= 1
                continue
            if _estimate_size(kept) > _SLOW:
                records.append(await asyncio.to_thread(record_of, kept, whole=query.whole))
            else:
                records.append(record_of(kept, whole=query.whole))
            if len(records) == query.limit:
                break
        return records

    async def totals(self, query: RecordQuery) -> RecordTotals:
        """Return the totals of the matching records; limit and offset do not count."""
        matching = [kept async for kept in self._find_matching(query)]
        return RecordTotals.of(matching, dropped=self.dropped)

    def _weigh_entry(self, kept: KeptCall) -> None:
        # Small entries are bounded by their number. Adding all up now and then instead of on every
        # call lets the bound be passed by at most a sixteenth.
        self._unweighed += _estimate_size(kept)
        if self._unweighed <= self.max_bytes // 16:
            return
        self._unweighed = 0
        surplus = sum(map(_estimate_size, self._kept)) - self.max_bytes
        while surplus > 0:
            surplus -= _estimate_size(self._kept.popleft())

    async def statistics(self, query: RecordQuery) -> CallStatistics:
        """Return how the matching records ended, and how long they took."""
        matching = [kept async for kept in self._find_matching(query)]
        return CallStatistics.of_records(matching, redact_text)

    async def _find_matching(self, query: RecordQuery) -> AsyncIterator[KeptCall]:
        """Return matching entries of one moment in order, letting other tasks run."""
        for position, kept in enumerate(_order_entries(self._kept.copy(), query), start=1):
            call = kept.complete() if isinstance(kept, PlainEntry) else kept
            if query.matches(call):
                yield call
            if position % _STEP == 0:
                await asyncio.sleep(0)


def _order_entries(kept: Sequence[_Kept], query: RecordQuery) -> Iterable[_Kept]:
    """Return the entries between the records that the query names."""
    first, end = 0, len(kept)
    if query.after is not None:
        first = _find_place(kept, "after", query.after) + 1
    if query.before is not None:
        end = max(_find_place(kept, "before", query.before), 0)
    found = list(islice(kept, first, end))
    return found if query.oldest_first else reversed(found)


def storage_for(config: ToolEngineConfig) -> RecordStorage:
    """Return the storage that the settings name, not yet opened."""
    if config.records is None:
        return MemoryStorage(config.max_records)
    # Loaded late: most engines keep their records in memory.
    module = import_module("tool_engine.knowledge.sql.storage")
    storage: RecordStorage = module.SQLRecordStorage(
        config.records, durability=config.durability, retention=config.retention
    )
    return storage


def _find_place(kept: Sequence[_Kept], field: str, record_id: str) -> int:
    """Return a record's position; -1 if it is gone, being older than all others."""
    for place, each in enumerate(reversed(kept), start=1):
        if each.record_id == record_id:
            return len(kept) - place
    if is_own_id(record_id):
        return -1
    raise no_such_record(field, record_id)


def _estimate_size(kept: _Kept) -> int:
    if isinstance(kept, PlainEntry):
        return len(kept.params) + len(kept.result)
    if not isinstance(kept, CallEntry):
        return 0
    more = 0 if kept.secrets is None else kept.secrets.size
    return len(kept.params) + len(kept.result) + len(kept.whole or b"") + more


def _check_bound(name: str, bound: object) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:
        raise ConfigurationError(f"{name} must be a whole number >= 1, got {bound!r}")
