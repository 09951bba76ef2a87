"""How does one task read events in order without holding up publishers?"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Self

from tool_engine.errors import EngineClosedError, EventsLostError
from tool_engine.events.mailbox import CutError, Mailbox
from tool_engine.events.replay import Replay
from tool_engine.events.subscriber import Subscriber
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.json.copying import refuse_copying


@refuse_copying("pass it on as it is, or make another one with engine.events()")
class EventStream:
    """An async iterator over events, made by `EventBus.events`.

    Events are kept from its creation on. When its buffer is full its policy says which are dropped;
    they are counted in `dropped`. It ends when it or the bus is closed; what was
    buffered when the bus was closed is still delivered. Several tasks may read from it: each event
    goes to one of them.

    Example:
        >>> async with bus.events("tool_updated") as events:
        ...     async for event in events:
        ...         print(event.tool_name)
    """

    def __init__(
        self, mailbox: Mailbox, unsubscribe: Callable[[], None], replay: Replay | None = None
    ) -> None:
        self._mailbox = mailbox
        self._unsubscribe = unsubscribe
        self._replay = replay
        self._is_closed = False
        self._process = os.getpid()

    @property
    def dropped(self) -> int:
        """The number of events that were dropped because the stream was read too slowly."""
        return self._mailbox.dropped

    def __repr__(self) -> str:
        state = "ended" if self._mailbox.is_ended else "open"
        return f"<EventStream {state}, {len(self._mailbox)} waiting, {self.dropped} dropped>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ToolEngineEvent:
        if self._is_closed:
            raise StopAsyncIteration
        if os.getpid() != self._process:
            # Nothing would ever come.
            raise EngineClosedError(
                f"this stream was opened in process {self._process}, and hears only of what "
                "happens there"
            )
        if self._replay is not None:
            return await self._replay.next()
        try:
            return await self._mailbox.get()
        except CutError:
            await self.aclose()
            raise EventsLostError(
                f"more than {self._mailbox.limit} events waited to be read, and policy "
                "'block_none' leaves none out: the stream has ended; read faster, give it a "
                "larger buffer, or keep events with keep_events"
            ) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream; unread events are given up."""
        self._is_closed = True
        self._unsubscribe()
        self._mailbox.clear()
        self._mailbox.end()


class StreamSubscriber(Subscriber):
    """Feeds a stream for as long as the stream is referenced.

    Args:
        mailbox: Held weakly, so that an abandoned stream leaves nothing behind.
        abandoned: Called when the mailbox is garbage-collected, in any thread at any moment.
        is_replayed: Whether the stream reads from the storage what its mailbox has no room for.
    """

    is_plain = False

    def __init__(
        self,
        mailbox: Mailbox,
        abandoned: Callable[[Subscriber], None],
        *,
        is_replayed: bool = False,
    ) -> None:
        self._mailbox: Callable[[], Mailbox | None]
        self._mailbox = weakref.ref(mailbox, lambda _: abandoned(self))
        self._is_replayed = is_replayed

    def end(self) -> None:
        super().end()
        mailbox, self._mailbox = self._mailbox(), _no_mailbox
        if mailbox is not None:
            mailbox.end()

    def settle(self) -> None:
        mailbox = self._mailbox()
        if mailbox is not None:
            mailbox.wake()

    def offer(self, event: ToolEngineEvent) -> None:
        """Put the event, whose type is wanted, into the mailbox if the other filters match."""
        if not self.is_active or (self.is_choosy and not self.wanted.has_subject(event)):
            return
        mailbox = self._mailbox()
        if mailbox is not None and not mailbox.put(event) and not self._is_replayed:
            self.dropped += 1
            mailbox.dropped += 1


def _no_mailbox() -> None:
    """Return None, as the dead reference to the mailbox of an ended stream does."""
