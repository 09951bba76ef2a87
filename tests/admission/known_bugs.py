"""How do the limiters that people copy fail, and what does it take to see it?

A scene is written once and played on our controller and on a recipe: a few lines that make the
mistake which a public project made and repaired. The recipes are ours; what they stand for is named
in their docstrings.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self

from tests.admission.crew import TURNS
from tool_engine.admission import ToolConcurrencyController


class Limiter(Protocol):
    """What a scene needs: our controller has it, and so has every recipe."""

    async def acquire(self) -> Any: ...

    def release(self, held: Any, /) -> object: ...


class Scene:
    """Callers of one limiter, by name, who hold what they got until they are told to end.

    At the end all leave, whether the limiter let them in or not.
    """

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.entered: list[str] = []
        self.held: dict[str, Any] = {}
        self.most = 0
        """The most callers that were inside at once."""
        self.errors: dict[str, BaseException] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self.turn()
        self.end(*self.held)
        if isinstance(self.limiter, ToolConcurrencyController):
            m = self.limiter.get_metrics()
            rest = (m.current_concurrent, m.queue_length, m.active, m.parked, m.zombies)
            assert rest == (0, 0, 0, 0, 0), m
            assert m.total_acquired == m.total_released, m

    def begin(self, *names: str, acquire: Callable[[], Awaitable[Any]] | None = None) -> None:
        """Starts callers without letting the loop run."""
        for name in names:
            self._tasks[name] = asyncio.create_task(self._enter(name, acquire), name=name)

    async def call(self, *names: str, acquire: Callable[[], Awaitable[Any]] | None = None) -> None:
        """Starts callers one after another, and lets each come as far as it can."""
        for name in names:
            self.begin(name, acquire=acquire)
            await self.turn()

    def end(self, *names: str) -> None:
        """Gives back what callers hold, without letting the loop run."""
        for name in names:
            self.limiter.release(self.held.pop(name))

    def cancel(self, *names: str) -> None:
        """Cancels callers that wait, without letting the loop run."""
        for name in names:
            self._tasks[name].cancel()

    def is_done(self, name: str) -> bool:
        """Whether the caller waits no more."""
        return self._tasks[name].done()

    async def turn(self) -> None:
        """Lets everybody come as far as they can; no time passes."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def _enter(self, name: str, acquire: Callable[[], Awaitable[Any]] | None) -> None:
        try:
            held = await (acquire or self.limiter.acquire)()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.errors[name] = error
            return
        self.entered.append(name)
        self.held[name] = held
        self.most = max(self.most, len(self.held))


class _Recipe:
    """Slots that are free, and the futures of those who wait."""

    def __init__(self, limit: int) -> None:
        self.free = limit
        self.waiters: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        raise NotImplementedError

    def release(self, _held: object) -> None:
        self.free += 1
        self._wake_next()

    def _join(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(future)
        return future

    def _wake_next(self) -> bool:
        while self.waiters:
            future = self.waiters.popleft()
            if not future.done():
                future.set_result(None)
                return True
        return False


class WakesWithoutReserving(_Recipe):
    """python/asyncio#270, python/cpython#90155: wakes one, who must then find the slot free."""

    async def acquire(self) -> None:
        while self.free == 0:
            await self._join()
        self.free -= 1


class NotesThatItWakes(_Recipe):
    """python/cpython#90155, as of 3.10.3: newcomers stand back until the woken one has run."""

    is_waking = False

    async def acquire(self) -> None:
        while self.is_waking or self.free == 0:
            await self._join()
            self.is_waking = False
        self.free -= 1

    def _wake_next(self) -> bool:
        self.is_waking = self.is_waking or super()._wake_next()
        return self.is_waking


class GrantsTheLeaving(_Recipe):
    """agronholm/anyio#947: an event is set as well for one whose cancellation is under way."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.events: deque[asyncio.Event] = deque()

    async def acquire(self) -> None:
        if self.free:
            self.free -= 1
            return
        event = asyncio.Event()
        self.events.append(event)
        await event.wait()

    def release(self, _held: object) -> None:
        if self.events:
            self.events.popleft().set()
        else:
            self.free += 1


class SkipsTheCancelled(_Recipe):
    """agronholm/anyio PR 1145: hands over, but lets a cancelled waiter stand in the queue."""

    async def acquire(self) -> None:
        if self.free and not self.waiters:
            self.free -= 1
            return
        future = self._join()
        try:
            await future
        finally:
            self.waiters.remove(future)

    def _wake_next(self) -> bool:
        for future in self.waiters:
            if not future.done():
                self.free -= 1
                future.set_result(None)
                return True
        return False


class CountsOnResuming(_Recipe):
    """agronholm/anyio#1170: the woken waiter counts itself when it runs, so a newcomer can, too."""

    def try_acquire(self) -> bool | None:
        if self.waiters or self.free <= 0:
            return None
        self.free -= 1
        return True

    async def acquire(self) -> None:
        if self.try_acquire() is None:
            await self._join()
            self.free -= 1


class Resizable(_Recipe):
    """agronholm/anyio PR 1223: wakes as many as the limit grew by, not as many as there is room."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    async def acquire(self) -> None:
        if self.free <= 0:
            await self._join()
        else:
            self.free -= 1

    def release(self, _held: object) -> None:
        self.free += 1
        if self.free > 0 and self._wake_next():
            self.free -= 1

    def resize(self, limit: int) -> None:
        grown, self.limit = limit - self.limit, limit
        self.free += grown
        for _ in range(grown):
            if self._wake_next():
                self.free -= 1


class ForgetsTheGrant(_Recipe):
    """Netflix/concurrency-limits PR 179 and encode/httpcore#1093: leaving means leaving the queue.

    The slot belongs to the waiter from the moment of its release. A waiter that is cancelled, or
    whose time runs out, between that and its next step takes the slot with it.
    """

    async def acquire(self) -> None:
        if self.free:
            self.free -= 1
            return
        future = self._join()
        try:
            await future
        except BaseException:
            if future in self.waiters:
                self.waiters.remove(future)
            raise

    def release(self, _held: object) -> None:
        if not self._wake_next():
            self.free += 1


class Polls(_Recipe):
    """PrefectHQ/prefect#23183: who finds no slot comes back after `interval` seconds."""

    interval = 1.0

    async def acquire(self) -> None:
        while self.free == 0:  # noqa: ASYNC110 - the mistake that this recipe is about
            await asyncio.sleep(self.interval)
        self.free -= 1


class Clamps:
    """kestra-io/kestra PR 17759: what runs is a number that never goes below 0."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.changed = asyncio.Event()

    async def acquire(self) -> None:
        while self.running >= self.limit:
            self.changed.clear()
            await self.changed.wait()
        self.running += 1

    def release(self, _held: object) -> None:
        self.running = max(0, self.running - 1)
        self.changed.set()
