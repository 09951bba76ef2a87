"""How does a file get its new content, so that at every moment it is the old one or the new one?

The new content is written to a hidden file beside it, brought to the disk, and renamed over the
old one. Whatever ends the process in between, the file is whole. One writer at a time changes a
folder, among all the processes that use these tools.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.content import status_of
from tool_engine.executors.files.failing import failed, not_regular
from tool_engine.executors.files.guard import check_no_repository
from tool_engine.executors.files.root import TEMPORARY, Place

__all__ = ["changing", "put", "settle", "temporary_name", "writable"]

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_PATIENCE: Final = 10.0
_INTERVAL: Final = 0.005
_PERMISSIONS: Final = 0o777


@contextlib.contextmanager
def changing(place: Place, deadline: float | None) -> Iterator[None]:
    """Keeps other file tools, also those of other processes, from changing the folder meanwhile.

    Raises:
        ToolExecutionError: Another one held the folder for 10 seconds, or until the deadline.
    """
    # A descriptor of its own: locks belong to descriptors, and this one is closed with the lock.
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
    try:
        folder = os.open(".", flags, dir_fd=place.folder)
    except OSError as error:
        raise failed(error, place.path) from None
    try:
        _lock(folder, place.path, deadline)
        yield
    finally:
        os.close(folder)


def writable(place: Place) -> os.stat_result | None:
    """What the system knows of the file that is to be replaced; None when there is none.

    Raises:
        ToolExecutionError: Something else than a regular file is there, or a file that is
            read-only.
    """
    status = status_of(place)
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise not_regular(status.st_mode, place.path)
    if not status.st_mode & 0o222:
        raise ToolExecutionError(f"{place.path!r} is read-only; it is left as it is")
    return status


def put(
    place: Place, data: bytes, replaced: os.stat_result | None, deadline: float | None = None
) -> None:
    """Makes `data` the content of the file at `place`.

    Args:
        place: Where.
        data: The new content.
        replaced: The file that is replaced, as it was seen; None: there was none, and none is
            replaced.
        deadline: When the call must have ended, on the monotonic clock: its caller was told then
            that it has failed, so nothing is changed any more.

    Raises:
        ToolExecutionError: The file is not as it was seen, the time is over, or the system refuses.
    """
    name = temporary_name()
    try:
        _write(place.folder, name, data, replaced)
        try:
            settle(place, name, replaced, deadline)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place.folder)
    except OSError as error:
        raise failed(error, place.path) from None


def temporary_name() -> str:
    """The name of a file that is being written."""
    return f"{TEMPORARY}{secrets.token_hex(8)}.tmp"


def settle(
    place: Place, name: str, replaced: os.stat_result | None, deadline: float | None
) -> None:
    """Makes the file `name`, which is complete and beside it, the one at `place`.

    Args:
        place: Where.
        name: The new file; it may be there still afterwards, under both names.
        replaced: As for `put`.
        deadline: As for `put`.

    Raises:
        ToolExecutionError: The file is not as it was seen, the time is over, or git would take the
            folder for a repository now.
        OSError: The system refuses.
    """
    _check_time(place, deadline)
    _check_unchanged(place, replaced)
    if replaced is None:
        _add(place, name)
    else:
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    _sync_folder(place.folder)


def _add(place: Place, name: str) -> None:
    """Gives the new file its name; a rename would replace what somebody else puts there."""
    try:
        os.link(
            name,
            place.name,
            src_dir_fd=place.folder,
            dst_dir_fd=place.folder,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise _changed(place) from None
    except OSError:
        # Some file systems have no hard links.
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    try:
        check_no_repository(place.folder, place.path)
    except ToolExecutionError:
        # Another call brought the rest of a repository since the look at the name.
        os.unlink(place.name, dir_fd=place.folder)
        raise


def _write(folder: int, name: str, data: bytes, replaced: os.stat_result | None) -> None:
    # Nobody may read in the new file what they could not read in the old one.
    file = os.open(name, _FLAGS, 0o666 if replaced is None else 0o600, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        if replaced is not None:
            with contextlib.suppress(PermissionError):
                os.fchown(file, -1, replaced.st_gid)
            os.fchmod(file, stat.S_IMODE(replaced.st_mode) & _PERMISSIONS)
        os.fsync(file)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)


def _check_time(place: Place, deadline: float | None) -> None:
    # A thread runs on when its call was given up.
    if deadline is not None and time.monotonic() > deadline:
        raise ToolExecutionError(f"the time of the call was over; {place.path!r} was not written")


def _check_unchanged(place: Place, seen: os.stat_result | None) -> None:
    now = status_of(place)
    if (now is None) != (seen is None) or (now and seen and _state(now) != _state(seen)):
        raise _changed(place)


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def _changed(place: Place) -> ToolExecutionError:
    return ToolExecutionError(
        f"{place.path!r} was changed by somebody else meanwhile; nothing was written: read it "
        "again first"
    )


def _sync_folder(folder: int) -> None:
    # Some file systems cannot bring a folder to the disk; the rename has happened all the same.
    with contextlib.suppress(OSError):
        os.fsync(folder)


def _lock(folder: int, path: str, deadline: float | None) -> None:
    # Loaded by name: other systems than those with descriptors of folders do not have it.
    fcntl: Any = import_module("fcntl")
    give_up = min(time.monotonic() + _PATIENCE, math.inf if deadline is None else deadline)
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise ToolExecutionError(
                    f"the folder of {path!r} is being changed by others; nothing was written: try "
                    "again later"
                ) from None
            time.sleep(_INTERVAL)
        except OSError:
            return  # a network file system without locks: the check before the rename stays
        else:
            return
