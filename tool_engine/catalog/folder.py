"""Which files of a folder are definitions, have they changed, and what do they hold right now?"""

from __future__ import annotations

import os
import stat
import time
from typing import Final, NamedTuple

from tool_engine.catalog.limits import MAX_BYTES
from tool_engine.errors import DefinitionError, DefinitionProblem, ToolEngineError

__all__ = [
    "SETTLE_TIME",
    "Contents",
    "FileStamp",
    "FolderError",
    "MissingFolderError",
    "is_definition",
    "list_definitions",
    "read_definition",
    "stamp_of",
]

SETTLE_TIME: Final = 0.02
"""Seconds for which a file must have been left alone before it counts as written. Longer than the
tick of a file system's clock, so that two writes never carry the same stamp unnoticed."""

_SUFFIXES: Final = (".yaml", ".yml")
_ATTEMPTS: Final = 5


class FolderError(ToolEngineError, OSError):
    """A folder cannot be listed now; what was loaded from it stays."""


class MissingFolderError(FolderError):
    """A folder does not exist; it holds no definitions."""


class FileStamp(NamedTuple):
    """What tells one state of a file from another without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    def is_recent(self) -> bool:
        """Whether the file was written so lately that its writer may not be done."""
        return abs(time.time_ns() - self.modified_ns) < SETTLE_TIME * 1e9


class Contents(NamedTuple):
    """The bytes of a file, and the state of the file that they belong to."""

    data: bytes
    stamp: FileStamp


def is_definition(name: str) -> bool:
    """Whether a file of this name is a definition; hidden, swap and backup files are not."""
    return name.lower().endswith(_SUFFIXES) and not name.startswith((".", "#", "~"))


def list_definitions(directory: str, *, recursive: bool) -> dict[str, FileStamp | None]:
    """The definitions in `directory`, sorted by path, each with its stamp.

    The stamp is None for what has a definition's name and cannot be read as a file. Links to files
    are followed, links to folders are not.

    Raises:
        MissingFolderError: There is no such folder.
        FolderError: The folder cannot be listed.
    """
    found: dict[str, FileStamp | None] = {}
    pending = [directory]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if recursive and _is_folder(entry):
                        pending.append(entry.path)
                    elif is_definition(entry.name) and not entry.is_dir():
                        found[entry.path] = stamp_of(entry.path)
        except OSError as error:
            if folder == directory:
                raise _folder_error(directory, error) from error
            if not isinstance(error, FileNotFoundError):
                raise _folder_error(folder, error) from error
    return dict(sorted(found.items()))


def stamp_of(path: str) -> FileStamp | None:
    """The stamp of the file at `path`; None when it is no file, or not there."""
    try:
        state = os.stat(path)  # noqa: PTH116 - pathlib costs three times the call
    except OSError:
        return None
    return _stamp(state) if stat.S_ISREG(state.st_mode) else None


def read_definition(path: str) -> Contents:
    """The contents of one file, all from the same state of it.

    Raises:
        DefinitionError: It cannot be read, is no file, is too large, or does not stop changing.
    """
    for _ in range(_ATTEMPTS):
        try:
            contents = _read_once(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise _file_error(path, f"cannot be read: {reason}") from error
        if contents is not None:
            return contents
    raise _file_error(path, "is being written; it is read again when it has settled")


def _read_once(path: str) -> Contents | None:
    # Without O_NONBLOCK, opening a named pipe waits for somebody to write to it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise _file_error(path, "is not a regular file; remove or rename it")
        before = _stamp(state)
        if before.size > MAX_BYTES:
            raise _file_error(path, f"has {before.size} bytes; a definition may have {MAX_BYTES}")
        data = os.read(descriptor, before.size + 1)
        after = _stamp(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    return Contents(data, before) if before == after and len(data) == before.size else None


def _stamp(state: os.stat_result) -> FileStamp:
    return FileStamp(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _file_error(path: str, message: str) -> DefinitionError:
    return DefinitionError(DefinitionProblem(f"the file {message}", path))


def _folder_error(directory: str, error: OSError) -> FolderError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFolderError(
            f"the folder {directory!r} does not exist; create it, or change tools_directory"
        )
    return FolderError(
        f"the folder {directory!r} cannot be listed: {error.strerror}; its tools stay as they were"
    )
