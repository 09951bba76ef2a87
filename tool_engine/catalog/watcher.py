"""When has the folder of definitions changed, so that it must be reloaded?

Two ways, alone or together: a look at the files' stamps every `interval` seconds, and the file
system's own events. One task does all of it, so two reloads never overlap, and a change during a
reload is followed by one more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from tool_engine.catalog.folder import (
    SETTLE_TIME,
    FileStamp,
    FolderError,
    list_definitions,
)

if TYPE_CHECKING:
    from tool_engine.catalog.file_events import FolderEvents
from tool_engine.logger import get_logger

__all__ = ["ToolWatcher"]

_log = get_logger(__name__)

_DEBOUNCE: Final = 0.05
"""Seconds without another event before a burst of them counts as over."""
_LONGEST_BURST: Final = 0.5
"""Seconds after which a burst is answered even though it goes on."""
_FOLDER_INTERVAL: Final = 0.5
"""Seconds between two looks at whether the watched folder is still the same folder."""
_LOOKS: Final = 5
"""Looks at files that are being written to before they are taken as they are."""

_Stamps = dict[str, FileStamp | None]


class ToolWatcher:
    """Calls `on_change` after the definitions in a folder changed.

    The folder may come into being later, and be deleted and made again. What `on_change` raises is
    logged. Start the watcher before the first load, so that no change falls between the two.

    Args:
        directory: The folder of definitions.
        on_change: Called without arguments, never twice at once.
        interval: Seconds between two looks at the files; None looks only when `watch` says so.
        watch: Reacts to the file system's events, within a tenth of a second.
        recursive: Includes sub-folders.

    Example:
        >>> async def reload(): ...
        >>> ToolWatcher("tools", reload, interval=5.0)
        ToolWatcher('tools', interval=5.0, watch=False, is_running=False)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        on_change: Callable[[], Awaitable[None]],
        *,
        interval: float | None = None,
        watch: bool = False,
        recursive: bool = False,
    ) -> None:
        self._directory = os.fspath(directory)
        self._on_change = on_change
        self._interval = interval
        self._watch = watch
        self._recursive = recursive
        self._is_running = False
        self._task: asyncio.Task[None] | None = None
        self._events: FolderEvents | None = None
        self._stamps: _Stamps = {}
        self._wake = asyncio.Event()
        self._is_touched = False

    def __repr__(self) -> str:
        return (
            f"ToolWatcher({self._directory!r}, interval={self._interval}, watch={self._watch}, "
            f"is_running={self.is_running})"
        )

    @property
    def is_running(self) -> bool:
        """Whether changes are being looked for."""
        return self._is_running

    async def start(self) -> None:
        """Remembers the folder's present state and begins to look for changes."""
        if self._is_running or (self._interval is None and not self._watch):
            return
        self._is_running = True
        loop = asyncio.get_running_loop()
        try:
            if self._watch:
                await asyncio.to_thread(self._observe, loop)
            self._stamps = await asyncio.to_thread(self._look)
        except BaseException:
            self._is_running = False
            raise
        finally:
            if not self._is_running:
                await asyncio.to_thread(self._stop_observing)
        if self._is_running:
            self._task = loop.create_task(self._run(), name=f"tool-watcher {self._directory}")

    async def stop(self) -> None:
        """Stops looking; no task and no thread of the watcher is left. May be called again."""
        task, self._task, self._is_running = self._task, None, False
        if task is None:
            return
        if task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(self._stop_observing)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time() + (self._interval or 0)
        while self._is_running:
            must_look = await self._wait(next_look - loop.time())
            if self._events is not None and await asyncio.to_thread(self._events.follow):
                must_look = self._is_touched = True
            if self._interval is not None and loop.time() >= next_look:
                must_look = True
                next_look = loop.time() + self._interval
            if must_look and await self._has_changed():
                await self._report()

    async def _wait(self, until_look: float) -> bool:
        """Waits for the next look; true when it is a burst of events that has ended."""
        timeout = until_look
        if self._watch:
            timeout = _FOLDER_INTERVAL if self._interval is None else min(timeout, _FOLDER_INTERVAL)
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self._wake.wait()
        except TimeoutError:
            return False
        loop = asyncio.get_running_loop()
        end = loop.time() + _LONGEST_BURST
        while self._wake.is_set() and loop.time() < end:
            self._wake.clear()
            await asyncio.sleep(_DEBOUNCE)
        self._wake.clear()
        return True

    async def _has_changed(self) -> bool:
        is_touched, self._is_touched = self._is_touched, False
        before = self._stamps
        self._stamps = await asyncio.to_thread(self._look)
        return is_touched or before != self._stamps

    async def _report(self) -> None:
        try:
            await self._on_change()
        except Exception as error:  # noqa: BLE001 - the next change must still be seen
            _log.error("reload_failed", directory=self._directory, error=repr(error))

    def _look(self) -> _Stamps:
        files: _Stamps = {}
        for _ in range(_LOOKS):
            try:
                files = list_definitions(self._directory, recursive=self._recursive)
            except FolderError as error:
                return {type(error).__name__: None}
            # A stamp of this very moment may stand for two states of the file.
            if not any(stamp is not None and stamp.is_recent() for stamp in files.values()):
                break
            time.sleep(SETTLE_TIME)
        return files

    def _observe(self, loop: asyncio.AbstractEventLoop) -> None:
        # watchdog is loaded only by those who ask for it.
        from tool_engine.catalog.file_events import FolderEvents

        def tell(is_definition_touched: bool) -> None:
            # A loop that was closed without stop() has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._touch, is_definition_touched)

        self._events = FolderEvents(self._directory, tell, recursive=self._recursive)
        self._events.follow()

    def _stop_observing(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.stop()

    def _touch(self, is_definition_touched: bool) -> None:
        self._is_touched = self._is_touched or is_definition_touched
        self._wake.set()
