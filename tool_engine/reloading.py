"""How do the definitions in a folder become the engine's tools, at the start and ever after?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypedDict

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.reload import Catalog, FolderOutcome, ScanOutcome, merge
from tool_engine.catalog.watcher import ToolWatcher
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.events import EventBus
from tool_engine.executors.registry import ExecutorRegistry
from tool_engine.logger import get_logger, prepare
from tool_engine.model.bounds import nearest
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.tool import Tool, ToolCategory

__all__ = ["ReloadChanges", "Reloader", "limit_warnings"]

_log = get_logger(__name__)


class ReloadChanges(TypedDict):
    """The names of the tools that a reload changed."""

    added: list[str]
    modified: list[str]
    removed: list[str]


class Reloader:
    """Looks at the folder, swaps the snapshot, and tells what changed.

    Args:
        config: The folder and how to watch it.
        registry: Checks the entries of definitions for the executors that will run them.
        bus: Where changes are published.
        current: Gives the present snapshot.
        swap: Puts the next one in its place.
    """

    def __init__(
        self,
        config: ToolEngineConfig,
        registry: ExecutorRegistry,
        bus: EventBus,
        current: Callable[[], ToolIndex],
        swap: Callable[[ToolIndex], None],
    ) -> None:
        self._config = config
        self._registry = registry
        self._bus = bus
        self._current = current
        self._swap = swap
        self._catalog = Catalog(
            config.tools_directory, recursive=config.recursive, check=registry.check
        )
        self._watcher: ToolWatcher | None = None
        self._lock = asyncio.Lock()
        self.errors: list[tuple[str, str]] = []
        self.last_reload_at: datetime | None = None
        self.is_loaded = False

    async def load(self) -> None:
        """The first look; starts to watch the folder, as configured."""
        config = self._config
        if self._watcher is None and (config.auto_reload or config.watch_for_changes):
            # It starts before the first look, so that no change falls between the two.
            self._watcher = ToolWatcher(
                config.tools_directory,
                self._answer_watcher,
                interval=config.reload_interval if config.auto_reload else None,
                watch=config.watch_for_changes,
                recursive=config.recursive,
            )
            await self._watcher.start()
        async with self._lock:
            outcome = await self._look()
            for tool in outcome.index:
                if tool.source is not None:
                    self.tell(ToolEngineEventType.TOOL_LOADED, tool.name, tool)
            self._tell_errors()

    async def reload(self) -> ReloadChanges:
        """Looks again; RELOAD_STARTED and RELOAD_COMPLETED always come in pairs."""
        async with self._lock:
            changes = ReloadChanges(added=[], modified=[], removed=[])
            self.tell(ToolEngineEventType.RELOAD_STARTED)
            try:
                before = self._current()
                outcome = await self._look()
                changes["added"] = outcome.added
                changes["modified"] = outcome.modified
                changes["removed"] = outcome.removed
                self._tell_changes(before, outcome)
                self._tell_errors()
            finally:
                self.tell(ToolEngineEventType.RELOAD_COMPLETED, **changes)
            return changes

    async def stop(self) -> None:
        """Ends the watching."""
        if self._watcher is not None:
            await self._watcher.stop()

    def tell(
        self,
        kind: ToolEngineEventType,
        tool_name: str | None = None,
        tool: Tool | None = None,
        error: str | None = None,
        **data: object,
    ) -> None:
        """Publishes a fact about tools."""
        if self._bus.listens_to(kind):
            self._bus.publish(ToolEngineEvent(kind, tool_name, tool, error, data=data))

    async def _answer_watcher(self) -> None:
        await self.reload()

    async def _look(self) -> ScanOutcome:
        folder = await asyncio.to_thread(self._look_at_folder)
        await self._registry.prepare(file.tool for file in folder.files if file.tool is not None)
        # From here to the swap nothing waits: no registration can be lost in between.
        before = self._current()
        outcome = merge(before, folder)
        self.errors = list(outcome.errors)
        self.last_reload_at = datetime.now(UTC)
        self.is_loaded = True
        if outcome.added or outcome.modified or outcome.removed or _has_moved(before, outcome):
            self._swap(outcome.index)
        return outcome

    def _look_at_folder(self) -> FolderOutcome:
        prepare()
        return self._catalog.look()

    def _tell_changes(self, before: ToolIndex, outcome: ScanOutcome) -> None:
        for name in outcome.added:
            self.tell(ToolEngineEventType.TOOL_ADDED, name, outcome.index.get(name))
        for name in outcome.modified:
            old, new = before.get_or_raise(name), outcome.index.get_or_raise(name)
            self.tell(
                ToolEngineEventType.TOOL_UPDATED,
                name,
                new,
                old_version=old.version,
                new_version=new.version,
            )
        for name in outcome.removed:
            self.tell(ToolEngineEventType.TOOL_REMOVED, name, before.get(name))

    def _tell_errors(self) -> None:
        for file, message in self.errors:
            _log.warning("load_error", file=file, error=message)
            self.tell(ToolEngineEventType.LOAD_ERROR, error=message, file=file)


def _has_moved(before: ToolIndex, outcome: ScanOutcome) -> bool:
    """Whether a file was renamed: its tool is the same, but is looked for elsewhere from now on."""
    sources = {tool.name: tool.source for tool in before}
    return any(tool.source != sources.get(tool.name) for tool in outcome.index)


def limit_warnings(config: ConcurrencyConfig, index: ToolIndex) -> list[str]:
    """Limits for buckets that no tool counts against: most likely a slip of the pen."""
    known = {tool.bucket for tool in index} | {each.value for each in ToolCategory}
    warnings = []
    for field in ("bucket_limits", "bucket_queue_sizes", "bucket_rates", "breakers"):
        for bucket in sorted(set(getattr(config, field)) - known):
            hint = nearest(bucket, sorted(known))
            warnings.append(f"{field} names {bucket!r}, which no tool uses{hint}")
    return warnings
