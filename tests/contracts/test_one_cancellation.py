"""Does a tool inside of tools get one cancellation at the deadline, and time to clean up?

Looked at: all that can cancel a run (its timer, its caller, a newer call with its key, the end of
the engine, `cancel` by the tool itself), alone and two at once, and what a run waits for meanwhile:
a plain future, a task, the future of a `gather`, another run.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any

import pytest

from tests.calls.audit import check_idle, make_engine, turns
from tests.calls.virtual_loop import VirtualLoop
from tests.contracts.calling_ways import WAYS, Asked, Way, make_handler, tool
from tool_engine import ToolEngine, ToolExecutionContext

BOUND = 60.0
SLOW = ("to_thread", "agent loop", "other engine")
"""Ways that take longer than the deadlines here, or leave the loop."""
ON_THE_LOOP = [each for each in WAYS if not each.is_plain and each.name not in SLOW]


class Leaves:
    """Tools that wait, and clean up when they are cancelled."""

    def __init__(self, engine: ToolEngine, seconds: float = 0.01) -> None:
        self.seen: Counter[str] = Counter()
        self.seconds = seconds
        engine.register_tool(tool("leaf"), self.leaf)

    async def leaf(self, text: str) -> int:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.seen["cancelled"] += 1
            await self.clean_up()
            raise
        return 0

    async def clean_up(self) -> None:
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.seen["cancelled twice"] += 1
            raise
        self.seen["cleaned up"] += 1


@pytest.mark.parametrize("way", ON_THE_LOOP, ids=[each.name for each in ON_THE_LOOP])
async def test_the_deadline_cancels_once(way: Way) -> None:
    """C7: a deadline over calls of calls, three deep, cancels each tool once, and nothing is lost.

    Asyncio's own handler has nothing to say, as in plain asyncio with the same deadlines.
    """
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about))
    engine = make_engine(1000, queue_size=10_000)
    leaves = Leaves(engine)

    def below(text: str) -> Asked:
        if int(text) == 0:
            return [("leaf", "")] * 2
        return [("deep", str(int(text) - 1))] * 2

    engine.register_tool(tool("deep"), make_handler(engine, way, below))
    async with asyncio.timeout(BOUND), engine:
        for tenths in range(10, 160, 3):
            context = ToolExecutionContext(timeout=tenths / 10_000)
            await engine.execute("deep", {"text": "2"}, context)
        while engine.controller.get_metrics().current_concurrent:  # noqa: ASYNC110 - ends by itself
            await asyncio.sleep(0.001)
        check_idle(engine)
    gc.collect()
    await turns()
    assert leaves.seen["cancelled"] > 0
    assert leaves.seen["cancelled twice"] == 0
    assert leaves.seen["cleaned up"] == leaves.seen["cancelled"]
    assert told == []


@pytest.mark.parametrize("first", ["the caller", "the deadline"])
def test_the_caller_and_the_deadline(first: str) -> None:
    """C7, C9: whoever comes second neither cuts the clean-up short nor waits for its end."""
    # On virtual time: on that of a busy machine the deadline may come before its turn.
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(end_twice(first))


async def end_twice(first: str) -> None:
    engine = make_engine()
    seen: list[str] = []
    ended = asyncio.Event()

    async def slow_to_end(text: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            try:
                await asyncio.sleep(0.3)
                seen.append("cleaned up")
            finally:
                ended.set()
            raise

    engine.register_tool(tool("slow_to_end"), slow_to_end)
    async with asyncio.timeout(BOUND), engine:
        context = ToolExecutionContext(timeout=0.1)
        call = asyncio.create_task(engine.execute("slow_to_end", {"text": ""}, context))
        await asyncio.sleep(0.05)
        if first == "the caller":
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        else:
            assert (await call).error_type == "timeout"
        assert seen == ["cancelled"]
        await ended.wait()
        assert seen == ["cancelled", "cleaned up"]
        await turns()
        check_idle(engine)


async def test_a_cancelled_caller_is_cancelled_through_runs_within_runs() -> None:
    """C9: however many runs stand between, who is cancelled learns it, and each of them ends so."""
    engine = make_engine(50)
    hanging = asyncio.Event()

    async def hang(text: str) -> None:
        hanging.set()
        await asyncio.Event().wait()

    async def gathering(text: str) -> None:
        await asyncio.gather(*(engine.execute("hang", {"text": ""}) for _ in range(2)))

    async def serial(text: str) -> None:
        name = "serial" if text else "gathering"
        await engine.execute(name, {"text": text[1:]})

    for name, handler in (("hang", hang), ("gathering", gathering), ("serial", serial)):
        engine.register_tool(tool(name), handler)
    async with asyncio.timeout(BOUND), engine:
        call = asyncio.create_task(engine.execute("serial", {"text": "xxx"}))
        await hanging.wait()
        call.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await call
        records = await engine.query_call_records()
        assert [each.error_type for each in records] == ["cancelled"] * 7
        check_idle(engine)
