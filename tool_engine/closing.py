"""How do calls end when their engine does?"""

from __future__ import annotations

import contextlib
from typing import Final

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.backends.local import LocalBackend
from tool_engine.logger import get_logger
from tool_engine.pipeline import Pipeline

__all__ = ["end_calls"]

_log = get_logger(__name__)
_LAST_GRACE: Final = 1.0
"""Seconds that what was told to end has for it."""


async def end_calls(
    pipeline: Pipeline,
    controller: ToolConcurrencyController,
    backend: LocalBackend,
    timeout: float,  # noqa: ASYNC109 - what happens afterwards is up to this function
) -> None:
    """Takes no more calls, gives those that run `timeout` seconds, and then aborts them.

    An aborted call has its record and its final event when this returns. Whoever cancels this wants
    it done at once: what runs is aborted without the wait.
    """
    pipeline.close()
    controller.close()
    is_done = False
    async with contextlib.AsyncExitStack() as stack:
        # The last to be entered is the first to be left, and a cancellation stops none of them.
        stack.push_async_callback(_end_leftovers, backend)
        stack.push_async_callback(controller.drain, _LAST_GRACE)
        stack.push_async_callback(pipeline.end_questions, _LAST_GRACE)
        try:
            await pipeline.end_questions(_LAST_GRACE)
            is_done = await controller.drain(timeout)
        finally:
            if not is_done:
                pipeline.abort()
                await controller.drain(_LAST_GRACE)


async def _end_leftovers(backend: LocalBackend) -> None:
    stuck = await backend.close(_LAST_GRACE)
    if stuck:
        _log.warning("close_left_threads", threads=stuck)
