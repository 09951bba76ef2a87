"""Where do the handlers of tests on a fleet stand, and which engine do most of them share?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fleet.samples import BOUND, Bench, fleet_engine, handlers_in
from tests.ray_cluster import RayCluster

SHARED = ("pid", "here", "block", "loop", "wait", "stay", "stubborn", "spawn", "nap", "anap")


@pytest.fixture(scope="package")
def handlers(tmp_path_factory: pytest.TempPathFactory, ray_cluster: RayCluster) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("handlers")
    with pytest.MonkeyPatch.context() as patch, handlers_in(folder, patch, ray_cluster):
        yield folder
    sys.modules.pop("handlers_of_fleets", None)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def shared_engine(handlers: Path) -> AsyncIterator[Bench]:
    """One engine for tests that leave it as it was: to join a fleet takes seconds.

    A test that needs a tool of its own gives it a name of its own; its workers stay.
    """
    async with fleet_engine(handlers, *SHARED, slots=200) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="package")
async def shared_bench(shared_engine: Bench, tmp_path: Path) -> AsyncIterator[Bench]:
    """The engine that tests share, with a file of this test's own; nothing of it is left."""
    shared_engine.file = tmp_path / "noted"
    async with asyncio.timeout(2 * BOUND):
        yield shared_engine
        try:
            await shared_engine.becomes_free()
        except TimeoutError:
            # It has failed before it ended its calls: those that come after it have not.
            for each in await shared_engine.engine.calls.list():
                await shared_engine.engine.calls.cancel(each.call_id)
            await shared_engine.becomes_free()
            raise
