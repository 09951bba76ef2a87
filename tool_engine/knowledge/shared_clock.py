"""What time is it, for programs that share a database, and whose clocks may differ or be set?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from tool_engine.clock import read_uptime

_HOLDS: Final = 60.0
"""Seconds for which a program need not ask for the time again."""
_make_date: Final = datetime.fromtimestamp
_SLOW: Final = 0.05
"""Seconds after which an answer is asked for once more."""


@cache
def find_boot() -> str | None:
    """Return the id of this start of this machine; None: it is not known. Reads a small file."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
    except (OSError, UnicodeError):
        return None


class SharedClock:
    """Gives the time of day that all programs with the same database agree on.

    Between two answers it goes on as this machine does, however its clock is set meanwhile.

    Args:
        read_time: Asks for that time, Unix time in seconds; None: there is none but that of this
            program.
    """

    def __init__(self, read_time: Callable[[], Awaitable[float | None]]) -> None:
        self._read_time = read_time
        self._began = datetime.now(UTC).timestamp() - read_uptime()
        self._learned_at: float | None = None
        self._learning = asyncio.Lock()

    def now(self) -> datetime:
        """Return the time, UTC."""
        return _make_date(self._began + read_uptime(), UTC)

    def read_seconds(self) -> float:
        """Return the time, Unix time in seconds."""
        return self.now().timestamp()

    @property
    def is_fresh(self) -> bool:
        """True if it was learned not long ago."""
        return self._learned_at is not None and read_uptime() - self._learned_at < _HOLDS

    async def learn_time(self) -> None:
        """Ask for the time.

        Raises:
            RecordsUnavailableError: The database does not answer; the time goes on as before.
        """
        for _ in range(2):
            asked = read_uptime()
            time = await self._read_time()
            heard = read_uptime()
            if heard - asked < _SLOW:
                break  # else a connection was made first
        self._learned_at = asked
        if time is None:
            return
        began = time - (asked + heard) / 2
        # An answer is as exact as its way took long: within that the clock need not move.
        if abs(began - self._began) > heard - asked:
            self._began = began

    async def learn_time_once(self) -> None:
        """Ask for the time unless that was done not long ago; however many need it, once.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        async with self._learning:
            if not self.is_fresh:
                await self.learn_time()
