"""Which tools, groups and servers do the files of a folder hold?

A file that breaks keeps its last good definitions.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from tool_engine.catalog.definition_files import (
    SETTLE_TIME,
    Contents,
    FileStamp,
    FolderError,
    MissingFolderError,
    find_definitions,
    hide_foreign_content,
    list_definitions,
    list_paths,
    read_once,
    read_rested,
    stamp_of,
)
from tool_engine.catalog.folder.arrivals import GONE, Arrivals
from tool_engine.catalog.folder.cache import CachedLoader
from tool_engine.catalog.folder.merging import FileOutcome, FolderOutcome
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import kind_of
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.json.unpacking import making_old_values
from tool_engine.model.tool import Tool

PATIENCE: Final = 1.0
"""Seconds that a look waits for files that are being written."""


class _Read(msgspec.Struct, frozen=True, gc=False):
    stamp: FileStamp | None
    """None for a file whose state could not be read."""
    is_sure: bool
    """Whether an equal stamp proves equal contents."""


class Catalog:
    """The folder of definitions, and what its last look found.

    A file that changed is read when two looks at it agree, and counts when a third look, after the
    reading, agrees as well; until then its former contents count. Files that did not change are not
    read again. `look` and `scan` block: call them in a thread.

    The folder may come and go. `check`, `check_key` and `is_settled` are those of `CachedLoader`;
    the first look uses the cache in `cache_directory`, see `cache_path`.
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
        """Files that exist and have not been read yet."""
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
        self._mixed: set[str] = set()
        """The files that hold more than tools."""
        self._claims = Claims()
        self._folder_error: FolderError | None = None
        self._has_looked = False
        self._version = 0
        self._found: FolderOutcome | None = None
        # A look outlives a task that gave up waiting for it; the next one must not overlap it.
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Catalog({self.directory!r}, {len(self._files)} files)"

    def look(
        self,
        paths: Collection[str] | None = None,
        *,
        settle: float = SETTLE_TIME,
        patience: float = PATIENCE,
    ) -> FolderOutcome:
        """Read the files that changed since the last look, once they rest.

        Only `paths`, as the folder's listing names them, are looked at, and read even if they seem
        unchanged; None: all. A changed file must have been left alone for `settle` seconds. After
        `patience` seconds, files that are still being written are errors that keep their last good
        tools; with 0 seconds they are `unsettled` and no errors.
        """
        with self._lock:
            if self._folder_error is not None:
                paths = None
            is_told = paths is not None
            try:
                states = self._find_states(paths, settle)
            except FolderError as error:
                self._lose_folder(error)
                return self._outcome_now(frozenset())
            self._note_folder_error(None)
            with self._loader.session([] if self._has_looked else list(states)):
                if not self._has_looked:
                    with making_old_values():
                        paths = states = self._read_rested(states)
                waiting = self._notice_changes(paths, states)
                self._has_looked = True
                self._await_rest(waiting, settle, patience, is_told=is_told)
            if patience > 0:
                for path in waiting:
                    self._note_broken(path, _unsettled_error(path), _Read(None, is_sure=False))
            return self._outcome_now(frozenset(waiting))

    def _find_states(
        self, paths: Collection[str] | None, settle: float
    ) -> dict[str, FileStamp | None]:
        if paths is not None:
            return find_definitions(paths)
        if not self._has_looked:
            return dict.fromkeys(sorted(list_paths(self.directory, recursive=self._recursive)))
        try:
            return list_definitions(self.directory, recursive=self._recursive)
        except MissingFolderError:
            if not self._files:
                raise
            # The folder may just be being replaced: look again before losing its tools.
            time.sleep(settle)
            return list_definitions(self.directory, recursive=self._recursive)

    def _notice_changes(
        self, paths: Collection[str] | None, states: dict[str, FileStamp | None]
    ) -> set[str]:
        """Note changes since the last reading; return the changed files."""
        arrivals = self.arrivals
        looked_at = self._files.keys() | arrivals.paths() if paths is None else set(paths)
        for path in looked_at - states.keys():
            if path in self._files:
                arrivals.note(path, GONE)
            else:
                arrivals.drop(path)
        for path, stamp in states.items():
            read = self._reads.get(path)
            if paths is not None or read is None or read.stamp != stamp:
                # At the start, files that have long been there need no wait.
                arrivals.note(path, stamp, trusts_age=not self._has_looked)
            else:
                arrivals.drop(path)
                if not read.is_sure:
                    self._read_file(path, stamp)
        self._note_renames(looked_at - states.keys(), states)
        return arrivals.paths() & (looked_at | states.keys())

    def _note_renames(self, gone: Collection[str], states: Mapping[str, FileStamp | None]) -> None:
        """Take over a renamed file in one step, without a rest.

        Else its tools would be gone from the look that misses its old name until the new one has
        rested.
        """
        reads = [(path, self._reads[path].stamp) for path in gone if path in self._reads]
        known = {stamp.identity: path for path, stamp in reads if stamp is not None}
        for path, stamp in states.items() if known else ():
            old = None if stamp is None or path in self._reads else known.get(stamp.identity)
            if old is not None and not self.arrivals.is_open(path):
                self.arrivals.note_at_rest(old, GONE)
                self.arrivals.note_at_rest(path, stamp)

    def _read_rested(self, paths: Iterable[str]) -> dict[str, FileStamp | None]:
        """Read unknown files that are old enough; return the states of the others."""
        others = []
        for path in paths:
            contents = None if self.arrivals.is_open(path) else read_rested(path, PATIENCE)
            if contents is None:
                others.append(path)
            else:
                self._load_contents(path, contents)
        return find_definitions(others)

    def _await_rest(
        self, waiting: set[str], settle: float, patience: float, *, is_told: bool
    ) -> None:
        """Read each file of `waiting` once it rests, and remove it."""
        end = time.monotonic() + max(patience, 2 * SETTLE_TIME)
        while waiting:
            # Reading the others may take longer than all the patience: each is looked at after it.
            pause, is_last = settle, time.monotonic() >= end
            for path in sorted(waiting):
                read = None if is_told else self._reads.get(path)
                left = self.arrivals.time_left(path, settle, read.stamp if read else None)
                if left > 0:
                    pause = min(pause, left)
                elif self._read_file(path, self.arrivals.stamp(path)):
                    waiting.remove(path)
            if not waiting or is_last:
                return
            time.sleep(max(min(pause, end - time.monotonic()), 0.0))

    def _read_file(self, path: str, stamp: FileStamp | None) -> bool:
        """Read a file; return False when its state is no longer `stamp`."""
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
            self._note_broken(path, error, _Read(stamp, is_sure))
        elif contents is not None:
            self._load_contents(path, contents)
        else:
            self._remove_file(path)
        return True

    def _load_contents(self, path: str, contents: Contents) -> None:
        read = _Read(contents.stamp, not contents.stamp.may_hide_a_change())
        try:
            found = self._loader.load_definitions(contents.data, path)
        except DefinitionError as error:
            self._note_broken(path, hide_foreign_content(error, path), read)
        else:
            if path in self._files:
                before = {(kind_of(old), old.name): old for old in self._held_by(path)}
                # Keep the equal old value: what was compiled for it stays usable.
                same = [(before.get((kind_of(new), new.name)), new) for new in found]
                found = [old if old == new else new for old, new in same]
            self._put_outcome(FileOutcome.of(path, found), read)

    def _note_broken(self, path: str, error: DefinitionError, read: _Read) -> None:
        """Note a broken file, which keeps its last good definitions."""
        self._put_outcome(FileOutcome.of(path, self._held_by(path), str(error)), read)

    def _put_outcome(self, outcome: FileOutcome, read: _Read) -> None:
        path = outcome.path
        self._reads[path] = read
        before = self._files.get(path)
        if before == outcome:
            return
        self._claims.replace([] if before is None else before.tools, outcome.tools)
        self._files[path] = outcome
        (self._broken.discard if outcome.error is None else self._broken.add)(path)
        (self._mixed.add if outcome.is_mixed else self._mixed.discard)(path)
        self._note_difference()

    def _remove_file(self, path: str) -> None:
        if path not in self._files:
            return  # it came and went before it was read
        self._claims.replace(self._files.pop(path).tools, [])
        del self._reads[path]
        self._broken.discard(path)
        self._mixed.discard(path)
        self._note_difference()

    def _held_by(self, path: str) -> list[Definition]:
        file = self._files.get(path)
        return [] if file is None else file.definitions

    def _lose_folder(self, error: FolderError) -> None:
        self._note_folder_error(error)
        if isinstance(error, MissingFolderError):
            for path in list(self._files):
                self._remove_file(path)

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
                [group for path in sorted(self._mixed) for group in self._files[path].groups],
                errors if error is None else [*errors, (self.directory, str(error))],
                [server for path in sorted(self._mixed) for server in self._files[path].servers],
                is_complete=error is None or isinstance(error, MissingFolderError),
                version=self._version,
            )
        if not unsettled:
            return self._found
        return msgspec.structs.replace(self._found, unsettled=unsettled)


def _unsettled_error(path: str) -> DefinitionError:
    message = "the file is being written; it is read again when it has settled"
    return DefinitionError(DefinitionProblem(message, path))


class Claims:
    """The names that files define, kept up to date file by file."""

    def __init__(self) -> None:
        self.rivals: dict[str, list[Tool]] = {}
        """The tools of each name that several files define, by file."""
        self._index = ToolIndex()
        self._changes: dict[str, Tool | None] = {}

    def index(self) -> ToolIndex:
        """Return the tools whose names only one file defines."""
        if self._changes:
            self._index, self._changes = self._index.with_changes(self._changes), {}
        return self._index

    def replace(self, old: Iterable[Tool], new: Iterable[Tool]) -> None:
        for tool in old:
            self._give_up(tool)
        for tool in new:
            self._claim_name(tool)

    def _give_up(self, tool: Tool) -> None:
        name = tool.name
        left = [rival for rival in self.rivals.pop(name, ()) if rival.source != tool.source]
        if len(left) > 1:
            self.rivals[name] = left
        else:
            self._changes[name] = left[0] if left else None

    def _claim_name(self, tool: Tool) -> None:
        name = tool.name
        sole = self._changes[name] if name in self._changes else self._index.get(name)
        others = self.rivals.get(name) or ([] if sole is None else [sole])
        if others:
            self.rivals[name] = sorted([*others, tool], key=lambda rival: str(rival.source))
            self._changes[name] = None
        else:
            self._changes[name] = tool
