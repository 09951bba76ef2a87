"""Which slots have been held for too long, and what else bounds one bucket?"""

from __future__ import annotations

import asyncio

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.test_throttle import at, rated
from tests.admission.virtual_time import VirtualTimeLoop
from tool_engine.admission import ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import QueueFullError, RateLimitedError
from tool_engine.model.settings.concurrency import ToolRate


async def test_overdue_slots_are_flagged_and_kept(crew_of: MakeCrew) -> None:
    """C11: a slot that is held for longer than slot_ttl shows, and is never taken away."""
    crew = crew_of(max_concurrent=2, slot_ttl=10.0, queue_timeout=None)
    await crew.call("a")
    await at(crew, 5.0)
    await crew.call("b", "waits")
    assert crew.controller.get_metrics().overdue == 0
    await at(crew, 10.5)
    assert crew.controller.get_metrics().overdue == 1
    assert [held.is_overdue for held in crew.controller.snapshot().held] == [True, False]
    await at(crew, 1000.0)
    assert crew.controller.get_metrics().overdue == 2
    assert crew.started == ["a", "b"]
    assert crew.controller.get_metrics().current_concurrent == 2
    await crew.end("a")
    assert crew.started[-1] == "waits"
    assert crew.controller.get_metrics().overdue == 1


async def test_sign_of_life(crew_of: MakeCrew) -> None:
    """C11: `renew` says that the holder is alive; the time starts anew."""
    crew = crew_of(slot_ttl=10.0)
    await crew.call("a")
    for when in (9.0, 18.0, 27.0):
        await at(crew, when)
        crew.controller.renew(crew.slots["a"])
        assert crew.controller.get_metrics().overdue == 0
    await at(crew, 36.9)
    assert crew.controller.get_metrics().overdue == 0
    await at(crew, 37.1)
    assert crew.controller.get_metrics().overdue == 1
    crew.controller.renew(crew.slots["a"])
    assert crew.controller.get_metrics().overdue == 0


async def test_no_ttl(crew_of: MakeCrew) -> None:
    """C11: without slot_ttl only work that outlived its call is overdue."""
    crew = crew_of()
    await crew.call("a", "b")
    await at(crew, 1e6)
    assert crew.controller.get_metrics().overdue == 0
    crew.controller.mark_overdue(crew.slots["a"])
    assert crew.controller.get_metrics().overdue == 1


async def test_ttl_that_comes_and_goes(crew_of: MakeCrew) -> None:
    """C18, C11: slots that are held already are judged by the limit of today."""
    crew = crew_of()
    await crew.call("a")
    await at(crew, 100.0)
    await crew.configure(slot_ttl=50.0)
    assert crew.controller.get_metrics().overdue == 1
    await crew.configure(slot_ttl=200.0)
    assert crew.controller.get_metrics().overdue == 0


async def test_queue_of_a_bucket(crew_of: MakeCrew) -> None:
    """C6: one bucket may not fill the queue of all; the refusal names it."""
    crew = crew_of(bucket_limits={"http": 1, "ai": 1}, bucket_queue_sizes={"http": 2})
    await crew.call("h0", "h1", "h2", "h3", bucket="http")
    await crew.call("a0", "a1", "a2", "a3", bucket="ai")
    assert set(crew.errors) == {"h3"}
    error = crew.errors["h3"]
    assert isinstance(error, QueueFullError)
    assert "the queue of bucket 'http' is full (2 of 2 waiting" in str(error)
    await crew.end("h0")
    await crew.call("h4", bucket="http")
    assert set(crew.errors) == {"h3"}


async def test_queue_of_a_bucket_is_inside_that_of_all(crew_of: MakeCrew) -> None:
    """C6: the queue of all still bounds it."""
    crew = crew_of(max_concurrent=1, queue_size=1, bucket_queue_sizes={"http": 5})
    await crew.call("h0", "h1", "h2", bucket="http")
    assert "the queue is full (1 of 1 waiting" in str(crew.errors["h2"])


async def test_bucket_where_nobody_waits(crew_of: MakeCrew) -> None:
    """C6: bucket_queue_sizes 0: a call that cannot run at once is refused."""
    crew = crew_of(bucket_limits={"http": 1}, bucket_queue_sizes={"http": 0})
    await crew.call("h0", "h1", bucket="http")
    assert isinstance(crew.errors["h1"], QueueFullError)
    await crew.end("h0")
    await crew.call("h2", bucket="http")
    assert crew.started == ["h0", "h2"]
    assert crew.controller.get_bucket_metrics()["http"]["queue"] == 0


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
async def test_rate_of_a_bucket(crew_of: MakeCrew, strategy: str) -> None:
    """C17: so many starts in a period, in the order of asking, and no delay for other buckets."""
    crew = crew_of(strategy=strategy, bucket_rates={"web": "2/s"})
    await crew.call("a", "b", "c", "d", "e", bucket="web")
    await crew.call("other", bucket="ai")
    assert crew.started == ["a", "b", "other"]
    assert await at(crew, 0.9) == ["a", "b", "other"]
    assert await at(crew, 1.1) == ["a", "b", "other", "c", "d"]
    assert await at(crew, 2.1) == ["a", "b", "other", "c", "d", "e"]


async def test_rate_of_bucket_and_tool(crew_of: MakeCrew) -> None:
    """C17, C2: both must allow a call; one that the tool's rate holds up spends none of the
    bucket's."""
    crew = crew_of(bucket_rates={"web": "3/10s"}, queue_timeout=None)
    await crew.call("t1", "t2", "t3", request=rated(1, 1.0))
    await crew.call("w1", bucket="web")
    assert crew.started == ["t1", "w1"]
    assert await at(crew, 1.5) == ["t1", "w1", "t2"]
    await crew.call("w2", bucket="web")
    assert await at(crew, 9.5) == ["t1", "w1", "t2"]
    assert await at(crew, 10.5) == ["t1", "w1", "t2", "t3", "w2"]


async def test_heavy_call_counts_once_against_a_rate(crew_of: MakeCrew) -> None:
    """C17: a rate counts starts, not units."""
    crew = crew_of(bucket_rates={"web": "2/s"})
    await crew.call("a", "b", "c", bucket="web", weight=3)
    assert crew.started == ["a", "b"]


async def test_rate_of_a_bucket_under_reject(crew_of: MakeCrew) -> None:
    """K36, C17: nobody waits for a rate; the refusal says when."""
    crew = crew_of(strategy="reject", bucket_rates={"web": "1/10s"})
    await crew.call("a", bucket="web")
    await at(crew, 4.0)
    await crew.call("b", bucket="web")
    error = crew.errors["b"]
    assert isinstance(error, RateLimitedError)
    assert error.retry_after == pytest.approx(6.0)


async def test_try_acquire_and_rates(crew_of: MakeCrew) -> None:
    """C1, C17: it takes a place of the rate if there is one, and never waits."""
    crew = crew_of(bucket_rates={"web": ToolRate(1, 1.0)})
    slot = crew.controller.try_acquire("web")
    assert slot is not None
    crew.controller.release(slot)
    assert crew.controller.try_acquire("web") is None
    await asyncio.sleep(1.0)
    slot = crew.controller.try_acquire("web")
    assert slot is not None
    crew.controller.release(slot)


def test_rate_in_another_loop() -> None:
    """C27, C17: a controller that outlives its event loop wakes those who wait in the next one."""
    limits = ConcurrencyConfig(bucket_rates={"web": ToolRate(1, 10.0)}, queue_timeout=50.0)
    clock = asyncio.get_running_loop
    controller = ToolConcurrencyController(limits, clock=lambda: clock().time())

    async def give_up() -> None:
        async with controller.slot("web"):
            pass
        waits = asyncio.create_task(controller.acquire("web"))
        await asyncio.sleep(1.0)
        waits.cancel()
        await asyncio.wait([waits])

    async def wait() -> float:
        await asyncio.sleep(3.0)
        async with controller.slot("web"):
            return clock().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(give_up())
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(wait()) == 10.0
