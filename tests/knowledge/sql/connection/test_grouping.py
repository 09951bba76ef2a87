"""Which changes share a commit, and what does one cost the others that cannot be made?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from tool_engine.knowledge.sql.connection import grouping
from tool_engine.knowledge.sql.connection.grouping import Change, ChangeQueue
from tool_engine.knowledge.sql.database_errors import BadRowsError, BusyError

BOUND = 20.0


class File:
    """Notes which changes came in one commit; it takes none that is bad, and waits at its gate."""

    def __init__(self) -> None:
        self.gate, self.is_busy = threading.Event(), threading.Event()
        self.commits: list[list[str]] = []
        self.problem: Exception | None = None
        self.queue = ChangeQueue(self.write)

    def write(self, changes: Sequence[Change]) -> None:
        self.is_busy.set()
        assert self.gate.wait(BOUND)
        names = [change.steps[0][0] for change in changes]
        if self.problem is not None:
            raise self.problem
        if "bad" in names:
            raise BadRowsError("one of them is bad")
        self.commits.append(names)
        for change in changes:
            change.found = [([], 1)]

    def ask(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self.queue.make(Change([(name, {})])))

    async def begin(self) -> asyncio.Task[None]:
        """A change that is under way."""
        asked = self.ask("first")
        assert await asyncio.to_thread(self.is_busy.wait, BOUND)
        return asked

    async def make(self, *names: str) -> list[object]:
        """What comes of changes that are asked for while another one is written."""
        asked = [await self.begin(), *map(self.ask, names)]
        await asyncio.sleep(0)
        self.gate.set()
        async with asyncio.timeout(BOUND):
            return list(await asyncio.gather(*asked, return_exceptions=True))


@pytest.fixture
async def file() -> AsyncIterator[File]:
    file = File()
    yield file
    file.queue.close()


async def test_those_that_wait_share_a_commit(file: File) -> None:
    assert await file.make("a", "b", "c") == [None] * 4
    assert file.commits == [["first"], ["a", "b", "c"]]


async def test_those_of_one_turn_share_a_commit(file: File) -> None:
    file.gate.set()
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*map(file.ask, "abc"))
    assert file.commits == [["a", "b", "c"]]


async def test_so_many_at_most(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST", 2)
    assert await file.make("a", "b", "c") == [None] * 4
    assert file.commits == [["first"], ["a", "b"], ["c"]]


async def test_a_bad_one_costs_no_other(file: File) -> None:
    found = await file.make("a", "bad", "c")
    assert [type(each) for each in found] == [type(None), type(None), BadRowsError, type(None)]
    assert file.commits == [["first"], ["a"], ["c"]]


async def test_each_learns_why_none_was_made(file: File) -> None:
    file.problem = BusyError("it is locked")
    assert await file.make("a", "b") == [file.problem] * 3


async def test_one_whose_caller_is_cut_off(file: File) -> None:
    """It is made with the others, and its caller waits for that: it stands in no one's way."""
    first, *others = await file.begin(), file.ask("a"), file.ask("b")
    await asyncio.sleep(0)
    for _ in range(2):
        others[0].cancel()
        await asyncio.sleep(0)
    assert not others[0].done()
    file.gate.set()
    await asyncio.wait_for(asyncio.gather(first, others[1]), BOUND)
    await asyncio.wait(others)
    assert others[0].cancelled()
    assert file.commits == [["first"], ["a", "b"]]
    assert await asyncio.wait_for(file.make("c"), BOUND) == [None] * 2


async def test_closing_ends_the_thread_and_no_change(file: File) -> None:
    asked = await file.begin()
    file.queue.close()
    file.gate.set()
    await asyncio.wait_for(asked, BOUND)
    assert await asyncio.wait_for(file.make("a"), BOUND) == [None] * 2
    file.queue.close()
