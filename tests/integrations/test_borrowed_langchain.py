"""Does a tool of LangChain show its own schema, and run, whichever way it was made?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig

pytest.importorskip("langchain_core")
pytest.importorskip("langgraph")

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel


def greet(text: str) -> str:
    """Greet."""
    return f"hello {text}"


async def greet_soon(text: str) -> str:
    """Greet."""
    return f"hello {text}"


def greet_configured(text: str, config: RunnableConfig) -> str:
    """Greet."""
    return f"hello {text}" if "metadata" in config else "no config"


class Words(BaseModel):
    text: str


class Greeting(BaseTool):
    """A class whose schema is that of its `_run`."""

    name: str = "greet"
    description: str = "Greet."

    def _run(self, text: str, times: int = 1) -> str:
        return f"hello {text}" * times


class Configured(BaseTool):
    """A class whose `_run` is given a configuration, which no model writes."""

    name: str = "greet"
    description: str = "Greet."

    def _run(self, text: str, config: RunnableConfig) -> str:
        return greet_configured(text, config)


SINGLE = [
    Tool(name="greet", description="Greet.", func=greet),
    Tool(name="greet", description="Greet.", func=lambda any_name: f"hello {any_name}"),
    Tool(name="greet", description="Greet.", func=greet_configured),
    Tool(name="greet", description="Greet.", func=None, coroutine=greet_soon),
    Tool.from_function(greet, "greet", "Greet."),
]
STRUCTURED = [
    Tool(name="greet", description="Greet.", func=greet, args_schema=Words),
    StructuredTool.from_function(greet),
    StructuredTool.from_function(coroutine=greet_soon, name="greet"),
    StructuredTool.from_function(greet_configured, name="greet"),
    StructuredTool.from_function(greet, args_schema=Words),
    StructuredTool.from_function(greet, args_schema=Words.model_json_schema()),
    Greeting(),
]


@pytest.mark.parametrize("tool", [*SINGLE, *STRUCTURED])
async def test_its_schema_is_what_its_own_model_is_shown(engine: ToolEngine, tool: Any) -> None:
    """A call that is written by that schema works."""
    shown = convert_to_openai_tool(tool)["function"]["parameters"]
    await engine.import_tools([tool])
    held = engine.get_or_raise("greet").parameters_schema
    assert held["properties"].keys() == shown["properties"].keys()
    assert held["required"] == shown["required"]
    result = await engine.execute("greet", {"__arg1" if tool in SINGLE else "text": "Ann"})
    assert result.output == {"result": "hello Ann"}, result.error


async def test_single_input_is_one_text(engine: ToolEngine) -> None:
    """Another name and another type are refused, with the name that is meant."""
    await engine.import_tools([SINGLE[0]])
    for wrong in ({"text": "Ann"}, {"__arg1": 5}, {}):
        result = await engine.execute("greet", wrong)
        assert result.error_type == "validation_error"
        assert "__arg1" in str(result.error)


def test_single_input_in_code_that_cannot_await(tmp_path: Path) -> None:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    engine = ToolEngine(config)
    asyncio.run(engine.import_tools([SINGLE[0]]))
    with engine.sync() as tools:
        assert tools.execute("greet", {"__arg1": "Ann"}).output == {"result": "hello Ann"}


async def test_configuration_is_none_of_its_arguments(engine: ToolEngine) -> None:
    """LangChain gives it to the tool: a model would be shown a page about it, for nothing."""
    await engine.import_tools([Configured()])
    held = engine.get_or_raise("greet").parameters_schema
    assert list(held["properties"]) == ["text"]
    assert "RunnableConfig" not in str(held)
    result = await engine.execute("greet", {"text": "Ann"})
    assert result.output == {"result": "hello Ann"}, result.error


async def test_what_an_agent_injects_beside_a_schema_in_json(engine: ToolEngine) -> None:
    """Nothing but the function says so: the tool is left out, with the reason."""

    def read(text: str, state: Any) -> str:
        """Read."""
        return f"{text} {state}"

    read.__annotations__["state"] = Annotated[dict, InjectedState]
    schema = Words.model_json_schema()
    await engine.import_tools([StructuredTool.from_function(read, args_schema=schema)])
    assert engine.list_names() == []
    assert "'read' takes 'state' of an agent" in engine.load_errors[0][1]
