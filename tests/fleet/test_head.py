"""What becomes of an engine whose cluster is gone, and comes back?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fleet.samples import ROUNDS, fleet_engine, handlers_in
from tests.ray_cluster import RayCluster, running_cluster

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300 + 60 * ROUNDS)]
PATIENCE = 60.0
"""Seconds after which the head must have been missed."""


async def test_the_head_is_gone_and_back(tmp_path: Path, ray_cluster: RayCluster) -> None:
    """Its calls end as `worker_lost` or say that it is gone; tools here go on, and so does the
    engine, which finds the next cluster at its address.
    """
    for _ in range(ROUNDS):
        with pytest.MonkeyPatch.context() as patch:
            assert await lose_head(tmp_path, patch, ray_cluster) == "worker_lost"


async def lose_head(folder: Path, patch: pytest.MonkeyPatch, other: RayCluster) -> str | None:
    """Kills the head under a call, and has another cluster at its address; how the call ended."""
    with running_cluster(1) as first, handlers_in(folder, patch, first):
        async with fleet_engine(folder, "pid", "block") as bench:
            bench.engine.register_tool(
                {"name": "local", "description": "A sample"}, lambda: "local"
            )
            assert (await bench.call("pid")).is_success
            running = asyncio.create_task(bench.call("block", seconds=2 * PATIENCE))
            await bench.noted()
            await asyncio.to_thread(first.remove_node)
            lost = await asyncio.wait_for(running, PATIENCE)
            result = await asyncio.wait_for(bench.call("pid"), PATIENCE)
            assert not result.is_success
            assert (await bench.engine.execute("local")).is_success
            patch.setenv("RAY_ADDRESS", other.address)
            async with asyncio.timeout(PATIENCE):
                while not (await bench.call("pid")).is_success:  # noqa: ASYNC110 - nothing rings
                    await asyncio.sleep(0.2)
            assert bench.has_slots_free()
            return lost.error_type
