"""Do keys, rates and breakers hold for all engines that share them?"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left

import pytest

from tests.cluster.conftest import BrokenService, Make, Service
from tests.cluster.crew import BOUND
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.admission import SlotEvent
from tool_engine.errors import ConfigurationError

PERIOD = 0.6
RATE = {"calls": 4, "period": PERIOD}
BREAKER = {"failures": 2, "reset_after": 2.0}


async def load(*engines: ToolEngine) -> None:
    for engine in engines:
        await engine.load()


def in_conversation(name: str | None) -> ToolExecutionContext:
    return ToolExecutionContext(conversation_id=name)


async def test_calls_with_one_key(make: Make, service: Service) -> None:
    """One at a time of a conversation, in all processes; others are not held up."""
    first, second = (
        make(key_limits={"conversation_id": 1}, bucket_limits={}),
        make(key_limits={"conversation_id": 1}, bucket_limits={}),
    )
    await load(first, second)
    same = [
        asyncio.create_task([first, second][i % 2].execute("work", context=in_conversation("a")))
        for i in range(6)
    ]
    await service.until(1)
    await asyncio.sleep(0.2)
    assert service.running == 1
    others = [
        asyncio.create_task(each.execute("work", context=in_conversation(name)))
        for each in (first, second)
        for name in (f"{'b' * 100} {id(each)}", None)
    ]
    await service.until(5)
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*same, *others)
    assert [each.error_type for each in results] == [None] * 10


async def test_a_key_and_a_bucket_come_in_one_grant(make: Make, service: Service) -> None:
    """What waits for its key holds no unit of its bucket, which others can have."""
    limits = {"key_limits": {"conversation_id": 1}, "bucket_limits": {"ai": 2}}
    first, second = make(**limits), make(**limits)
    await load(first, second)
    calls = [asyncio.create_task(first.execute("work", context=in_conversation("a")))]
    await service.until(1)
    calls += [
        asyncio.create_task(each.execute("work", context=in_conversation("a")))
        for each in (second, first, second)
    ]
    await asyncio.sleep(0.1)
    calls.append(asyncio.create_task(second.execute("work", context=in_conversation("b"))))
    await service.until(2)
    assert service.running == 2
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [each.error_type for each in results] == [None] * 5
    assert service.most == 2


async def test_a_key_that_stays_asks_nothing(make: Make, service: Service) -> None:
    engine = make(key_limits={"conversation_id": 1})
    service.gate.set()
    await engine.load()
    context = in_conversation("a")
    assert (await engine.execute("work", context=context)).is_success
    member = engine.controller.member  # type: ignore[attr-defined]
    before = member.count()["statements"]
    for _ in range(50):
        assert (await engine.execute("work", context=context)).is_success
    assert member.count()["statements"] - before <= 1  # a heartbeat may come between


async def test_no_window_has_more_starts_than_the_rate(make: Make, service: Service) -> None:
    engines = [make(bucket_limits={}, bucket_rates={"ai": RATE}) for _ in range(3)]
    starts = note_starts(*engines)
    service.gate.set()
    await load(*engines)
    began = time.monotonic()
    async with asyncio.timeout(BOUND):
        calls = [engines[i % 3].execute("work") for i in range(20)]
        assert all(result.is_success for result in await asyncio.gather(*calls))
    assert count_most(starts) <= RATE["calls"]
    assert time.monotonic() - began <= 4 * (PERIOD + 2.0), "the rate is used"


def note_starts(*engines: ToolEngine) -> list[float]:
    """A list that gets when calls are given their slots."""
    starts: list[float] = []

    def hear(event: SlotEvent) -> None:
        if event.event_type == "slot_granted":
            starts.append(event.at)

    for engine in engines:
        engine.controller.subscribe(hear)
    return starts


def count_most(starts: list[float]) -> int:
    """The most starts in any period."""
    assert len(starts) >= 16
    times = sorted(starts)
    return max(bisect_left(times, early + PERIOD) - i for i, early in enumerate(times))


async def test_a_breaker_opens_in_all_and_is_tried_once(make: Make, service: Service) -> None:
    engines = [make(bucket_limits={}, breakers={"ai": BREAKER}) for _ in range(3)]
    broken = BrokenService()

    for engine in engines:
        engine.tool(name="fetch", concurrency={"bucket": "ai"})(broken.fetch)
    await load(*engines)
    for _ in range(2):
        assert (await engines[0].execute("fetch")).error_type == "execution_error"
    for engine in engines[1:]:
        await until_state(engine, "open")
        assert (await engine.execute("fetch")).error_type == "circuit_open"
    assert engines[0].cluster is not None
    assert (await engines[0].cluster.snapshot()).breakers.keys() == {"ai"}
    for is_broken in (True, False):
        broken.is_broken = is_broken
        for engine in engines:
            await until_state(engine, "half_open")
        results = await broken.probe(*engines)
        assert broken.tries == 1
        outcome = "execution_error" if is_broken else None
        assert sorted(str(each.error_type) for each in results) == sorted(
            [str(outcome), *["circuit_open"] * 5]
        )
        for engine in engines:
            await until_state(engine, "open" if is_broken else "closed")
    for engine in engines:
        assert (await engine.execute("fetch")).is_success


async def until_state(engine: ToolEngine, state: str) -> None:
    async with asyncio.timeout(BOUND):
        while read_state(engine) != state:  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.01)


async def test_keys_are_of_known_fields(make: Make) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'conversation_id'"):
        make(key_limits={"conversation": 1})


def read_state(engine: ToolEngine) -> object:
    return engine.controller.snapshot().buckets["ai"]["breaker"]


async def test_the_rate_of_a_tool(make: Make, service: Service) -> None:
    """Other tools of its bucket are not held up by those that wait for it."""
    engines = [make(bucket_limits={}) for _ in range(2)]
    ended: list[int] = []

    async def start() -> int:
        """Note that it ran."""
        ended.append(1)
        return 1

    for engine in engines:
        concurrency = {"bucket": "ai", "scope": "cluster"}
        engine.tool(name="start", rate="4/0.6s", concurrency=concurrency)(start)
    await load(*engines)
    async with asyncio.timeout(BOUND):
        assert (await engines[0].execute("start")).is_success
        starts = note_starts(*engines)
        calls = [asyncio.create_task(engines[i % 2].execute("start")) for i in range(16)]
        assert all(result.is_success for result in await asyncio.gather(*calls))
        assert count_most(starts) <= RATE["calls"]
        calls = [asyncio.create_task(engines[i % 2].execute("start")) for i in range(16)]
        others = [asyncio.create_task(engine.execute("work")) for engine in engines]
        await service.until(2)
        assert len(ended) < 1 + 16 + 16
        service.gate.set()
        await asyncio.gather(*calls, *others)


@pytest.mark.parametrize(("key", "same"), [("params.order", {"order": 7}), ("tool", {"order": 1})])
async def test_the_key_of_a_tool(
    make: Make, service: Service, key: str, same: dict[str, int]
) -> None:
    """One call with it in all processes, and another one beside it where it has another value."""
    engines = [make(bucket_limits={}) for _ in range(2)]

    async def change(order: int) -> int:
        """Change an order."""
        del order
        return await service.work()

    for engine in engines:
        concurrency = {"bucket": "ai", "key": key, "scope": "cluster"}
        engine.tool(name="change", concurrency=concurrency)(change)
    await load(*engines)
    calls = [asyncio.create_task(engines[i % 2].execute("change", same)) for i in range(6)]
    await service.until(1)
    await asyncio.sleep(0.2)
    assert service.running == 1
    if key != "tool":
        calls.append(asyncio.create_task(engines[1].execute("change", {"order": 8})))
        await service.until(2)
    assert engines[0].cluster is not None
    found = await engines[0].cluster.snapshot()
    assert found.limits == {"key:tool change": 1}
    assert found.used == {"key:tool change": 1 if key == "tool" else 2}
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [each.error_type for each in results] == [None] * len(calls)
    assert service.most == (1 if key == "tool" else 2)


async def test_the_breaker_of_a_tool(make: Make) -> None:
    """It opens everywhere, also where the tool was not called before; other tools go on."""
    engines = [make(bucket_limits={}) for _ in range(2)]
    broken = BrokenService()

    async def fine() -> int:
        """Do nothing."""
        return 1

    for engine in engines:
        concurrency = {"bucket": "ai", "breaker": BREAKER, "scope": "cluster"}
        engine.tool(name="fetch", concurrency=concurrency)(broken.fetch)
        engine.tool(name="fine", concurrency={"bucket": "ai"})(fine)
    await load(*engines)
    for _ in range(2):
        assert (await engines[0].execute("fetch")).error_type == "execution_error"
    async with asyncio.timeout(BOUND):
        while not engines[1].controller.member._holder.signs.breakers:  # type: ignore[attr-defined]  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.01)
    assert broken.tries == 2
    assert (await engines[1].execute("fetch")).error_type == "circuit_open"
    assert (await engines[1].execute("fine")).is_success
    broken.is_broken = False
    await asyncio.sleep(BREAKER["reset_after"])
    results = await broken.probe(*engines)
    assert broken.tries == 1
    assert sorted(str(each.error_type) for each in results) == ["None", *["circuit_open"] * 3]
    refused = {str(each.error).partition(" is open")[0] for each in results if each.error}
    assert refused == {"the circuit breaker of tool 'fetch'"}
