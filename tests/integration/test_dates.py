"""When did a call end? Its result and its record give the same date, to the millisecond."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tests.calls.virtual_loop import VirtualLoop
from tool_engine import ToolEngine, ToolEngineConfig

MILLISECOND = timedelta(milliseconds=1)


def engine() -> ToolEngine:
    made = ToolEngine(ToolEngineConfig(auto_reload=False))

    @made.tool(description="Adds")
    async def add(a: int, b: int) -> int:
        return a + b

    return made


async def test_dates_are_the_wall_clocks_cut_to_the_millisecond() -> None:
    """K50, K41: of many calls in a row each one has the date at which it ended."""
    calls = engine()
    seen: set[datetime] = set()
    while len(seen) < 5:
        before = datetime.now(UTC)
        result = await calls.execute("add", {"a": 1, "b": 2})
        after = datetime.now(UTC)
        (found,) = await calls.query_call_records(start=before, end=after)
        assert found.call_id == result.call_id
        date = result.executed_at
        assert date.microsecond % 1_000 == 0
        assert before - MILLISECOND < date <= datetime.now(UTC)
        seen.add(date)
        failed = await calls.execute("add", {"a": "one"})
        assert failed.executed_at.microsecond % 1_000 == 0
        assert date <= failed.executed_at <= datetime.now(UTC)
    record, *_ = await calls.query_call_records(is_success=True)
    assert date <= record.created_at < date + MILLISECOND
    await calls.close()


def test_a_loop_whose_clock_starts_earlier_gets_dates_of_its_own() -> None:
    """C27: an engine that has served one loop serves the next, however its clock runs."""
    calls = engine()

    async def one() -> datetime:
        return (await calls.execute("add", {"a": 1, "b": 2})).executed_at

    asyncio.run(one())
    start = datetime.now(UTC)
    while datetime.now(UTC) < start + 2 * MILLISECOND:
        pass
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert start < runner.run(one())
