"""How long has this machine been on, and since which start?"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))
"""The one that goes on while the machine sleeps, where there is one."""


def read_uptime() -> float:
    """Return seconds since the start of this machine; nothing sets or stops them."""
    return time.monotonic() if _CLOCK < 0 else time.clock_gettime(_CLOCK)


@cache
def find_boot() -> str | None:
    """Return the id of this start of this machine; None: it is not known. Reads a small file."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
    except (OSError, UnicodeError):
        return None
