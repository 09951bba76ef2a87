"""Thousands of calls with faults of every kind: does everything add up afterwards?"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, tally
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult

CALLS = 5_000
FATES = ("quick", "slow", "fail", "own_cancel", "exit", "stubborn", "nest", "flaky", "gave_up")


class Storm:
    """Tools that behave as dice say, and callers who lose patience."""

    def __init__(self, engine: ToolEngine, seed: int) -> None:
        self.engine = engine
        self.dice = random.Random(seed)  # noqa: S311 - the same storm each time
        self.results: list[ToolExecutionResult] = []
        self.cancelled = 0
        for name in FATES:
            keys: dict[str, Any] = {"category": self.dice.choice(["http", "ai", "custom"])}
            if name == "flaky":
                keys |= {"effect": "read", "retry": {"attempts": 3, "backoff": 0.5}}
            if name == "quick":
                keys |= {"rate": "300/s"}
            engine.register_tool(bare(name, **keys), getattr(self, name))

    async def quick(self) -> int:
        return 1

    async def slow(self) -> int:
        await asyncio.sleep(self.dice.random() * 2)
        return 2

    async def fail(self) -> None:
        await asyncio.sleep(0)
        raise ValueError("storm")

    async def own_cancel(self) -> None:
        raise asyncio.CancelledError

    async def exit(self) -> None:
        raise SystemExit(1)

    async def gave_up(self) -> None:
        async with asyncio.timeout(self.dice.random()):
            await asyncio.Event().wait()

    async def stubborn(self) -> None:
        try:
            await asyncio.sleep(self.dice.random() * 4)
        except asyncio.CancelledError:
            await asyncio.sleep(self.dice.random())

    async def nest(self, context: ToolExecutionContext) -> Any:
        inner = await context.call(self.dice.choice(FATES))
        return inner.error_type

    async def flaky(self) -> None:
        await asyncio.sleep(self.dice.random())
        if self.dice.random() < 0.7:
            raise ValueError("flaky")

    async def caller(self, number: int) -> None:
        await asyncio.sleep(self.dice.random() * 20)
        name = self.dice.choice((*FATES, "missing"))
        context = ToolExecutionContext(
            caller_id=f"caller-{number}",
            caller_type=self.dice.choice(["direct", "workflow_node", "tool_sub_agent"]),
            timeout=self.dice.choice([0.2, 1.0, 5.0, None]),
            priority=self.dice.choice([None, 1, 9]),
        )
        params = {"odd": 1} if self.dice.random() < 0.05 else None
        call = asyncio.ensure_future(self.engine.execute(name, params, context))
        if self.dice.random() < 0.3:
            asyncio.get_running_loop().call_later(self.dice.random() * 3, call.cancel)
        try:
            self.results.append(await call)
        except asyncio.CancelledError:
            self.cancelled += 1

    def subscriber(self, event: Any) -> None:
        if self.dice.random() < 0.1:
            raise RuntimeError("subscriber")

    async def slow_subscriber(self, event: Any) -> None:
        await asyncio.sleep(0)
        self.subscriber(event)


@pytest.mark.parametrize(
    ("strategy", "limits"),
    [
        ("fifo", {"queue_timeout": 2.0}),
        ("priority", {"queue_timeout": 1.0, "queue_size": 20}),
        ("reject", {}),
    ],
)
async def test_storm(strategy: str, limits: dict[str, Any]) -> None:
    """C26, K28: calls = results + cancellations = records = final events; counters add up; nothing
    is left."""
    before = asyncio.all_tasks()
    engine = make_engine(
        8,
        strategy=strategy,
        bucket_limits={"http": 3, "ai": 2},
        strict_validation=True,
        max_records=10 * CALLS,
        **limits,
    )
    storm = Storm(engine, seed=20_260_731)
    audit = Audit(engine)
    engine.subscribe(storm.subscriber)
    engine.subscribe(storm.slow_subscriber)
    async with asyncio.TaskGroup() as group:
        for number in range(CALLS // 3):
            group.create_task(storm.caller(number))
    await asyncio.sleep(100)
    assert len(storm.results) + storm.cancelled == CALLS // 3
    top = [record for record in await audit.records() if record.parent_call_id is None]
    # A call that was cancelled before its first step is no call.
    assert len(storm.results) <= len(top) <= CALLS // 3
    assert len({result.call_id for result in storm.results}) == len(storm.results)
    counts = tally(storm.results)
    assert {"timeout", "execution_error", "tool_not_found", "validation_error", None} <= set(counts)
    refused = {"fifo": "queue_timeout", "priority": "queue_full", "reject": "rejected"}
    assert counts[refused[strategy]]
    assert storm.cancelled > 20
    await audit.check(storm.results)
    assert (await engine.execute("slow")).is_success
    await engine.close()
    assert asyncio.all_tasks() == before
