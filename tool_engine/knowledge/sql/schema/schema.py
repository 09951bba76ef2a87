"""Which tables does a database have, of which version, and how are they made?

Migrations are numbered by their place and append-only: a database that ran some of them gets the
others. Each statement may run again on a database that has its result already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from tool_engine.knowledge.sql.database_errors import UnusableDatabaseError
from tool_engine.knowledge.sql.schema.dialects import WORDS
from tool_engine.knowledge.sql.schema.task_tables import TASKS, TURNS

COLUMNS: Final = (
    "key",
    "record_id",
    "call_id",
    "parent_call_id",
    "tool_name",
    "definition_id",
    "generation",
    "outcome",
    "error_type",
    "reached_executor",
    "caller_id",
    "caller_type",
    "conversation_id",
    "workflow_id",
    "agent_id",
    "session_id",
    "task_id",
    "bucket",
    "admission_key",
    "priority",
    "weight",
    "attempts",
    "finished_at",
    "queue_wait",
    "execution_time",
    "wait_bin",
    "time_bin",
    "result_size",
    "error",
    "params",
    "result",
    "result_hash",
    "whole_hash",
    "decided_by",
)
"""The columns of `tool_calls`, in the order in which rows are written."""

IDENTITY: Final = ("key", "call_id", "finished_at", "tool_name", "params")
"""Columns that are equal in two rows of the same call."""
_IDENTITY_AT: Final = tuple(COLUMNS.index(name) for name in IDENTITY)

_TABLES: Final = (
    ("tool_engine_schema", "tool_definitions", "tool_values", "tool_calls"),
    ("tool_events", "tool_event_numbers"),
    ("tool_statistics",),
    ("tool_marks",),
    ("tool_sessions", "tool_approvals", "tool_decisions"),
    (),
    ("tool_standing",),
    (),
    ("tool_tasks", "tool_workers"),
    (),
    ("tool_event_lives",),
    ("tool_processes",),
    (),
    (),
    (),
    (),
)
"""What each migration adds."""
TABLES: Final = tuple(name for added in _TABLES for name in added)

HOUR: Final = 3_600_000_000
"""Microseconds in an hour of `tool_statistics`."""
EVER: Final = -(2**62)
"""Stands for all hours in a row of `tool_statistics`."""

FRESH: Final = 60
"""Seconds for which the `used_at` of a value in `tool_values` may lag."""

LOCK_NUMBER: Final = 0x746F6F6C
"""PostgreSQL's advisory lock under which migrations run."""

_CALLS: Final = """
CREATE TABLE IF NOT EXISTS tool_calls (
    key {key} PRIMARY KEY,
    record_id TEXT,
    call_id TEXT,
    parent_call_id TEXT,
    tool_name TEXT NOT NULL,
    definition_id {integer},
    generation {integer},
    outcome TEXT NOT NULL,
    error_type TEXT,
    reached_executor {boolean} NOT NULL,
    caller_id TEXT,
    caller_type TEXT NOT NULL,
    conversation_id TEXT,
    workflow_id TEXT,
    agent_id TEXT,
    session_id TEXT,
    bucket TEXT,
    admission_key TEXT,
    priority {integer} NOT NULL,
    weight {integer} NOT NULL,
    attempts {integer} NOT NULL,
    finished_at {integer} NOT NULL,
    queue_wait {real} NOT NULL,
    execution_time {real} NOT NULL,
    wait_bin {integer} NOT NULL,
    time_bin {integer} NOT NULL,
    result_size {integer},
    error TEXT,
    params TEXT NOT NULL,
    result TEXT,
    result_hash {bytes},
    whole_hash {bytes}
)
"""
_DEFINITIONS: Final = """
CREATE TABLE IF NOT EXISTS tool_definitions (
    id {key} PRIMARY KEY,
    tool_name TEXT NOT NULL,
    version TEXT,
    definition_hash TEXT
)
"""
_VALUES: Final = """
CREATE TABLE IF NOT EXISTS tool_values (
    hash {bytes} PRIMARY KEY,
    size {integer} NOT NULL,
    used_at {integer} NOT NULL,
    data {bytes} NOT NULL
)
"""
_INDEXES: Final = (
    (
        "CREATE UNIQUE INDEX IF NOT EXISTS tool_calls_record ON tool_calls (record_id) "
        "WHERE record_id IS NOT NULL"
    ),
    "CREATE INDEX IF NOT EXISTS tool_calls_call ON tool_calls (call_id) WHERE call_id IS NOT NULL",
    *(
        f"CREATE INDEX IF NOT EXISTS tool_calls_{name} ON tool_calls ({column}{{then_key}}) "
        f"WHERE {column} IS NOT NULL"
        for name, column in (
            ("parent", "parent_call_id"),
            ("caller", "caller_id"),
            ("conversation", "conversation_id"),
            ("workflow", "workflow_id"),
            ("error", "error_type"),
        )
    ),
    "CREATE INDEX IF NOT EXISTS tool_calls_tool ON tool_calls (tool_name{then_key})",
    "CREATE INDEX IF NOT EXISTS tool_calls_failed ON tool_calls (key) WHERE outcome <> 'succeeded'",
)

_EVENTS: Final = """
CREATE TABLE IF NOT EXISTS tool_events (
    sequence {key} PRIMARY KEY,
    event_type TEXT NOT NULL,
    happened_at {integer} NOT NULL,
    body {bytes} NOT NULL
)
"""
_EVENT_NUMBERS: Final = (
    "CREATE TABLE IF NOT EXISTS tool_event_numbers ("
    "id {key} PRIMARY KEY, reserved {integer} NOT NULL)"
)
# `last` is empty until the engine has written all its events and closes.
_EVENT_LIVES: Final = (
    "CREATE TABLE IF NOT EXISTS tool_event_lives (first {key} PRIMARY KEY, last {integer})",
    "CREATE INDEX IF NOT EXISTS tool_events_time ON tool_events (happened_at, sequence)",
)

# A row for each engine: the ids of its calls begin with its name.
_PROCESSES: Final = (
    (
        "CREATE TABLE IF NOT EXISTS tool_processes ("
        "engine TEXT PRIMARY KEY, process TEXT NOT NULL, noted_at {integer} NOT NULL)"
    ),
)

_STATISTICS: Final = """
CREATE TABLE IF NOT EXISTS tool_statistics (
    hour {integer} NOT NULL,
    tool_name TEXT NOT NULL,
    bucket TEXT NOT NULL,
    outcome TEXT NOT NULL,
    error_type TEXT NOT NULL,
    measure TEXT NOT NULL,
    bin {integer} NOT NULL,
    calls {integer} NOT NULL,
    seconds {real} NOT NULL,
    largest {real} NOT NULL,
    newest {integer} NOT NULL,
    PRIMARY KEY (hour, tool_name, bucket, outcome, error_type, measure, bin)
){without_rowid}
"""


def _count_by_hour(measure: str, column: str, condition: str) -> str:
    """Count the existing calls for each hour."""
    # Towards the past, also before 1970.
    hour = f"(finished_at - (finished_at % {HOUR} + {HOUR}) % {HOUR}) / {HOUR}"
    group = "tool_name, coalesce(bucket, ''), outcome, coalesce(error_type, '')"
    return (
        f"INSERT INTO tool_statistics SELECT {hour}, {group}, '{measure}', {column}, count(*), "  # noqa: S608 - constants
        f"sum({measure}), max({measure}), max(key) FROM tool_calls WHERE {condition} "
        f"GROUP BY 1, 2, 3, 4, 5, {column}"
    )


_COUNTED_ALL: Final = (
    f"INSERT INTO tool_statistics SELECT {EVER}, tool_name, bucket, outcome, error_type, measure, "  # noqa: S608 - a number
    "bin, sum(calls), sum(seconds), max(largest), max(newest) FROM tool_statistics "
    "GROUP BY tool_name, bucket, outcome, error_type, measure, bin"
)
_COVERING: Final = (
    "DROP INDEX IF EXISTS tool_calls_conversation",
    # A conversation's totals come from here alone: its calls are spread over the table.
    (
        "CREATE INDEX tool_calls_conversation ON tool_calls "
        "(conversation_id, key, tool_name, outcome, error_type, execution_time) "
        "WHERE conversation_id IS NOT NULL"
    ),
)

_MARKS: Final = (
    "CREATE TABLE IF NOT EXISTS tool_marks (name TEXT PRIMARY KEY, value {integer} NOT NULL)"
)

_SESSIONS: Final = (
    """
CREATE TABLE IF NOT EXISTS tool_sessions (
    session_id TEXT PRIMARY KEY,
    created_at {integer} NOT NULL,
    updated_at {integer} NOT NULL,
    size {integer} NOT NULL,
    data {bytes} NOT NULL
)
""",
    "CREATE INDEX IF NOT EXISTS tool_sessions_updated ON tool_sessions (updated_at)",
    # An answered request stays, empty, until its expiry: it cannot be put again.
    """
CREATE TABLE IF NOT EXISTS tool_approvals (
    token TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    is_open {boolean} NOT NULL,
    asked_at {real} NOT NULL,
    expires_at {real} NOT NULL,
    data {bytes}
)
""",
    "CREATE INDEX IF NOT EXISTS tool_approvals_session ON tool_approvals (session_id, asked_at)",
    "CREATE INDEX IF NOT EXISTS tool_approvals_expires ON tool_approvals (expires_at)",
    """
CREATE TABLE IF NOT EXISTS tool_decisions (
    session_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    decided_at {integer} NOT NULL,
    data {bytes} NOT NULL,
    PRIMARY KEY (session_id, fingerprint)
)
""",
    (
        "CREATE INDEX IF NOT EXISTS tool_calls_session ON tool_calls (session_id{then_key}) "
        "WHERE session_id IS NOT NULL"
    ),
)

# A principal may be any text, also one that no database takes: its hash stands in the column.
_STANDING: Final = (
    """
CREATE TABLE IF NOT EXISTS tool_standing (
    decision_id TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    decided_at {integer} NOT NULL,
    data {bytes} NOT NULL
)
""",
    "CREATE INDEX IF NOT EXISTS tool_standing_principal ON tool_standing (principal, decided_at)",
)

MIGRATIONS: Final = (
    (_DEFINITIONS, _VALUES, _CALLS, *_INDEXES),
    (_EVENTS, _EVENT_NUMBERS),
    (
        _STATISTICS,
        "{lock_calls}",
        "DELETE FROM tool_statistics",
        _count_by_hour("execution_time", "time_bin", "TRUE"),
        _count_by_hour("queue_wait", "wait_bin", "queue_wait > 0"),
        _COUNTED_ALL,
        *_COVERING,
    ),
    (_MARKS,),
    _SESSIONS,
    ("ALTER TABLE tool_sessions ADD COLUMN {if_missing}revision TEXT",),
    _STANDING,
    (
        "ALTER TABLE tool_definitions ADD COLUMN {if_missing}origin TEXT",
        "CREATE INDEX IF NOT EXISTS tool_definitions_origin ON tool_definitions (origin)",
    ),
    TASKS,
    (
        "ALTER TABLE tool_calls ADD COLUMN {if_missing}task_id TEXT",
        (
            "CREATE INDEX IF NOT EXISTS tool_calls_task ON tool_calls (task_id{then_key}) "
            "WHERE task_id IS NOT NULL"
        ),
    ),
    _EVENT_LIVES,
    _PROCESSES,
    ("ALTER TABLE tool_calls ADD COLUMN {if_missing}decided_by TEXT",),
    ("{lines_of_tools}",),
    # What `tool_values` keeps is MessagePack since then, which former versions cannot read.
    (),
    TURNS,
)
"""Statements by version; the first brings an empty database to version 1."""


def identity_of(row: Sequence[Any]) -> list[Any]:
    return [row[at] for at in _IDENTITY_AT]


def tables_of(version: int) -> tuple[str, ...]:
    """Return the tables of a database after so many migrations."""
    return tuple(name for added in _TABLES[:version] for name in added)


def check_version(version: int, names: Collection[str]) -> int:
    """Return after how many migrations a database is; 0 where a table is missing.

    Raises:
        UnusableDatabaseError: A newer tool_engine has used it.
    """
    if version > len(MIGRATIONS):
        raise UnusableDatabaseError(
            f"its tables are of version {version}, and this tool_engine knows {len(MIGRATIONS)}; "
            "upgrade tool-engine, or name another database"
        )
    return version if set(names).issuperset(tables_of(version)) else 0


def list_statements(kind: str, version: int) -> list[str]:
    """Return the statements that bring a database of `version` up to date.

    Args:
        kind: `sqlite` or `postgresql`.
        version: How many migrations it had.
    """
    words = WORDS[kind]
    texts = [text.format(**words) for migration in MIGRATIONS[version:] for text in migration]
    found = [text for text in texts if text]
    if version < len(MIGRATIONS):
        found.append("DELETE FROM tool_engine_schema")
        found.append(f"INSERT INTO tool_engine_schema VALUES ({len(MIGRATIONS)})")  # noqa: S608 - a number
    return found
