"""Ended from outside at any moment that there is, a call has its result and leaves nothing else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.calls.audit import STARTED
from tests.calls.cancel_driver import Scene, Stage, stop_at_callbacks
from tests.calls.samples import Stubborn, bare
from tests.calls.sweeping import Call, busy_engine, open_on, slow, succeed
from tests.calls.test_cancel_sweep_consent import answering, office_of
from tool_engine import ToolEngine, ToolExecutionContext

REAL = 20.0


def watched(
    stage: Stage,
    engine: ToolEngine,
    name: str,
    ends: str | None = None,
    context: ToolExecutionContext | None = None,
) -> Call:
    """A call whose result is what the engine said: cancelled, exactly where it said so."""
    call_id = engine.calls.reserve_id()
    stage.stop = lambda: engine._pipeline.present.stop(call_id, "enough")

    async def call() -> None:
        result = await engine.execute(name, {}, context, call_id=call_id)
        assert result.call_id == call_id
        if stage.hits:
            assert (result.error_type, result.error) == (
                "cancelled",
                "the call was cancelled from outside: enough",
            )
        else:
            assert result.error_type == ends

    return call()


async def running(stage: Stage) -> Call:
    return watched(stage, open_on(stage), "slow")


async def tidying(stage: Stage) -> Call:
    return watched(stage, open_on(stage), "tidy")


async def waiting_for_tasks(stage: Stage) -> Call:
    return watched(stage, open_on(stage), "grouping")


async def stubborn(stage: Stage) -> Call:
    engine = open_on(stage)
    engine.register_tool(bare("stubborn", timeout=5.0), Stubborn(seconds=3.0))
    stage.beside(succeed, engine, "slow", at=0.5)
    return watched(stage, engine, "stubborn", "timeout")


async def queued(stage: Stage) -> Call:
    return watched(stage, busy_engine(stage), "slow")


async def queued_at_a_rate(stage: Stage) -> Call:
    engine = open_on(stage, 2)
    engine.register_tool(bare("rated", rate="1/4s"), slow)
    stage.slack = 4.0
    stage.beside(succeed, engine, "rated")
    stage.beside(succeed, engine, "rated", at=0.5)
    return watched(stage, engine, "rated")


async def retrying(stage: Stage) -> Call:
    engine = open_on(stage)
    stage.beside(succeed, engine, "slow", at=0.5)
    return watched(stage, engine, "flaky")


async def out_of_time(stage: Stage) -> Call:
    engine = open_on(stage)
    engine.register_tool(bare("timed", timeout=2.0), asyncio.Event().wait)
    stage.beside(succeed, engine, "slow", at=0.5)
    return watched(stage, engine, "timed", "timeout")


async def in_a_thread(stage: Stage) -> Call:
    engine = open_on(stage)
    gate = threading.Event()

    def plain() -> str:
        assert gate.wait(REAL)
        return "plain"

    engine.register_tool(bare("plain"), plain)

    def begin(_: object) -> None:
        stage.loop.expect_a_thread()
        gate.set()

    engine.subscribe(begin, [STARTED], "plain")
    stage.beside(succeed, engine, "slow", at=0.5)
    return watched(stage, engine, "plain")


async def nested(stage: Stage) -> Call:
    engine = open_on(stage)
    for _ in range(2):
        stage.beside(succeed, engine, "slow", at=0.5)
    return watched(stage, engine, "outer")


async def nested_in_a_group(stage: Stage) -> Call:
    engine = open_on(stage)
    stage.beside(succeed, engine, "slow", at=0.5)
    return watched(stage, engine, "tasking")


async def asking(stage: Stage) -> Call:
    engine = open_on(stage)
    office, context = office_of(stage)
    answering(stage, office, (0.5,))
    return watched(stage, engine, "slow", None, context)


async def asking_and_queued(stage: Stage) -> Call:
    engine = busy_engine(stage)
    office, context = office_of(stage)
    answering(stage, office, (0.25, 0.75))
    return watched(stage, engine, "slow", None, context)


async def following(stage: Stage) -> Call:
    engine = open_on(stage)
    shared: dict[str, Any] = {"effect": "read", "concurrency": {"collision": "single_flight"}}
    engine.register_tool(bare("shared", **shared), slow)
    stage.beside(succeed, engine, "shared")
    return watched(stage, engine, "shared")


async def followed(stage: Stage) -> Call:
    """Those that follow a call that is stopped lead themselves."""
    engine = open_on(stage)
    shared: dict[str, Any] = {"effect": "read", "concurrency": {"collision": "single_flight"}}
    engine.register_tool(bare("shared", **shared), slow)
    stage.beside(succeed, engine, "shared", at=0.5)
    return watched(stage, engine, "shared")


SCENES: tuple[Scene, ...] = (
    running,
    tidying,
    waiting_for_tasks,
    stubborn,
    queued,
    queued_at_a_rate,
    retrying,
    out_of_time,
    in_a_thread,
    nested,
    nested_in_a_group,
    asking,
    asking_and_queued,
    following,
    followed,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_stopped_at_every_moment(scene: Scene) -> None:
    """Wherever a call is stopped, its caller has a result that says so and why, it has one record
    and one final event, no slot is held, nobody waits, and the others get what is theirs."""
    assert stop_at_callbacks(scene) > 0
