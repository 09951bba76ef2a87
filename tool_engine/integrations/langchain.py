"""How do LangChain and LangGraph use the tools, and an engine those of LangChain?

https://docs.langchain.com/oss/python/langchain/tools
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Final, Literal
from uuid import uuid4

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.integrations.borrowed_tools import BorrowedTool, BorrowedTools, check_kind
from tool_engine.integrations.offered_tools import OfferedTool, OfferedTools, write_parts
from tool_engine.interfaces import CallsTools, CatalogSource
from tool_engine.model.call import ToolExecutionContext
from tool_engine.protocols.result_content import IMAGE_TYPES
from tool_engine.protocols.result_media import Carried, Media

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.messages.tool import ToolOutputMixin
    from langchain_core.tools import BaseTool, ToolException
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from pydantic import PrivateAttr
except ImportError as error:
    raise MissingExtraError(
        f"LangChain is not installed ({error.name}): pip install 'tool-engine[langchain]'"
    ) from error

_CARRIED: Final = Carried(image=IMAGE_TYPES, file=("application/pdf",))
_CURE: Final = "await `tool.ainvoke(...)`"


def as_langchain_tools(
    source: CallsTools,
    *,
    context: ToolExecutionContext | None = None,
    tools: Collection[str] | None = None,
) -> list[BaseTool]:
    """Return the tools of a conversation or engine for LangChain and LangGraph.

    A call that fails becomes a `ToolMessage` of status `error` that says why and what to do. The
    list is that of now: take a new one for each conversation. `invoke` blocks, and works where the
    engine does not live on the thread's own event loop.

    Args:
        source: A `ToolSession`, best one for each conversation; or a `ToolSubAgent`, `ToolEngine`
            or a view of one.
        context: Who calls, and within which limits; None: as the source says.
        tools: The names of the tools that are offered; None: all that are enabled.

    Raises:
        ConfigurationError: The source lists or runs no tools, or the context is none.

    Example:
        >>> agent = create_agent(model, as_langchain_tools(ToolSession(engine, "chat-1")))
    """
    offered = OfferedTools(source, "langchain", context, tools)
    return [_EngineTool.make(offered, each) for each in offered.list_offered()]


class _EngineTool(BaseTool):
    handle_tool_error: Any = True
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    _offered: OfferedTools = PrivateAttr()

    @classmethod
    def make(cls, offered: OfferedTools, tool: OfferedTool) -> _EngineTool:
        made = cls(name=tool.name, description=tool.description, args_schema=tool.schema)
        made._offered = offered
        return made

    # What is before the slash cannot be a tool's own parameter.

    async def _arun(self, /, *_: Any, **arguments: Any) -> tuple[Any, Any]:
        result = await self._offered.run(self.name, arguments)
        parts = write_parts(result, _CARRIED)
        if not result.is_success:
            raise ToolException("\n".join(map(str, parts)))
        is_text = len(parts) == 1 and isinstance(parts[0], str)
        return (parts[0] if is_text else list(map(_write_block, parts))), result.output

    def _run(self, /, *_: Any, **arguments: Any) -> tuple[Any, Any]:
        return self._offered.block(partial(self._arun, **arguments), cure=_CURE)


def _write_block(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    block = {"type": part.kind, "base64": part.data, "mime_type": part.mime_type}
    return block if part.kind == "image" else {**block, "filename": part.name}


def from_langchain_tools(
    tools: Iterable[BaseTool], *, origin: str = "import:langchain"
) -> CatalogSource:
    """Return tools of LangChain for `engine.add_source`, with their schemas.

    Each call of one is validated, admitted, bounded and recorded. A plain one runs in a thread,
    which its deadline does not end.

    Args:
        tools: The tools.
        origin: The `Tool.origin` of the tools, by which `remove_source` takes them out again.

    Raises:
        ConfigurationError: One of them is no tool of LangChain, or two have one name.

    Example:
        >>> await engine.add_source(from_langchain_tools([search, calculator]))
    """
    return BorrowedTools(map(_read_tool, tools), origin)


def _read_tool(tool: BaseTool) -> BorrowedTool:
    check_kind(tool, BaseTool, "from_langchain_tools")
    described = convert_to_openai_tool(tool)["function"]
    fault = ""
    if injected := _list_injected(tool):
        fault = (
            f"{tool.name!r} takes {', '.join(map(repr, injected))} of an agent of LangChain, which "
            "no call here has: let it take its arguments only"
        )

    async def run(arguments: dict[str, Any], context: ToolExecutionContext) -> Any:
        if not (tool.handle_tool_error or tool.handle_validation_error):
            return _read_answer(tool.name, await tool.ainvoke(arguments))
        # As a call of a model: by nothing else does it show what was an error.
        call = {"type": "tool_call", "name": tool.name, "args": arguments}
        call["id"] = context.call_id or uuid4().hex
        return _read_answer(tool.name, await tool.ainvoke(call))

    return BorrowedTool(
        tool.name,
        described.get("description") or tool.name,
        described["parameters"],
        run,
        fault=fault,
    )


def _list_injected(tool: BaseTool) -> list[str]:
    """Return the parameters that an agent gives to a tool, and its model does not."""
    if isinstance(tool.args_schema, dict):
        return []
    whole, shown = tool.get_input_schema(), tool.tool_call_schema
    fields = [getattr(each, "model_fields", {}).keys() for each in (whole, shown)]
    return sorted(fields[0] - fields[1]) if fields[1] or not fields[0] else []


def _read_answer(name: str, answer: Any) -> Any:
    if isinstance(answer, ToolMessage):
        if answer.status == "error":
            raise ToolExecutionError(answer.text)
        return answer.content
    if isinstance(answer, ToolOutputMixin):
        raise ToolExecutionError(
            f"{name!r} returned {type(answer).__name__}, which only agents of LangGraph obey: let "
            "it return a value"
        )
    return answer
