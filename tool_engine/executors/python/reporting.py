"""How does a handler in a worker process report while it works?

Of its progress only the newest waits, so that a handler may report a million times. Its lines go at
once, for they may be its last words; of those that it writes faster than anyone reads, only the
newest go, and how many were left out. This runs in the worker process: see `guest`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from tool_engine.errors import UnboundContextError
from tool_engine.model.call import ToolExecutionContext

REPORT_SECONDS: Final = 0.05
"""The least seconds between two reports of the progress of one call."""
MOST_LINES: Final = 100
"""The lines that go at once within this time, and those of the rest that go at its end: together
more than the engine publishes meanwhile."""


class HandlerReports:
    """What one call reports, from any thread.

    Args:
        send: Sends one report to the engine.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._newest: dict[str, Any] | None = None
        self._furthest = 0.0
        self._lines: deque[dict[str, Any]] = deque()
        self._left_out = 0
        self._room = MOST_LINES
        self._timer: threading.Timer | None = None
        self._is_over = False

    def take(self, report: Any) -> None:
        """Take a `ToolProgress` or a `ToolLogLine`; after the end it is left out."""
        words = {name: getattr(report, name) for name in report.__struct_fields__}
        with self._lock:
            if self._is_over:
                return
            if "level" in words:
                self._take_line(words)
            elif report.done >= self._furthest:  # what goes back is left out, as in the engine
                self._furthest, self._newest = report.done, words
            if self._timer is None:
                self._send_waiting()
                self._start_timer()

    def end(self) -> None:
        """Send what is left: the answer follows."""
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()
            self._send_waiting()

    def _take_line(self, words: dict[str, Any]) -> None:
        if self._room:
            self._room -= 1
            self._send(words)
            return
        self._lines.append(words)
        if len(self._lines) > MOST_LINES:
            self._lines.popleft()
            self._left_out += 1

    def _start_timer(self) -> None:
        self._timer = threading.Timer(REPORT_SECONDS, self._send_later)
        self._timer.daemon = True
        self._timer.start()

    def _send_later(self) -> None:
        with self._lock:
            self._timer = None
            if self._is_over:
                return
            is_quiet = self._room == MOST_LINES and self._newest is None
            self._send_waiting()
            self._room = MOST_LINES
            if not is_quiet:
                # What comes next waits as long after this as this did.
                self._start_timer()

    def _send_waiting(self) -> None:
        """Send the lines that wait, and how far the call has come."""
        if self._left_out:
            words = f"{self._left_out} lines before the next one were left out: too many at once"
            self._send({"message": words, "level": "warning"})
        for line in self._lines:
            self._send(line)
        if self._newest is not None:
            self._send(self._newest)
        self._lines.clear()
        self._newest, self._left_out = None, 0


def make_context(
    wire: Mapping[str, Any], seconds: float | None, take_report: Callable[[Any], None]
) -> ToolExecutionContext:
    """Return the parts of the call's context that can cross to another process."""

    async def refuse(_context: Any, tool_name: str, *_: Any) -> NoReturn:
        raise UnboundContextError(
            f"cannot call {tool_name!r}: a handler with an isolation runs apart from the "
            "engine; return what is to be done, or leave the isolation out"
        )

    deadline = None if seconds is None else time.monotonic() + seconds
    made = ToolExecutionContext(**wire, _take_report=take_report)
    return made.bound_to(None, refuse, made.call_id, deadline, made.timeout)
