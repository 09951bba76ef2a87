"""How does the OpenAI Agents SDK use the tools, and an engine those of that SDK?

https://openai.github.io/openai-agents-python/tools/
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from copy import copy
from typing import Any, Final
from uuid import uuid4

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.integrations.borrowed_content import read_media, read_part
from tool_engine.integrations.borrowed_tools import BorrowedTool, BorrowedTools, Borrowing
from tool_engine.integrations.offered_tools import OfferedTool, OfferedTools, write_parts
from tool_engine.interfaces import CallsTools, CatalogSource
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.content.pieces import Content
from tool_engine.protocols.result_content import IMAGE_TYPES
from tool_engine.protocols.result_media import Carried, Media

try:
    from agents import FunctionTool, Tool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
    from agents.tool import set_function_tool_failure_error_function
    from agents.tool_context import ToolContext
except ImportError as error:
    raise MissingExtraError(
        f"openai-agents is not installed ({error.name}): pip install 'tool-engine[openai-agents]'"
    ) from error

_CARRIED: Final = Carried(image=IMAGE_TYPES, file=("application/pdf",))


def as_openai_agents_tools(
    source: CallsTools,
    *,
    context: ToolExecutionContext | None = None,
    tools: Collection[str] | None = None,
) -> list[Tool]:
    """Return the tools of a conversation or engine for agents of the OpenAI Agents SDK.

    A call that fails ends in a text that says why and what to do. Before each request a tool is
    described as it is then, and left out if it is gone or off; a new one is in the next list.

    Args:
        source: A `ToolSession`, best one for each conversation; or a `ToolSubAgent`, `ToolEngine`
            or a view of one.
        context: Who calls, and within which limits; None: as the source says.
        tools: The names of the tools that are offered; None: all that are enabled.

    Raises:
        ConfigurationError: The source lists or runs no tools, or the context is none.

    Example:
        >>> session = ToolSession(engine, "chat-1")
        >>> await Runner.run(agent.clone(tools=as_openai_agents_tools(session)), "What is 6*7?")
    """
    offered = OfferedTools(source, "openai-agents", context, tools)
    return [_make_tool(offered, each) for each in offered.list_offered()]


def _make_tool(offered: OfferedTools, tool: OfferedTool) -> FunctionTool:
    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        result = await offered.run(tool.name, arguments, context.tool_call_id)
        parts = write_parts(result, _CARRIED)
        if len(parts) == 1 and isinstance(parts[0], str):
            return parts[0]
        return list(map(_write_part, parts))

    def follow(*_: Any) -> bool:
        # The runner asks before each request, and describes the tool after that.
        now = offered.find_offered(tool.name)
        if now is not None:
            made.description, made.params_json_schema = now.description, now.schema
        return now is not None

    made = FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=invoke,
        # Strict mode would make another schema of it.
        strict_json_schema=False,
        is_enabled=follow,
    )
    return made


def _write_part(part: str | Media) -> ToolOutputText | ToolOutputImage | ToolOutputFileContent:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    if part.kind == "image":
        return ToolOutputImage(image_url=part.url)
    return ToolOutputFileContent(file_data=part.url, filename=part.name)


def from_openai_agents_tools(
    tools: Iterable[FunctionTool], *, origin: str = "import:openai-agents"
) -> CatalogSource:
    """Return function tools of the OpenAI Agents SDK for `engine.add_source`, with their schemas.

    Each call of one is validated, admitted, bounded and recorded. Its timeout holds, and one with
    `needs_approval` asks for consent before each call. One with guardrails or `is_enabled`, which
    only a runner of the SDK keeps, is left out, and a `load_errors` entry. A run's context is not
    there: a call of a tool that reads it fails.

    Args:
        tools: The tools.
        origin: The `Tool.origin` of the tools, by which `remove_source` takes them out again.

    Raises:
        ConfigurationError: One of them is no tool of the SDK, or two have one name.

    Example:
        >>> await engine.add_source(from_openai_agents_tools([get_weather]))
    """
    borrowing = Borrowing(
        FunctionTool,
        _read_tool,
        "from_openai_agents_tools",
        "make one of a function with @function_tool",
        "openai-agents",
    )
    return BorrowedTools(tools, borrowing, origin)


class _NoContext:
    """Stands where a tool expects what a program gave to its run."""

    def __repr__(self) -> str:
        return "<no context of a run>"

    def __getattr__(self, name: str) -> Any:
        raise ToolExecutionError(_WITHOUT_CONTEXT)

    def __getitem__(self, key: object) -> Any:
        raise ToolExecutionError(_WITHOUT_CONTEXT)


_WITHOUT_CONTEXT: Final = (
    "the tool reads the context of a run of openai-agents, which no call here has: let it take its "
    "arguments only"
)
_NO_CONTEXT: Final = _NoContext()


def _read_tool(tool: FunctionTool) -> BorrowedTool:
    definition: dict[str, Any] = {}
    if tool.timeout_seconds is not None:
        definition["timeout"] = tool.timeout_seconds
    if tool.needs_approval is not False:
        definition["permission"] = "ask_always"
    fault = ""
    if tool.tool_input_guardrails or tool.tool_output_guardrails:
        fault = (
            f"{tool.name!r} has guardrails, which only a runner of openai-agents keeps: leave them "
            "out, and let a permission or an approver decide"
        )
    elif tool.is_enabled is not True:
        fault = (
            f"{tool.name!r} has is_enabled, which only a runner of openai-agents asks: leave it "
            "out, and let a session turn the tool on and off"
        )
    # A failure is one here, too, and not a text that looks like a result.
    plain = set_function_tool_failure_error_function(copy(tool), None)

    async def run(arguments: dict[str, Any], context: ToolExecutionContext) -> Any:
        text = json.dumps(arguments, ensure_ascii=False)
        call_id = context.call_id or uuid4().hex
        made: ToolContext[Any] = ToolContext(
            context=_NO_CONTEXT, tool_name=tool.name, tool_call_id=call_id, tool_arguments=text
        )
        return _read_answer(await plain.on_invoke_tool(made, text))

    return BorrowedTool(
        tool.name, tool.description or tool.name, tool.params_json_schema, run, definition, fault
    )


def _read_answer(answer: Any) -> Any:
    """Return what a model of the SDK would be shown as content; other values as they are."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    read = list(map(_read_media, parts))
    # As there: all of a list, or none.
    return answer if not read or None in read else read


_KINDS: Final[dict[str, Any]] = {
    "text": ToolOutputText,
    "image": ToolOutputImage,
    "file": ToolOutputFileContent,
}


def _read_media(part: Any) -> Content | None:
    if isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in _KINDS:
        try:
            part = _KINDS[kind].model_validate(part)
        except ValueError:
            return None
    if isinstance(part, ToolOutputText):
        return read_part(part.text)
    if isinstance(part, ToolOutputImage):
        return read_media("image", url=part.image_url, file_id=part.file_id)
    if isinstance(part, ToolOutputFileContent):
        return read_media(
            "file",
            data=part.file_data,
            url=part.file_url,
            file_id=part.file_id,
            name=part.filename,
        )
    return None
