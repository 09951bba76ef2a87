"""How does a client hear what happens in the engine?"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tool_engine.events.stream import EventStream
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.server.operation import Asked, Reply, serve_at
from tool_engine.server.problems import make_invalid
from tool_engine.server.streaming import (
    Write,
    pass_on,
    send_heartbeat,
    write_engine_event,
    write_event,
)

_OF_TOOLS: Final = frozenset(
    (
        ToolEngineEventType.TOOL_LOADED,
        ToolEngineEventType.TOOL_ADDED,
        ToolEngineEventType.TOOL_UPDATED,
        ToolEngineEventType.TOOL_REMOVED,
        ToolEngineEventType.TOOL_QUARANTINED,
    )
)
"""What all hear that may use the tool."""
_Text = Annotated[str, Meta(max_length=10_000)]


class EventQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    types: Annotated[_Text, Meta(description="Types of events, joined by commas.")] | None = None
    tool_name: _Text | None = None
    call_id: _Text | None = None
    conversation_id: _Text | None = None
    after: (
        Annotated[int, Meta(ge=0, description="The number of the last event that was read.")] | None
    ) = None


@serve_at(
    "GET",
    "/v1/events",
    scope="read",
    answer=str,
    query=EventQuery,
    also={"text/event-stream": {"schema": {"type": "string"}}},
    headers={"last-event-id": "The number of the last event that was read, as `after`."},
)
async def stream_events(asked: Asked) -> Any:
    """Stream the events of the engine, from now on or after the last one that was read.

    They are about tools, and about calls of the principal's own; one that operates hears all. To
    go back takes an engine that keeps its events. Each has its type as `event`, its number as
    `id`, and a JSON object as `data`. A client that reads too slowly gets an event `dropped` with
    how many it has missed. The stream ends when its token is not taken any more.
    """
    query: EventQuery = asked.query
    after, last = query.after, asked.header("last-event-id")
    if last is not None:
        if not last.isascii() or not last.isdigit() or len(last) > 18:
            raise make_invalid(f"Last-Event-ID must be the number of an event, got {last[:80]!r}")
        after = int(last)
    events = asked.engine.events(
        None if query.types is None else query.types.split(","),
        query.tool_name,
        call_id=query.call_id,
        conversation_id=query.conversation_id,
        after=after,
    )
    return Reply(stream=partial(_write_events, asked, events))


async def _write_events(asked: Asked, events: EventStream, write: Write) -> None:
    dropped = 0

    async def take(event: ToolEngineEvent | None) -> bool:
        nonlocal dropped
        if events.dropped > dropped:
            await write(write_event("dropped", {"events": events.dropped - dropped}))
            dropped = events.dropped
        if event is None:
            await send_heartbeat(write)
        elif _may_hear(asked, event):
            await write(write_engine_event(event))
        return False

    await send_heartbeat(write)  # so that the client knows that it is heard
    async with events:
        await pass_on(events, take, asked.served.ending)


def _may_hear(asked: Asked, event: ToolEngineEvent) -> bool:
    """Return True if an event is about a tool, and where it is of a call, about an own one."""
    if asked.owner is None:
        return event.tool_name is None or asked.principal.may_use(event.tool_name)
    if event.tool_name is None or not asked.principal.may_use(event.tool_name):
        return False
    # Of what else belongs to no call, sessions and decisions are of one person.
    return event.event_type in _OF_TOOLS or event.data.get("caller_id") == asked.owner


OPERATIONS = (stream_events,)
