"""Where do events wait for the task that reads them?"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tool_engine.events.buffer import DROP_OLDEST, Buffer
from tool_engine.events.subscriber import running_loop
from tool_engine.model.event import ToolEngineEvent


class CutError(Exception):
    """The mailbox was cut off, and what it held before has been read."""


class Mailbox:
    """Events that a stream has not been asked for yet.

    Args:
        limit: The most events held.
        awaited: The mailbox adds itself here while a task waits for it. Otherwise nothing but
            the mailbox would hold that task, and both could be collected.
        policy: What is dropped when it is full.
    """

    def __init__(self, limit: int, awaited: set[Mailbox], policy: str = DROP_OLDEST) -> None:
        self.limit = limit
        self.policy = policy
        self.dropped = 0
        self.is_ended = False
        self.buffer: Buffer[ToolEngineEvent] = Buffer(limit, policy)
        self._awaited = awaited
        self._waiting = 0
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self.buffer)

    def put(self, event: ToolEngineEvent) -> bool:
        """Add one event, from any thread; True if none was dropped."""
        return self.buffer.put(event) is None

    def wake(self) -> None:
        """Wake the waiting readers."""
        loop = self._loop
        if loop is None:
            return
        if loop is running_loop():
            self._ready.set()
        else:
            with suppress(RuntimeError):  # the reader's loop was closed: no task waits any more
                loop.call_soon_threadsafe(self._ready.set)

    def end(self) -> None:
        """Let the stream end once it is empty."""
        self.is_ended = True
        self.wake()

    def clear(self) -> None:
        """Forget the events that were not read, and accept new ones."""
        self.buffer = Buffer(self.limit, self.policy)

    async def get(self) -> ToolEngineEvent:
        """Return the oldest event; wait for one.

        Raises:
            CutError: It is empty and was cut off.
            StopAsyncIteration: It is empty and has ended.
        """
        # Before looking into the buffer: a thread that puts after the look finds the loop.
        self._loop = asyncio.get_running_loop()
        while True:
            try:
                return self.buffer.take()
            except IndexError:
                if self.buffer.is_cut:
                    raise CutError from None
                if self.is_ended:
                    raise StopAsyncIteration from None
            await self._wait_for_event()

    async def _wait_for_event(self) -> None:
        self._ready.clear()
        self._waiting += 1
        self._awaited.add(self)
        try:
            await self._ready.wait()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._awaited.discard(self)
