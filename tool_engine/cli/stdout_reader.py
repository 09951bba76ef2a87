"""How does a command that prints rarely notice that its reader has gone?"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reader_watched(on_gone: Callable[[], None]) -> Iterator[None]:
    """Call `on_gone` once when stdout loses its reader, while the block runs."""
    # A write would notice that the reader has gone, but the next event may be days away. The end
    # of a pipe that is written to becomes "readable" when its other end is closed.
    loop = asyncio.get_running_loop()
    pipes = _stdout_pipes()

    def stop_watching() -> None:
        for pipe in pipes:
            loop.remove_reader(pipe)

    def gone() -> None:
        # It stays readable: each turn of the loop would say so again, and a second cancellation
        # would interrupt what the first one is closing.
        stop_watching()
        on_gone()

    for pipe in pipes:
        loop.add_reader(pipe, gone)
    try:
        yield
    finally:
        stop_watching()


def _stdout_pipes() -> list[int]:
    try:
        descriptor = sys.stdout.fileno()
        return [descriptor] if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else []
    except OSError:
        return []
