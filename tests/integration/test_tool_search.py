"""A model that is shown one tool finds and calls the right one of 10,000."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalog.search_catalog import catalog
from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSubAgent,
)
from tool_engine.catalog.index import ToolIndex

BOUND = 60.0
MANY = 10_000
DEFINITION = Path(__file__).parents[2] / "tools" / "search_tools.yaml"


class Answering:
    """Answers every call with the tool's name and the arguments."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        return {"tool": tool.name, "params": params}


def company_tools() -> list[Tool]:
    """The judged catalog of many companies: 10,000 tools whose names every provider takes."""
    tools = [ToolConfigLoader().load_file(DEFINITION)]
    for number in range(50):
        for tool in catalog():
            if tool.name.isascii() and len(tools) < MANY:
                company = f"company{number}"
                tools.append(
                    replace(
                        tool,
                        name=f"{company}_{tool.name}",
                        description=f"{tool.description} For customers of {company} only.",
                        implementation_config={"type": "custom", "handler": "answering"},
                    )
                )
    return tools


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return ToolIndex(company_tools())


@pytest.fixture
async def engine(tmp_path: Path, index: ToolIndex) -> AsyncIterator[ToolEngine]:
    """An engine with 10,000 tools, put in place at once: one by one is not what is tested."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    made = ToolEngine(config)
    made.register_executor("answering", Answering())
    made.index = index
    async with asyncio.timeout(BOUND):
        yield made
        await made.close()


def told(definitions: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Name -> JSON Schema of the arguments, of whatever a provider's request carries."""
    functions = [each.get("function", each) for each in definitions]
    schemas = {each["name"]: each.get("parameters") or each["input_schema"] for each in functions}
    assert len(schemas) == len(functions)
    return schemas


@pytest.mark.parametrize("format_name", ["openai", "anthropic"])
async def test_a_model_finds_and_calls_a_tool(engine: ToolEngine, format_name: str) -> None:
    """Shown `search_tools` only, a model searches, is shown what fits, and calls it."""
    agent = ToolSubAgent("agent", engine, tools=["search_tools"])
    assert list(told(agent.tool_definitions(format_name))) == ["search_tools"]

    query = "refund a charge for company7"
    (schema,) = told(agent.tool_definitions(format_name)).values()
    assert schema["required"] == ["query"]
    found = await agent.execute("search_tools", {"query": query})
    assert found.is_success, found.error

    shown = told(agent.tool_definitions(format_name))
    assert list(shown) == ["search_tools", *(each["name"] for each in found.output["tools"])]
    best = found.output["tools"][0]
    assert best["name"] == "company7_stripe_refund_charge"
    assert shown[best["name"]] == best["parameters"]

    params = dict.fromkeys(shown[best["name"]]["properties"], "x")
    result = await agent.execute(best["name"], params)
    assert result.output == {"tool": best["name"], "params": params}


async def test_thousands_cost_no_more_than_a_handful(
    engine: ToolEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    """The definitions of the whole catalog are hundreds of times what a searching model is told."""
    agent = ToolSubAgent("agent", engine, tools=["search_tools"])
    everything = characters(engine.tool_definitions("openai"))
    start = characters(agent.tool_definitions("openai"))
    result = await agent.execute("search_tools", {"query": "refund a charge for company7"})
    # The next request carries the definitions, and the output of the search as a message.
    after = characters(agent.tool_definitions("openai")) + characters(result.output)
    for limit in range(1, 9):
        await agent.execute("search_tools", {"query": f"weather of company{limit}", "limit": 20})
    most = characters(agent.tool_definitions("openai"))
    with capsys.disabled():
        print(
            f"\n{len(engine.list_names())} tools: {everything:,} characters of definitions; "
            f"search_tools {start:,}, after a search {after:,} ({everything / after:.0f} times "
            f"less), with 20 found tools {most:,} ({everything / most:.0f} times less)"
        )
    assert len(agent.enabled_tools) == 21
    assert everything > 500 * after
    assert everything > 200 * most


def characters(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False))


async def test_a_search_never_stops_the_loop(engine: ToolEngine) -> None:
    """The first search, which reads 10,000 tools, lets others run meanwhile."""
    searching = asyncio.create_task(engine.execute("search_tools", {"query": "parcel"}))
    turns = 0
    while not searching.done():
        turns += 1
        await asyncio.sleep(0.001)
    assert (await searching).is_success
    assert turns > 5


async def test_a_reload_takes_a_found_tool_away(tmp_path: Path) -> None:
    """A tool that a reload changes, hides or removes is shown as it is then, or not at all."""
    definition = (
        "name: umbrella\nversion: '1.0.0'\ndescription: {}\nstatus: {}\n"
        "parameters: []\nentry: {{type: builtin, handler: echo}}\n"
    )
    (tmp_path / "search_tools.yaml").write_bytes(DEFINITION.read_bytes())
    path = tmp_path / "umbrella.yaml"
    path.write_text(definition.format("Lends umbrellas.", "published"), encoding="utf-8")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        agent = ToolSubAgent("agent", engine, tools=["search_tools"])
        await agent.execute("search_tools", {"query": "umbrellas"})
        assert agent.enabled_tools == ["search_tools", "umbrella"]
        path.write_text(definition.format("Opens parasols.", "published"), encoding="utf-8")
        await engine.reload()
        assert agent.tool_definitions("openai")[1]["function"]["description"] == "Opens parasols."
        assert [match.name for match in engine.search_tools("parasol")] == ["umbrella"]
        path.write_text(definition.format("Opens parasols.", "deprecated"), encoding="utf-8")
        await engine.reload()
        assert agent.enabled_tools == ["search_tools"]
        result = await agent.execute("search_tools", {"query": "parasol"})
        assert result.output["tools"] == []
        path.unlink()
        await engine.reload()
        assert agent.enabled_tools == ["search_tools"]


async def test_a_quarantined_tool_is_not_found(tmp_path: Path) -> None:
    """A search lifts no lock: a tool that nobody approved is not found, and is not shown."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "search_tools.yaml").write_bytes(DEFINITION.read_bytes())
    (tools / "echo.yaml").write_bytes((DEFINITION.parent / "echo.yaml").read_bytes())
    config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False)
    locked = replace(config, lock="enforce")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine, ToolEngine(locked) as other:
        assert [match.name for match in engine.search_tools("message")] == ["echo"]
        assert other.list_names() == []
        assert other.search_tools("message") == other.search_tools("find tools") == []
        agent = ToolSubAgent("agent", engine, tools=[])
        await agent.execute("search_tools", {"query": "message"})
        assert agent.enabled_tools == ["echo"]
