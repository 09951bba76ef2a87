"""What does a database do for the members of a cluster, on a clock that jumps?

It does what `cluster_database` says in SQL, and it can crash, refuse, and end sessions.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from tool_engine.admission.cluster.cluster_database import RESTART_STEP, STEP, Found


class MemoryDatabase:
    """The one row, and who has a session.

    Args:
        chance: Decides how long each statement takes.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.version, self.state = 0, b""
        self.saved = (0, b"")
        self.has_crashed, self.is_up = True, True
        self.connections: list[MemoryConnection] = []

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def crash(self) -> None:
        """Stops: what was not written to disk may be lost."""
        self.is_up, self.has_crashed = False, True
        if self.chance.random() < 0.7:
            self.version, self.state = self.saved
        for each in list(self.connections):
            each.was_warned = True
            each.end()

    def start(self) -> None:
        self.is_up = True


class MemoryConnection:
    """Takes the place of a `ClusterConnection`."""

    def __init__(
        self,
        database: MemoryDatabase,
        on_note: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        self._database, self._on_note, self._on_end = database, on_note, on_end
        self.life: str | None = None
        self.is_listening = self.was_warned = False
        self.secret: bytes | None = None
        self.offset = 500.0
        self.doubt = 0.002
        self._turn = asyncio.Lock()

    async def open(self, life: str, make_state: Callable[[float | None], bytes]) -> None:
        database = self._database
        await asyncio.sleep(0.002)
        if not database.is_up:
            raise asyncpg.CannotConnectNowError("the database system is starting up")
        if not database.state:
            database.state = make_state(None)
        self.life, self.secret, self.is_listening = life, b"secret", True
        self.was_warned = False
        database.connections.append(self)

    def end(self) -> None:
        """Ends as the server does it."""
        if self.life is not None:
            self.abort()
            self._on_end()

    def abort(self) -> None:
        if self in self._database.connections:
            self._database.connections.remove(self)
        self.life = None

    async def _work(self) -> MemoryDatabase:
        chance = self._database.chance
        life = self.life
        await asyncio.sleep(chance.choice((0.0005, 0.001, 0.02)))
        if self.life is None or self.life != life:
            raise ConnectionResetError("the connection has ended")
        return self._database

    async def read(self, known: int = -1) -> Found:
        async with self._turn:
            return self._find(await self._work())

    def _find(self, database: MemoryDatabase) -> Found:
        return Found(database.version, database.state, database.has_crashed, self.offset, 0.002)

    async def swap(
        self,
        known: int,
        state: bytes,
        notes: Iterable[tuple[str, str]],
        *,
        is_durable: bool,
        restarts: bool,
    ) -> Found | None:
        async with self._turn:
            database = await self._work()
            if database.version != known or (database.has_crashed and not restarts):
                return self._find(database)
            database.version += RESTART_STEP if restarts else STEP
            database.state = state
            if restarts:
                database.has_crashed = False
            if is_durable or database.chance.random() < 0.1:
                database.saved = (database.version, state)
            for life, text in notes:
                if database.chance.random() < 0.95:
                    delay = database.chance.choice((0.0, 0.001, 0.01))
                    asyncio.get_running_loop().call_later(delay, self._notify, life, text)
            # It is carried out, and its answer may not arrive any more.
            if database.chance.random() < 0.002:
                self.end()
                raise ConnectionResetError("the connection has ended")
            await asyncio.sleep(0.0005)
            return None

    def _notify(self, life: str, text: str) -> None:
        for each in self._database.connections:
            if each.life == life and each.is_listening:
                each._on_note(text)

    async def listen(self, life: str, *, is_needed: bool) -> None:
        async with self._turn:
            await self._work()
            assert self.life == life
            self.is_listening = is_needed

    async def list_sessions(self, lives: Iterable[str]) -> frozenset[str]:
        async with self._turn:
            database = await self._work()
            return frozenset(lives) & {each.life for each in database.connections}


def use_memory(member: Any, database: MemoryDatabase) -> None:
    """Lets a member that was just made use such a database."""

    def make() -> MemoryConnection:
        return MemoryConnection(database, member._hear_note, member._hear_end)

    member._make_connection, member._connection = make, make()
    member._stand_in = NoStandIn()


class NoStandIn:
    """Takes the place of a thread: a loop whose time jumps never stands still."""

    def begin(self) -> None: ...

    async def end(self) -> None: ...
