"""What happens to a call whose key is held by work in a thread?"""

from __future__ import annotations

import asyncio
import threading

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import bare

BOUND = 10.0


async def test_the_new_call_waits_for_the_thread() -> None:
    """C10, C22: nothing stops a thread: the new call runs when the old work has ended."""
    engine = make_engine()
    audit = Audit(engine)
    started, released = threading.Event(), threading.Event()
    log: list[str] = []

    def job() -> int:
        number = len(log)
        log.append("began")
        started.set()
        released.wait(BOUND)
        log.append("ended")
        return number

    engine.register_tool(bare("job", concurrency={"collision": "cancel_in_progress"}), job)
    async with asyncio.timeout(BOUND):
        old = asyncio.create_task(engine.execute("job"))
        await asyncio.to_thread(started.wait, BOUND)
        new = asyncio.create_task(engine.execute("job"))
        first = await old
        assert first.error_type == "cancelled"
        assert log == ["began"]
        assert not new.done()
        released.set()
        second = await new
    assert second.output == {"result": 2}
    assert log == ["began", "ended"] * 2
    await audit.check([first, second])
    await engine.close()
