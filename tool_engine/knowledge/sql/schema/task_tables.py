"""Which tables hold tasks, and in which order of indexes are they found?

Texts of migrations, which `schema` numbers: what stands here is never changed.
"""

from __future__ import annotations

from typing import Final

# An owner may be any text, also one that no database takes: its hash stands in the column.
TASKS: Final = (
    """
CREATE TABLE IF NOT EXISTS tool_tasks (
    number {counted},
    task_id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    status TEXT NOT NULL,
    priority {integer} NOT NULL,
    worker TEXT,
    bound_to TEXT,
    call_key TEXT,
    cancel_reason TEXT,
    expires_at {real} NOT NULL,
    state {bytes} NOT NULL,
    data {bytes} NOT NULL
)
""",
    (
        "CREATE UNIQUE INDEX IF NOT EXISTS tool_tasks_key ON tool_tasks (owner, call_key) "
        "WHERE call_key IS NOT NULL"
    ),
    (
        "CREATE INDEX IF NOT EXISTS tool_tasks_line ON tool_tasks (priority, number, tool_name) "
        "WHERE status = 'queued' AND worker IS NULL"
    ),
    "CREATE INDEX IF NOT EXISTS tool_tasks_worker ON tool_tasks (worker) WHERE worker IS NOT NULL",
    (
        "CREATE INDEX IF NOT EXISTS tool_tasks_bound ON tool_tasks (bound_to) "
        "WHERE bound_to IS NOT NULL"
    ),
    "CREATE INDEX IF NOT EXISTS tool_tasks_owner ON tool_tasks (owner, number)",
    "CREATE INDEX IF NOT EXISTS tool_tasks_expires ON tool_tasks (expires_at)",
    """
CREATE TABLE IF NOT EXISTS tool_workers (
    worker TEXT PRIMARY KEY,
    beat {integer} NOT NULL
){without_rowid}
""",
)

TURNS: Final = (
    "ALTER TABLE tool_tasks ADD COLUMN {if_missing}turn {integer} NOT NULL DEFAULT 0",
    *(f"DROP INDEX IF EXISTS tool_tasks_{name}" for name in ("line", "tool", "turn", "worker")),
    *(
        f"CREATE INDEX tool_tasks_{name} ON tool_tasks ({columns}) "
        "WHERE status = 'queued' AND worker IS NULL"
        for name, columns in (
            ("line", "priority, turn, number, tool_name"),
            ("tool", "tool_name, priority, turn, number"),
            ("turn", "owner, tool_name, priority, turn"),
        )
    ),
    (
        "CREATE INDEX tool_tasks_worker ON tool_tasks (worker, priority, turn) "
        "WHERE worker IS NOT NULL"
    ),
    "CREATE INDEX IF NOT EXISTS tool_tasks_status ON tool_tasks ((status || ''), number)",
)
