"""In which order do the connections of one process write a SQLite file?

SQLite's own wait looks for the lock of the file ten times a second: who waits so, beside others
who write all the time, may find it taken for ever.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

_turns: Final = WeakValueDictionary[tuple[int, int, int], Lock]()


def identify_file(path: Path) -> tuple[int, int]:
    """Return what distinguishes a file from another one in its place."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, -1)
    return (found.st_dev, found.st_ino)


def turn_of(file: tuple[int, int]) -> Lock:
    """Return the lock of all connections of this process that write a file."""
    # By process: after a fork another thread's lock would never be given back.
    return _turns.setdefault((os.getpid(), *file), Lock())


@asynccontextmanager
async def take_turn(path: Path) -> AsyncIterator[None]:
    """Wait for the turn to write a file, and have it for this block, which must be short."""
    turn = await asyncio.to_thread(lambda: turn_of(identify_file(path)))
    await _await_turn(turn)
    try:
        yield
    finally:
        turn.release()


async def _await_turn(turn: Lock) -> None:
    taken: Future[None] = Future()

    def take() -> None:
        turn.acquire()
        if taken.set_running_or_notify_cancel():
            taken.set_result(None)
        else:
            turn.release()  # no caller waits for it any more

    # No task: those are all cancelled when the loop ends, and a thread that waits runs on.
    asyncio.get_running_loop().run_in_executor(None, take)
    try:
        await asyncio.wrap_future(taken)
    except asyncio.CancelledError:
        if not taken.cancel():
            turn.release()
        raise
