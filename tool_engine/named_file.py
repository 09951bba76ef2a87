"""How is a path that a person names read and written, be it file, device or pipe?

A pipe is read to its end and a device is written to. Neither is waited for when no program is at
its other end, and neither is replaced by a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_PATIENCE: Final = 2.0
"""Seconds to wait for a program to open the other end of a named pipe."""
_MOST: Final = 256 << 20
"""Bytes; some devices and pipes have no end."""
_NOT_WAITING: Final = getattr(os, "O_NONBLOCK", 0)
_ALONE: Final = errno.EPIPE
_UNREAD: Final = {
    errno.ENOENT: "check its name",
    errno.ENOTDIR: "check its name",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "allow it with chmod, or run as its owner",
    errno.EFBIG: "name a smaller one",
    errno.ELOOP: "the link leads back to itself: make it anew",
    _ALONE: "start the program that writes to it first",
}
_UNWRITTEN: Final = {
    errno.ENOENT: "make its folder first",
    errno.ENOTDIR: "check its name",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "allow it with chmod, or name another one",
    errno.EROFS: "name another one",
    errno.ENOSPC: "make room there, or name another one",
    errno.ELOOP: "the link leads back to itself: name another one",
    errno.ENXIO: "no program reads from this pipe: start that one first",
}


def why_unread(error: OSError) -> str:
    """Return why a file cannot be read, and what to do about it."""
    file = error.filename
    if error.errno == errno.ENOENT and isinstance(file, str | os.PathLike) and is_broken_link(file):
        return f"it {explain_missing(file)}; make the link anew, or what it leads to"
    return _explain_error(error, _UNREAD)


def is_broken_link(path: str | os.PathLike[str]) -> bool:
    """Return True if a path is a link to what is not there."""
    return os.path.islink(path) and not os.path.exists(path)  # noqa: PTH110, PTH114 - no error


def explain_missing(path: str | os.PathLike[str]) -> str:
    """Return in which way there is nothing at a path, to stand behind its name.

    Example:
        >>> explain_missing("nowhere")
        'does not exist'
    """
    if not is_broken_link(path):
        return "does not exist"
    target = os.readlink(path)  # noqa: PTH115 - as text
    try:
        os.stat(path)  # noqa: PTH116 - the reason is what is asked for
    except OSError as error:
        if error.errno == errno.ELOOP:
            return f"is a link to {target!r}, which leads back to it"
    return f"is a link to {target!r}, which does not exist"


def why_unwritten(error: OSError) -> str:
    """Return why a file cannot be written, and what to do about it."""
    file = error.filename
    if error.errno == errno.EACCES and file is not None and not os.path.lexists(file):
        folder = find_folder(file)
        return f"{error.strerror}; allow it in {str(folder)!r} with chmod, or name another one"
    return _explain_error(error, _UNWRITTEN)


def find_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder that a new file or folder would be made in: the nearest that is there."""
    return next(filter(os.path.isdir, Path(path).parents), Path())


def _explain_error(error: OSError, cures: dict[int, str]) -> str:
    cure = cures.get(error.errno or 0)
    reason = error.strerror or str(error)
    return reason if cure is None else f"{reason}; {cure}"


def read_named(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a file, a device or a pipe.

    Raises:
        OSError: It cannot be read or has more than 256 MiB; of a pipe, also that no program writes
            to it. `why_unread` says what to do.
    """
    descriptor = os.open(path, os.O_RDONLY | _NOT_WAITING)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - it is open already
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            data = stream.read(_MOST + 1)
        else:
            first = _first_of(descriptor)
            os.set_blocking(descriptor, True)
            data = first + stream.read(_MOST + 1)
    if len(data) > _MOST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def _first_of(pipe: int) -> bytes:
    """Wait for a writer of a named pipe and return its first bytes."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    try:
        first = os.read(pipe, 1 << 16)
        if first or poll.poll(_PATIENCE * 1000):
            return first
        # One may have opened it meanwhile, and not written yet.
        first = os.read(pipe, 1 << 16)
    except BlockingIOError:
        # There is one, which takes its time.
        return b""
    if not first:
        raise OSError(_ALONE, "No program writes to this pipe")
    return first


def write_named(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file in one step, as `writing_named` does."""
    with writing_named(path) as stream:
        stream.write(data)


@contextlib.contextmanager
def writing_named(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream that becomes the file at the end; links stay.

    Devices and pipes, such as `/dev/stdout`, are written to directly.

    Raises:
        OSError: It cannot be written; `why_unwritten` says what to do.
    """
    if not _is_file(path):
        descriptor = os.open(path, os.O_WRONLY | _NOT_WAITING)
        os.set_blocking(descriptor, True)
        with open(descriptor, "wb") as device:  # noqa: PTH123 - it is open already
            yield device
        return
    target = Path(os.path.realpath(path))
    # Hidden, so that no loader takes it for a definition while it is being written.
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _is_file(path: str | os.PathLike[str]) -> bool:
    """True if the path is a regular file or does not exist yet."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except FileNotFoundError:
        return True
