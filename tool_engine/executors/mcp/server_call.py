"""What is sent to a server for a call, and for how long its caller waits."""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

TIMEOUT: Final = "tool-engine/timeout"
"""The key of `_meta` with the seconds that a caller waits; `mcp_server.calling` reads it."""


class ServerCall(NamedTuple):
    """A call of a server's tool."""

    name: str
    """The server's own."""
    arguments: dict[str, Any]
    ends: float | None
    """When its caller gives up, as `time.monotonic()`; None: never."""

    def say_patience(self) -> dict[str, Any]:
        """Return what is sent beside it: engines that call one another would never end, else."""
        if self.ends is None:
            return {}
        return {"_meta": {TIMEOUT: max(0.0, self.ends - time.monotonic())}}
