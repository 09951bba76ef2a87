"""Does a call ask for units that something of its own process held up when it came?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission.cluster.test_random_members import CLUSTER, IDLE, Fleet, use_loop_clock
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import KeyLimits
from tool_engine.errors import QueueFullError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolConcurrency, ToolRate
from tool_engine.model.tool import Tool, ToolCategory

STRATEGIES = ("fifo", "priority", "fair")
RATED = Tool(
    *("rated", "rated", "1.0.0", "x", ToolCategory.CUSTOM, [], []),
    {},
    concurrency=ToolConcurrency(bucket="web"),
    rate=ToolRate(1, 1.0),
)


@pytest.fixture(params=STRATEGIES)
async def fleet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Processes whose calls of one conversation share a key, and those of another have none yet."""
    use_loop_clock(monkeypatch)
    fleet = Fleet(0)
    cluster = replace(CLUSTER, revision=CLUSTER.revision + 1)
    for each in fleet.controllers:
        each.configure(replace(each.config, strategy=request.param, cluster=cluster))
    return fleet


async def call(
    controller: ClusterController, name: str, tool: Tool | None = None
) -> ConcurrencySlot:
    context, config = ToolExecutionContext(conversation_id=name, caller_id=name), controller.config
    if tool is None:
        return await controller.admit(AdmissionRequest.of(config, "web", context))
    request = AdmissionRequest.for_tool(tool, config)
    return await controller.admit(request.for_caller(config, context, None))


def share_bucket_alone(fleet: Fleet) -> None:
    cluster = replace(CLUSTER, revision=CLUSTER.revision + 2, key_limits={})
    for each in fleet.controllers:
        each.configure(replace(each.config, cluster=cluster))


async def test_the_rate_of_its_tool(fleet: Fleet) -> None:
    controller = fleet.controllers[0]
    async with asyncio.timeout(IDLE):
        first = await call(controller, "a", RATED)
        controller.release(first)
        second = await call(controller, "b", RATED)
        controller.release(second)
    assert second.acquired_at - first.acquired_at == pytest.approx(1.0, abs=0.1)
    await fleet.end()


async def test_a_pause_of_its_bucket(fleet: Fleet) -> None:
    controller = fleet.controllers[0]
    async with asyncio.timeout(IDLE):
        controller.release(await call(controller, "a"))
        controller.pause_bucket("web", 1.0)
        slot = await call(controller, "b")
        controller.release(slot)
    assert slot.queue_wait == pytest.approx(1.0, abs=0.1)
    await fleet.end()


async def test_the_limit_of_its_process(fleet: Fleet) -> None:
    controller = fleet.controllers[0]
    controller.configure(replace(controller.config, bucket_limits={"web": 1}))
    async with asyncio.timeout(IDLE):
        slot = await call(controller, "a")
        waiting = asyncio.create_task(call(controller, "b"))
        await asyncio.sleep(1)
        assert not waiting.done()
        controller.release(slot)
        controller.release(await waiting)
    await fleet.end()


async def test_another_that_has_asked_and_leaves(fleet: Fleet) -> None:
    """Room was kept for one that other processes hold up, and is nobody's then."""
    controller, other, _ = fleet.controllers
    controller.configure(replace(controller.config, bucket_limits={"web": 1}))
    async with asyncio.timeout(IDLE):
        held = await call(other, "a")
        first = asyncio.create_task(call(controller, "a"))
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(call(controller, "b"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        first.cancel()
        controller.release(await waiting)
        other.release(held)
    await fleet.end()


@pytest.mark.parametrize("line", ["plain", "key", "rate", "breaker"])
async def test_a_line_whose_first_asks(fleet: Fleet, line: str) -> None:
    """No call is refused for want of units that another process has idle."""
    controller, other, _ = fleet.controllers
    share_bucket_alone(fleet)
    changes: dict[str, Any] = {"queue_size": 0}
    if line == "key":
        changes["key_limits"] = KeyLimits(limit=5)
    controller.configure(replace(controller.config, **changes))
    tools = {
        "rate": replace(RATED, rate=ToolRate(50, 1.0)),
        "breaker": replace(
            RATED, rate=None, concurrency=ToolConcurrency(bucket="web", breaker=BreakerPolicy())
        ),
    }
    async with asyncio.timeout(IDLE):
        for slot in [await call(other, "x") for _ in range(2)]:
            other.release(slot)
        calls = [call(controller, "a", tools.get(line)) for _ in range(2)]
        slots = await asyncio.gather(*calls)
        with pytest.raises(QueueFullError):
            await call(controller, "a", tools.get(line))
        for slot in slots:
            controller.release(slot)
    await fleet.end()


async def test_those_before_one_that_would_be_refused(fleet: Fleet) -> None:
    """It asks, and passes none of its line that waits already."""
    controller, other, _ = fleet.controllers
    share_bucket_alone(fleet)
    limits = KeyLimits(limit=5, queue_size=2)
    controller.configure(replace(controller.config, key_limits=limits))
    order = []

    async def use(number: int) -> None:
        slot = await call(controller, "a")
        order.append(number)
        await asyncio.sleep(0.1)
        controller.release(slot)

    async with asyncio.timeout(IDLE):
        for slot in [await call(other, "x") for _ in range(2)]:
            other.release(slot)
        await asyncio.gather(*[use(number) for number in range(4)])
    assert order == [0, 1, 2, 3]
    await fleet.end()
