"""Cancelled at any moment, a call leaves those alone with whom it shares a key or a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tests.calls.samples import bare
from tests.calls.sweeping import Call, long, open_on, slow, succeed, tidy
from tool_engine import ToolEngine, ToolExecutionContext


def keyed(stage: Stage, handler: Any = slow, **concurrency: Any) -> ToolEngine:
    """An engine with room for three, and a tool whose calls meet."""
    engine = open_on(stage, 3)
    engine.register_tool(bare("keyed", effect="read", concurrency=concurrency), handler)
    return engine


async def end(engine: ToolEngine, name: str, *error_types: str | None) -> None:
    result = await engine.execute(name)
    assert result.error_type in error_types, result


async def leading(stage: Stage) -> Call:
    engine = keyed(stage, collision="single_flight")
    for moment in (0.25, 0.5):
        stage.beside(succeed, engine, "keyed", at=moment)
    return succeed(engine, "keyed")


async def following(stage: Stage) -> Call:
    engine = keyed(stage, collision="single_flight")
    stage.beside(succeed, engine, "keyed")
    stage.beside(succeed, engine, "keyed", at=0.5)
    return succeed(engine, "keyed")


async def leading_in_a_queue(stage: Stage) -> Call:
    engine = keyed(stage, collision="single_flight", weight=3)
    stage.beside(succeed, engine, "slow")
    stage.beside(succeed, engine, "keyed", at=0.5)
    return succeed(engine, "keyed")


async def superseded(stage: Stage) -> Call:
    engine = keyed(stage, key="tool", collision="cancel_in_progress")
    for moment in (0.25, 0.5):
        stage.beside(end, engine, "keyed", None, "cancelled", at=moment)
    return end(engine, "keyed", "cancelled")


async def superseding(stage: Stage) -> Call:
    engine = keyed(stage, key="tool", collision="cancel_in_progress")
    stage.beside(end, engine, "keyed", None, "cancelled")
    stage.beside(end, engine, "keyed", None, "cancelled", at=0.5)
    return end(engine, "keyed", None, "cancelled")


async def superseding_one_that_tidies_up(stage: Stage) -> Call:
    engine = keyed(stage, tidy, key="tool", collision="cancel_in_progress")
    stage.beside(end, engine, "keyed", None, "cancelled")
    stage.beside(succeed, engine, "slow", at=0.5)
    return end(engine, "keyed", None, "cancelled")


async def newest_in_the_queue(stage: Stage) -> Call:
    engine = keyed(stage, long, key="tool", collision="keep_newest_queued")
    stage.beside(succeed, engine, "keyed")
    stage.beside(end, engine, "keyed", None, "cancelled")
    stage.beside(succeed, engine, "keyed", at=1.0)
    return end(engine, "keyed", "cancelled")


async def queued_for_its_key(stage: Stage) -> Call:
    engine = keyed(stage, key="caller_id", key_limit=1)

    async def call(name: str) -> None:
        result = await engine.execute("keyed", {}, ToolExecutionContext(caller_id=name))
        assert result.is_success, result

    for name, moment in (("ann", 0.0), ("ann", 0.5), ("bob", 0.5)):
        stage.beside(call, name, at=moment)
    return call("ann")


SCENES: tuple[Scene, ...] = (
    leading,
    following,
    leading_in_a_queue,
    superseded,
    superseding,
    superseding_one_that_tidies_up,
    newest_in_the_queue,
    queued_for_its_key,
)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("way", SWEEPS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_cancelled_at_every_moment(scene: Scene, way: str) -> None:
    """C8, C14, C22: wherever a call is struck, a shared run goes on or begins anew for the others,
    a key is free again, and each call has its one record and final event."""
    strikes = list(SWEEPS[way](scene))
    assert strikes or way == "inside"
