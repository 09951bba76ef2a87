"""What do listeners hear of a call while its tool works, and how often?

A tool may report a million times, from any thread: of its progress only the newest is kept, and
published at most ten times a second. The last report is always published, before the call's end.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tool_engine.calls.call import Call
from tool_engine.logger import get_logger
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.foreign import ends_caller
from tool_engine.model.progress import ToolLogLine, ToolProgress
from tool_engine.redaction import shorten_words, words_of

_log: Final = get_logger(__name__)
_INTERVAL: Final = 0.1
"""The least seconds between two events of one call."""
_MOST_LINES: Final = 100
"""The most lines that wait to be published; of more the oldest go, and are counted."""
_MOST: Final = 500
"""The most characters of a message."""

_first: Final = threading.Lock()
"""Held while a call makes its first report; two threads may do so at once."""


def take_report(
    call: Call,
    report: ToolProgress | ToolLogLine,
    publish: Callable[..., None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Take a report of a running call, from any thread.

    Args:
        call: The call.
        report: What its tool reports.
        publish: `CallEnding.publish`.
        loop: The event loop of the calls.
    """
    if call.reports is None:
        with _first:
            call.reports = call.reports or CallReports(call, publish, loop)
    call.reports.take(report)


class CallReports:
    """What one call has reported and was not published yet.

    Args:
        call: The call.
        publish: `CallEnding.publish`.
        loop: Where its events are published.
    """

    __slots__ = (
        "_attempt",
        "_call",
        "_dropped",
        "_is_over",
        "_is_waking",
        "_last",
        "_lines",
        "_lock",
        "_loop",
        "_newest",
        "_next",
        "_publish",
        "_timer",
    )

    def __init__(
        self, call: Call, publish: Callable[..., None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._call = call
        self._publish = publish
        self._loop = loop
        self._lock = threading.Lock()
        self._newest: ToolProgress | None = None
        self._lines: deque[ToolLogLine] = deque()
        self._dropped = 0
        self._last = 0.0
        self._attempt = call.retries
        self._next = -1.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_waking = self._is_over = False

    def take(self, report: ToolProgress | ToolLogLine) -> None:
        """Take a report, from any thread; one that comes after the end of the call is left out."""
        with self._lock:
            if self._is_over or not self._note_report(report) or self._is_waking:
                return
            self._is_waking = True
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - `get_running_loop` raises
            self._publish_soon()
            return
        try:
            self._loop.call_soon_threadsafe(self._publish_soon)
        except RuntimeError:
            # The loop is closed, and with it everything that could hear of this.
            self._is_over = True

    def _note_report(self, report: ToolProgress | ToolLogLine) -> bool:
        """Note what is to be published; False: nothing is."""
        if isinstance(report, ToolLogLine):
            self._lines.append(report)
            if len(self._lines) > _MOST_LINES:
                self._lines.popleft()
                self._dropped += 1
            return True
        if self._call.retries != self._attempt:
            self._attempt, self._last = self._call.retries, 0.0
        if report.done < self._last:
            return False
        self._last, self._newest = report.done, report
        return True

    def end(self) -> None:
        """Publish what is left: the call ends."""
        if self._timer is not None:
            self._timer.cancel()
        self._publish_all()
        self._is_over = True

    def _publish_soon(self) -> None:
        """Publish now, or as soon as the interval is over."""
        if self._is_over or self._timer is not None:
            return
        now = self._loop.time()
        if now >= self._next:
            self._publish_all()
        else:
            self._timer = self._loop.call_at(self._next, self._publish_all)

    def _publish_all(self) -> None:
        self._timer, self._next = None, self._loop.time() + _INTERVAL
        with self._lock:
            self._is_waking = False
            progress, self._newest = self._newest, None
            lines, self._lines = self._lines, deque()
            dropped, self._dropped = self._dropped, 0
        for line in lines:
            self._publish_line(line, dropped)
            dropped = 0
        if progress is not None:
            self._publish_progress(progress)

    def _publish_line(self, line: ToolLogLine, dropped: int) -> None:
        facts: dict[str, Any] = {"level": line.level, "message": self._hide_secrets(line.message)}
        if dropped:
            facts["dropped"] = dropped
        self._publish(self._call, ToolEngineEventType.EXECUTION_LOGGED, facts=facts)

    def _publish_progress(self, progress: ToolProgress) -> None:
        if progress.message is not None:
            progress = msgspec.structs.replace(
                progress, message=self._hide_secrets(progress.message)
            )
        facts = msgspec.structs.asdict(progress)
        self._publish(self._call, ToolEngineEventType.EXECUTION_PROGRESS, facts=facts)
        listener = self._call.context.on_progress
        if listener is None:
            return
        try:
            listener(progress)
        except BaseException as error:  # a listener must not fail the call
            if ends_caller(error):
                raise
            _log.warning(
                "progress_listener_failed",
                call_id=self._call.call_id,
                error=words_of(error, self._call.secrets),
            )

    def _hide_secrets(self, message: str) -> str:
        return shorten_words(message, self._call.secrets, most=_MOST)
