"""What happens to waiting records when a program ends without closing?

They get a last second, while threads can still be started: `atexit` comes too late for the writer's
own. A `ResourceWarning` reports what was not closed.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from concurrent.futures import thread as _its_threads_end_after_ours  # noqa: F401 - see below
from typing import Final, Protocol
from weakref import WeakSet

LAST_SECOND: Final = 1.0


class Unfinished(Protocol):
    """A writer that may have something left to write."""

    def finish(self, limit: float) -> None:
        """Write what is left, within so many seconds."""


_unfinished: Final[WeakSet[Unfinished]] = WeakSet()


def remember_writer(writer: Unfinished) -> None:
    """Have `writer` finish when the program ends."""
    _unfinished.add(writer)


def forget_writer(writer: Unfinished) -> None:
    _unfinished.discard(writer)


def _finish_all() -> None:
    for writer in tuple(_unfinished):
        warnings.warn(
            f"{writer!r} was not closed: use `async with` for the engine, or call its close()",
            ResourceWarning,
            stacklevel=1,
            source=writer,
        )
        writer.finish(LAST_SECOND)


# The last registered is called first: this before the thread pool that writes.
getattr(threading, "_register_atexit", atexit.register)(_finish_all)
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_unfinished.clear)
