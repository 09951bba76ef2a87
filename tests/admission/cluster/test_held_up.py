"""Does a call ask for units that something of its own process held up when it came?"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tests.admission.cluster.test_random_members import CLUSTER, IDLE, Fleet, use_loop_clock
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.concurrency import ToolConcurrency, ToolRate
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
