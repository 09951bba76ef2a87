"""Which statements answer the questions about records?

Each follows an index from the first row of its answer to the last, so that its cost grows with the
answer and not with the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec.structs import replace
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Select,
    and_,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from tool_engine.knowledge.cursor import no_such_record
from tool_engine.knowledge.sql.odd_rows import first_odd, is_odd
from tool_engine.knowledge.sql.reader import Reader
from tool_engine.knowledge.sql.schema.keys import (
    SLACK,
    key_of_id,
    key_of_time,
    microseconds_of,
    record_id_of,
)
from tool_engine.knowledge.sql.schema.rows import plain_text
from tool_engine.knowledge.sql.schema.schema import EVER
from tool_engine.knowledge.sql.schema.tables import calls, definitions, processes, values
from tool_engine.knowledge.sql.schema.tables import statistics as kept
from tool_engine.model.record import RecordQuery
from tool_engine.process_names import ENGINE_LENGTH

Hours: TypeAlias = tuple[int | None, int | None]
"""The first hour since 1970, and the one after the last; None: no bound."""
_CALLS: Final = cast(func.sum(kept.c.calls), BigInteger)
"""PostgreSQL gives the sum of large numbers as a decimal."""
_ODD: Final = func.coalesce(
    first_odd(kept.c.hour, kept.c.calls, kept.c.seconds),
    func.min(case((is_odd(kept.c.calls, "integer"), kept.c.hour))),
)
_FAILED: Final = text("outcome <> 'succeeded'")
"""As it stands in the index of failed calls: a parameter would hide it from the planner."""


def select_records(query: RecordQuery) -> Select[Any]:
    """The rows that match, in the order that is wanted."""
    large = values.alias()
    wanted: ColumnElement[Any] = calls.c.result_hash
    if query.whole:
        wanted = func.coalesce(calls.c.whole_hash, calls.c.result_hash)
    statement = (
        select(calls, definitions.c.version, definitions.c.definition_hash)
        .add_columns(definitions.c.origin, large.c.data.label("large"), wanted.label("wanted"))
        .add_columns(processes.c.process)
        .join_from(calls, definitions, calls.c.definition_id == definitions.c.id, isouter=True)
        .join(large, large.c.hash == wanted, isouter=True)
        .join(processes, processes.c.engine == _engine_of(calls.c.call_id), isouter=True)
        .where(*_make_conditions(query))
        .order_by(calls.c.key if query.oldest_first else calls.c.key.desc())
    )
    if query.limit is not None:
        statement = statement.limit(query.limit)
    return statement.offset(query.offset) if query.offset else statement


async def place_ids(reader: Reader, query: RecordQuery) -> RecordQuery:
    """The query with ids that hold their place, instead of those that were made elsewhere.

    Raises:
        ConfigurationError: No record has such an id.
        RecordsUnavailableError: The database does not answer.
    """
    for field in ("before", "after"):
        record_id = getattr(query, field)
        if record_id is None or key_of_id(record_id) is not None:
            continue
        (rows,) = await reader.rows(select(calls.c.key).where(_has_id(record_id)))
        if not rows:
            raise no_such_record(field, record_id)
        query = replace(query, **{field: record_id_of(rows[0][0])})
    return query


def sum_calls(query: RecordQuery) -> Select[Any]:
    """Tool, outcome, error type, and what the calls that have them in common add up to.

    The last column of this and of the others names a damaged row; None: there is none.
    """
    group = (calls.c.tool_name, calls.c.outcome, calls.c.error_type)
    return (
        select(
            *group,
            func.count(),
            func.sum(calls.c.execution_time),
            func.max(calls.c.key),
            first_odd(calls.c.key, calls.c.execution_time),
        )
        .where(*_make_conditions(query))
        .group_by(*group)
    )


def counted_calls(query: RecordQuery) -> Select[Any]:
    """The fields of `CallCount`."""
    group = (calls.c.tool_name, calls.c.bucket, calls.c.outcome, calls.c.error_type)
    return (
        select(
            *group,
            func.count(),
            func.sum(calls.c.execution_time),
            func.sum(calls.c.queue_wait),
            first_odd(calls.c.key, calls.c.execution_time, calls.c.queue_wait),
        )
        .where(*_make_conditions(query))
        .group_by(*group)
    )


def count_processes(query: RecordQuery) -> Select[Any]:
    """Process, outcome, and how many calls had both."""
    engine = _engine_of(calls.c.call_id)
    some = (
        select(engine.label("engine"), calls.c.outcome, func.count().label("calls"))
        .where(*_make_conditions(query))
        .group_by(engine, calls.c.outcome)
        .subquery()
    )
    group = (processes.c.process, some.c.outcome)
    return (
        select(*group, cast(func.sum(some.c.calls), BigInteger))
        .join_from(some, processes, processes.c.engine == some.c.engine, isouter=True)
        .group_by(*group)
    )


def counted_times(query: RecordQuery, measure: str) -> Select[Any]:
    """Tool, bucket, bin, count and the longest time, of `execution_time` or `queue_wait`."""
    bins = calls.c.time_bin if measure == "execution_time" else calls.c.wait_bin
    group = (calls.c.tool_name, calls.c.bucket, bins)
    return (
        select(*group, func.count(), func.max(calls.c[measure]), null())
        .where(*_make_conditions(query))
        .group_by(*group)
    )


def kept_totals(query: RecordQuery, hours: Hours) -> Select[Any]:
    """What `totals` gives, with the measure, of whole hours, from the statistics that are kept."""
    group = (kept.c.tool_name, kept.c.outcome, kept.c.error_type, kept.c.measure)
    return (
        select(*group, _CALLS, func.sum(kept.c.seconds), func.max(kept.c.newest), _ODD)
        .where(kept.c.measure != "queue_wait", *_kept_conditions(query, hours))
        .group_by(*group)
    )


def kept_statistics(query: RecordQuery, hours: Hours) -> Select[Any]:
    """Tool, bucket, outcome, error type, measure and bin; calls, seconds and the longest time."""
    names = ("tool_name", "bucket", "outcome", "error_type", "measure", "bin")
    group = [kept.c[name] for name in names]
    return (
        select(*group, _CALLS, func.sum(kept.c.seconds), func.max(kept.c.largest), _ODD)
        .where(*_kept_conditions(query, hours))
        .group_by(*group)
    )


def _kept_conditions(query: RecordQuery, hours: Hours) -> Iterator[Any]:
    first, last = hours
    if first is None and last is None:
        yield kept.c.hour == EVER
    else:
        yield kept.c.hour > EVER if first is None else kept.c.hour >= first
        if last is not None:
            yield kept.c.hour < last
    for name, value in query.conditions.items():
        if name == "is_success":
            is_kept = kept.c.outcome == "succeeded"
            yield is_kept if value else ~is_kept
        else:
            yield kept.c[name] == plain_text(value)


def _engine_of(call_id: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.substr(call_id, 1, ENGINE_LENGTH)


def _make_conditions(query: RecordQuery) -> Iterator[Any]:
    for name, value in query.conditions.items():
        if name == "record_id":
            yield _has_id(value)
        elif name == "is_success":
            yield calls.c.outcome == literal_column("'succeeded'") if value else _FAILED
        elif name == "outcome":
            if value != "succeeded":
                yield _FAILED
            yield calls.c.outcome == value
        elif name == "origin":
            given = definitions.c.origin == plain_text(value)
            # An index leads to the calls of these tools; which of them had it, the rows say.
            yield calls.c.tool_name.in_(select(definitions.c.tool_name).where(given))
            yield calls.c.definition_id.in_(select(definitions.c.id).where(given))
        else:
            yield calls.c[name] == plain_text(value)
    if query.min_execution_time is not None:
        seconds = calls.c.execution_time
        yield or_(seconds >= query.min_execution_time, is_odd(seconds, "number"))
    if query.process is not None:
        named = processes.c.process == plain_text(query.process)
        yield _engine_of(calls.c.call_id).in_(select(processes.c.engine).where(named))
    if query.call_id_prefix is not None:
        yield begins_with(calls.c.call_id, plain_text(query.call_id_prefix) or "")
    yield from _make_bounds(query)


def _make_bounds(query: RecordQuery) -> Iterator[Any]:
    """Where on the way through the rows the answer begins and ends."""
    if query.start is not None:
        start = microseconds_of(query.start)
        yield calls.c.key >= key_of_time(start)
        yield or_(calls.c.finished_at >= start, is_odd(calls.c.finished_at, "integer"))
    if query.end is not None:
        end = microseconds_of(query.end)
        yield calls.c.key < key_of_time(end + SLACK)
        yield or_(calls.c.finished_at < end, is_odd(calls.c.finished_at, "integer"))
    if query.before is not None:
        yield calls.c.key < key_of_id(query.before)
    if query.after is not None:
        yield calls.c.key > key_of_id(query.after)


def _has_id(record_id: str) -> ColumnElement[bool]:
    key = key_of_id(record_id)
    if key is None:
        return calls.c.record_id == plain_text(record_id)
    return and_(calls.c.key == key, calls.c.record_id == null())


# The index of the text serves where the database sorts texts by character, as SQLite does.
class _BeginsWith(FunctionElement[bool]):
    """Has two clauses: the column and the prefix."""

    type = Boolean()
    inherit_cache = True


def begins_with(column: ColumnElement[Any], prefix: str) -> ColumnElement[bool]:
    """Return the condition that `column` begins with `prefix`, case-sensitively."""
    return _BeginsWith(column, prefix)


@compiles(_BeginsWith)
def _by_function(element: _BeginsWith, compiler: SQLCompiler, **options: Any) -> str:
    column, prefix = (compiler.process(each, **options) for each in element.clauses)
    return f"starts_with({column}, {prefix})"


@compiles(_BeginsWith, "sqlite")
def _by_range(element: _BeginsWith, compiler: SQLCompiler, **options: Any) -> str:
    column, prefix = element.clauses
    name = compiler.process(column, **options)
    # No text with this prefix is greater than this: char(1114111) is the last character.
    lowest = compiler.process(prefix, **options)
    highest = f"{compiler.process(prefix, **options)} || char(1114111)"
    return f"({name} >= {lowest} AND {name} < {highest})"
