"""What does a virtual loop keep of a callback until it runs?

Like asyncio's own handles, without their further work, which costs more than most callbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any


class ScheduledCall(asyncio.Handle):
    """A callback that runs once, in a context, unless it is cancelled."""

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        """None once it is cancelled."""
        self.args = args
        self.context = copy_context() if context is None else context

    def cancel(self) -> None:
        """Cancel the callback and release its arguments."""
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def __repr__(self) -> str:
        return f"<ScheduledCall {self.callback or 'cancelled'}>"


class ScheduledTimer(asyncio.TimerHandle):
    """A callback that runs at a time."""

    __slots__ = ("args", "callback", "context", "due", "on_cancel")

    def __init__(
        self,
        due: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        on_cancel: Callable[[], None],
    ) -> None:
        self.due = due
        self.callback: Callable[..., object] | None = callback
        """None once it is cancelled."""
        self.args = args
        self.context = copy_context() if context is None else context
        self.on_cancel: Callable[[], None] | None = on_cancel
        """Notifies the loop; None once the timer is no longer among the loop's timers."""

    def cancel(self) -> None:
        """Cancel the callback and release its arguments."""
        if self.callback is not None and self.on_cancel is not None:
            self.on_cancel()
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        """Return the virtual time at which it runs."""
        return self.due

    def __repr__(self) -> str:
        return f"<ScheduledTimer at {self.due:g} {self.callback or 'cancelled'}>"
