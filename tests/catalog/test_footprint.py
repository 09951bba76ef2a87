"""How little do thousands of loaded tools cost the process that holds them?"""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from tests.benchmarks.loading import write_tools
from tool_engine import ToolEngine, ToolEngineConfig

COUNT = 600
MAX_OBJECTS = 0.9
"""Objects for each tool that a full collection visits."""
MAX_BYTES = 8 * 1024


async def loaded(folder: Path) -> ToolEngine:
    config = ToolEngineConfig(
        tools_directory=str(folder), auto_reload=False, cache_directory=str(folder.parent / "cache")
    )
    engine = ToolEngine(config)
    await engine.load()
    return engine


@pytest.fixture
async def _warm(tmp_path: Path) -> None:
    """Everything that an engine needs has been imported and made once."""
    write_tools(tmp_path / "one", 1)
    await (await loaded(tmp_path / "one")).close()


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize("start", ["cold", "warm"])
async def test_objects_of_a_tool(tmp_path: Path, start: str) -> None:
    """Issue 4, 5: a full collection has next to nothing to visit, also after tools were listed,
    searched and looked up."""
    write_tools(tmp_path / "tools", COUNT)
    if start == "warm":
        await (await loaded(tmp_path / "tools")).close()
    gc.collect()
    before = len(gc.get_objects())
    engine = await loaded(tmp_path / "tools")
    assert len(engine.list_all()) == COUNT
    assert len(engine.search("looks something up")) == COUNT
    assert [engine.get_or_raise(name).bucket for name in engine.list_names()] == ["http"] * COUNT
    gc.collect()
    objects = (len(gc.get_objects()) - before) / COUNT
    await engine.close()
    assert objects <= MAX_OBJECTS


@pytest.mark.usefixtures("_warm")
async def test_memory_of_a_tool(tmp_path: Path) -> None:
    """Issue 4, 5: at most 8 KB for each loaded tool, all that the engine keeps included."""
    write_tools(tmp_path / "tools", COUNT)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        engine = await loaded(tmp_path / "tools")
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    await engine.close()
    assert (after - before) / COUNT <= MAX_BYTES
