"""Do shared limits go together with all else that decides whose call is next?"""

from __future__ import annotations

import asyncio

from tests.cluster.conftest import Make
from tests.cluster.crew import BOUND
from tool_engine import ToolEngine, ToolExecutionContext


class Line:
    """Calls that wait for one unit, and the order in which they got it."""

    def __init__(self, *engines: ToolEngine) -> None:
        self.engines = engines
        self.order: list[str] = []
        self.gate = asyncio.Event()
        self.calls: list[asyncio.Task[object]] = []
        for engine in engines:
            engine.tool(name="turn", concurrency={"bucket": "ai"})(self.turn)

    async def turn(self, word: str) -> None:
        """Take a turn."""
        self.order.append(word)
        await self.gate.wait()

    async def hold(self) -> None:
        """Has the one unit, until all others wait."""
        for each in self.engines:
            await each.load()
        self.call(0, "first")
        async with asyncio.timeout(BOUND):
            while not self.order:  # noqa: ASYNC110 - the call says it
                await asyncio.sleep(0.01)

    def call(self, engine: int, word: str, **context: object) -> None:
        told = ToolExecutionContext(**context)  # type: ignore[arg-type]
        call = self.engines[engine].execute("turn", {"word": word}, context=told)
        self.calls.append(asyncio.create_task(call))

    async def until_waiting(self, count: int) -> None:
        """Waits until so many stand in the line of all processes."""
        cluster = self.engines[0].cluster
        assert cluster is not None
        async with asyncio.timeout(BOUND):
            while len((await cluster.snapshot()).waiting) < count:  # noqa: ASYNC110 - it alone knows
                await asyncio.sleep(0.01)

    async def end(self) -> list[str]:
        self.gate.set()
        async with asyncio.timeout(BOUND):
            results = await asyncio.gather(*self.calls)
        assert [getattr(each, "error_type", None) for each in results] == [None] * len(results)
        return self.order[1:]


def make_line(make: Make, **concurrency: object) -> Line:
    own = {"max_concurrent": 50, "queue_timeout": None, **concurrency}
    limits = {"bucket_limits": {"ai": 1}}
    return Line(*(make(concurrency=own, **limits) for _ in range(2)))


async def test_aging_counts_from_the_coming_to_the_cluster(make: Make) -> None:
    """What waits long enough goes before a more urgent call of another process."""
    line = make_line(make, strategy="priority", aging_interval=0.05)
    await line.hold()
    line.call(1, "patient", priority=9)
    await line.until_waiting(1)
    await asyncio.sleep(0.5)  # more than eight steps of priority
    line.call(0, "urgent", priority=1)
    line.call(1, "idle", priority=9)
    await line.until_waiting(3)
    assert await line.end() == ["patient", "urgent", "idle"]


async def test_the_most_urgent_call_of_all_processes_is_next(make: Make) -> None:
    line = make_line(make, strategy="priority", aging_interval=600)
    await line.hold()
    for number, priority in enumerate((7, 3, 9, 1, 5)):
        line.call(number % 2, str(priority), priority=priority)
        await line.until_waiting(number + 1)
    assert await line.end() == ["1", "3", "5", "7", "9"]


async def test_fair_goes_by_keys_and_then_by_processes(make: Make) -> None:
    """One that asks for much in one process keeps back neither others nor its other process."""
    line = make_line(make, strategy="fair")
    await line.hold()
    for number in range(4):
        line.call(0, f"a0{number}", conversation_id="a")
        await line.until_waiting(len(line.calls) - 1)
    for word, engine, key in (("a10", 1, "a"), ("b0", 0, "b"), ("b1", 1, "b")):
        line.call(engine, word, conversation_id=key)
        await line.until_waiting(len(line.calls) - 1)
    order = await line.end()
    keys = [word[0] for word in order]
    assert keys[:4] in (["a", "b", "a", "b"], ["b", "a", "b", "a"])
    assert order.index("a10") < order.index("a02")


async def test_fair_goes_by_the_weights_of_keys(make: Make) -> None:
    line = make_line(make, strategy="fair", key_limits={"weights": {"vip": 3.0}})
    await line.hold()
    for number in range(8):
        for key in ("vip", "all"):
            line.call(number % 2, key, conversation_id=key)
    await line.until_waiting(16)
    order = await line.end()
    assert order[:8].count("vip") == 6
