"""Does a retry end well when it gets its slot back as a newer call takes its place?"""

from __future__ import annotations

import asyncio
from typing import Any

from tool_engine import ConcurrencyConfig, ToolEngine


async def test_a_retry_that_is_superseded_as_it_gets_its_slot() -> None:
    """Both ends come in one step of the loop; no callback of it fails."""
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    engine = ToolEngine(concurrency=ConcurrencyConfig(max_concurrent=1))
    runs: list[str] = []
    shared = {"key": "tool", "collision": "cancel_in_progress"}

    @engine.tool(effect="read", retry={"attempts": 2, "backoff": 0.001}, concurrency=shared)
    async def fail_once() -> str:
        """Fail at first."""
        runs.append("once")
        if len(runs) == 1:
            raise RuntimeError("first")
        return "ok"

    async with asyncio.timeout(20):
        older = asyncio.create_task(engine.execute("fail_once"))
        await asyncio.sleep(0.0005)  # the virtual clock: it has failed, and pauses
        assert len(runs) == 1
        slot = await engine.controller.acquire()
        await asyncio.sleep(1)
        assert engine.controller.snapshot().held
        engine.controller.release(slot)
        newer = await engine.execute("fail_once")
        assert (newer.is_success, (await older).error_type) == (True, "cancelled")
    await asyncio.sleep(0)
    assert failures == []
    assert engine.controller.get_metrics().current_concurrent == 0
    await engine.close()
