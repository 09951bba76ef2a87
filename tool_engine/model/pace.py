"""How does work in very many small steps leave the event loop's other tasks their turns?"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

_MOST: Final = 0.005
"""Seconds of work between two turns of the event loop."""


class Pace:
    """The time that tasks with many small steps take together before others have a turn."""

    def __init__(self) -> None:
        self._end = monotonic() + _MOST
        self._is_over = False

    async def step(self) -> None:
        """Return when the next step may be done: at once, or after others had a turn."""
        while monotonic() >= self._end:
            if not self._is_over:
                self._is_over = True
                # Once for all tasks of one turn of the loop: each would take this long otherwise.
                asyncio.get_running_loop().call_soon(self._begin_turn)
            await asyncio.sleep(0)

    def _begin_turn(self) -> None:
        self._end, self._is_over = monotonic() + _MOST, False
