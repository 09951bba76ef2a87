"""A folder of definitions that is written to, and somebody who follows it as the engine does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from tool_engine.catalog.folder.folder_reading import Catalog
from tool_engine.catalog.folder.merging import merge_folder
from tool_engine.catalog.folder.watcher import ToolWatcher
from tool_engine.catalog.index import ToolIndex

__all__ = ["BOUND", "WAYS", "Follower", "definition", "follow_folder", "is_described", "is_empty"]

BOUND = 20.0
"""Seconds within which anything must have happened."""
WAYS: dict[str, dict[str, float | bool]] = {
    "polling": {"interval": 0.02},
    "events": {"watch": True},
    "both": {"interval": 0.02, "watch": True},
}
"""The ways to look for changes, all of which keep the same promises."""


def definition(description: str, name: str = "t") -> str:
    """A definition of which each part is a definition too, of another tool."""
    return f"name: {name}\ndescription: {description}\ntags: [whole]\n"


class Follower:
    """Looks when the watcher says so, and remembers everything that was ever there.

    Args:
        directory: The folder.
        recursive: Includes sub-folders.
        settle: The fewest and the most seconds for which files must rest: what is not about slow
            writers need not wait for them, and what is must not fail where events come late.
    """

    def __init__(
        self,
        directory: Path,
        *,
        recursive: bool = False,
        settle: tuple[float, float] = (0.0, 0.05),
    ) -> None:
        self.catalog = Catalog(directory, recursive=recursive)
        self.watcher: ToolWatcher | None = None
        self.index = ToolIndex()
        self.looks: list[frozenset[str] | None] = []
        self.shown: set[str] = set()
        """The description of every tool that a snapshot held, and whether it was whole."""
        self.vanished: set[str] = set()
        """The names that a snapshot held and the next one did not."""
        self.errors: list[tuple[str, str]] = []
        self._least_settle, self._most_settle = settle
        self._is_looking = False
        self._again = asyncio.Condition()

    async def __call__(self, paths: frozenset[str] | None, settle: float) -> Collection[str]:
        assert not self._is_looking
        self._is_looking = True
        settle = max(self._least_settle, min(settle, self._most_settle))
        folder = await asyncio.to_thread(
            lambda: self.catalog.look(paths, settle=settle, patience=0.0)
        )
        outcome = merge_folder(self.index, folder)
        self.index, self.errors = outcome.index, outcome.errors
        self.vanished.update(outcome.removed)
        self.shown |= {f"{tool.description} {tool.tags}" for tool in self.index}
        self._is_looking = False
        async with self._again:
            self.looks.append(paths)
            self._again.notify_all()
        return folder.unsettled

    async def until(self, condition: Callable[[ToolIndex], bool]) -> None:
        """Waits until the snapshot is so."""
        async with asyncio.timeout(BOUND), self._again:
            await self._again.wait_for(lambda: condition(self.index))

    async def until_error(self, text: str) -> None:
        """Waits until some file's error says `text`."""
        await self.until(lambda _: any(text in message for _, message in self.errors))

    async def until_looked(self, times: int = 1) -> None:
        """Waits for so many more looks."""
        end = len(self.looks) + times
        await self.until(lambda _: len(self.looks) >= end)

    def saw_only(self, *descriptions: str) -> bool:
        """Whether no tool was ever there but these, each of them whole."""
        return self.shown <= {f"{description} ['whole']" for description in descriptions}


def is_described(text: str, name: str = "t") -> Callable[[ToolIndex], bool]:
    """The condition that a tool has this description."""
    return lambda index: (tool := index.get(name)) is not None and tool.description == text


def is_empty(index: ToolIndex) -> bool:
    """The condition that there are no tools."""
    return len(index) == 0


@asynccontextmanager
async def follow_folder(
    directory: Path,
    *,
    interval: float | None = None,
    watch: bool = False,
    recursive: bool = False,
    settle: tuple[float, float] = (0.0, 0.05),
) -> AsyncIterator[Follower]:
    """Follows a folder; afterwards nothing of the watcher is left."""
    follower = Follower(directory, recursive=recursive, settle=settle)
    watcher = ToolWatcher(directory, follower, interval=interval, watch=watch, recursive=recursive)
    follower.watcher = watcher
    follower.catalog.arrivals.is_open = watcher.is_open
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    await watcher.start()
    try:
        await follower(None, 0.0)
        yield follower
    finally:
        await watcher.stop()
    assert not watcher.is_running
    assert len(asyncio.all_tasks()) <= tasks
    left = [thread for thread in threading.enumerate() if "asyncio" not in thread.name]
    assert len(left) <= threads
