"""What is in a file, if it is a regular file of text and not too large?

Nothing else is ever opened: the kind is checked before and after opening the file, and the opening
itself can neither wait for a pipe nor follow a link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.file_errors import explain_failure, not_regular, not_there
from tool_engine.executors.files.root import Place

_CHUNK: Final = 1024 * 1024
_FLAGS: Final = (
    os.O_RDONLY
    | os.O_CLOEXEC
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
)
_ATTEMPTS: Final = 3
_LOOKED_AT: Final = 8192
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class FileContent(msgspec.Struct, frozen=True):
    data: bytes
    status: os.stat_result

    @property
    def version(self) -> str:
        """An id of the content, the same for the same bytes."""
        return version_of(self.data)


def read_content(place: Place, max_bytes: int) -> FileContent:
    """Read a regular file that does not change meanwhile; raise `ToolExecutionError`."""
    status = status_of(place)
    if status is None:
        raise not_there(place.path, place.name, place.folder)
    if not stat.S_ISREG(status.st_mode):
        raise not_regular(status.st_mode, place.path)
    try:
        file = os.open(place.name, _FLAGS, dir_fd=place.folder)
        try:
            return _read_whole(file, place.path, max_bytes)
        finally:
            os.close(file)
    except OSError as error:
        raise explain_failure(error, place.path) from None


def status_of(place: Place) -> os.stat_result | None:
    """Return the entry's own status, not that of a link's target."""
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain_failure(error, place.path) from None


def text_of(data: bytes, path: str) -> str:
    """Return `data` as text; raise `ToolExecutionError` unless it is UTF-8. Keeps the BOM."""
    if data[:2] in _UTF_16:
        raise ToolExecutionError(f"{path!r} is UTF-16 text; only UTF-8 is read, convert it first")
    zero = data.find(b"\0")
    if zero >= 0:
        raise ToolExecutionError(
            f"{path!r} is binary ({len(data)} bytes, a zero byte at {zero}); only text is read"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        kind = "binary" if error.start < _LOOKED_AT else "not UTF-8 text throughout"
        raise ToolExecutionError(
            f"{path!r} is {kind} ({len(data)} bytes, no UTF-8 at byte {error.start}); only UTF-8 "
            "text is read"
        ) from None


def version_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _read_whole(file: int, path: str, max_bytes: int) -> FileContent:
    for _ in range(_ATTEMPTS):
        before = os.fstat(file)
        if not stat.S_ISREG(before.st_mode):
            raise not_regular(before.st_mode, path)
        if before.st_size > max_bytes:
            raise _too_large(path, before.st_size, max_bytes)
        data = _read_bytes(file, path, max_bytes)
        after = os.fstat(file)
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return FileContent(data, after)
    raise ToolExecutionError(
        f"{path!r} was written to each of the {_ATTEMPTS} times that it was read; try again later"
    )


def _read_bytes(file: int, path: str, max_bytes: int) -> bytes:
    """Read all bytes; the size in a file's status is only a claim."""
    parts: list[bytes] = []
    size = 0
    while part := os.pread(file, _CHUNK, size):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise _too_large(path, size, max_bytes)
    return b"".join(parts)


def _too_large(path: str, size: int, max_bytes: int) -> ToolExecutionError:
    return ToolExecutionError(
        f"{path!r} has {size} bytes or more; this tool takes files of at most {max_bytes} bytes"
    )
