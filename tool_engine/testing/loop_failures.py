"""How does a virtual loop report what went wrong on it?"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tool_engine.errors import ToolEngineError

Failing = dict[str, Any]
"""The asyncio context of a failure: a `message` and, mostly, an `exception`."""
_MOST_SHOWN: Final = 10


class DeadlockError(ToolEngineError):
    """Every task waits, and no timer will wake any."""

    error_type = "deadlock"


class CallbackError(ToolEngineError):
    """A callback or an unawaited task failed; the cause is its exception."""

    error_type = "callback_error"


def failing_text(failing: Failing) -> str:
    """Describe what failed, where and how, on one line."""
    error = failing.get("exception")
    about = failing.get("task") or failing.get("future")
    parts = [str(failing.get("message"))]
    if about is not None:
        parts.append(repr(about))
    if error is not None:
        parts.append(f"{type(error).__name__}: {error}")
    return "; ".join(parts)


def deadlock_text(loop: asyncio.AbstractEventLoop) -> str:
    """Describe which tasks wait on `loop`, and in which line of which file."""
    waiting = sorted(_place_of(task) for task in asyncio.all_tasks(loop))
    shown = "".join(f"\n  {place}" for place in waiting[:_MOST_SHOWN])
    more = len(waiting) - _MOST_SHOWN
    return (
        f"deadlock at {loop.time():g} s: nothing is ready, no timer is set, and {len(waiting)} "
        f"of the tasks wait for what will never happen:{shown}"
        + (f"\n  and {more} more" if more > 0 else "")
    )


def _place_of(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack()
    if not frames:
        return task.get_name()
    code = frames[-1].f_code
    return f"{task.get_name()}: {code.co_qualname}, {code.co_filename}:{frames[-1].f_lineno}"
