"""What do queries know of the tables? The tables themselves are made by `schema`."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from tool_engine.knowledge.sql.schema.counting import STATISTICS
from tool_engine.knowledge.sql.schema.schema import COLUMNS


class _AsItIs:
    """What is read is what is there: whether it fits is asked of each row, not of all at once."""

    def result_processor(self, *_: object) -> None:
        """Nothing is converted."""


class _Bytes(_AsItIs, LargeBinary):
    cache_ok = True


class _Boolean(_AsItIs, Boolean):
    cache_ok = True


_KINDS: Final[dict[str, TypeEngine[Any]]] = {
    "reached_executor": _Boolean(),
    "queue_wait": Double(),
    "execution_time": Double(),
    "result_hash": _Bytes(),
    "whole_hash": _Bytes(),
    **dict.fromkeys(
        (
            *("key", "definition_id", "generation", "priority", "weight", "attempts"),
            *("finished_at", "wait_bin", "time_bin", "result_size"),
        ),
        BigInteger(),
    ),
}
_STATISTICS_KINDS: Final[dict[str, TypeEngine[Any]]] = {
    **dict.fromkeys(("hour", "bin", "calls", "newest"), BigInteger()),
    **dict.fromkeys(("seconds", "largest"), Double()),
}
_metadata: Final = MetaData()

calls: Final = Table(
    "tool_calls",
    _metadata,
    *(
        Column(name, _KINDS.get(name, Text()), primary_key=name == "key", autoincrement=False)
        for name in COLUMNS
    ),
)
"""One row per call."""
definitions: Final = Table(
    "tool_definitions",
    _metadata,
    Column("id", BigInteger, primary_key=True),
    Column("tool_name", Text),
    Column("version", Text),
    Column("definition_hash", Text),
    Column("origin", Text),
)
"""The definitions that calls ran on."""
sessions: Final = Table(
    "tool_sessions",
    _metadata,
    Column("session_id", Text, primary_key=True),
    Column("created_at", BigInteger),
    Column("updated_at", BigInteger),
    Column("size", BigInteger),
    Column("data", _Bytes),
    Column("revision", Text),
)
"""Conversations, compressed."""
approvals: Final = Table(
    "tool_approvals",
    _metadata,
    Column("token", Text, primary_key=True),
    Column("session_id", Text),
    Column("is_open", _Boolean),
    Column("asked_at", Double),
    Column("expires_at", Double),
    Column("data", _Bytes),
)
"""What a person was asked; without data once it was answered."""
decisions: Final = Table(
    "tool_decisions",
    _metadata,
    Column("session_id", Text, primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("decided_at", BigInteger),
    Column("data", _Bytes),
)
"""What was decided about calls, for later ones like them."""
standing: Final = Table(
    "tool_standing",
    _metadata,
    Column("decision_id", Text, primary_key=True),
    Column("principal", Text),
    Column("decided_at", BigInteger),
    Column("data", _Bytes),
)
"""What was decided for one principal in all conversations."""
tasks: Final = Table(
    "tool_tasks",
    _metadata,
    Column("number", BigInteger, primary_key=True),
    *(
        Column(name, Text)
        for name in ("task_id", "owner", "tool_name", "status", "worker", "bound_to", "call_key")
    ),
    Column("cancel_reason", Text),
    Column("priority", BigInteger),
    Column("turn", BigInteger),
    Column("expires_at", Double),
    Column("state", _Bytes),
    Column("data", _Bytes),
)
"""Calls that outlive their caller."""
workers: Final = Table(
    "tool_workers",
    _metadata,
    Column("worker", Text, primary_key=True),
    Column("beat", BigInteger),
)
"""The engines that run tasks, each with a number that it counts up while it lives."""
processes: Final = Table(
    "tool_processes",
    _metadata,
    Column("engine", Text, primary_key=True),
    Column("process", Text),
    Column("noted_at", BigInteger),
)
"""The engines that have kept records here, and the names of their processes."""
statistics: Final = Table(
    "tool_statistics",
    _metadata,
    *(Column(name, _STATISTICS_KINDS.get(name, Text())) for name in STATISTICS),
)
"""What calls add up to: for each hour, and for all hours."""
values: Final = Table(
    "tool_values",
    _metadata,
    Column("hash", _Bytes, primary_key=True),
    Column("size", BigInteger),
    Column("used_at", BigInteger),
    Column("data", _Bytes),
)
"""Large results, compressed, each once."""
