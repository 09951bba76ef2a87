"""How does a stream pass from kept events to live ones without a gap?

It reads kept events until it has caught up with the engine, and live events from there on. When it
falls so far behind that its buffer is full, it reads kept events again from its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from tool_engine.events.event_filter import WantedEvents
from tool_engine.events.log import EventLog
from tool_engine.events.mailbox import CutError, Mailbox
from tool_engine.model.event import PASSING, ToolEngineEvent

_PAGE: Final = 100
"""Events that are read at once: each may have an output of 64 KiB."""


class Replay:
    """Gives one stream each event once, in order.

    Args:
        log: Has the events that are kept.
        after: The number of the last event that the reader knows; None: of the newest one when it
            begins to read.
        wanted: Which events it is about.
        mailbox: Receives the live ones as a subscriber of the bus; it is cut off at first.
        rejoin: Empties the mailbox, lets it accept events, and returns the number of the last
            event before those.
    """

    def __init__(
        self,
        log: EventLog,
        after: int | None,
        wanted: WantedEvents,
        mailbox: Mailbox,
        rejoin: Callable[[Mailbox], int],
    ) -> None:
        self._log = log
        self._after = after
        self._last = -1
        self._joined = -1
        self._wanted = wanted
        self._mailbox = mailbox
        self._rejoin = rejoin
        self._page: deque[ToolEngineEvent] = deque()
        self._turn = asyncio.Lock()
        mailbox.buffer.is_cut = True

    async def next(self) -> ToolEngineEvent:
        """Return the next event; wait for one.

        Raises:
            EventsExpiredError: Events that follow the last one are not kept any more.
            StopAsyncIteration: The bus was closed, and there are no more.
        """
        async with self._turn:
            while True:
                event = await self._next_event()
                if event is not None and event.event_type in PASSING and self._wanted.has(event):
                    return event
                if event is None or (event.sequence or 0) <= self._last:
                    continue
                self._last = event.sequence or 0
                if self._wanted.has(event):
                    return event

    async def _next_event(self) -> ToolEngineEvent | None:
        if self._page:
            return self._page.popleft()
        if self._last < self._joined:
            await self._read_page()
            return None
        try:
            return await self._mailbox.get()
        except CutError:
            self._joined = self._rejoin(self._mailbox)
            if self._last < 0:
                self._last = self._joined if self._after is None else self._after
            await self._read_page()
            return None

    async def _read_page(self) -> None:
        self._page.extend(await self._log.read(self._last, _PAGE))
        if not self._page:
            # What is missing between here and there was kept nowhere.
            self._last = max(self._last, self._joined)
        await asyncio.sleep(0)
