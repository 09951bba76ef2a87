"""Cancelled at any moment that there is, a call leaves its one record and nothing else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.calls.audit import STARTED
from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tests.calls.samples import Stubborn, bare
from tests.calls.sweeping import (
    Call,
    Flaky,
    busy_engine,
    fail,
    open_on,
    outer,
    slow,
    succeed,
)
from tool_engine import ToolExecutionContext, ToolExecutionResult, ToolSubAgent

REAL = 20.0
"""Seconds on the clock of the wall in which a thread must have been let go."""


async def suspending(stage: Stage) -> Call:
    return succeed(open_on(stage), "slow")


async def tidying(stage: Stage) -> Call:
    return succeed(open_on(stage), "tidy")


async def waiting_for_tasks(stage: Stage) -> Call:
    return succeed(open_on(stage), "grouping")


async def queued(stage: Stage) -> Call:
    return succeed(busy_engine(stage), "slow")


async def queued_with_a_caller(stage: Stage) -> Call:
    engine = busy_engine(stage, strategy="priority")
    context = ToolExecutionContext(caller_id="ann", priority=1, timeout=5.0)

    async def call() -> None:
        assert (await engine.execute("slow", {}, context)).is_success

    return call()


async def queued_at_a_rate(stage: Stage) -> Call:
    engine = open_on(stage, 2)
    engine.register_tool(bare("rated", rate="1/4s"), slow)
    stage.slack = 4.0
    stage.beside(succeed, engine, "rated")
    stage.beside(succeed, engine, "rated", at=0.5)
    stage.beside(succeed, engine, "slow", at=0.5)
    return succeed(engine, "rated")


async def heavy(stage: Stage) -> Call:
    engine = open_on(stage, 3)
    engine.register_tool(bare("heavy", concurrency={"weight": 3}), slow)
    stage.beside(succeed, engine, "slow")
    stage.beside(succeed, engine, "slow", at=0.5)
    return succeed(engine, "heavy")


async def refused_after_a_wait(stage: Stage) -> Call:
    engine = open_on(stage, queue_timeout=3.0)
    stage.beside(succeed, engine, "long")
    stage.beside(succeed, engine, "slow", at=3.0)
    return fail(engine, "slow", "queue_timeout")


async def retrying(stage: Stage) -> Call:
    return succeed(open_on(stage), "flaky")


async def retrying_among_others(stage: Stage) -> Call:
    engine = busy_engine(stage)
    for moment in (3.0, 3.25, 5.5):
        stage.beside(succeed, engine, "slow", at=moment)
    return succeed(engine, "flaky")


async def out_of_time_in_a_pause(stage: Stage) -> Call:
    engine = open_on(stage)
    # Its slot is taken when its pause ends, and until after its deadline.
    retry = {"attempts": 3, "backoff": 2.0}
    engine.register_tool(bare("late", effect="read", retry=retry, timeout=4.0), Flaky())
    stage.beside(succeed, engine, "long", at=2.0)
    return fail(engine, "late", "timeout")


async def out_of_time(stage: Stage) -> Call:
    engine = open_on(stage)
    engine.register_tool(bare("timed", timeout=2.0), asyncio.Event().wait)
    stage.beside(succeed, engine, "slow", at=0.5)
    return fail(engine, "timed", "timeout")


async def done_at_its_deadline(stage: Stage) -> Call:
    engine = open_on(stage)

    async def call() -> None:
        result = await engine.execute("timed")
        assert result.error_type in (None, "timeout")

    async def timed() -> None:
        await asyncio.sleep(2.0)

    engine.register_tool(bare("timed", timeout=2.0), timed)
    stage.beside(succeed, engine, "slow", at=0.5)
    return call()


async def out_of_time_and_stubborn(stage: Stage) -> Call:
    engine = open_on(stage)
    engine.register_tool(bare("stubborn", timeout=2.0), Stubborn(seconds=3.0))
    stage.beside(succeed, engine, "slow", at=0.5)
    return fail(engine, "stubborn", "timeout")


async def in_a_thread(stage: Stage) -> Call:
    engine = open_on(stage)
    engine.register_tool(bare("plain"), lambda: "plain")
    # The thread begins in the step of the loop that says so.
    engine.subscribe(lambda _: stage.loop.expect_a_thread(), [STARTED], "plain")
    stage.beside(succeed, engine, "slow", at=0.5)
    return succeed(engine, "plain")


async def in_a_thread_past_its_deadline(stage: Stage) -> Call:
    engine = open_on(stage)
    gate = threading.Event()
    starts: list[object] = []

    def let_go() -> None:
        if starts:
            stage.loop.expect_a_thread()
        gate.set()

    def block() -> None:
        assert gate.wait(REAL)

    engine.register_tool(bare("block", timeout=2.0), block)
    engine.subscribe(starts.append, [STARTED], "block")
    stage.after = let_go
    stage.beside(succeed, engine, "slow", at=0.5)
    return fail(engine, "block", "timeout")


async def nested(stage: Stage) -> Call:
    engine = open_on(stage)
    for _ in range(2):
        stage.beside(succeed, engine, "slow", at=0.5)
    return succeed(engine, "outer")


async def nested_out_of_time(stage: Stage) -> Call:
    engine = open_on(stage)
    engine.register_tool(bare("brief", timeout=1.0), outer)
    stage.beside(succeed, engine, "slow", at=0.5)
    return fail(engine, "brief", "timeout")


async def nested_in_gather(stage: Stage) -> Call:
    engine = open_on(stage)
    stage.beside(succeed, engine, "slow", at=0.5)
    return succeed(engine, "gathering")


async def nested_in_a_group(stage: Stage) -> Call:
    engine = open_on(stage)
    stage.beside(succeed, engine, "slow", at=0.5)
    return succeed(engine, "tasking")


async def batch(stage: Stage, *, is_parallel: bool = False) -> Call:
    engine = open_on(stage)
    heard: list[ToolExecutionResult] = []

    async def hear(result: ToolExecutionResult) -> None:
        await asyncio.sleep(0)
        heard.append(result)

    agent = ToolSubAgent("agent", engine, on_result_callback=hear)

    async def call() -> None:
        calls: list[tuple[str, dict[str, Any]]] = [
            (name, {}) for name in ("slow", "middle", "quick", "missing")
        ]
        results = await agent.execute_batch(calls, is_parallel)
        assert [result.is_success for result in results] == [True, True, True, False]
        assert len(heard) == len(agent.history) == 4

    stage.is_throw_absorbed = True
    stage.beside(succeed, engine, "slow", at=0.5)
    return call()


async def parallel_batch(stage: Stage) -> Call:
    return await batch(stage, is_parallel=True)


SCENES: tuple[Scene, ...] = (
    suspending,
    tidying,
    waiting_for_tasks,
    queued,
    queued_with_a_caller,
    queued_at_a_rate,
    heavy,
    refused_after_a_wait,
    retrying,
    retrying_among_others,
    out_of_time,
    out_of_time_in_a_pause,
    done_at_its_deadline,
    out_of_time_and_stubborn,
    in_a_thread,
    in_a_thread_past_its_deadline,
    nested,
    nested_out_of_time,
    nested_in_gather,
    nested_in_a_group,
    batch,
    parallel_batch,
)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("way", SWEEPS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_cancelled_at_every_moment(scene: Scene, way: str) -> None:
    """C8, C9, C26, U15: wherever a call is struck, it has one record and one final event, no slot
    is held, nobody waits, no task and no timer is left, the others get what is theirs, whoever
    cancelled hears of it, and the next hundred calls pass."""
    strikes = list(SWEEPS[way](scene))
    assert strikes or way == "inside"
