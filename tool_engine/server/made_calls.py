"""Which calls has a client made, what becomes of them, and how does it end one?"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from tool_engine.calls.engine_calls import PresentCall
from tool_engine.errors import ClusterUnavailableError
from tool_engine.interfaces.admission_view import WaitExplanation
from tool_engine.model.record import ToolCallRecord
from tool_engine.server.admission import describe_no_slot, find_named
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.paging import Limit
from tool_engine.server.problems import make_unknown


class CallState(msgspec.Struct, kw_only=True):
    """A call, on its way or ended."""

    call_id: str
    tool_name: str
    state: str
    """`asking`, `queued`, `sharing`, `running`, `pausing` or `ended`."""
    seconds: float
    """How long it has been in this state; of one that has ended, how long its tool ran."""
    caller_id: str | None
    conversation_id: str | None
    parent_call_id: str | None
    record: ToolCallRecord | None = None
    """What is kept of one that has ended."""


class CallList(msgspec.Struct):
    items: list[CallState]


class CallEvent(msgspec.Struct):
    """What happened to a call."""

    event_type: str
    timestamp: str
    sequence: int | None
    generation: int | None
    error: str | None
    data: dict[str, Any]
    """What only events of this type have."""


class CallEvents(msgspec.Struct):
    items: list[CallEvent]
    """The oldest first."""
    is_kept: bool
    """Whether this engine keeps its events; false: there are none to show."""


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True):
    limit: Limit = 1000


class CancelQuery(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class Cancelled(msgspec.Struct):
    is_cancelled: bool
    """False: it had ended before."""


@serve_at("GET", "/v1/calls", scope="call", answer=CallList)
async def list_calls(asked: Asked) -> Any:
    """List the calls that are on their way: the principal's own, or all for one that operates."""
    found = await asked.engine.calls.list(caller_id=asked.owner)
    return CallList(
        [_describe_call(each) for each in found if asked.principal.may_use(each.tool_name)]
    )


@serve_at("GET", "/v1/calls/{call_id}", scope="call", answer=CallState, errors=(404,))
async def get_call(asked: Asked) -> Any:
    """Show a call, on its way or ended."""
    found = await _find_call(asked)
    if isinstance(found, PresentCall):
        return _describe_call(found)
    state = CallState(
        call_id=asked.path["call_id"],
        tool_name=found.tool_name,
        state="ended",
        seconds=found.execution_time,
        caller_id=found.caller_id,
        conversation_id=found.conversation_id,
        parent_call_id=found.parent_call_id,
    )
    return {**msgspec.structs.asdict(state), "record": found.to_dict()}


@serve_at(
    "DELETE",
    "/v1/calls/{call_id}",
    scope="call",
    answer=Cancelled,
    query=CancelQuery,
    errors=(404,),
)
async def cancel_call(asked: Asked) -> Any:
    """End a call that is on its way; who waits for it gets a result that says so and why."""
    found = await _find_call(asked)
    reason = asked.query.reason or f"{asked.principal.name} wished so"
    is_there = isinstance(found, PresentCall)
    call_id = asked.path["call_id"]
    return Cancelled(is_there and await asked.engine.calls.cancel(call_id, reason))


@serve_at(
    "GET",
    "/v1/calls/{call_id}/explanation",
    scope="call",
    answer=WaitExplanation,
    errors=(404,),
)
async def explain_call(asked: Asked) -> Any:
    """Say why a call waits, behind whom, and for about how much longer.

    Calls of others are `another call`, but for one that operates: how many they are is known.
    """
    found = await _find_call(asked)
    is_named = await find_named(asked)
    explanation = asked.engine.controller.explain(asked.path["call_id"])
    if explanation.state == "unknown" and not explanation.reason:
        explanation = describe_no_slot(explanation, found)
    if explanation.state == "waiting" and (cluster := asked.engine.cluster) is not None:
        with suppress(ClusterUnavailableError):  # what is known here stays right
            explanation = replace(explanation, cluster=await cluster.explain(explanation.call_id))
    return explanation.hide_calls(is_named).to_dict()


@serve_at(
    "GET",
    "/v1/calls/{call_id}/events",
    scope="read",
    answer=CallEvents,
    query=EventsQuery,
    errors=(404,),
)
async def list_call_events(asked: Asked) -> Any:
    """List what happened to a call, the oldest first, as far as the engine keeps it.

    Progress and what a tool says are heard as they happen, at `/v1/events`; the last lines are
    kept in the final event, as `lines`. The result is in the record.
    """
    await _find_call(asked)
    engine = asked.engine
    found = await engine.read_call_events(asked.path["call_id"], asked.query.limit)
    items = [replace(each, execution_result=None, tool=None).to_dict() for each in found]
    shown = [{name: each[name] for name in CallEvent.__struct_fields__} for each in items]
    return {"items": shown, "is_kept": engine.get_event_statistics()["is_kept"]}


async def _find_call(asked: Asked) -> PresentCall | ToolCallRecord:
    """Return a call of the principal's.

    Raises:
        Problem: There is none; one of others is none.
    """
    call_id, owner = asked.path["call_id"], asked.owner
    found: PresentCall | ToolCallRecord | None = await asked.engine.calls.find(call_id)
    if found is None or owner not in (None, found.caller_id):
        # One of others takes as long as one that never was.
        records = await asked.engine.query_call_records(call_id=call_id, caller_id=owner, limit=1)
        found = records[0] if records else None
    if found is None or not asked.principal.may_use(found.tool_name):
        raise make_unknown("call", call_id)
    return found


def _describe_call(call: PresentCall) -> CallState:
    return CallState(
        call_id=call.call_id,
        tool_name=call.tool_name,
        state=call.state,
        seconds=call.seconds,
        caller_id=call.caller_id,
        conversation_id=call.conversation_id,
        parent_call_id=call.parent_call_id,
    )


OPERATIONS = (list_calls, get_call, cancel_call, explain_call, list_call_events)
