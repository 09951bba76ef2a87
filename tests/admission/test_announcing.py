"""Who hears of it when a slot is wanted, given, refused and given back?"""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, context
from tool_engine import ConcurrencyConfig, SlotEvent, ToolConcurrencyController


class Clock:
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def heard_by(crew: Crew) -> list[SlotEvent]:
    """What the crew's controller tells from now on."""
    events: list[SlotEvent] = []
    crew.controller.subscribe(events.append)
    return events


def told(events: list[SlotEvent]) -> list[str]:
    """The kinds of events, without their common beginning."""
    return [event.event_type.removeprefix("slot_") for event in events]


async def test_way_of_a_call_that_waits(crew_of: MakeCrew) -> None:
    """C29: queued, granted and released, each with the milliseconds that the call has waited."""
    clock = Clock()
    controller = ToolConcurrencyController(ConcurrencyConfig(max_concurrent=1), clock=clock)
    events: list[SlotEvent] = []
    controller.subscribe(events.append)
    first = await controller.acquire("http")
    task = asyncio.create_task(
        controller.acquire("http", context=context(call_id="late"), weight=1)
    )
    await asyncio.sleep(0)
    clock.now += 0.25
    controller.release(first)
    second = await task
    clock.now += 0.5
    controller.release(second)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [(e.event_type, e.wait_ms, e.held_ms) for e in events] == [
        ("slot_granted", 0.0, None),
        ("slot_queued", 0.0, None),
        ("slot_released", 0.0, 250.0),
        ("slot_granted", 250.0, None),
        ("slot_released", 250.0, 500.0),
    ]
    assert [e.call_id for e in events] == [None, "late", None, "late", "late"]
    assert [e.at for e in events] == [100.0, 100.0, 100.25, 100.25, 100.75]
    assert {e.bucket for e in events} == {"http"}


async def test_refused_at_once_and_after_a_wait(crew_of: MakeCrew) -> None:
    """C29: a refusal says why; one that was given up says that nobody wants it any more."""
    crew = crew_of(max_concurrent=1, queue_size=2)
    events = heard_by(crew)
    await crew.call("runs", "waits", "quits", "too many")
    await crew.cancel("quits")
    crew.controller.close()
    await crew.turn()
    assert told(events) == ["granted", "queued", "queued", "rejected", "given_up", "rejected"]
    assert [e.error_type for e in events if e.error_type] == ["queue_full", "engine_closed"]


async def test_timeout_in_the_queue(crew_of: MakeCrew) -> None:
    """C29: a wait that took too long ends as a rejection."""
    crew = crew_of(max_concurrent=1)
    await crew.call("runs")
    events = heard_by(crew)
    await crew.call("waits", timeout=0.001)
    async with asyncio.timeout(5):
        await asyncio.wait([crew.tasks["waits"]])
    await crew.turn()
    assert told(events) == ["queued", "rejected"]
    assert events[1].error_type == "queue_timeout"
    assert events[1].wait_ms >= 1.0


async def test_nested_parked_and_bypassing_calls(crew_of: MakeCrew) -> None:
    """C29: a slot that is lent out is not given back; who needs no slot is not told of."""
    crew = crew_of(max_concurrent=1)
    events = heard_by(crew)
    await crew.call("outer")
    controller, outer = crew.controller, crew.slots["outer"]
    controller.park(outer)
    await controller.unpark(outer)
    await crew.call("flow", context=context("workflow_node"))
    await crew.end("flow", "outer")
    assert told(events) == ["granted", "released"]


async def test_zombie_is_released_when_its_work_ends(crew_of: MakeCrew) -> None:
    """C10, C29: the slot of a call that has ended for its caller is still held."""
    crew = crew_of(max_concurrent=1)
    events = heard_by(crew)
    await crew.call("slow")
    crew.controller.mark_overdue(crew.slots["slow"])
    await crew.turn()
    assert told(events) == ["granted"]
    await crew.end("slow")
    assert told(events) == ["granted", "released"]


async def test_subscriber_delays_no_grant(crew_of: MakeCrew) -> None:
    """C29: whoever is given a slot goes on before any subscriber is called."""
    crew = crew_of(max_concurrent=1)
    order: list[str] = []

    async def wait() -> None:
        crew.slots["second"] = await crew.controller.acquire()
        order.append("goes on")

    await crew.call("first")
    crew.tasks["second"] = asyncio.create_task(wait())
    await crew.turn()
    crew.controller.subscribe(lambda event: order.append(event.event_type))
    await crew.end("first")
    assert order == ["goes on", "slot_released", "slot_granted"]


async def test_failing_subscriber_stops_nobody(crew_of: MakeCrew) -> None:
    """C29: its error is logged, the others are told, and the calls go on."""
    crew = crew_of(max_concurrent=1)

    def fail(_: SlotEvent) -> None:
        raise ValueError("no")

    crew.controller.subscribe(fail)
    events = heard_by(crew)
    with capture_logs() as logs:
        await crew.call("one", "two")
        await crew.end("one", "two")
    assert told(events) == ["granted", "queued", "released", "granted", "released"]
    assert {log["event"] for log in logs} == {"slot_subscriber_failed"}


async def test_unsubscribed(crew_of: MakeCrew) -> None:
    """C29: after the last has gone, slots are given on the short way again, and nobody is told."""
    crew = crew_of(max_concurrent=2)
    events: list[SlotEvent] = []
    unsubscribe = crew.controller.subscribe(events.append)
    await crew.call("one")
    unsubscribe()
    unsubscribe()
    await crew.call("two")
    await crew.end("one", "two")
    await crew.call("three", "four", "five")
    assert told(events) == ["granted"]
    assert not any(lane.is_gated for lane in crew.controller._layout.lanes.values())


def test_without_a_loop() -> None:
    """C27, C29: where no loop runs, subscribers are called at once."""
    controller = ToolConcurrencyController()
    events: list[SlotEvent] = []
    controller.subscribe(events.append)
    slot = controller.try_acquire("http")
    assert slot is not None
    controller.release(slot)
    controller.release(slot)
    assert told(events) == ["granted", "released"]
