"""Strategy `fair`: keys take turns, whoever asks how often."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, context
from tool_engine.admission.request import AdmissionRequest

FAIR: dict[str, Any] = {
    "strategy": "fair",
    "max_concurrent": 1,
    "queue_size": 5000,
    "queue_timeout": None,
}


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def begin(crew: Crew, prefix: str, count: int, **how: Any) -> None:
    """Lines calls up without a turn of the loop for each."""
    for name in names(prefix, count):
        crew.begin(name, **how)


async def test_keys_take_turns(crew_of: MakeCrew) -> None:
    """C15: one call of each key, in the order in which the keys came."""
    crew = crew_of(**FAIR)
    await crew.call("holder")
    await crew.call(*names("a", 3), key="a")
    await crew.call(*names("b", 3), key="b")
    await crew.call("c0", key="c")
    assert await crew.serve(7) == ["a0", "b0", "c0", "a1", "b1", "a2", "b2"]


@pytest.mark.parametrize("count", [1, 1000])
async def test_flood_of_one_key(crew_of: MakeCrew, count: int) -> None:
    """C15: a thousand calls of one key move another one's call by at most one place."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    begin(crew, "flood", count, key="flood")
    await crew.turn()
    await crew.call("b0", "b1", "b2", key="b")
    order = await crew.serve(6 if count > 1 else 4)
    assert order.index("b0") <= 1
    assert order.index("b1") <= (3 if count > 1 else 2)
    begin(crew, "more", count, key="flood")
    await crew.call("c", key="c")
    assert "c" in await crew.serve(2)


async def test_flood_that_goes_on(crew_of: MakeCrew) -> None:
    """C15: nor does it help to ask again as soon as one call has ended."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    await crew.call(*names("b", 3), key="b")
    for number in range(8):
        await crew.call(*names(f"flood{number}-", 5), key="flood")
        await crew.serve(1)
    assert [name[0] for name in crew.started[1:7]] == ["b", "f", "b", "f", "b", "f"]


@pytest.mark.parametrize(("weight", "share"), [(2.0, 20), (3.0, 30), (0.5, 5), (1.0, 10)])
async def test_weights(crew_of: MakeCrew, weight: float, share: int) -> None:
    """C15: a key with twice the weight gets twice as many turns, one with half of it half."""
    crew = crew_of(**FAIR, key_limits={"weights": {"b": weight}})
    await crew.call("holder", key="z")
    begin(crew, "a", 40, key="a")
    begin(crew, "b", 40, key="b")
    await crew.turn()
    counts = Counter(name[0] for name in await crew.serve(10 + share))
    assert abs(counts["b"] - share) <= 1, counts
    assert abs(counts["a"] - 10) <= 1, counts


async def test_heavy_calls_cost_more_turns(crew_of: MakeCrew) -> None:
    """C15, C16: a call of weight 3 takes three turns, so that slots and not calls are shared."""
    crew = crew_of(**FAIR | {"max_concurrent": 3})
    await crew.call("holder", key="z", weight=3)
    begin(crew, "heavy", 20, key="h", weight=3)
    begin(crew, "light", 40, key="l")
    await crew.turn()
    units: Counter[str] = Counter()
    for _ in range(32):
        name = next(iter(crew.slots))
        units[name[0]] += crew.slots[name].weight
        await crew.end(name)
    del units["h"]
    started = Counter(name.rstrip("0123456789") for name in crew.started)
    assert abs(3 * started["heavy"] - started["light"]) <= 4, started


async def test_heavy_call_is_not_starved(crew_of: MakeCrew) -> None:
    """C16: light calls of another key, that keep coming, do not put it off."""
    crew = crew_of(**FAIR | {"max_concurrent": 3})
    await crew.call("x", "y", "z", key="a")
    begin(crew, "a", 30, key="a")
    await crew.turn()
    await crew.call("heavy", key="b", weight=3)
    assert "heavy" in await crew.serve(6)


async def test_heavy_call_of_the_same_key_is_not_starved(crew_of: MakeCrew) -> None:
    """C16: nor do light ones of its own key in another bucket."""
    crew = crew_of(**FAIR | {"max_concurrent": 3})
    await crew.call("x", "y", "z", key="k")
    await crew.call("heavy", bucket="http", key="k", weight=3)
    begin(crew, "light", 30, bucket="ai", key="k")
    await crew.turn()
    assert "heavy" in await crew.serve(6)


async def test_key_that_joins_late(crew_of: MakeCrew) -> None:
    """C15: it is served in turn from then on, and not more often to make up."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    begin(crew, "a", 40, key="a")
    await crew.turn()
    await crew.serve(20)
    await crew.call(*names("b", 10), key="b")
    order = "".join(name[0] for name in await crew.serve(10))
    assert order in ("ab" * 5, "ba" * 5)


async def test_key_that_comes_back(crew_of: MakeCrew) -> None:
    """C15: turns cannot be saved up by staying away."""
    crew = crew_of(**FAIR)
    await crew.call("b0", key="b")
    begin(crew, "a", 60, key="a")
    await crew.turn()
    await crew.serve(20)
    await crew.call(*names("back", 10), key="b")
    counts = Counter(name[0] for name in await crew.serve(8))
    assert counts == {"a": 4, "b": 4}


async def test_new_keys_all_the_time(crew_of: MakeCrew) -> None:
    """C15: keys that nobody has seen before do not push a waiting one back for ever."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    await crew.call(*names("a", 5), key="a")
    for number in range(20):
        await crew.call(f"new{number}", key=f"new{number}")
        await crew.call(f"more{number}", key=f"more{number}")
        await crew.serve(1)
    assert {"a0", "a1", "a2"} <= set(crew.started)


async def test_calls_without_a_key_share_one_turn(crew_of: MakeCrew) -> None:
    """C15: together they are like one key."""
    crew = crew_of(**FAIR)
    await crew.call("holder")
    await crew.call(*names("n", 6))
    await crew.call(*names("a", 3), key="a")
    await crew.call(*names("b", 3), context=context(conversation_id="b"))
    order = [name[0] for name in await crew.serve(9)]
    assert sorted(order[:3]) == sorted(order[3:6]) == ["a", "b", "n"]


async def test_fifo_within_a_key(crew_of: MakeCrew) -> None:
    """C4: a key's own calls go in the order of asking, whatever their buckets."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    for number in range(9):
        await crew.call(f"a{number}", bucket=f"b{number % 3}", key="a")
    assert await crew.serve(9) == names("a", 9)


async def test_fair_inside_a_bucket(crew_of: MakeCrew) -> None:
    """C15, C4: in a full bucket too, and however fast the turns go on in another one."""
    limits = {"bucket_limits": {"slow": 1, "fast": 1}, "max_concurrent": 2}
    crew = crew_of(**FAIR | limits)
    await crew.call("holder", bucket="slow", key="z")
    await crew.call("runner", bucket="fast", key="f")
    begin(crew, "f", 60, bucket="fast", key="f")
    begin(crew, "a", 20, bucket="slow", key="a")
    await crew.turn()
    slow: list[str] = []
    for number in range(10):
        if number == 3:
            await crew.call(*names("c", 4), bucket="slow", key="c")
        for _ in range(5):
            fast = next(name for name, slot in crew.slots.items() if slot.bucket == "fast")
            await crew.end(fast)
        await crew.end(next(name for name, slot in crew.slots.items() if slot.bucket == "slow"))
        slow.append(crew.started[-1][0])
    assert Counter(slow[3:]) in ({"a": 4, "c": 3}, {"a": 3, "c": 4})
    assert "c" in slow[3:5]


async def test_key_in_many_buckets(crew_of: MakeCrew) -> None:
    """C15: a key that spreads its calls over many buckets gets no more turns for it."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    for number in range(20):
        await crew.call(f"a{number}", bucket=f"bucket{number}", key="a")
    await crew.call(*names("b", 10), key="b")
    assert Counter(name[0] for name in await crew.serve(10)) == {"a": 5, "b": 5}


async def test_full_key_is_passed_over(crew_of: MakeCrew) -> None:
    """C15, C14: a key that is held up blocks nobody, and does not burst afterwards."""
    crew = crew_of(**FAIR | {"max_concurrent": 2, "key_limits": {"overrides": {"k": 1}}})
    await crew.call("k0", key="k")
    await crew.call("holder", key="z")
    begin(crew, "k1-", 20, key="k")
    begin(crew, "a", 60, key="a")
    begin(crew, "b", 60, key="b")
    await crew.turn()
    for _ in range(20):
        await crew.end(next(name for name in crew.slots if name != "k0"))
    assert Counter(name[0] for name in crew.started[2:]) == {"a": 10, "b": 10}
    await crew.configure(**FAIR | {"max_concurrent": 2})
    order = [name[0] for name in await crew.serve(12)]
    assert Counter(order)["k"] in (4, 5), order
    assert "kk" not in "".join(order)[1:]


async def test_full_bucket_of_a_key_is_passed_over(crew_of: MakeCrew) -> None:
    """C15, C4: nor does a key that waits for a full bucket burst when it has room again."""
    limits = {"max_concurrent": 2, "bucket_limits": {"slow": 1}}
    crew = crew_of(**FAIR | limits)
    await crew.call("holder", bucket="slow", key="z")
    begin(crew, "k", 20, bucket="slow", key="k")
    begin(crew, "a", 60, bucket="fast", key="a")
    await crew.turn()
    for _ in range(20):
        await crew.end(next(name for name, slot in crew.slots.items() if slot.bucket == "fast"))
    crew.started.clear()
    await crew.configure(**FAIR)
    await crew.end("holder")
    order = [name[0] for name in await crew.serve(10)]
    assert Counter(order)["a"] in (4, 5, 6), order


async def test_nested_calls_go_first(crew_of: MakeCrew) -> None:
    """C23, C15: a call that is part of a running one, and one that goes on, wait for no turn."""
    crew = crew_of(**FAIR)
    await crew.call("outer", key="flood")
    slot = crew.slots["outer"]
    begin(crew, "flood", 10, key="flood")
    await crew.call("a0", "a1", key="a")
    crew.controller.park(slot)
    await crew.turn()
    inner = AdmissionRequest.of(crew.controller.config, key="flood")
    inner.parent = slot
    await crew.call("inner", request=inner)
    assert crew.started == ["outer", "flood0"]
    await crew.end("flood0")
    assert crew.started[-1] == "inner"
    task = asyncio.create_task(crew.controller.unpark(slot))
    await crew.turn()
    await crew.end("inner")
    assert task.done()
    await crew.end("outer")
    assert len(crew.started) == 4


async def test_priority_does_not_matter(crew_of: MakeCrew) -> None:
    """C15: whose turn it is does not depend on what the calls say of themselves."""
    crew = crew_of(**FAIR)
    await crew.call("holder", key="z")
    await crew.call("a0", "a1", key="a", priority=0)
    await crew.call("b0", "b1", key="b", priority=9)
    assert await crew.serve(4) == ["a0", "b0", "a1", "b1"]


async def test_free_slots_need_no_turn(crew_of: MakeCrew) -> None:
    """C15: while there is room for all, one key may use all of it."""
    crew = crew_of(**FAIR | {"max_concurrent": 5})
    await crew.call(*names("a", 5), key="a")
    assert len(crew.started) == 5
    await crew.call("a5", key="a")
    await crew.call("b0", key="b")
    assert len(await crew.serve(2)) == 2
