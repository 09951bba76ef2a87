"""Rates: how many calls may start in a period, apart from how many run at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from asyncio_throttle.throttler import Throttler
from hypothesis import given
from hypothesis import strategies as st

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.throttle import Throttle
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import QueueTimeoutError, RateLimitedError, SlotRejectedError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.concurrency import ToolConcurrency, ToolRate
from tool_engine.model.tool import Tool, ToolCategory


def rated(calls: int = 1, period: float = 1.0, lane: str = "slow", **fields: Any) -> Any:
    """What a call of a tool with a rate asks for, in the bucket `web`."""
    return AdmissionRequest("web", lane=lane, line=lane, rate=ToolRate(calls, period), **fields)


async def at(crew: Crew, seconds: float) -> list[str]:
    """Who has started by then."""
    await asyncio.sleep(seconds - asyncio.get_running_loop().time())
    await crew.turn()
    return crew.started


async def test_rate(crew_of: MakeCrew) -> None:
    """C17: two starts a second, in the order of asking; who waits is woken in time."""
    crew = crew_of()
    await crew.call("a", "b", "c", "d", "e", request=rated(2))
    assert crew.started == ["a", "b"]
    assert await at(crew, 0.9) == ["a", "b"]
    assert await at(crew, 1.1) == ["a", "b", "c", "d"]
    assert await at(crew, 1.9) == ["a", "b", "c", "d"]
    assert await at(crew, 2.1) == ["a", "b", "c", "d", "e"]
    assert crew.slots["e"].queue_wait == 2.0


async def test_rate_holds_up_nobody_else(crew_of: MakeCrew) -> None:
    """C17, C4: other tools of the same bucket go on, at their own rate or without one."""
    crew = crew_of(bucket_limits={"web": 5})
    await crew.call("a", "b", request=rated())
    await crew.call("free", bucket="web")
    await crew.call("c", "d", request=rated(lane="other"))
    assert crew.started == ["a", "free", "c"]
    assert await at(crew, 1.5) == ["a", "free", "c", "b", "d"]


async def test_rate_and_bucket_together(crew_of: MakeCrew) -> None:
    """C2, C17: both must allow a call; it spends its share of the rate only when it starts."""
    crew = crew_of(bucket_limits={"web": 1}, queue_timeout=None)
    await crew.call("holder", bucket="web")
    await crew.call("a", "b", request=rated(1, 10.0))
    assert await at(crew, 50.0) == ["holder"]
    await crew.end("holder")
    assert crew.started[-1] == "a"
    assert await at(crew, 59.5) == ["holder", "a"]
    await crew.end("a")
    assert await at(crew, 59.75) == ["holder", "a"]
    assert await at(crew, 60.5) == ["holder", "a", "b"]


async def test_room_is_not_kept_for_who_must_wait_for_the_rate(crew_of: MakeCrew) -> None:
    """C4, C17: a heavy call whose rate is used up does not keep the free slots from others."""
    crew = crew_of(max_concurrent=3, queue_timeout=None)
    await crew.call("a", request=rated(1, 100.0, weight=2))
    await crew.call("heavy", request=rated(1, 100.0, weight=2))
    await crew.call("light")
    assert crew.started == ["a", "light"]
    await crew.end("a")
    assert await at(crew, 101.0) == ["a", "light", "heavy"]


async def test_rate_waits_for_room_first_in_line(crew_of: MakeCrew) -> None:
    """C4, C17: when the rate allows the call again, it has kept its place in the line."""
    crew = crew_of(max_concurrent=1)
    await crew.call("a", "b", request=rated(1, 10.0))
    await crew.end("a")
    await crew.call("holder", "behind")
    assert await at(crew, 11.0) == ["a", "holder"]
    await crew.end("holder")
    assert crew.started == ["a", "holder", "b"]


async def test_rate_under_reject(crew_of: MakeCrew) -> None:
    """K36, C17: `reject` refuses as rate_limited and says when to come again."""
    crew = crew_of(max_concurrent=2, strategy="reject")
    await crew.call("a", request=rated(1, 60.0))
    await asyncio.sleep(15.0)
    await crew.call("b", request=rated(1, 60.0))
    error = crew.errors["b"]
    assert isinstance(error, RateLimitedError)
    assert error.error_type == "rate_limited"
    assert error.retry_after == 45.0
    assert "the rate of 1/min in bucket 'web' allows no call for another 45.00 s" in str(error)
    await asyncio.sleep(45.0)
    await crew.call("c", "other", request=rated(1, 60.0))
    assert crew.started == ["a", "c"]
    await crew.call("d", request=rated(9, lane="wide"))
    assert isinstance(crew.errors["d"], SlotRejectedError)


async def test_waiting_for_the_rate_times_out(crew_of: MakeCrew) -> None:
    """C7, C17: then the error is rate_limited, with the time that is missing."""
    crew = crew_of(queue_timeout=4.0)
    await crew.call("a", "b", request=rated(1, 10.0))
    await asyncio.sleep(5.0)
    error = crew.errors["b"]
    assert isinstance(error, RateLimitedError)
    assert error.retry_after == 6.0
    assert "waited 4 s in bucket 'web', but the rate of 1/10s" in str(error)
    assert crew.controller.get_metrics().total_queue_timeout == 1
    await asyncio.sleep(10.0)
    await crew.call("c", request=rated(1, 10.0))
    assert crew.started == ["a", "c"]


async def test_waiting_for_room_with_a_rate_times_out(crew_of: MakeCrew) -> None:
    """C7: a call that waits for room, not for its rate, ends as queue_timeout."""
    crew = crew_of(max_concurrent=1, queue_timeout=4.0)
    await crew.call("holder")
    await crew.call("b", request=rated())
    await asyncio.sleep(5.0)
    assert isinstance(crew.errors["b"], QueueTimeoutError)


async def test_cancelled_head_leaves_the_rate_to_the_next(crew_of: MakeCrew) -> None:
    """C8, C17: the next in the lane starts when the first would have; nothing was spent."""
    crew = crew_of()
    await crew.call("a", "b", "c", request=rated(1, 10.0))
    await crew.cancel("b")
    assert await at(crew, 10.5) == ["a", "c"]
    await crew.call("d", request=rated(1, 10.0))
    await crew.cancel("d")
    assert await at(crew, 25.0) == ["a", "c"]
    await crew.call("e", request=rated(1, 10.0))
    assert crew.started[-1] == "e"


async def test_newcomer_does_not_pass_those_who_wait_for_the_rate(crew_of: MakeCrew) -> None:
    """C3, C17: nobody asks the rate but the head of the lane."""
    crew = crew_of(max_concurrent=1)
    await crew.call("a", "b", request=rated(1, 10.0))
    await asyncio.sleep(11.0)
    assert crew.controller.admit_nowait(rated(1, 10.0)) is None
    await crew.end("a")
    assert crew.started == ["a", "b"]
    await crew.end("b")
    await crew.call("c", request=rated(1, 10.0))
    # The rate allows a call again, and the timer that tells the waiter so has not run yet.
    assert crew.controller.admit_nowait(rated(1, 10.0), 30.0) is None
    assert crew.controller.admit_nowait(rated(1, 10.0)) is None


async def test_urgent_call_waits_for_the_rate_too(crew_of: MakeCrew) -> None:
    """C5, C17: a more urgent call of the lane takes the first place, not a start of its own."""
    crew = crew_of(strategy="priority")
    await crew.call("a", "b", request=rated(1, 10.0))
    await crew.call("urgent", request=rated(1, 10.0, priority=0))
    assert crew.started == ["a"]
    assert await at(crew, 10.5) == ["a", "urgent"]
    assert await at(crew, 20.5) == ["a", "urgent", "b"]


async def test_parked_slot_does_not_wait_for_the_rate(crew_of: MakeCrew) -> None:
    """C23, C17: a call that goes on after a nested one has started already: no rate holds it."""
    crew = crew_of(queue_timeout=None)
    await crew.call("a", "b", request=rated(1, 3600.0))
    slot = crew.slots["a"]
    crew.controller.park(slot)
    await crew.controller.unpark(slot)
    assert slot.state == "active"
    assert asyncio.get_running_loop().time() == 0.0
    assert await at(crew, 3601.0) == ["a", "b"]


async def test_rate_while_paused(crew_of: MakeCrew) -> None:
    """C24, C17: what the rate would allow starts when the pause ends."""
    crew = crew_of()
    await crew.call("a", "b", request=rated())
    crew.controller.pause()
    assert await at(crew, 5.0) == ["a"]
    crew.controller.resume()
    assert await at(crew, 5.0) == ["a", "b"]


async def test_end_of_the_rate_with_nobody_left(crew_of: MakeCrew) -> None:
    """C8, C17: a timer whose waiters have all gone does nothing."""
    crew = crew_of()
    await crew.call("a", "b", request=rated())
    await crew.cancel("b")
    assert await at(crew, 2.0) == ["a"]
    await crew.call("c", request=rated())
    assert crew.started == ["a", "c"]


@pytest.mark.parametrize("rate", [None, ToolRate(2, 1.0)])
def test_request_of_a_tool(rate: ToolRate | None) -> None:
    """C13, C17: bucket, weight and priority of the tool; with a rate, a lane of its own."""
    tool = Tool(
        "t",
        "t",
        "1.0.0",
        "",
        ToolCategory.CUSTOM,
        [],
        [],
        {},
        concurrency=ToolConcurrency("web", priority=3, weight=2),
        rate=rate,
    )
    request = AdmissionRequest.for_tool(tool, ConcurrencyConfig())
    assert (request.bucket, request.priority, request.weight) == ("web", 3, 2)
    assert (request.lane == "web") == (rate is None)
    config = ConcurrencyConfig()
    assert request.for_caller(config, ToolExecutionContext()) == request
    urgent = ToolExecutionContext(priority=1, caller_type="workflow_node")
    asked = request.for_caller(config, urgent)
    assert (asked.priority, asked.is_bypass) == (1, True)


def test_throttle_counts_the_period_from_each_start() -> None:
    """C17: a sliding window: never more than `calls` starts in any span of `period`."""
    throttle = Throttle(ToolRate(2, 10.0))
    for now, delay in ((0.0, 0.0), (4.0, 0.0), (5.0, 5.0), (10.0, 0.0), (13.0, 1.0), (14.0, 0.0)):
        assert throttle.delay(now) == delay
        if not delay:
            throttle.count(now)


@given(st.integers(1, 4), st.integers(1, 9), st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_throttle_lets_through_what_asyncio_throttle_does(
    calls: int, period: int, pauses: list[int]
) -> None:
    """C17: the same calls start as with the library whose rule it is, asked at the same times."""
    throttle, now = Throttle(ToolRate(calls, period + 0.5)), 0.0
    with pytest.MonkeyPatch.context() as patched:
        clock = SimpleNamespace(monotonic=lambda: now)
        patched.setattr("asyncio_throttle.throttler.time", clock)
        theirs = Throttler(calls, period + 0.5)
        for pause in pauses:
            now += pause
            delay = throttle.delay(now)
            assert (delay <= 0) == starts_at_once(theirs)
            if delay <= 0:
                throttle.count(now)


def starts_at_once(throttler: Throttler) -> bool:
    """Whether `acquire` ends without waiting."""
    coroutine = throttler.acquire()  # type: ignore[no-untyped-call]
    try:
        # The library sleeps in a future of the running loop: here none runs, so that is refused.
        coroutine.send(None)
    except StopIteration:
        return True
    except RuntimeError:
        return False
    finally:
        coroutine.close()
    raise AssertionError("a loop runs here")


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([0.75, 3.5, 20.25]), st.integers(0, 4)),
        min_size=1,
        max_size=60,
    )
)
def test_throttle_forgets_nothing_when_the_rate_changes(
    steps: list[tuple[int, float, int]],
) -> None:
    """C18: at each moment, no more have started in the last period than the present rate allows."""
    throttle, now, started = Throttle(ToolRate(5, 20.25)), 0.0, list[float]()
    for calls, period, pause in steps:
        now += pause
        throttle.configure(ToolRate(calls, period))
        recent = [each for each in started if now - each < period]
        assert (throttle.delay(now) <= 0) == (len(recent) < calls)
        if len(recent) < calls:
            throttle.count(now)
            started.append(now)
