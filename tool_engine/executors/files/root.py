"""Where below its root does a call's path lead, without ever leaving the root?

A path is walked component by component. Each folder is opened relative to the one before it, by
descriptor and with O_NOFOLLOW, so that a folder which is swapped for a link between two steps is
an error, never a way out. A symbolic link is read, not followed: its target is walked by the same
rules, and must be relative and stay below the root. `..` is refused in the path of a call; in a
link it leads back to the folder that the walk came through.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.file_errors import explain_failure, not_there
from tool_engine.executors.files.guard import Guard, check_no_repository

MAX_DEPTH: Final = 128
"""The most folders in a path: each takes a descriptor during the walk."""
_MAX_LINKS: Final = 16
_MAX_PATH: Final = 4096
_MAX_NAME: Final = 255
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
TEMPORARY: Final = ".tool-engine-"
"""The prefix of files that are being written, or were when their process died."""


class Place(NamedTuple):
    """An entry of a folder, which may or may not exist."""

    folder: int
    """The folder's descriptor, open while the context manager that gave the place is."""
    name: str
    """No link when the walk saw it; open it with O_NOFOLLOW."""
    path: str
    """The call's path, relative to the root, for messages."""


class FileRoot(NamedTuple):
    path: str
    """Absolute. Links in it are followed: the author of the definition vouches for it."""
    guarded: str | None = None
    """The folder of the tool's own definition, which is protected like what this process trusts."""

    @contextlib.contextmanager
    def place(
        self, path: str, *, writes: bool = False, makes: bool | None = None
    ) -> Iterator[Place]:
        """Open the place that `path` names, for a file.

        Args:
            path: Relative to the root, or absolute and below it.
            writes: True if the file is to be written: see `Guard`.
            makes: True to make missing folders; None: the tool has no such option.

        Raises:
            ToolExecutionError: The path leads out of the root, names no file, or cannot be walked.
        """
        shown, parts = self._split_path(path)
        if not parts or path.endswith("/"):
            raise ToolExecutionError(f"{_quote_path(path)} names a folder; give the path of a file")
        with self._begin_walk(shown, writes=writes, makes=makes) as walk:
            name = walk.to_file(parts)
            yield Place(walk.folder, name, shown)

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder `path`: its descriptor, and the path for messages."""
        shown, parts = self._split_path(path)
        with self._begin_walk(shown, writes=False, makes=None) as walk:
            walk.to_folder(parts)
            yield walk.folder, shown

    def _split_path(self, path: str) -> tuple[str, list[str]]:
        root = self.path.rstrip("/")
        if path.startswith("/"):
            if path.rstrip("/") != root and not path.startswith(f"{root}/"):
                raise ToolExecutionError(
                    f"{_quote_path(path)} is outside of the tool's folder; give a path relative "
                    "to it"
                )
            path = path[len(root) :]
        _check_text(path)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ToolExecutionError(
                f"{_quote_path(path)} has '..' in it; give the path from the tool's folder on"
            )
        shown = "/".join(parts) or "."
        if len(parts) > MAX_DEPTH + 1:
            raise _too_deep(shown)  # before folders are made for it
        return shown, parts

    @contextlib.contextmanager
    def _begin_walk(self, shown: str, *, writes: bool, makes: bool | None) -> Iterator[_Walk]:
        if os.open not in os.supports_dir_fd:
            raise ToolExecutionError(
                "file tools need an operating system that opens files relative to a folder, such "
                "as Linux or macOS"
            )
        try:
            root = os.open(self.path, _FOLDER_FLAGS)
        except OSError as error:
            raise ToolExecutionError(
                f"the tool's own folder cannot be opened ({error.strerror}), counted from that of "
                "its definition; create it, or correct entry.root: `tool-engine validate` names it"
            ) from None
        with contextlib.ExitStack() as held:
            held.callback(os.close, root)
            guard = Guard.now(self.guarded) if writes else None
            if guard is not None:
                guard.check_root(self.path)
            real = os.path.realpath(self.path) if writes else self.path
            yield held.enter_context(contextlib.closing(_Walk(root, real, shown, guard, makes)))


class _Walk:
    """One walk from a root; it closes the folders on its way."""

    def __init__(
        self, root: int, path: str, shown: str, guard: Guard | None, makes: bool | None
    ) -> None:
        self._root = root
        self._names = [path.rstrip("/")]
        self._shown = shown
        self._guard = guard
        self._makes = makes
        self._folders: list[int] = []
        self._links = 0

    @property
    def folder(self) -> int:
        return self._folders[-1] if self._folders else self._root

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.pop())

    def to_folder(self, parts: list[str]) -> None:
        self._follow_parts(deque(parts), is_file=False)

    def to_file(self, parts: list[str]) -> str:
        name = self._follow_parts(deque(parts), is_file=True)
        if name is None:
            raise ToolExecutionError(f"{self._shown!r} is a folder; give the path of a file")
        self._check_name(name)
        return name

    def _follow_parts(self, pending: deque[str], *, is_file: bool) -> str | None:
        while pending:
            part = pending.popleft()
            if part == "..":
                self._go_back()
            elif (target := self._read_link(part)) is not None:
                pending.extendleft(reversed(target))
            elif is_file and not pending:
                return part
            else:
                self._enter_folder(part)
        return None

    def _go_back(self) -> None:
        if not self._folders:
            raise _leads_out(self._shown)
        os.close(self._folders.pop())
        self._names.pop()

    def _read_link(self, name: str) -> list[str] | None:
        try:
            target = os.readlink(name, dir_fd=self.folder)
        except OSError:
            return None  # not a link, or not there: opening it shows which
        self._links += 1
        if self._links > _MAX_LINKS:
            raise ToolExecutionError(
                f"{self._shown!r} leads through more than {_MAX_LINKS} symbolic links"
            )
        if target.startswith("/"):
            raise _leads_out(self._shown)
        return [part for part in target.split("/") if part not in ("", ".")]

    def _enter_folder(self, name: str) -> None:
        if len(self._folders) >= MAX_DEPTH:
            raise _too_deep(self._shown)
        self._check_name(name)
        above = self.folder
        self._folders.append(self._open_folder(name))
        self._names.append(name)
        if self._guard is not None:
            self._guard.check_folder(self.folder, self._shown)
            # Another call may have completed a repository after the name was checked.
            check_no_repository(above, self._shown)

    def _open_folder(self, name: str) -> int:
        flags = _FOLDER_FLAGS | _NO_FOLLOW
        try:
            return os.open(name, flags, dir_fd=self.folder)
        except FileNotFoundError:
            if not self._makes:
                cure = "" if self._makes is None else "; set create_folders to make what is missing"
                raise not_there(self._shown, name, self.folder, cure) from None
        except OSError as error:
            raise explain_failure(error, self._shown) from None
        try:
            with contextlib.suppress(FileExistsError):
                self._make_folder(name)
            return os.open(name, flags, dir_fd=self.folder)
        except OSError as error:
            raise explain_failure(error, self._shown) from None

    def _make_folder(self, name: str) -> None:
        os.mkdir(name, dir_fd=self.folder)
        try:
            check_no_repository(self.folder, self._shown)
        except ToolExecutionError:
            # Two calls that each make a part both check afterwards, so one of them sees it all.
            os.rmdir(name, dir_fd=self.folder)
            raise

    def _check_name(self, name: str) -> None:
        if self._guard is not None:
            self._guard.check_name(self.folder, "/".join(self._names) or "/", name, self._shown)


def _check_text(path: str) -> None:
    if len(path.encode("utf-8", "replace")) > _MAX_PATH:
        raise ToolExecutionError(
            f"the path is {len(path)} characters long; the most are {_MAX_PATH} bytes"
        )
    for character in path:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise ToolExecutionError(
                f"{_quote_path(path)} has the character {character!a} in it, which no path may have"
            )
    if "\\" in path:
        raise ToolExecutionError(
            f"{_quote_path(path)} has a backslash in it; write '/' between folders"
        )
    long = next((part for part in path.split("/") if len(part.encode()) > _MAX_NAME), None)
    if long is not None:
        raise ToolExecutionError(
            f"{_quote_path(long)} is {len(long.encode())} bytes long; a name has {_MAX_NAME} at "
            "most"
        )


def _quote_path(path: str) -> str:
    return ascii(path) if len(path) <= 100 else f"{path[:100]!a}…"


def _too_deep(shown: str) -> ToolExecutionError:
    return ToolExecutionError(
        f"{shown!r} leads through more than {MAX_DEPTH} folders, the most there may be"
    )


def _leads_out(shown: str) -> ToolExecutionError:
    return ToolExecutionError(
        f"{shown!r} leads out of the tool's folder through a symbolic link, which is not followed"
    )
