"""How does a client hear what happens in the engine?"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from tool_engine.access.problem import Problem
from tool_engine.errors import ConfigurationError, EventsExpiredError
from tool_engine.events.event_filter import WantedEvents
from tool_engine.events.missed import MOST_PLACES, Gap, MissedEvents
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

_PLACE: Final = re.compile(
    rf"[0-9]{{1,18}}(_[0-9]{{1,18}}){{0,{MOST_PLACES - 1}}}(-[0-9a-f]{{1,16}})?"
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

    They are about tools, and about calls of the principal's own; one that operates hears all. Each
    has its type as `event`, what to go on after as `id`, and a JSON object as `data`. It is about
    one server; a client that comes back after a restart, or to another server, first gets what
    others that use the database kept meanwhile. One that has missed some gets an event `dropped`
    with how many at most, or null where that is not known: a server was killed or still goes on, or
    keeps its events in memory, or keeps none. The stream ends when its token is
    not taken any more.
    """
    query: EventQuery = asked.query
    place, last = query.after, asked.header("last-event-id")
    if last is not None:
        if _PLACE.fullmatch(last) is None:
            raise make_invalid(f"Last-Event-ID must be the id of an event, got {last[:80]!r}")
        place = last
    missed, is_ours = await _find_missed(asked, place)
    types = None if query.types is None else query.types.split(",")
    said = (types, query.tool_name, query.call_id, query.conversation_id)
    try:
        reader = _Reader(asked, said, missed, is_returning=place is not None)
    except ConfigurationError as error:
        raise make_invalid(str(error)) from error
    return Reply(stream=partial(reader.write_all, is_whole=is_ours))


async def _find_missed(asked: Asked, place: str | None) -> tuple[MissedEvents, bool]:
    """Return what a client has missed, and whether it comes back to numbers that it knows."""
    engine = asked.engine
    if place is None:
        return await engine.find_missed_events(()), True
    text, _, epoch = place.partition("-")
    if epoch and epoch != asked.served.epoch:
        return await engine.find_missed_events((0,)), False
    missed = await engine.find_missed_events(list(map(int, text.split("_"))))
    newest = engine.get_event_statistics()["sequence"] or 0
    if missed.after > newest:
        detail = f"there is no event {missed.after} yet, the newest is {newest}; go on after an id"
        raise Problem(409, "unknown-event", detail)
    return missed, True


class _Reader:
    """One client that hears events.

    Args:
        asked: Its request.
        said: The filters: types, tool, call and conversation.
        missed: What it has missed.
        is_returning: Whether it goes on after an event that it has heard.
    """

    def __init__(
        self, asked: Asked, said: tuple[Any, ...], missed: MissedEvents, *, is_returning: bool
    ) -> None:
        types, tool_name, call_id, conversation_id = said
        self._asked = asked
        self._wanted = WantedEvents.of(types, tool_name, call_id, conversation_id)
        self._open = partial(
            asked.engine.events,
            types,
            tool_name,
            call_id=call_id,
            conversation_id=conversation_id,
        )
        self._missed = missed
        self._others: tuple[int, ...] = ()
        facts = asked.engine.get_event_statistics
        goes_back = is_returning and facts()["is_kept"]
        self._events: EventStream = self._open(after=missed.after if goes_back else None)
        self._dropped = self._lost = 0
        if is_returning and not goes_back:
            # Nothing is kept to go back to. It hears what comes, as it hears what it has missed:
            # a browser that is refused once never asks again.
            self._lost = (facts()["sequence"] or 0) - missed.after

    async def write_all(self, write: Write, *, is_whole: bool) -> None:
        """Write the events until the client leaves or the server ends."""
        await send_heartbeat(write)  # so that the client knows that it is heard
        if not is_whole:
            await _write_dropped(write, None)
        elif self._lost > 0:
            await _write_dropped(write, self._lost)
        await self._write_missed(write)
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

    async def _write_missed(self, write: Write) -> None:
        """Write what other engines of the database have kept since the client left."""
        async for each in self._missed.read(self._wanted):
            if isinstance(each, Gap):
                await _write_dropped(write, each.missing)
            elif _may_hear(self._asked, each):
                others = self._missed.others_of(each)
                shown = _limit_names(self._asked, each)
                await write(write_engine_event(shown, self._asked.served.epoch, others))
            if self._asked.served.ending.is_set():
                return
        self._others = self._missed.others

    async def _take_event(self, write: Write, event: ToolEngineEvent | None) -> bool:
        if self._events.dropped > self._dropped:
            await _write_dropped(write, self._events.dropped - self._dropped)
            self._dropped = self._events.dropped
        if event is None:
            await send_heartbeat(write)
        elif _may_hear(self._asked, event):
            shown = _limit_names(self._asked, event)
            await write(write_engine_event(shown, self._asked.served.epoch, self._others))
        return False


async def _write_dropped(write: Write, count: int | None) -> None:
    await write(write_event("dropped", {"events": count}))


def _may_hear(asked: Asked, event: ToolEngineEvent) -> bool:
    """Return True if an event is about a tool, and where it is of a call, about an own one."""
    if asked.owner is None:
        return event.tool_name is None or asked.principal.may_use(event.tool_name)
    if event.tool_name is None or not asked.principal.may_use(event.tool_name):
        return False
    # Of what else belongs to no call, sessions and decisions are of one person.
    return event.event_type in _OF_TOOLS or event.data.get("caller_id") == asked.owner


def _limit_names(asked: Asked, event: ToolEngineEvent) -> ToolEngineEvent:
    """Return an event that names no tool which the principal may not know."""
    if asked.principal.may_use_all or event.event_type is not ToolEngineEventType.RELOAD_COMPLETED:
        return event
    return replace(event, data=asked.limit_changes(event.data))


OPERATIONS = (stream_events,)
