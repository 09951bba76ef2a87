"""Which changes share a commit, and what does one cost the others that cannot be made?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from tool_engine.knowledge.sql.connection import grouping
from tool_engine.knowledge.sql.connection.database_errors import BadRowsError, BusyError
from tool_engine.knowledge.sql.connection.grouping import Change, ChangeQueue

BOUND = 5.0


class File:
    """Notes which changes came in one commit; it takes none that is bad, and waits at its gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.commits: list[list[str]] = []
        self.problem: Exception | None = None
        self.queue = ChangeQueue(self.write)

    def write(self, changes: Sequence[Change]) -> None:
        assert self.gate.wait(BOUND)
        names = [change.steps[0][0] for change in changes]
        if self.problem is not None:
            raise self.problem
        if "bad" in names:
            raise BadRowsError("one of them is bad")
        self.commits.append(names)
        for change in changes:
            change.found = [([], 1)]

    def ask(self, name: str, *, is_lasting: bool = True) -> asyncio.Task[None]:
        return asyncio.create_task(self.queue.make(change_of(name, is_lasting=is_lasting)))

    async def begin(self, name: str = "first", *, is_lasting: bool = True) -> asyncio.Task[None]:
        """A change that is under way."""
        asked = self.ask(name, is_lasting=is_lasting)
        async with asyncio.timeout(BOUND):
            while not self.queue._under_way:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
        return asked

    async def make(self, *names: str) -> list[object]:
        """What comes of changes that are asked for while another one is written."""
        asked = [await self.begin(), *map(self.ask, names)]
        await asyncio.sleep(0)
        self.gate.set()
        async with asyncio.timeout(BOUND):
            return list(await asyncio.gather(*asked, return_exceptions=True))


def change_of(name: str, *, is_lasting: bool = True) -> Change:
    return Change([(name, {})], is_lasting=is_lasting)


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


async def test_what_waits_for_the_disk_rides_along(file: File) -> None:
    """A lasting commit that comes after what was committed does for it, and is not made twice."""
    first = await file.begin("quick", is_lasting=False)
    asked = file.ask("lasting")
    await asyncio.sleep(0)
    settled = [asyncio.create_task(file.queue.settle(lambda: change_of("sign"))) for _ in range(2)]
    await asyncio.sleep(0)
    settled[0].cancel()
    file.gate.set()
    await asyncio.wait_for(asyncio.gather(first, asked, settled[1]), BOUND)
    assert file.commits == [["quick"], ["lasting"]]


@pytest.mark.parametrize("name", ["bad", "quick"])
async def test_what_waits_for_the_disk_makes_a_change(file: File, name: str) -> None:
    """Where none is on its way, or it was not made."""
    asked = await file.begin(name, is_lasting=name == "bad")
    settled = asyncio.create_task(file.queue.settle(lambda: change_of("sign")))
    await asyncio.sleep(0)
    file.gate.set()
    await asyncio.wait_for(settled, BOUND)
    await asyncio.wait([asked])
    assert file.commits[-1] == ["sign"]


async def test_closing_ends_the_thread_and_no_change(file: File) -> None:
    asked = await file.begin()
    file.queue.close()
    file.gate.set()
    await asyncio.wait_for(asked, BOUND)
    assert await asyncio.wait_for(file.make("a"), BOUND) == [None] * 2
    file.queue.close()
