"""How do events reach a client one by one, as `text/event-stream` has them?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from tool_engine.events.stream import EventStream
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.json.returned_value import to_json

Write = Callable[[bytes], Awaitable[None]]
_HEARTBEAT: Final = 15.0
"""Seconds of silence after which a comment says that the stream is alive."""
_COMMENT: Final = b":\n\n"
_MOST_KEPT: Final = 256
_written: Final[dict[int, tuple[ToolEngineEvent, bytes]]] = {}
"""The newest events as they stand on the wire: many clients read the same ones."""


def write_event(name: str, value: Any, place: str = "") -> bytes:
    """Return one event as it stands on the wire."""
    head = b"event: %s\n" % name.encode()
    if place:
        head += b"id: %s\n" % place.encode()
    return head + b"data: " + to_json(value) + b"\n\n"


def write_engine_event(
    event: ToolEngineEvent, epoch: str = "", others: Sequence[int] = ()
) -> bytes:
    """Return an event of the engine as it stands on the wire; made once for most clients.

    Args:
        event: The event.
        epoch: Whose numbers those of events are; empty: they go on after a restart.
        others: Where this client is among the events of other engines.
    """
    if others and event.sequence is not None:
        place = write_place(event.sequence, epoch, others)
        return write_event(event.event_type.value, describe_event(event), place)
    known = _written.get(id(event))
    if known is not None and known[0] is event:
        return known[1]
    place = "" if event.sequence is None else write_place(event.sequence, epoch)
    made = write_event(event.event_type.value, describe_event(event), place)
    _written[id(event)] = event, made
    if len(_written) > _MOST_KEPT:
        del _written[next(iter(_written))]
    return made


def write_place(number: int, epoch: str, others: Sequence[int] = ()) -> str:
    """Return what a client goes on after: numbers, and whose they are."""
    return f"{number}-{epoch}" if epoch else "_".join(map(str, (number, *others)))


def describe_event(event: ToolEngineEvent) -> dict[str, Any]:
    """Return an event as JSON values, with the name of its tool and not the definition."""
    # To write a definition takes as long as all the rest.
    values = msgspec.structs.replace(event, tool=None).to_dict()
    del values["tool"]
    return values


async def pass_on(
    events: EventStream,
    take: Callable[[ToolEngineEvent | None], Awaitable[bool]],
    ending: asyncio.Event | None = None,
) -> None:
    """Hand on the events until they or the server end.

    Args:
        events: The events.
        take: Takes each of them, and None from time to time; True: it was the last one.
        ending: Set when the server ends; None: that does not matter.
    """
    is_quiet = True

    async def hand_events_on() -> None:
        nonlocal is_quiet
        async for event in events:
            is_quiet = False
            if await take(event):
                return
            is_quiet = True

    work = asyncio.ensure_future(hand_events_on())
    waits = {work} if ending is None else {work, asyncio.ensure_future(ending.wait())}
    try:
        while True:
            done, _ = await asyncio.wait(
                waits, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                work.result()
            if done:
                return
            # A client that is being written to has to read that first.
            if is_quiet:
                await take(None)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.wait(waits)


async def send_heartbeat(write: Write) -> None:
    """Say that the stream is alive."""
    await write(_COMMENT)
