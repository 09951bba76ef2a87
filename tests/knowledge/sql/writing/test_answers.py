"""Who waits for a commit is told once, in its own loop, and never forgotten."""

from __future__ import annotations

import asyncio
import threading

from tests.knowledge.sql.conftest import BOUND
from tool_engine.knowledge.sql.writing.answers import Answers


async def answered(waiter: bool | asyncio.Future[bool]) -> bool:
    assert not isinstance(waiter, bool)
    return await asyncio.wait_for(waiter, BOUND)


async def test_only_those_up_to_the_number() -> None:
    """Who waits for later calls goes on waiting."""
    answers = Answers()
    first, second = answers.asked(lambda: 3), answers.asked(lambda: 5)
    answers.settle(4)
    assert await answered(first)
    assert not isinstance(second, bool)
    assert not second.done()
    assert answers.asked(lambda: 4) is True
    answers.settle(5, is_kept=False)
    assert not await answered(second)


async def test_told_from_a_thread() -> None:
    """The writer's thread settles; those who wait hear of it in the loop that they wait in."""
    answers = Answers()
    waiters = [answers.asked(lambda: 1) for _ in range(100)]
    thread = threading.Thread(target=lambda: answers.settle(1))
    thread.start()
    assert all([await answered(each) for each in waiters])
    await asyncio.to_thread(thread.join)


async def test_nobody_waits_for_a_database_that_fails() -> None:
    """All who wait are told, and who comes later at once, until it takes records again."""
    answers = Answers()
    waiter = answers.asked(lambda: 1)
    answers.fail()
    assert not await answered(waiter)
    assert answers.asked(lambda: 1) is False
    answers.succeed()
    assert not isinstance(answers.asked(lambda: 1), bool)


async def test_who_gave_up_is_no_hindrance() -> None:
    """One that was cancelled, or waited in a loop that is gone, keeps nobody from being told."""
    answers = Answers()

    async def ask() -> None:
        answers.asked(lambda: 1)

    await asyncio.to_thread(lambda: asyncio.run(ask()))
    cancelled, waiter = answers.asked(lambda: 1), answers.asked(lambda: 1)
    assert not isinstance(cancelled, bool)
    cancelled.cancel()
    answers.settle(1)
    assert await answered(waiter)
