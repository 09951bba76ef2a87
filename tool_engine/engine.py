"""How is an engine opened, reloaded, called and closed?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

from tool_engine.adding import AddsSources
from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.approval.view import ApprovalsView
from tool_engine.backends.local import LocalBackend
from tool_engine.backends.runs import Runs
from tool_engine.calls.blocking import BlockingCalls, OwnLoop
from tool_engine.calls.call import name_engine, name_process
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.home_loop import at_home
from tool_engine.calls.pipeline import Pipeline
from tool_engine.calls.planner import Planner
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.code.decorator import ToolDecorator
from tool_engine.catalog.generations import Generations, GenerationsView, ReloadChanges
from tool_engine.catalog.index import ToolIndex
from tool_engine.config import (
    LOCK_ENFORCE,
    ConcurrencyConfig,
    ToolEngineConfig,
    checked_concurrency,
)
from tool_engine.errors import ConfigurationError, EngineClosedError
from tool_engine.events import EventBus, EventLog
from tool_engine.events.event_view import EventsView
from tool_engine.events.memory import event_storage_for
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.forking import disown_in_child
from tool_engine.interfaces import (
    AdmissionController,
    Approver,
    CallScope,
    EventStorage,
    ExecutionBackend,
)
from tool_engine.interfaces.checking import check_part
from tool_engine.interfaces.source import Source
from tool_engine.knowledge.durability import wrap_execute
from tool_engine.knowledge.store import RecordsView, ToolKnowledgeStore, checked_store
from tool_engine.logger import get_logger
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_names
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.progress import ToolProgress
from tool_engine.model.settings.databases import checked_sources
from tool_engine.model.tool import Tool
from tool_engine.observability.event_lines import EventLines
from tool_engine.process_names import note_process
from tool_engine.registering import RegistersTools
from tool_engine.sources.place import describe_engine
from tool_engine.validation import ToolParameterValidator

if TYPE_CHECKING:
    from tool_engine.admission.cluster.looking import ClusterView
    from tool_engine.calls.engine_calls import EngineCalls
    from tool_engine.catalog.approval.lock_state import LockState
    from tool_engine.executors.fleet.looking import FleetView
    from tool_engine.reloading import Reloader

_log = get_logger(__name__)


@refuse_copying("pass it on as it is, or make another one with ToolEngine(engine.config)")
class ToolEngine(
    BlockingCalls,
    AddsSources,
    RegistersTools,
    GenerationsView,
    ToolDecorator,
    RecordsView,
    EventsView,
    ApprovalsView,
    KnownArguments,
    Source,
):
    """Loads tools, keeps them up to date, and runs calls of them.

    Args:
        config: What to load and how; None: the folder `tools`.
        concurrency: How many calls run at once; None: what `config` says.
        store: Where finished calls are kept; None: where `config.records` says, else the newest
            `config.max_records` in memory.
        approver: Decides about calls that a definition's `permission` does not let run by
            themselves; None: such calls are refused. A `ToolSession` has its own.
        event_storage: Where events are kept; None: where `config.keep_events` says.
        controller: What admits calls, in place of a `ToolConcurrencyController` with the limits of
            `concurrency`. The engine closes it.
        backend: Where tools run, as far as it takes them; None: in this process. The engine closes
            it.

    Example:
        >>> async def main():
        ...     async with ToolEngine(ToolEngineConfig(tools_directory="tools")) as engine:
        ...         result = await engine.execute("calculator", {"expression": "1+2"})
        ...         print(result.output)
    """

    is_engine = True
    controller: ToolConcurrencyController
    """What admits the calls, or what was given in its place."""
    _definitions: Any = None
    """The `DefinitionCache`, once definitions were asked for."""
    _disowned: EngineClosedError | None = None
    _closers: dict[Callable[[], Awaitable[object]], None]

    def __init__(
        self,
        config: ToolEngineConfig | None = None,
        *,
        concurrency: ConcurrencyConfig | None = None,
        store: ToolKnowledgeStore | None = None,
        approver: Approver | None = None,
        event_storage: EventStorage | None = None,
        controller: AdmissionController | None = None,
        backend: ExecutionBackend | None = None,
    ) -> None:
        self.config = ToolEngineConfig() if config is None else config
        if not isinstance(self.config, ToolEngineConfig):
            raise ConfigurationError(
                f"config must be a ToolEngineConfig, got {config!r}; for a folder write "
                "ToolEngineConfig(tools_directory=...)"
            )
        if controller is None:
            own = _own_controller(self.config, concurrency)
            self.controller, self._admission = own, cast("AdmissionController", own)
        else:
            # Another one is known by its maker; to all others it is what it stands for.
            self.controller = cast("ToolConcurrencyController", controller)
            self._admission = _known_controller(self.config, concurrency, controller)
        if backend is not None:
            check_part("backend", backend, ExecutionBackend)
        self.store = checked_store(store, self.config)
        self._generations = Generations(self.config.keep_generations)
        self.index = self._generations.index
        kept = event_storage_for(self.config) if event_storage is None else event_storage
        self._bus = EventBus(log=EventLog(kept, lambda: self.generation))
        self._registry = ExecutorRegistry(
            self.search_tools,
            self.store.get_whole,
            checked_sources(self.config.sources),
            self.get,
            self.store.get_tools_below,
            self.config.fleet,
        )
        # A definition that is not approved must not run code, not even that of an import.
        self._registry.may_import = self.config.lock != LOCK_ENFORCE
        self._runs, self._closers = Runs(), {}
        self._local = LocalBackend(self.config.max_threads)
        self._backend: ExecutionBackend = self._local if backend is None else backend
        # Loaded with the first engine: a process that runs one tool or handler has none.
        self._reloader: Reloader = import_module("tool_engine.reloading").Reloader(
            self.config, self._registry, self._bus, self._generations, self._swap_index
        )
        self._make_followers(self._reloader, self._registry)
        self._pipeline = self._make_pipeline(self._admission, self._make_gate(approver))
        self._execute = wrap_execute(self._pipeline.execute, self.store.storage)
        if type(self).execute is ToolEngine.execute:
            # The method below, without the step in between: it is the path of every call.
            self.execute = self._execute  # type: ignore[method-assign]
        self._run_at_home = self._pipeline.carry
        self._home, self._own_loop = self._pipeline.home_loop, OwnLoop()
        self._closing: asyncio.Task[None] | None = None
        if getattr(self.store.storage, "on_trouble", self) is None:
            self.store.storage.on_trouble = self._bus.tell_trouble  # type: ignore[attr-defined]
        self._lines = EventLines(self._bus.subscribe)

    def _follow_loop(self) -> None:
        self._following = asyncio.create_task(self._reloader.follow_loop())

    def _make_pipeline(self, controller: AdmissionController, scope: CallScope | None) -> Pipeline:
        planner = Planner(
            ToolParameterValidator(strict=self.config.strict_validation),
            self._registry,
            self._local,
            self._backend,
            lambda: controller.config,
            lambda: self.generation,
            self.get,
        )
        made = Pipeline(
            self.get,
            self._reloader.refusal_of,
            planner,
            controller,
            self._runs,
            self._local,
            CallEnding(self.store, self._bus),
            self._bus,
            name_engine(),
            scope,
            self,
            self.config.fleet_lost_after,
        )
        made.home_loop.on_move = self._follow_loop
        return made

    async def __aenter__(self) -> Self:
        await self.load()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closing else "open" if self._reloader.is_loaded else "not loaded"
        return (
            f"<ToolEngine {state}, {len(self.index)} tools from "
            f"{self.config.tools_directory!r}, generation {self.generation}, {self.controller!r}>"
        )

    @at_home
    async def load(self) -> None:
        """Load the folder of definitions and start to watch it, as configured.

        One bad file never stops the others: see `load_errors`. A second call is a reload.

        Raises:
            EngineClosedError: The engine is closed.
            ConfigurationError: The database of the records cannot be used.
            RecordsUnavailableError: It cannot be asked where the numbers of events go on.
            MissingExtraError: The libraries for it are not installed.
        """
        self._require_open()
        disown_in_child(self)
        self._lines.refresh()
        process = name_process(self.config.process)
        note_process(self._pipeline.id_prefix, process)
        self._bus.log.name_process(process)
        await self.store.open()
        if self._reloader.is_loaded:
            await self.reload()
        else:
            await self._bus.log.open()
            await self._admission.open()
            await self._reloader.load()
            await self._start_following()

    @at_home
    async def reload(self) -> ReloadChanges:
        """Read folder and sources again; running calls keep the definition they started with.

        Definitions that a `rollback` held back take effect.

        Returns:
            The names of the tools that were added, modified and removed.

        Raises:
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        return await self._reload_all()

    @at_home
    async def rollback(self, generation: int) -> ReloadChanges:
        """Return to the definitions of a generation that is kept.

        Each definition that was rolled back stays so until its own file changes, or until
        `reload()` is called. Tools that were registered in code, and the handlers that run tools,
        stay as they are.

        Args:
            generation: The number of a generation; see `generations()`.

        Returns:
            The names of the tools that were added, modified and removed.

        Raises:
            GenerationNotFoundError: It is not kept; the message says which are.
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        return await self._reloader.rollback(generation)

    @at_home
    async def lock_tools(
        self, names: Iterable[str] | Mapping[str, str] | None = None
    ) -> ReloadChanges:
        """Approve tools and groups as they are now, in the lock file.

        Unlike `tool-engine lock`, it also approves the code that this program registered to run
        them.

        Args:
            names: These only, groups as `group:NAME`; one that is gone loses its approval. A
                mapping to the `fingerprint` of each, from `check_lock`: only as it was read then.
                None: all tools and groups of the folder and the sources, and no others.

        Returns:
            The names of the tools that were added, modified and removed by that.

        Raises:
            ToolNotFoundError: Nothing defines a name, and the lock file does not have it.
            ApprovalConflictError: A definition, or its code, is not what was read; nothing was
                approved.
            LockFileError: The file cannot be written, or what is there is no lock file.
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        await self._take_configured()
        return await self._change_all(lambda: self._reloader.lock_tools(names))

    @at_home
    async def check_lock(self, names: Iterable[str] | None = None) -> list[LockState]:
        """Return what the lock file says of each tool and group, without writing it.

        Args:
            names: Of these only, as `lock_tools` has them. None: of all.

        Raises:
            LockFileError: What is there is no lock file.
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        await self._take_configured()
        return await self._reloader.check_lock(names)

    @property
    def load_errors(self) -> list[tuple[str, str]]:
        """The `(file, message)` of every definition that the last look could not load."""
        clashes = {(each.file, str(each)) for each in self.index.find_clashes()}
        return sorted({*self._reloader.errors, *clashes})

    @at_home
    async def close(self) -> None:
        """End all calls, watchers and connections; idempotent.

        Waiting calls end as `engine_closed` at once; running ones have `config.close_timeout`
        seconds to end by themselves, then they end as `engine_closed` too. In a process that was
        forked after `load` nothing is ended: what is open belongs to the parent.
        """
        if self._disowned is not None:
            return
        self._pipeline.close()
        self._admission.close()
        # A closing that was cancelled before its first step has closed nothing.
        if self._closing is None or self._closing.cancelled():
            self._closing = asyncio.create_task(self._close_parts(), name="tool-engine-close")
        await asyncio.shield(self._closing)
        self._end_own_loop()

    async def _close_parts(self) -> None:
        # By name: what only a closing engine needs.
        closing = import_module("tool_engine.calls.closing")
        async with contextlib.AsyncExitStack() as stack:
            # The last to be entered is the first to be left; one failure never stops the rest.
            for close in (self.store.close, self._bus.log.close, self._bus.close):
                stack.push_async_callback(close)
            stack.push_async_callback(self._admission.leave)
            stack.push_async_callback(self._close_tasks)
            patience = max(self.config.close_timeout, closing.LAST_GRACE)
            stack.push_async_callback(self._registry.close, patience)
            stack.push_async_callback(self._followers.close_sources, patience)
            stack.push_async_callback(self._end_leftovers, closing)
            for closer in list(self._closers):
                stack.push_async_callback(closer)
            stack.push_async_callback(
                closing.end_calls, self._pipeline, self._admission, self.config.close_timeout
            )
            stack.push_async_callback(self._reloader.stop)
            stack.push_async_callback(self._stop_following)

    async def _end_leftovers(self, closing: Any) -> None:
        """End work that continues without its caller, then close the backend."""
        async with contextlib.AsyncExitStack() as stack:
            if self._backend is not self._local:
                stack.push_async_callback(closing.close_backend, self._backend)
            stack.push_async_callback(self._local.close, closing.LAST_GRACE)
            stuck = await self._runs.close(closing.LAST_GRACE)
            if stuck:
                _log.warning("close_left_threads", threads=stuck)

    def add_closer(self, close: Callable[[], Awaitable[object]]) -> Callable[[], object]:
        """Have `close` awaited when the engine closes, after its calls; return what forgets it.

        Raises:
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        self._closers[close] = None
        return partial(self._closers.pop, close, None)

    def _swap_index(
        self, index: ToolIndex, cause: str = "code", changes: ReloadChanges | None = None
    ) -> None:
        if cause == "code":
            index = self._reloader.link(index)
            self._generations.amend(index)
        else:
            self._generations.add(index, cause, changes)
        self.index = index
        self._pipeline.forget_plans()
        for message in self._reloader.find_new_warnings(self._admission.config):
            _log.warning("limit_for_unknown_bucket", message=message)

    def disown(self, reason: str) -> None:
        """Refuse every further use of the engine: its process has forked."""
        self._disowned = EngineClosedError(f"the engine cannot be used here: {reason}")
        self._pipeline.disown(self._disowned)
        self._bus.disowned = self._disowned
        if isinstance(self._admission, ToolConcurrencyController):
            self._admission.disown(reason)

    def _require_open(self) -> None:
        if self._disowned is not None:
            raise self._disowned
        if self._closing is not None:
            raise EngineClosedError("the engine is closed; make a new one")

    @property
    def calls(self) -> EngineCalls:
        """The calls of this engine that are on their way, whichever surface they came through."""
        made = import_module("tool_engine.calls.engine_calls").EngineCalls
        return made(self._pipeline, self._run_at_home)  # type: ignore[no-any-return]

    @property
    def cluster(self) -> ClusterView | None:
        """What can be seen of the cluster that shares its limits; None: it is in none."""
        member = getattr(self.controller, "member", None)
        if member is None:
            return None
        room = import_module("tool_engine.admission.cluster.looking")
        return cast("ClusterView", room.ClusterView(member, self.controller.explain))

    @property
    def fleet(self) -> FleetView | None:
        """What can be seen of the machines that `isolation: ray` runs on; None: there are none."""
        if self.config.fleet is None:
            return None
        view = import_module("tool_engine.executors.fleet.looking").FleetView
        find, make = partial(self._registry.places.find_made, "ray"), self._registry.open_fleet
        ways = (find, make, self._run_at_home, self._require_open)
        return cast("FleetView", view(self.config.fleet, *ways))

    # Asking: see also `CatalogView`, `GenerationsView`, `RecordsView`, `EventsView`, ...

    def get_statistics(self) -> dict[str, Any]:
        """Return `total_tools`, `by_category`, `load_errors`, `last_reload_at`, `is_loaded`, ..."""
        return {
            "total_tools": len(self.index),
            "by_category": self.index.count_by_category(),
            "load_errors": list(self.load_errors),
            "last_reload_at": self._reloader.last_reload_at,
            "is_loaded": self._reloader.is_loaded,
            "generation": self.generation,
            "held": self._reloader.held,
            "quarantined": sorted(self._quarantined_tools),
            "warnings": self._list_warnings(),
        }

    def tool_definitions(
        self, format_name: str, names: Iterable[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the tools in the form that a model's provider expects.

        Args:
            format_name: `openai`, `openai_responses`, `anthropic`, `gemini` or `mcp`.
            names: The tools; None: all that are enabled (status testing or published). Those for
                code only, and those that run only as a task, are left out of both.

        Raises:
            ConfigurationError: The format is unknown, or `names` is no list of names.
            ToolNotFoundError: A name is unknown.
        """
        if self._definitions is None:
            made = import_module("tool_engine.protocols.definition_formats").DefinitionCache
            self._definitions = made()
        asked = None if names is None else check_names("names", names, "tool name")

        def list_tools() -> list[Tool]:
            if asked is None:
                return [tool for tool in self.list_all() if tool.is_enabled]
            return [self.get_or_raise(name) for name in asked]

        return self._definitions.read(format_name, asked, self.index, list_tools)  # type: ignore[no-any-return]

    async def read_definitions(
        self, format_name: str, names: Iterable[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return what `tool_definitions` does, and let the event loop go on meanwhile.

        The definitions of ten thousand tools take half a second to make after each change of one;
        of a few hundred, `tool_definitions` is as good.

        Raises:
            ConfigurationError: The format is unknown, or `names` is no list of names.
            ToolNotFoundError: A name is unknown.
        """
        asked = None if names is None else check_names("names", names, "tool name")
        return await asyncio.to_thread(self.tool_definitions, format_name, asked)

    def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        on_progress: Callable[[ToolProgress], object] | None = None,
        call_id: str | None = None,
    ) -> Coroutine[Any, Any, ToolExecutionResult]:
        """Run one tool: `await engine.execute(...)`.

        Never raises for a tool's fault: `result.error_type` says what went wrong.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: Who calls, and within which limits.
            on_progress: Hears how far the tool has come, as it reports it: a plain function.
            call_id: The id that it is to have, from `engine.calls.reserve_id()`; None: a new one.

        Raises:
            ConfigurationError: The context is none, `on_progress` is no plain function, or the id
                is not reserved.
            asyncio.CancelledError: The caller was cancelled; the call is recorded as `cancelled`.
        """
        return self._execute(tool_name, params, context, on_progress=on_progress, call_id=call_id)

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> ToolExecutionResult:
        """End a call that its caller refuses: one result, one record, one event.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: Who calls.
            refusal: Why it does not run.
        """
        return self._pipeline.refuse(tool_name, params, context, refusal)

    def is_hidden(self, tool_name: str) -> bool:
        """Return True if a tool of this name or alias is there, and for code only."""
        return self._reloader.is_hidden(tool_name)

    def explain_missing(self, tool_name: str) -> Refusal:
        """Return how a model's call of a tool ends that is not there for models."""
        failure = self._reloader.explain_missing(tool_name, for_models=True)
        return Refusal(failure.error_type, failure.error)

    def describe_origin(self) -> object:
        """Return its name, else its folder and databases: the same in every process."""
        return describe_engine(self.config)

    @property
    def _quarantined_tools(self) -> Mapping[str, QuarantinedTool]:
        return self._reloader.quarantined

    def _make_gate(self, approver: Approver | None) -> CallScope | None:
        return None if approver is None else self.approvals.make_gate(approver)

    def _ask_here(self, scope: CallScope) -> None:
        self._pipeline.consents.scope = scope

    def _list_warnings(self) -> list[str]:
        return self._reloader.limit_warnings(self._admission.config)


def _own_controller(
    config: ToolEngineConfig, concurrency: ConcurrencyConfig | None
) -> ToolConcurrencyController:
    limits = checked_concurrency(config.concurrency if concurrency is None else concurrency)
    if limits.cluster is not None:
        # Loaded by name: most engines share no limits.
        joining = import_module("tool_engine.calls.cluster_joining")
        process = name_process(config.process)
        made = joining.make_cluster_controller(limits, limits.cluster, process, _loop_time)
        return cast("ToolConcurrencyController", made)
    return ToolConcurrencyController(limits, clock=_loop_time)


def _known_controller(*parts: Any) -> AdmissionController:
    # Loaded by name: most engines have a controller of their own.
    foreign = import_module("tool_engine.calls.foreign_controller")
    return cast("AdmissionController", foreign.known_controller(*parts))


def _loop_time() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
