"""Is nothing left of lanes and keys that nobody uses any more?"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import Crew, context, controller_of
from tests.admission.test_keys import tool_of, wanted
from tests.effort import IS_WHOLE
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import CircuitOpenError, QueueFullError, QueueTimeoutError
from tool_engine.model.settings.concurrency import BreakerPolicy, CollisionPolicy, ToolRate

LIMITS = {"key_limits": {"limit": 1}, "max_concurrent": 2}
STRATEGIES = ["fifo", "priority", "fair"]


def nothing_is_left(controller: ToolConcurrencyController) -> None:
    """No key, and no lane but those of whole buckets."""
    layout = controller._layout
    assert not layout.keys
    assert not [lane.id for lane in layout.lanes.values() if lane.keys]


async def use_and_end(crew: Crew) -> None:
    await crew.call("a", key="k")
    await crew.end("a")


async def wait_and_end(crew: Crew) -> None:
    await crew.call("a", "b", "c", key="k")
    await crew.end("a", "b", "c")


async def cancel_a_waiter(crew: Crew) -> None:
    await crew.call("a", "b", key="k")
    await crew.call("other", bucket="http", key="k")
    await crew.cancel("b", "other")
    await crew.end("a")


async def cancel_after_the_grant(crew: Crew) -> None:
    await crew.call("a", "b", key="k")
    crew.controller.release(crew.slots.pop("a"))
    crew.tasks["b"].cancel()
    await crew.turn()
    assert crew.started == ["a"]


async def wait_too_long(crew: Crew) -> None:
    await crew.call("a", key="k")
    await crew.call("b", key="k", timeout=1.0)
    await crew.call("c", bucket="http", key="k", timeout=2.0)
    await asyncio.sleep(3.0)
    await crew.turn()
    assert isinstance(crew.errors["c"], QueueTimeoutError)
    await crew.end("a")


async def be_refused(crew: Crew) -> None:
    await crew.configure(queue_size=0, **LIMITS)
    await crew.call("a", "b", key="k")
    await crew.call("heavy", key="too heavy", weight=9)
    assert isinstance(crew.errors["b"], QueueFullError)
    await crew.end("a")


async def try_in_vain(crew: Crew) -> None:
    await crew.call("a", key="k")
    await crew.call("other")
    assert crew.controller.try_acquire("http", key="k") is None
    assert crew.controller.try_acquire("http", key="new") is None
    await crew.end("a", "other")


async def park_and_unpark(crew: Crew) -> None:
    await crew.call("a", key="k")
    crew.controller.park(crew.slots["a"])
    await crew.call("b", key="k")
    unparking = asyncio.create_task(crew.controller.unpark(crew.slots["a"]))
    await crew.turn()
    await crew.end("b")
    assert unparking.done()
    await crew.end("a")


async def park_and_end(crew: Crew) -> None:
    await crew.call("a", key="k")
    crew.controller.park(crew.slots["a"])
    crew.controller.stay_parked(crew.slots["a"])
    await crew.end("a")


async def park_and_cancel(crew: Crew) -> None:
    await crew.call("a", key="k")
    crew.controller.park(crew.slots["a"])
    await crew.call("b", key="k")
    unparking = asyncio.create_task(crew.controller.unpark(crew.slots["a"]))
    await crew.turn()
    unparking.cancel()
    await crew.turn()
    await crew.end("a", "b")


async def outlive_the_call(crew: Crew) -> None:
    await crew.call("a", "b", key="k")
    crew.controller.mark_overdue(crew.slots["a"])
    await crew.end("a", "b")


async def bypass(crew: Crew) -> None:
    await crew.call("a", context=context("workflow_node", conversation_id="k"))
    await crew.end("a")


async def give_back_twice(crew: Crew) -> None:
    await crew.call("a", "b", key="k")
    slot = crew.slots["a"]
    await crew.end("a")
    crew.controller.release(slot)
    await crew.end("b")
    crew.controller.release(slot)


async def use_a_key_of_a_tool(crew: Crew) -> None:
    tool = tool_of(key="params")
    caller = context(conversation_id="k")
    await crew.call("a", "b", request=wanted(crew, tool, caller, n=1))
    await crew.call("c", request=wanted(crew, tool, caller, n=2))
    await crew.serve(3)
    assert sorted(crew.started) == ["a", "b", "c"]


async def be_superseded(crew: Crew) -> None:
    tool = tool_of(key="tool", collision=CollisionPolicy.KEEP_NEWEST_QUEUED)
    for number in range(4):
        caller = context(conversation_id=f"k{number}")
        await crew.call(f"c{number}", request=wanted(crew, tool, caller))
    assert set(crew.errors) == {"c1", "c2"}
    await crew.end("c0", "c3")


async def fail_behind_a_breaker(crew: Crew) -> None:
    await crew.configure(breakers={"web": {"failures": 1, "reset_after": 5.0}}, **LIMITS)
    await crew.call("a", "b", bucket="web", key="k")
    await crew.call("c", "d", bucket="web", key="o")
    crew.controller.release(crew.slots.pop("a"), outcome=False)
    await crew.turn()
    assert set(crew.errors) == {"b", "d"}
    await crew.end("c")


async def wait_for_a_rate(crew: Crew) -> None:
    request = AdmissionRequest.of(crew.controller.config, "web", key="k")
    request.line, request.rate = "slow", ToolRate(1, 1.0)
    request = request.under(crew.controller.config)
    await crew.call("a", request=request)
    await crew.end("a")
    await crew.call("b", request=request)
    await asyncio.sleep(1.5)
    await crew.turn()
    await crew.end("b")


async def lose_the_key_limits(crew: Crew) -> None:
    await crew.call("a", "b", key="k")
    await crew.configure(max_concurrent=2)
    assert crew.started == ["a", "b"]
    await crew.end("a", "b")


USES = [
    use_and_end,
    wait_and_end,
    cancel_a_waiter,
    cancel_after_the_grant,
    wait_too_long,
    be_refused,
    try_in_vain,
    park_and_unpark,
    park_and_end,
    park_and_cancel,
    outlive_the_call,
    bypass,
    give_back_twice,
    use_a_key_of_a_tool,
    be_superseded,
    fail_behind_a_breaker,
    wait_for_a_rate,
    lose_the_key_limits,
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("use", USES, ids=[use.__name__ for use in USES])
async def test_idle_keys_are_collected(
    crew_of: MakeCrew, use: Callable[[Crew], Awaitable[None]], strategy: str
) -> None:
    """C14: after use of any kind, nothing of a key and its lanes is left."""
    crew = crew_of(strategy=strategy, **LIMITS)
    await use(crew)
    nothing_is_left(crew.controller)
    assert not crew.slots
    await use_and_end(crew)
    nothing_is_left(crew.controller)


async def test_close_leaves_nothing() -> None:
    """C24, C14: those whose wait ends because the controller closes leave no lane either."""
    crew = Crew(**LIMITS)
    await crew.call("a", "b", key="k")
    await crew.call("c", bucket="http", key="k")
    crew.controller.close()
    await crew.turn()
    assert set(crew.errors) == {"b", "c"}
    await crew.end("a")
    nothing_is_left(crew.controller)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_idle_keys_cost_nothing(strategy: str) -> None:
    """C14: thousands of keys that have had their turn leave no memory behind."""
    controller = controller_of(strategy=strategy, key_limits={"limit": 1})

    async def use(prefix: str) -> None:
        for number in range(10_000 if IS_WHOLE else 3_000):
            async with controller.slot("http", key=f"{prefix}{number}"):
                pass

    await use("a")
    gc.collect()
    tracemalloc.start()
    try:
        await use("b")
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
    nothing_is_left(controller)


async def test_lines_stay_short(crew_of: MakeCrew) -> None:
    """C30: calls that come and give up leave nothing in the lines above their own."""
    crew = crew_of(strategy="priority", bucket_limits={"http": 1}, queue_timeout=None)
    await crew.call("holder", "waits", bucket="http", priority=5)
    for number in range(300):
        task = crew.begin(f"q{number}", "http", priority=0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
    layout = crew.controller._layout
    lines = [layout.root, *layout.lines()]
    assert max(len(line.entries) for line in lines) < 100
    assert max(len(lane.waiters) for lane in layout.lanes.values()) < 200


async def test_tools_of_conversations_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """S35: nobody says when a conversation is over, so the limits of its own tools are forgotten
    when there are many; those that calls run under stay, and so does what the catalog has."""
    monkeypatch.setattr("tool_engine.admission.layout._MOST_OWNED", 10)
    controller = controller_of()
    tool = tool_of(breaker=BreakerPolicy(failures=1, reset_after=60.0))

    def request(owner: int | None) -> AdmissionRequest:
        return AdmissionRequest.for_tool(tool, controller.config, owner)

    async def fail(owner: int | None) -> None:
        controller.release(await controller.admit(request(owner)), outcome=False)

    await fail(None)
    held = await controller.admit(request(0))
    for owner in range(1, 100):
        await fail(owner)
    assert len(controller._layout._tool_lines) == len(controller._layout._tool_counts)
    assert len(controller._layout.lines()) < 40
    controller.release(held, outcome=False)
    for each in (None, 0, 99):
        with pytest.raises(CircuitOpenError):
            await controller.admit(request(each))
    await fail(1)
    assert controller.snapshot().tool_breakers == {"probe": "open"}
