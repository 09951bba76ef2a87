"""When may definitions have changed, and which ones must be looked at?

Two ways, alone or together: a look at all files every `interval` seconds, and the file system's
own events, which name the files. One task does both, so two looks never overlap, and a change
during a look is followed by one more. No file system reports every event (network mounts, links to
other folders, queues that overflow), so a look at all files follows them after a while too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final

from tool_engine.catalog.definition_files import SETTLE_TIME
from tool_engine.logger import get_logger
from tool_engine.redaction import words_of

if TYPE_CHECKING:
    from tool_engine.catalog.folder.file_events import FolderEvents

_log = get_logger(__name__)

Look = Callable[[frozenset[str] | None, float], Awaitable[Collection[str]]]
"""Looks at the files of these paths, or at all for None, which must have been left alone for so
many seconds; returns those that are being written and must be looked at again.
"""

_POLL_SETTLE: Final = 0.2
"""Seconds of rest for a changed file where no event reports that it was closed."""
_AGAIN: Final = 0.05
"""Seconds until files that were being written are looked at again."""
_FOLDER_INTERVAL: Final = 0.5
"""Seconds between two checks that the watched folder is still the same folder."""
_SAFETY_INTERVAL: Final = 1.0
"""The fewest seconds between two looks at all files beside the events."""
_LONGEST_SAFETY_INTERVAL: Final = 10.0
_SAFETY_SHARE: Final = 100
"""Such looks take at most one in so many seconds."""
_LONGEST_BACK_OFF: Final = 60.0


class ToolWatcher:
    """Calls `look` after events and at intervals, when definitions may have changed.

    The folder may come into being later, and be deleted and made again. What `look` raises is
    logged, and all files are looked at again a little later. Start the watcher before the first
    load, so that no change falls between the two.

    Args:
        directory: The folder of definitions.
        look: See `Look`; never called twice at once.
        interval: Seconds between two looks at all files; None looks only when `watch` says so.
        watch: Reacts to the file system's events, and looks at all files now and then beside them.
        recursive: Includes sub-folders.

    Example:
        >>> async def look(paths, settle):
        ...     return []
        >>> ToolWatcher("tools", look, interval=5.0)
        ToolWatcher('tools', interval=5.0, watch=False, is_running=False)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        look: Look,
        *,
        interval: float | None = None,
        watch: bool = False,
        recursive: bool = False,
    ) -> None:
        self._directory = os.fspath(directory)
        self._look = look
        self._interval = interval
        self._watch = watch
        self._recursive = recursive
        self._is_running = False
        self._task: asyncio.Task[None] | None = None
        self._events: FolderEvents | None = None
        self._told_settle = SETTLE_TIME
        self._wake = asyncio.Event()
        self._unsettled: frozenset[str] = frozenset()
        self._next_look = self._next_follow = self._next_again = 0.0
        self._failures = 0
        self._looks_first = False
        """Whether something may have changed before it began."""

    def __repr__(self) -> str:
        return (
            f"ToolWatcher({self._directory!r}, interval={self._interval}, watch={self._watch}, "
            f"is_running={self.is_running})"
        )

    @property
    def is_running(self) -> bool:
        return self._is_running

    def is_open(self, path: str) -> bool:
        """Return True if events show that a writer has the definition open."""
        return self._events is not None and self._events.is_open(path)

    async def start(self) -> None:
        if self._is_running or (self._interval is None and not self._watch):
            return
        self._is_running = True
        loop = asyncio.get_running_loop()
        try:
            if self._watch:
                await asyncio.to_thread(self._observe_folder, loop)
        except BaseException:
            self._is_running = False
            raise
        finally:
            if not self._is_running:
                await asyncio.to_thread(self._stop_observing)
        if self._is_running:
            self._task = loop.create_task(
                self._watch_folder(loop), name=f"tool-watcher {self._directory}"
            )

    async def stop(self) -> None:
        """Stop looking, with no task or thread left; may be repeated."""
        task, self._task, self._is_running = self._task, None, False
        if task is None:
            return
        # With its event loop it has ended, too.
        is_here = task.get_loop() is asyncio.get_running_loop()
        if is_here and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(self._stop_observing)

    async def follow_loop(self) -> None:
        """Go on where another event loop runs than before, which has ended: look at all files."""
        task = self._task
        if task is None or task.get_loop() is asyncio.get_running_loop():
            return
        await self.stop()
        self._wake, self._looks_first = asyncio.Event(), True
        await self.start()

    async def _watch_folder(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_look = loop.time() + (0.0 if self._looks_first else self._look_period(0.0))
        self._next_follow = loop.time()
        while self._is_running:
            await self._wait_for_change(loop)
            await self._answer_events(loop)
            if self._is_running:
                await self._look_when_due(loop)

    async def _look_when_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if now >= self._next_look:
            self._next_look = now + self._look_period(0.0)
            await self._look_at(None, _POLL_SETTLE)
            self._next_look = max(self._next_look, now + self._look_period(loop.time() - now))
        elif self._unsettled and now >= self._next_again:
            await self._look_at(self._unsettled, _POLL_SETTLE)

    async def _answer_events(self, loop: asyncio.AbstractEventLoop) -> None:
        events = self._events
        if events is None:
            return
        touched = events.take()
        if touched.paths:
            await self._look_at(touched.paths, self._told_settle)
            if not self._is_running:
                return  # a stopped watch must not follow the folder anew
        is_new = False
        if loop.time() >= self._next_follow:
            self._next_follow = loop.time() + _FOLDER_INTERVAL
            is_new = await asyncio.to_thread(events.follow)
        if is_new or touched.is_everything:
            await self._look_at(None, self._told_settle)

    async def _wait_for_change(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        waits = [self._next_look - now]
        if self._unsettled:
            waits.append(self._next_again - now)
        if self._events is not None:
            waits.append(self._next_follow - now)
            if (until_forgotten := self._events.seconds_to_wait()) is not None:
                waits.append(until_forgotten)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(min(waits), 0)):
                await self._wake.wait()
        self._wake.clear()

    async def _look_at(self, paths: frozenset[str] | None, settle: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            unsettled = frozenset(await self._look(paths, settle))
        except Exception as error:  # noqa: BLE001 - the next change must still be seen
            _log.error("reload_failed", directory=self._directory, error=words_of(error))
            self._failures += 1
            back_off = min(2.0 ** (self._failures - 1), _LONGEST_BACK_OFF)
            self._next_look = loop.time() + back_off
        else:
            self._failures = 0
            others = frozenset() if paths is None else self._unsettled - paths
            # A file that is open will cause an event when it is closed.
            self._unsettled = others | {path for path in unsettled if not self.is_open(path)}
            self._next_again = loop.time() + _AGAIN

    def _look_period(self, cost: float) -> float:
        """Return the seconds until the next look at all files."""
        if not self._watch:
            return self._interval or 0.0
        safety = max(_SAFETY_INTERVAL, min(cost * _SAFETY_SHARE, _LONGEST_SAFETY_INTERVAL))
        return safety if self._interval is None else min(self._interval, safety)

    def _observe_folder(self, loop: asyncio.AbstractEventLoop) -> None:
        # watchdog is loaded only where it is used.
        from tool_engine.catalog.folder.file_events import TELLS_CLOSING, FolderEvents

        def wake() -> None:
            # A loop that was closed without stop() has no watcher left to wake.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake.set)

        self._told_settle = SETTLE_TIME if TELLS_CLOSING else _POLL_SETTLE
        try:
            self._events = FolderEvents(self._directory, wake, recursive=self._recursive)
        except OSError as error:
            _log.warning("watch_failed", directory=self._directory, error=words_of(error))
        else:
            self._events.follow()

    def _stop_observing(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.stop()
