"""Does a call leave anything that only the garbage collector can free?"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig

PLAIN: dict[str, Any] = {}
KEYED = {"key": "tool", "key_limit": 9}


@pytest.fixture
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("concurrency", [PLAIN, KEYED], ids=["plain", "keyed"])
@pytest.mark.parametrize("turns", [0, 1], ids=["at once", "suspending"])
async def test_a_call_leaves_no_cycle(concurrency: dict[str, Any], turns: int) -> None:
    """C30: cycles would cost every later call a share of a collection."""
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))

    async def wait() -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    definition = {
        "name": "wait",
        "version": "1.0.0",
        "description": "Waits",
        "category": "custom",
        "entry": {"type": "custom", "handler": "wait"},
        "concurrency": concurrency,
    }
    engine.register_tool(definition, wait)
    await engine.execute("wait")
    gc.collect()
    for _ in range(50):
        assert (await engine.execute("wait")).is_success
    assert gc.collect() < 50
    await engine.close()
