"""Which changes share a commit, and what does one cost the others that cannot be made?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tool_engine.knowledge.sql.connection import grouping
from tool_engine.knowledge.sql.connection.database_errors import BadRowsError, BusyError
from tool_engine.knowledge.sql.connection.grouping import Change, ChangeQueue


class File:
    """Notes which changes came in one commit; it takes none that is bad, and waits at its gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.turn = asyncio.Lock()
        self.commits: list[list[str]] = []
        self.problem: Exception | None = None
        self.queue = ChangeQueue(self.write)

    async def write(self, changes: Sequence[Change]) -> None:
        await self.gate.wait()
        names = [change.steps[0][0] for change in changes]
        if self.problem is not None:
            raise self.problem
        if "bad" in names:
            raise BadRowsError("one of them is bad")
        self.commits.append(names)
        for change in changes:
            change.found = [([], 1)]

    async def make(self, *names: str) -> list[object]:
        """What comes of changes that are asked for while another one is written."""
        changes = [Change([(name, {})]) for name in ("first", *names)]
        asked = [asyncio.create_task(self.queue.make(each, self.turn)) for each in changes]
        for _ in range(3):
            await asyncio.sleep(0)
        self.gate.set()
        return list(await asyncio.gather(*asked, return_exceptions=True))


async def test_those_that_wait_share_a_commit() -> None:
    file = File()
    assert await file.make("a", "b", "c") == [None] * 4
    assert file.commits == [["first"], ["a", "b", "c"]]


async def test_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST", 2)
    file = File()
    assert await file.make("a", "b", "c") == [None] * 4
    assert file.commits == [["first"], ["a", "b"], ["c"]]


async def test_a_bad_one_costs_no_other() -> None:
    file = File()
    found = await file.make("a", "bad", "c")
    assert [type(each) for each in found] == [type(None), type(None), BadRowsError, type(None)]
    assert file.commits == [["first"], ["a"], ["c"]]


async def test_each_learns_why_none_was_made() -> None:
    file = File()
    file.problem = BusyError("it is locked")
    assert await file.make("a", "b") == [file.problem] * 3


async def test_one_whose_caller_is_cut_off() -> None:
    """It is made with the others or not at all, and stands in no one's way."""
    file = File()
    changes = [Change([(name, {})]) for name in ("first", "a", "b")]
    asked = [asyncio.create_task(file.queue.make(each, file.turn)) for each in changes]
    await asyncio.sleep(0)
    asked[1].cancel()
    await asyncio.wait([asked[1]])
    file.gate.set()
    await asyncio.wait_for(asyncio.gather(asked[0], asked[2]), 5)
    assert [name for names in file.commits for name in names] in (
        ["first", "b"],
        ["first", "a", "b"],
    )
    assert await asyncio.wait_for(file.make("c"), 5) == [None] * 2
