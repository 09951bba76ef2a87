"""Which parts does an engine take calls through, and where does it keep its events?"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.backends.local import LocalBackend
from tool_engine.config import ToolEngineConfig
from tool_engine.ending import CallEnding
from tool_engine.events import EventBus, MemoryEventStorage
from tool_engine.executors.registry import ExecutorRegistry
from tool_engine.interfaces import Approver, CallScope, EventStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.tool import Tool
from tool_engine.pipeline import Pipeline
from tool_engine.plan import Planner
from tool_engine.validation import ToolParameterValidator

if TYPE_CHECKING:
    from tool_engine.reloading import Reloader

__all__ = ["event_storage_for", "pipeline_of", "scope_of"]

_engines: Final = itertools.count(1)


def pipeline_of(
    config: ToolEngineConfig,
    controller: ToolConcurrencyController,
    store: ToolKnowledgeStore,
    bus: EventBus,
    registry: ExecutorRegistry,
    backend: LocalBackend,
    reloader: Reloader,
    generation: Callable[[], int],
    find: Callable[[str], Tool | None],
    scope: CallScope | None,
) -> Pipeline:
    """The steps of an engine's calls, with the parts that take them."""
    planner = Planner(
        ToolParameterValidator(strict=config.strict_validation),
        registry,
        backend,
        lambda: controller.config,
        generation,
        find,
    )
    return Pipeline(
        find,
        reloader.refusal_of,
        planner,
        controller,
        backend,
        CallEnding(store, bus),
        bus,
        f"call-{os.getpid():x}-{time.time_ns() // 1_000_000:x}-{next(_engines)}-",
        scope,
    )


def scope_of(approver: Approver | None) -> CallScope | None:
    """Who is asked about the calls of no session; None: nobody."""
    if approver is None:
        return None
    # Loaded by name: most engines ask nobody.
    made: CallScope = import_module("tool_engine.approval.gate").gate_of_engine(approver)
    return made


def event_storage_for(config: ToolEngineConfig) -> EventStorage | None:
    """Where the settings say that events are kept; nothing is opened yet."""
    if not config.keep_events:
        return None
    if config.records is None:
        return MemoryEventStorage(config.keep_events)
    module = import_module("tool_engine.knowledge.sql.events")
    storage: EventStorage = module.SQLEventStorage(config.records, config.keep_events)
    return storage
