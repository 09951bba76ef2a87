"""What becomes of the turn to write a file when who waits for it is cancelled?"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tool_engine.knowledge.sql.connection import turns

BOUND = 20.0


class Turn:
    """A lock that says when a thread waits for it, and how often it was given back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_asked = threading.Event()
        self.given_back = 0

    def acquire(self, timeout: float = -1) -> bool:
        self.is_asked.set()
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self.given_back += 1
        self._lock.release()


@pytest.fixture
def turn(monkeypatch: pytest.MonkeyPatch) -> Turn:
    made = Turn()
    monkeypatch.setattr(turns, "turn_of", lambda _: made)
    return made


@pytest.mark.parametrize("is_end", [True, False], ids=["the loop ends", "one leaves"])
async def test_a_turn_is_given_back_by_its_owner_alone(
    turn: Turn, tmp_path: Path, is_end: bool
) -> None:
    async def write() -> None:
        async with turns.take_turn(tmp_path):
            pass

    others = asyncio.all_tasks()
    turn.acquire()
    turn.is_asked.clear()
    waiting = asyncio.create_task(write())
    assert await asyncio.to_thread(turn.is_asked.wait, BOUND)
    # The end of a loop cancels every task, also one that stands for a thread.
    for task in asyncio.all_tasks() - others if is_end else {waiting}:
        task.cancel()
    await asyncio.wait([waiting], timeout=BOUND)
    assert waiting.cancelled()
    assert turn.given_back == 0
    turn.release()
    assert await asyncio.to_thread(turn.acquire, BOUND), "its thread keeps it for ever"
    turn.release()  # which thread had it first is open
