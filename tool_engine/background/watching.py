"""When does an engine without tasks begin to run those that other programs start?

It looks every few seconds, which costs its calls nothing: one read of two indexes. An engine
without a database, or one that leaves tasks to others, never looks.
"""

from __future__ import annotations

import asyncio
import weakref
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from tool_engine.errors import ToolEngineError

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

EVERY: Final = 5.0
"""Seconds between two looks."""


class TaskWatch:
    """Opens the tasks of an engine once its database has some.

    Args:
        engine: The engine; it is not kept alive by this.
        storage: Where tasks are kept.
    """

    def __init__(self, engine: ToolEngine, storage: Any) -> None:
        self._engine = weakref.ref(engine)
        self._storage = storage
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_ended = False

    def begin_watch(self) -> None:
        """Look from now on, until there is one; a second time changes nothing."""
        if self._timer is None and not self._is_ended:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(EVERY, self._begin_look, context=Context())

    def _begin_look(self) -> None:
        self._timer = None
        if self._engine() is not None:
            look = self._look_for_tasks()
            self._looking = asyncio.get_running_loop().create_task(look, context=Context())

    async def _look_for_tasks(self) -> None:
        try:
            is_needed = await self._storage.has_open()
        except ToolEngineError:
            # What the program itself asks for says so.
            is_needed = False
        engine = self._engine()
        if engine is None or self._is_ended:
            return
        if is_needed:
            self._is_ended = True
            engine.tasks.open()
        else:
            self.begin_watch()

    async def end_watch(self) -> None:
        """Look no more, and wait for the look that goes on."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            await asyncio.wait([self._looking])
