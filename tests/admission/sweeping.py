"""Who takes part in the cancellation sweeps of the controller?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.admission.crew import check, controller_of
from tests.calls.cancel_driver import Stage
from tool_engine.admission import ToolConcurrencyController
from tool_engine.errors import AdmissionError, ControllerClosedError

__all__ = ["Call", "Guest", "hold", "hold_in_a_block", "hold_unless", "open_on"]

Call = Coroutine[Any, Any, Any]


class Guest:
    """Asserts that nothing is left in a controller, and that a hundred calls pass."""

    def __init__(self, controller: ToolConcurrencyController, bucket: str) -> None:
        self.controller = controller
        self.bucket = bucket

    async def check(self, *, was_shut: bool) -> None:
        self._check_empty()
        if was_shut:
            with pytest.raises(ControllerClosedError):
                await self.controller.acquire("http")
            return
        async with asyncio.timeout(1.0), asyncio.TaskGroup() as group:
            for _ in range(90):
                await self._pass()
            for _ in range(10):
                group.create_task(self._pass())
        self._check_empty()

    async def _pass(self) -> None:
        async with self.controller.slot(self.bucket):
            await asyncio.sleep(0)

    def _check_empty(self) -> None:
        check(self.controller)
        m = self.controller.get_metrics()
        left = (m.current_concurrent, m.queue_length, m.active, m.parked, m.zombies)
        assert (*left, m.bypass_active) == (0, 0, 0, 0, 0, 0), m
        seen = self.controller.snapshot()
        assert (seen.keys, seen.held, seen.waiting) == ({}, [], []), seen


def open_on(stage: Stage, bucket: str = "http", **limits: Any) -> ToolConcurrencyController:
    controller = controller_of(**{"queue_timeout": None, **limits})
    stage.guests.append(Guest(controller, bucket))
    return controller


async def hold(
    controller: ToolConcurrencyController,
    bucket: str | None = "http",
    seconds: float = 1.0,
    naps: int = 1,
    **how: Any,
) -> None:
    """Takes a slot and gives it back after some time."""
    slot = await controller.acquire(bucket, **how)
    try:
        for _ in range(naps):
            await asyncio.sleep(seconds)
    finally:
        controller.release(slot)


async def hold_in_a_block(controller: ToolConcurrencyController, **how: Any) -> None:
    async with controller.slot("http", **how):
        await asyncio.sleep(1.0)


async def hold_unless(
    kind: type[AdmissionError], controller: ToolConcurrencyController, **how: Any
) -> None:
    with contextlib.suppress(kind):
        await hold(controller, **how)
