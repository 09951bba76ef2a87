"""Known bugs of others: everybody holds what somebody else waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from tests.admission.crew import check, controller_of
from tests.admission.known_bugs import Scene
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.request import AdmissionRequest

A_DAY = 86400.0

Inner = Callable[[ConcurrencySlot | None], AbstractAsyncContextManager[object]]


async def parents_and_children(
    outer: Callable[[], AbstractAsyncContextManager[ConcurrencySlot | None]], inner: Inner
) -> int:
    """Four calls make five calls each, under the same limit; how many of the 20 end in a day."""
    ended = 0

    async def child(parent: ConcurrencySlot | None) -> None:
        nonlocal ended
        async with inner(parent):
            await asyncio.sleep(1.0)
        ended += 1

    async def parent() -> None:
        async with outer() as slot:
            await asyncio.sleep(1.0)
            async with asyncio.TaskGroup() as group:
                for _ in range(5):
                    group.create_task(child(slot))

    with suppress(TimeoutError):
        async with asyncio.timeout(A_DAY), asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(parent())
    return ended


async def test_prefect_17060_parents_hold_what_their_children_need() -> None:
    """C23 (PrefectHQ/prefect#17060, #14143): calls that wait for their own calls hold no slot.

    There as many parents as there are workers waited for children that no worker was left to run.
    The same was reported of agents and their sub-agents: can1357/oh-my-pi#3749, openclaw#147264.
    """
    controller = controller_of(max_concurrent=3)

    @asynccontextmanager
    async def nested(parent: ConcurrencySlot | None) -> AsyncIterator[None]:
        assert parent is not None
        controller.park(parent)
        try:
            slot = await controller.admit(AdmissionRequest(parent=parent))
            check(controller)
            yield
            controller.release(slot)
        finally:
            await controller.unpark(parent)

    semaphore = asyncio.Semaphore(3)

    @asynccontextmanager
    async def held() -> AsyncIterator[None]:
        async with semaphore:
            yield

    assert await parents_and_children(controller.slot, nested) == 20
    assert controller.get_metrics().max_concurrent_observed == 3
    assert await parents_and_children(held, lambda _: semaphore) == 0


async def test_pi_extensible_workflows_264_one_slot_lent_once() -> None:
    """C23 (vekexasia/pi-extensible-workflows#264): two calls of one parent lend its slot once.

    There each call released the parent's permit: two ran under a limit of one, and the parent
    waited for ever to have both back.
    """
    controller = controller_of(max_concurrent=1)
    async with controller.slot() as parent:
        most = running = 0

        async def child() -> None:
            nonlocal most, running
            controller.park(parent)
            slot = await controller.admit(AdmissionRequest(parent=parent))
            running += 1
            most = max(most, running)
            check(controller)
            await asyncio.sleep(1.0)
            running -= 1
            controller.release(slot)
            await controller.unpark(parent)

        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(child())
        assert most == 1
        assert parent.state == "active"
    assert controller.get_metrics().current_concurrent == 0


async def test_prefect_17686_who_waits_holds_nothing() -> None:
    """C2, C4 (PrefectHQ/prefect#17686): a call that waits for one limit takes nothing of another.

    There submitted tasks took a slot while they waited for something else. Two semaphores, one
    inside the other, do the same: here those who wait for `slow` hold all the others up.
    """
    controller = controller_of(max_concurrent=2, bucket_limits={"slow": 1})
    async with Scene(controller) as scene:
        await scene.call("s1", "s2", "s3", acquire=lambda: controller.acquire("slow"))
        await scene.call("fast", acquire=lambda: controller.acquire("fast"))
        assert scene.entered == ["s1", "fast"]

    everything, slow = asyncio.Semaphore(2), asyncio.Semaphore(1)

    async def acquire_both() -> None:
        await everything.acquire()
        await slow.acquire()

    async with Scene(controller) as scene:
        await scene.call("s1", "s2", acquire=acquire_both)
        await scene.call("fast", acquire=everything.acquire)
        assert scene.entered == ["s1"]
        scene.held.clear()
