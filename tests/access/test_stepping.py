"""Does work whose first step was taken by hand end like any other?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tool_engine.access.stepping import go_on


async def end_at_once() -> str:
    await asyncio.sleep(0)
    return "done"


async def stay_calm() -> str:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "calm"
    return "never"


async def tidy_up() -> str:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        return "tidy"
    return "never"


async def take_and_go_on(work: Coroutine[Any, Any, str]) -> str:
    waited_for = work.send(None)
    return await go_on(work, waited_for)


@pytest.mark.parametrize(
    ("make", "said"), [(end_at_once, "done"), (stay_calm, "calm"), (tidy_up, "tidy")]
)
async def test_how_it_ends(make: Callable[[], Coroutine[Any, Any, str]], said: str) -> None:
    """What it makes of a cancellation is its own affair."""
    task = asyncio.create_task(take_and_go_on(make()))
    await asyncio.sleep(0)
    if make is not end_at_once:
        task.cancel()
    assert await task == said


async def test_a_cancellation_that_it_leaves_alone() -> None:
    """It ends as cancelled."""
    task = asyncio.create_task(take_and_go_on(asyncio.sleep(3600, "never")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
