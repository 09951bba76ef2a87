"""How are old records and sessions removed without delaying who writes new ones?

In small steps, each a transaction of its own, the oldest first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, exists, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tool_engine.knowledge.sql import session_statements
from tool_engine.knowledge.sql.reader import Reader
from tool_engine.knowledge.sql.schema.counting import COUNTED, STATISTICS, count_rows
from tool_engine.knowledge.sql.schema.damage import INTEGER, SECONDS, check_values, read_row
from tool_engine.knowledge.sql.schema.keys import (
    KEY_STEP,
    SLACK,
    date_of,
    key_of_time,
)
from tool_engine.knowledge.sql.schema.packed_json import KEEPING
from tool_engine.knowledge.sql.schema.tables import calls, definitions, processes, values
from tool_engine.model.settings.retention import RecordRetention

_STEP: Final = 500
"""Rows per transaction: a few milliseconds."""
_FEW: Final = 20
"""Sessions per transaction: each may be large."""
_PAUSE: Final = 0.002
_PAGES: Final = 500
_RECENT: Final = 300
"""Seconds for which a value stays that nothing refers to, as a batch may be about to; longer than
`FRESH` and the time that a batch takes."""
_SAMPLE: Final = 1_000
_TAKE_OUT: Final = (
    "UPDATE tool_statistics SET calls = calls - :calls, "
    "seconds = CASE WHEN seconds > :seconds THEN seconds - :seconds ELSE 0.0 END "
    "WHERE hour = :hour AND tool_name = :tool_name AND bucket = :bucket AND outcome = :outcome "
    "AND error_type = :error_type AND measure = :measure AND bin = :bin"
)
_MARK: Final = (
    "INSERT INTO tool_marks (name, value) VALUES ('removed_until', :newest) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value WHERE excluded.value > tool_marks.value"
)
"""Note for other and later processes that there were more records."""
_REMOVED_UNTIL: Final = "SELECT value FROM tool_marks WHERE name = 'removed_until'"
_REMOVE_EMPTY: Final = "DELETE FROM tool_statistics WHERE hour = :hour AND calls <= 0"


async def prune_database(reader: Reader, retention: RecordRetention, kind: str, now: float) -> int:
    """Removes what `retention` does not keep; the number of records that it removed.

    `now` is the time that all who use the database agree on, Unix time in seconds.
    """
    removed = 0
    if retention.max_age is not None:
        oldest = int(max(now - retention.max_age, 0.0) * 1e6)
        removed += await _remove_before(reader, key_of_time(oldest))
    if retention.max_count is not None:
        removed += await _keep_newest(reader, retention.max_count)
    if retention.max_bytes is not None:
        removed += await _keep_bytes(reader, retention.max_bytes, kind, now)
    if removed:
        await _remove_unused(reader, now)
    if retention.max_session_age is not None:
        await prune_sessions(reader, retention.max_session_age, now)
    async with reader.changing(KEEPING) as connection:
        await connection.execute(session_statements.remove_expired(now))
    if kind == "sqlite":
        await _give_back(reader)
    return removed


async def prune_sessions(reader: Reader, max_age: float, now: float) -> int:
    """Removes conversations that were saved last longer ago, with all that belongs to them."""
    removed, before = 0, int(max(now - max_age, 0.0) * 1e6)
    while True:
        old = session_statements.old_sessions(before, now, _FEW)
        async with reader.changing(KEEPING) as connection:
            ids = [row.session_id for row in await connection.execute(old)]
            for each in session_statements.remove_sessions(ids, now):
                await connection.execute(each)
        removed += len(ids)
        if len(ids) < _FEW:
            break
        await asyncio.sleep(_PAUSE)
    async with reader.changing(KEEPING) as connection:
        await connection.execute(session_statements.old_decisions(before))
    return removed


async def removed_until(reader: Reader) -> datetime | None:
    """When the newest call ended whose record was removed; None where none ever was."""
    (rows,) = await reader.rows(text(_REMOVED_UNTIL))
    if not rows:
        return None
    cure = "DELETE FROM tool_marks: it does not show then that there were more records"
    return read_row(lambda: _date_in(rows[0][0]), "the row of tool_marks", cure)


def _date_in(value: Any) -> datetime:
    check_values([("value", value)], {"value": INTEGER})
    return date_of(value)


async def _remove_before(reader: Reader, key: int, most: int | None = None) -> int:
    """Removes the records with smaller keys, `most` at most."""
    removed = 0
    while most is None or removed < most:
        step = _STEP if most is None else min(_STEP, most - removed)
        oldest = select(calls.c.key).where(calls.c.key < key).order_by(calls.c.key).limit(step)
        async with reader.changing() as connection:
            old = delete(calls).where(calls.c.key.in_(oldest))
            done = await connection.execute(old.returning(*(calls.c[name] for name in COUNTED)))
            rows = done.fetchall()
            if rows:
                sound = [row for row in rows if _is_sound(row)]
                if sound:
                    await _count_out(connection, sound)
                # A key begins with the time; what else a damaged row says of it does not count.
                times = [row.finished_at for row in sound] or [rows[-1].key // KEY_STEP]
                newest = max(times)
                await connection.execute(text(_MARK), {"newest": newest})
        removed += len(rows)
        if len(rows) < step:
            break
        await asyncio.sleep(_PAUSE)
    return removed


def _is_sound(row: Any) -> bool:
    """Whether a row was counted as it is: a damaged one goes like the others, but for that."""
    try:
        check_values(zip(COUNTED, row, strict=True), _KINDS, ("bucket", "error_type"))
    except ValueError:
        return False
    return True


_KINDS: Final = {
    **dict.fromkeys(("key", "finished_at", "time_bin", "wait_bin"), INTEGER),
    **dict.fromkeys(("execution_time", "queue_wait"), SECONDS),
}


async def _count_out(connection: AsyncConnection, rows: Sequence[Any]) -> None:
    """Takes what is removed out of the statistics."""
    counts = [dict(zip(STATISTICS, count, strict=True)) for count in count_rows(rows, COUNTED)]
    await connection.execute(text(_TAKE_OUT), counts)
    hours = [{"hour": hour} for hour in {count["hour"]: None for count in counts}]
    await connection.execute(text(_REMOVE_EMPTY), hours)


async def _keep_newest(reader: Reader, count: int) -> int:
    newest = select(calls.c.key).order_by(calls.c.key.desc()).offset(count).limit(1)
    ((found,),) = (await reader.rows(newest),)
    return await _remove_before(reader, found[0][0] + 1) if found else 0


async def _keep_bytes(reader: Reader, most: int, kind: str, now: float) -> int:
    if kind == "postgresql":
        return await _keep_newest(reader, await _count_within(reader, most))
    removed = 0
    # Values that only the newest calls use look like those that a batch is about to use.
    newest = key_of_time(int((now - _RECENT) * 1e6))
    while await _used_bytes(reader) > most:
        step = await _remove_before(reader, newest, _STEP)
        removed += step
        await _remove_unused(reader, now)
        if step < _STEP:
            break
    return removed


async def _used_bytes(reader: Reader) -> int:
    """The bytes of a SQLite file without the pages that are free, and without sessions."""
    async with reader.connection() as connection:
        pages, free, size = [
            (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        ]
        others = [
            (await connection.execute(each)).scalar_one() or 0
            for each in session_statements.kept_bytes()
        ]
    return int((pages - free) * size - sum(others))


async def _count_within(reader: Reader, most: int) -> int:
    """How many of PostgreSQL's rows have about `most` bytes: its files never shrink by themselves.

    The size of a row is that of the newest ones on average, with what they refer to.
    """
    newest = (
        select(
            func.pg_column_size(text("tool_calls.*")).label("size"),
            func.coalesce(func.length(values.c.data), 0).label("large"),
        )
        .select_from(calls.outerjoin(values, values.c.hash == calls.c.result_hash))
        .order_by(calls.c.key.desc())
        .limit(_SAMPLE)
        .subquery()
    )
    (((size,),),) = await reader.rows(select(func.avg(newest.c.size + newest.c.large)))
    return int(most / float(size)) if size else 0


async def _remove_unused(reader: Reader, now: float) -> None:
    """Removes the values and definitions that no record refers to any more."""
    (((oldest,),),) = await reader.rows(select(func.min(calls.c.key)))
    before = now if oldest is None else min(now, (oldest // KEY_STEP - SLACK) / 1e6)
    # Calls go in the order of time: what was last used before the oldest of them is not used.
    unused = select(values.c.hash).where(values.c.used_at < before - _RECENT)
    await _remove_all(reader, unused, values)
    # One that is at work is noted again with its next record.
    await _remove_all(
        reader, select(processes.c.engine).where(processes.c.noted_at < before * 1e6), processes
    )
    is_named = exists().where(calls.c.tool_name == definitions.c.tool_name)
    await _remove_all(reader, select(definitions.c.id).where(~is_named), definitions)


async def _remove_all(reader: Reader, unused: Any, table: Any) -> None:
    (column,) = table.primary_key.columns
    while True:
        async with reader.changing() as connection:
            done = await connection.execute(delete(table).where(column.in_(unused.limit(_STEP))))
        if done.rowcount < _STEP:
            return
        await asyncio.sleep(_PAUSE)


async def _give_back(reader: Reader) -> None:
    """Shrinks a SQLite file by the pages that became free."""
    while True:
        async with reader.changing() as connection:
            free = (await connection.execute(text("PRAGMA freelist_count"))).scalar_one()
            if not free:
                return
            await connection.execute(text(f"PRAGMA incremental_vacuum({_PAGES})"))
            left = (await connection.execute(text("PRAGMA freelist_count"))).scalar_one()
        if left >= free:
            return
        await asyncio.sleep(_PAUSE)
