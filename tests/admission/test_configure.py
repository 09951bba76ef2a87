"""What happens to those who run and those who wait when the limits change under them?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import context, controller_of
from tests.admission.test_throttle import at
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import (
    CircuitOpenError,
    QueueFullError,
    QueueTimeoutError,
    SlotRejectedError,
)

ONE: dict[str, Any] = {"max_concurrent": 1, "queue_timeout": None}


@pytest.mark.parametrize("grown", [2, 4, 9])
async def test_growth_wakes_exactly_the_spare(crew_of: MakeCrew, grown: int) -> None:
    """C18, anyio PR1223: so many more run, in their order, and not one above."""
    crew = crew_of(**ONE)
    await crew.call(*(f"c{number}" for number in range(8)))
    await crew.configure(max_concurrent=grown, queue_timeout=None)
    assert crew.started == [f"c{number}" for number in range(min(grown, 8))]
    slot = crew.controller.try_acquire()
    assert (slot is None) == (grown <= 8)
    if slot is not None:
        crew.controller.release(slot)


async def test_growth_wakes_by_weight(crew_of: MakeCrew) -> None:
    """C18, C16: a heavy call is not passed by a light one when there is not enough yet."""
    crew = crew_of(max_concurrent=3, queue_timeout=None)
    await crew.call("h1", weight=3)
    await crew.call("heavy", weight=3)
    await crew.call("light")
    await crew.configure(max_concurrent=5, queue_timeout=None)
    assert crew.started == ["h1"]
    await crew.configure(max_concurrent=6, queue_timeout=None)
    assert crew.started == ["h1", "heavy"]
    await crew.configure(max_concurrent=7, queue_timeout=None)
    assert crew.started == ["h1", "heavy", "light"]


async def test_shrinking_ends_nobody(crew_of: MakeCrew) -> None:
    """C18: all go on; the next one starts when fewer run than the new limit."""
    crew = crew_of(max_concurrent=5, queue_timeout=None)
    await crew.call(*(f"c{number}" for number in range(7)))
    await crew.configure(max_concurrent=2, queue_timeout=None)
    assert crew.controller.get_metrics().current_concurrent == 5
    await crew.end("c0", "c1", "c2")
    assert len(crew.started) == 5
    await crew.end("c3")
    assert crew.started[-1] == "c5"
    assert crew.controller.get_metrics().current_concurrent == 2
    assert not crew.errors


async def test_bucket_limits_change(crew_of: MakeCrew) -> None:
    """C18: a limit that is added, raised, lowered or taken away holds from now on."""
    crew = crew_of(queue_timeout=None)
    await crew.call("h0", "h1", bucket="http")
    await crew.configure(bucket_limits={"http": 1}, queue_timeout=None)
    await crew.call("h2", "h3", "h4", bucket="http")
    assert crew.controller.get_bucket_metrics()["http"]["current"] == 2
    await crew.end("h0")
    assert crew.started == ["h0", "h1"]
    await crew.end("h1")
    assert crew.started[-1] == "h2"
    await crew.configure(bucket_limits={"http": 2}, queue_timeout=None)
    assert crew.started[-1] == "h3"
    await crew.configure(bucket_limits={}, queue_timeout=None)
    assert crew.started[-1] == "h4"
    assert crew.controller.get_bucket_metrics()["http"]["limit"] is None


async def test_growth_of_one_bucket_wakes_no_other(crew_of: MakeCrew) -> None:
    """C18, C4: only the bucket with room, within the limit of all."""
    crew = crew_of(max_concurrent=4, bucket_limits={"a": 1, "b": 1}, queue_timeout=None)
    await crew.call("a0", "a1", "a2", "a3", bucket="a")
    await crew.call("b0", "b1", bucket="b")
    await crew.configure(max_concurrent=4, bucket_limits={"a": 9, "b": 1}, queue_timeout=None)
    assert crew.started == ["a0", "b0", "a1", "a2"]


async def test_to_priority(crew_of: MakeCrew) -> None:
    """C18, C5: those who wait are sorted by priority and by when they came, as if always so."""
    crew = crew_of(**ONE)
    await crew.call("holder")
    await crew.call("p5", priority=5)
    await asyncio.sleep(1.0)
    await crew.call("p1", bucket="http", priority=1)
    await crew.call("p9", priority=9)
    await asyncio.sleep(100.0)
    await crew.call("late", priority=1)
    await crew.configure(strategy="priority", aging_interval=10.0, **ONE)
    assert await crew.serve(5) == ["p1", "p5", "p9", "late"]


async def test_from_priority_to_fifo(crew_of: MakeCrew) -> None:
    """C18, C4: and back by when they came."""
    crew = crew_of(strategy="priority", **ONE)
    await crew.call("holder")
    for number, priority in enumerate([5, 1, 9, 0]):
        await crew.call(f"c{number}", bucket=f"b{number % 2}", priority=priority)
    await crew.configure(**ONE)
    assert await crew.serve(5) == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize("before", ["fifo", "priority"])
@pytest.mark.parametrize("limits", [None, {}])
async def test_to_fair_and_back(crew_of: MakeCrew, before: str, limits: Any) -> None:
    """C18, C15: keys take turns at once, and stop to do so at once."""
    crew = crew_of(strategy=before, key_limits=limits, **ONE)
    await crew.call("holder", key="z")
    await crew.call("a0", "a1", "a2", "a3", key="a")
    await crew.call("b0", "b1", key="b")
    await crew.configure(strategy="fair", key_limits=limits, **ONE)
    assert await crew.serve(3) == ["a0", "b0", "a1"]
    await crew.configure(strategy=before, key_limits=limits, **ONE)
    assert await crew.serve(4) == ["a2", "a3", "b1"]


async def test_to_reject(crew_of: MakeCrew) -> None:
    """C18, K36: those who wait already may go on waiting; nobody else starts to."""
    crew = crew_of(**ONE)
    await crew.call("holder", "waits")
    await crew.configure(strategy="reject", **ONE)
    await crew.call("refused")
    assert isinstance(crew.errors["refused"], SlotRejectedError)
    await crew.end("holder")
    assert crew.started == ["holder", "waits"]


@pytest.mark.parametrize("after", ["fifo", "fair", "priority"])
async def test_nested_call_keeps_its_place(crew_of: MakeCrew, after: str) -> None:
    """C23, C18: a call made by a call stands where its parent stood, by the new rules too."""
    crew = crew_of(strategy="fifo" if after == "priority" else "priority", **ONE)
    await asyncio.sleep(100.0)
    await crew.call("outer", priority=3)
    await crew.call("before", key="k", priority=1)
    await crew.call("later", key="k", priority=4)
    crew.controller.park(crew.slots["outer"])
    await crew.turn()
    inner = AdmissionRequest(parent=crew.slots["outer"])
    await crew.call("inner", request=inner)
    await crew.configure(strategy=after, **ONE)
    await crew.end("before")
    assert crew.started == ["outer", "before", "inner"]
    await crew.call("second inner", request=AdmissionRequest(parent=crew.slots["outer"]))
    await crew.end("inner")
    assert crew.started[-1] == "second inner"


async def test_key_limits_come(crew_of: MakeCrew) -> None:
    """C18, C14: calls that run count against their keys from then on, also when they end."""
    crew = crew_of(queue_timeout=None)
    await crew.call("k0", "k1", "k2", key="k")
    await crew.call("o0", context=context(conversation_id="o"))
    await crew.configure(key_limits={"limit": 2}, queue_timeout=None)
    await crew.call("k3", key="k")
    await crew.call("o1", "o2", key="o")
    assert crew.started[4:] == ["o1"]
    await crew.end("k0")
    assert crew.started[4:] == ["o1"]
    await crew.end("k1")
    assert crew.started[4:] == ["o1", "k3"]
    await crew.end("k2", "k3", "o0")
    assert crew.started[-1] == "o2"


async def test_key_limits_come_for_those_who_wait(crew_of: MakeCrew) -> None:
    """C18, C14: and for calls that wait, in all buckets."""
    crew = crew_of(**ONE)
    await crew.call("holder")
    await crew.call("k0", bucket="http", key="k")
    await crew.call("k1", bucket="ai", key="k")
    await crew.call("o0", key="o")
    await crew.configure(max_concurrent=9, key_limits={"limit": 1}, queue_timeout=None)
    assert crew.started == ["holder", "k0", "o0"]
    await crew.end("k0")
    assert crew.started[-1] == "k1"


async def test_key_limits_change_and_go(crew_of: MakeCrew) -> None:
    """C18, C14: raised, lowered, overridden, taken away: at once for all who wait."""
    crew = crew_of(key_limits={"limit": 1}, max_concurrent=20, queue_timeout=None)
    await crew.call(*(f"k{number}" for number in range(9)), key="k")

    async def after(limits: Any) -> int:
        await crew.configure(key_limits=limits, max_concurrent=20, queue_timeout=None)
        return len(crew.started)

    assert await after({"limit": 2}) == 2
    assert await after({"limit": 1}) == 2
    assert await after({"limit": 1, "overrides": {"k": 4}}) == 4
    assert await after({"limit": 1}) == 4
    await crew.end("k0", "k1", "k2")
    assert len(crew.started) == 4
    await crew.end("k3")
    assert len(crew.started) == 5
    assert await after(None) == 9


async def test_parked_slots_and_zombies_move_with_the_keys(crew_of: MakeCrew) -> None:
    """C18, C23, C10: a slot that is lent or overdue counts as it would have from the start."""
    crew = crew_of(queue_timeout=None)
    await crew.call("parked", "zombie", key="k")
    crew.controller.park(crew.slots["parked"])
    crew.controller.mark_overdue(crew.slots["zombie"])
    await crew.configure(key_limits={"limit": 1}, queue_timeout=None)
    task = asyncio.create_task(crew.controller.unpark(crew.slots["parked"]))
    await crew.call("waits", key="k")
    assert not task.done()
    await crew.configure(key_limits={"limit": 1}, queue_timeout=None)
    await crew.end("zombie")
    assert (task.done(), "waits" in crew.started) == (True, False)
    await crew.configure(queue_timeout=None)
    assert "waits" in crew.started


async def test_call_that_has_become_too_heavy(crew_of: MakeCrew) -> None:
    """C18, C16: a waiting call that can never run any more is refused, and blocks nobody."""
    crew = crew_of(max_concurrent=3, queue_timeout=None)
    await crew.call("holder", weight=3)
    await crew.call("heavy", weight=3)
    await crew.call("light")
    await crew.configure(max_concurrent=2, queue_timeout=None)
    assert "can never run: max_concurrent is 2" in str(crew.errors["heavy"])
    await crew.end("holder")
    assert crew.started == ["holder", "light"]


@pytest.mark.parametrize(
    "limits", [{"max_concurrent": 2}, {"bucket_limits": {"b": 2}}, {"key_limits": {"limit": 2}}]
)
async def test_parked_call_that_has_become_too_heavy(crew_of: MakeCrew, limits: Any) -> None:
    """C18, C23: a call that runs already goes on, alone, above a limit that has shrunk."""
    crew = crew_of(max_concurrent=3, key_limits={}, queue_timeout=None)
    await crew.call("outer", bucket="b", key="k", weight=3)
    crew.controller.park(crew.slots["outer"])
    await crew.call("light", bucket="b", key="k")
    await crew.configure(**{"key_limits": {}, "queue_timeout": None} | limits)
    task = asyncio.create_task(crew.controller.unpark(crew.slots["outer"]))
    await crew.call("next", bucket="b", key="k")
    assert not task.done()
    await crew.end("light")
    assert task.done()
    assert crew.started == ["outer", "light"]
    await crew.end("outer")
    assert crew.started == ["outer", "light", "next"]


async def test_queue_sizes(crew_of: MakeCrew) -> None:
    """C18, C6: those who wait may; a smaller queue holds for those who come."""
    crew = crew_of(queue_size=3, **ONE)
    await crew.call("holder", "a", "b", "c")
    await crew.configure(queue_size=1, **ONE)
    await crew.call("d")
    assert isinstance(crew.errors["d"], QueueFullError)
    await crew.configure(queue_size=9, bucket_queue_sizes={"http": 0}, **ONE)
    await crew.call("e")
    await crew.call("f", bucket="http")
    assert set(crew.errors) == {"d", "f"}
    assert await crew.serve(4) == ["a", "b", "c", "e"]


async def test_rates(crew_of: MakeCrew) -> None:
    """C18, C17: a rate that is added, changed or taken away; what has started counts."""
    crew = crew_of(queue_timeout=None)
    await crew.configure(bucket_rates={"web": "1/10s"}, queue_timeout=None)
    await crew.call("a", "b", "c", "d", "e", bucket="web")
    assert crew.started == ["a"]
    await crew.configure(bucket_rates={"web": "2/20s"}, queue_timeout=None)
    assert crew.started == ["a", "b"]
    assert await at(crew, 19.9) == ["a", "b"]
    await crew.configure(bucket_rates={"web": "2/30s"}, queue_timeout=None)
    assert await at(crew, 29.9) == ["a", "b"]
    assert await at(crew, 30.1) == ["a", "b", "c", "d"]
    await crew.configure(bucket_rates={}, queue_timeout=None)
    assert crew.started[-1] == "e"


async def test_slower_rate_counts_what_has_started(crew_of: MakeCrew) -> None:
    """C17, C18: fewer calls per period: as many old starts must have passed first."""
    crew = crew_of(bucket_rates={"web": "3/10s"}, queue_timeout=None)
    for when, name in ((0.0, "a"), (2.0, "b"), (4.0, "c")):
        await at(crew, when)
        await crew.call(name, bucket="web")
    await crew.configure(bucket_rates={"web": "1/10s"}, queue_timeout=None)
    await crew.call("e", bucket="web", timeout=1.0)
    await crew.call("d", bucket="web")
    await at(crew, 5.0)
    assert "for another 9.00 s" in str(crew.errors["e"])
    assert await at(crew, 13.9) == ["a", "b", "c"]
    assert await at(crew, 14.1) == ["a", "b", "c", "d"]


async def test_breakers(crew_of: MakeCrew) -> None:
    """C18, C20: a breaker that is added counts from then on; one taken away lets all pass."""
    crew = crew_of()
    await crew.call("before", bucket="web")
    await crew.configure(breakers={"web": {"failures": 1, "reset_after": 60.0}})
    crew.controller.release(crew.slots.pop("before"), outcome=False)
    await crew.call("a", bucket="web")
    crew.controller.release(crew.slots.pop("a"), outcome=False)
    await crew.call("b", bucket="web")
    assert isinstance(crew.errors["b"], CircuitOpenError)
    await crew.configure()
    await crew.call("c", bucket="web")
    assert crew.started == ["before", "a", "c"]


async def test_queue_timeout(crew_of: MakeCrew) -> None:
    """C18, C7: a new queue_timeout is for those who come."""
    crew = crew_of(max_concurrent=1, queue_timeout=None)
    await crew.call("holder", "patient")
    await crew.configure(max_concurrent=1, queue_timeout=5.0)
    await crew.call("hasty")
    await at(crew, 6.0)
    assert isinstance(crew.errors["hasty"], QueueTimeoutError)
    assert set(crew.errors) == {"hasty"}


async def test_bypass_caller_types(crew_of: MakeCrew) -> None:
    """C18, C12: who need not wait changes for the next calls; each slot is given back as it was
    taken."""
    crew, node, agent = crew_of(**ONE), context("workflow_node"), context()
    await crew.call("holder", context=agent)
    await crew.call("free", context=node)
    await crew.configure(bypass_caller_types={"conversation_agent"}, **ONE)
    await crew.call("free too", context=agent)
    await crew.call("waits", context=node)
    assert crew.started == ["holder", "free", "free too"]
    assert crew.controller.get_metrics().bypass_active == 2
    await crew.end("free")
    assert "waits" not in crew.started
    await crew.end("holder")
    assert "waits" in crew.started


async def test_max_zombies(crew_of: MakeCrew) -> None:
    """C18, C10: the bound on zombies comes and goes."""
    crew = crew_of()
    await crew.call("zombie")
    crew.controller.mark_overdue(crew.slots["zombie"])
    await crew.configure(max_zombies=1)
    await crew.call("refused")
    await crew.configure(max_zombies=2)
    await crew.call("goes")
    assert (set(crew.errors), crew.started) == ({"refused"}, ["zombie", "goes"])


async def test_paused_and_closed_stay_so(crew_of: MakeCrew) -> None:
    """C24, C18: new limits neither end a pause nor open what is closed."""
    crew = crew_of(**ONE)
    await crew.call("holder", "waits")
    crew.controller.pause()
    await crew.configure(max_concurrent=5, queue_timeout=None)
    assert crew.started == ["holder"]
    crew.controller.resume()
    await crew.turn()
    assert crew.started == ["holder", "waits"]


async def test_counters_survive(crew_of: MakeCrew) -> None:
    """C9, C18: many changes with calls in all states leave every counter in balance."""
    crew = crew_of(max_concurrent=3, queue_timeout=None)
    for number in range(60):
        key = f"k{number % 4}" if number % 3 else None
        crew.begin(f"c{number}", bucket=f"b{number % 3}", key=key, weight=1 + number % 2)
        limits = {"limit": 2 + number % 3} if number % 2 else None
        await crew.configure(
            max_concurrent=2 + number % 5,
            strategy=("fifo", "fair", "priority")[number % 3],
            key_limits=limits,
            bucket_limits={} if number % 4 else {"b1": 2},
            queue_timeout=None,
        )
        if crew.slots and number % 2:
            await crew.serve(1)
    await crew.serve(60 - len(crew.started) + len(crew.slots))
    assert sorted(crew.started) == sorted(f"c{number}" for number in range(60))


async def test_listeners_are_told() -> None:
    """C18: those who keep something of the configuration hear of the new one."""
    controller = controller_of()
    heard: list[int] = []
    controller.on_configure.append(lambda: heard.append(controller.config.max_concurrent))
    controller.configure(ConcurrencyConfig(max_concurrent=3))
    assert heard == [3]
