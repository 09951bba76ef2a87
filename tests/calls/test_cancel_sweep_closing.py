"""Cancelled at any moment while the engine closes, a call still has its one record and event."""

from __future__ import annotations

from itertools import product

import pytest

from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tests.calls.sweeping import Call, open_on


async def closing(stage: Stage, name: str = "slow", moment: float = 0.5) -> Call:
    engine = open_on(stage, close_timeout=0.5)
    stage.was_shut = True

    async def call(which: str) -> None:
        result = await engine.execute(which)
        assert result.error_type in (None, "engine_closed")

    stage.beside(call, "slow", at=0.25)
    stage.beside(engine.close, at=moment)
    return call(name)


async def closing_while_it_runs(stage: Stage) -> Call:
    return await closing(stage, "long")


async def closing_while_it_nests(stage: Stage) -> Call:
    return await closing(stage, "tasking")


async def closing_while_it_pauses(stage: Stage) -> Call:
    return await closing(stage, "flaky", 1.5)


SCENES: tuple[Scene, ...] = (
    closing,
    closing_while_it_runs,
    closing_while_it_nests,
    closing_while_it_pauses,
)


@pytest.mark.parametrize(
    ("scene", "way"),
    [
        pytest.param(scene, way, id=f"{scene.__name__}-{way}")
        for scene, way in product(SCENES, SWEEPS)
    ],
)
def test_cancelled_while_the_engine_closes(scene: Scene, way: str) -> None:
    """C8, C9, C26, U15: wherever a call is struck, it has one record and one final event, no slot
    is held, nobody waits, no task and no timer is left, the others get what is theirs, whoever
    cancelled hears of it, and the next hundred calls pass."""
    assert list(SWEEPS[way](scene))
