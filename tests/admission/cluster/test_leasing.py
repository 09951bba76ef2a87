"""Do several controllers keep one limit, and lose no slot and no place?"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from tests.admission.cluster.shared_units import SharedUnits
from tests.admission.crew import TURNS, check
from tests.effort import share_of
from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, QueueTimeoutError

SETTLED = 3 * TURNS


def open_controller(shared: SharedUnits, **limits: Any) -> ToolConcurrencyController:
    clock = asyncio.get_running_loop().time
    return ToolConcurrencyController(ConcurrencyConfig(**limits), clock=clock, leases=shared.join())


async def settle(turns: int = SETTLED) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def used_of(controller: ToolConcurrencyController, bucket: str = "ai") -> int:
    used: int = controller.get_bucket_metrics()[bucket]["current"]
    return used


async def test_a_unit_stays_where_it_was_used_until_another_process_wants_it() -> None:
    """Calls that nobody competes with ask nothing."""
    shared = SharedUnits(ai=2)
    one, other = open_controller(shared), open_controller(shared)
    member = shared.members[0]
    for _ in range(100):
        async with one.slot("ai"):
            assert used_of(one) == 1
    assert (member.asked, member.units["ai"]) == (1, 1)
    async with other.slot("ai"), other.slot("ai"):
        assert (used_of(one), used_of(other)) == (0, 2)
        assert one.try_acquire("ai") is None
    async with one.slot("ai"):
        assert used_of(one) == 1
    assert member.asked == 2


async def test_one_limit_in_the_order_in_which_calls_came() -> None:
    shared = SharedUnits(ai=1)
    controllers = [open_controller(shared) for _ in range(3)]
    order: list[int] = []

    async def call(number: int) -> None:
        async with controllers[number % 3].slot("ai"):
            order.append(number)
            assert sum(map(used_of, controllers)) == 1
            await asyncio.sleep(0.01)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(call(number))
            await settle()
    assert order == list(range(30))
    for each in controllers:
        check(each)


async def test_other_buckets_are_the_process_own() -> None:
    shared = SharedUnits(ai=1)
    one, other = open_controller(shared), open_controller(shared)
    async with one.slot("files"), other.slot("files"), one.slot("ai"), one.slot("ai2"):
        assert other.try_acquire("ai") is None
    assert shared.count == 1


async def test_a_call_of_a_call_needs_no_second_unit() -> None:
    """The slot that is lent may go elsewhere, and its return comes first."""
    shared = SharedUnits(ai=1)
    one, other = open_controller(shared), open_controller(shared)
    outer = await one.acquire("ai")
    waiting = asyncio.create_task(other.acquire("ai"))
    later = asyncio.create_task(other.acquire("ai"))
    await settle()
    one.park(outer)
    elsewhere = await waiting
    back = asyncio.create_task(one.unpark(outer))
    await settle()
    assert not back.done()
    other.release(elsewhere)
    await back
    assert not later.done()
    one.release(outer)
    other.release(await later)
    assert used_of(one) == used_of(other) == 0


async def test_a_unit_that_cannot_be_used_is_not_kept() -> None:
    """A call whose bucket pauses as its unit comes keeps waiting, and another process has it."""
    shared = SharedUnits(ai=1)
    one, other = open_controller(shared), open_controller(shared)
    held = await other.acquire("ai")
    waiting = asyncio.create_task(one.acquire("ai"))
    await settle()
    one.pause_bucket("ai", 20)
    behind = asyncio.create_task(other.acquire("ai"))
    await settle()
    other.release(held)
    other.release(await behind)
    async with other.slot("ai"):
        assert not waiting.done()
    one.release(await waiting)
    assert asyncio.get_running_loop().time() >= 20


async def test_a_lowered_limit_drains() -> None:
    shared = SharedUnits(ai=4)
    one, other = open_controller(shared), open_controller(shared)
    slots = [await each.acquire("ai") for each in (one, other) for _ in range(2)]
    shared.set_limit("ai", 1)
    await settle()
    waiting = asyncio.create_task(one.acquire("ai"))
    for slot, controller in zip(slots, (one, one, other, other), strict=True):
        await settle()
        assert not waiting.done()
        controller.release(slot)
    await waiting
    assert sum(each.units["ai"] for each in shared.members) == 1


async def test_the_wait_for_a_unit_has_an_end() -> None:
    shared = SharedUnits(ai=1)
    one, other = open_controller(shared), open_controller(shared)
    held = await one.acquire("ai")
    with pytest.raises(QueueTimeoutError, match="a limit that it shares with other processes"):
        await other.acquire("ai", timeout=1)
    one.release(held)
    await settle()
    assert shared.asked == []
    async with one.slot("ai"):
        pass


async def test_what_is_lost_is_counted_apart() -> None:
    """Others have the units while the work of the calls that lost them has not ended yet."""
    shared = SharedUnits(ai=2)
    one, other = open_controller(shared), open_controller(shared)
    lost = [await one.acquire("ai"), await one.acquire("ai")]
    waiting = asyncio.create_task(other.acquire("ai"))
    await settle()
    shared.lose(shared.members[0])
    elsewhere = await waiting
    again = await one.acquire("ai")
    assert (used_of(one), used_of(other)) == (3, 1)
    for slot in lost:
        one.release(slot)
    assert shared.members[0].units["ai"] == 1
    one.release(again)
    other.release(elsewhere)
    async with other.slot("ai"), other.slot("ai"):
        assert used_of(one) == 0


async def test_what_is_refused_leaves_its_line() -> None:
    """Units that come later start nothing for it: its slot would never come back."""
    shared = SharedUnits(ai=1)
    one, other = open_controller(shared), open_controller(shared)
    slot = await one.acquire("ai")
    call = asyncio.create_task(other.acquire("ai"))
    await settle()
    member = shared.members[1]
    member.refusal = AdmissionError("the source does not answer")
    member.holder.refuse_all()
    with pytest.raises(AdmissionError, match="does not answer"):
        await call
    member.refusal = None
    one.release(slot)
    member.holder.set_units("bucket:ai", 1, is_wanted=False)
    member.holder.pause("ai", 0)
    check(other)
    assert other.get_metrics().current_concurrent == 0


async def test_those_that_ask_are_not_said_to_wait() -> None:
    """Of many that come at once, as many wait as may: 7 of 2 were said to."""
    shared = SharedUnits(ai=1)
    one, other = open_controller(shared), open_controller(shared, queue_size=2)
    held = await one.acquire("ai")
    calls = [asyncio.create_task(other.acquire("ai")) for _ in range(8)]
    await settle()
    errors = {str(call.exception()).partition(";")[0] for call in calls if call.done()}
    assert errors == {"the queue is full (2 of 2 waiting, 2 of them for bucket 'ai')"}
    one.release(held)
    for call in calls:
        if not call.done():
            other.release(await call)


async def test_it_is_explained() -> None:
    shared = SharedUnits(ai=2)
    one, other = open_controller(shared), open_controller(shared)
    held = [await other.acquire("ai"), await one.acquire("ai")]
    request = held[0].request.__class__.of(one.config, "ai")
    waiting = asyncio.create_task(one.admit(request, call_id="call-1"))
    await settle()
    explained = str(one.explain("call-1"))
    assert (
        "bucket 'ai' has 1 unit of a limit that it shares with other processes, with 1 in use, and "
        "waits for more"
    ) in explained
    other.release(held[0])
    one.release(await waiting)
    one.release(held[1])


async def test_a_wait_for_others_is_not_foretold() -> None:
    """Where nothing is here, nothing is known of when: 0.00 s were said to be left."""
    shared = SharedUnits(ai=2)
    one, other = open_controller(shared), open_controller(shared)
    for _ in range(4):
        async with one.slot("ai"):
            await asyncio.sleep(1.0)
    request = AdmissionRequest.of(one.config, "ai")

    async def explain() -> str:
        waiting = asyncio.create_task(one.admit(request, call_id="call-1"))
        await settle()
        explained = str(one.explain("call-1"))
        waiting.cancel()
        await settle()
        return explained

    here = [await one.acquire("ai") for _ in range(2)]
    assert "s to go" in await explain(), "both units are here"
    wanting = asyncio.create_task(other.acquire("ai"))
    await settle()
    assert "to go" not in await explain(), "another process wants them"
    one.release(here[0])
    taken = [await wanting]
    wanting = asyncio.create_task(other.acquire("ai"))
    await settle()
    one.release(here[1])
    taken.append(await wanting)
    explained = await explain()
    assert "has 0 units of a limit that it shares" in explained
    assert "to go" not in explained
    for slot in taken:
        other.release(slot)


class Fleet:
    """Controllers that do anything at random, and what must hold after each step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test repeats its choices
        self.shared = SharedUnits(ai=3, web=2)
        self.controllers = [
            open_controller(self.shared, max_concurrent=4, queue_timeout=None) for _ in range(3)
        ]
        self.calls: dict[asyncio.Task[None], asyncio.Event] = {}

    async def call(self, controller: ToolConcurrencyController, end: asyncio.Event) -> None:
        choose = self.random
        bucket = choose.choice(["ai", "ai", "web", "own"])
        wants: dict[str, Any] = {
            "weight": choose.choice([1, 1, 1, 2]),
            "priority": choose.randrange(10),
            "key": choose.choice([None, "a", "b"]),
            "timeout": choose.choice([None, None, 5.0]),
        }
        is_nested = choose.random() < 0.3
        with contextlib.suppress(AdmissionError):
            slot = await controller.acquire(bucket, **wants)
            try:
                if is_nested:
                    await self.call_inside(controller, slot, bucket)
                await end.wait()
            finally:
                controller.release(slot)

    async def call_inside(
        self, controller: ToolConcurrencyController, slot: ConcurrencySlot, bucket: str
    ) -> None:
        controller.park(slot)
        try:
            request = slot.request.__class__.of(controller.config, bucket)
            request.parent = slot
            inner = await controller.admit(request)
            try:
                await asyncio.sleep(0.5)
            finally:
                controller.release(inner)
        finally:
            await controller.unpark(slot)

    def step(self) -> None:
        choose = self.random
        controller = choose.choice(self.controllers)
        match choose.randrange(15):
            case 0 | 1 | 2 | 3 | 4:
                end = asyncio.Event()
                self.calls[asyncio.create_task(self.call(controller, end))] = end
            case 5 | 6 | 7 if self.calls:
                choose.choice(list(self.calls.values())).set()
            case 8 if self.calls:
                choose.choice(list(self.calls)).cancel()
            case 9:
                controller.pause_bucket(choose.choice(["ai", "web"]), choose.choice([0, 0.3, 2]))
            case 10:
                controller.pause() if choose.random() < 0.3 else controller.resume()
            case 11:
                self.configure(controller)
            case 12:
                self.shared.set_limit("ai", choose.randrange(2, 5))
            case 13 if choose.random() < 0.3:
                self.shared.lose(choose.choice(self.shared.members))

    def configure(self, controller: ToolConcurrencyController) -> None:
        choose = self.random
        limit = choose.choice([None, 2, 3])
        controller.configure(
            ConcurrencyConfig(
                max_concurrent=choose.randrange(2, 6),
                queue_timeout=None,
                bucket_limits={} if limit is None else {"ai": limit},
                strategy=choose.choice(["fifo", "priority", "fair"]),
            )
        )

    def check(self) -> None:
        for controller, member in zip(self.controllers, self.shared.members, strict=True):
            check(controller, has_shrunk=True)
            for bucket in self.shared.limits:
                assert member.holder.count_used(f"bucket:{bucket}") <= member.units[bucket]
        for bucket, limit in self.shared.limits.items():
            units = sum(member.units[bucket] for member in self.shared.members)
            most = 4 if bucket == "ai" else limit  # it may have been lowered a moment ago
            assert units <= most

    async def end(self) -> None:
        """Nothing holds anything up any more: all calls come to their end."""
        self.shared.set_limit("ai", 4)
        for controller in self.controllers:
            controller.resume()
        for end in self.calls.values():
            end.set()
        # Each wait that had no end of its own would end by this.
        async with asyncio.timeout(1000):
            await asyncio.gather(*self.calls, return_exceptions=True)
        await settle()
        for controller in self.controllers:
            assert controller.get_metrics().queue_length == 0
            assert controller.get_metrics().current_concurrent == 0
        assert self.shared.asked == []


@pytest.mark.parametrize("seed", range(share_of(400)))
async def test_at_random(seed: int) -> None:
    """Units are never passed, what is given is accounted for, and each wait has an end."""
    fleet = Fleet(seed)
    for _ in range(fleet.random.randrange(20, 200)):
        fleet.step()
        if fleet.random.random() < 0.3:
            await asyncio.sleep(fleet.random.choice([0, 0.1, 0.7]))
        await settle(fleet.random.randrange(3))
        fleet.check()
    await fleet.end()
