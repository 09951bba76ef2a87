"""Calls that are refused instead of made to wait, or that wait too long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import context
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import (
    AdmissionError,
    QueueFullError,
    QueueTimeoutError,
    SlotRejectedError,
)


async def test_queue_full(crew_of: MakeCrew) -> None:
    """C6: one call more than may wait is refused at once; the others stay as they are."""
    crew = crew_of(max_concurrent=1, queue_size=2, bucket_limits={"http": 1})
    await crew.call("a", "b", "c", "d", bucket="http")
    error = crew.errors["d"]
    assert isinstance(error, QueueFullError)
    assert error.error_type == "queue_full"
    assert "2 of 2 waiting, 2 of them for bucket 'http'" in str(error)
    assert "raise queue_size" in str(error)
    assert crew.controller.get_metrics().queue_length == 2
    await crew.end("a")
    await crew.call("e", bucket="http")
    assert list(crew.errors) == ["d"]


async def test_queue_size_is_global(crew_of: MakeCrew) -> None:
    """C6: waiters of all buckets count together."""
    crew = crew_of(queue_size=2, bucket_limits={"http": 1, "ai": 1})
    await crew.call("h1", "h2", bucket="http")
    await crew.call("a1", "a2", "a3", bucket="ai")
    assert list(crew.errors) == ["a3"]
    assert "2 of 2 waiting, 1 of them for bucket 'ai'" in str(crew.errors["a3"])


async def test_only_those_that_count_are_said(crew_of: MakeCrew) -> None:
    """Calls of calls wait beside the queue: 4 of 1 were said to wait for their bucket."""
    crew = crew_of(max_concurrent=1, queue_size=1)
    await crew.call("outer", "h0", bucket="http")
    crew.controller.park(crew.slots["outer"])
    request = AdmissionRequest(parent=crew.slots["outer"], bucket="http", lane="http")
    await crew.call("i1", "i2", "i3", request=request)
    await crew.call("h1", "h2", bucket="http")
    assert "(1 of 1 waiting, 1 of them for bucket 'http')" in str(crew.errors["h2"])


SIZES = pytest.mark.parametrize(
    ("limits", "queue", "setting"),
    [
        ({"bucket_queue_sizes": {"http": 1}}, "bucket 'http'", "bucket_queue_sizes"),
        ({"key_limits": {"limit": 1, "queue_size": 1}}, "key 'k'", "key_limits.queue_size"),
    ],
)


@SIZES
async def test_calls_of_calls_fill_no_queue(
    crew_of: MakeCrew, limits: dict[str, object], queue: str, setting: str
) -> None:
    """A bucket or a key, whose calls make calls that wait, takes as many others as it says."""
    crew = crew_of(max_concurrent=1, **limits)
    await crew.call("outer", bucket="http", key="k")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    request = AdmissionRequest(bucket="http", key="k", parent=outer)
    await crew.call("i1", "i2", "i3", request=request)
    await crew.call("h1", "h2", bucket="http", key="k")
    assert list(crew.errors) == ["h2"]
    assert f"the queue of {queue} is full (1 of 1 waiting)" in str(crew.errors["h2"])
    resuming = asyncio.create_task(crew.controller.unpark(outer))
    await crew.call("h3", bucket="http", key="k")
    assert setting in str(crew.errors["h3"])
    await crew.end("i1")
    await resuming
    await crew.end("outer", "i2", "i3")
    await crew.call("h4", "h5", bucket="http", key="k")
    assert list(crew.errors) == ["h2", "h3", "h5"]


@SIZES
async def test_the_setting_that_helps_is_named(
    crew_of: MakeCrew, limits: dict[str, object], queue: str, setting: str
) -> None:
    """It was that of all calls, which leaves the queue of a bucket or a key as it is."""
    crew = crew_of(max_concurrent=1, **limits)
    await crew.call("a", "b", "c", bucket="http", key="k")
    said = f"the queue of {queue} is full (1 of 1 waiting); try again later, raise {setting}, or"
    assert said in str(crew.errors["c"])


async def test_those_who_leave_make_room_in_the_queue(crew_of: MakeCrew) -> None:
    """C6, C8: cancelled and timed-out waiters do not count any more."""
    crew = crew_of(max_concurrent=1, queue_size=1)
    await crew.call("holder", "quitter")
    await crew.cancel("quitter")
    await crew.call("patient", timeout=1.0)
    await asyncio.sleep(2.0)
    await crew.call("last")
    assert list(crew.errors) == ["patient"]
    await crew.end("holder")
    assert crew.started == ["holder", "last"]


async def test_nobody_waits(crew_of: MakeCrew) -> None:
    """C6: queue_size=0 refuses whoever cannot run at once, and nobody else."""
    crew = crew_of(max_concurrent=1, queue_size=0)
    await crew.call("a", "b")
    await crew.end("a")
    await crew.call("c")
    assert crew.started == ["a", "c"]
    assert "0 of 0 waiting" in str(crew.errors["b"])


async def test_retry_after(crew_of: MakeCrew) -> None:
    """C6: the estimate is the mean time a slot was held, times the place in line."""
    crew = crew_of(max_concurrent=2, queue_size=1)
    await crew.call("a", "b", "c", "unknown")
    await asyncio.sleep(6.0)
    await crew.end("a")
    await crew.call("d", "known")
    first, second = (crew.errors[name] for name in ("unknown", "known"))
    assert isinstance(first, QueueFullError)
    assert first.retry_after is None
    assert isinstance(second, QueueFullError)
    assert second.retry_after == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("limits", "how", "seconds"),
    [
        ({"bucket_limits": {"http": 1}, "bucket_queue_sizes": {"http": 1}}, {}, 12.0),
        ({"bucket_limits": {"http": 1}, "queue_size": 1}, {}, 12.0),
        ({"key_limits": {"limit": 1, "queue_size": 1}}, {"key": "k"}, 12.0),
        ({"bucket_limits": {"http": 1}}, {"timeout": 3.0}, 6.0),
        ({"bucket_limits": {"http": 1}, "strategy": "reject"}, {}, 6.0),
        ({"bucket_rates": {"http": "1/min"}, "queue_size": 1}, {}, 114.0),
    ],
)
async def test_retry_after_is_that_of_the_limit_that_is_full(
    crew_of: MakeCrew, limits: dict[str, object], how: dict[str, object], seconds: float
) -> None:
    """C6: it was reckoned with the limit in all, a hundredth of what a bucket of one takes."""
    crew = crew_of(max_concurrent=100, **limits)
    await crew.call("first", bucket="http", **how)
    await asyncio.sleep(6.0)
    await crew.end("first")
    await crew.call("a", "b", "c", bucket="http", **how)
    await asyncio.sleep(4.0)
    error = crew.errors.get("c") or crew.errors["b"]
    assert isinstance(error, AdmissionError)
    assert error.retry_after == pytest.approx(seconds)


async def test_retry_after_is_that_of_calls_of_the_bucket(crew_of: MakeCrew) -> None:
    """C6: many short calls of one bucket do not make those of another one shorter."""
    limits = {"bucket_limits": {"slow": 1}, "bucket_queue_sizes": {"slow": 1}}
    crew = crew_of(max_concurrent=9, queue_timeout=None, **limits)
    await crew.call("a", "b", bucket="slow")
    await asyncio.sleep(50.0)
    await crew.end("a")
    for number in range(9):
        await crew.call(f"q{number}", bucket="quick")
        await crew.end(f"q{number}")
    await crew.call("c", "d", bucket="slow")
    error = crew.errors["d"]
    assert isinstance(error, QueueFullError)
    assert error.retry_after == pytest.approx(100.0)


async def test_queue_timeout(crew_of: MakeCrew) -> None:
    """C7, X12: the configured wait ends in a typed error, at its time and not before."""
    crew = crew_of(max_concurrent=1, queue_timeout=30.0, default_timeout=1.0)
    await crew.call("a", "b")
    await asyncio.sleep(0.25)
    await crew.call("c")
    await asyncio.sleep(29.5)
    assert crew.errors == {}
    await asyncio.sleep(1.0)
    error = crew.errors["b"]
    assert isinstance(error, QueueTimeoutError)
    assert isinstance(error, TimeoutError)
    assert error.error_type == "queue_timeout"
    assert "waited 30 s for a slot in bucket '__default__' (1 more waiting)" in str(error)
    assert "raise queue_timeout or the limit that is full" in str(error)
    metrics = crew.controller.get_metrics()
    assert (metrics.total_queue_timeout, metrics.total_timeout, metrics.queue_length) == (2, 2, 0)


@pytest.mark.parametrize(
    ("limits", "how", "cause"),
    [
        ({"max_concurrent": 1}, {}, "all slots are in use (1 of 1)"),
        ({"bucket_limits": {"web": 1}}, {"bucket": "web"}, "bucket 'web' is full (1 of 1)"),
        ({"key_limits": {"limit": 1}}, {"key": "k"}, "key 'k' is full (1 of 1)"),
    ],
)
async def test_queue_timeout_says_which_limit_is_full(
    crew_of: MakeCrew, limits: dict[str, Any], how: dict[str, Any], cause: str
) -> None:
    """A key was full, and the cure was to raise max_concurrent."""
    crew = crew_of(queue_timeout=5.0, **limits)
    await crew.call("a", "b", **how)
    await asyncio.sleep(6)
    said = str(crew.errors["b"])
    assert f"(0 more waiting): {cause}; raise queue_timeout or the limit that is full" in said


async def test_queue_timeout_of_a_paused_controller(crew_of: MakeCrew) -> None:
    crew = crew_of(queue_timeout=5.0)
    crew.controller.pause()
    await crew.call("a")
    await asyncio.sleep(6)
    assert "(0 more waiting): the controller is paused; " in str(crew.errors["a"])


async def test_timeout_of_one_call(crew_of: MakeCrew) -> None:
    """C7: a call's own timeout goes before the configured one, shorter or longer."""
    crew = crew_of(max_concurrent=1, queue_timeout=10.0)
    await crew.call("holder", "usual")
    await crew.call("short", timeout=1.0)
    await crew.call("long", timeout=99.0)
    await asyncio.sleep(2.0)
    assert list(crew.errors) == ["short"]
    await asyncio.sleep(20.0)
    assert list(crew.errors) == ["short", "usual"]
    await crew.end("holder")
    assert crew.started == ["holder", "long"]


async def test_no_queue_timeout(crew_of: MakeCrew) -> None:
    """C7: queue_timeout=None waits as long as it takes."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await crew.call("a", "b")
    await asyncio.sleep(1e6)
    await crew.end("a")
    assert crew.slots["b"].queue_wait == pytest.approx(1e6)


async def test_timeout_ends_with_the_grant(crew_of: MakeCrew) -> None:
    """C7: who has a slot is not timed out of the queue any more."""
    crew = crew_of(max_concurrent=1, queue_timeout=10.0)
    await crew.call("a", "b")
    await asyncio.sleep(5.0)
    await crew.end("a")
    await asyncio.sleep(50.0)
    assert crew.errors == {}
    assert crew.controller.get_metrics().active == 1


async def test_timed_out_head_lets_the_next_pass(crew_of: MakeCrew) -> None:
    """C7, C16: when a heavy head gives up, those behind it that fit run at once."""
    crew = crew_of(max_concurrent=2)
    await crew.call("holder")
    await crew.call("heavy", weight=2, timeout=5.0)
    await crew.call("light")
    assert crew.started == ["holder"]
    await asyncio.sleep(6.0)
    assert crew.started == ["holder", "light"]


async def test_timed_out_head_of_a_bucket_lets_the_next_pass(crew_of: MakeCrew) -> None:
    """C7, C16: the same inside a bucket."""
    crew = crew_of(max_concurrent=9, bucket_limits={"ai": 2})
    await crew.call("holder", bucket="ai")
    await crew.call("heavy", bucket="ai", weight=2, timeout=5.0)
    await crew.call("light", bucket="ai")
    await asyncio.sleep(6.0)
    assert crew.started == ["holder", "light"]


async def test_zombies_hold_their_slots(crew_of: MakeCrew) -> None:
    """C10, U5: work that goes on after its call has ended keeps the slot until it stops."""
    crew = crew_of(max_concurrent=1)
    await crew.call("a", "b")
    slot = crew.slots["a"]
    crew.controller.mark_overdue(slot)
    crew.controller.mark_overdue(slot)
    await crew.turn()
    metrics = crew.controller.get_metrics()
    assert (metrics.active, metrics.zombies, metrics.current_concurrent) == (0, 1, 1)
    assert slot.is_overdue
    assert crew.started == ["a"]
    await crew.end("a")
    assert crew.started == ["a", "b"]
    assert crew.controller.get_metrics().zombies == 0
    crew.controller.mark_overdue(slot)
    assert crew.controller.get_metrics().zombies == 0


async def test_max_zombies(crew_of: MakeCrew) -> None:
    """C10: with max_zombies of them, new calls are refused although slots are free."""
    crew = crew_of(max_concurrent=5, max_zombies=2)
    await crew.call("a", "b")
    crew.controller.mark_overdue(crew.slots["a"])
    await crew.call("c")
    crew.controller.mark_overdue(crew.slots["b"])
    await crew.call("d")
    assert crew.controller.try_acquire() is None
    error = crew.errors["d"]
    assert isinstance(error, SlotRejectedError)
    assert "2 calls ended but their work still runs" in str(error)
    assert "raise max_zombies" in str(error)
    await crew.end("a")
    await crew.call("e")
    assert crew.started == ["a", "b", "c", "e"]


async def test_overdue_bypass_is_no_zombie(crew_of: MakeCrew) -> None:
    """C12: what is not counted is not counted as a zombie either."""
    crew = crew_of(max_concurrent=1, max_zombies=1)
    await crew.call("w", context=context("workflow_node"))
    crew.controller.mark_overdue(crew.slots["w"])
    assert crew.controller.get_metrics().zombies == 0
    await crew.call("a")
    assert crew.errors == {}
    await crew.end("w")
    assert crew.controller.get_metrics().bypass_active == 0
