"""Thousands of calls with faults, cancels and subscribers that fail: everything adds up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.calls.samples import bare
from tests.effort import share_of
from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
)
from tool_engine.events import EventStream

CALLS = share_of(20_000)
AT_ONCE = 1_000
QUEUED, STARTED, RETRIED = "execution_queued", "execution_started", "execution_retried"
FINAL = {"execution_completed", "execution_failed", "execution_cancelled", "validation_error"}
LAST_OF = {"cancelled": "execution_cancelled", "validation_error": "validation_error"}


FATE = [{"name": "fate", "type": "integer", "required": True, "description": "What happens"}]


class Listener:
    """Keeps what it hears, by call."""

    def __init__(self) -> None:
        self.by_call: dict[str, list[str]] = defaultdict(list)
        self.numbers: list[int] = []

    def hear(self, event: ToolEngineEvent) -> None:
        assert event.sequence is not None
        self.numbers.append(event.sequence)
        if event.call_id is not None:
            self.by_call[event.call_id].append(event.event_type.value)

    async def hear_later(self, event: ToolEngineEvent) -> None:
        if len(self.numbers) % 100 == 0:
            await asyncio.sleep(0)
        self.hear(event)

    async def read(self, stream: EventStream) -> None:
        async for event in stream:
            self.hear(event)
            if len(self.numbers) % 1000 == 0:
                await asyncio.sleep(0.01)


def register(engine: ToolEngine) -> None:
    @engine.tool(description="Does what the number says.")
    async def work(fate: int) -> int:
        if fate < 30:
            await asyncio.sleep(fate / 20_000)
        elif fate < 40:
            raise ValueError(f"fate {fate}")
        elif fate < 43:
            await asyncio.sleep(60)
        return fate

    tries = random.Random(7)  # noqa: S311 - the same storm in every run

    async def flaky(fate: int) -> int:
        await asyncio.sleep(0)
        if tries.random() < 0.5:
            raise ValueError(f"fate {fate}")
        return fate

    retry = {"attempts": 3, "backoff": 0.001, "on": ["execution_error"]}
    engine.register_tool(bare("flaky", parameters=FATE, effect="read", retry=retry), flaky)

    @engine.tool(description="Calls another tool.")
    async def nest(fate: int) -> int:
        await engine.execute("work", {"fate": fate})
        return fate


async def call(engine: ToolEngine, dice: random.Random, ends: Counter[str]) -> None:
    fate = dice.randrange(100)
    name = "nobody" if fate == 99 else "nest" if fate > 95 else "flaky" if fate > 91 else "work"
    params: dict[str, Any] = {"fate": "x" if fate == 98 else fate}
    context = ToolExecutionContext(timeout=0.02) if fate in (40, 41) else None
    running = asyncio.ensure_future(engine.execute(name, params, context))
    if fate in (42, 20, 92):
        await asyncio.sleep(dice.random() / 500)
        running.cancel()
    try:
        ends[(await running).outcome.value] += 1
    except asyncio.CancelledError:
        ends["cancelled"] += 1


@pytest.fixture
def engine(tmp_path: Any) -> ToolEngine:
    return ToolEngine(
        ToolEngineConfig(
            tools_directory=str(tmp_path),
            auto_reload=False,
            max_records=2 * CALLS,
            keep_events=6 * CALLS,
        ),
        concurrency=ConcurrencyConfig(max_concurrent=50, queue_size=150),
    )


@pytest.mark.timeout(120)
async def test_calls_results_records_and_final_events_are_the_same_number(
    engine: ToolEngine,
) -> None:
    """Promise 3: each call ends exactly once, and whoever listens hears it in order."""
    plain, later, replayed = Listener(), Listener(), Listener()
    dice = random.Random(6)  # noqa: S311 - the same storm in every run
    ends = Counter[str]()

    def broken(event: ToolEngineEvent) -> None:
        if event.sequence is not None and event.sequence % 7 == 0:
            raise RuntimeError("a subscriber of somebody else's")

    async def broken_later(event: ToolEngineEvent) -> None:
        raise RuntimeError("and another one")

    async with engine:
        register(engine)
        engine.subscribe(plain.hear)
        engine.subscribe(later.hear_later, buffer=10 * CALLS)
        engine.subscribe(broken)
        engine.subscribe(broken_later, buffer=1, policy="drop_newest")
        small = engine.events(buffer=3)
        reader = asyncio.create_task(replayed.read(engine.events(after=0, buffer=100)))
        for _ in range(CALLS // AT_ONCE):
            await asyncio.gather(*(call(engine, dice, ends) for _ in range(AT_ONCE)))
        records = await engine.store.query_call_records()
        metrics = engine.controller.get_metrics()
        statistics = engine.get_event_statistics()
        totals = await engine.store.get_call_statistics()
    await asyncio.wait_for(reader, 30)

    assert ends.total() == CALLS
    assert set(ends) == {"succeeded", "failed", "timeout", "cancelled", "rejected"}
    nested = [each for each in records if each.parent_call_id is not None]
    assert len(records) == CALLS + len(nested) == totals["total_records"]
    outer = Counter(each.outcome.value for each in records if each.parent_call_id is None)
    assert outer == ends

    for listener in (plain, later, replayed):
        assert listener.by_call.keys() == {each.call_id for each in records}
        for each in records:
            heard = listener.by_call[each.call_id or ""]
            expected = LAST_OF.get(
                each.error_type or "",
                "execution_completed" if each.is_success else "execution_failed",
            )
            assert [kind for kind in heard if kind in FINAL] == [expected] == heard[-1:]
            order = [kind for kind in (QUEUED, STARTED) if kind in heard]
            assert heard[:-1] == order + [RETRIED] * max(0, each.attempts - 1)
            assert (STARTED in heard) == each.reached_executor

    # Those who listened from the first event on, and the reader that came back for it.
    assert later.numbers == plain.numbers
    assert replayed.numbers == list(range(1, replayed.numbers[-1] + 1))
    assert replayed.numbers[-len(plain.numbers) :] == plain.numbers
    assert statistics["sequence"] == replayed.numbers[-1]

    last = [heard[-1] for heard in plain.by_call.values()]
    assert len(last) == len(records)
    assert sum(heard.count(RETRIED) for heard in plain.by_call.values()) > CALLS // 1000
    started = sum(STARTED in heard for heard in plain.by_call.values())
    assert metrics.total_acquired >= started
    assert metrics.total_acquired == metrics.total_released
    assert metrics.queue_length == metrics.current_concurrent == 0
    assert small.dropped == len(plain.numbers) - 3
    assert statistics["failed"] >= len(plain.numbers) // 7
    assert statistics["unkept"] == 0


async def test_one_call_and_one_conversation_can_be_followed(engine: ToolEngine) -> None:
    """K47: filters of the engine's `subscribe` and `events`, and what each event carries."""
    async with engine:
        register(engine)
        heard: list[ToolEngineEvent] = []
        subscription = engine.subscribe(heard.append, conversation_id="talk")
        stream = engine.events(call_id="call-of-nobody")
        result = await engine.execute(
            "work", {"fate": 50}, ToolExecutionContext(conversation_id="talk")
        )
        await engine.execute("work", {"fate": 50}, ToolExecutionContext(conversation_id="other"))
        assert [each.event_type.value for each in heard] == [STARTED, "execution_completed"]
        assert {each.call_id for each in heard} == {result.call_id}
        assert {each.generation for each in heard} == {engine.generation}
        assert heard[1].sequence == (heard[0].sequence or 0) + 1
        assert heard[1].timestamp >= heard[0].timestamp
        assert subscription.dropped == 0
    assert [each async for each in stream] == []


async def test_a_call_names_the_generation_that_it_started_with(engine: ToolEngine) -> None:
    """A reload while a call runs does not change what its last event says."""
    async with engine:
        go = asyncio.Event()

        @engine.tool(description="Waits.")
        async def wait() -> str:
            await go.wait()
            return "done"

        stream = engine.events(["execution_started", "execution_completed"])
        running = asyncio.create_task(engine.execute("wait"))
        first = await asyncio.wait_for(anext(stream), 5)
        register(engine)
        go.set()
        result = await running
        last = await asyncio.wait_for(anext(stream), 5)
        assert first.generation == last.generation == result.metadata["generation"]
