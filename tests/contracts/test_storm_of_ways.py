"""Are slots neither lost nor given twice, whatever tree of calls is cut off wherever?"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.calls.audit import Audit, check_idle, make_engine
from tests.contracts.calling_ways import WAYS, Asked, make_handler, tool
from tests.effort import share_of
from tool_engine import ToolEngine, ToolExecutionContext

BOUND = 60.0
QUICK = [each for each in WAYS if each.name not in ("to_thread", "other engine", "agent loop")]


class Storm:
    """Trees of calls: each tool calls others in a way of its own; the leaves wait."""

    def __init__(self, engine: ToolEngine, limit: int, seed: int) -> None:
        self.engine = engine
        self.limit = limit
        self.chance = random.Random(seed)  # noqa: S311 - a test
        self.running = self.most = 0
        engine.register_tool(tool("leaf", timeout=30), self.leaf)
        for number, way in enumerate(QUICK):
            handler = make_handler(engine, way, self.below)
            engine.register_tool(tool(f"node_{number}", timeout=30), handler)

    async def leaf(self, text: str) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.chance.choice((0, 0, 0.001, 0.003)))
        finally:
            self.running -= 1

    def below(self, text: str) -> Asked:
        depth = int(text)
        count = self.chance.randint(1, 3)
        return [self.one(depth - 1) for _ in range(count)]

    def one(self, depth: int) -> tuple[str, str]:
        if depth <= 0:
            return "leaf", ""
        return f"node_{self.chance.randrange(len(QUICK))}", str(depth)

    async def call(self) -> Any:
        """One tree, which may have a deadline, or a caller who goes away."""
        name, text = self.one(3)
        seconds = self.chance.choice((0.002, 0.01, 0.05, 5.0))
        context = ToolExecutionContext(timeout=seconds)
        call = asyncio.create_task(self.engine.execute(name, {"text": text}, context))
        if self.chance.random() < 0.4:
            await asyncio.sleep(self.chance.random() * 0.02)
            call.cancel()
        await asyncio.wait([call])
        return call


async def _blow(limit: int, strategy: str, seed: int) -> None:
    # What waits for a slot that comes back to it is never refused.
    engine = make_engine(limit, strategy=strategy, queue_size=1000, queue_timeout=20.0)
    audit = Audit(engine)
    storm = Storm(engine, limit, seed)
    async with asyncio.timeout(BOUND), engine:
        for _ in range(3):
            await asyncio.gather(*(storm.call() for _ in range(4)))
        async with asyncio.timeout(20):
            while _is_busy(engine):  # noqa: ASYNC110 - clean-up ends by itself
                await asyncio.sleep(0.002)
        await audit.check()
        check_idle(engine)
        assert storm.running == 0
        assert storm.most <= limit
        assert engine.controller.get_metrics().max_concurrent_observed <= limit


def _is_busy(engine: ToolEngine) -> bool:
    metrics = engine.controller.get_metrics()
    return bool(metrics.active or metrics.parked or metrics.zombies or metrics.queue_length)


@settings(
    max_examples=share_of(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    limit=st.integers(1, 4),
    strategy=st.sampled_from(("fifo", "priority", "fair")),
    seed=st.integers(0, 2**32),
)
def test_slots_in_a_storm(limit: int, strategy: str, seed: int) -> None:
    """DESIGN 2.2: after trees of calls in every way, with deadlines and cancels, nothing is held.

    At no moment do more leaves run than there are slots.
    """
    asyncio.run(_blow(limit, strategy, seed))


class TwoStorms(Storm):
    """Trees of calls over two engines: which one a call goes to is drawn for each."""

    def __init__(self, engines: Sequence[ToolEngine], limit: int, seed: int) -> None:
        self.engines = engines
        super().__init__(engines[0], limit, seed)
        other = engines[1]
        other.register_tool(tool("leaf", timeout=30), self.leaf)
        ways = [each for each in QUICK if not each.name.startswith("context.call")]
        for number, way in enumerate(ways):
            for engine, far in (engines, engines[::-1]):
                handler = make_handler(far, way, self.below)
                engine.register_tool(tool(f"far_{number}", timeout=30), handler)
        self.names = [f"far_{number}" for number in range(len(ways))]

    def one(self, depth: int) -> tuple[str, str]:
        return ("leaf", "") if depth <= 0 else (self.chance.choice(self.names), str(depth))

    async def call(self) -> Any:
        self.engine = self.chance.choice(self.engines)
        return await super().call()


async def _blow_over_two(limit: int, strategy: str, seed: int) -> None:
    # Trees that go the opposite ways may hold each other up until one has to give in.
    engines = [
        make_engine(limit, strategy=strategy, queue_size=1000, queue_timeout=0.2) for _ in range(2)
    ]
    audits = [Audit(engine) for engine in engines]
    storm = TwoStorms(engines, limit, seed)
    async with asyncio.timeout(BOUND), engines[0], engines[1]:
        for _ in range(2):
            await asyncio.gather(*(storm.call() for _ in range(4)))
        async with asyncio.timeout(20):
            while any(map(_is_busy, engines)):  # noqa: ASYNC110 - clean-up ends by itself
                await asyncio.sleep(0.002)
        assert storm.running == 0
        assert storm.most <= 2 * limit
        for engine, audit in zip(engines, audits, strict=True):
            await audit.check()
            check_idle(engine)
            assert engine.controller.get_metrics().max_concurrent_observed <= limit


@settings(
    max_examples=share_of(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    limit=st.integers(1, 4),
    strategy=st.sampled_from(("fifo", "priority", "fair")),
    seed=st.integers(0, 2**32),
)
def test_slots_of_two_engines_in_a_storm(limit: int, strategy: str, seed: int) -> None:
    """DESIGN 2.2: the same where the calls of a tree go from one engine to the other and back."""
    asyncio.run(_blow_over_two(limit, strategy, seed))
