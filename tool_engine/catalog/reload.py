"""How does a folder's present state become the next snapshot, and what changed on the way?

The rules: a file that breaks keeps its last good tool; a name that two places claim is an error of
each file and goes on meaning what it meant; a tool registered in code is never touched.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tool_engine.catalog.folder import (
    SETTLE_TIME,
    FileStamp,
    FolderError,
    MissingFolderError,
    list_definitions,
    read_definition,
    stamp_of,
)
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader, duplicate_error
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.tool import Tool

__all__ = ["Catalog", "FileOutcome", "FolderOutcome", "ScanOutcome", "merge"]

_MAX_SETTLING: Final = 10


class FileOutcome(msgspec.Struct, frozen=True):
    """What one file holds: a tool, or the error that keeps it from being one."""

    path: str
    tool: Tool | None
    error: str | None = None


class FolderOutcome(msgspec.Struct, frozen=True):
    """What a look at the folder found."""

    files: list[FileOutcome]
    error: tuple[str, str] | None = None
    """`(folder, message)` when the folder itself cannot be read."""
    is_complete: bool = True
    """False when the folder could not be listed: then its tools stay as they were."""


class ScanOutcome(msgspec.Struct, frozen=True):
    """The next snapshot, and how it differs from the one before."""

    index: ToolIndex
    added: list[str] = []
    modified: list[str] = []
    """Names whose definition hash changed."""
    removed: list[str] = []
    errors: list[tuple[str, str]] = []
    """`(file, message)` of everything that could not be loaded."""


class _Entry(msgspec.Struct, frozen=True):
    outcome: FileOutcome
    stamp: FileStamp | None
    """The state of the file that was read; None makes the next look read it again."""


class Catalog:
    """The folder of definitions, and what its files held when they were last looked at.

    Only files that changed are read again. `look` and `scan` block: call them in a thread.

    Args:
        directory: The folder; it may come and go.
        recursive: Looks into sub-folders too.
        check: Says what is wrong with a tool beyond its definition's own rules.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        recursive: bool = False,
        check: Callable[[Tool], list[DefinitionProblem]] | None = None,
    ) -> None:
        self.directory = os.fspath(directory)
        self._recursive = recursive
        self._check = check
        self._loader = ToolConfigLoader()
        self._entries: dict[str, _Entry] = {}
        self._has_looked = False
        # A look outlives the task that asked for it; the next one must not meet it half way.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Catalog({self.directory!r}, {len(self._entries)} files)"

    def scan(self, previous: ToolIndex) -> ScanOutcome:
        """Looks at the folder and merges what is there into `previous`."""
        return merge(previous, self.look())

    def look(self) -> FolderOutcome:
        """Reads the files that changed since the last look, once they have been left alone."""
        with self._lock:
            try:
                files = list_definitions(self.directory, recursive=self._recursive)
            except FolderError as error:
                is_gone = isinstance(error, MissingFolderError)
                if is_gone:
                    self._entries = {}
                return FolderOutcome([], (self.directory, str(error)), is_complete=is_gone)
            if self._has_looked:
                self._settle(files)
            self._has_looked = True
            self._entries = {path: self._entry(path, stamp) for path, stamp in files.items()}
            return FolderOutcome([entry.outcome for entry in self._entries.values()])

    def _settle(self, files: dict[str, FileStamp | None]) -> None:
        """Waits until changed files are no longer written to; updates their stamps in `files`."""
        for _ in range(_MAX_SETTLING):
            busy = [
                path
                for path, stamp in files.items()
                if stamp is not None and not self._is_known(path, stamp) and stamp.is_recent()
            ]
            if not busy:
                return
            time.sleep(SETTLE_TIME)
            is_quiet = True
            for path in busy:
                stamp = stamp_of(path)
                is_quiet = is_quiet and stamp == files[path]
                files[path] = stamp
            if is_quiet:
                return

    def _entry(self, path: str, stamp: FileStamp | None) -> _Entry:
        if stamp is not None and self._is_known(path, stamp):
            return self._entries[path]
        try:
            contents = read_definition(path)
            # A file written this very moment may change again under the same stamp.
            kept = None if contents.stamp.is_recent() else contents.stamp
            return _Entry(self._outcome(path, contents.data), kept)
        except DefinitionError as error:
            return _Entry(FileOutcome(path, None, str(error)), None)

    def _is_known(self, path: str, stamp: FileStamp) -> bool:
        entry = self._entries.get(path)
        return entry is not None and entry.stamp == stamp

    def _outcome(self, path: str, data: bytes) -> FileOutcome:
        try:
            tool = self._loader.load_text(data, path)
            problems = [] if self._check is None else self._check(tool)
            if problems:
                raise DefinitionError(*problems)
            return FileOutcome(path, tool)
        except DefinitionError as error:
            return FileOutcome(path, None, str(error))


def merge(previous: ToolIndex, folder: FolderOutcome) -> ScanOutcome:
    """The snapshot after `previous`, once the folder holds what `folder` says.

    Quick and without I/O, so that it can run where `previous` cannot change meanwhile.
    """
    errors = [] if folder.error is None else [folder.error]
    if not folder.is_complete:
        return ScanOutcome(previous, errors=errors)
    in_code = [tool for tool in previous if tool.source is None]
    claims = _claims(previous, folder.files, errors)
    taken = {tool.name for tool in in_code}
    tools = list(in_code)
    for name, claimants in claims.items():
        tool = _choose(name, claimants, previous, name in taken, errors)
        if tool is not None:
            tools.append(tool)
    index = ToolIndex(tools)
    return ScanOutcome(index, *_difference(previous, index), sorted(set(errors)))


def _claims(
    previous: ToolIndex, files: Iterable[FileOutcome], errors: list[tuple[str, str]]
) -> dict[str, list[Tool]]:
    """Which tools want each name: what the files hold, or held before they broke."""
    last_good: dict[str, list[Tool]] = {}
    for tool in previous:
        if tool.source is not None:
            last_good.setdefault(tool.source, []).append(tool)
    claims: dict[str, list[Tool]] = {}
    for file in files:
        if file.tool is not None:
            claims.setdefault(file.tool.name, []).append(file.tool)
            continue
        errors.append((file.path, str(file.error)))
        for tool in last_good.get(file.path, ()):
            claims.setdefault(tool.name, []).append(tool)
    return claims


def _choose(
    name: str,
    claimants: list[Tool],
    previous: ToolIndex,
    is_taken: bool,
    errors: list[tuple[str, str]],
) -> Tool | None:
    """The tool that a name means from now on; None when nothing says which."""
    present = previous.get(name)
    if len(claimants) == 1 and not is_taken:
        tool = claimants[0]
        # The same value again keeps what was compiled for it.
        return present if present == tool else tool
    sources = [str(tool.source) for tool in claimants]
    places = [*sources, "<code>"] if is_taken else sources
    errors.extend((source, str(duplicate_error(name, source, places))) for source in sources)
    if not is_taken and present is not None and present.source in sources:
        return present
    return None


def _difference(previous: ToolIndex, index: ToolIndex) -> tuple[list[str], list[str], list[str]]:
    added = [name for name in index.list_names() if name not in previous]
    removed = [name for name in previous.list_names() if name not in index]
    modified = [
        tool.name
        for tool in index
        if (old := previous.get(tool.name)) is not None
        and old is not tool
        and old.definition_hash != tool.definition_hash
    ]
    return added, modified, removed
