"""Which time does a database say it is, for all programs that share it?"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from tool_engine.clock import read_uptime
from tool_engine.knowledge.shared_clock import find_boot
from tool_engine.knowledge.sql.changes import Step
from tool_engine.knowledge.sql.schema.damage import INTEGER, check_values, read_row

if TYPE_CHECKING:
    from tool_engine.knowledge.sql.connection.opening import LazyDatabase

_FAILING: Final = "{place} does not say what time it is: {reason}; try again once it works"
_CURE: Final = "delete the row"
_LATEST: Final = 250_000_000_000.0
"""Seconds since 1970: no date has more digits."""
_TIME: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)")
# One row for the last start of the machine: a file may live through thousands.
_FORGET_STARTS: Final = text("DELETE FROM tool_marks WHERE name LIKE 'start %' AND name <> :name")
_KEEP_START: Final = text(
    "INSERT INTO tool_marks (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING"
)
_START: Final = text("SELECT value FROM tool_marks WHERE name = :name")


async def read_time(database: LazyDatabase) -> float | None:
    """Return the server's time, or for a file that of the machine, which no program sets.

    The first program after each start of the machine says what time it is, for all others.
    """
    if database.address is None or database.address.kind != "sqlite":
        rows = await database.read(_TIME, _FAILING)
        return float(rows[0][0])
    boot = await asyncio.to_thread(find_boot)
    if boot is None:
        return None
    name = {"name": f"start {boot}"}
    found = await database.read(_START.bindparams(**name), _FAILING)
    if not found:
        start = {"value": round((time.time() - read_uptime()) * 1e6)}
        steps = Step(_FORGET_STARTS, name), Step(_KEEP_START, name | start), Step(_START, name)
        *_, done = await database.change(steps, _FAILING)
        found = done.rows
    mark = f"the start of the machine (the row {name['name']!r} of tool_marks)"
    return read_row(lambda: _read_start(found[0][0]), mark, _CURE) + read_uptime()


def _read_start(value: object) -> float:
    check_values([("value", value)], {"value": INTEGER})
    start = float(value) / 1e6  # type: ignore[arg-type] # an integer
    if not 0 < start < _LATEST:
        raise ValueError(f"{value!r} microseconds since 1970 are no time at which it was started")
    return start
