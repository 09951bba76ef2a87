"""How does one task read events one after another, without holding up who publishes them?"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tool_engine.events.subscriber import Subscriber, running_loop
from tool_engine.model.event import ToolEngineEvent

__all__ = ["EventStream", "Mailbox", "StreamSubscriber"]


class Mailbox:
    """Holds the events that a stream has not been asked for yet.

    Args:
        limit: The most events held; the oldest go first.
        awaited: Where the mailbox puts itself while a task waits for it. Without that nothing but
            the mailbox would hold that task, and both could be collected.
    """

    def __init__(self, limit: int, awaited: set[Mailbox]) -> None:
        self.dropped = 0
        self.is_ended = False
        self._events: deque[ToolEngineEvent] = deque(maxlen=limit)
        self._awaited = awaited
        self._waiting = 0
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: ToolEngineEvent) -> None:
        """Takes one event, from any thread."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)
        self._wake()

    def end(self) -> None:
        """Lets the stream end once it is empty."""
        self.is_ended = True
        self._wake()

    def clear(self) -> None:
        """Forgets the events that were not read."""
        self._events.clear()

    async def get(self) -> ToolEngineEvent:
        """The oldest event; waits for one.

        Raises:
            StopAsyncIteration: The mailbox is empty and has ended.
        """
        # Before looking into the deque: a thread that appends after the look finds the loop.
        self._loop = asyncio.get_running_loop()
        while not self._events:
            if self.is_ended:
                raise StopAsyncIteration
            await self._wait()
        return self._events.popleft()

    async def _wait(self) -> None:
        self._ready.clear()
        self._waiting += 1
        self._awaited.add(self)
        try:
            await self._ready.wait()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._awaited.discard(self)

    def _wake(self) -> None:
        loop = self._loop
        if loop is None:
            return
        if loop is running_loop():
            self._ready.set()
        else:
            with suppress(RuntimeError):  # the reader's loop was closed: nobody waits any more
                loop.call_soon_threadsafe(self._ready.set)


class EventStream:
    """An async iterator over events, made by `EventBus.events`.

    Events are kept from its creation on. When its buffer is full the oldest go and are counted in
    `dropped`. It ends when it or the bus is closed; what was buffered when the bus was closed is
    still delivered. Several tasks may read from it: each event goes to one of them.

    Example:
        >>> async with bus.events("tool_updated") as events:
        ...     async for event in events:
        ...         print(event.tool_name)
    """

    def __init__(self, mailbox: Mailbox, unsubscribe: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self._unsubscribe = unsubscribe

    @property
    def dropped(self) -> int:
        """Events that were lost because nobody read them in time."""
        return self._mailbox.dropped

    def __repr__(self) -> str:
        state = "ended" if self._mailbox.is_ended else "open"
        return f"<EventStream {state}, {len(self._mailbox)} waiting, {self.dropped} dropped>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ToolEngineEvent:
        return await self._mailbox.get()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the stream; what was not read is given up."""
        self._unsubscribe()
        self._mailbox.clear()
        self._mailbox.end()


class StreamSubscriber(Subscriber):
    """Feeds a stream for as long as somebody holds it.

    Args:
        mailbox: Held weakly, so that a stream that was abandoned leaves nothing behind.
        remove: Ends the subscription.
    """

    def __init__(self, mailbox: Mailbox, remove: Callable[[Subscriber], None]) -> None:
        self._mailbox = weakref.ref(mailbox)
        self._remove = remove

    def end(self) -> None:
        """Takes no more events, and lets the stream end."""
        super().end()
        mailbox = self._mailbox()
        if mailbox is not None:
            mailbox.end()

    def _deliver(self, event: ToolEngineEvent) -> None:
        mailbox = self._mailbox()
        if mailbox is None:
            self._remove(self)
        else:
            mailbox.put(event)
