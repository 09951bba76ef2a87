"""How does a file get its new content, so that it is always the old one or the new one?

The new content is written to a hidden file beside it, synced to disk, and renamed over the old
one. Whatever ends the process in between, the file is whole. One writer at a time changes a
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
from tool_engine.executors.files.file_errors import explain_failure, not_regular
from tool_engine.executors.files.guard import check_no_repository
from tool_engine.executors.files.root import TEMPORARY, Place
from tool_engine.executors.files.text_content import status_of

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_PATIENCE: Final = 10.0
_INTERVAL: Final = 0.005
_PERMISSIONS: Final = 0o777


@contextlib.contextmanager
def lock_folder(place: Place, deadline: float | None) -> Iterator[None]:
    """Lock the folder for all processes; raise after 10 s or at the deadline."""
    # A descriptor of its own: locks belong to descriptors, and this one closes with the lock.
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
    try:
        folder = os.open(".", flags, dir_fd=place.folder)
    except OSError as error:
        raise explain_failure(error, place.path) from None
    try:
        _lock_folder(folder, place.path, deadline)
        yield
    finally:
        os.close(folder)


def check_writable(place: Place) -> os.stat_result | None:
    """Return the file's status, or None; raise unless it is regular and writable."""
    status = status_of(place)
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise not_regular(status.st_mode, place.path)
    if not status.st_mode & 0o222:
        raise ToolExecutionError(f"{place.path!r} is read-only; it is left as it is")
    return status


def put_content(
    place: Place, data: bytes, replaced: os.stat_result | None, deadline: float | None = None
) -> None:
    """Make `data` the content of the file at `place`.

    Args:
        place: Where.
        data: The new content.
        replaced: The status of the file to replace, as it was seen; None: none may be replaced.
        deadline: When the call must have ended, on the monotonic clock; it has failed for its
            caller then, so nothing is changed any more.

    Raises:
        ToolExecutionError: The file has changed, the time is over, or the system refuses.
    """
    name = temporary_name()
    try:
        _write_file(place.folder, name, data, replaced)
        try:
            put_file(place, name, replaced, deadline)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place.folder)
    except OSError as error:
        raise explain_failure(error, place.path) from None


def temporary_name() -> str:
    return f"{TEMPORARY}{secrets.token_hex(8)}.tmp"


def put_file(
    place: Place, name: str, replaced: os.stat_result | None, deadline: float | None
) -> None:
    """Make the complete file `name` the one at `place`; arguments as for `put_content`.

    Afterwards the file may still exist under its old name as well. Like `put_content`, it raises
    `ToolExecutionError`, also where git would now treat the folder as a repository, and `OSError`
    where the system refuses.
    """
    _check_time(place, deadline)
    _check_unchanged(place, replaced)
    if replaced is None:
        _link_file(place, name)
    else:
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    _sync_folder(place.folder)


def _link_file(place: Place, name: str) -> None:
    """Link the file to its name; a rename could replace another file."""
    try:
        os.link(
            name,
            place.name,
            src_dir_fd=place.folder,
            dst_dir_fd=place.folder,
            follow_symlinks=False,
        )
    except FileExistsError:
        raise _changed_error(place) from None
    except OSError:
        # Some file systems have no hard links.
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    try:
        check_no_repository(place.folder, place.path)
    except ToolExecutionError:
        # Another call completed a repository after the name was checked.
        os.unlink(place.name, dir_fd=place.folder)
        raise


def _write_file(folder: int, name: str, data: bytes, replaced: os.stat_result | None) -> None:
    # The new file must not be readable for users who could not read the old one.
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
    # The thread keeps running after its call was given up.
    if deadline is not None and time.monotonic() > deadline:
        raise ToolExecutionError(f"the time of the call was over; {place.path!r} was not written")


def _check_unchanged(place: Place, seen: os.stat_result | None) -> None:
    now = status_of(place)
    if (now is None) != (seen is None) or (now and seen and _file_state(now) != _file_state(seen)):
        raise _changed_error(place)


def _file_state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def _changed_error(place: Place) -> ToolExecutionError:
    return ToolExecutionError(
        f"{place.path!r} was changed by another program meanwhile; nothing was written: read it "
        "again first"
    )


def _sync_folder(folder: int) -> None:
    # Some file systems cannot sync a folder; the rename has happened all the same.
    with contextlib.suppress(OSError):
        os.fsync(folder)


def _lock_folder(folder: int, path: str, deadline: float | None) -> None:
    # Loaded by name: only systems with folder descriptors have it.
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
