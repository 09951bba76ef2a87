"""What do SQLite and PostgreSQL call the same thing in the statements of the schema?"""

from __future__ import annotations

from typing import Final

WORDS: Final = {
    "sqlite": {
        "key": "INTEGER",
        "counted": "INTEGER PRIMARY KEY",
        "integer": "INTEGER",
        "real": "REAL",
        "boolean": "INTEGER",
        "bytes": "BLOB",
        # SQLite adds the primary key at the end of an index by itself.
        "then_key": "",
        "without_rowid": " WITHOUT ROWID",
        # Migrations hold the whole file.
        "lock_calls": "",
        # SQLite passes tasks over in the index of all.
        "lines_of_tools": "",
        # SQLite has no IF NOT EXISTS here: the caller checks the error.
        "if_missing": "",
    },
    "postgresql": {
        "key": "BIGINT",
        "counted": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "integer": "BIGINT",
        "real": "DOUBLE PRECISION",
        "boolean": "BOOLEAN",
        "bytes": "BYTEA",
        "then_key": ", key",
        "without_rowid": "",
        "lock_calls": "LOCK TABLE tool_calls IN SHARE MODE",
        "lines_of_tools": (
            "CREATE INDEX IF NOT EXISTS tool_tasks_tool ON tool_tasks "
            "(tool_name, priority, number) WHERE status = 'queued' AND worker IS NULL"
        ),
        "if_missing": "IF NOT EXISTS ",
    },
}
