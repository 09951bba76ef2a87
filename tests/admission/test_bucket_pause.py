"""What does a pause of one bucket hold up, and until when?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.test_throttle import at, rated
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import RateLimitedError

NO_BOUND: dict[str, Any] = {"queue_timeout": None}


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
async def test_only_that_bucket(crew_of: MakeCrew, strategy: str) -> None:
    """C17: its calls wait, in the order of asking; others go on."""
    crew = crew_of(strategy=strategy, bucket_limits={"http": 2})
    crew.controller.pause_bucket("http", 10.0)
    await crew.call("h1", "h2", "h3", bucket="http")
    await crew.call("a1", "a2", bucket="ai")
    assert crew.started == ["a1", "a2"]
    assert await at(crew, 9.9) == ["a1", "a2"]
    assert await at(crew, 10.0) == ["a1", "a2", "h1", "h2"]
    await crew.end("h1")
    assert crew.started[-1] == "h3"


async def test_who_runs_goes_on(crew_of: MakeCrew) -> None:
    """C17: calls of the bucket that run already are left alone, and count."""
    crew = crew_of(bucket_limits={"http": 1})
    await crew.call("h1", "h2", bucket="http")
    crew.controller.pause_bucket("http", 10.0)
    await crew.end("h1")
    assert crew.started == ["h1"]
    assert await at(crew, 10.0) == ["h1", "h2"]


async def test_no_room_is_kept_for_a_paused_bucket(crew_of: MakeCrew) -> None:
    """C4, C17: the first of all who wait is passed over while its bucket is paused."""
    crew = crew_of(max_concurrent=1)
    await crew.call("holder")
    await crew.call("h1", bucket="http")
    await crew.call("a1", bucket="ai")
    crew.controller.pause_bucket("http", 10.0)
    await crew.end("holder")
    assert crew.started == ["holder", "a1"]
    await crew.end("a1")
    assert await at(crew, 10.0) == ["holder", "a1", "h1"]


async def test_longer_pause_wins(crew_of: MakeCrew) -> None:
    """C17: whichever of two pauses ends later counts, in either order."""
    crew = crew_of(**NO_BOUND)
    crew.controller.pause_bucket("http", 20.0)
    crew.controller.pause_bucket("http", 5.0)
    await crew.call("h1", bucket="http")
    assert await at(crew, 6.0) == []
    crew.controller.pause_bucket("http", 30.0)
    assert await at(crew, 35.9) == []
    assert await at(crew, 36.0) == ["h1"]


async def test_zero_ends_a_pause_at_once(crew_of: MakeCrew) -> None:
    """C17: and a new, shorter one after that is a new one."""
    crew = crew_of(**NO_BOUND)
    crew.controller.pause_bucket("http", 50.0)
    await crew.call("h1", bucket="http")
    crew.controller.pause_bucket("http", 0.0)
    await crew.turn()
    assert crew.started == ["h1"]
    crew.controller.pause_bucket("http", 5.0)
    await crew.call("h2", bucket="http")
    assert crew.started == ["h1"]
    assert await at(crew, 5.0) == ["h1", "h2"]


async def test_zero_without_a_pause(crew_of: MakeCrew) -> None:
    """C17: ending what is not there changes nothing, even in a bucket that nobody has used."""
    crew = crew_of()
    crew.controller.pause_bucket("new", 0.0)
    await crew.call("a", bucket="new")
    assert crew.started == ["a"]


async def test_pause_is_bounded(crew_of: MakeCrew) -> None:
    """C17: a server that asks for an hour gets max_bucket_pause."""
    crew = crew_of(max_bucket_pause=15.0, **NO_BOUND)
    crew.controller.pause_bucket("http", 3600.0)
    await crew.call("h1", bucket="http")
    assert crew.controller.snapshot().buckets["http"]["paused_for"] == 15.0
    assert await at(crew, 14.9) == []
    assert await at(crew, 15.0) == ["h1"]


async def test_try_acquire_after_the_end(crew_of: MakeCrew) -> None:
    """C1, C17: a pause that nobody waited for ends by itself, too."""
    crew = crew_of(bucket_limits={"http": 1})
    crew.controller.pause_bucket("http", 10.0)
    await at(crew, 9.9)
    assert crew.controller.try_acquire("http") is None
    await at(crew, 10.0)
    slot = crew.controller.try_acquire("http")
    assert slot is not None
    assert crew.controller.try_acquire("http") is None
    crew.controller.release(slot)


async def test_newcomer_at_the_end_overtakes_nobody(crew_of: MakeCrew) -> None:
    """C3, C17: at the very moment of the end, those who wait go first."""
    crew = crew_of(bucket_limits={"http": 1}, **NO_BOUND)
    crew.controller.pause_bucket("http", 10.0)
    tried: list[object] = []

    def newcomer() -> None:
        tried.append(crew.controller.try_acquire("http"))

    asyncio.get_running_loop().call_at(10.0, newcomer)
    await crew.call("h1", bucket="http")
    assert await at(crew, 10.0) == ["h1"]
    assert tried == [None]


async def test_configure_during_a_pause(crew_of: MakeCrew) -> None:
    """C18, C17: a changed limit does not end the pause, and holds after it."""
    crew = crew_of(bucket_limits={"http": 1}, **NO_BOUND)
    crew.controller.pause_bucket("http", 10.0)
    await crew.call("h1", "h2", "h3", bucket="http")
    await crew.configure(bucket_limits={"http": 2}, **NO_BOUND)
    assert crew.started == []
    assert crew.controller.try_acquire("http") is None
    await crew.configure(bucket_limits={}, **NO_BOUND)
    await crew.configure(bucket_limits={"http": 2}, **NO_BOUND)
    assert await at(crew, 9.9) == []
    assert await at(crew, 10.0) == ["h1", "h2"]


async def test_call_that_goes_on_during_a_pause(crew_of: MakeCrew) -> None:
    """C23, C17: a slot that was lent out is taken again: that starts nothing new."""
    crew = crew_of(bucket_limits={"http": 1}, **NO_BOUND)
    await crew.call("h1", bucket="http")
    crew.controller.park(crew.slots["h1"])
    await crew.call("h2", "h3", bucket="http")
    crew.controller.pause_bucket("http", 10.0)
    task = asyncio.create_task(crew.controller.unpark(crew.slots["h1"]))
    await crew.turn()
    assert not task.done()
    await crew.end("h2")
    assert task.done()
    await crew.end("h1")
    assert crew.started == ["h1", "h2"]
    assert await at(crew, 10.0) == ["h1", "h2", "h3"]


async def test_nested_call_waits_for_the_pause(crew_of: MakeCrew) -> None:
    """C17, C23: a call made by a call asks the server as any other does."""
    crew = crew_of(**NO_BOUND)
    await crew.call("outer", bucket="ai")
    crew.controller.pause_bucket("http", 10.0)
    crew.controller.park(crew.slots["outer"])
    inner = AdmissionRequest.of(crew.controller.config, "http")
    inner.parent = crew.slots["outer"]
    await crew.call("inner", request=inner)
    assert crew.started == ["outer"]
    assert await at(crew, 10.0) == ["outer", "inner"]


async def test_pause_and_rate(crew_of: MakeCrew) -> None:
    """C17: whichever lets the call through later."""
    crew = crew_of(bucket_rates={"http": "1/20s"}, **NO_BOUND)
    await crew.call("h1", "h2", bucket="http")
    crew.controller.pause_bucket("http", 10.0)
    assert await at(crew, 19.9) == ["h1"]
    assert await at(crew, 20.0) == ["h1", "h2"]
    crew.controller.pause_bucket("web", 5.0)
    await crew.call("w1", "w2", request=rated(1, 1.0))
    assert await at(crew, 24.9) == ["h1", "h2"]
    assert await at(crew, 25.0) == ["h1", "h2", "w1"]
    assert await at(crew, 26.0) == ["h1", "h2", "w1", "w2"]


async def test_patience_ends_during_a_pause(crew_of: MakeCrew) -> None:
    """C7, C17: the refusal says that it was the pause, and how long it goes on."""
    crew = crew_of(queue_timeout=4.0)
    crew.controller.pause_bucket("http", 10.0)
    await crew.call("h1", bucket="http")
    await at(crew, 4.0)
    error = crew.errors["h1"]
    assert isinstance(error, RateLimitedError)
    assert error.retry_after == pytest.approx(6.0)
    assert "the pause of bucket 'http'" in str(error)
    await crew.call("h2", bucket="http", timeout=30.0)
    assert await at(crew, 10.0) == ["h2"]


async def test_pause_under_reject(crew_of: MakeCrew) -> None:
    """K36, C17: nobody waits for the end; the refusal says when it is."""
    crew = crew_of(strategy="reject")
    crew.controller.pause_bucket("http", 10.0)
    await crew.call("h1", bucket="http")
    await crew.call("a1", bucket="ai")
    error = crew.errors["h1"]
    assert isinstance(error, RateLimitedError)
    assert error.retry_after == pytest.approx(10.0)
    assert crew.started == ["a1"]


async def test_cancelled_during_a_pause(crew_of: MakeCrew) -> None:
    """C8, C17: who gives up is not woken at the end, and takes nothing."""
    crew = crew_of(bucket_limits={"http": 1}, **NO_BOUND)
    crew.controller.pause_bucket("http", 10.0)
    await crew.call("h1", "h2", bucket="http")
    await crew.cancel("h1")
    assert await at(crew, 10.0) == ["h2"]


async def test_bypass_during_a_pause(crew_of: MakeCrew) -> None:
    """C12: callers that the limits do not apply to do not wait for a pause."""
    crew = crew_of(bypass_caller_types={"conversation_agent"})
    crew.controller.pause_bucket("http", 10.0)
    from_agent = AdmissionRequest("http", lane="http", line="http", is_bypass=True)
    await crew.call("free", request=from_agent)
    assert crew.started == ["free"]
