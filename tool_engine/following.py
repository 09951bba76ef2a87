"""How do the tools of added sources become the engine's, again and again?"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from tool_engine.catalog.generations import ReloadChanges
from tool_engine.catalog.source_names import check_origin, check_prefix
from tool_engine.catalog.source_tools import (
    Reading,
    make_failed_reading,
    read_given,
    take_snapshot,
)
from tool_engine.errors import ConfigurationError, EngineClosedError
from tool_engine.executors.executor_registry import ExecutorRegistry, close_part
from tool_engine.interfaces import CatalogSource
from tool_engine.interfaces.checking import check_part
from tool_engine.logger import get_logger
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import name_of
from tool_engine.redaction import words_of
from tool_engine.reloading import Reloader

_log = get_logger(__name__)
_T = TypeVar("_T")
REST: Final = 0.1
"""Seconds between two readings of a source that changes all the time."""
_LAST_GRACE: Final = 1.0
"""Seconds that a reading which is given up has to end."""


class SourceFollowers:
    """All sources that were added to one engine; lives on its loop.

    Args:
        reloader: Takes in what they give.
        registry: Knows what runs their tools.
        on_replaced: Called when another executor runs the tools of a source.
    """

    def __init__(
        self, reloader: Reloader, registry: ExecutorRegistry, on_replaced: Callable[[], None]
    ) -> None:
        self._reloader = reloader
        self._registry = registry
        self._on_replaced = on_replaced
        self._followers: dict[str, Follower] = {}
        self._open: list[CatalogSource] = []
        """Sources that nothing has closed, in the order of their adding."""
        self._closings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"SourceFollowers({list(self._followers)})"

    async def add(self, source: CatalogSource, timeout: float) -> ReloadChanges:  # noqa: ASYNC109 - of a reading
        """Add a source; see `ToolEngine.add_source`."""
        follower = self.begin(source, timeout)
        try:
            changes = await follower.refresh()
            if self._is_closed:
                raise EngineClosedError("the engine was closed meanwhile; make a new one")
            return changes
        except BaseException:
            # A caller that is cancelled meanwhile has added nothing.
            if self._followers.pop(follower.origin, None) is follower:
                follower.stop()
                self._registry.remove_source(follower.origin)
                self._reloader.sources.drop(follower.origin)
                self._close_soon(source)
            raise

    def begin(
        self, source: CatalogSource, timeout: float, *, replaces: CatalogSource | None = None
    ) -> Follower:
        """Give a source its place, and follow it; its tools come with its first reading.

        Args:
            source: It starts what it needs.
            timeout: Seconds that one reading of it may take.
            replaces: The source of the same origin that it takes the place of, with its tools
                until the first reading.

        Raises:
            ConfigurationError: As of `ToolEngine.add_source`.
        """
        check_part("source", source, CatalogSource)
        origin = check_origin(source.origin)
        check_timeout("timeout", timeout)
        known = self._followers.get(origin)
        if known is not None and known.source is not replaces:
            raise ConfigurationError(
                f"there is a source {origin!r} already; take it out with "
                f"remove_source({origin!r}), or give this one another origin, which import_tools "
                "takes as origin='import:NAME'"
            )
        if (check_free := getattr(source, "check_free", None)) is not None:
            check_free()
        prefix = check_prefix(origin, getattr(source, "prefix", ""))
        self._registry.add_source(origin, source.executor)
        if known is not None:
            known.stop()
            self._on_replaced()
            self._close_soon(known.source)
        self._reloader.sources.announce(origin, prefix)
        follower = Follower(source, origin, timeout, self._reloader, self._registry)
        self._followers[origin] = follower
        # A source that runs its own tools is closed with all that runs tools.
        is_own: Any = source.executor
        is_known = is_own is source or any(each is source for each in self._open)
        if not is_known:
            self._open.append(source)
        follower.start()
        return follower

    def find(self, source: CatalogSource) -> Follower | None:
        """Return what follows a source; None: it was not added."""
        follower = self._followers.get(source.origin)
        return follower if follower is not None and follower.source is source else None

    async def remove(self, source: CatalogSource | str) -> ReloadChanges:
        """Remove a source; see `ToolEngine.remove_source`."""
        origin = source if isinstance(source, str) else getattr(source, "origin", None)
        follower = self._followers.get(origin) if isinstance(origin, str) else None
        if follower is None or not (isinstance(source, str) or follower.source is source):
            hint = suggest_near(origin, self._followers) if isinstance(origin, str) else ""
            raise ConfigurationError(f"no such source was added: {origin!r}{hint}")
        del self._followers[follower.origin]
        follower.stop()
        try:
            return await self._reloader.drop_source(follower.origin)
        finally:
            if follower.origin not in self._followers:
                self._registry.remove_source(follower.origin)
            self._close_soon(follower.source)

    async def read_all(self) -> Callable[[], dict[str, Reading]]:
        """Read every source, all at once; one that hangs is waited for until its timeout.

        Those whose first reading goes on come by themselves.

        Returns:
            What returns those readings that hold when it is called.
        """
        followers = [each for each in self._followers.values() if not each.is_new]
        async with asyncio.TaskGroup() as group:
            tasks = [(each, group.create_task(each.read())) for each in followers]
        found = [(each, task.result()) for each, task in tasks]
        return lambda: {each.origin: read for each, read in found if each.is_wanted(read)}

    async def close(self) -> None:
        """Stop following; readings that go on are given up."""
        self._is_closed = True
        followers, self._followers = list(self._followers.values()), {}
        tasks = [task for each in followers for task in each.stop()]
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_GRACE)

    async def close_sources(self, limit: float) -> None:
        """Close what was added, all at once; each has `limit` seconds."""
        opened, self._open = self._open, []
        closings = list(self._closings)
        if closings:
            await asyncio.wait(closings, timeout=limit)
        for task in closings:
            task.cancel()
        await asyncio.gather(*(close_part(each, limit) for each in opened))

    def _close_soon(self, source: CatalogSource) -> None:
        """Close a source that was removed; its calls go on, and nothing waits for them."""
        if not any(each is source for each in self._open):
            return
        self._open = [each for each in self._open if each is not source]
        task = asyncio.create_task(close_part(source, None), name="tool-engine-source-close")
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)


class Follower:
    """One source that was added."""

    def __init__(
        self,
        source: CatalogSource,
        origin: str,
        timeout: float,
        reloader: Reloader,
        registry: ExecutorRegistry,
    ) -> None:
        self.source = source
        self.origin = origin
        self._timeout = timeout
        self._reloader = reloader
        self._registry = registry
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._reading = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changes: asyncio.Task[Any] | None = None
        self._newest: Reading | None = None
        self._is_due = False
        self._is_held = False
        self._is_asked = False
        self._is_stopped = False

    def start(self) -> None:
        """Hand `notify` to the source."""
        try:
            self.source.follow(self._take_notice)
        except BaseException as error:  # a foreign source may raise anything
            if ends_caller(error):
                raise
            _log.warning("source_not_followed", origin=self.origin, error=words_of(error))

    def stop(self) -> list[asyncio.Task[Any]]:
        """Take in nothing any more; return what ends now."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        return list(self._tasks)

    def hold(self) -> None:
        """Only note that a change was heard, until `release`."""
        self._is_held = True

    def release(self) -> None:
        """Read again what has changed since `hold`."""
        self._is_held = False
        if self._is_due:
            self._note_change()

    def _take_notice(self) -> None:
        """Have the source read again soon; from any thread, however often."""
        # In a forked process the loop only looks as if it were there; its wake-up is the parent's.
        if self._is_stopped or self._is_asked or os.getpid() != self._pid:
            return
        self._is_asked = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._note_change)

    def _note_change(self) -> None:
        self._is_asked = False
        if self._is_stopped:
            return
        self._is_due = True
        if self._changes is None and not self._is_held:
            self._changes = self._spawn_task(self._follow_changes())

    async def _follow_changes(self) -> None:
        """Read until nothing was heard meanwhile, with a rest after each reading."""
        try:
            # What is closed takes nothing in any more, and no caller waits for this task.
            with contextlib.suppress(EngineClosedError):
                while self._is_due and not self._is_stopped:
                    self._is_due = False
                    await self.refresh()
                    await asyncio.sleep(REST)
        finally:
            self._changes = None

    async def refresh(self) -> ReloadChanges:
        """Read the source and swap in what it gives."""
        async with self._reading:
            reading = await self._read_again()
            return await self._reloader.take_reading(
                self.origin, reading, lambda: self.is_wanted(reading)
            )

    @property
    def is_new(self) -> bool:
        """True while its first reading goes on."""
        return self._newest is None and self._reading.locked()

    def is_wanted(self, reading: Reading) -> bool:
        """Return True if no later reading was made, and the source is still there."""
        return not self._is_stopped and reading is self._newest

    async def read(self) -> Reading:
        """Read the source; what fails is in the reading."""
        async with self._reading:
            return await self._read_again()

    async def _read_again(self) -> Reading:
        before = self._reloader.sources.reading_of(self.origin)
        found = await self._ask_in_time()
        if isinstance(found, BaseException):
            reading = make_failed_reading(self.origin, found, before)
        else:
            check = self._registry.check_entry
            reading = await asyncio.to_thread(read_given, self.origin, found, check, before)
        self._newest = reading
        return reading

    async def _ask_source(self) -> list[Any] | BaseException:
        try:
            return take_snapshot(self.origin, await self.source.read_tools())
        except BaseException as error:  # a foreign source may raise anything
            if ends_caller(error):
                raise
            return error

    async def _ask_in_time(self) -> list[Any] | BaseException:
        """Return what the source gives or raises; one that cannot be cancelled is left behind."""
        task = self._spawn_task(self._ask_source())
        try:
            await asyncio.wait({task}, timeout=self._timeout)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            return TimeoutError(
                f"read_tools of {name_of(self.source)} took more than {self._timeout:g} s"
            )
        return asyncio.CancelledError() if task.cancelled() else task.result()

    def _spawn_task(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = self._loop.create_task(work, name=f"tool-engine-source {self.origin}")
        self._tasks.add(task)
        task.add_done_callback(self._end_task)
        return task

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()
