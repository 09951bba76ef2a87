"""Pause, resume, drain and close."""

from __future__ import annotations

import asyncio

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import check, context
from tests.admission.test_throttle import rated
from tool_engine.errors import ControllerClosedError, EngineClosedError, SlotRejectedError


async def test_pause_and_resume(crew_of: MakeCrew) -> None:
    """C24: nobody starts during a pause; those who run go on; then all start in their order."""
    crew = crew_of(max_concurrent=3, bucket_limits={"http": 1})
    await crew.call("running")
    crew.controller.pause()
    await crew.call("h1", "h2", bucket="http")
    await crew.call("a", "b")
    assert crew.controller.try_acquire() is None
    await crew.end("running")
    assert crew.started == ["running"]
    crew.controller.resume()
    await crew.turn()
    assert crew.started == ["running", "h1", "a", "b"]
    await crew.end("h1")
    assert crew.started[-1] == "h2"


async def test_pause_while_a_bucket_is_full(crew_of: MakeCrew) -> None:
    """C24: what became free during the pause is handed over at its end."""
    crew = crew_of(max_concurrent=5, bucket_limits={"http": 1})
    await crew.call("h1", "h2", bucket="http")
    crew.controller.pause()
    await crew.end("h1")
    assert crew.started == ["h1"]
    crew.controller.resume()
    await crew.turn()
    assert crew.started == ["h1", "h2"]


async def test_pause_under_reject(crew_of: MakeCrew) -> None:
    """K36, C24: `reject` refuses during a pause."""
    crew = crew_of(strategy="reject")
    crew.controller.pause()
    await crew.call("a")
    assert isinstance(crew.errors["a"], SlotRejectedError)


async def test_cancel_while_paused(crew_of: MakeCrew) -> None:
    """C8, C24: who gives up during a pause is not started by its end."""
    crew = crew_of(max_concurrent=1)
    crew.controller.pause()
    await crew.call("a", "b", "c")
    await crew.cancel("a", "b")
    crew.controller.resume()
    await crew.turn()
    assert crew.started == ["c"]


async def test_drain(crew_of: MakeCrew) -> None:
    """C24: new calls are refused, those who run and those who wait finish, then it is True."""
    crew = crew_of(max_concurrent=1)
    await crew.call("a", "b")
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    await crew.call("c")
    error = crew.errors["c"]
    assert isinstance(error, ControllerClosedError)
    assert "draining and takes no new calls; call resume() to go on" in str(error)
    await crew.end("a")
    assert not drained.done()
    await crew.end("b")
    assert await drained is True
    await crew.call("d")
    assert isinstance(crew.errors["d"], ControllerClosedError)
    crew.controller.resume()
    await crew.call("e")
    assert crew.started == ["a", "b", "e"]


async def test_drain_of_nothing(crew_of: MakeCrew) -> None:
    """C24: with nothing to wait for, drain does not wait."""
    crew = crew_of()
    assert await crew.controller.drain(0.0) is True
    assert await crew.controller.drain() is True


async def test_drain_is_told_once(crew_of: MakeCrew) -> None:
    """C9, C24: a second release in the same step changes nothing for those who drain."""
    crew = crew_of()
    await crew.call("a")
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    for _ in range(2):
        crew.controller.release(crew.slots["a"])
    assert await drained is True


async def test_drain_with_timeout(crew_of: MakeCrew) -> None:
    """C24: False when the time ran out; everybody goes on, and draining again works."""
    crew = crew_of()
    await crew.call("a")
    assert await crew.controller.drain(5.0) is False
    assert asyncio.get_running_loop().time() == 5.0
    assert crew.controller.get_metrics().active == 1
    again = asyncio.create_task(crew.controller.drain(5.0))
    await crew.turn()
    await crew.end("a")
    assert await again is True


async def test_two_drains_at_once(crew_of: MakeCrew) -> None:
    """C24: each has its own answer; a cancelled one leaves nothing behind."""
    crew = crew_of()
    await crew.call("a")
    short, long, cancelled = (
        asyncio.create_task(crew.controller.drain(timeout)) for timeout in (1.0, None, None)
    )
    await crew.turn()
    cancelled.cancel()
    await asyncio.sleep(2.0)
    await crew.end("a")
    assert await short is False
    assert await long is True
    assert cancelled.cancelled()


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_drain_ends_when_the_last_waiter_gives_up(crew_of: MakeCrew, how: str) -> None:
    """C24: nothing runs and nothing waits, however it came about."""
    crew = crew_of(queue_timeout=60.0)
    await crew.call("a", "b", request=rated(1, 3600.0))
    await crew.end("a")
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    assert not drained.done()
    if how == "cancelled":
        await crew.cancel("b")
    else:
        await asyncio.sleep(61.0)
    assert drained.done()
    assert drained.result() is True


async def test_drain_waits_for_all_kinds(crew_of: MakeCrew) -> None:
    """C24, C10, C12: zombies, parked slots and bypassing callers are work as well."""
    crew = crew_of()
    await crew.call("zombie", "parked")
    await crew.call("bypass", context=context("workflow_node"))
    crew.controller.mark_overdue(crew.slots["zombie"])
    crew.controller.park(crew.slots["parked"])
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    for name in ("zombie", "parked", "bypass"):
        assert not drained.done()
        await crew.end(name)
    assert drained.done()


async def test_close(crew_of: MakeCrew) -> None:
    """C24: waiters end with a typed error, at once; those who run go on and give back."""
    crew = crew_of(max_concurrent=2, bucket_limits={"http": 1})
    await crew.call("h1", "h2", bucket="http")
    await crew.call("a", "b", "c")
    await crew.call("d", request=rated())
    crew.controller.close()
    crew.controller.close()
    await crew.turn()
    assert list(crew.errors) == ["h2", "b", "c", "d"]
    for error in crew.errors.values():
        assert isinstance(error, ControllerClosedError)
        assert isinstance(error, EngineClosedError)
        assert error.error_type == "engine_closed"
        assert "the controller is closed and gives no more slots" in str(error)
    metrics = crew.controller.get_metrics()
    assert (metrics.total_rejected_in_queue, metrics.queue_length, metrics.active) == (4, 0, 2)
    await crew.call("late")
    await crew.call("late too", context=context("workflow_node"))
    assert isinstance(crew.errors["late"], ControllerClosedError)
    assert isinstance(crew.errors["late too"], ControllerClosedError)
    await crew.end("h1", "a")
    assert crew.controller.get_metrics().current_concurrent == 0
    assert len(asyncio.all_tasks()) == 1


async def test_close_is_for_good(crew_of: MakeCrew) -> None:
    """C24: resume does not open a closed controller, nor does a drain."""
    crew = crew_of()
    crew.controller.close()
    crew.controller.resume()
    await crew.call("a")
    assert await crew.controller.drain(1.0) is True
    crew.controller.resume()
    await crew.call("b")
    assert list(crew.errors) == ["a", "b"]
    assert crew.controller.try_acquire() is None


async def test_close_ends_a_drain(crew_of: MakeCrew) -> None:
    """C24: when closing takes the last waiter away, the drain is done."""
    crew = crew_of()
    crew.controller.pause()
    await crew.call("a")
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    assert not drained.done()
    crew.controller.close()
    await crew.turn()
    assert drained.done()
    check(crew.controller)
