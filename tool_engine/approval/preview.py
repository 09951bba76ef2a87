"""What would a call change, as far as is known before it runs?

An executor may have `preview(tool, params) -> str | None`, plain or async, which changes nothing.
The gate finds it through this module, because it does not know executors.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.logger import get_logger
from tool_engine.model.foreign import ends_caller
from tool_engine.model.tool import Tool
from tool_engine.redaction import secrets_if_known, secrets_of, words_of

AT_ONCE: Final = 32_768
"""Characters whose secrets are hidden on the event loop; longer texts use a thread."""
_LONGEST: Final = 5.0
"""Seconds that a preview may take; then the approver does without it."""

_log = get_logger(__name__)
_executor: Final[ContextVar[Any]] = ContextVar("previewing_executor", default=None)


@contextmanager
def previewed_by(executor: Any) -> Iterator[None]:
    """Let `preview_of` ask `executor` inside this block."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


def executor_of_call() -> object:
    """Return what would run the call that is asked about now, or None."""
    return _executor.get()


async def preview_of(tool: Tool, params: dict[str, Any]) -> str | None:
    """Return the executor's preview with secrets hidden; None: none, or it failed."""
    preview = getattr(_executor.get(), "preview", None)
    if not callable(preview):
        return None
    try:
        async with asyncio.timeout(_LONGEST):
            if inspect.iscoroutinefunction(preview):
                said = await preview(tool, params)
            else:
                said = await asyncio.to_thread(preview, tool, params)
    except ToolExecutionError as error:
        said = f"Nothing, it would fail: {error}"
    except BaseException as error:  # to ask without it is better than not to ask
        if ends_caller(error):
            raise
        said = words_of(error, secrets_if_known(tool, params))
        _log.debug("preview_failed", tool_name=tool.name, error=said)
        return None
    if not isinstance(said, str) or not said:
        return None
    # Even the shortest secret is hidden: the preview is about these very arguments.
    secrets = secrets_of(tool, params, shortest=1)
    hidden = secrets.text
    return hidden(said) if len(said) <= AT_ONCE else await asyncio.to_thread(hidden, said)
