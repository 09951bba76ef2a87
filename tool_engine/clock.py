"""What time is it, however the clock of this machine is set meanwhile?"""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))
"""The one that goes on while the machine sleeps, where there is one."""


def read_uptime() -> float:
    """Return seconds since the start of this machine; nothing sets or stops them."""
    return time.monotonic() if _CLOCK < 0 else time.clock_gettime(_CLOCK)


def read_uptime_ns() -> int:
    """Return nanoseconds since the start of this machine, as `read_uptime` counts them."""
    return time.monotonic_ns() if _CLOCK < 0 else time.clock_gettime_ns(_CLOCK)


_began: Final = time.time() - read_uptime()


def read_time() -> float:
    """Return Unix time in seconds, as it was set when this program began.

    What must expire at its time, neither at once nor never, is measured by it.
    """
    return _began + read_uptime()
