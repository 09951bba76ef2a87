"""Which message does a model get when the operating system refuses something?"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice
from typing import Final

from tool_engine.errors import ToolExecutionError
from tool_engine.model.checks.nearness import suggest_near

_MOST_NAMES: Final = 2_000
"""The most names of a folder that are compared with a missing one."""
_REASONS: Final = {
    errno.EACCES: "may not be opened by this process (permission denied)",
    errno.EPERM: "may not be changed by this process (operation not permitted)",
    errno.EROFS: "is on a file system that is read-only",
    errno.ENOSPC: "cannot be written: no space is left on the device",
    errno.EDQUOT: "cannot be written: the disk quota is used up",
    errno.EFBIG: "cannot be written: it would be larger than the system allows",
    errno.EISDIR: "is a folder; give the path of a file",
    errno.ENOTDIR: "leads through something that is no folder",
    errno.ELOOP: "was replaced by a symbolic link meanwhile; look at the folder again",
    errno.ENOENT: "does not exist any more; look at the folder again",
    errno.ESTALE: "does not exist any more; look at the folder again",
    errno.ENAMETOOLONG: "has a name that is too long for the file system",
    errno.EMFILE: "cannot be opened now: this process has too many open files; try again later",
    errno.ENFILE: "cannot be opened now: the system has too many open files; try again later",
    errno.ENXIO: "is not a regular file",
    errno.EEXIST: "exists already",
}
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def explain_failure(error: OSError, path: str) -> ToolExecutionError:
    """Return an error for the call's `path`, without paths of the system."""
    reason = _REASONS.get(error.errno or 0) or f"cannot be used: {error.strerror or 'input/output'}"
    return ToolExecutionError(f"{path!r} {reason}")


def not_regular(mode: int, path: str) -> ToolExecutionError:
    kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no regular file")
    return ToolExecutionError(f"{path!r} is {kind}; only regular files are read and written")


def not_there(path: str, name: str, folder: int, cure: str = "") -> ToolExecutionError:
    near = suggest_near(name, _names_in(folder))
    hint = near or cure or "; list the folder to see what there is"
    where = "" if path.rpartition("/")[2] == name else f" (there is no {name!r})"
    return ToolExecutionError(f"{path!r} does not exist{where}{hint}")


def _names_in(folder: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
