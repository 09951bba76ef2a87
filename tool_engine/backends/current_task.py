"""What may a tool do to its current task?

A `ToolTask` stands for the `asyncio.Task` of its tool. These are the methods that tools, and the
libraries that they use, call on a current task; each means what it means in asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tool_engine.model.json.data import show_repr


class CurrentTask:
    """The methods of a run that its tool sees."""

    if not TYPE_CHECKING:
        __slots__ = ()  # the run has the fields

    _loop: asyncio.AbstractEventLoop
    _context: Context
    _steps: Any
    _waits_for: Any
    _must_cancel: bool
    _cancels: int
    _callbacks: list[Callable[[Any], object]] | None
    _name: str | None
    value: Any
    error: BaseException | None
    is_done: bool
    is_detached: bool

    @property
    def _fut_waiter(self) -> Any:
        return self._waits_for

    def cancel(self, msg: Any = None) -> bool:
        """Throw `CancelledError` into the tool, as `asyncio.Task.cancel`."""
        if self.is_done:
            return False
        self._cancels += 1
        waits_for = self._waits_for
        if waits_for is None or not waits_for.cancel(msg=msg):
            self._must_cancel = True
        return True

    def cancelling(self) -> int:
        """Return how often `cancel` was called, less the calls of `uncancel`."""
        return self._cancels

    def uncancel(self) -> int:
        if self._cancels > 0:
            self._cancels -= 1
        return self._cancels

    def cancelled(self) -> bool:
        return self.is_done and issubclass(type(self.error), asyncio.CancelledError)

    def done(self) -> bool:
        return self.is_done

    def result(self) -> Any:
        """Return what the tool returned; raise what it raised."""
        if not self.is_done:
            raise asyncio.InvalidStateError("the tool has not ended")
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self) -> BaseException | None:
        if not self.is_done:
            raise asyncio.InvalidStateError("the tool has not ended")
        return self.error

    def add_done_callback(
        self, callback: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Call `callback(task)` soon after the tool has ended."""
        if self.is_done:
            self._loop.call_soon(callback, self, context=context)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def remove_done_callback(self, callback: Callable[[Any], object]) -> int:
        """Forget `callback`; return how often it had been added."""
        kept = [each for each in self._callbacks or () if each != callback]
        removed = len(self._callbacks or ()) - len(kept)
        self._callbacks = kept
        return removed

    def get_name(self) -> str:
        return self._name or f"tool:{self._steps.__qualname__}"

    def set_name(self, value: object) -> None:
        self._name = str(value)

    def get_coro(self) -> Generator[Any, Any, None]:
        """Return what the task drives: a generator around the tool's coroutine."""
        steps: Generator[Any, Any, None] = self._steps
        return steps

    def get_context(self) -> Context:
        return self._context

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def get_stack(self, *, limit: int | None = None) -> list[Any]:
        """Return the frame at which the tool waits."""
        frame = self._steps.gi_frame
        return [frame][:limit] if frame is not None else []

    def __repr__(self) -> str:
        state = "done" if self.is_done else "detached" if self.is_detached else "running"
        return f"<ToolTask {self.get_name()!r} {state}>"

    __rich_repr__ = show_repr
