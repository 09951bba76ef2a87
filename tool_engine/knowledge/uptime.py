"""Since which start has this machine been on?"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def find_boot() -> str | None:
    """Return the id of this start of this machine; None: it is not known. Reads a small file."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
    except (OSError, UnicodeError):
        return None
