"""Every controller keeps to the contract of `AdmissionController`; a new one adds a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tool_engine.admission import ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError
from tool_engine.interfaces import AdmissionController
from tool_engine.model.call import ToolExecutionContext

LIMIT = 10.0
"""Seconds after which a test has hung."""

CONTROLLERS: dict[str, Callable[[ConcurrencyConfig], AdmissionController]] = {
    "local": ToolConcurrencyController,
}
"""One line per controller."""


@pytest.fixture(params=list(CONTROLLERS))
def controller(request: pytest.FixtureRequest) -> AdmissionController:
    config = ConcurrencyConfig(max_concurrent=2, queue_size=1, bucket_limits={"http": 1})
    return CONTROLLERS[request.param](config)


async def waiting(controller: AdmissionController, bucket: str) -> asyncio.Task[None]:
    """A call that waits for a slot, and gives it back when it has had it."""

    async def call() -> None:
        async with controller.slot(bucket):
            pass

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_acquire_and_release(controller: AdmissionController) -> None:
    """C1: a slot names its bucket and its wait, and can be given back."""
    async with asyncio.timeout(LIMIT):
        slot = await controller.acquire(
            "http", context=ToolExecutionContext(caller_id="ann"), priority=1, weight=1, timeout=5.0
        )
    assert slot.bucket == "http"
    assert slot.queue_wait == 0.0
    controller.release(slot)


async def test_acquire_waits(controller: AdmissionController) -> None:
    """C2: who finds no slot waits until one is released."""
    async with asyncio.timeout(LIMIT):
        slot = await controller.acquire("http")
        task = await waiting(controller, "http")
        controller.release(slot)
        await task


async def test_release_any_number_of_times(controller: AdmissionController) -> None:
    """C9: releasing again never raises and gives nothing to anybody."""
    async with asyncio.timeout(LIMIT):
        first, second = await controller.acquire("a"), await controller.acquire("b")
        for _ in range(3):
            controller.release(first)
        third = await controller.acquire("c")
        task = await waiting(controller, "d")
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
            slot = await controller.acquire("http")
            task = await waiting(controller, "http")
            if is_released_first:
                controller.release(slot)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            controller.release(slot)
        for _ in range(10):
            async with controller.slot("http"), controller.slot("ai"):
                pass


async def test_refusals(controller: AdmissionController) -> None:
    """C6, C7: a refusal is an `AdmissionError` that can be told to a model."""
    async with asyncio.timeout(LIMIT):
        with pytest.raises(AdmissionError) as impossible:
            await controller.acquire("http", weight=2)
        assert impossible.value.error_type == "rejected"
        slot = await controller.acquire("http")
        with pytest.raises(AdmissionError) as late:
            await controller.acquire("http", timeout=0.001)
        assert late.value.error_type == "queue_timeout"
        task = await waiting(controller, "http")
        with pytest.raises(AdmissionError) as full:
            await controller.acquire("http")
        assert full.value.error_type == "queue_full"
        controller.release(slot)
        await task


async def test_slot_is_released_on_errors(controller: AdmissionController) -> None:
    """C1: leaving the block gives the slot back, however it is left."""
    async with asyncio.timeout(LIMIT):
        for _ in range(3):
            with pytest.raises(ConnectionError):
                async with controller.slot("http"):
                    raise ConnectionError
