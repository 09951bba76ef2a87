"""What is in a folder and in the folders below it, always in the same order?

Folders are opened by descriptor from their parents, never through a link. The amount examined is
bounded in every direction, and the result says what was left out.
"""

from __future__ import annotations

import heapq
import os
import stat
import time
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.pattern import LinearPattern, glob_pattern
from tool_engine.executors.files.root import TEMPORARY, Place
from tool_engine.executors.files.text_content import status_of

DEFAULT_IGNORED: Final = (
    ".git",
    ".hg",
    ".svn",
    ".DS_Store",
    "__pycache__",
    "*.pyc",
    ".venv",
    "venv",
    "node_modules",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
)
"""Left out of listings and searches, unless the definition or the call says otherwise."""

MOST_NAMES: Final = 100_000
"""Of a folder with more entries, only the first ones by name are examined."""
MOST_ENTRIES: Final = 1_000_000
_RUN: Final = 2_000
_SHARE: Final = 0.8
_MOST_SECONDS: Final = 20.0
_FLAGS: Final = (
    os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
)
_MOST_NOTES: Final = 10


class Budget:
    """The remaining work of one call, and what was left out.

    `deadline` is on the monotonic clock; None: within 20 seconds.
    """

    def __init__(self, deadline: float | None) -> None:
        now = time.monotonic()
        seconds = _MOST_SECONDS if deadline is None else min(_MOST_SECONDS, deadline - now)
        self._end = now + seconds * _SHARE
        self._entries = MOST_ENTRIES
        self.notes: dict[str, None] = {}
        self.is_used_up = False

    def note(self, text: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[text] = None

    def spend(self) -> bool:
        self._entries -= 1
        if self._entries < 0:
            self.stop(f"stopped after {MOST_ENTRIES} entries; choose a folder further down")
        elif time.monotonic() > self._end:
            self.stop("stopped because the time was used up; choose a folder further down")
        return not self.is_used_up

    def stop(self, why: str) -> None:
        self.is_used_up = True
        self.notes[why] = None


class IgnoreRules:
    """Which entries are left out: globs of their names, or of their paths."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        self._names = frozenset(glob for glob in globs if not set(glob) & set("*?[{/"))
        patterns = (glob for glob in globs if glob not in self._names)
        self._patterns = [LinearPattern(glob_pattern(glob), "glob", glob) for glob in patterns]

    def hides(self, name: str, path: str) -> bool:
        return name in self._names or any(each.matches(path) for each in self._patterns)


class Entry(NamedTuple):
    place: Place
    """Its `path` is relative to the start of the walk."""
    kind: str
    """`file`, `folder`, `link` or `other`."""
    size: int


class _Level(NamedTuple):
    folder: int
    prefix: str
    names: Iterator[str]


def walk_tree(
    folder: int, depth: int, ignored: IgnoreRules, budget: Budget
) -> Generator[Entry, None, None]:
    """Yield the entries below `folder` by name, each folder before its content.

    The caller closes `folder`; a `depth` of 1 is the folder alone. The walk ends when `budget` is
    spent.
    """
    levels = [_Level(folder, "", _list_names(folder, "", budget))]
    try:
        while levels:
            level = levels[-1]
            name = next(level.names, None)
            if name is None or budget.is_used_up:
                _leave_folder(levels, folder)
                continue
            path = f"{level.prefix}{name}"
            if not budget.spend() or ignored.hides(name, path):
                continue
            entry = _make_entry(Place(level.folder, name, path), budget)
            if entry is None:
                continue
            yield entry
            if entry.kind == "folder" and len(levels) < depth:
                _enter_folder(levels, entry, budget)
    finally:
        while levels:
            _leave_folder(levels, folder)


def _leave_folder(levels: list[_Level], folder: int) -> None:
    left = levels.pop().folder
    if left != folder:
        os.close(left)


def _enter_folder(levels: list[_Level], entry: Entry, budget: Budget) -> None:
    try:
        opened = os.open(entry.place.name, _FLAGS, dir_fd=entry.place.folder)
    except OSError as error:
        budget.note(f"{entry.place.path!r} was left out: {error.strerror}")
        return
    prefix = f"{entry.place.path}/"
    levels.append(_Level(opened, prefix, _list_names(opened, prefix, budget)))


def _list_names(folder: int, prefix: str, budget: Budget) -> Iterator[str]:
    count = 0

    def found() -> Iterator[str]:
        nonlocal count
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if not count % 1_000 and not budget.spend():
                    return
                if _is_text(entry.name) and not entry.name.startswith(TEMPORARY):
                    yield entry.name

    where = prefix.rstrip("/") or "."
    try:
        names = _first_sorted(found(), MOST_NAMES)
    except OSError as error:
        budget.note(f"{where!r} was left out: {error.strerror}")
        return iter(())
    if count > MOST_NAMES:
        budget.note(f"{where!r} has {count} entries; only the first {MOST_NAMES} were looked at")
    return names


def _first_sorted(names: Iterator[str], most: int) -> Iterator[str]:
    """Return the first `most` names, sorted; hold at most twice as many."""
    runs: list[list[str]] = []
    held = 0
    # In small steps: sorting a list blocks the whole process.
    while run := sorted(islice(names, _RUN)):
        runs.append(run)
        held += len(run)
        if held >= 2 * most:
            runs, held = [list(islice(heapq.merge(*runs), most))], most
    return islice(heapq.merge(*runs), most)


def _is_text(name: str) -> bool:
    """Return True if JSON can hold the name, which may be bytes."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _make_entry(place: Place, budget: Budget) -> Entry | None:
    try:
        status = status_of(place)
    except ToolExecutionError as error:
        budget.note(f"left out: {error}")
        return None
    if status is None:
        return None
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return Entry(place, "file", status.st_size)
    kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"
    return Entry(place, kind, 0)
