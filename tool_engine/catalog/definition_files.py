"""Which definition files does a folder hold, and what is in them?"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final, NamedTuple

import msgspec

from tool_engine.catalog.limits import MAX_BYTES
from tool_engine.errors import DefinitionError, DefinitionProblem, ToolEngineError

SETTLE_TIME: Final = 0.02
"""Seconds for which a file must have been left alone before it counts as written. Longer than the
tick of a file system's clock, so that two writes never carry the same stamp unnoticed.
"""

_SECOND: Final = 10**9
_COARSE_TICK: Final = 2 * _SECOND
"""Nanoseconds of the longest tick that a file system's clock has."""
SUFFIXES: Final = (".yaml", ".yml")
_ATTEMPTS: Final = 5
_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
"""Without O_NONBLOCK, opening a named pipe waits for a writer."""
_REASONS: Final = "tool_engine.named_file"


def find_target(path: str | os.PathLike[str]) -> str:
    """Return what a path leads to; a link that leads to itself stays what it is.

    `Path.resolve` raises for such a link: what is wrong with it is said where it is read.
    """
    return os.path.realpath(path)


class FolderError(ToolEngineError, OSError):
    """A folder cannot be listed now; what was loaded from it stays."""


class MissingFolderError(FolderError):
    """A folder does not exist; it holds no definitions."""


class FileStamp(msgspec.Struct, frozen=True, gc=False):
    """The state of a file, for comparison without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int = 0
    """When anything about the file changed last; unlike `modified_ns`, no program can set it."""

    def age(self) -> float:
        """Return the seconds since the last change; below 0: clocks differ."""
        return (time.time_ns() - max(self.modified_ns, self.changed_ns)) / _SECOND

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What stays equal after a rename, without a write."""
        return (self.device, self.inode, self.size, self.modified_ns)

    def may_hide_a_change(self) -> bool:
        """Return True if a write now might not change the stamp.

        That is so for a file just written on a file system that counts whole seconds.
        """
        is_coarse = self.modified_ns % _SECOND == 0 and self.changed_ns % _SECOND == 0
        return is_coarse and abs(time.time_ns() - self.modified_ns) <= _COARSE_TICK


class Contents(NamedTuple):
    """The bytes of a file and the stamp that fits them."""

    data: bytes
    stamp: FileStamp


def is_definition(name: str) -> bool:
    """Return True for a definition's name, hidden and backup files excepted."""
    return name.lower().endswith(SUFFIXES) and not name.startswith((".", "#", "~"))


def list_definitions(directory: str, *, recursive: bool) -> dict[str, FileStamp | None]:
    """List the definitions in `directory`, sorted by path, each with its stamp.

    The stamp is None for what has a definition's name and cannot be read as a file. Links to files
    are followed, links to folders are not.

    Raises:
        MissingFolderError: There is no such folder.
        FolderError: The folder cannot be listed.
    """
    return find_definitions(list_paths(directory, recursive=recursive))


def list_paths(directory: str, *, recursive: bool) -> list[str]:
    """List what has a definition's name, in any order and unlooked at; raise as above."""
    found: list[str] = []
    pending = [directory]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if recursive and _is_folder(entry):
                        pending.append(entry.path)
                    elif is_definition(entry.name):
                        found.append(entry.path)
        except OSError as error:
            if folder == directory:
                raise _folder_error(directory, error) from error
            if not isinstance(error, FileNotFoundError):
                raise _folder_error(folder, error) from error
    return found


def find_definitions(paths: Iterable[str]) -> dict[str, FileStamp | None]:
    """Return those of `paths` that exist, in the form of `list_definitions`."""
    found: dict[str, FileStamp | None] = {}
    for path in sorted(paths):
        stamp = stamp_of(path)
        if stamp is not None or _is_listed(path):
            found[path] = stamp
    return found


def stamp_of(path: str) -> FileStamp | None:
    try:
        state = os.stat(path)  # noqa: PTH116 - pathlib costs three times the call
    except OSError:
        return None
    return _make_stamp(state) if stat.S_ISREG(state.st_mode) else None


def read_definition(path: str) -> Contents:
    """Read one file, with all bytes from the same state of it.

    Raises:
        DefinitionError: It cannot be read, is no file, is too large, or does not stop changing.
    """
    for _ in range(_ATTEMPTS):
        contents = read_once(path)
        if contents is not None and stamp_of(path) == contents.stamp:
            return contents
    raise _file_error(path, "is being written; it is read again when it has settled")


@contextmanager
def without_foreign_content(path: str) -> Iterator[None]:
    """Hide a file's text in errors about an outside link."""
    try:
        yield
    except DefinitionError as error:
        if (shown := hide_foreign_content(error, path)) is error:
            raise
        raise shown from None


def hide_foreign_content(error: DefinitionError, path: str) -> DefinitionError:
    """Return the error, or for an outside link one without the file's text.

    It may lead to any file of the machine, which is no definition.
    """
    return _foreign_error(error.problems[0].file) if _leads_elsewhere(path) else error


def _leads_elsewhere(path: str) -> bool:
    if not os.path.islink(path):  # noqa: PTH114 - pathlib is not loaded before it is needed
        return False
    folder, _ = os.path.split(path)
    inside = os.path.join(os.path.realpath(folder), "")  # noqa: PTH118 - the same
    return not os.path.realpath(path).startswith(inside)


def _foreign_error(file: str) -> DefinitionError:
    # Once, and of no line: how many lines are wrong, and which, says what the file holds.
    cure = "check the file itself, or put it in place of the link"
    message = f"the file is a link out of its folder, and no right definition; {cure}"
    return DefinitionError(DefinitionProblem(message, file, cure=cure))


def read_once(path: str) -> Contents | None:
    """Read one file; return None when its length changed meanwhile.

    Other changes show only in the stamp afterwards, so compare it.

    Raises:
        DefinitionError: It cannot be read, is no file, or is too large. Its cause is the OSError
            of a file that may be readable later although nothing about it changes.
    """
    try:
        return _read_contents(path)
    except OSError as error:
        reason = import_module(_REASONS).why_unread(error)
        if isinstance(error, FileNotFoundError) and os.path.islink(path):  # noqa: PTH114 - no error
            reason = f"it {_explain_missing(path)}; remove the link, or make what it leads to"
        raise _file_error(path, f"cannot be read: {reason}") from error


def read_rested(path: str, rest: float) -> Contents | None:
    """Read a file that nothing has touched for more than `rest` seconds; None: look closer."""
    try:
        descriptor = os.open(path, _READING)
    except OSError:
        return None
    try:
        state = os.fstat(descriptor)
        stamp = _make_stamp(state)
        is_one = stat.S_ISREG(state.st_mode) and 0 < stamp.size <= MAX_BYTES
        if not is_one or stamp.age() <= rest:
            return None
        data = os.read(descriptor, stamp.size + 1)
        is_same = len(data) == stamp.size and _is_unchanged(os.fstat(descriptor), state)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Contents(data, stamp) if is_same else None


def _read_contents(path: str) -> Contents | None:
    descriptor = os.open(path, _READING)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise _file_error(path, "is not a regular file; remove or rename it")
        before = _make_stamp(state)
        if before.size > MAX_BYTES:
            raise _file_error(path, f"has {before.size} bytes; a definition may have {MAX_BYTES}")
        data = os.read(descriptor, before.size + 1)
    finally:
        os.close(descriptor)
    return Contents(data, before) if len(data) == before.size else None


def _make_stamp(state: os.stat_result) -> FileStamp:
    return FileStamp(
        state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    )


def _is_unchanged(now: os.stat_result, before: os.stat_result) -> bool:
    """Return True if an open file, which stays the same one, was not written meanwhile."""
    return (
        now.st_mtime_ns == before.st_mtime_ns
        and now.st_ctime_ns == before.st_ctime_ns
        and now.st_size == before.st_size
    )


def _is_listed(path: str) -> bool:
    """Return True if a listing shows the non-file `path`."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return not os.path.isdir(path)  # noqa: PTH112 - as for `stat`


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _file_error(path: str, message: str) -> DefinitionError:
    return DefinitionError(DefinitionProblem(f"the file {message}", path))


def _explain_missing(path: str) -> str:
    # By name: most engines meet neither.
    explained: str = import_module(_REASONS).explain_missing(path)
    return explained


def _folder_error(directory: str, error: OSError) -> FolderError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFolderError(
            f"the folder {directory!r} {_explain_missing(directory)}; create it, or change "
            "tools_directory"
        )
    reason = import_module(_REASONS).why_unread(error)
    return FolderError(
        f"the folder {directory!r} cannot be listed, so its tools stay as they were: {reason}"
    )
