"""Is a tool that runs only as a task offered where no call of it can end?

What a model calls ends with its conversation, so there such a tool is shown nowhere, and a call of
it says what to do. Where tasks can be started it is in the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tool_engine import ToolCallConfig, ToolEngine, ToolEngineConfig, ToolSession, ToolSubAgent
from tool_engine.integrations.offered_tools import OfferedTools
from tool_engine.protocols import get_protocol, prompt

SEARCH = {
    "name": "search_tools",
    "description": "Finds tools.",
    "parameters": [{"name": "query", "type": "string", "required": True, "description": "What"}],
    "entry": {"type": "builtin", "handler": "search_tools"},
}
NATIVE = ("openai", "openai_responses", "anthropic", "gemini", "mcp")
TEXT = ("vcp", "function_call")
CURE = "runs only as a task (background: required)"


@pytest.fixture
async def engine() -> Any:
    """Two tools that write a report, of which one runs only as a task, and a search."""
    config = ToolEngineConfig(tools_directory=str(EMPTY_FOLDER), auto_reload=False)
    async with ToolEngine(config) as engine:

        @engine.tool(background="required")
        async def long_report() -> str:
            """Write a long report."""
            return "long"

        @engine.tool()
        async def short_report() -> str:
            """Write a short report."""
            return "short"

        yield engine


def names_in(definitions: Iterable[Any]) -> set[str]:
    text = str(list(definitions))
    return {name for name in ("long_report", "short_report") if name in text}


@pytest.mark.parametrize("name", NATIVE)
async def test_definitions(engine: ToolEngine, name: str) -> None:
    """All of them, and those of names that a program says."""
    assert names_in(engine.tool_definitions(name)) == {"short_report"}
    said = engine.tool_definitions(name, ["long_report", "short_report"])
    assert names_in(said) == {"short_report"}
    assert names_in(await engine.read_definitions(name)) == {"short_report"}


@pytest.mark.parametrize("name", [*NATIVE[:-1], *TEXT])
async def test_protocols(engine: ToolEngine, name: str) -> None:
    assert names_in([get_protocol(name).definitions(engine.list_all())]) == {"short_report"}


@pytest.mark.parametrize("name", TEXT)
async def test_prompts(engine: ToolEngine, name: str) -> None:
    assert names_in([prompt(engine, name)]) == {"short_report"}


async def test_a_conversation(engine: ToolEngine) -> None:
    """It is not there, cannot be turned on, and a call of it says where it runs."""
    session = ToolSession(engine, "s", ToolCallConfig(tool_toggles={"long_report": True}))
    assert names_in(each.name for each in session.tools()) == {"short_report"}
    for name in TEXT:
        assert names_in([session.system_prompt(name)]) == {"short_report"}
    result = await session.execute("long_report")
    assert result.error_type == "execution_rejected"
    assert f"{CURE}, and a conversation starts none; let the program" in str(result.error)


async def test_the_rules_of_a_group(engine: ToolEngine) -> None:
    """Those of a group whose tools all run only as tasks are about what cannot be called."""
    skill = {"name": "How", "desc": "About reports", "prompt": "Call long_report.", "when": "first"}
    words = {"description": "Reports.", "rules": "Call long_report once.", "skills": [skill]}
    session = ToolSession(engine, "s", ToolCallConfig(default_group_enabled=True))
    engine.register_group({"name": "work", "tools": ["long_report"], **words})
    engine.register_group({"name": "words", "rules": "Be brief."})
    for name in TEXT:
        shown = session.system_prompt(name)
        assert names_in([shown]) == {"short_report"}
        assert "work" not in shown
        assert "## Group: words\n\nBe brief." in shown
    engine.unregister_group("work")
    engine.register_group({"name": "work", "tools": ["long_report", "short_report"], **words})
    assert "Call long_report once." in session.system_prompt("vcp")


async def test_a_sub_agent(engine: ToolEngine) -> None:
    """Also where its maker names the tool."""
    agent = ToolSubAgent("a", engine, tools=["long_report", "short_report"])
    assert names_in(agent.tool_definitions("openai")) == {"short_report"}
    result = await agent.execute("long_report", {})
    assert CURE in str(result.error)


async def test_frameworks(engine: ToolEngine) -> None:
    offered = OfferedTools(engine, "langchain", None, None)
    assert names_in(each.name for each in offered.list_offered()) == {"short_report"}
    assert offered.find_offered("long_report") is None


async def test_a_search(engine: ToolEngine) -> None:
    """A model is told of what it can call, and of no search: not even of the one that it uses."""
    engine.register_tool(SEARCH, None)
    for caller in (engine, ToolSession(engine, "s")):
        found = await caller.execute("search_tools", {"query": "write a report, find tools"})
        assert [each["name"] for each in found.output["tools"]] == ["short_report"]


async def test_who_can_start_it(engine: ToolEngine) -> None:
    """It is a tool of the engine as any other; a plain call says how it is started."""
    assert "long_report" in engine.list_names()
    assert engine.search_tools("long report")[0].name == "long_report"
    refused = await engine.execute("long_report")
    assert f"{CURE}; start one: with engine.start" in str(refused.error)
    handle = await engine.start("long_report")
    assert (await handle.wait()).output == {"result": "long"}
