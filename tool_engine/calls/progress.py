"""What do listeners hear of a call while its tool works, and how often?

A tool may report a million times, from any thread: of its progress only the newest is kept, and
published at most ten times a second. The last report is always published, before the call's end.
Calls that share the run hear of its progress, too, each as its own; its lines belong to the run.
The last lines stand in the call's final event, too, so that who keeps events keeps them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tool_engine.calls.call import Call
from tool_engine.logger import get_logger
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.foreign import ends_caller
from tool_engine.model.progress import MOST_READ, ToolLogLine, ToolProgress
from tool_engine.redaction import shorten_words, words_of

_log: Final = get_logger(__name__)
_INTERVAL: Final = 0.1
"""The least seconds between two events of one call."""
_MOST_WAITING: Final = 250
"""The most lines that wait to be published; of more the oldest go, and are counted. So a tool that
says a thousand in a second is heard, also where the loop comes to them late."""
_MOST_LINES: Final = 100
"""The most lines that stand in the final event."""
_MOST_SAID: Final = 20_000
"""The most characters of the lines that wait, or stand in the final event: those that wait are
searched for secrets on the loop."""
_MOST: Final = 500
"""The most characters of a message."""

_first: Final = threading.Lock()
"""Held while a call makes its first report; two threads may do so at once."""

Sharers = Callable[[Call], Iterable[tuple[Call, Context]]]
"""Lists the calls that share a call's run, each with its caller's context variables."""


def take_report(
    call: Call,
    report: ToolProgress | ToolLogLine,
    publish: Callable[..., None],
    sharers: Sharers,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Take a report of a running call, from any thread.

    Args:
        call: The call.
        report: What its tool reports.
        publish: `CallEnding.publish`.
        sharers: `Flights.sharers_of`.
        loop: The event loop of the calls.
    """
    if call.reports is None:
        with _first:
            call.reports = call.reports or CallReports(call, publish, sharers, loop)
    call.reports.take(report)


class CallReports:
    """What one call has reported and was not published yet.

    Args:
        call: The call.
        publish: `CallEnding.publish`.
        sharers: `Flights.sharers_of`.
        loop: Where its events are published.
    """

    __slots__ = (
        "_attempt",
        "_call",
        "_dropped",
        "_heard",
        "_is_over",
        "_is_waking",
        "_last",
        "_lines",
        "_lock",
        "_loop",
        "_newcomers",
        "_newest",
        "_next",
        "_passed",
        "_publish",
        "_said",
        "_sharers",
        "_shown",
        "_timer",
        "_unheard",
    )

    def __init__(
        self,
        call: Call,
        publish: Callable[..., None],
        sharers: Sharers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._call = call
        self._publish = publish
        self._sharers = sharers
        self._loop = loop
        self._lock = threading.Lock()
        self._newest: ToolProgress | None = None
        self._shown: ToolProgress | None = None
        """What listeners have heard last."""
        self._newcomers: set[str] = set()
        """The ids of calls that share the run, and have heard nothing yet."""
        self._lines: deque[ToolLogLine] = deque()
        self._dropped = self._said = 0
        self._heard: deque[dict[str, Any]] = deque()
        self._passed = 0
        """Characters of the lines in `_heard`."""
        self._unheard = 0
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
            self._said += len(report.message)
            while len(self._lines) > _MOST_WAITING or self._said > _MOST_SAID:
                self._said -= len(self._lines.popleft().message)
                self._dropped += 1
            return True
        if self._call.retries != self._attempt:
            self._attempt, self._last = self._call.retries, 0.0
        if report.done < self._last:
            return False
        self._last, self._newest = report.done, report
        return True

    def welcome(self, call: Call) -> None:
        """Let a call that shares the run from now on hear how far that has come."""
        if self._shown is not None:
            self._newcomers.add(call.call_id)
            self._publish_soon()

    def end(self) -> None:
        """Publish what is left: the call ends."""
        if self._timer is not None:
            self._timer.cancel()
        self._publish_all()
        self._is_over = True

    def list_lines(self) -> dict[str, Any]:
        """Return what the final event says of the lines: the last ones, and how many came before.

        Nothing, where the tool has said nothing.
        """
        if not self._heard:
            return {}
        more = {"lines_before": self._unheard} if self._unheard else {}
        return {"lines": list(self._heard), **more}

    def _publish_soon(self) -> None:
        """Publish now, or as soon as the interval is over."""
        if self._is_over or self._timer is not None:
            return
        if self._call.is_over or self._call.is_overdue:
            # The first report of a tool that goes on after the end of its call.
            self._is_over = True
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
            dropped, self._dropped, self._said = self._dropped, 0, 0
        for line in lines:
            self._publish_line(line, dropped)
            dropped = 0
        if progress is not None:
            self._shown = self._hide_in_progress(progress)
            self._publish_progress(self._call, self._shown)
        if self._shown is not None and (progress is not None or self._newcomers):
            newcomers, self._newcomers = self._newcomers, set()
            for call, context in list(self._sharers(self._call)):
                if progress is not None or call.call_id in newcomers:
                    context.run(self._publish_progress, call, self._shown)
        # From here on, so that listeners that take their time leave some to the loop.
        self._next = self._loop.time() + _INTERVAL

    def _publish_line(self, line: ToolLogLine, dropped: int) -> None:
        message = self._hide_secrets(line.message)
        facts: dict[str, Any] = {"level": line.level, "message": message}
        self._unheard += dropped
        self._heard.append({"at": datetime.now(UTC).isoformat(), **facts})
        self._passed += len(message)
        while len(self._heard) > _MOST_LINES or self._passed > _MOST_SAID:
            self._passed -= len(self._heard.popleft()["message"])
            self._unheard += 1
        if dropped:
            facts["dropped"] = dropped
        self._publish(self._call, ToolEngineEventType.EXECUTION_LOGGED, facts=facts)

    def _publish_progress(self, call: Call, progress: ToolProgress) -> None:
        facts = msgspec.structs.asdict(progress)
        self._publish(call, ToolEngineEventType.EXECUTION_PROGRESS, facts=facts)
        listener = call.context.on_progress
        if listener is None:
            return
        try:
            listener(progress)
        except BaseException as error:  # a listener must not fail the call
            if ends_caller(error):
                raise
            _log.warning(
                "progress_listener_failed",
                call_id=call.call_id,
                error=words_of(error, call.secrets),
            )

    def _hide_in_progress(self, progress: ToolProgress) -> ToolProgress:
        if progress.message is None:
            return progress
        return msgspec.structs.replace(progress, message=self._hide_secrets(progress.message))

    def _hide_secrets(self, message: str) -> str:
        return shorten_words(message, self._call.secrets, most=_MOST, read=MOST_READ)
