"""Faults that random operations found in the controller, each in the fewest steps that show it."""

from __future__ import annotations

import asyncio

from tests.admission.crew import Crew, controller_of
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate
from tool_engine.testing import VirtualLoop, run


def test_a_probe_of_a_breaker_that_is_taken_away_and_comes_back() -> None:
    """C20, C18: the breaker goes on from where it was: its probe is out still, and ends once."""
    breakers = {"a": BreakerPolicy(failures=1, reset_after=1.0, probes=1)}

    async def play() -> None:
        controller = controller_of(max_concurrent=2, breakers=breakers)
        controller.release(await controller.acquire("a"), outcome=False)
        await asyncio.sleep(1.0)
        probe = await controller.acquire("a")
        controller.configure(ConcurrencyConfig(max_concurrent=2))
        controller.release(await controller.acquire("a"), outcome=False)
        controller.configure(ConcurrencyConfig(max_concurrent=2, breakers=breakers))
        assert controller.snapshot().buckets["a"]["breaker"] == "half_open"
        assert controller.try_acquire("a") is None
        controller.release(probe)
        assert controller.get_metrics().current_concurrent == 0
        assert controller.snapshot().buckets["a"]["breaker"] == "closed"

    run(play())


def test_lanes_that_take_the_place_of_others() -> None:
    """C18: a waiter whose lane is another under the new limits stands in line once, not twice."""

    async def play() -> None:
        crew = Crew(max_concurrent=3, bucket_limits={"a": 1}, key_limits={"limit": 3})
        request = AdmissionRequest(
            bucket="a",
            line="a-tool",
            rate=ToolRate(2, 8.0),
            key="k",
            tool_name="tool",
            tool_key="x",
        ).under(crew.controller.config)
        crew.begin("one", request=request)
        await crew.turn()
        crew.begin("two", request=request)
        await crew.turn()
        assert crew.started == ["one"]
        crew.controller.configure(ConcurrencyConfig(max_concurrent=3))
        await crew.turn()
        assert crew.started == ["one", "two"]
        await crew.leave()

    run(play())


def test_the_call_of_a_call_that_has_ended() -> None:
    """C23, C18: it stands in line under the present rules, whatever they were when that call came.

    Its place among others would else be compared with numbers of another kind.
    """

    async def play() -> None:
        crew = Crew(max_concurrent=1, strategy="priority")
        await asyncio.sleep(100.0)
        await crew.call("parent")
        parent = crew.slots["parent"]
        await crew.call("other")
        crew.controller.release(parent)
        await crew.turn()
        crew.controller.configure(ConcurrencyConfig(max_concurrent=1, strategy="fifo"))
        await crew.call("later")
        crew.begin("child", request=AdmissionRequest(parent=parent))
        await crew.turn()
        await crew.end("other")
        assert crew.started == ["parent", "other", "child"]
        await crew.leave()

    run(play())


def test_the_same_operations_have_the_same_outcome() -> None:
    """C28: lanes that a change of the limits makes anew are made in the order of their slots, and
    buckets in that of the configuration; a set would make both chance."""

    async def play() -> list[str]:
        limits = dict.fromkeys("hgfedcba", 1)
        controller = controller_of(max_concurrent=30, bucket_limits=limits)
        for number in range(20):
            await controller.acquire(f"bucket-{number}", key=f"key-{number}")
            await asyncio.sleep(1.0)
        controller.configure(ConcurrencyConfig(max_concurrent=30, key_limits={"limit": 1}))  # type: ignore[arg-type]
        snapshot = controller.snapshot()
        return [*snapshot.buckets, *snapshot.keys]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        names = runner.run(play())
    assert names[:8] == list("hgfedcba")
    assert [name for name in names if name.startswith("key-")] == [f"key-{n}" for n in range(20)]
