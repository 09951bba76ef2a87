"""Which events does the file system report about a changing folder?"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from tool_engine.catalog.definition_files import is_definition
from tool_engine.logger import get_logger
from tool_engine.redaction import words_of

_log = get_logger(__name__)

TELLS_CLOSING: Final = sys.platform == "linux"
"""Whether the system reports that a written file was closed."""
_OPEN_TIME: Final = 5.0
"""Seconds after the last write until an open file counts as closed: its writer never closed it,
or the event was lost.
"""
_IGNORED: Final = frozenset({"opened", "closed_no_write"})
"""Events that reading a file causes; reacting would make every reload cause the next."""


class Touched(NamedTuple):
    paths: frozenset[str] = frozenset()
    """Definitions that may have changed and that no process has open for writing."""
    is_everything: bool = False
    """Whether any definition may have changed."""


class FolderEvents:
    """Collects what happens in a folder, in a thread of its own.

    `follow` and `stop` block: call them in a thread. The folder need not exist. `wake` is called,
    in the thread of the events, when there is something new to `take`.

    Raises:
        OSError: The system gives no watches.
    """

    def __init__(
        self, directory: str, wake: Callable[[], None], *, recursive: bool = False
    ) -> None:
        self._directory = directory
        self._wake = wake
        self._recursive = recursive
        self._real = directory
        self._folder: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._is_everything = False
        self._is_told = False
        self._written_at: dict[str, float] = {}
        self._observer = Observer()
        self._observer.start()

    def follow(self) -> bool:
        """Watch the folder of this name; return True if it is new."""
        folder = _folder_identity(self._directory)
        # A folder that is made again may get its old number; only the watch shows that it is new.
        if folder == self._folder and all(watch.is_alive() for watch in self._observer.emitters):
            return False
        self._observer.unschedule_all()
        self._folder = folder
        with self._lock:
            self._written_at = {}
        if folder is not None:
            self._schedule_watch()
        return True

    def stop(self) -> None:
        self._observer.stop()
        self._observer.join()

    def take(self) -> Touched:
        """Return the events since the last call."""
        with self._lock:
            self._forget_writers()
            paths = frozenset(self._paths - self._written_at.keys())
            touched = Touched(paths, self._is_everything)
            self._paths -= paths
            self._is_everything = self._is_told = False
        return touched

    def is_open(self, path: str) -> bool:
        """Return True if a writer still has the definition open."""
        with self._lock:
            return path in self._written_at

    def seconds_to_wait(self) -> float | None:
        """Return the seconds until a never closed file counts, or None."""
        with self._lock:
            if not self._written_at:
                return None
            return max(0.0, min(self._written_at.values()) + _OPEN_TIME - time.monotonic())

    def note(self, event: FileSystemEvent) -> None:
        kind = event.event_type
        if kind in _IGNORED or (event.is_directory and kind == "modified"):
            return
        with self._lock:
            if kind == "moved":
                self._note_event(os.fsdecode(event.src_path), "deleted", event.is_directory)
                self._note_event(os.fsdecode(event.dest_path), "created", event.is_directory)
            else:
                self._note_event(os.fsdecode(event.src_path), kind, event.is_directory)
            has_news = self._is_everything or not self._paths <= self._written_at.keys()
            must_tell = has_news and not self._is_told
            self._is_told = self._is_told or has_news
        if must_tell:
            self._wake()

    def _note_event(self, real_path: str, kind: str, is_directory: bool) -> None:
        relative = real_path.removeprefix(self._real).lstrip(os.sep)
        folders, _, name = relative.rpartition(os.sep)
        if folders.startswith(".") or f"{os.sep}." in folders:
            return  # Hidden folders hold no definitions.
        if is_directory and (self._recursive or real_path == self._real):
            self._is_everything = True
        elif is_definition(name):
            path = os.path.join(self._directory, relative)  # noqa: PTH118 - as scandir does
            self._paths.add(path)
            if kind == "modified" and TELLS_CLOSING:
                self._written_at[path] = time.monotonic()
            elif kind != "attrib":
                self._written_at.pop(path, None)
        elif kind == "created" and os.path.islink(real_path):  # noqa: PTH114 - for every event
            # Definitions may be links by way of it, as in a mounted Kubernetes ConfigMap.
            self._is_everything = True

    def _forget_writers(self) -> None:
        end = time.monotonic() - _OPEN_TIME
        for path in [path for path, written_at in self._written_at.items() if written_at <= end]:
            del self._written_at[path]

    def _schedule_watch(self) -> None:
        self._real = os.path.realpath(self._directory)
        try:
            self._observer.schedule(_Handler(self.note), self._real, recursive=self._recursive)
        except OSError as error:
            # Gone again, or the system allows no more watches: looking goes on without events.
            self._observer.unschedule_all()
            _log.warning("watch_failed", directory=self._directory, error=words_of(error))


class _Handler(FileSystemEventHandler):
    def __init__(self, note: Callable[[FileSystemEvent], None]) -> None:
        self._note = note

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._note(event)


def _folder_identity(directory: str) -> tuple[int, int] | None:
    try:
        state = Path(directory).stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
