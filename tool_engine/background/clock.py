"""What time is it, for a process whose clock may be set meanwhile?"""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SteadyClock:
    """Gives the time of day as it was at first, plus what has passed since."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC).timestamp() - time.monotonic()

    def now(self) -> datetime:
        """Return the time, UTC; it never jumps."""
        return datetime.fromtimestamp(self._began + time.monotonic(), UTC)
