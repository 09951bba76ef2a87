"""How does a client hear what happens in the engine?"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from tool_engine.errors import EventsExpiredError
from tool_engine.events.stream import EventStream
from tool_engine.model.event import ToolEngineEvent
from tool_engine.server.operation import Asked, Reply, serve_at
from tool_engine.server.problems import Problem, make_invalid
from tool_engine.server.streaming import (
    Write,
    pass_on,
    send_heartbeat,
    write_engine_event,
    write_event,
)

_PLACE: Final = re.compile(r"[0-9]{1,18}(-[0-9a-f]{1,16})?")
_Text = Annotated[str, Meta(max_length=10_000)]


Place: TypeAlias = Annotated[
    str,
    Meta(pattern=f"^{_PLACE.pattern}$", description="The `id` of the last event that was read."),
]


class EventQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    types: Annotated[_Text, Meta(description="Types of events, joined by commas.")] | None = None
    tool_name: _Text | None = None
    call_id: _Text | None = None
    conversation_id: _Text | None = None
    after: Place | None = None


@serve_at(
    "GET",
    "/v1/events",
    scope="read",
    answer=str,
    query=EventQuery,
    errors=(409,),
    also={"text/event-stream": {"schema": {"type": "string"}}},
    headers={"last-event-id": "The `id` of the last event that was read, as `after`."},
)
async def stream_events(asked: Asked) -> Any:
    """Stream the events of the engine, from now on or after the last one that was read.

    They are about tools, and about calls of the principal's own; one that operates hears all. To
    go back takes an engine that keeps its events. Each has its type as `event`, what to go on after
    as `id`, and a JSON object as `data`. A client that has missed some gets an event `dropped`
    with how many at most, or null where that is not known: the server was started anew.
    """
    query: EventQuery = asked.query
    place, last = query.after, asked.header("last-event-id")
    if last is not None:
        if _PLACE.fullmatch(last) is None:
            raise make_invalid(f"Last-Event-ID must be the id of an event, got {last[:80]!r}")
        place = last
    number, is_ours = _read_place(asked, place)
    open_stream = partial(
        asked.engine.events,
        None if query.types is None else query.types.split(","),
        query.tool_name,
        call_id=query.call_id,
        conversation_id=query.conversation_id,
    )
    reader = _Reader(asked, open_stream, number)
    return Reply(stream=partial(reader.write_all, is_whole=is_ours))


def _read_place(asked: Asked, place: str | None) -> tuple[int | None, bool]:
    """Return the number to go on after, and whether it is of this engine's numbers."""
    if place is None:
        return None, True
    text, _, epoch = place.partition("-")
    if epoch and epoch != asked.served.epoch:
        return 0, False
    number, newest = int(text), asked.engine.get_event_statistics()["sequence"] or 0
    if number > newest:
        detail = f"there is no event {number} yet, the newest is {newest}; go on after an id"
        raise Problem(409, "unknown-event", detail)
    return number, True


class _Reader:
    """One client that hears events.

    Args:
        asked: Its request.
        open_stream: Opens a stream after a number.
        after: The number; None: from now on.
    """

    def __init__(
        self, asked: Asked, open_stream: Callable[..., EventStream], after: int | None
    ) -> None:
        self._asked = asked
        self._open = open_stream
        self._events = open_stream(after=after)
        self._dropped = 0

    async def write_all(self, write: Write, *, is_whole: bool) -> None:
        """Write the events until the client leaves or the server ends."""
        await send_heartbeat(write)  # so that the client knows that it is heard
        if not is_whole:
            await _write_dropped(write, None)
        while True:
            try:
                async with self._events:
                    await pass_on(
                        self._events, partial(self._take_event, write), self._asked.served.ending
                    )
                return
            except EventsExpiredError as error:
                await _write_dropped(write, error.missed)
                self._events = self._open(after=error.oldest - 1)

    async def _take_event(self, write: Write, event: ToolEngineEvent | None) -> bool:
        if self._events.dropped > self._dropped:
            await _write_dropped(write, self._events.dropped - self._dropped)
            self._dropped = self._events.dropped
        if event is None:
            await send_heartbeat(write)
        elif _may_hear(self._asked, event):
            await write(write_engine_event(event, self._asked.served.epoch))
        return False


async def _write_dropped(write: Write, count: int | None) -> None:
    await write(write_event("dropped", {"events": count}))


def _may_hear(asked: Asked, event: ToolEngineEvent) -> bool:
    """Return True if an event is about a tool, and where it is of a call, about an own one."""
    if asked.owner is None:
        return event.tool_name is None or asked.principal.may_use(event.tool_name)
    if event.tool_name is None or not asked.principal.may_use(event.tool_name):
        return False
    return event.call_id is None or event.data.get("caller_id") == asked.owner


OPERATIONS = (stream_events,)
