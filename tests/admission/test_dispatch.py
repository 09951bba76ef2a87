"""Who gets the next free slot: buckets, order, priority, weights."""

from __future__ import annotations

import asyncio

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import check
from tests.admission.test_throttle import rated
from tool_engine.errors import SlotRejectedError


async def test_admission_is_all_or_nothing(crew_of: MakeCrew) -> None:
    """C2: a call that waits for its bucket holds nothing of the global limit, and the reverse."""
    crew = crew_of(max_concurrent=2, bucket_limits={"http": 1, "ai": 1})
    await crew.call("h1", "h2", bucket="http")
    assert crew.controller.get_metrics().current_concurrent == 1
    await crew.call("a1", bucket="ai")
    assert crew.started == ["h1", "a1"]
    await crew.end("h1")
    assert crew.started[-1] == "h2"
    await crew.call("other", bucket="free")
    assert crew.controller.get_bucket_metrics()["free"]["current"] == 0
    await crew.end("h2")
    assert crew.started[-1] == "other"


async def test_newcomer_takes_no_reserved_slot(crew_of: MakeCrew) -> None:
    """C3: a freed slot belongs to the waiter before anybody else runs; a newcomer gets none."""
    crew = crew_of(max_concurrent=1)
    await crew.call("holder", "waiter")
    crew.controller.release(crew.slots.pop("holder"))
    # No await since: the waiter does not know yet, and the slot is its own already.
    assert crew.controller.try_acquire() is None
    assert crew.controller.get_metrics().current_concurrent == 1
    crew.begin("newcomer")
    await crew.turn()
    assert crew.started == ["holder", "waiter"]


async def test_full_bucket_delays_no_other(crew_of: MakeCrew) -> None:
    """C4: a hundred that wait for a full bucket do not delay a call of another."""
    crew = crew_of(max_concurrent=5, queue_size=200, bucket_limits={"http": 1})
    await crew.call(*(f"h{n}" for n in range(100)), bucket="http")
    await crew.call("a", "b", bucket="ai")
    await crew.call("c")
    assert crew.started == ["h0", "a", "b", "c"]


async def test_fifo_in_a_bucket(crew_of: MakeCrew) -> None:
    """C4, K34: one after another in the order of asking, whatever their priorities."""
    crew = crew_of(max_concurrent=1)
    names = [f"c{n}" for n in range(20)]
    for number, name in enumerate(names):
        await crew.call(name, bucket="http" if number % 2 else "ai", priority=20 - number)
    for name in names:
        assert crew.started[-1] == name
        await crew.end(name)


async def test_fifo_among_the_eligible(crew_of: MakeCrew) -> None:
    """C4: when a slot is free, the first of those whose bucket has room gets it."""
    crew = crew_of(max_concurrent=2, bucket_limits={"http": 1})
    await crew.call("h1", bucket="http")
    await crew.call("a1", bucket="ai")
    await crew.call("h2", bucket="http")
    await crew.call("a2", bucket="ai")
    await crew.end("a1")
    assert crew.started[-1] == "a2"
    await crew.end("h1")
    assert crew.started[-1] == "h2"


async def test_full_bucket_of_a_heavy_call_delays_no_other(crew_of: MakeCrew) -> None:
    """C4, C16: room is kept for a heavy call only while its bucket would let it run."""
    crew = crew_of(max_concurrent=4, bucket_limits={"http": 2})
    await crew.call("h1", bucket="http", weight=2)
    await crew.call("d1", bucket="db")
    await crew.call("h2", bucket="http", weight=2)
    await crew.call("d2", bucket="db")
    assert crew.started == ["h1", "d1", "d2"]
    await crew.end("h1")
    assert crew.started[-1] == "h2"


async def test_priority_order(crew_of: MakeCrew) -> None:
    """K35, C5: the smallest number first; ties in the order of asking."""
    crew = crew_of(max_concurrent=1, strategy="priority")
    await crew.call("holder")
    for name, priority in (("p5", 5), ("p9", 9), ("p1", 1), ("default", None), ("p1b", 1)):
        await crew.call(name, bucket=name, priority=priority)
    crew.started.clear()
    await crew.end("holder")
    for name in ("p1", "p1b", "p5", "default", "p9"):
        assert crew.started[-1] == name
        await crew.end(name)


async def test_urgent_newcomer_still_waits_for_room(crew_of: MakeCrew) -> None:
    """C5: priority decides who is next, it takes no slot from anybody."""
    crew = crew_of(max_concurrent=1, strategy="priority")
    await crew.call("holder")
    await crew.call("waiter", priority=5)
    crew.controller.release(crew.slots.pop("holder"))
    crew.begin("urgent", priority=0)
    await crew.turn()
    assert crew.started == ["holder", "waiter"]


@pytest.mark.parametrize(("waited", "first"), [(39.5, "urgent"), (40.5, "patient")])
async def test_aging_bounds_overtaking(crew_of: MakeCrew, waited: float, first: str) -> None:
    """C5: a call is overtaken for at most aging_interval seconds per step of priority."""
    crew = crew_of(max_concurrent=1, strategy="priority", aging_interval=10.0, queue_timeout=None)
    await crew.call("holder")
    await crew.call("patient", priority=5)
    await asyncio.sleep(waited)
    await crew.call("urgent", priority=1)
    await crew.end("holder")
    assert crew.started[-1] == first


async def test_more_urgent_waiter_of_a_bucket_goes_first(crew_of: MakeCrew) -> None:
    """C5: inside a full bucket too; and when it gives up, the one before it is next again."""
    crew = crew_of(max_concurrent=5, strategy="priority", bucket_limits={"http": 1})
    await crew.call("holder", bucket="http")
    await crew.call("patient", bucket="http", priority=5)
    await crew.call("urgent", bucket="http", priority=1)
    await crew.call("quitter", bucket="http", priority=0)
    await crew.cancel("quitter")
    await crew.end("holder")
    assert crew.started[-1] == "urgent"
    await crew.end("urgent")
    assert crew.started[-1] == "patient"


async def test_urgent_light_call_passes_a_heavy_one(crew_of: MakeCrew) -> None:
    """C5, C16: what is kept for a heavy waiter is not kept from a more urgent call."""
    crew = crew_of(max_concurrent=3, strategy="priority")
    await crew.call("holder", weight=2)
    await crew.call("heavy", priority=5, weight=3)
    await crew.call("later", priority=9)
    await crew.call("urgent", priority=0)
    assert crew.started == ["holder", "urgent"]


async def test_heavy_call_is_not_starved(crew_of: MakeCrew) -> None:
    """C16: light calls do not take the room that a heavy one waits for."""
    crew = crew_of(max_concurrent=3)
    await crew.call("l1", "l2", "l3")
    await crew.call("heavy", weight=3)
    await crew.call("l4")
    for light in ("l1", "l2"):
        await crew.end(light)
        assert crew.controller.try_acquire("other") is None
        await crew.call(f"after {light}", bucket=light)
    assert "heavy" not in crew.started
    await crew.end("l3")
    assert crew.started == ["l1", "l2", "l3", "heavy"]
    await crew.end("heavy")
    assert crew.started[4:] == ["l4", "after l1", "after l2"]


async def test_heavy_call_in_a_bucket_is_not_starved(crew_of: MakeCrew) -> None:
    """C16: nor inside a bucket, which meanwhile delays nobody else."""
    crew = crew_of(max_concurrent=10, bucket_limits={"ai": 2})
    await crew.call("light", bucket="ai")
    await crew.call("heavy", bucket="ai", weight=2)
    await crew.call("next", bucket="ai")
    await crew.call("other", bucket="db")
    assert crew.started == ["light", "other"]
    await crew.end("light")
    assert crew.started[-1] == "heavy"
    assert crew.controller.get_bucket_metrics()["ai"]["current"] == 2


async def test_lanes_of_a_bucket_are_one_line(crew_of: MakeCrew) -> None:
    """C4, C16: a call of a tool with a rate keeps its place among the others of its bucket."""
    crew = crew_of(bucket_limits={"web": 2})
    await crew.call("l1", "l2", bucket="web")
    await crew.call("heavy", request=rated(9, weight=2))
    await crew.call("l3", bucket="web")
    await crew.end("l1")
    assert crew.controller.try_acquire("web") is None
    assert crew.started == ["l1", "l2"]
    await crew.cancel("l3")
    assert crew.controller.try_acquire("web") is None
    await crew.end("l2")
    assert crew.started[-1] == "heavy"


@pytest.mark.parametrize("how", ["cancelled", "not wanted back"])
async def test_those_behind_one_who_leaves_go_on(crew_of: MakeCrew, how: str) -> None:
    """C8, C16: whom only the place of a heavy waiter held up starts as soon as that one leaves."""
    crew = crew_of(max_concurrent=2)
    await crew.call("outer", weight=2)
    crew.controller.park(crew.slots["outer"])
    await crew.call("holder")
    resumed = asyncio.create_task(crew.controller.unpark(crew.slots["outer"]))
    await crew.call("light")
    assert crew.started == ["outer", "holder"]
    if how == "cancelled":  # the slot is its call's until that one ends: see `unpark`
        resumed.cancel()
        await crew.turn()
        assert crew.started[-1] == "holder"
    await crew.end("outer")
    assert crew.started[-1] == "light"
    assert resumed.done()


@pytest.mark.parametrize(
    ("bucket", "weight", "message"),
    [
        (None, 4, "weight 4 can never run: max_concurrent is 3"),
        ("ai", 3, "weight 3 can never run: the limit of bucket 'ai' is 2"),
    ],
)
async def test_weight_over_a_limit_is_refused_at_once(
    crew_of: MakeCrew, bucket: str | None, weight: int, message: str
) -> None:
    """C16: no wait would ever end, so none begins; the message names the limit and the cure."""
    crew = crew_of(max_concurrent=3, bucket_limits={"ai": 2})
    with pytest.raises(SlotRejectedError, match=f"{message}; lower the weight"):
        await crew.controller.acquire(bucket, weight=weight)
    await crew.call("fits", bucket="ai", weight=2)
    assert crew.started == ["fits"]
    assert crew.controller.get_metrics().total_rejected == 1


async def test_bucket_without_limit(crew_of: MakeCrew) -> None:
    """C13: only the global limit holds a bucket that has none of its own."""
    crew = crew_of(max_concurrent=3, bucket_limits={"http": 1})
    await crew.call("a", "b", "c", "d", bucket="files")
    assert crew.started == ["a", "b", "c"]
    assert crew.controller.get_bucket_metrics()["files"] == {
        "current": 3,
        "limit": None,
        "queue": 1,
        "utilization": 0.0,
    }


async def test_many_cancelled_waiters_are_forgotten(crew_of: MakeCrew) -> None:
    """C30: those who gave up neither stay in memory nor stand in the way of the others."""
    crew = crew_of(max_concurrent=1, queue_size=1000)
    await crew.call("holder")
    tasks = [crew.begin(f"q{n}") for n in range(300)]
    await crew.turn()
    for task in tasks[1:299]:
        task.cancel()
    await crew.turn()
    lane = next(iter(crew.controller._layout.lanes.values()))
    assert len(lane.waiters) <= 64 + 1
    await crew.end("holder", "q0")
    assert crew.started == ["holder", "q0", "q299"]
    check(crew.controller)
