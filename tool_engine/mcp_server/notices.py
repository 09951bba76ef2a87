"""How does a client hear of its call while that runs?"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import mcp_types as types

from tool_engine.model.progress import ToolProgress

_MOST_LINES: Final = 1_000
"""The most lines that wait for a client that does not read; the oldest are left out."""


class Notices:
    """What one call sends while it runs: its lines, and of its progress the newest.

    The tool is never slower for it, and a call that says nothing costs nothing.

    Args:
        ctx: The SDK's context of the request.
    """

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self._newest: ToolProgress | None = None
        self._lines: deque[types.LoggingMessageNotificationParams] = deque(maxlen=_MOST_LINES)
        self._sending: asyncio.Task[None] | None = None
        self._is_over = False

    def move_to(self, ctx: Any) -> None:
        """Send to another request of the same client from now on."""
        self._ctx = ctx

    def note_progress(self, progress: ToolProgress) -> None:
        """Take a report of the tool."""
        self._newest = progress
        self._begin_sending()

    def note_line(self, line: types.LoggingMessageNotificationParams) -> None:
        """Take a line of the tool."""
        self._lines.append(line)
        self._begin_sending()

    async def end(self, *, is_heard: bool) -> None:
        """Send what is left before the result, or nothing more.

        Args:
            is_heard: Whether the client still waits.
        """
        self._is_over = True
        sending = self._sending
        if sending is None:
            return
        if not is_heard:
            sending.cancel()
        await asyncio.wait([sending])

    def _begin_sending(self) -> None:
        if self._is_over:
            self._lines.clear()
            self._newest = None
        elif self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_news())

    async def _send_news(self) -> None:
        try:
            while self._lines or self._newest is not None:
                await self._send_lines()
                newest, self._newest = self._newest, None
                if newest is not None:
                    await self._ctx.session.report_progress(
                        newest.done, newest.total, newest.message
                    )
        except Exception:  # noqa: BLE001 - a client that has left reads nothing; its call goes on
            self._lines.clear()
            self._newest = None

    async def _send_lines(self) -> None:
        while self._lines:
            line = types.LoggingMessageNotification(params=self._lines.popleft())
            await self._ctx.session.send_notification(line, related_request_id=self._ctx.request_id)
