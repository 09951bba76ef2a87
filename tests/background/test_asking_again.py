"""What is heard of a task that was refused in line, and asks for a slot again?"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import bare
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineEvent
from tool_engine.testing import run


def test_it_says_once_that_it_waits() -> None:
    """K28: a call publishes at most one `execution_queued`, however often it stands in line."""

    async def play() -> None:
        gate = asyncio.Event()
        async with make_engine(2) as engine:
            audit, controller = Audit(engine), engine.controller
            engine.register_tool(bare("hold"), gate.wait)
            engine.register_tool(bare("heavy", concurrency={"weight": 2}), gate.wait)
            holder = asyncio.create_task(engine.execute("hold"))
            task = await engine.start("heavy")
            await asyncio.sleep(1)
            limits = controller.config
            controller.configure(replace(limits, max_concurrent=1))
            assert controller.get_metrics().total_rejected_in_queue == 1
            controller.configure(limits)
            await asyncio.sleep(10)
            assert controller.get_metrics().queue_length == 1, "it stands in line again"
            gate.set()
            assert (await task.wait()).is_success
            assert (await holder).is_success
            assert audit.kinds().count("execution_queued") == 1
            await audit.check()

    run(play())


def test_all_that_it_waited_counts() -> None:
    """K28: `queue_wait` of a task that was refused in line was that of the last stand alone."""

    async def play() -> None:
        limits = ConcurrencyConfig(max_concurrent=1, queue_size=0)
        async with ToolEngine(concurrency=limits) as engine:
            ends: list[ToolEngineEvent] = []
            engine.subscribe(ends.append, "execution_completed")
            engine.register_tool(bare("hold"), partial(asyncio.sleep, 10.0))
            holder = asyncio.create_task(engine.execute("hold"))
            await asyncio.sleep(0)
            task = await engine.start("hold")
            result = await task.wait()
            await holder
            waited = result.metadata["queue_wait"]
            assert 10.0 <= waited < 11.0
            assert ends[-1].data["queue_wait"] == waited
            records = await engine.store.query_call_records()
            assert waited in [record.queue_wait for record in records]

    run(play())
