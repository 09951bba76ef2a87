"""How often may a command that follows a database ask it?"""

from __future__ import annotations

from typing import Final

from asyncio_throttle.throttler import Throttler

_LOOKS: Final = 10
"""How often in an interval asyncio-throttle looks whether it is over."""


class Pace:
    """Lets one question begin per interval of seconds, its answer's time included."""

    def __init__(self, interval: float) -> None:
        self._throttler = Throttler(1, interval, interval / _LOOKS)

    async def wait(self) -> None:
        await self._throttler.acquire()  # type: ignore[no-untyped-call] # the library has no types
