"""How does a program start calls that outlive their caller, and where are they?"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tool_engine.errors import ToolEngineError
from tool_engine.logger import get_logger

if TYPE_CHECKING:
    from tool_engine.config import ToolEngineConfig
    from tool_engine.interfaces.tasks import Tasks
    from tool_engine.knowledge.store import ToolKnowledgeStore
    from tool_engine.model.call import ToolExecutionContext
    from tool_engine.model.task import TaskHandle

_log = get_logger(__name__)


class StartsTasks:
    """What an engine does with calls that outlive their caller."""

    config: ToolEngineConfig
    store: ToolKnowledgeStore

    @property
    def tasks(self) -> Tasks:
        """The calls that outlive their caller."""
        made: Tasks | None = self.__dict__.get("_tasks")
        if made is None:
            # Loaded by name: most engines have no tasks. One object, whichever thread is first.
            room = import_module("tool_engine.background.tasks")
            mine = room.EngineTasks(self, self.store.tasks)
            made = self.__dict__.setdefault("_tasks", mine)
        return made

    def start(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        ttl: float = 3600.0,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, TaskHandle]:
        """Start a call that outlives its caller: `handle = await engine.start(...)`.

        It is kept before this returns: with `records` in their database, else in memory. It waits
        for a slot however long that takes; the deadline of its call begins with the slot. What
        `execute` would refuse at once, such as wrong arguments, is a task that has ended.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: Who calls; its `caller_id` is the owner of the task.
            ttl: Seconds that the task may take, and that its result is kept, from now on.
            idempotency_key: A second start of its owner with the same key returns the same task.

        Raises:
            ConfigurationError: The name is no text, the context is none, or `ttl` or the key is
                wrong.
            TaskConflictError: Another call was started with that key.
            TaskError: A tool or a conversation asks for it.
            TooManyTasksError: The owner has as many as `max_tasks_per_owner` allows.
            EngineClosedError: The engine is closed.
            RecordsUnavailableError: The database does not answer; nothing was started. With the
                setting `durability="call"` a disk that fails at that moment is found out after the
                tool has begun, unless there is an `idempotency_key`.
        """
        return self.tasks.start(
            tool_name, params, context, ttl=ttl, idempotency_key=idempotency_key
        )

    async def _resume_tasks(self) -> None:
        """Run what other engines have left, where the database has some, now or later."""
        kept = getattr(self.store.storage, "tasks", None)
        if kept is None or not self.config.run_tasks:
            return
        try:
            is_needed = await kept.has_open()
        except ToolEngineError as error:
            _log.warning("tasks_not_read", error=str(error))
            is_needed = True
        if is_needed:
            self.tasks.open()
            return
        if (watch := self.__dict__.get("_task_watch")) is None:
            room = import_module("tool_engine.background.watching")
            watch = self.__dict__["_task_watch"] = room.TaskWatch(self, kept)
        watch.begin_watch()

    async def _close_tasks(self) -> None:
        if (watch := self.__dict__.get("_task_watch")) is not None:
            await watch.end_watch()
        if (tasks := self.__dict__.get("_tasks")) is not None:
            await tasks.close()
