"""What can be asked about the calls that have ended?"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.model.record import ToolCallRecord
from tool_engine.server.endpoint import Sized
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.paging import Cursor, Limit, make_cursor, read_cursor
from tool_engine.server.problems import make_unknown

_Text = Annotated[str, Meta(max_length=500)]
_Time = Annotated[datetime, Meta(tz=True)]


class _Filters(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    call_id: _Text | None = None
    parent_call_id: (
        Annotated[_Text, Meta(description="The call whose tool made the calls.")] | None
    ) = None
    tool_name: _Text | None = None
    conversation_id: _Text | None = None
    session_id: _Text | None = None
    task_id: _Text | None = None
    caller_id: _Text | None = None
    process: Annotated[_Text, Meta(description="The process that kept them.")] | None = None
    error_type: _Text | None = None
    outcome: Literal["succeeded", "failed", "timeout", "cancelled", "rejected"] | None = None
    min_execution_time: (
        Annotated[float, Meta(gt=0, le=1e9, description="Ran this many seconds or longer.")] | None
    ) = None
    start: Annotated[_Time, Meta(description="Ended at this time or later.")] | None = None
    end: Annotated[_Time, Meta(description="Ended before this time.")] | None = None


class RecordQuery(_Filters):
    limit: Limit = 100
    cursor: Cursor | None = None


class StatisticsQuery(_Filters):
    by_process: Annotated[
        bool, Meta(description="Count the calls of each process, too: all of them are read.")
    ] = False


class WholeQuery(msgspec.Struct, forbid_unknown_fields=True):
    whole: Annotated[
        bool, Meta(description="The result as long as it was kept, not its beginning.")
    ] = False


class RecordPage(msgspec.Struct):
    items: list[ToolCallRecord]
    """The newest first."""
    next: str | None = None
    """The cursor of the next page; null: this is the last."""


class Statistics(msgspec.Struct):
    """Totals of the calls that are kept and match."""

    total_records: int
    success_count: int
    failure_count: int
    success_rate: float
    """Percent."""
    avg_execution_time: float
    total_execution_time: float
    tool_distribution: dict[str, int]
    error_distribution: dict[str, int]
    dropped_records: int
    """Calls that are not kept any more, and not counted here."""
    outcomes: dict[str, int]
    execution_time: dict[str, float]
    queue_wait: dict[str, float]
    by_tool: dict[str, Any]
    by_bucket: dict[str, Any]
    by_process: dict[str, Any] = {}
    """Empty unless it is asked for."""


@serve_at("GET", "/v1/records", scope="read", answer=RecordPage, query=RecordQuery, errors=(404,))
async def list_records(asked: Asked) -> Any:
    """List the records of calls, the newest first.

    They are of the principal's own calls; one that operates sees all.
    """
    query: RecordQuery = asked.query
    filters = _make_filters(asked)
    before = None if query.cursor is None else await _find_place(asked, query.cursor)
    found = await asked.engine.query_call_records(**filters, limit=query.limit + 1, before=before)
    page = found[: query.limit]
    shown = [each.to_dict() for each in page if asked.principal.may_use(each.tool_name)]
    is_more = len(found) > query.limit
    return {"items": shown, "next": make_cursor(page[-1].record_id) if is_more else None}


async def _find_place(asked: Asked, cursor: str) -> str:
    """Return the id of the record behind which a page begins.

    Raises:
        Problem: The principal sees no such record.
    """
    record_id = read_cursor(cursor)
    if await _find_record(asked, record_id) is None:
        detail = "the record that the cursor stands for is gone; begin again without it"
        raise Problem(404, "unknown-cursor", detail)
    return record_id


@serve_at(
    "GET",
    "/v1/records/{record_id}",
    scope="read",
    answer=ToolCallRecord,
    query=WholeQuery,
    errors=(404,),
)
async def get_record(asked: Asked) -> Any:
    """Show the record of one call."""
    record_id = asked.path["record_id"]
    found = await _find_record(asked, record_id)
    if found is None or not asked.principal.may_use(found.tool_name):
        raise make_unknown("record", record_id)
    if asked.query.whole and found.call_id is not None:
        return Sized(await asked.engine.store.get_whole(found.call_id) or found)
    return found.to_dict()


async def _find_record(asked: Asked, record_id: str) -> ToolCallRecord | None:
    """Return a record of the principal's; None: there is none, and one of others is none."""
    # One of others is looked for as one that never was, and takes as long.
    found = await asked.engine.query_call_records(
        record_id=record_id, caller_id=asked.owner, limit=1
    )
    return found[0] if found else None


@serve_at("GET", "/v1/statistics", scope="read", answer=Statistics, query=StatisticsQuery)
async def get_statistics(asked: Asked) -> Any:
    """Sum up the calls: the principal's own, or all for one that operates.

    Tools that the principal may not use are counted, and not named.
    """
    found = await asked.engine.store.get_call_statistics(
        by_process=asked.query.by_process, **_make_filters(asked)
    )
    found.setdefault("by_process", {})
    for name in ("tool_distribution", "by_tool"):
        found[name] = {each: found[name][each] for each in asked.name_usable(found[name])}
    return found


def _make_filters(asked: Asked) -> dict[str, Any]:
    query = msgspec.structs.asdict(asked.query)
    filters = {name: value for name, value in query.items() if name in _Filters.__struct_fields__}
    if asked.owner is not None:
        if filters["caller_id"] not in (None, asked.owner):
            # What others have called is not there.
            filters["record_id"] = ""
        filters["caller_id"] = asked.owner
    return filters


OPERATIONS = (list_records, get_record, get_statistics)
