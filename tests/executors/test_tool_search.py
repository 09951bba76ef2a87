"""`search_tools` tells a model of tools that it can call next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ConfigurationError,
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionError,
    ToolExecutionResult,
)
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.tool_search import ToolSearchExecutor

LIMIT = 10.0
DEFINITION = Path(__file__).parents[2] / "tools" / "search_tools.yaml"
Make = Callable[..., Tool]


async def ship(weight: float, fragile: bool = False) -> str:
    """Sends a parcel on its way.

    Args:
        weight: In kilograms.
        fragile: Whether it breaks.
    """
    return f"{weight} kg, {fragile}"


@pytest.fixture(scope="module")
def definition() -> Tool:
    """The tool of this project; read before a loop runs, for reading blocks."""
    return ToolConfigLoader().load_file(DEFINITION)


@pytest.fixture
async def engine(definition: Tool) -> AsyncIterator[ToolEngine]:
    """An engine with `search_tools` and a few tools to find."""
    made = ToolEngine()
    made.register_tool(definition)
    made.tool(tags=["parcel"])(ship)
    for number in range(30):
        made.tool(f"weigh_{number:02}", description=f"Weighs a letter on scale {number}.")(ship)
    made.tool("weigh_draft", description="Weighs a letter.", status="draft")(ship)
    yield made
    await made.close()


async def search(engine: ToolEngine, **params: Any) -> ToolExecutionResult:
    async with asyncio.timeout(LIMIT):
        return await engine.execute("search_tools", params)


async def found(engine: ToolEngine, **params: Any) -> list[str]:
    result = await search(engine, **params)
    assert result.is_success, result.error
    return [each["name"] for each in result.output["tools"]]


async def test_a_match_tells_all_that_a_call_needs(engine: ToolEngine) -> None:
    """The output has each tool's name, description and JSON Schema, and is JSON."""
    result = await search(engine, query="send parcels")
    assert result.output == {
        "tools": [
            {
                "name": "ship",
                "description": "Sends a parcel on its way.",
                "parameters": engine.get_or_raise("ship").parameters_schema,
            }
        ]
    }
    assert json.loads(json.dumps(result.output)) == result.output


async def test_limit(engine: ToolEngine) -> None:
    """Five tools unless more are asked for, at most 20; the limit is checked before the search."""
    assert await found(engine, query="weigh") == [f"weigh_{number:02}" for number in range(5)]
    assert len(await found(engine, query="weigh", limit=20)) == 20
    for params in ({"query": "x", "limit": 0}, {"query": "x", "limit": 21}, {"query": ""}, {}):
        assert (await search(engine, **params)).error_type == "validation_error"


async def test_only_tools_that_models_are_told_of(engine: ToolEngine) -> None:
    """A draft is not found, and neither is the search itself."""
    assert "weigh_draft" not in await found(engine, query="weigh_draft", limit=20)
    assert await found(engine, query="search_tools") == []
    assert len(await found(engine, query="finds tools, or weighs letters", limit=20)) == 20


async def test_nothing_found(engine: ToolEngine) -> None:
    """No tool is a success that says what to try."""
    result = await search(engine, query="zzqxj")
    assert result.is_success
    assert result.output["tools"] == []
    assert "other words" in result.output["hint"]


async def test_the_output_belongs_to_the_caller(engine: ToolEngine) -> None:
    """Whoever changes what was found changes no tool."""
    result = await search(engine, query="parcel")
    result.output["tools"][0]["parameters"]["properties"].clear()
    assert set(engine.get_or_raise("ship").parameters_schema["properties"]) == {"weight", "fragile"}


async def test_a_change_is_found_at_once(engine: ToolEngine) -> None:
    """A search after a registration knows the new tool."""
    assert await found(engine, query="umbrella") == []
    engine.tool("find_umbrella", description="Finds umbrellas.")(ship)
    assert await found(engine, query="umbrella") == ["find_umbrella"]


async def test_without_a_catalog(make: Make) -> None:
    """The executor of a registry that no engine holds says what it lacks."""
    executor = ExecutorRegistry().resolve(make({"handler": "search_tools"}))
    assert isinstance(executor, ToolSearchExecutor)
    with pytest.raises(ToolExecutionError, match="no catalog to search"):
        await executor.execute(make({}), {"query": "x"}, ToolExecutionContext())


async def test_a_definition_without_rules(make: Make) -> None:
    """A tool file of one's own may leave the rules out: what is no text is still refused."""
    executor = ToolSearchExecutor(ToolEngine().search_tools)
    told = await executor.execute(make({}), {"query": "x"}, ToolExecutionContext())
    assert told["tools"] == []
    with pytest.raises(ConfigurationError, match="query must be a text"):
        await executor.execute(make({}), {"query": 1}, ToolExecutionContext())
