"""What does a record of a call hold, and how are records queried and summed up?"""

from __future__ import annotations

import itertools
import os
import uuid
from datetime import datetime, timedelta
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice, check_count, check_share
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.data import Data
from tool_engine.model.outcome import Outcome, outcome_of_call
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY
from tool_engine.model.tool import Tool
from tool_engine.process_names import process_of

_MATCHED: Final = (
    "record_id",
    "call_id",
    "parent_call_id",
    "tool_name",
    "caller_id",
    "conversation_id",
    "workflow_id",
    "session_id",
    "task_id",
    "origin",
    "is_success",
    "error_type",
    "outcome",
)
_CHECKED: Final = frozenset(
    (*_MATCHED, "before", "after", "call_id_prefix", "process", "oldest_first", "whole")
) - {"is_success"}
"""The texts and switches of a query; each other field has a check of its own."""


serials: Final = itertools.count(1)
"""The numbers of this process's entries: `next(serials)` costs less than a method of it."""


@cache
def _id_prefix(process_id: int) -> str:
    """Return a prefix per process, so that a forked child does not repeat its parent's ids."""
    del process_id
    return str(uuid.uuid4())[:24]


def is_own_id(record_id: str) -> bool:
    """True if an entry of this process has, or had, this `record_id`."""
    return record_id.startswith(_id_prefix(os.getpid()))


AGENTS: Final = frozenset({"conversation_agent", "tool_sub_agent"})
"""The caller types whose `caller_id` is that of an agent."""


class _RecordFields(msgspec.Struct, Data, frozen=True):
    """The fields of the founding document, in its order."""

    record_id: str
    tool_name: str
    params: dict[str, Any]
    result: dict[str, Any]
    execution_time: float
    is_success: bool
    error: str | None
    caller_id: str | None
    caller_type: str
    conversation_id: str | None
    workflow_id: str | None
    created_at: datetime
    """When the call ended, UTC."""


class ToolCallRecord(_RecordFields, frozen=True, kw_only=True):
    """One finished call, with secrets hidden."""

    call_id: str | None = None
    parent_call_id: str | None = None
    error_type: str | None = None
    reached_executor: bool = True
    """False for a call that ended before its tool ran: unknown, refused, rejected."""
    tool_version: str | None = None
    definition_hash: str | None = None
    bucket: str | None = None
    queue_wait: float = 0.0
    """Seconds between asking for a slot and having it."""
    attempts: int = 1
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    """How many units of the limits the call took."""
    generation: int | None = None
    """The generation of definitions that the call saw."""
    key: str | None = None
    """The key, such as a conversation, whose slots the call shared where keys are limited."""
    result_size: int | None = None
    """Bytes of the whole result, as far as it was kept, in MessagePack."""
    agent_id: str | None = None
    """The caller, where that is an agent."""
    session_id: str | None = None
    task_id: str | None = None
    """The task that made the call, or a call above it."""
    origin: str | None = None
    """Where its tool came from: `code`, `file:` and a path, or the name of an added source."""
    process: str | None = None
    """The process whose engine made the call; None: that is not known."""
    decided_by: str | None = None
    """Who allowed or refused the call, where it needed consent; None: no one was asked, or said
    anything. `rule:` and its text, and `policy`, stand for what no person decided."""
    whole: ClassVar[None] = None

    @property
    def outcome(self) -> Outcome:
        """Which of the five outcomes the call had."""
        return outcome_of_call(self.is_success, self.error_type)

    @property
    def started_at(self) -> datetime:
        """When its tool began to run, UTC; for a call that never ran, when it was refused."""
        return self.created_at - timedelta(seconds=self.execution_time)

    @property
    def enqueued_at(self) -> datetime:
        """When it asked for a slot, UTC."""
        return self.started_at - timedelta(seconds=self.queue_wait)


class CallEntry(msgspec.Struct, gc=False):
    """A finished call as the pipeline leaves it; becomes a record when it is read.

    `params` and `result` are snapshots (`tool_engine.knowledge.snapshot`), so that nothing that a
    caller or a tool changes afterwards changes what is kept. Secrets are still in them: only
    `tool_engine.knowledge.entry.record_of` may show an entry.
    """

    tool_name: str
    params: bytes
    result: bytes
    execution_time: float
    date: datetime
    """The start of the millisecond in which the call ended, or of a part of it."""
    after: float
    """Seconds from `date` until the call ended."""
    call_id: str | None
    facts: dict[str, Any] | None
    """Facts shared by all calls of a plan: `bucket`, `generation`; None without a plan."""
    tool: Tool | None
    """The definition that the call ran on, which names the secret parameters."""
    serial: int
    """Counts the entries of this process."""
    priority: int
    # What most calls have in common has its value here: to pass it on costs more than to keep it.
    is_success: bool = True
    error: str | None = None
    error_type: str | None = None
    reached_executor: bool = True
    queue_wait: float = 0.0
    attempts: int = 1
    key: str | None = None
    caller_id: str | None = None
    caller_type: str = "unknown"
    conversation_id: str | None = None
    workflow_id: str | None = None
    parent_call_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    decided_by: str | None = None
    whole: bytes | None = None
    """A snapshot of the output before its tool's `result` limits cut it, up to `MOST_KEPT` bytes;
    None where `result` says as much."""
    secrets: Any = None
    """Hides secrets in arguments of which `params` is only the beginning; None: it is all."""

    @property
    def created_at(self) -> datetime:
        return self.date + timedelta(seconds=self.after)

    @property
    def outcome(self) -> Outcome:
        return outcome_of_call(self.is_success, self.error_type)

    @property
    def bucket(self) -> str | None:
        return None if self.facts is None else self.facts["bucket"]

    @property
    def generation(self) -> int | None:
        return None if self.facts is None else self.facts["generation"]

    @property
    def origin(self) -> str | None:
        return None if self.tool is None else self.tool.origin

    @property
    def result_size(self) -> int:
        return len(self.result if self.whole is None else self.whole)

    @property
    def agent_id(self) -> str | None:
        return self.caller_id if self.caller_type in AGENTS else None

    @property
    def process(self) -> str | None:
        return process_of(self.call_id)

    @property
    def weight(self) -> int:
        return 1 if self.tool is None else self.tool.concurrency.weight

    @property
    def record_id(self) -> str:
        """The id of the record that the entry becomes; reads as a UUID."""
        return f"{_id_prefix(os.getpid())}{self.serial:012x}"


KeptCall: TypeAlias = CallEntry | ToolCallRecord
"""An entry of a storage: a call of this process, or a record made elsewhere."""


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True, metaclass=KnownFields):
    """Selects records; a field that is None matches all.

    Raises:
        ConfigurationError: A limit or offset below 0, a duration that is no positive number, or a
            time that names no zone.
    """

    record_id: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    tool_name: str | None = None
    caller_id: str | None = None
    conversation_id: str | None = None
    workflow_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    origin: str | None = None
    """Where the tool came from, such as `mcp:github`; see `Tool.origin`."""
    is_success: bool | None = None
    error_type: str | None = None
    outcome: str | None = None
    """`succeeded`, `failed`, `timeout`, `cancelled` or `rejected`."""
    min_execution_time: float | None = None
    """The least `execution_time`, in seconds, itself included; above 0."""
    start: datetime | None = None
    """The earliest `created_at`, itself included; with a time zone."""
    end: datetime | None = None
    """The latest `created_at`, itself left out, so that adjoining ranges share no record."""
    limit: int | None = None
    """The most records; None: all."""
    offset: int = 0
    """How many of the first records to skip."""
    before: str | None = None
    """A `record_id`: only records that stand before it, the older ones. To read page by page, ask
    for those before the last one of the page; what comes meanwhile moves nothing. A query for an id
    that no record has raises `ConfigurationError`, unless it is one that this storage gave a record
    that has been removed: before that there are none."""
    after: str | None = None
    """A `record_id`: only records that stand after it, the newer ones."""
    oldest_first: bool = False
    whole: bool = False
    """True for results as whole as they were kept, where a record shows only the beginning; of a
    tool with `select`, the selected part. Slower: for a few records."""
    process: str | None = None
    """The name of the process whose engine made them."""
    call_id_prefix: str | None = None
    """How the `call_id` begins."""

    def __post_init__(self) -> None:
        if self.limit is not None:
            check_count("limit", self.limit)
        check_count("offset", self.offset)
        if self.is_success is not None:
            check_switch("is_success", self.is_success)
        check_kinds(self, _CHECKED)
        if self.outcome is not None:
            check_choice("outcome", self.outcome, [each.value for each in Outcome])
        if self.min_execution_time is not None:
            check_share("min_execution_time", self.min_execution_time)
        _check_time("start", self.start)
        _check_time("end", self.end)
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ConfigurationError(
                f"start must not be after end: {self.start.isoformat()} > {self.end.isoformat()}"
            )

    @property
    def conditions(self) -> dict[str, Any]:
        """Return the fields that must be equal; times, durations, limit and offset left out."""
        return {name: value for name in _MATCHED if (value := getattr(self, name)) is not None}

    def matches(self, kept: KeptCall) -> bool:
        """True if a kept call is selected, limit and offset aside."""
        if self.start is not None and kept.created_at < self.start:
            return False
        if self.end is not None and kept.created_at >= self.end:
            return False
        least = self.min_execution_time
        if least is not None and kept.execution_time < least:
            return False
        if self.process is not None and kept.process != self.process:
            return False
        prefix = self.call_id_prefix
        if prefix is not None and not (kept.call_id or "").startswith(prefix):
            return False
        return all(getattr(kept, name) == value for name, value in self.conditions.items())


def _check_time(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigurationError(
            f"{name} must be a datetime with a time zone, such as datetime.now(UTC), got {value!r}"
        )
