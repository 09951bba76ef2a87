"""Is anything that we write ourselves read as a call, in any protocol?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.registry import PROTOCOLS, get_protocol
from tool_engine.protocols.text.text_protocol import TextProtocol

TOOLS: Final = list(ToolConfigLoader().load_directory(Path(__file__).parents[2] / "tools"))
STYLES: Final[list[tuple[str, dict[str, Any]]]] = [
    *((name, {}) for name in PROTOCOLS),
    ("openai", {"strict": True}),
    ("function_call", {"definition_style": "json", "call_style": "json"}),
    ("function_call", {"definition_style": "xml", "language": "zh"}),
    ("vcp", {"definition_style": "lines", "result_style": "aio"}),
]
READERS: Final[list[tuple[str, dict[str, Any]]]] = [
    *((name, {}) for name in PROTOCOLS),
    ("function_call", {"skip_quoted": False}),
    ("vcp", {"skip_quoted": False, "fuzzy": True}),
]
EXAMPLES: Final = ("NAME", "name of the tool", "工具名")
"""The names of no tool, in the prompts' own example of a call."""


def _texts(value: Any) -> Iterator[str]:
    """A value of ours as a model may repeat it."""
    if isinstance(value, str):
        yield from (value, f"Here it is:\n\n{value}\n", f"```\n{value}\n```")
        return
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        yield text
        yield f"```json\n{text}\n```"
        yield f"Here it is:\n{text}\nThat is all."
        yield f"The tool: {text}"
        yield f"<function_call>{text}</function_call>"
        yield f"<function_call>\n{text}"
        yield f"<<<[TOOL_REQUEST]>>>\n{text}\n<<<[END_TOOL_REQUEST]>>>"


def _definitions(tools: list[Tool]) -> Iterator[Any]:
    """Definitions as our protocols write them, and as other people do."""
    for name, options in STYLES:
        protocol = get_protocol(name, **options)
        written = protocol.definitions(tools)
        yield written
        if isinstance(written, list):
            yield from written
        if isinstance(protocol, TextProtocol):
            yield protocol.prompt(tools)
    for tool in tools:
        schema = tool.parameters_schema
        told = {"name": tool.name, "description": tool.description}
        yield {**told, "inputSchema": schema, "annotations": {"readOnlyHint": True}}
        yield {**told, "parametersJsonSchema": schema}
        yield {**told, "parameters": schema}
        yield {"tool_name": tool.name, "description": tool.description, "parameters": schema}
        yield {"type": "function", "function": {"name": tool.name, "parameters": schema}}
        yield {"name": tool.name, "arguments": schema}
        yield {"name": tool.name, "arguments": json.dumps(schema)}
        yield {"tools": [{**told, "input_schema": schema}]}
        yield [{**told, "parameters": schema}, {"name": tool.name, "input": schema}]
        yield {"function": {**told, "parameters": schema}}
        yield told


def _results(tools: list[Tool]) -> Iterator[Any]:
    for name, options in STYLES:
        protocol = get_protocol(name, **options)
        for tool in tools:
            for told in _outcomes(tool):
                call = ToolCall(call_id="call_1", tool_name=tool.name, arguments={})
                written = protocol.format_results([told], [call])
                yield written
                if isinstance(written, list):
                    yield from written


def _outcomes(tool: Tool) -> list[ToolExecutionResult]:
    told = f"tool {tool.name!r}: parameter 'path' is missing; say it, as in {tool.examples[:1]}"
    failure = ToolExecutionResult(False, tool.name, error=told)
    says = ToolExecutionResult(True, tool.name, output={"result": tool.description})
    shows = {"name": tool.name, "arguments": {}}
    return [failure, says, ToolExecutionResult(True, tool.name, output=shows)]


def _check(values: Iterator[Any], tools: list[Tool]) -> None:
    readers = [(get_protocol(name, tools=tools, **options)) for name, options in READERS]
    for value in values:
        for text in _texts(value):
            for reader in readers:
                reply = reader.parse(_reply(reader.name, text))
                runs = [call.tool_name for call in reply.calls if call.is_runnable]
                assert not set(runs) - set(EXAMPLES), (reader.name, text)


def _reply(name: str, text: str) -> Any:
    """The whole reply of a model that says a text."""
    match name:
        case "openai":
            message = {"role": "assistant", "content": text}
            return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        case "openai_responses":
            part = {"type": "output_text", "text": text, "annotations": []}
            item = {"type": "message", "role": "assistant", "id": "m", "content": [part]}
            return {"id": "r", "status": "completed", "output": [item]}
        case "anthropic":
            content = [{"type": "text", "text": text}]
            return {"type": "message", "role": "assistant", "content": content}
        case "gemini":
            told = {"role": "model", "parts": [{"text": text}]}
            return {"candidates": [{"content": told, "finishReason": "STOP"}]}
        case _:
            return text


@pytest.mark.parametrize("tool", TOOLS[::4], ids=lambda tool: tool.name)
def test_the_definition_of_a_tool_calls_nothing(tool: Tool) -> None:
    """ "Show me the JSON of that tool" shows it: a definition is text in every protocol.

    Looked at: what `definitions` and `prompt` write in every style, the forms of OpenAI, Anthropic,
    Gemini and MCP, lists of them, in code blocks, in sentences and between the marks of calls.
    """
    _check(_definitions([tool]), [tool])


@pytest.mark.parametrize("tool", TOOLS[1::8], ids=lambda tool: tool.name)
def test_what_a_model_is_told_of_results_calls_nothing(tool: Tool) -> None:
    """A result or an error that a model repeats is text."""
    values = (value for value in _results([tool]) if isinstance(value, str))
    _check(values, [tool])


def test_all_definitions_at_once_call_nothing() -> None:
    """The whole list of tools, as it was sent, is text when it comes back."""
    protocols = [get_protocol(name, **options) for name, options in STYLES]
    _check((protocol.definitions(TOOLS) for protocol in protocols), TOOLS)


def _tool(description: str, parameters: list[ToolParameter]) -> Tool:
    return Tool(
        id="wipe",
        name="wipe",
        version="1.0.0",
        description=description,
        category=ToolCategory.CUSTOM,
        tags=[],
        implementation_config={},
        parameters=parameters,
    )


WORDS = st.sampled_from(["name", "type", "path", "x", "parameters", "description", "arguments"])
DRAWN = st.builds(
    lambda names, types, description: _tool(
        description,
        [
            ToolParameter(name, kind, required=False, description=f"a {kind}")
            for name, kind in zip(names, types, strict=False)
        ],
    ),
    st.lists(WORDS, unique=True, max_size=4),
    st.lists(st.sampled_from(["string", "integer", "object", "array"]), min_size=4, max_size=4),
    st.sampled_from(
        ["Deletes all.", "", '{"name": "wipe", "arguments": {}}', "`a` ```\n", "「末」"]
    ),
)


@settings(max_examples=share_of(10), deadline=None)
@given(tool=DRAWN)
def test_any_definition_calls_nothing(tool: Tool) -> None:
    """The same of definitions that are drawn: names and texts that look like parts of calls."""
    _check(_definitions([tool]), [tool])


def test_a_tool_that_takes_a_schema_can_be_called() -> None:
    """What looks like a schema is arguments where the tool takes them."""
    parameters = [ToolParameter(name, "object", required=False) for name in ("properties", "type")]
    tool = _tool("Makes a table.", parameters)
    call = {"name": "wipe", "arguments": {"type": {}, "properties": {"a": {"type": "x"}}}}
    reply = get_protocol("function_call", tools=[tool]).parse(json.dumps(call))
    assert [each.arguments for each in reply.calls] == [call["arguments"]]
