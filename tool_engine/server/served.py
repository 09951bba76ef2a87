"""What do all requests to one server share?"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any, Final

from tool_engine.engine import ToolEngine

_TESTING: Final = 2
"""Processes that run tests at once; more wait for them."""


class Served:
    """The engine behind one app, and the state of its service.

    Args:
        engine: An open engine.
    """

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine
        self.is_draining = False
        """Whether no more calls are taken."""
        self.ending = asyncio.Event()
        """Set when streams must end, since the server does."""
        self.metrics: Any = None
        """What writes the metrics, once they were asked for."""
        self.epoch: str = engine.get_event_statistics()["epoch"]
        """Stands in the ids of events, where the next process gives out the same numbers."""
        self.life = token_hex(8)
        """Stands in the tags of what it has written, which no other server gives out."""
        self.testing = asyncio.Semaphore(_TESTING)
        """Held while a process runs the tests of a tool."""
        self.description: bytes = b""
        """The description of the API, as JSON; see `write_description`."""

    def end(self) -> None:
        """Take no more calls, and end the streams of events."""
        self.is_draining = True
        self.ending.set()
