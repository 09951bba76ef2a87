"""What do installed packages offer to engines and sessions?"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_read: dict[str, tuple[object, list[EntryPoint]]] = {}


def list_entry_points(group: str) -> list[EntryPoint]:
    """Return what packages offer under `group`, read again once Python's path has changed.

    It reads a file of each package, which takes longer than all else that opens an engine. Who
    installs or uninstalls a package changes the folder in which that file's folder is.
    """
    state = [(place, _read_change_time(place)) for place in sys.path]
    known = _read.get(group)
    if known is None or known[0] != state:
        # Imported here: few programs need it, and the import is slow.
        found = import_module("importlib.metadata").entry_points(group=group)
        _read[group] = known = (state, list(found))
    return known[1]


def _read_change_time(place: str) -> int | None:
    try:
        return os.stat(place or ".").st_mtime_ns  # noqa: PTH116 - a Path takes as long again
    except (OSError, ValueError):
        return None
