"""How little do thousands of loaded tools cost the process that holds them?"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.benchmarks.loading import write_tools
from tests.sources_of_tools import ListSource
from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig

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


async def bytes_of(load: Callable[[], Awaitable[ToolEngine]]) -> int:
    """The memory that an engine takes more after `load` has made it."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        engine = await load()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    await engine.close()
    return after - before


@pytest.mark.usefixtures("_warm")
async def test_memory_of_a_tool(tmp_path: Path) -> None:
    """Issue 4, 5: at most 8 KB for each loaded tool, all that the engine keeps included."""
    write_tools(tmp_path / "tools", COUNT)
    assert await bytes_of(lambda: loaded(tmp_path / "tools")) / COUNT <= MAX_BYTES


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize("form", ["mapping", "tool"])
async def test_memory_of_a_sources_tool(tmp_path: Path, form: str) -> None:
    """A tool of a source takes as much memory as one of a file, beside what the source holds."""
    (file,) = write_tools(tmp_path / "one", 1)
    one = ToolConfigLoader().load_file(file)
    (tmp_path / "none").mkdir(exist_ok=True)

    def source_of(count: int) -> ListSource:
        tools = [replace(one, id=f"tool_{at}", name=f"tool_{at}") for at in range(count)]
        return ListSource("own:x", tools if form == "tool" else [each.to_dict() for each in tools])

    async def added(source: ListSource) -> ToolEngine:
        engine = await loaded(tmp_path / "none")
        await engine.add_source(source)
        return engine

    await (await added(source_of(1))).close()
    write_tools(tmp_path / "tools", COUNT)
    of_files = await bytes_of(lambda: loaded(tmp_path / "tools"))
    source = source_of(COUNT)
    assert await bytes_of(lambda: added(source)) <= 1.1 * of_files
