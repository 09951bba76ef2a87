"""How does a handler in a worker process report while it works?

Of its progress only the newest waits, so that a handler may report a million times. This runs in
the worker process: see `guest`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

REPORT_SECONDS: Final = 0.05
"""The least seconds between two reports of the progress of one call."""


class HandlerReports:
    """What one call reports, from any thread.

    Args:
        send: Sends one report to the engine.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._newest: dict[str, Any] | None = None
        self._timer: threading.Timer | None = None
        self._is_over = False

    def take(self, report: Any) -> None:
        """Take a `ToolProgress` or a `ToolLogLine`; after the end it is left out."""
        words = {name: getattr(report, name) for name in report.__struct_fields__}
        with self._lock:
            if self._is_over:
                return
            if "level" in words:
                self._send(words)
                return
            self._newest = words
            if self._timer is None:
                self._send_newest()
                self._timer = threading.Timer(REPORT_SECONDS, self._send_later)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """Send what is left: the answer follows."""
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()
            self._send_newest()

    def _send_later(self) -> None:
        with self._lock:
            self._timer = None
            if not self._is_over:
                self._send_newest()

    def _send_newest(self) -> None:
        if self._newest is not None:
            self._send(self._newest)
            self._newest = None
