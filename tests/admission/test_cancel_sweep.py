"""Cancelled at any moment that there is, a call keeps no slot and no place in line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.crew import context
from tests.admission.sweeping import Call, hold, hold_in_a_block, hold_unless, open_on
from tests.admission.test_nesting import inner_call
from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import ControllerClosedError, QueueTimeoutError
from tool_engine.model.settings.concurrency import ToolRate

RATE = ToolRate(1, 8.0)


async def hold_at_a_rate(controller: ToolConcurrencyController) -> None:
    request = AdmissionRequest("http", lane="rated", line="rated", rate=RATE)
    slot = await controller.admit(request)
    try:
        await asyncio.sleep(1.0)
    finally:
        controller.release(slot)


async def free(stage: Stage) -> Call:
    return hold(open_on(stage))


async def free_in_a_block(stage: Stage) -> Call:
    return hold_in_a_block(open_on(stage))


async def bypassing(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.beside(hold, controller)
    return hold(controller, context=context("workflow_node"))


async def waiting(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    for _ in range(2):
        stage.beside(hold, controller)
    await stage.settle()
    stage.beside(hold, controller, at=0.5)
    stage.beside(hold, controller, "other", at=0.5)
    return hold_in_a_block(controller)


async def waiting_for_a_bucket(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=3, bucket_limits={"http": 1})
    for _ in range(2):
        stage.beside(hold, controller)
    stage.beside(hold, controller, at=0.5)
    stage.beside(hold, controller, "other", at=0.5)
    return hold(controller)


async def waiting_with_priority(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1, strategy="priority", aging_interval=1.0)
    stage.beside(hold, controller)
    for priority in (1, 9):
        stage.beside(hold, controller, priority=priority, at=0.5)
    return hold(controller, priority=3)


async def behind_a_heavy_one(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=3)
    stage.beside(hold, controller, seconds=2.0)
    stage.beside(hold, controller, weight=3)
    stage.beside(hold, controller, at=0.5)
    return hold(controller)


async def heavy(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=3, bucket_limits={"http": 3})
    stage.beside(hold, controller, "other")
    for bucket in ("http", "other"):
        stage.beside(hold, controller, bucket, at=0.5)
    return hold(controller, weight=3)


async def at_a_rate(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=2)
    stage.slack = RATE.period
    stage.beside(hold_at_a_rate, controller)
    stage.beside(hold_at_a_rate, controller, at=0.5)
    stage.beside(hold, controller, at=0.5)
    return hold_at_a_rate(controller)


async def resuming(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1, bucket_limits={"http": 1})

    async def call() -> None:
        async with (
            controller.slot("http") as outer,
            inner_call(controller, outer) as middle,
            inner_call(controller, middle, bucket="http", lane="http"),
        ):
            await asyncio.sleep(2.0)

    for _ in range(2):
        stage.beside(hold, controller, at=1.0)
    return call()


async def resuming_beside_a_heavy_one(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=2)

    async def call() -> None:
        async with controller.slot("http", weight=2) as outer:
            controller.park(outer)
            try:
                await asyncio.sleep(2.0)
            finally:
                await controller.unpark(outer)
            await asyncio.sleep(1.0)

    stage.beside(hold, controller, seconds=3.0, at=1.0)
    stage.beside(hold, controller, weight=2, at=1.0)
    stage.beside(hold, controller, at=1.5)
    return call()


async def nested_several(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)

    async def call() -> None:
        async with controller.slot("http") as outer, asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(inner(outer))

    async def inner(outer: Any) -> None:
        async with inner_call(controller, outer):
            await asyncio.sleep(1.0)

    stage.beside(hold, controller, at=0.5)
    return call()


async def timing_out(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.beside(hold, controller, seconds=3.0)
    stage.beside(hold, controller, at=0.5)
    return hold_unless(QueueTimeoutError, controller, timeout=2.0)


async def granted_before_its_timeout(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.beside(hold, controller, seconds=2.0)
    await stage.settle()
    stage.beside(hold, controller, at=0.5)
    return hold_unless(QueueTimeoutError, controller, timeout=2.0)


async def timed_out_before_its_grant(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    # The timer of the timeout is older than that of the last nap.
    stage.beside(hold, controller, seconds=1.0, naps=2)
    stage.beside(hold, controller, at=0.25)
    return hold_unless(QueueTimeoutError, controller, timeout=2.0)


async def closing(stage: Stage, *, seconds: float = 2.0) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.was_shut = True
    stage.beside(hold, controller, seconds=2.0)
    stage.beside(controller.close, at=seconds)
    stage.beside(hold_unless, ControllerClosedError, controller, at=0.5)
    stage.at_last = controller.close
    return hold_unless(ControllerClosedError, controller)


async def closing_while_it_runs(stage: Stage) -> Call:
    return await closing(stage, seconds=2.5)


async def closing_while_it_resumes(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.was_shut = True

    async def call() -> None:
        async with controller.slot("http") as outer:
            controller.park(outer)
            try:
                await asyncio.sleep(2.0)
            finally:
                await controller.unpark(outer)

    stage.beside(hold, controller, seconds=2.0, at=1.0)
    stage.beside(controller.close, at=3.0)
    stage.at_last = controller.close
    return call()


async def paused(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    controller.pause()

    stage.beside(hold, controller)
    stage.beside(controller.resume, at=2.0)
    stage.at_last = controller.resume
    stage.beside(hold, controller, at=1.0)
    return hold(controller)


async def draining(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    for _ in range(2):
        stage.beside(hold, controller)
    stage.at_last = controller.resume
    return controller.drain(timeout=5.0)


async def waiting_while_others_drain(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.beside(hold, controller)
    stage.beside(controller.drain, timeout=5.0, at=0.5)
    stage.at_last = controller.resume
    return hold(controller)


SCENES: tuple[Scene, ...] = (
    free,
    free_in_a_block,
    bypassing,
    waiting,
    waiting_for_a_bucket,
    waiting_with_priority,
    behind_a_heavy_one,
    heavy,
    at_a_rate,
    resuming,
    resuming_beside_a_heavy_one,
    nested_several,
    timing_out,
    granted_before_its_timeout,
    timed_out_before_its_grant,
    closing,
    closing_while_it_runs,
    closing_while_it_resumes,
    paused,
    draining,
    waiting_while_others_drain,
)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("way", SWEEPS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_cancelled_at_every_moment(scene: Scene, way: str) -> None:
    """C8, C9, C26: wherever a call is struck, no slot is held, nobody waits, no task and no timer
    is left, the others get what is theirs, and the next hundred calls pass."""
    strikes = list(SWEEPS[way](scene))
    assert strikes or way == "inside"


async def leaking(stage: Stage) -> Call:
    controller = open_on(stage)

    async def call() -> None:
        slot = await controller.acquire("http")
        await asyncio.sleep(1.0)
        controller.release(slot)

    return call()


@pytest.mark.parametrize("way", sorted(SWEEPS.keys() - {"inside"}))
def test_sweep_finds_a_leak(way: str) -> None:
    """C8: a caller that does not give back what it has when it is cancelled does not get past."""
    with pytest.raises(AssertionError, match="current_concurrent=1"):
        list(SWEEPS[way](leaking))
