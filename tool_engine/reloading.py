"""How do the definitions in a folder become the engine's tools, again and again?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from operator import is_not
from typing import Final

from tool_engine.calls.call import Call
from tool_engine.calls.failure import Failure
from tool_engine.catalog.alias_clashes import clashes_of
from tool_engine.catalog.approval.approvals import Approvals, read_names
from tool_engine.catalog.approval.approved_tools import (
    Gate,
    Passed,
    compare_versions,
)
from tool_engine.catalog.approval.lock import default_lock_file
from tool_engine.catalog.approval.lock_state import LockState, by_key, key_of
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.definition_files import SETTLE_TIME
from tool_engine.catalog.folder.bucket_names import BucketNames, limit_warnings
from tool_engine.catalog.folder.engine_files import EngineFiles
from tool_engine.catalog.folder.folder_reading import PATIENCE, Catalog
from tool_engine.catalog.folder.merging import (
    FolderOutcome,
    merge_folder,
    new_tools,
    with_registered,
)
from tool_engine.catalog.folder.named_servers import NamedServers
from tool_engine.catalog.folder.watcher import ToolWatcher
from tool_engine.catalog.generations import (
    FormerSecrets,
    Generations,
    ReloadChanges,
    changes_between,
)
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.catalog.source_tools import Reading, SourceTools
from tool_engine.config import LOCK_ENFORCE, ConcurrencyConfig, ToolEngineConfig
from tool_engine.errors import EngineClosedError
from tool_engine.events import EventBus
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.fingerprint import CodeHashes
from tool_engine.executors.workflow.linker import WorkflowLinker
from tool_engine.logger import get_logger, load_structlog
from tool_engine.model.checks.aliases import AliasTable
from tool_engine.model.checks.called_name import word_no_name
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.tool import Tool, is_source_name
from tool_engine.trusted import TrustedPath, trust_paths
from tool_engine.validation import ToolParameterValidator

_log = get_logger(__name__)
_MOST_LOGGED: Final = 20


class Reloader:
    """Reads the folder, swaps the snapshot, and publishes what changed.

    Args:
        config: The folder, how to watch it, and what its tools must satisfy.
        registry: Checks the entries of definitions for the executors that will run them.
        bus: Where changes are published.
        generations: The snapshots that were there.
        swap: Puts the next one in its place; gets it, the cause and the changes.
    """

    def __init__(
        self,
        config: ToolEngineConfig,
        registry: ExecutorRegistry,
        bus: EventBus,
        generations: Generations,
        swap: Callable[[ToolIndex, str, ReloadChanges], None],
    ) -> None:
        self._config = config
        self._registry = registry
        self._bus = bus
        self._generations = generations
        self._swap = swap
        self._catalog = Catalog(
            config.tools_directory,
            recursive=config.recursive,
            check=registry.check,
            check_key=registry.check_key,
            is_settled=registry.is_settled,
            cache_directory=config.cache_directory,
        )
        self.files = EngineFiles(config, lambda: self.tools, _code_of)
        """The files that no tool may write."""
        trust_paths(self.files)
        self._code = CodeHashes(registry.resolve, registry.is_python)
        self._approvals = Approvals(
            config.lock_file or default_lock_file(config.tools_directory),
            self._code.of,
            is_enforced=config.lock == LOCK_ENFORCE,
            is_outdated=self._code.is_outdated,
            options_of=lambda origin: self.servers.options_of(origin),  # noqa: PLW0108 - made below
        )
        # What a program registers needs no approval.
        registry.approved_code = lambda tool: self._approvals.code_of(tool) if tool.source else None
        self._gate = Gate(config.reload_policy, self._approvals)
        self._former_secrets = FormerSecrets()
        self._linker = WorkflowLinker(registry.is_workflow, ToolParameterValidator().validate)
        self._watcher: ToolWatcher | None = None
        self._merged: tuple[object, ...] = ()
        self._lock = asyncio.Lock()
        self._approving = asyncio.Lock()
        self._is_stopped = False
        self._is_in_pair = False
        self._registrations = self._judged = 0
        self._wanted = ToolIndex()
        self._offered = self._wanted
        self.servers = NamedServers(self._approvals)
        self.sources = SourceTools()
        self._folder_errors: list[tuple[str, str]] = []
        self.errors: list[tuple[str, str]] = []
        self._published_errors: set[tuple[str, str]] = set()
        self.quarantined: dict[str, QuarantinedTool] = {}
        self._waiting: tuple[Tool, ...] = ()
        self._waiting_aliases = AliasTable()
        self._bucket_names = BucketNames()
        self.last_reload_at: datetime | None = None
        self.is_loaded = False

    @property
    def held(self) -> list[str]:
        """Return the tools that a rollback still holds back."""
        return self._gate.held

    @property
    def tools(self) -> tuple[Iterable[Tool], ...]:
        """Return the callable tools, those of the folder, and those that await approval."""
        return self._generations.index, self._offered, self._waiting

    async def load(self) -> None:
        """Read the folder for the first time; watch it, as configured."""
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
            self._catalog.arrivals.is_open = self._watcher.is_open
            await self._watcher.start()
        async with self._lock:
            await self._merge_folder(self._look_at_folder, "load")

    async def reload(self, readings: Callable[[], Mapping[str, Reading]]) -> ReloadChanges:
        """Read the folder again and release what a rollback holds back.

        `readings` returns what the added sources gave just now.
        """

        async def work() -> ReloadChanges:
            for origin, reading in readings().items():
                self.sources.put(origin, reading)
            await self._prepare_sources()
            return await self._merge_folder(self._look_at_folder, "reload", is_asked=True)

        return await self._in_pair(work)

    async def take_reading(
        self, origin: str, reading: Reading, is_wanted: Callable[[], bool]
    ) -> ReloadChanges:
        """Swap in what a source gave; nothing is published when nothing is different."""
        return await self.take_readings(lambda: {origin: reading} if is_wanted() else {})

    async def take_readings(self, readings: Callable[[], Mapping[str, Reading]]) -> ReloadChanges:
        """Swap in what several sources gave, as one change."""
        async with self._lock:
            self._require_open()
            changed = [self.sources.put(*each) for each in readings().items()]
            if not any(changed):
                return _make_no_changes()
            return await self._publish_around(self._swap_sources)

    async def drop_source(self, origin: str) -> ReloadChanges:
        """Take away the tools of a source."""

        async def work() -> ReloadChanges:
            self.sources.drop(origin)
            self._gate.release_source(origin)
            return await self._swap_sources()

        return await self._in_pair(work)

    async def _swap_sources(self) -> ReloadChanges:
        await asyncio.to_thread(self._approvals.read)
        await self._prepare_sources()
        self._require_open()
        return self._publish_snapshot("source")

    async def _prepare_sources(self) -> None:
        offered, _ = self.sources.over(self._with_registered())
        found = [tool for tool in offered.new_since(self._offered) if is_source_name(tool.source)]
        await asyncio.to_thread(self._prepare_tools, found)
        await self._read_code(tool for tool in offered if is_source_name(tool.source))

    async def rollback(self, number: int) -> ReloadChanges:
        """Return to the tools of a generation; see `ToolEngine.rollback`."""

        async def go_back() -> ReloadChanges:
            target = self._generations.find(number).index
            await asyncio.to_thread(self._approvals.read)
            await self._read_code(target)
            self._require_open()
            self._gate.hold(self._offered, self.sources.without_removed(target, self._offered))
            return self._publish_snapshot("rollback")

        self._generations.find(number)
        return await self._in_pair(go_back)

    async def lock_tools(self, names: Iterable[str] | Mapping[str, str] | None) -> ReloadChanges:
        """Approve tools as they are; see `ToolEngine.lock_tools`."""
        self._require_open()
        # Of two approvals at once, the one that read the file first would undo the other.
        async with self._approving:
            present = await self.list_lockable()
            known = None if names is None else await asyncio.to_thread(self._approvals.known)
            chosen = list(present) if names is None else read_names(names)
            lock = self._approvals.with_approved(known, present, chosen)
            await asyncio.to_thread(lock.write)
            # By name: few engines have tools of sources in their lock.
            texts = import_module("tool_engine.catalog.approval.approved_before")
            await asyncio.to_thread(texts.write_texts, lock, present)
        return await self._in_pair(lambda: self._merge_folder(self._look_at_folder, "lock"))

    async def check_lock(self, names: Iterable[str] | None = None) -> list[LockState]:
        """Compare tools and groups with the lock file; see `ToolEngine.check_lock`."""
        self._require_open()
        chosen = None if names is None else [*read_names(names)]
        present = await self.list_lockable(chosen)
        known = await asyncio.to_thread(self._approvals.known)
        return self._approvals.compare(known, present, chosen)

    async def list_lockable(self, names: Iterable[str] | None = None) -> dict[str, Definition]:
        """Return what needs an approval, all or these: whatever does not come from code."""
        others = self._list_other_lockable()
        if names is None:
            shown = {tool.name: tool for tool in (*self._offered, *self._generations.index)}
            shown |= {name: quarantined.tool for name, quarantined in self.quarantined.items()}
            tools = [*shown.values()]
        else:
            chosen = {*names}
            others = [each for each in others if key_of(each) in chosen]
            tools = [tool for name in chosen if (tool := self._find_offered(name)) is not None]
        tools = [tool for tool in tools if tool.source is not None]
        await self._code.read(tools)
        return by_key((*tools, *others))

    async def list_unapproved(self) -> list[str]:
        """Return what the lock file holds back; see `ToolEngine.list_unapproved`."""
        if not self._approvals.is_enforced:
            return []
        states = await self.check_lock(by_key(self._list_other_lockable()))
        return [*sorted(self.quarantined), *(each.name for each in states if each.fingerprint)]

    def _list_other_lockable(self) -> list[Definition]:
        groups = [each for each in self._wanted.groups.values() if each.source is not None]
        return [*groups, *self.servers.lockable.values()]

    def _find_offered(self, name: str) -> Tool | None:
        quarantined = self.quarantined.get(name)
        if quarantined is not None:
            return quarantined.tool
        return self._generations.index.get(name) or self._offered.get(name)

    async def follow_loop(self) -> None:
        """Go on watching where another event loop runs than before, which has ended."""
        if self._watcher is not None and not self._is_stopped:
            self._lock = asyncio.Lock()  # the one before belongs to a loop that has ended
            await self._watcher.follow_loop()

    async def stop(self) -> None:
        """Stop watching; a running reload ends first, or is given up."""
        self._is_stopped = True
        if self._watcher is not None:
            await self._watcher.stop()
        try:
            async with asyncio.timeout(self._config.close_timeout), self._lock:
                pass
        except TimeoutError:
            self._publish_completed(_make_no_changes(), "the engine was closed meanwhile")

    def link(self, index: ToolIndex) -> ToolIndex:
        """Return the snapshot as calls see it, each tool as it is among all, now and before.

        Its workflows are checked against its other tools, and its tools hide what was once secret.
        """
        present = self._generations.index
        return self._linker.link(self._former_secrets.keep(index, present), present)

    def limit_warnings(self, config: ConcurrencyConfig) -> list[str]:
        return limit_warnings(config, self._generations.index)

    def find_new_warnings(self, config: ConcurrencyConfig) -> list[str]:
        """Return those of them that are new for this configuration."""
        return self._bucket_names.find_news(config, self._generations.index)

    def judge_again(self) -> None:
        """Check approvals again: the code that runs tools has changed."""
        self._registrations += 1
        if self._approvals.is_enforced and self.is_loaded:
            self._publish_snapshot("lock")

    def restore_name(self, name: str) -> None:
        """Let a source's tool have the name that code has left."""
        if self.sources.gives(name):
            self._publish_snapshot("source")

    def refusal_of(self, call: Call) -> Failure:
        """Return why the tool of a call is missing or not approved."""
        failure = self.explain_missing(call.tool_name)
        if failure.error_type == "tool_quarantined":
            return failure
        return call.explain_removed() or failure

    def is_hidden(self, name: str) -> bool:
        """Return True if a tool of a name or alias is there, approved or not, for code only."""
        tool = self._generations.index.find(name)
        quarantined = self._find_quarantined(name) if tool is None else None
        found = tool if quarantined is None else quarantined.tool
        return found is not None and not found.is_for_models

    def explain_missing(self, name: str, *, for_models: bool = False) -> Failure:
        """Return why there is no tool of a name or alias to be called.

        To models, what is for code only is not there, approved or not.
        """
        if not isinstance(name, str):
            return Failure("tool_not_found", word_no_name(name))
        quarantined = self._find_quarantined(name)
        if quarantined is not None and (quarantined.tool.is_for_models or not for_models):
            return Failure("tool_quarantined", quarantined.message)
        near = self._generations.index.nearest(name)
        hint = f"; did you mean {' or '.join(repr(each) for each in near)}?" if near else ""
        if not self.is_loaded:
            hint += "; the definitions are not loaded: use 'async with' or await engine.load()"
        return Failure("tool_not_found", f"there is no tool {name!r}{hint}")

    def _find_quarantined(self, name: str) -> QuarantinedTool | None:
        alias = self._waiting_aliases.find(name, self.quarantined)
        return self.quarantined.get(name if alias is None else alias)

    def publish_event(
        self,
        kind: ToolEngineEventType,
        tool_name: str | None = None,
        tool: Tool | None = None,
        error: str | None = None,
        **data: object,
    ) -> None:
        """Publish a fact about tools."""
        if self._bus.listens_to(kind):
            self._bus.publish(ToolEngineEvent(kind, tool_name, tool, error, data=data))

    def publish_added(self, tool: Tool) -> None:
        kind = ToolEngineEventType.TOOL_ADDED
        self.publish_event(kind, tool.name, tool, old_version=None, new_version=tool.version)

    def publish_removed(self, tool: Tool) -> None:
        kind = ToolEngineEventType.TOOL_REMOVED
        self.publish_event(kind, tool.name, tool, old_version=tool.version, new_version=None)

    async def _answer_watcher(self, paths: frozenset[str] | None, settle: float) -> Collection[str]:
        async with self._lock:
            if not self.is_loaded:
                return []
            folder = await asyncio.to_thread(self._look_at_folder, paths, settle, 0.0)
            # A change that was seen and not merged, because the reload failed, is still a change.
            if self._describe_look(folder) != self._merged:
                await self._publish_around(lambda: self._merge_folder(lambda: folder, "reload"))
            elif self._approvals.is_enforced and self._judged != self._registrations:
                # Of the folder nothing is new: what the code's hashes change is no reload of it.
                await self._merge_folder(lambda: folder, "lock")
            return folder.unsettled

    async def _in_pair(self, work: Callable[[], Awaitable[ReloadChanges]]) -> ReloadChanges:
        """Run `work` between RELOAD_STARTED and RELOAD_COMPLETED, however it ends."""
        async with self._lock:
            return await self._publish_around(work)

    async def _publish_around(self, work: Callable[[], Awaitable[ReloadChanges]]) -> ReloadChanges:
        self._require_open()
        self._is_in_pair = True
        self.publish_event(ToolEngineEventType.RELOAD_STARTED)
        try:
            changes = await work()
        except BaseException as error:
            self._publish_completed(_make_no_changes(), str(error) or type(error).__name__)
            raise
        self._publish_completed(changes)
        return changes

    def _publish_completed(self, changes: ReloadChanges, error: str | None = None) -> None:
        if self._is_in_pair:
            self._is_in_pair = False
            kind, number = ToolEngineEventType.RELOAD_COMPLETED, self._generations.number
            self.publish_event(kind, error=error, generation=number, **changes)

    async def _merge_folder(
        self, look: Callable[[], FolderOutcome], cause: str, *, is_asked: bool = False
    ) -> ReloadChanges:
        folder = await asyncio.to_thread(self._look_and_prepare, look)
        await self._read_code(tool for file in folder.files for tool in file.tools)
        self._require_open()
        # From here to the swap nothing waits: no registration can be lost in between.
        outcome = merge_folder(self._with_registered(), folder)
        self._wanted = outcome.index
        clashes = self.servers.take(folder.servers) if folder.is_complete else []
        self._folder_errors = [*outcome.errors, *clashes]
        self.last_reload_at = datetime.now(UTC)
        self.is_loaded = True
        self._merged, self._judged = self._describe_look(folder), self._registrations
        if is_asked:
            self._gate.release()
        return self._publish_snapshot(cause)

    def _look_and_prepare(self, look: Callable[[], FolderOutcome]) -> FolderOutcome:
        """Do in a thread what a swap would else do on the loop."""
        folder = look()
        found = new_tools(self._wanted, folder)
        self._prepare_tools(found)
        self._linker.prepare(found, folder.claims)
        return folder

    def _prepare_tools(self, found: list[Tool]) -> None:
        if self._config.preload:
            self._registry.prepare(found)
        self._gate.prepare(found, self._generations.index)

    def _look_at_folder(
        self,
        paths: Collection[str] | None = None,
        settle: float = SETTLE_TIME,
        patience: float = PATIENCE,
    ) -> FolderOutcome:
        load_structlog()
        self._approvals.read()
        return self._catalog.look(paths, settle=settle, patience=patience)

    def _describe_look(self, folder: FolderOutcome) -> tuple[object, ...]:
        """Return what differs whenever a look found something new."""
        return (folder.version, *self._approvals.state)

    async def _read_code(self, tools: Iterable[Tool]) -> None:
        if self._approvals.is_enforced:
            await self._code.read([tool for tool in tools if self._approvals.covers_code(tool)])

    def _with_registered(self) -> ToolIndex:
        """Return the folder's tools together with those registered in code."""
        present, wanted = self._generations.index, self._wanted
        groups = with_registered(wanted.groups, present.groups)
        if groups != wanted.groups:
            wanted = wanted.with_groups(groups)
        registered, known = present.registered, wanted.registered
        if registered == known:
            return wanted
        return wanted.with_changes({**dict.fromkeys(known), **registered})

    def _publish_snapshot(self, cause: str) -> ReloadChanges:
        """Publish a new snapshot of the folder's tools that may be called."""
        before, quarantined = self._generations.index, self.quarantined
        self._offered, source_errors = self.sources.over(self._with_registered())
        passed = self._gate.settle(self._offered, before)
        passed.index = self.link(passed.index)
        after, self.quarantined = passed.index, passed.quarantined
        self._waiting = tuple(each.tool for each in self.quarantined.values())
        self._waiting_aliases = AliasTable(self._waiting)
        errors = {*self._folder_errors, *source_errors, *passed.errors}
        errors.update(self.servers.errors, self.servers.choose())
        errors |= {(each.file, str(each)) for each in clashes_of(after)}
        if self._approvals.problem is not None:
            errors.add((self._approvals.file, self._approvals.problem))
        self.errors = sorted(errors)
        changes = changes_between(before, after)
        is_same = len(before) == len(after) and "groups_added" not in changes
        if not is_same or any(map(is_not, before, after)):
            self._swap(after, cause, changes)
        if cause != "load":
            self._publish_changes(before, passed, changes)
        elif self._bus.listens_to(ToolEngineEventType.TOOL_LOADED):
            for tool in after:
                if tool.source is not None and tool.name not in before:
                    self.publish_event(ToolEngineEventType.TOOL_LOADED, tool.name, tool)
        self._publish_quarantined(quarantined)
        self._tell_groups(before)
        self._publish_errors()
        self.servers.on_change()
        return changes

    def take_configured(self, servers: Iterable[ServerDefinition]) -> None:
        """Take in which servers the configuration names; they need an approval too."""
        self.servers.configured = tuple(servers)
        self.note_server_errors(self.servers.errors)

    def note_server_errors(self, errors: Iterable[tuple[str, str]]) -> None:
        """Take in what is wrong with the servers that were asked for."""
        before = {*self.servers.errors, *self.servers.refusals}
        self.servers.errors = sorted(errors)
        now = {*self.servers.errors, *self.servers.choose()}
        self.errors = sorted({*set(self.errors) - before, *now})
        self._publish_errors()

    def _publish_changes(self, before: ToolIndex, passed: Passed, changes: ReloadChanges) -> None:
        for name in changes["added"]:
            self.publish_added(passed.index.get_or_raise(name))
        for name in changes["modified"]:
            old, new = before.get_or_raise(name), passed.index.get_or_raise(name)
            diff = passed.diffs.get(name)
            if diff is not None and diff.warning is not None:
                _log.warning("tool_edit", tool=name, message=diff.warning)
            if self._bus.listens_to(ToolEngineEventType.TOOL_UPDATED):
                diff = compare_versions(old, new) if diff is None else diff
                self.publish_event(ToolEngineEventType.TOOL_UPDATED, name, new, **diff.to_dict())
        for name in changes["removed"]:
            self.publish_removed(before.get_or_raise(name))

    def _publish_quarantined(self, before: dict[str, QuarantinedTool]) -> None:
        found = [
            each for name, each in sorted(self.quarantined.items()) if each != before.get(name)
        ]
        for each in found:
            self.publish_event(
                ToolEngineEventType.TOOL_QUARANTINED,
                each.name,
                each.tool,
                each.message,
                reason=each.reason,
                approved_version=each.approved_version,
                version=each.tool.version,
            )

        if found:
            # One line, as a lock file that is gone quarantines thousands at once.
            shown = [f"{each.name}: {each.reason}" for each in found[:_MOST_LOGGED]]
            _log.warning(
                "tool_quarantined", count=len(found), tools=shown, file=self._approvals.file
            )

    def _tell_groups(self, before: ToolIndex) -> None:
        for name, group in self._generations.index.groups.items():
            if group.is_quarantined and before.groups.get(name) != group:
                _log.warning("group_quarantined", group=name, message=group.findings[0])

    def _publish_errors(self) -> None:
        """Publish new errors, and files that are right again or gone."""
        before, self._published_errors = self._published_errors, set(self.errors)
        found = sorted(self._published_errors - before)
        for file, message in found[:_MOST_LOGGED]:
            _log.warning("load_error", file=file, error=message)
        if more := len(found[_MOST_LOGGED:]):
            # To write thousands of lines would hold up the loop.
            where = "all are in `load_errors`"
            _log.warning("load_error", file=None, error=f"and {more:,} more; {where}")
        for file, message in found:
            self.publish_event(ToolEngineEventType.LOAD_ERROR, error=message, file=file)
        for file in sorted({file for file, _ in before} - {file for file, _ in self.errors}):
            _log.info("load_mended", file=file)
            self.publish_event(ToolEngineEventType.LOAD_MENDED, file=file)

    def _require_open(self) -> None:
        if self._is_stopped:
            raise EngineClosedError("the engine is closed; make a new one")


def _code_of(module: str) -> Iterable[TrustedPath]:
    # Loaded by name on first use: most programs have no such handlers.
    source = import_module("tool_engine.executors.python.handler_source")
    return source.module_files(module)  # type: ignore[no-any-return]


def _make_no_changes() -> ReloadChanges:
    return ReloadChanges(added=[], modified=[], removed=[])
