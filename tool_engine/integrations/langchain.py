"""How do LangChain and LangGraph use the tools, and an engine those of LangChain?

https://docs.langchain.com/oss/python/langchain/tools
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Final, Literal, get_args
from uuid import uuid4

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.integrations.borrowed_content import keep_artifact, read_media, read_part
from tool_engine.integrations.borrowed_tools import BorrowedTool, BorrowedTools, Borrowing
from tool_engine.integrations.offered_tools import OfferedTool, OfferedTools, write_parts
from tool_engine.interfaces import CallsTools, CatalogSource
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.content.pieces import Content
from tool_engine.protocols.result_content import IMAGE_TYPES
from tool_engine.protocols.result_media import Carried, Media

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.messages.tool import ToolOutputMixin
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
    from langchain_core.tools import Tool as SingleInputTool
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
    _sent_name: str = PrivateAttr()
    """Its name here, whatever a program names it for its model."""

    @classmethod
    def make(cls, offered: OfferedTools, tool: OfferedTool) -> _EngineTool:
        made = cls(name=tool.name, description=tool.description, args_schema=tool.schema)
        made._offered, made._sent_name = offered, tool.name
        return made

    # What is before the slash cannot be a tool's own parameter.

    async def _arun(self, /, *_: Any, **arguments: Any) -> tuple[Any, Any]:
        result = await self._offered.run(self._sent_name, arguments)
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
    borrowing = Borrowing(
        BaseTool,
        _read_tool,
        "from_langchain_tools",
        "make one of a function with @tool, and of a toolkit take get_tools()",
        "LangChain",
    )
    return BorrowedTools(tools, borrowing, origin)


def _read_tool(tool: BaseTool) -> BorrowedTool:
    fault = ""
    if injected := _list_injected(tool):
        fault = (
            f"{tool.name!r} takes {', '.join(map(repr, injected))} of an agent of LangChain, which "
            "no call here has: let it take its arguments only"
        )

    async def run(arguments: dict[str, Any], context: ToolExecutionContext) -> Any:
        handles = tool.handle_tool_error or tool.handle_validation_error
        if not handles and tool.response_format == "content":
            return _read_answer(tool.name, await tool.ainvoke(arguments))
        # As a call of a model: by nothing else does it show what was an error, and the artifact.
        call = {"type": "tool_call", "name": tool.name, "args": arguments}
        call["id"] = context.call_id or uuid4().hex
        return _read_answer(tool.name, await tool.ainvoke(call))

    return BorrowedTool(
        tool.name,
        tool.description or tool.name,
        _read_schema(tool),
        run,
        fault=fault,
    )


def _read_schema(tool: BaseTool) -> dict[str, Any]:
    """Return the schema that LangChain shows its model."""
    if isinstance(tool, SingleInputTool) and not tool.args_schema:
        # It takes one text. Its `tool_call_schema` is that of a method that passes the text on.
        single: dict[str, Any] = convert_to_openai_tool(tool)["function"]["parameters"]
        return single
    # As pydantic writes it: where LangChain puts references in, one that refers to itself is lost.
    schema: Any = tool.tool_call_schema
    if isinstance(schema, dict):
        return schema
    write = getattr(schema, "model_json_schema", None) or schema.schema
    written: dict[str, Any] = write()
    return _leave_out_config(written, schema)


def _leave_out_config(schema: dict[str, Any], model: Any) -> dict[str, Any]:
    """Return a schema without what LangChain sets itself, whatever a model says of it."""
    fields = getattr(model, "model_fields", {}).items()
    kinds = {name: each.annotation for name, each in fields}
    names = {name for name, kind in kinds.items() if RunnableConfig in (kind, *get_args(kind))}
    if not names:
        return schema
    kept = {name: each for name, each in schema["properties"].items() if name not in names}
    required = [each for each in schema.get("required", ()) if each not in names]
    left = {**schema, "properties": kept, "required": required}
    left["$defs"] = {key: each for key, each in schema["$defs"].items() if key != "RunnableConfig"}
    return left


def _list_injected(tool: BaseTool) -> list[str]:
    """Return the parameters that an agent gives to a tool, and its model does not."""
    if isinstance(tool.args_schema, dict):
        # Nothing but the function says so.
        return sorted(tool._injected_args_keys)  # noqa: SLF001 - no other part of it says it
    whole, shown = tool.get_input_schema(), tool.tool_call_schema
    fields = [getattr(each, "model_fields", {}).keys() for each in (whole, shown)]
    return sorted(fields[0] - fields[1]) if fields[1] or not fields[0] else []


def _read_answer(name: str, answer: Any) -> Any:
    """Return what a model of LangChain would see, and beside it what its program would."""
    if isinstance(answer, ToolMessage):
        if answer.status == "error":
            raise ToolExecutionError(answer.text)
        return keep_artifact(_read_content(answer.content), answer.artifact)
    if isinstance(answer, ToolOutputMixin):
        raise ToolExecutionError(
            f"{name!r} returned {type(answer).__name__}, which only agents of LangGraph obey: let "
            "it return a value"
        )
    return _read_content(answer)


def _read_content(answer: Any) -> Any:
    """Return blocks of messages as content; other values as they are."""
    if not isinstance(answer, list | tuple) or not all(map(_is_part, answer)):
        return answer
    if not any(isinstance(each, dict) for each in answer):
        return answer
    return [read_part(each if isinstance(each, str) else _read_block(each)) for each in answer]


def _is_part(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and value.get("type") in _BLOCKS)


_BLOCKS: Final = (
    *("text", "image_url", "image", "audio", "input_audio", "video", "file", "document", "json"),
    *("text-plain", "search_result", "custom_tool_call_output"),
)
"""The types of blocks in messages, as LangChain and the providers have them."""


def _read_block(block: dict[str, Any]) -> Content | str | dict[str, Any]:
    kind = block["type"]
    if kind in ("text", "text-plain") and isinstance(block.get("text"), str):
        return str(block["text"])
    # LangChain's own form is flat; OpenAI's and Anthropic's have the same under a key.
    held = block.get("source", block.get(kind))
    if isinstance(held, str):
        held = {"url": held}
    said = {**block, **held} if isinstance(held, dict) else block
    found = {name: _find_text(said, keys) for name, keys in _PLACES.items()}
    if found["data"] is None and found["url"] is None and found["file_id"] is None:
        return block
    if kind == "document" and said.get("type") == "text":
        return str(found["data"])
    if kind == "input_audio" and found["mime_type"] is None:
        found["mime_type"] = f"audio/{said.get('format')}".replace("/mp3", "/mpeg")
    words = kind.removesuffix("_url").removeprefix("input_").replace("document", "file")
    return read_media(words, **found)


_PLACES: Final = {
    "data": ("base64", "data", "file_data"),
    "url": ("url", "file_url"),
    "file_id": ("file_id", "id"),
    "mime_type": ("mime_type", "media_type"),
    "name": ("filename", "title", "name"),
}
"""Where the forms of a block have what `read_media` takes."""


def _find_text(block: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((block[key] for key in keys if isinstance(block.get(key), str)), None)
