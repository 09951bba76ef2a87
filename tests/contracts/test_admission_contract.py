"""Every controller keeps to the contract of `AdmissionController`; a new one adds a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError
from tool_engine.interfaces import AdmissionController

LIMIT = 10.0
"""Seconds after which a test has hung."""

CONTROLLERS: dict[str, Callable[[ConcurrencyConfig], AdmissionController]] = {
    "local": ToolConcurrencyController,
}
"""One line per controller."""

HTTP = AdmissionRequest("http", lane="http")
AI = AdmissionRequest("ai", lane="ai")


@pytest.fixture(params=list(CONTROLLERS))
def controller(request: pytest.FixtureRequest) -> AdmissionController:
    config = ConcurrencyConfig(max_concurrent=2, queue_size=1, bucket_limits={"http": 1})
    return CONTROLLERS[request.param](config)


async def waiting(controller: AdmissionController, request: AdmissionRequest) -> asyncio.Task[None]:
    """A call that waits for a slot, and gives it back when it has had it."""
    is_queued = asyncio.Event()

    async def call() -> None:
        controller.release(await controller.admit(request, is_queued.set))

    task = asyncio.create_task(call())
    await is_queued.wait()
    return task


async def test_admit_nowait(controller: AdmissionController) -> None:
    """C1: a slot that names its bucket, or None; it never waits."""
    slot = controller.admit_nowait(HTTP)
    assert slot is not None
    assert slot.bucket == "http"
    assert not slot.is_overdue
    assert controller.admit_nowait(HTTP) is None
    controller.release(slot)
    assert controller.admit_nowait(HTTP) is not None


async def test_admit_waits(controller: AdmissionController) -> None:
    """C2, C29: who finds no slot says so and waits until one is released."""
    async with asyncio.timeout(LIMIT):
        told: list[str] = []
        slot = await controller.admit(HTTP, lambda: told.append("queued"))
        assert told == []
        task = await waiting(controller, HTTP)
        assert not task.done()
        controller.release(slot)
        await task


async def test_no_barging(controller: AdmissionController) -> None:
    """C3: a freed slot belongs to the waiter, although that has not noticed yet."""
    async with asyncio.timeout(LIMIT):
        slot = await controller.admit(HTTP)
        task = await waiting(controller, HTTP)
        controller.release(slot)
        assert controller.admit_nowait(HTTP) is None
        await task


async def test_release_any_number_of_times(controller: AdmissionController) -> None:
    """C9: releasing again never raises and gives nothing to anybody."""
    async with asyncio.timeout(LIMIT):
        first, second = await controller.admit(AI), await controller.admit(AI)
        for _ in range(3):
            controller.release(first)
        third = await controller.admit(AI)
        task = await waiting(controller, AI)
        controller.release(first)
        await asyncio.sleep(0)
        assert not task.done()
        controller.release(second)
        controller.release(third)
        await task


async def test_cancelled_while_waiting(controller: AdmissionController) -> None:
    """C8: a cancelled call keeps nothing, before and after it was given its slot."""
    async with asyncio.timeout(LIMIT):
        for is_released_first in (False, True):
            slot = await controller.admit(HTTP)
            task = await waiting(controller, HTTP)
            if is_released_first:
                controller.release(slot)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            controller.release(slot)
        for _ in range(10):
            slots = [await controller.admit(request) for request in (HTTP, AI)]
            for slot in slots:
                controller.release(slot)


async def test_refusals(controller: AdmissionController) -> None:
    """C6, C7: a refusal is an `AdmissionError` that can be told to a model."""
    async with asyncio.timeout(LIMIT):
        with pytest.raises(AdmissionError) as impossible:
            await controller.admit(AdmissionRequest("http", lane="http", weight=2))
        assert impossible.value.error_type == "rejected"
        slot = await controller.admit(HTTP)
        with pytest.raises(AdmissionError) as late:
            await controller.admit(AdmissionRequest("http", lane="http", timeout=0.001))
        assert late.value.error_type == "queue_timeout"
        task = await waiting(controller, HTTP)
        with pytest.raises(AdmissionError) as full:
            await controller.admit(HTTP)
        assert full.value.error_type == "queue_full"
        controller.release(slot)
        await task
