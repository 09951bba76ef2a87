"""Faults that random operations found in the controller, each in the fewest steps that show it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.admission.crew import Crew, controller_of
from tests.admission.test_keys import tool_of
from tests.properties.admission_audit import audit
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import CircuitOpenError
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


@pytest.mark.parametrize("is_probe", [False, True])
@pytest.mark.parametrize("is_lent", [False, True])
def test_a_call_that_fails_while_its_breaker_is_taken_away(is_probe: bool, is_lent: bool) -> None:
    """C20, C18: it started under the breaker, so its failure counts in it, as after any edit."""
    breakers = {"a": BreakerPolicy(failures=1, reset_after=1.0, probes=1)}

    async def play() -> None:
        controller = controller_of(max_concurrent=2, breakers=breakers)
        if is_probe:
            controller.release(await controller.acquire("a"), outcome=False)
            await asyncio.sleep(1.0)
        slot = await controller.acquire("a")
        controller.configure(ConcurrencyConfig(max_concurrent=2))
        if is_lent:
            controller.park(slot)
        controller.release(slot, outcome=False)
        controller.configure(ConcurrencyConfig(max_concurrent=2, breakers=breakers))
        assert controller.snapshot().buckets["a"]["breaker"] == "open"
        with pytest.raises(CircuitOpenError):
            await controller.acquire("a")
        audit(controller, None)

    run(play())


GATES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "breaker": {"breakers": {"a": BreakerPolicy(failures=1, reset_after=1.0)}},
    "rate": {"bucket_rates": {"a": ToolRate(9, 1.0)}},
    "keys": {"key_limits": {"limit": 2}},
    "fair": {"strategy": "fair"},
}


@pytest.mark.parametrize("end", ["released", "parked", "overdue", "passed on"])
@pytest.mark.parametrize("after", GATES)
@pytest.mark.parametrize("before", GATES)
def test_what_is_counted_at_the_start_is_what_is_undone(before: str, after: str, end: str) -> None:
    """C9, C18: whatever else bounds a call at its end than at its start, its lane knows who is
    left. Looked at: bucket and tool breakers, rates, key limits, shares, waiters, lent slots."""

    async def play() -> None:
        crew = Crew(max_concurrent=1, **GATES[before])
        await crew.call("a", "b", bucket="a", key="k")
        crew.controller.configure(ConcurrencyConfig(max_concurrent=1, **GATES[after]))
        audit(crew.controller, None)
        slot = crew.slots["a"]
        if end == "parked":
            crew.controller.park(slot)
        elif end == "overdue":
            crew.controller.mark_overdue(slot, None)
        elif end == "passed on":
            crew.tasks["b"].cancel()
        audit(crew.controller, None)
        await crew.end("a")
        audit(crew.controller, None)
        if end != "passed on":
            assert crew.started == ["a", "b"]
            await crew.end("b")
        audit(crew.controller, None)
        assert not any(lane.refs for lane in crew.controller._layout.lanes.values())

    run(play())


async def test_a_call_that_has_left_is_given_no_slot() -> None:
    """The last two that wait, of two buckets, are cancelled: no line stands for one of them."""
    crew = Crew(max_concurrent=1)
    await crew.call("held", bucket="x")
    await crew.call("one", bucket="a")
    await crew.call("other", bucket="b")
    await crew.cancel("other", "one")
    await crew.end("held")
    crew.controller.pause_bucket("c", 1.0)
    metrics = crew.controller.get_metrics()
    assert (metrics.current_concurrent, metrics.queue_length, metrics.active) == (0, 0, 0)
    assert crew.started == ["held"]
    audit(crew.controller, None)
    await crew.leave()


async def test_who_waits_when_an_open_breaker_comes_back() -> None:
    """C20, C18: a call that waits is refused at once, as where the breaker opens before it."""
    breakers = {"a": BreakerPolicy(failures=1, reset_after=60.0)}
    crew = Crew(max_concurrent=1, breakers=breakers)
    await crew.call("fails", bucket="a")
    crew.controller.release(crew.slots.pop("fails"), outcome=False)
    crew.controller.configure(ConcurrencyConfig(max_concurrent=1))
    await crew.call("runs", "waits", bucket="a")
    await crew.call("other", bucket="b")
    crew.controller.configure(ConcurrencyConfig(max_concurrent=1, breakers=breakers))
    await crew.turn()
    assert {name: type(error) for name, error in crew.errors.items()} == {"waits": CircuitOpenError}
    await crew.end("runs")
    await crew.end("other")


async def test_who_waits_when_an_edit_brings_an_open_breaker_back() -> None:
    """C20, C18: the same with the breaker of a tool."""
    policy = BreakerPolicy(failures=1, reset_after=60.0)
    crew = Crew(max_concurrent=1)

    def edited(breaker: BreakerPolicy | None) -> AdmissionRequest:
        tool = msgspec.structs.replace(tool_of(breaker=breaker), rate=ToolRate(9, 1.0))
        return AdmissionRequest.for_tool(tool, crew.controller.config)

    await crew.call("fails", request=edited(policy))
    crew.controller.release(crew.slots.pop("fails"), outcome=False)
    await crew.call("runs", "waits", request=edited(None))
    crew.controller.adopt([edited(policy)])
    await crew.turn()
    assert {name: type(error) for name, error in crew.errors.items()} == {"waits": CircuitOpenError}
    await crew.end("runs")


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
