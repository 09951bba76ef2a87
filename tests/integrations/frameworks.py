"""Four frameworks in one form: each lists tools and has a model's call run as its own agents do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from tool_engine.interfaces import CallsTools, CatalogSource


class Told(NamedTuple):
    """What the framework gives its model of one tool."""

    description: str
    schema: dict[str, Any]
    runs_alone: bool = False


class Heard(NamedTuple):
    """What the model reads after a call."""

    text: str
    is_error: bool | None
    """None: the framework's messages do not say."""
    content: Any = None


def make_step() -> tuple[Callable[[int], Awaitable[int]], list[int]]:
    """A tool, and how many calls of it were at work as each one began."""
    at_work: list[int] = []
    running = 0

    async def step(number: int) -> int:
        """Step."""
        nonlocal running
        running += 1
        at_work.append(running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return number

    return step, at_work


def make_wait() -> tuple[Callable[[str], Awaitable[str]], asyncio.Event, asyncio.Event]:
    """A tool that waits until it is cancelled; set once it has begun, and ended."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait(reason: str) -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return reason

    return wait, began, ended


Calls = Sequence[tuple[str, dict[str, Any]]]


class Framework:
    """One framework, with the tools of `source`."""

    name: str
    modules: tuple[str, ...]
    """What is imported before the test: imports read files, which holds a loop."""
    blocks = False
    """Whether its tools have a call for code that cannot await."""
    lists_anew = False
    """Whether what is held shows tools that came later."""
    describes_anew = False
    """Whether what is held shows what changed of a tool."""

    def __init__(self, source: CallsTools, **options: Any) -> None:
        self.held = self.offer(source, **options)

    def offer(self, source: CallsTools, **options: Any) -> Any:
        raise NotImplementedError

    async def tell(self) -> dict[str, Told]:
        """The tools as the model is told of them, by name."""
        raise NotImplementedError

    def rename(self, name: str) -> None:
        """Gives the first tool another name, as programs do where two lists clash."""
        self.held[0].name = name

    async def run(self, calls: Calls) -> list[Heard]:
        """Has all calls run that one reply of a model makes."""
        raise NotImplementedError

    async def call(self, tool_name: str, /, **arguments: Any) -> Heard:
        (heard,) = await self.run([(tool_name, arguments)])
        return heard


class PydanticAI(Framework):
    name = "pydantic-ai"
    modules = ("tool_engine.integrations.pydantic_ai", "pydantic_ai.models.function")
    lists_anew = describes_anew = True

    def offer(self, source: CallsTools, **options: Any) -> Any:
        from tool_engine.integrations.pydantic_ai import as_pydantic_ai_toolset

        return as_pydantic_ai_toolset(source, **options)

    def rename(self, name: str) -> None:
        self.held = self.held.renamed({name: "add"})

    async def _talk(self, calls: Calls) -> tuple[Any, list[Any]]:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        asked: list[Any] = []

        def reply(messages: list[Any], info: Any) -> ModelResponse:
            asked.append((messages, info))
            if len(asked) > 1 or not calls:
                return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(
                parts=[
                    ToolCallPart(name, json.dumps(arguments), tool_call_id=f"call_{at}")
                    for at, (name, arguments) in enumerate(calls)
                ]
            )

        agent = Agent(FunctionModel(reply), toolsets=[self.held])
        await agent.run("Do it.")
        return asked[0][1], asked[-1][0][-1].parts

    async def tell(self) -> dict[str, Told]:
        info, _ = await self._talk([])
        return {
            each.name: Told(each.description, each.parameters_json_schema, each.sequential)
            for each in info.function_tools
        }

    async def run(self, calls: Calls) -> list[Heard]:
        from pydantic_ai.messages import ToolReturnPart

        _, parts = await self._talk(calls)
        found = {each.tool_call_id: each for each in parts if isinstance(each, ToolReturnPart)}
        heard = [found[f"call_{at}"] for at in range(len(calls))]
        return [
            Heard(each.model_response_str(), each.outcome != "success", each.content)
            for each in heard
        ]


class LangChain(Framework):
    name = "langchain"
    blocks = True
    modules = ("tool_engine.integrations.langchain", "langgraph.prebuilt", "langgraph.graph")

    def offer(self, source: CallsTools, **options: Any) -> Any:
        from tool_engine.integrations.langchain import as_langchain_tools

        return as_langchain_tools(source, **options)

    async def tell(self) -> dict[str, Told]:
        from langchain_core.utils.function_calling import convert_to_openai_tool

        told = [convert_to_openai_tool(each)["function"] for each in self.held]
        return {each["name"]: Told(each["description"], each["parameters"]) for each in told}

    async def run(self, calls: Calls) -> list[Heard]:
        from langchain_core.messages import AIMessage
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode

        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(self.held))
        graph.add_edge(START, "tools")
        asked = [
            {"name": name, "args": arguments, "id": f"call_{at}", "type": "tool_call"}
            for at, (name, arguments) in enumerate(calls)
        ]
        state: MessagesState = {"messages": [AIMessage("", tool_calls=asked)]}
        messages = (await graph.compile().ainvoke(state))["messages"][1:]
        return [Heard(each.text, each.status == "error", each.content) for each in messages]


class OpenAIAgents(Framework):
    name = "openai-agents"
    modules = ("tool_engine.integrations.openai_agents",)
    describes_anew = True

    def offer(self, source: CallsTools, **options: Any) -> Any:
        from tool_engine.integrations.openai_agents import as_openai_agents_tools

        return as_openai_agents_tools(source, **options)

    async def _talk(self, calls: Calls) -> list[tuple[Any, Any]]:
        from agents import Agent, Model, ModelResponse, Runner, set_tracing_disabled
        from agents.usage import Usage
        from openai.types.responses import (
            ResponseFunctionToolCall,
            ResponseOutputMessage,
            ResponseOutputText,
        )

        set_tracing_disabled(True)
        asked: list[tuple[Any, Any]] = []

        class Scripted(Model):
            async def get_response(  # type: ignore[override]
                self, *, tools: Any, **asked_with: Any
            ) -> ModelResponse:
                described = {
                    each.name: Told(each.description, each.params_json_schema) for each in tools
                }
                asked.append((described, asked_with["input"]))
                output: list[Any] = [
                    ResponseFunctionToolCall(
                        name=name,
                        arguments=json.dumps(arguments),
                        call_id=f"call_{at}",
                        type="function_call",
                    )
                    for at, (name, arguments) in enumerate(calls)
                ]
                if len(asked) > 1 or not calls:
                    text = ResponseOutputText(text="done", type="output_text", annotations=[])
                    output = [
                        ResponseOutputMessage(
                            id="1",
                            content=[text],
                            role="assistant",
                            status="completed",
                            type="message",
                        )
                    ]
                return ModelResponse(output=output, usage=Usage(), response_id=None)

            def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
                raise NotImplementedError

        await Runner.run(Agent("helper", model=Scripted(), tools=self.held), "Do it.")
        return asked

    async def tell(self) -> dict[str, Told]:
        found: dict[str, Told] = (await self._talk([]))[0][0]
        return found

    async def run(self, calls: Calls) -> list[Heard]:
        _, items = (await self._talk(calls))[-1]
        outputs = {
            each["call_id"]: each["output"]
            for each in items
            if isinstance(each, dict) and each.get("type") == "function_call_output"
        }
        heard = [outputs[f"call_{at}"] for at in range(len(calls))]
        return [Heard(each if isinstance(each, str) else "", None, each) for each in heard]


class LlamaIndex(Framework):
    name = "llamaindex"
    blocks = True
    modules = (
        "tool_engine.integrations.llamaindex",
        "llama_index.core.llms.llm",
        "llama_index.core.tools.calling",
    )
    describes_anew = True

    def offer(self, source: CallsTools, **options: Any) -> Any:
        from tool_engine.integrations.llamaindex import as_llamaindex_tools

        return as_llamaindex_tools(source, **options)

    def rename(self, name: str) -> None:
        self.held[0].metadata.name = name

    async def tell(self) -> dict[str, Told]:
        told = [each.metadata.to_openai_tool()["function"] for each in self.held]
        assert all(
            json.loads(each.metadata.fn_schema_str) == described["parameters"]
            for each, described in zip(self.held, told, strict=True)
        )
        return {each["name"]: Told(each["description"], each["parameters"]) for each in told}

    async def run(self, calls: Calls) -> list[Heard]:
        import asyncio

        from llama_index.core.llms.llm import ToolSelection
        from llama_index.core.tools.calling import acall_tool_with_selection

        asked = [
            ToolSelection(tool_id=f"call_{at}", tool_name=name, tool_kwargs=arguments)
            for at, (name, arguments) in enumerate(calls)
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(acall_tool_with_selection(each, self.held)) for each in asked
            ]
        outputs = [each.result() for each in tasks]
        return [Heard(each.content, each.is_error, each.blocks) for each in outputs]


FRAMEWORKS: tuple[type[Framework], ...] = (PydanticAI, LangChain, OpenAIAgents, LlamaIndex)
"""A new framework adds itself here, and its tools below."""


def langchain_tools(*functions: Callable[..., Any], **_: Any) -> CatalogSource:
    from langchain_core.tools import StructuredTool

    from tool_engine.integrations.langchain import from_langchain_tools

    return from_langchain_tools([StructuredTool.from_function(coroutine=f) for f in functions])


def pydantic_ai_tools(*functions: Callable[..., Any], **options: Any) -> CatalogSource:
    from pydantic_ai import Tool

    from tool_engine.integrations.pydantic_ai import from_pydantic_ai_tools

    return from_pydantic_ai_tools([Tool(each, **options) for each in functions])


def openai_agents_tools(*functions: Callable[..., Any], **options: Any) -> CatalogSource:
    from agents import function_tool

    from tool_engine.integrations.openai_agents import from_openai_agents_tools

    return from_openai_agents_tools([function_tool(**options)(each) for each in functions])


def llamaindex_tools(*functions: Callable[..., Any], **_: Any) -> CatalogSource:
    from llama_index.core.tools import FunctionTool

    from tool_engine.integrations.llamaindex import from_llamaindex_tools

    return from_llamaindex_tools([FunctionTool.from_defaults(async_fn=f) for f in functions])


BORROWED = (pydantic_ai_tools, langchain_tools, openai_agents_tools, llamaindex_tools)
"""What makes each framework's own tools of async functions, and a source of those."""
