"""What a reader of events sees after the processes that wrote them were killed."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest

from tests.effort import IS_WHOLE
from tests.knowledge.sql.conftest import BOUND
from tests.warm import Program
from tool_engine.errors import EventsExpiredError
from tool_engine.knowledge.sql.sql_events import BLOCK, SQLEventStorage

ROUNDS = 3 if IS_WHOLE else 2
PAGE = 37
WRITER = """
import asyncio, sys
from tool_engine.events import EventBus, EventLog
from tool_engine.errors import EventsExpiredError
from tool_engine.knowledge.sql.sql_events import SQLEventStorage
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

async def main():
    log = EventLog(SQLEventStorage(sys.argv[1]))
    await log.open()
    bus = EventBus(log=log)
    print("open", flush=True)
    while True:
        for _ in range(20):
            bus.publish(ToolEngineEvent(ToolEngineEventType.EXECUTION_STARTED, "echo"))
        await asyncio.sleep(0.001)

asyncio.run(main())
"""


async def count_written(url: str, life: int) -> int:
    """How many events of a process are kept, as far as a page shows."""
    storage = SQLEventStorage(url)
    await storage.open()
    try:
        return len(await storage.read(life * BLOCK, 2 * PAGE))
    except EventsExpiredError:
        return 0
    finally:
        await storage.close()


async def write_until_killed(url: str, life: int, seconds: float) -> None:
    with await asyncio.to_thread(Program, ["-c", WRITER, url]) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"open\n"
        while await count_written(url, life) <= PAGE:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)
        await asyncio.sleep(seconds)
        process.kill()
        assert await asyncio.to_thread(process.wait, BOUND) == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_no_hole_in_what_a_killed_process_wrote(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """C29: of each process that was killed the events are there from the first to some last one."""
    url = f"sqlite:///{tmp_path}/events.db"
    if kind == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.fresh_database)
    chance = random.Random(3)  # noqa: S311 - no secret
    for life in range(ROUNDS):
        # Some batches are written by then, and one is under way.
        await write_until_killed(url, life, chance.uniform(0.0, 0.4))
    reader = SQLEventStorage(url)
    await reader.open()
    assert reader.newest == ROUNDS * BLOCK
    numbers: list[int] = []
    while page := await reader.read(numbers[-1] if numbers else 0, PAGE):
        numbers += [each.sequence or 0 for each in page]
    await reader.close()
    for life in range(ROUNDS):
        mine = [number for number in numbers if life * BLOCK < number <= (life + 1) * BLOCK]
        assert mine == list(range(life * BLOCK + 1, life * BLOCK + 1 + len(mine)))
        assert len(mine) > PAGE
    assert numbers == sorted(numbers)
