"""What comes of lists in which not everything is a function of one framework?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tool_engine import ToolEngine
from tool_engine.errors import ConfigurationError

pytest.importorskip("agents")
pytest.importorskip("langchain_core")
pytest.importorskip("langgraph")
pytest.importorskip("llama_index.core")
pytest.importorskip("pydantic_ai")

from agents import Agent, CodeInterpreterTool, HostedMCPTool, WebSearchTool, function_tool
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseToolkit, StructuredTool
from langgraph.graph import START, StateGraph
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import MockLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.tool_spec.base import BaseToolSpec
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.native_tools import WebSearchTool as NativeSearch


def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


class Toolkit(BaseToolkit):
    """A set of one tool of LangChain."""

    def get_tools(self) -> Any:
        """Return it."""
        return [StructuredTool.from_function(add)]


class Spec(BaseToolSpec):
    """A set of one tool of LlamaIndex."""

    spec_functions = ["add"]

    def add(self, first: int) -> int:
        """Add one."""
        return first + 1


HOSTED = HostedMCPTool(tool_config={"type": "mcp", "server_label": "x", "server_url": "http://x"})
TOOLS: list[Any] = [
    Tool(add),
    StructuredTool.from_function(add),
    function_tool(add),
    FunctionTool.from_defaults(add),
]
KINDS = ["pydantic-ai", "langchain", "openai-agents", "llamaindex"]


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        (
            [WebSearchTool(), TOOLS[2], HOSTED, HOSTED, CodeInterpreterTool(tool_config={})],  # type: ignore[typeddict-item]
            {
                "web_search (position 0)": "WebSearchTool is executed by the model's provider",
                "hosted_mcp (position 2)": "or a run of openai-agents",
                "hosted_mcp (position 3)": "HostedMCPTool",
                "code_interpreter (position 4)": "leave it to the agent",
            },
        ),
        ([TOOLS[0], NativeSearch()], {"web_search (position 1)": "a run of pydantic-ai"}),
        (
            [TOOLS[1], {"type": "web_search", "secret": "x-y-z"}],
            {"web_search (position 1)": "a tool of type 'web_search'"},
        ),
    ],
    ids=["openai-agents", "pydantic-ai", "langchain"],
)
async def test_what_only_a_run_executes(
    engine: ToolEngine, tools: list[Any], told: dict[str, str]
) -> None:
    """It is left out, with its name, its position and the reason; the functions work."""
    assert (await engine.import_tools(tools))["added"] == ["add"]
    assert (await engine.execute("add", {"first": 1, "second": 2})).is_success
    messages = [message for _, message in engine.load_errors]
    assert len(messages) == len(told)
    for name, words in told.items():
        assert any(repr(name) in each and words in each for each in messages), messages
    assert "x-y-z" not in str(messages)


async def test_only_what_a_run_executes(engine: ToolEngine) -> None:
    assert (await engine.import_tools([WebSearchTool()]))["added"] == []
    assert "WebSearchTool" in engine.load_errors[0][1]


@pytest.mark.parametrize("tools", [[], (), FunctionToolset().tools.values(), Toolkit().get_tools])
async def test_an_empty_list_adds_nothing(engine: ToolEngine, tools: Any) -> None:
    """It needs nothing that runs it, and is taken back like another."""
    if callable(tools):
        tools = tools()[:0]
    assert (await engine.import_tools(tools))["added"] == []
    assert engine.load_errors == []
    assert (await engine.reload())["added"] == []
    await engine.remove_source("import:tools")


@pytest.mark.parametrize("tool", TOOLS, ids=KINDS)
async def test_a_plain_function_among_a_frameworks_tools(engine: ToolEngine, tool: Any) -> None:
    """It is named, with its position and how the framework makes a tool of it."""
    with pytest.raises(ConfigurationError, match="got function 'add' at position 1: make one of"):
        await engine.import_tools([tool, add])
    assert engine.list_names() == []


@pytest.mark.parametrize("tools", [[add], [{"name": "x"}, add]])
async def test_a_plain_function(engine: ToolEngine, tools: list[Any]) -> None:
    """The cure works as it is written."""
    with pytest.raises(ConfigurationError, match=r"'add' is a plain function: .*engine\.tool\("):
        await engine.import_tools(tools)
    engine.tool(effect="read")(add)
    assert (await engine.execute("add", {"first": 1})).output == {"result": 2}


@pytest.mark.parametrize(
    ("make", "cure", "take"),
    [
        (lambda: FunctionToolset([add]), "toolset.tools.values()", lambda x: x.tools.values()),
        (Toolkit, "toolkit.get_tools()", lambda x: x.get_tools()),
        (Spec, "spec.to_tool_list()", lambda x: x.to_tool_list()),
    ],
    ids=["pydantic-ai", "langchain", "llamaindex"],
)
async def test_a_set_in_place_of_its_tools(
    engine: ToolEngine, make: Callable[[], Any], cure: str, take: Callable[[Any], Any]
) -> None:
    """The message says how to get the tools out of it, and that works."""
    made = make()
    for given, place in ((made, ""), ([made], " at position 0")):
        with pytest.raises(ConfigurationError) as raised:
            await engine.import_tools(given)
        assert f"{type(made).__name__}{place}: " in str(raised.value)
        assert cure in str(raised.value)
    assert (await engine.import_tools(take(made)))["added"] == ["add"]


def _make_graph() -> Any:
    graph: Any = StateGraph(cast("Any", dict))
    graph.add_node("shout", lambda state: {"text": state["text"].upper()})
    return graph.add_edge(START, "shout")


@pytest.mark.parametrize(
    "make",
    [
        PydanticAgent,
        _make_graph,
        lambda: _make_graph().compile(),
        lambda: RunnableLambda(str.upper),
        lambda: Agent(name="helper"),
        lambda: FunctionAgent(llm=MockLLM()),
    ],
    ids=["pydantic-ai", "graph", "compiled graph", "chain", "openai-agents", "llamaindex"],
)
@pytest.mark.parametrize("place", ["", " at position 1"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex looks at Pydantic's fields.
async def test_an_agent_in_place_of_tools(
    engine: ToolEngine, make: Callable[[], Any], place: str
) -> None:
    """The message says how it becomes a tool, and that works."""
    agent = make()
    with pytest.raises(ConfigurationError) as raised:
        await engine.import_tools([TOOLS[1], agent] if place else agent)
    assert f"{type(agent).__name__}{place}: it is no tool by itself: write" in str(raised.value)
    graph = _make_graph().compile()

    @engine.tool(effect="read")
    async def shout(text: str) -> dict[str, str]:
        """Write a text in capitals."""
        return dict(await graph.ainvoke({"text": text}))

    assert (await engine.execute("shout", {"text": "hi"})).output == {"text": "HI"}


async def test_tools_of_two_frameworks(engine: ToolEngine) -> None:
    with pytest.raises(ConfigurationError, match="langchain at position 0, llamaindex at position"):
        await engine.import_tools([TOOLS[1], TOOLS[3]])
