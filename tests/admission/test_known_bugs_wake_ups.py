"""Known bugs of others: a slot is free, somebody waits, and nobody is woken."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from tests.admission.crew import TURNS, controller_of
from tests.admission.known_bugs import (
    ForgetsTheGrant,
    GrantsTheLeaving,
    Limiter,
    NotesThatItWakes,
    Polls,
    Scene,
    SkipsTheCancelled,
    WakesWithoutReserving,
)
from tool_engine.errors import QueueTimeoutError


async def woken_then_cancelled(limiter: Limiter) -> list[str]:
    """A slot comes free and its next owner is cancelled, in one step of the loop."""
    async with Scene(limiter) as scene:
        await scene.call("holder", "doomed", "next")
        scene.end("holder")
        scene.cancel("doomed")
        await scene.turn()
        return scene.entered


async def test_cpython_90155_woken_waiter_cancelled() -> None:
    """C8 (python/asyncio#270, python/cpython#90155): who is woken and cancelled wakes the next.

    From 2015 to 2022, in one form or another, such a wake-up was lost, and the others hung.
    """
    assert await woken_then_cancelled(controller_of(max_concurrent=1)) == ["holder", "next"]
    assert await woken_then_cancelled(WakesWithoutReserving(1)) == ["holder"]


async def late_after_a_cancelled(limiter: Limiter) -> list[str]:
    """The only one who waits is woken and cancelled; then somebody comes to a free limiter."""
    async with Scene(limiter) as scene:
        await scene.call("holder", "doomed")
        scene.end("holder")
        scene.cancel("doomed")
        await scene.turn()
        await scene.call("late")
        return scene.entered


async def test_cpython_90155_corrupted_for_good() -> None:
    """C8 (python/cpython#90155, PR 93222): a cancelled waiter leaves no note that blocks others.

    In 3.10 the note "one is being woken" outlived the one who was woken; nobody ever came in again.
    """
    assert await late_after_a_cancelled(controller_of(max_concurrent=1)) == ["holder", "late"]
    assert await late_after_a_cancelled(NotesThatItWakes(1)) == ["holder"]


async def release_and_come_again(limiter: Limiter) -> list[str]:
    """One caller gives back and asks again without letting the loop run; another one waits."""
    async with Scene(limiter) as scene:
        await scene.call("greedy", "patient")
        for number in range(3):
            owner = scene.entered[-1]

            async def acquire(owner: str = owner) -> object:
                scene.end(owner)
                return await limiter.acquire()

            if owner != "patient":
                await scene.call(f"greedy {number}", acquire=acquire)
        return scene.entered


async def test_cpython_90155_order() -> None:
    """C3, C4 (python/cpython#90155): who gives back and comes again stands behind those who wait.

    The report's title is that the deque of waiters does not work: the one who had the slot got it
    again each time, and the waiter starved.
    """
    ours = await release_and_come_again(controller_of(max_concurrent=1))
    assert ours == ["greedy", "patient"]
    recipe = await release_and_come_again(WakesWithoutReserving(1))
    assert recipe == ["greedy", "greedy 0", "greedy 1", "greedy 2"]


async def cancelled_then_released(limiter: Limiter) -> list[str]:
    """The first in line is cancelled, and before it has heard of that a slot comes free."""
    async with Scene(limiter) as scene:
        await scene.call("holder", "doomed", "next")
        scene.cancel("doomed")
        scene.end("holder")
        await scene.turn()
        return scene.entered


async def test_anyio_947_cancelled_before_the_grant() -> None:
    """C8 (agronholm/anyio#947): a slot for one who is already cancelled goes to the next."""
    assert await cancelled_then_released(controller_of(max_concurrent=1)) == ["holder", "next"]
    assert await cancelled_then_released(GrantsTheLeaving(1)) == ["holder"]


async def newcomer_behind_a_cancelled(limiter: Limiter) -> list[str]:
    """A newcomer finds in the queue only one who is cancelled and has not run since."""
    async with Scene(limiter) as scene:
        await scene.call("holder", "doomed")
        scene.begin("newcomer")
        scene.cancel("doomed")
        scene.end("holder")
        await scene.turn()
        return scene.entered


async def test_anyio_1145_newcomer_behind_a_cancelled_waiter() -> None:
    """C8 (agronholm/anyio PR 1145): nobody waits behind somebody who only has to leave."""
    ours = await newcomer_behind_a_cancelled(controller_of(max_concurrent=1))
    assert ours == ["holder", "newcomer"]
    assert await newcomer_behind_a_cancelled(SkipsTheCancelled(1)) == ["holder"]


async def test_anyio_1145_waiters_behind_a_heavy_one() -> None:
    """C8, C16 (agronholm/anyio PR 1145): those whom a heavy call held up go when it leaves."""
    controller = controller_of(max_concurrent=2)
    async with Scene(controller) as scene:
        await scene.call("holder")
        await scene.call("heavy", acquire=lambda: controller.acquire(weight=2))
        await scene.call("light")
        assert controller.try_acquire() is None
        assert scene.entered == ["holder"]
        scene.cancel("heavy")
        await scene.turn()
        assert scene.entered == ["holder", "light"]


async def time_out_and_release(limiter: Limiter, *, is_release_first: bool) -> tuple[str, bool]:
    """A slot comes free in the very moment in which its waiter's time runs out.

    Returns how it ended for the waiter, and whether somebody gets in afterwards.
    """
    loop = asyncio.get_running_loop()
    moment = loop.time() + 5.0

    async def acquire() -> object:
        async with asyncio.timeout_at(moment):
            return await limiter.acquire()

    async with Scene(limiter) as scene:
        await scene.call("holder")
        if is_release_first:
            loop.call_at(moment, scene.end, "holder")
        await scene.call("waiter", acquire=acquire)
        if not is_release_first:
            loop.call_at(moment, scene.end, "holder")
        await asyncio.sleep(6.0)
        scene.end(*scene.held)
        await scene.call("late")
        return type(scene.errors.get("waiter")).__name__, "late" in scene.entered


@pytest.mark.parametrize("is_release_first", [True, False])
async def test_netflix_pr_179_slot_at_the_time_out(is_release_first: bool) -> None:
    """C7, C8 (Netflix/concurrency-limits PR 179): a slot granted as the time runs out is not lost.

    There each such moment took one from the limit, until nothing was let through any more.
    """
    ours = controller_of(max_concurrent=1)
    assert await time_out_and_release(ours, is_release_first=is_release_first) == (
        "TimeoutError",
        True,
    )
    recipe = await time_out_and_release(ForgetsTheGrant(1), is_release_first=is_release_first)
    assert recipe == ("TimeoutError", not is_release_first)


@pytest.mark.parametrize("is_release_first", [True, False])
async def test_netflix_pr_179_own_time_out(is_release_first: bool) -> None:
    """C7 (Netflix/concurrency-limits PR 179): with the queue's own timeout, either has the slot."""
    loop = asyncio.get_running_loop()
    controller = controller_of(max_concurrent=1)
    async with Scene(controller) as scene:
        await scene.call("holder")
        moment = loop.time() + 5.0
        if is_release_first:
            loop.call_at(moment, scene.end, "holder")
        await scene.call("waiter", acquire=lambda: controller.acquire(timeout=5.0))
        if not is_release_first:
            loop.call_at(moment, scene.end, "holder")
        await asyncio.sleep(6.0)
        if is_release_first:
            assert scene.entered == ["holder", "waiter"]
            scene.end("waiter")
        else:
            assert isinstance(scene.errors["waiter"], QueueTimeoutError)
        assert controller.get_metrics().total_queue_timeout == (0 if is_release_first else 1)
        await scene.call("late")
        assert "late" in scene.entered


async def churn(limiter: Limiter) -> int:
    """Twenty callers on ten slots, cancelled at every step; how many slots are left afterwards."""
    for turns, is_released_first in product(range(TURNS), (True, False)):
        async with Scene(limiter) as scene:
            names = [f"caller {number}" for number in range(20)]
            await scene.call(*names[:15])
            scene.begin(*names[15:])
            for _ in range(turns):
                await asyncio.sleep(0)
            held = list(scene.held)
            if is_released_first:
                scene.end(*held)
            scene.cancel(*names)
            if not is_released_first:
                scene.end(*held)
            await scene.turn()
    async with Scene(limiter) as scene:
        await scene.call(*(f"late {number}" for number in range(20)))
        return len(scene.entered)


async def test_httpcore_1093_cancelled_under_contention() -> None:
    """C8 (encode/httpcore#1093, #830, #785, #658): cancelled callers leave all slots usable.

    There a connection that was assigned to a request, which was cancelled before it took it, was
    neither used nor idle nor closed, and counted for ever: each one took a place from the pool.
    """
    assert await churn(controller_of(max_concurrent=10)) == 10
    assert await churn(ForgetsTheGrant(10)) == 0


async def test_httpcore_550_no_time_to_wait() -> None:
    """C7, C8 (encode/httpcore#550, PR 502): who has no time to wait takes nothing, nor a place."""
    controller = controller_of(max_concurrent=2)

    async def acquire() -> object:
        async with asyncio.timeout(0):
            return await controller.acquire()

    async with Scene(controller) as scene:
        await scene.call("first", "second", acquire=acquire)
        assert scene.entered == ["first", "second"]
        await scene.call("third", "fourth", acquire=acquire)
        assert [type(scene.errors[name]) for name in ("third", "fourth")] == [TimeoutError] * 2
        assert controller.get_metrics().queue_length == 0
        scene.end("first", "second")
        await scene.call("late", "later", "one too many")
        assert scene.entered[2:] == ["late", "later"]


async def twenty_short_jobs(limiter: Limiter) -> float:
    """One caller holds a slot for long; twenty share the other one, 50 ms each. Seconds taken."""
    started = asyncio.get_running_loop().time()

    async def job() -> None:
        held = await limiter.acquire()
        await asyncio.sleep(0.05)
        limiter.release(held)

    held = await limiter.acquire()
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(job())
    limiter.release(held)
    return asyncio.get_running_loop().time() - started


async def test_prefect_23183_release_wakes_nobody() -> None:
    """C3 (PrefectHQ/prefect#23183): a freed slot is used at once, not when somebody asks again.

    There 778 runs of about 0.12 s started one after another, 1 to 60 s apart, beside free slots.
    """
    assert await twenty_short_jobs(controller_of(max_concurrent=2)) == pytest.approx(20 * 0.05)
    assert await twenty_short_jobs(Polls(2)) > 19.0


async def test_prefect_23183_room_for_many() -> None:
    """C3, C16 (PrefectHQ/prefect#23183): one release wakes all whom its room lets in, no more."""
    controller = controller_of(max_concurrent=4, bucket_limits={"http": 2})
    async with Scene(controller) as scene:
        await scene.call("heavy", acquire=lambda: controller.acquire(weight=4))
        await scene.call("h1", "h2", "h3", acquire=lambda: controller.acquire("http"))
        await scene.call("a1", "a2", "a3")
        scene.end("heavy")
        await scene.turn()
        assert scene.entered == ["heavy", "h1", "h2", "a1", "a2"]
