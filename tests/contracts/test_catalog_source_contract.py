"""Every source of a catalog keeps to `CatalogSource`; a new one adds a line to `KINDS`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sources_of_tools import ListSource, definition
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.catalog.source_names import check_origin
from tool_engine.interfaces import CatalogSource
from tool_engine.interfaces.checking import check_part

BOUND = 20.0


def list_source() -> CatalogSource:
    return ListSource("own:list", [definition("alpha"), definition("beta")])


KINDS: list[Callable[[], CatalogSource]] = [list_source]


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def engine(tmp_path: Path) -> ToolEngine:
    return ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False))


def test_it_has_an_origin_that_stays(source: CatalogSource) -> None:
    check_part("source", source, CatalogSource)
    assert check_origin(source.origin) == source.origin == source.origin


async def test_a_second_reading_gives_the_same(source: CatalogSource, engine: ToolEngine) -> None:
    """What did not change costs nothing: no event, no generation, the very tools of before."""
    async with engine, asyncio.timeout(BOUND):
        await engine.add_source(source)
        assert engine.load_errors == []
        tools, generation = engine.list_all(), engine.generation
        changes = await engine.reload()
        assert changes == {"added": [], "modified": [], "removed": []}
        assert engine.generation == generation
        assert all(map(lambda old, new: old is new, tools, engine.list_all()))


async def test_its_tools_know_it_and_go_with_it(source: CatalogSource, engine: ToolEngine) -> None:
    async with engine, asyncio.timeout(BOUND):
        added = (await engine.add_source(source))["added"]
        assert added
        assert {tool.origin for tool in engine.list_all()} == {source.origin}
        assert (await engine.remove_source(source))["removed"] == added
        await engine.add_source(source)
        assert engine.list_names() == added


async def test_it_survives_an_engine_that_is_closed(
    source: CatalogSource, engine: ToolEngine, tmp_path: Path
) -> None:
    """A notice that comes too late starts nothing; another engine takes the source."""
    async with engine, asyncio.timeout(BOUND):
        added = (await engine.add_source(source))["added"]
    getattr(source, "notify", lambda: None)()
    await asyncio.sleep(0)
    assert not [each for each in asyncio.all_tasks() if "tool-engine-source" in each.get_name()]
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as another, asyncio.timeout(BOUND):
        assert (await another.add_source(source))["added"] == added
