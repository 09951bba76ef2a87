"""Calls that make calls: the slot of the outer call is parked while the inner one runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, check, context, controller_of
from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import ControllerClosedError, QueueTimeoutError, ToolEngineError


def nested(parent: ConcurrencySlot, **fields: Any) -> AdmissionRequest:
    return AdmissionRequest(parent=parent, **fields)


@asynccontextmanager
async def inner_call(
    controller: ToolConcurrencyController, outer: ConcurrencySlot, **fields: Any
) -> AsyncIterator[ConcurrencySlot]:
    """What the pipeline does around a nested call."""
    controller.park(outer)
    try:
        slot = await controller.admit(nested(outer, **fields))
        try:
            yield slot
        finally:
            controller.release(slot)
    finally:
        await controller.unpark(outer)


async def test_nested_call_at_limit_one() -> None:
    """C23: with one slot in all, the inner call runs while the outer one's slot is parked."""
    controller = controller_of(max_concurrent=1, bucket_limits={"http": 1})
    async with controller.slot("http") as outer:
        async with inner_call(controller, outer, bucket="http", lane="http"):
            metrics = controller.get_metrics()
            assert (metrics.active, metrics.parked, metrics.current_concurrent) == (1, 1, 1)
            check(controller)
        assert outer.state == "active"
        assert controller.get_metrics().parked == 0
    check(controller)
    assert controller.get_metrics().current_concurrent == 0


async def test_nested_calls_fifty_deep(crew_of: MakeCrew) -> None:
    """C23: at any depth, and with strangers in the queue who get no less than their turn."""
    crew = crew_of(max_concurrent=1)
    controller = crew.controller
    await crew.call("outer", "stranger")

    async def descend(slot: ConcurrencySlot, depth: int) -> int:
        check(controller)
        if depth == 50:
            return depth
        async with inner_call(controller, slot) as inner:
            return await descend(inner, depth + 1)

    task = asyncio.create_task(descend(crew.slots["outer"], 0))
    await crew.turn()
    await crew.end("stranger")
    assert await task == 50
    await crew.turn()
    assert controller.get_metrics().parked == 0
    assert controller.get_metrics().active == 1


async def test_gathered_nested_calls(crew_of: MakeCrew) -> None:
    """C23: many inner calls at once share the outer slot's place; it is taken again after all."""
    crew = crew_of(max_concurrent=2)
    controller = crew.controller
    await crew.call("outer")
    outer = crew.slots["outer"]
    states: list[str] = []

    async def inner(seconds: float) -> None:
        async with inner_call(controller, outer):
            states.append(outer.state)
            await asyncio.sleep(seconds)
            check(controller)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(inner(1.0 + number))
    assert states == ["parked"] * 10
    assert outer.state == "active"
    assert outer.nested == 0
    check(controller)


async def test_nested_calls_keep_the_place_of_their_parent(crew_of: MakeCrew) -> None:
    """C23: what an old call asks for goes before what was asked after that call came."""
    crew = crew_of(max_concurrent=1)
    await crew.call("old")
    await crew.call("s1", "s2")
    old = crew.slots["old"]
    crew.controller.park(old)
    await crew.turn()
    assert crew.started == ["old", "s1"]
    await crew.call("inner1", "inner2", request=nested(old))
    await crew.end("s1")
    assert crew.started[-1] == "inner1"
    await crew.end("inner1")
    assert crew.started[-1] == "inner2"
    resumed = asyncio.create_task(crew.controller.unpark(old))
    await crew.turn()
    await crew.end("inner2")
    assert resumed.done()
    assert crew.started[-1] == "inner2"
    await crew.end("old")
    assert crew.started[-1] == "s2"


async def test_nested_calls_inherit_priority(crew_of: MakeCrew) -> None:
    """C23, C5: the inner call of an urgent call is as urgent."""
    crew = crew_of(max_concurrent=1, strategy="priority")
    await crew.call("urgent", priority=1)
    await crew.call("holder", priority=9)
    crew.controller.park(crew.slots["urgent"])
    await crew.turn()
    await crew.call("usual", priority=5)
    await crew.call("inner", request=nested(crew.slots["urgent"]))
    await crew.end("holder")
    assert crew.started[-1] == "inner"


async def test_nested_calls_do_not_fill_the_queue(crew_of: MakeCrew) -> None:
    """C6, C23: a running call is not refused in the middle, neither by queue_size nor `reject`."""
    for limits in ({"queue_size": 0}, {"strategy": "reject"}):
        crew = crew_of(max_concurrent=1, **limits)
        await crew.call("outer")
        crew.controller.park(crew.slots["outer"])
        await crew.call("i1", "i2", request=nested(crew.slots["outer"]))
        assert crew.controller.get_metrics().queue_length == 1
        await crew.call("stranger")
        assert list(crew.errors) == ["stranger"]
        await crew.end("i1")
        assert crew.started[-1] == "i2"


async def test_parked_slot_is_taken_again_first(crew_of: MakeCrew) -> None:
    """C23: a call that goes on is ahead of all who have not started, heavy and urgent ones too."""
    crew = crew_of(max_concurrent=2, strategy="priority")
    await crew.call("outer", weight=2)
    await crew.call("heavy", weight=2)
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.turn()
    resumed = asyncio.create_task(crew.controller.unpark(outer))
    await crew.call("urgent", priority=-9)
    await crew.end("heavy")
    assert resumed.done()
    assert outer.state == "active"
    assert crew.started == ["outer", "heavy"]
    await crew.end("outer")
    assert crew.started[-1] == "urgent"


async def test_cancel_while_unparking(crew_of: MakeCrew) -> None:
    """C8, C23: its call may go on, and has its slot again; when it ends, others go on."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.call("holder")
    resumed = asyncio.create_task(crew.controller.unpark(outer))
    await crew.call("next")
    resumed.cancel()
    await crew.turn()
    assert resumed.cancelled()
    assert outer.state == "parked"
    await crew.end("holder")
    assert (outer.state, crew.started[-1]) == ("active", "holder")
    await crew.end("outer")
    assert crew.started[-1] == "next"
    assert crew.controller.get_metrics().parked == 0


async def test_cancel_after_the_slot_was_taken_again(crew_of: MakeCrew) -> None:
    """C8, C23: the slot is the call's, which gives it back as it ends, once."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.call("holder", "next")
    resumed = asyncio.create_task(crew.controller.unpark(outer))
    await crew.turn()
    crew.controller.release(crew.slots.pop("holder"))
    assert outer.state == "active"
    resumed.cancel()
    await crew.turn()
    assert resumed.cancelled()
    assert crew.started == ["outer", "holder"]
    await crew.end("outer")
    assert crew.started[-1] == "next"


async def test_release_while_parked(crew_of: MakeCrew) -> None:
    """C9, C23: a parked slot holds nothing, so giving it back gives nothing."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    crew.controller.park(crew.slots["outer"])
    await crew.call("next", "last")
    outer = crew.slots["outer"]
    await crew.end("outer")
    metrics = crew.controller.get_metrics()
    assert (metrics.parked, metrics.active, metrics.current_concurrent) == (0, 1, 1)
    await crew.controller.unpark(outer)
    assert crew.started == ["outer", "next"]


async def test_stay_parked(crew_of: MakeCrew) -> None:
    """C23: a call that ends at once does not wait for a slot that it would only give back."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.call("next")
    crew.controller.stay_parked(outer)
    assert (outer.state, outer.nested) == ("parked", 0)
    assert crew.controller.get_metrics().queue_length == 0
    await crew.end("outer")
    assert crew.started == ["outer", "next"]


async def test_release_while_unparking(crew_of: MakeCrew) -> None:
    """C9, C23: the wait for the slot ends, and the slot goes to the next."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.call("holder", "next")
    resumed = asyncio.create_task(crew.controller.unpark(outer))
    await crew.turn()
    await crew.end("outer")
    assert resumed.done()
    metrics = crew.controller.get_metrics()
    assert (metrics.parked, metrics.queue_length, metrics.total_rejected_in_queue) == (0, 1, 1)
    await crew.end("holder")
    assert crew.started[-1] == "next"


async def test_another_nested_call_while_unparking(crew_of: MakeCrew) -> None:
    """C23: the slot is not wanted back while another inner call runs; it is afterwards."""
    crew = crew_of(max_concurrent=1)
    controller = crew.controller
    await crew.call("outer")
    outer = crew.slots["outer"]
    controller.park(outer)
    await crew.call("holder")
    first = asyncio.create_task(controller.unpark(outer))
    await crew.turn()
    controller.park(outer)
    await crew.turn()
    assert first.done()
    assert outer.state == "parked"
    second = asyncio.create_task(controller.unpark(outer))
    await crew.turn()
    assert not second.done()
    await crew.end("holder")
    assert second.done()
    assert outer.state == "active"


async def test_bypassing_callers_nest(crew_of: MakeCrew) -> None:
    """C12, C23: a slot that does not count is not lent out either."""
    crew = crew_of(max_concurrent=1)
    await crew.call("w", context=context("workflow_node"))
    slot = crew.slots["w"]
    crew.controller.park(slot)
    assert crew.controller.get_metrics().parked == 0
    await crew.controller.unpark(slot)
    assert (slot.state, slot.nested) == ("bypass", 0)


@pytest.mark.parametrize("strategy", ["fifo", "priority"])
async def test_bypassing_caller_asks_for_others(crew_of: MakeCrew, strategy: str) -> None:
    """C5, C12: a counted call made by one that is not has the place its maker would have had."""
    crew = crew_of(max_concurrent=1, strategy=strategy)
    await crew.call("holder")
    await asyncio.sleep(1.0)
    await crew.call("before")
    await crew.call("w", context=context("workflow_node"))
    await crew.call("after")
    await crew.call("inner", request=nested(crew.slots["w"]))
    for name in ("holder", "before", "inner", "after"):
        assert crew.started[-1] in (name, "w")
        await crew.end(name)


async def test_overdue_while_parked(crew_of: MakeCrew) -> None:
    """C10, C23: a call that ran out of time while parked is a zombie once it goes on."""
    crew = crew_of(max_concurrent=3, max_zombies=1)
    await crew.call("outer")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    crew.controller.mark_overdue(outer)
    assert crew.controller.get_metrics().zombies == 0
    await crew.call("before")
    await crew.controller.unpark(outer)
    assert crew.controller.get_metrics().zombies == 1
    await crew.call("after")
    assert crew.started == ["outer", "before"]
    crew.controller.park(outer)
    await crew.controller.unpark(outer)
    await crew.end("outer")
    assert crew.controller.get_metrics().zombies == 0


async def test_nested_queue_timeout(crew_of: MakeCrew) -> None:
    """C7, C23: an inner call waits no longer than another; its parent goes on."""
    crew = crew_of(max_concurrent=1, queue_timeout=5.0)
    await crew.call("outer")
    outer = crew.slots["outer"]
    crew.controller.park(outer)
    await crew.call("holder")
    await crew.call("inner", request=nested(outer))
    await asyncio.sleep(6.0)
    assert isinstance(crew.errors["inner"], QueueTimeoutError)
    resumed = asyncio.create_task(crew.controller.unpark(outer))
    await asyncio.sleep(100.0)
    assert not resumed.done()
    await crew.end("holder")
    assert resumed.done()


async def outer_that_unparks(crew: Crew) -> asyncio.Task[None]:
    """An outer call whose inner one has ended, and whose slot another call has."""
    await crew.call("outer")
    crew.controller.park(crew.slots["outer"])
    await crew.call("holder")
    task = asyncio.create_task(crew.controller.unpark(crew.slots["outer"]))
    await crew.turn()
    assert not task.done()
    return task


@pytest.mark.parametrize("how", ["pause", "close"])
async def test_running_calls_go_on(crew_of: MakeCrew, how: str) -> None:
    """C24, C23: neither pause nor close keeps its slot from a call that has started."""
    crew = crew_of(max_concurrent=1)
    resumed = await outer_that_unparks(crew)
    crew.controller.pause()
    if how == "close":
        crew.controller.close()
    await crew.call("newcomer", timeout=1.0)
    await crew.end("holder")
    assert resumed.done()
    assert crew.slots["outer"].state == "active"
    assert crew.started == ["outer", "holder"]


async def test_nested_calls_while_draining(crew_of: MakeCrew) -> None:
    """C24, C23: running calls may still make calls while the controller drains, not after close."""
    crew = crew_of(max_concurrent=1)
    await crew.call("outer")
    outer = crew.slots["outer"]
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    await crew.call("stranger")
    assert isinstance(crew.errors["stranger"], ControllerClosedError)
    async with inner_call(crew.controller, outer):
        assert not drained.done()
    crew.controller.close()
    with pytest.raises(ControllerClosedError):
        async with inner_call(crew.controller, outer):
            raise AssertionError("the body must not run")
    assert outer.state == "active"
    await crew.end("outer")
    assert await drained


async def test_bypassing_nested_calls_while_draining(crew_of: MakeCrew) -> None:
    """C12, C24: they are counted apart while draining as well, and touch no bucket."""
    crew = crew_of(max_concurrent=1)
    await crew.call("w", context=context("workflow_node"))
    drained = asyncio.create_task(crew.controller.drain())
    await crew.turn()
    await crew.call("inner", request=nested(crew.slots["w"], is_bypass=True))
    assert crew.slots["inner"].is_bypass
    assert crew.controller.get_metrics().current_concurrent == 0
    await crew.call("stranger", context=context("workflow_node"))
    assert isinstance(crew.errors["stranger"], ControllerClosedError)
    await crew.end("inner", "w")
    assert await drained


async def test_unpark_without_park() -> None:
    """C9: more unparks than parks are an error, not a count below zero."""
    controller = controller_of()
    async with controller.slot() as slot:
        with pytest.raises(ToolEngineError, match="unparked more often than parked"):
            await controller.unpark(slot)
