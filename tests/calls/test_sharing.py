"""Who shares a run with whom? The calls themselves are in tests/calls/test_single_flight.py."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.calls.call import Call
from tool_engine.calls.sharing import Flight

BOUND = 10.0


def test_a_flight_without_a_slot() -> None:
    """A leader that waits for its slot has no end of its time yet."""
    call = Call(None, 1, "call-1", "sample", b"", ToolExecutionContext(timeout=3))
    plan: Any = None
    flight = Flight(call, plan, {})
    assert (flight.slot, flight.seconds()) == (None, inf)


async def test_a_leader_that_ends_the_program() -> None:
    """Whatever ends a leader, its followers do not wait for ever: one of them leads."""
    engine = ToolEngine()
    runs: list[int] = []
    gate = asyncio.Event()

    @engine.tool(effect="read", concurrency={"collision": "single_flight"})
    async def tool() -> int:
        """Ends the program, the first time."""
        runs.append(1)
        await gate.wait()
        await asyncio.sleep(0)
        if len(runs) == 1:
            raise Interrupt
        return len(runs)

    class Interrupt(KeyboardInterrupt):
        pass

    async def lead() -> str:
        try:
            await engine.execute("tool")
        except Interrupt:
            return "interrupted"
        return "ended"

    async with asyncio.timeout(BOUND):
        leader = asyncio.create_task(lead())
        await asyncio.sleep(0)
        followers = [asyncio.create_task(engine.execute("tool")) for _ in range(2)]
        await asyncio.sleep(0)
        gate.set()
        assert await leader == "interrupted"
        assert [(await each).output for each in followers] == [{"result": 2}] * 2
        assert len(await engine.query_call_records()) == 3
        await engine.close()


@pytest.mark.parametrize("count", [1, 50])
async def test_nothing_is_kept(count: int) -> None:
    """C14: a key whose call has ended costs nothing."""
    engine = ToolEngine()

    @engine.tool(effect="read", concurrency={"collision": "single_flight"})
    async def tool(number: int) -> int:
        """Waits.

        Args:
            number: Any.
        """
        await asyncio.sleep(0)
        return number

    calls: list[Any] = [engine.execute("tool", {"number": each}) for each in range(count)]
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*calls, *(engine.execute("tool", {"number": 0}) for _ in range(3)))
        await engine.close()
    assert engine._pipeline._flights._flights == {}
