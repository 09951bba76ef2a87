"""How does a folder's present state become the next snapshot, and what changed on the way?

The rules: a file that breaks keeps its last good tools; a name that two places claim is an error of
each file and goes on meaning what it meant; a tool registered in code is never touched.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from tool_engine.catalog.arrivals import GONE, Arrivals
from tool_engine.catalog.cache import CachedLoader
from tool_engine.catalog.claims import Claims
from tool_engine.catalog.file_outcome import FileOutcome
from tool_engine.catalog.folder import (
    SETTLE_TIME,
    Contents,
    FileStamp,
    FolderError,
    MissingFolderError,
    find_definitions,
    list_definitions,
    read_once,
    stamp_of,
)
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import duplicate_error
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.tool import Tool

__all__ = [
    "PATIENCE",
    "Catalog",
    "FolderOutcome",
    "ScanOutcome",
    "merge",
    "new_tools",
]

PATIENCE: Final = 1.0
"""Seconds that a look waits for files that are being written."""


class FolderOutcome(msgspec.Struct, frozen=True):
    """What a look at the folder found: all of it, not only what changed."""

    files: tuple[FileOutcome, ...]
    claims: ToolIndex
    """The tools whose names one file defines."""
    rivals: dict[str, list[Tool]]
    """The tools of each name that several files define."""
    errors: list[tuple[str, str]]
    """`(file, message)` of each file that is broken, and of a folder that cannot be read."""
    is_complete: bool = True
    """False when the folder could not be listed: then its tools stay as they were."""
    version: int = 0
    """Another number than that of an earlier look when anything is different."""
    unsettled: frozenset[str] = frozenset()
    """Files that are being written: they are as they were, and must be looked at again soon."""


class ScanOutcome(msgspec.Struct, frozen=True):
    """The next snapshot, and how it differs from the one before."""

    index: ToolIndex
    """The snapshot before, itself, when nothing at all is different."""
    added: list[str] = []
    modified: list[str] = []
    """Names whose definition hash changed."""
    removed: list[str] = []
    errors: list[tuple[str, str]] = []
    """`(file, message)` of everything that could not be loaded."""


class _Read(msgspec.Struct, frozen=True, gc=False):
    """The state of a file that was read."""

    stamp: FileStamp | None
    """None for what could not be looked at."""
    is_sure: bool
    """Whether the file says the same for as long as its stamp is the same."""


class Catalog:
    """The folder of definitions, and what its files held when they were last looked at.

    A file that changed is read when two looks at it agree, and counts when a third look, after the
    reading, agrees as well; until then it stands for what it stood for. Files that did not change
    are not read again. `look` and `scan` block: call them in a thread.

    Args:
        directory: The folder; it may come and go.
        recursive: Looks into sub-folders too.
        check: Says what is wrong with a tool beyond its definition's own rules.
        check_key: What the answers of `check` depend on beside the tool, see `CachedLoader`.
        is_settled: Whether they depend on nothing else, see `CachedLoader`.
        cache_directory: Where the first look finds the tools of texts that were read before, see
            `cache_path`; None: nowhere.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        recursive: bool = False,
        check: Callable[[Tool], list[DefinitionProblem]] | None = None,
        check_key: Callable[[], str] | None = None,
        is_settled: Callable[[Tool], bool] | None = None,
        cache_directory: str | None = None,
    ) -> None:
        self.directory = os.fspath(directory)
        self.arrivals = Arrivals()
        """What is there and has not been read yet."""
        self._recursive = recursive
        self._loader = CachedLoader(
            cache_directory,
            self.directory,
            recursive=recursive,
            check=check,
            check_key=check_key,
            is_settled=is_settled,
        )
        self._files: dict[str, FileOutcome] = {}
        self._reads: dict[str, _Read] = {}
        self._broken: set[str] = set()
        self._claims = Claims()
        self._folder_error: FolderError | None = None
        self._has_looked = False
        self._version = 0
        self._found: FolderOutcome | None = None
        # A look outlives the task that asked for it; the next one must not meet it half way.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Catalog({self.directory!r}, {len(self._files)} files)"

    def scan(self, previous: ToolIndex) -> ScanOutcome:
        """Looks at the folder and merges what is there into `previous`."""
        return merge(previous, self.look())

    def look(
        self,
        paths: Collection[str] | None = None,
        *,
        settle: float = SETTLE_TIME,
        patience: float = PATIENCE,
    ) -> FolderOutcome:
        """Reads the files that changed since the last look, once they have been left alone.

        Args:
            paths: Looks only at these files, named as the folder's listing names them, and reads
                them even if they seem unchanged; None: at all of them.
            settle: Seconds for which a changed file must have been left alone.
            patience: Seconds to wait for files that are being written; after that, they are errors
                that keep their last good tools. 0: they are `unsettled` and no errors.
        """
        with self._lock:
            if self._folder_error is not None:
                paths = None
            try:
                states = self._states(paths, settle)
            except FolderError as error:
                self._lose_folder(error)
                return self._outcome_now(frozenset())
            self._note_folder_error(None)
            with self._loader.session([] if self._has_looked else list(states)):
                waiting = self._notice(paths, states)
                self._has_looked = True
                self._await_rest(waiting, settle, patience, is_told=paths is not None)
            if patience > 0:
                for path in waiting:
                    self._break(path, _unsettled_error(path), _Read(None, is_sure=False))
            return self._outcome_now(frozenset(waiting))

    def _states(self, paths: Collection[str] | None, settle: float) -> dict[str, FileStamp | None]:
        if paths is not None:
            return find_definitions(paths)
        try:
            return list_definitions(self.directory, recursive=self._recursive)
        except MissingFolderError:
            if not self._files:
                raise
            # Somebody may be putting another folder in its place.
            time.sleep(settle)
            return list_definitions(self.directory, recursive=self._recursive)

    def _notice(
        self, paths: Collection[str] | None, states: dict[str, FileStamp | None]
    ) -> set[str]:
        """Notes what differs from what was read; returns the files to wait for."""
        arrivals = self.arrivals
        looked_at = self._files.keys() | arrivals.paths() if paths is None else set(paths)
        for path in looked_at - states.keys():
            if path in self._files:
                arrivals.note(path, GONE)
            else:
                arrivals.drop(path)
        for path, stamp in states.items():
            read = self._reads.get(path)
            if not self._has_looked and self._is_at_rest(path, stamp) and self._read(path, stamp):
                continue
            if paths is not None or read is None or read.stamp != stamp:
                # At the start, what has long been there need not be waited for.
                arrivals.note(path, stamp, trusts_age=not self._has_looked)
            else:
                arrivals.drop(path)
                if not read.is_sure:
                    self._read(path, stamp)
        return arrivals.paths() & (looked_at | states.keys())

    def _is_at_rest(self, path: str, stamp: FileStamp | None) -> bool:
        """Whether nobody has written a file for long, though nobody has looked at it before."""
        return (
            stamp is not None
            and stamp.size > 0
            and stamp.age() > PATIENCE
            and not self.arrivals.is_open(path)
        )

    def _await_rest(
        self, waiting: set[str], settle: float, patience: float, *, is_told: bool
    ) -> None:
        """Reads the files that are waited for as they come to rest; takes them out of `waiting`."""
        end = time.monotonic() + max(patience, 2 * SETTLE_TIME)
        while waiting:
            pause = settle
            for path in sorted(waiting):
                read = None if is_told else self._reads.get(path)
                left = self.arrivals.time_left(path, settle, read.stamp if read else None)
                if left > 0:
                    pause = min(pause, left)
                elif self._read(path, self.arrivals.stamp(path)):
                    waiting.remove(path)
            if not waiting or time.monotonic() + pause > end:
                return
            time.sleep(pause)

    def _read(self, path: str, stamp: FileStamp | None) -> bool:
        """Reads a file; false when it is no longer in the state that `stamp` stands for."""
        contents, error = None, None
        try:
            if stamp is not GONE:
                contents = read_once(path)
        except DefinitionError as caught:
            error = caught
        now = stamp_of(path) or find_definitions([path]).get(path, GONE)
        read = GONE if contents is None else contents.stamp
        if now != stamp or (error is None and read != stamp):
            self.arrivals.note(path, now)
            return False
        self.arrivals.drop(path)
        if error is not None:
            is_sure = stamp is not None and not isinstance(error.__cause__, OSError)
            self._break(path, error, _Read(stamp, is_sure))
        elif contents is not None:
            self._load(path, contents)
        else:
            self._remove(path)
        return True

    def _load(self, path: str, contents: Contents) -> None:
        read = _Read(contents.stamp, not contents.stamp.may_hide_a_change())
        try:
            tools = self._loader.load_tools(contents.data, path)
        except DefinitionError as error:
            self._break(path, error, read)
        else:
            if path in self._files:
                before = {tool.name: tool for tool in self._tools_of(path)}
                # The same value again keeps what was compiled for it.
                tools = [old if (old := before.get(new.name)) == new else new for new in tools]
            self._put(FileOutcome.of(path, tools), read)

    def _break(self, path: str, error: DefinitionError, read: _Read) -> None:
        """Notes that a file cannot be loaded; its last good tools stay."""
        self._put(FileOutcome.of(path, self._tools_of(path), str(error)), read)

    def _put(self, outcome: FileOutcome, read: _Read) -> None:
        path = outcome.path
        self._reads[path] = read
        if self._files.get(path) == outcome:
            return
        self._claims.replace(self._tools_of(path), outcome.tools)
        self._files[path] = outcome
        (self._broken.discard if outcome.error is None else self._broken.add)(path)
        self._note_difference()

    def _remove(self, path: str) -> None:
        if path not in self._files:
            return  # it came and went before anybody had read it
        self._claims.replace(self._tools_of(path), [])
        del self._files[path], self._reads[path]
        self._broken.discard(path)
        self._note_difference()

    def _tools_of(self, path: str) -> list[Tool]:
        file = self._files.get(path)
        return [] if file is None else file.tools

    def _lose_folder(self, error: FolderError) -> None:
        self._note_folder_error(error)
        if isinstance(error, MissingFolderError):
            for path in list(self._files):
                self._remove(path)

    def _note_folder_error(self, error: FolderError | None) -> None:
        if str(error) != str(self._folder_error):
            self._note_difference()
        self._folder_error = error

    def _note_difference(self) -> None:
        self._version += 1
        self._found = None

    def _outcome_now(self, unsettled: frozenset[str]) -> FolderOutcome:
        if self._found is None:
            error = self._folder_error
            errors = [(path, str(self._files[path].error)) for path in self._broken]
            self._found = FolderOutcome(
                tuple(self._files.values()),
                self._claims.index(),
                dict(self._claims.rivals),
                errors if error is None else [*errors, (self.directory, str(error))],
                is_complete=error is None or isinstance(error, MissingFolderError),
                version=self._version,
            )
        if not unsettled:
            return self._found
        return msgspec.structs.replace(self._found, unsettled=unsettled)


def merge(previous: ToolIndex, folder: FolderOutcome) -> ScanOutcome:
    """The snapshot after `previous`, once the folder holds what `folder` says.

    Quick and without I/O, so that it can run where `previous` cannot change meanwhile.
    """
    errors = list(folder.errors)
    if not folder.is_complete:
        return ScanOutcome(previous, errors=errors)
    changes: dict[str, Tool | None] = {}
    claimed, known = new_tools(previous, folder), previous.new_since(folder.claims)
    for tool in claimed:
        if tool.name in previous.registered:
            errors.append(_duplicate(tool, ["<code>"]))
        elif previous.get(tool.name) != tool:
            changes[tool.name] = tool
    for tool in known:
        if tool.source is not None and tool.name not in folder.claims:
            rivals = folder.rivals.get(tool.name, ())
            # A name that several claim goes on meaning what it meant.
            if tool.source not in [rival.source for rival in rivals]:
                changes[tool.name] = None
    for name, rivals in folder.rivals.items():
        places = [str(rival.source) for rival in rivals]
        places += ["<code>"] if name in previous.registered else []
        errors += [_duplicate(rival, places) for rival in rivals]
    index = previous.with_changes(changes) if changes else previous
    index.note_likeness(folder.claims, {tool.name for tool in claimed + known} - changes.keys())
    return ScanOutcome(index, *_difference(previous, changes), sorted(set(errors)))


def new_tools(previous: ToolIndex, folder: FolderOutcome) -> list[Tool]:
    """The tools that the folder holds and `previous` does not, as far as one file defines them."""
    return folder.claims.new_since(previous)


def _duplicate(tool: Tool, places: list[str]) -> tuple[str, str]:
    source = str(tool.source)
    return source, str(duplicate_error(tool.name, source, places))


def _difference(
    previous: ToolIndex, changes: dict[str, Tool | None]
) -> tuple[list[str], list[str], list[str]]:
    added = [name for name in changes if name not in previous]
    removed = [name for name, tool in changes.items() if tool is None]
    modified = [
        name
        for name, tool in changes.items()
        if tool is not None
        and (old := previous.get(name)) is not None
        and old.definition_hash != tool.definition_hash
    ]
    return sorted(added), sorted(modified), sorted(removed)


def _unsettled_error(path: str) -> DefinitionError:
    message = "the file is being written; it is read again when it has settled"
    return DefinitionError(DefinitionProblem(message, path))
