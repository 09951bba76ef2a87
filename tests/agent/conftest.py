"""What a program loads once, before its first conversation; a world, and virtual time in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

import tool_engine.catalog.definition.raw_schema  # noqa: F401 - reads files when it is loaded
from tests.agent.world import BOUND, World
from tests.calls.audit import check_idle
from tests.calls.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    # Where there are sockets, time is what it is.
    if item.path.parent != Path(__file__).parent or "sdk" in item.path.stem:
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    async with asyncio.timeout(BOUND * 500 if is_virtual else BOUND):
        made = World()
        async with made.engine:
            yield made
            check_idle(made.engine)
