"""Is room kept for a heavy call only as long as that call could use it?"""

from __future__ import annotations

import asyncio

from tests.admission.conftest import MakeCrew
from tool_engine.admission.request import AdmissionRequest


async def test_a_pause_of_its_bucket_ends_the_reservation(crew_of: MakeCrew) -> None:
    """C4, C16: once the bucket of the heavy call is paused, those behind it go at once."""
    crew = crew_of(max_concurrent=2)
    await crew.call("a")
    await crew.call("heavy", bucket="http", weight=2)
    await crew.call("light")
    assert crew.started == ["a"]
    crew.controller.pause_bucket("http", 10.0)
    await crew.turn()
    assert crew.started == ["a", "light"]


async def test_the_end_of_a_pause_by_hand_brings_it_back(crew_of: MakeCrew) -> None:
    """C17: `pause_bucket(name, 0)` lets those who waited for it go."""
    crew = crew_of()
    crew.controller.pause_bucket("http", 10.0)
    await crew.call("a", bucket="http")
    crew.controller.pause_bucket("http", 0.0)
    await crew.turn()
    assert crew.started == ["a"]


async def test_a_turn_that_was_put_off_keeps_no_room(crew_of: MakeCrew) -> None:
    """C15, C16: calls of the same key that come before a heavy one use all of their bucket."""
    crew = crew_of(max_concurrent=4, strategy="fair", bucket_limits={"a": 2}, queue_timeout=None)
    config = crew.controller.config
    await crew.call(*(f"light {n}" for n in range(20)), bucket="a", key="ann")
    heavy = AdmissionRequest.of(config, "a", key="ann", weight=2)
    heavy.line, heavy.tool_name = "a own", "own"
    heavy.tool_key, heavy.tool_key_limit = "x", 2
    await crew.call("heavy", request=heavy.under(config))
    while "heavy" not in crew.started:
        await asyncio.sleep(1.0)
        running = list(crew.slots)
        assert len(running) == 2 or "light 19" in crew.started
        await crew.end(running[0])
    assert crew.started[-1] == "heavy"
