"""Cancelled at any moment, a call leaves nothing in keys, shares, breakers, rates and pauses."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from tests.admission.sweeping import Call, hold, hold_in_a_block, hold_unless, open_on
from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tool_engine.admission import ToolConcurrencyController
from tool_engine.errors import QueueTimeoutError
from tool_engine.model.settings.concurrency import BreakerPolicy


async def waiting_for_a_key(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=3, key_limits={"limit": 1})
    for _ in range(2):
        stage.beside(hold, controller, key="ann")
    stage.beside(hold, controller, key="ann", at=0.5)
    stage.beside(hold, controller, "other", key="ann", at=0.5)
    stage.beside(hold, controller, key="bob", at=0.5)
    return hold(controller, key="ann")


async def heavy_in_its_key(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=4, key_limits={"limit": 2})
    stage.beside(hold, controller, key="ann")
    for bucket in ("http", "other"):
        stage.beside(hold, controller, bucket, key="ann", at=0.5)
    return hold(controller, key="ann", weight=2)


async def behind_a_heavy_one_of_its_key(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=4, key_limits={"limit": 2})
    stage.beside(hold, controller, key="ann", seconds=2.0)
    stage.beside(hold, controller, "other", key="ann", weight=2)
    stage.beside(hold, controller, key="ann", at=0.5)
    return hold(controller, key="ann")


async def in_turn(stage: Stage) -> Call:
    shares = {"weights": {"ann": 2.0}}
    controller = open_on(stage, max_concurrent=1, strategy="fair", key_limits=shares)
    for key in ("ann", "ann", "bob"):
        stage.beside(hold, controller, key=key)
    for key in ("ann", "bob", "eve"):
        stage.beside(hold, controller, key=key, at=0.5)
    return hold(controller, key="ann")


async def probing(stage: Stage) -> Call:
    policy = BreakerPolicy(failures=1, reset_after=2.0)
    controller = open_on(stage, max_concurrent=1, breakers={"http": policy})
    with contextlib.suppress(ValueError):
        async with controller.slot("http"):
            raise ValueError
    await asyncio.sleep(2.0)
    stage.beside(hold, controller, "other")
    stage.beside(hold_in_a_block, controller, at=5.0)
    return hold_in_a_block(controller)


async def at_the_rate_of_its_bucket(stage: Stage) -> Call:
    controller = open_on(stage, bucket="other", bucket_rates={"http": "1/8s"})
    stage.slack = 8.0
    stage.beside(hold, controller)
    stage.beside(hold, controller, at=0.5)
    stage.beside(hold, controller, "other", at=0.5)
    return hold(controller)


async def in_a_bucket_that_pauses(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.slack = 3.0
    stage.beside(hold, controller)
    stage.beside(controller.pause_bucket, "http", 2.0, at=0.5)
    stage.beside(hold, controller, at=0.75)
    stage.beside(hold, controller, "other", at=0.75)
    return hold(controller)


def limit(controller: ToolConcurrencyController, most: int) -> None:
    controller.configure(msgspec.structs.replace(controller.config, max_concurrent=most))


async def while_the_limit_changes(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=2)
    for seconds in (2.0, 3.0, 1.0):
        stage.beside(hold, controller, seconds=seconds)
    stage.beside(limit, controller, 1, at=0.5)
    stage.beside(limit, controller, 3, at=1.0)
    stage.beside(hold, controller, at=0.75)
    stage.at_last = lambda: limit(controller, 3)
    return hold(controller)


async def while_keys_come_and_go(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)

    def share(strategy: str) -> None:
        controller.configure(msgspec.structs.replace(controller.config, strategy=strategy))

    stage.beside(hold, controller, key="ann", seconds=2.0)
    stage.beside(hold, controller, key="bob")
    stage.beside(share, "fair", at=0.5)
    stage.beside(hold, controller, key="bob", at=0.75)
    stage.beside(share, "priority", at=2.5)
    stage.at_last = lambda: share("fifo")
    return hold(controller, key="ann")


async def timing_out_among_others(stage: Stage) -> Call:
    controller = open_on(stage, max_concurrent=1)
    stage.beside(hold, controller, seconds=2.5)
    for seconds in (1.0, 2.0, 2.25):
        stage.beside(hold_unless, QueueTimeoutError, controller, timeout=seconds)
    stage.beside(hold, controller)
    return hold_unless(QueueTimeoutError, controller, timeout=2.0)


SCENES: tuple[Scene, ...] = (
    waiting_for_a_key,
    heavy_in_its_key,
    behind_a_heavy_one_of_its_key,
    in_turn,
    probing,
    at_the_rate_of_its_bucket,
    in_a_bucket_that_pauses,
    while_the_limit_changes,
    while_keys_come_and_go,
    timing_out_among_others,
)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("way", SWEEPS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_cancelled_at_every_moment(scene: Scene, way: str) -> None:
    """C8, C14, C15, C17, C18, C20: wherever a call is struck, its key, its turn, its probe and its
    place at a rate are free again, and the others get what is theirs."""
    strikes = list(SWEEPS[way](scene))
    assert strikes or way == "inside"
