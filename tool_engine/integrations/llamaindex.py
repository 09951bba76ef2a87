"""How does LlamaIndex use the tools, and an engine those of LlamaIndex?

https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/tools/
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Final

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.integrations.borrowed_tools import BorrowedTool, BorrowedTools, check_kind
from tool_engine.integrations.offered_tools import OfferedTool, OfferedTools, write_parts
from tool_engine.interfaces import CallsTools, CatalogSource
from tool_engine.model.call import ToolExecutionContext
from tool_engine.protocols.result_content import IMAGE_TYPES
from tool_engine.protocols.result_media import Carried, Media

try:
    from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock, TextBlock
    from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata
    from llama_index.core.tools import ToolOutput as LlamaOutput
    from llama_index.core.tools.types import adapt_to_async_tool
except ImportError as error:
    raise MissingExtraError(
        f"LlamaIndex is not installed ({error.name}): pip install 'tool-engine[llamaindex]'"
    ) from error

_CARRIED: Final = Carried(
    image=IMAGE_TYPES, audio=("audio/wav", "audio/mpeg"), file=("application/pdf",)
)
_CURE: Final = "await `tool.acall(...)`"


def as_llamaindex_tools(
    source: CallsTools,
    *,
    context: ToolExecutionContext | None = None,
    tools: Collection[str] | None = None,
) -> list[AsyncBaseTool]:
    """Return the tools of a conversation or engine for agents of LlamaIndex.

    A call that fails is a `ToolOutput` with `is_error` that says why and what to do. Each tool is
    described as it is when it is asked for; a new one is in the next list. `call` blocks, and
    works where the engine does not live on the thread's own event loop.

    Args:
        source: A `ToolSession`, best one for each conversation; or a `ToolSubAgent`, `ToolEngine`
            or a view of one.
        context: Who calls, and within which limits; None: as the source says.
        tools: The names of the tools that are offered; None: all that are enabled.

    Raises:
        ConfigurationError: The source lists or runs no tools, or the context is none.

    Example:
        >>> agent = FunctionAgent(tools=as_llamaindex_tools(ToolSession(engine, "chat-1")), llm=llm)
    """
    offered = OfferedTools(source, "llamaindex", context, tools)
    return [_EngineTool(offered, each) for each in offered.list_offered()]


class _EngineMetadata(ToolMetadata):
    """A description whose schema is the definition's, and not made from a model of pydantic."""

    def __init__(self, tool: OfferedTool) -> None:
        super().__init__(tool.description, tool.name, fn_schema=None)
        self._schema = tool.schema

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._schema

    @property
    def fn_schema_str(self) -> str:
        # The inherited one asks for a model of pydantic.
        return json.dumps(self._schema, ensure_ascii=False)


class _EngineTool(AsyncBaseTool):
    def __init__(self, offered: OfferedTools, tool: OfferedTool) -> None:
        self._offered = offered
        self._tool = tool

    @property
    def metadata(self) -> ToolMetadata:
        self._tool = self._offered.find_offered(self._tool.name) or self._tool
        return _EngineMetadata(self._tool)

    def call(self, /, *values: Any, **arguments: Any) -> LlamaOutput:
        return self._offered.block(partial(self.acall, *values, **arguments), cure=_CURE)

    # What is before the slash cannot be a tool's own parameter.

    async def acall(self, /, *values: Any, **arguments: Any) -> LlamaOutput:
        # LlamaIndex sends the argument of a tool with only one without its name.
        sent = {**dict(zip(self._tool.schema["properties"], values, strict=False)), **arguments}
        result = await self._offered.run(self._tool.name, sent)
        return LlamaOutput(
            tool_name=self._tool.name,
            blocks=list(map(_write_block, write_parts(result, _CARRIED))),
            raw_input=sent,
            raw_output=result.output if result.is_success else result.error,
            is_error=not result.is_success,
        )


def _write_block(part: str | Media) -> TextBlock | ImageBlock | AudioBlock | DocumentBlock:
    if isinstance(part, str):
        return TextBlock(text=part)
    data = b64decode(part.data)
    if part.kind == "image":
        return ImageBlock(image=data, image_mimetype=part.mime_type)
    if part.kind == "audio":
        return AudioBlock(audio=data, format=part.mime_type.partition("/")[2])
    return DocumentBlock(data=data, title=part.name, document_mimetype=part.mime_type)


def from_llamaindex_tools(
    tools: Iterable[BaseTool], *, origin: str = "import:llamaindex"
) -> CatalogSource:
    """Return tools of LlamaIndex for `engine.add_source`, with their schemas.

    Each call of one is validated, admitted, bounded and recorded. One that takes the `Context` of a
    workflow is left out, and a `load_errors` entry. A plain one runs in a thread, which its
    deadline does not end.

    Args:
        tools: The tools.
        origin: The `Tool.origin` of the tools, by which `remove_source` takes them out again.

    Raises:
        ConfigurationError: One of them is no tool of LlamaIndex, or two have one name.

    Example:
        >>> await engine.add_source(from_llamaindex_tools([FunctionTool.from_defaults(search)]))
    """
    return BorrowedTools(map(_read_tool, tools), origin)


def _read_tool(tool: BaseTool) -> BorrowedTool:
    check_kind(tool, BaseTool, "from_llamaindex_tools")
    described, fault = tool.metadata, ""
    name = described.get_name()
    if isinstance(tool, FunctionTool) and tool.requires_context:
        fault = (
            f"{name!r} takes the Context of a workflow of LlamaIndex, which no call here has: let "
            "it take its arguments only"
        )
    own = adapt_to_async_tool(tool)

    async def run(arguments: dict[str, Any], context: ToolExecutionContext) -> Any:
        del context
        answer = await own.acall(**arguments)
        if answer.is_error:
            raise ToolExecutionError(answer.content)
        return answer.raw_output

    return BorrowedTool(
        name, described.description, described.get_parameters_dict(), run, fault=fault
    )
