"""What does the file system report about a folder that may come, go and be replaced?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from tool_engine.catalog.folder import is_definition
from tool_engine.logger import get_logger

__all__ = ["FolderEvents"]

_log = get_logger(__name__)

_IGNORED: Final = frozenset({"opened", "closed_no_write"})
"""What reading a file causes; reacting to it would make every reload cause the next."""


class FolderEvents:
    """Calls `touch` for every event in a folder, from a thread of its own.

    Every method blocks: call them in a thread.

    Args:
        directory: The folder; it need not exist.
        touch: Called with whether the event is about a definition.
        recursive: Includes sub-folders.
    """

    def __init__(
        self, directory: str, touch: Callable[[bool], None], *, recursive: bool = False
    ) -> None:
        self._directory = directory
        self._recursive = recursive
        self._handler = _Handler(touch)
        self._folder: tuple[int, int] | None = None
        self._observer = Observer()
        self._observer.start()

    def follow(self) -> bool:
        """Watches the folder that now has the name; whether it is another one than before."""
        folder = _identity(self._directory)
        # A folder that is made again may get its old number; only the watch knows that it is new.
        if folder == self._folder and all(watch.is_alive() for watch in self._observer.emitters):
            return False
        self._observer.unschedule_all()
        self._folder = folder
        if folder is not None:
            self._schedule()
        return True

    def stop(self) -> None:
        """Ends the watching and its threads."""
        self._observer.stop()
        self._observer.join()

    def _schedule(self) -> None:
        path = os.path.realpath(self._directory)
        try:
            self._observer.schedule(self._handler, path, recursive=self._recursive)
        except OSError as error:
            # Gone again, or the system allows no more watches: looking goes on without events.
            self._observer.unschedule_all()
            _log.warning("watch_failed", directory=self._directory, error=repr(error))


class _Handler(FileSystemEventHandler):
    """Passes on what changes a file."""

    def __init__(self, touch: Callable[[bool], None]) -> None:
        self._touch = touch

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in _IGNORED:
            return
        paths = (event.src_path, event.dest_path)
        self._touch(any(is_definition(Path(os.fsdecode(path)).name) for path in paths))


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        state = Path(directory).stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
