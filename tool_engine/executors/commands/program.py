"""Which file is a command's program, and can another user replace it?"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tool_engine.errors import ToolExecutionError

SYSTEM_PATH: Final = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
"""Where a bare name is looked up, whatever `PATH` is in the engine's environment."""


def find_program(name: str, path: Sequence[str] = SYSTEM_PATH) -> str:
    """Return the absolute path; raise if other users can replace it. Blocks."""
    if "/" in name:
        if not _is_program(name):
            raise ToolExecutionError(
                f"the program {name!r} does not exist or cannot be executed; correct entry.argv[0]"
            )
        found = name
    else:
        candidates = (f"{folder}/{name}" for folder in path)
        found = next(filter(_is_program, candidates), "")
    if not found:
        raise ToolExecutionError(
            f"the program {name!r} is not installed: it is in none of {', '.join(path)}; install "
            "it, or write its absolute path in entry.argv[0]"
        )
    _check_owned(found)
    return found


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)


def _check_owned(program: str) -> None:
    real = Path(os.path.realpath(program))
    written = Path(program)
    for place in dict.fromkeys((real, *real.parents, *written.parents)):
        mode = place.stat().st_mode
        if mode & stat.S_IWOTH and not (mode & stat.S_ISVTX and place.is_dir()):
            raise ToolExecutionError(
                f"the program {program} can be replaced by every user of this machine, because "
                f"{place} has the mode {stat.S_IMODE(mode):04o}; run chmod o-w {place}"
            )
