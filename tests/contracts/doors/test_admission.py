"""Every controller keeps to the contract of `AdmissionController`; a new one adds a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.contracts.doors.far_controller import FarController
from tests.contracts.doors.wire import Wire
from tests.properties.admission_ledger import WatchedController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, ControllerClosedError
from tool_engine.interfaces import AdmissionController

LIMIT = 1_000.0
"""Virtual seconds after which a test has hung."""
A_WHILE = 30.0
"""Virtual seconds in which all messages have arrived that ever will."""


def local(config: ConcurrencyConfig) -> tuple[AdmissionController, WatchedController]:
    """The controller of this process, which is the one that decides."""
    made = WatchedController(config, asyncio.get_running_loop().time)
    return made, made


def far(config: ConcurrencyConfig) -> tuple[AdmissionController, WatchedController]:
    """One behind a line that delays, loses and doubles messages."""
    decides = WatchedController(config, asyncio.get_running_loop().time)
    return FarController(decides, Wire()), decides


CONTROLLERS: dict[
    str, Callable[[ConcurrencyConfig], tuple[AdmissionController, WatchedController]]
] = {"local": local, "far": far}
"""One line per controller: how it is made, and what looks on at what is really given."""


def http(**fields: Any) -> AdmissionRequest:
    """A request of its own: one remembers where it stands in its controller."""
    return AdmissionRequest("http", lane="http", **fields)


def ai(**fields: Any) -> AdmissionRequest:
    return AdmissionRequest("ai", lane="ai", **fields)


@pytest.fixture(params=list(CONTROLLERS))
async def controller(request: pytest.FixtureRequest) -> AsyncIterator[AdmissionController]:
    config = ConcurrencyConfig(
        max_concurrent=2, queue_size=1, bucket_limits={"http": 1}, queue_timeout=None
    )
    made, decides = CONTROLLERS[request.param](config)
    async with asyncio.timeout(LIMIT):
        yield made
        await asyncio.sleep(A_WHILE)
        decides.check()
        decides.check_idle()
        metrics = made.get_metrics()
        assert (metrics.current_concurrent, metrics.queue_length) == (0, 0)


async def waiting(
    controller: AdmissionController, request: AdmissionRequest
) -> asyncio.Task[float]:
    """A call that waits for a slot, and gives it back when it has had it."""
    is_queued = asyncio.Event()

    async def call() -> float:
        slot = await controller.admit(request, is_queued.set)
        controller.release(slot)
        return slot.queue_wait

    task = asyncio.create_task(call())
    await is_queued.wait()
    return task


async def test_admit_nowait(controller: AdmissionController) -> None:
    """C1: a slot that names its bucket, or None; it never waits."""
    slot = controller.admit_nowait(http())
    assert (slot is not None) == (not isinstance(controller, FarController))
    slot = slot or await controller.admit(http())
    assert slot.bucket == "http"
    assert not slot.is_overdue
    assert not slot.is_released
    assert controller.admit_nowait(http()) is None
    controller.release(slot)
    assert slot.is_released


async def test_admit_waits(controller: AdmissionController) -> None:
    """C2, C29: a call that finds no slot says so and waits until one is released."""
    told: list[str] = []
    slot = await controller.admit(http(), lambda: told.append("queued"))
    assert told == []
    task = await waiting(controller, http())
    await asyncio.sleep(A_WHILE)
    assert not task.done()
    controller.release(slot)
    assert await task >= A_WHILE


async def test_the_time_of_a_slot_is_the_loops(controller: AdmissionController) -> None:
    """C2: a call's time runs from `acquired_at`, on the clock of the loop."""
    loop = asyncio.get_running_loop()
    slot = await controller.admit(http())
    asked, asked_for = loop.time(), http()
    task = asyncio.create_task(controller.admit(asked_for))
    await asyncio.sleep(A_WHILE)
    controller.release(slot)
    second = await task
    assert second.acquired_at == loop.time()
    assert second.queue_wait == pytest.approx(loop.time() - asked)
    assert second.request is asked_for
    controller.release(second)


async def test_no_barging(controller: AdmissionController) -> None:
    """C3: a freed slot belongs to the waiter, although that has not noticed yet."""
    slot = await controller.admit(http())
    task = await waiting(controller, http())
    controller.release(slot)
    assert controller.admit_nowait(http()) is None
    await task


async def test_release_any_number_of_times(controller: AdmissionController) -> None:
    """C9: releasing again never raises and gives nothing away."""
    first, second = await controller.admit(ai()), await controller.admit(ai())
    for _ in range(3):
        controller.release(first)
    third = await controller.admit(ai())
    task = await waiting(controller, ai())
    controller.release(first)
    await asyncio.sleep(A_WHILE)
    assert not task.done()
    controller.release(second)
    controller.release(third)
    await task


async def test_cancelled_while_waiting(controller: AdmissionController) -> None:
    """C8: a cancelled call keeps nothing, before and after it was given its slot."""
    for is_released_first in (False, True):
        slot = await controller.admit(http())
        task = await waiting(controller, http())
        if is_released_first:
            controller.release(slot)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        controller.release(slot)
        await asyncio.sleep(A_WHILE)  # that it has gone may be known late where lines are
    for _ in range(10):
        slots = [await controller.admit(request) for request in (http(), ai())]
        for slot in slots:
            controller.release(slot)


async def test_refusals(controller: AdmissionController) -> None:
    """C6, C7: a refusal is an `AdmissionError` that can be told to a model."""
    with pytest.raises(AdmissionError) as impossible:
        await controller.admit(http(weight=2))
    assert impossible.value.error_type == "rejected"
    slot = await controller.admit(http())
    with pytest.raises(AdmissionError) as late:
        await controller.admit(http(timeout=0.001))
    assert late.value.error_type == "queue_timeout"
    task = await waiting(controller, http())
    with pytest.raises(AdmissionError) as full:
        await controller.admit(http())
    assert full.value.error_type == "queue_full"
    controller.release(slot)
    await task


async def test_lending(controller: AdmissionController) -> None:
    """C23: a lent slot lets a call of its call run, and comes back before newcomers get one."""
    outer = await controller.admit(http())
    controller.park(outer)
    inner = await controller.admit(http(parent=outer))
    task = await waiting(controller, http())
    back = asyncio.create_task(controller.unpark(outer))
    await asyncio.sleep(A_WHILE)
    assert not back.done()
    controller.release(inner)
    await back
    await asyncio.sleep(A_WHILE)
    assert not task.done()
    controller.release(outer)
    await task


async def test_lent_twice(controller: AdmissionController) -> None:
    """C23: of two calls at once of one call, the slot comes back when the last one has ended."""
    outer = await controller.admit(http())
    nested = http(parent=outer)
    controller.park(outer)
    controller.park(outer)
    inner = await controller.admit(nested)
    await controller.unpark(outer)
    controller.release(inner)
    await controller.unpark(outer)
    task = await waiting(controller, http())
    await asyncio.sleep(A_WHILE)
    assert not task.done()
    controller.release(outer)
    await task


@pytest.mark.parametrize("way", ["stays", "asks back", "waits", "waits in vain"])
async def test_released_while_lent(controller: AdmissionController, way: str) -> None:
    """C9, C23: a call may end while its slot is lent, or on its way back; nothing waits for it."""
    outer = await controller.admit(http())
    controller.park(outer)
    inner = await controller.admit(http())
    back: asyncio.Task[None] | None = None
    if way == "stays":
        controller.stay_parked(outer)
    elif way == "asks back":
        controller.unpark_nowait(outer)
    else:
        back = asyncio.create_task(controller.unpark(outer))
        await asyncio.sleep(A_WHILE)
    if way == "waits in vain" and back is not None:
        back.cancel()
        await asyncio.wait([back])
    controller.release(outer)
    if back is not None:
        await asyncio.wait([back])
    controller.release(inner)
    controller.release(await controller.admit(http()))


async def test_overdue(controller: AdmissionController) -> None:
    """C21: the slot of a call that has ended stays taken until its work has stopped."""
    slot = await controller.admit(http())
    controller.mark_overdue(slot)
    assert slot.is_overdue
    task = await waiting(controller, http())
    await asyncio.sleep(A_WHILE)
    assert not task.done()
    assert not slot.is_released
    assert controller.get_metrics().zombies == 1
    controller.release(slot)
    await task


async def test_close(controller: AdmissionController) -> None:
    """C27: those that wait are refused, those that come too, and what is held comes back."""
    slot = await controller.admit(http())
    task = await waiting(controller, http())
    for _ in range(2):
        controller.close()
    with pytest.raises(ControllerClosedError):
        await task
    with pytest.raises(ControllerClosedError):
        await controller.admit(ai())
    assert not await controller.drain(0.5)
    drained = asyncio.create_task(controller.drain())
    await asyncio.sleep(A_WHILE)
    assert not drained.done()
    controller.release(slot)
    assert await drained


async def test_drain(controller: AdmissionController) -> None:
    """C27: new calls are refused; those of a call that runs are not."""
    outer = await controller.admit(ai())
    drained = asyncio.create_task(controller.drain())
    await asyncio.sleep(0)
    with pytest.raises(AdmissionError):
        await controller.admit(ai())
    controller.park(outer)
    controller.release(await controller.admit(ai(parent=outer)))
    await controller.unpark(outer)
    assert not drained.done()
    controller.release(outer)
    assert await drained
