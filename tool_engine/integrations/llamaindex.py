"""How does LlamaIndex use the tools, and an engine those of LlamaIndex?

https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/tools/
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

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
    from llama_index.core.base.llms.types import (
        AudioBlock,
        BaseContentBlock,
        CachePoint,
        CitableBlock,
        CitationBlock,
        DocumentBlock,
        ImageBlock,
        TextBlock,
        VideoBlock,
    )
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
        self.follow(tool)

    def follow(self, tool: OfferedTool) -> None:
        """Describe the tool as it is now, by the name that a program may have given it."""
        self.description, self._schema = tool.description, tool.schema

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
        self._metadata = _EngineMetadata(tool)

    @property
    def metadata(self) -> ToolMetadata:
        self._tool = self._offered.find_offered(self._tool.name) or self._tool
        self._metadata.follow(self._tool)
        return self._metadata

    def call(self, /, *values: Any, **arguments: Any) -> LlamaOutput:
        return self._offered.block(partial(self.acall, *values, **arguments), cure=_CURE)

    # What is before the slash cannot be a tool's own parameter.

    async def acall(self, /, *values: Any, **arguments: Any) -> LlamaOutput:
        # LlamaIndex sends the argument of a tool with only one without its name.
        sent = {**dict(zip(self._tool.schema["properties"], values, strict=False)), **arguments}
        result = await self._offered.run(self._tool.name, sent)
        return LlamaOutput(
            tool_name=self._metadata.get_name(),
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
    borrowing = Borrowing(
        BaseTool,
        _read_tool,
        "from_llamaindex_tools",
        "make one of a function with FunctionTool.from_defaults(function)",
        "LlamaIndex",
    )
    return BorrowedTools(tools, borrowing, origin)


def _read_tool(tool: BaseTool) -> BorrowedTool:
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
        return await _read_answer(await own.acall(**arguments))

    return BorrowedTool(
        name, described.description, described.get_parameters_dict(), run, fault=fault
    )


async def _read_answer(answer: LlamaOutput) -> Any:
    """Return what a model of LlamaIndex would see, and beside it what its program would."""
    if answer.is_error:
        raise ToolExecutionError(answer.content)
    raw = answer.raw_output
    if isinstance(raw, LlamaOutput):
        # A function that made it itself: there its text is all that the model sees.
        return await _read_answer(raw)
    if all(isinstance(each, TextBlock) for each in answer.blocks):
        if answer.content == str(raw):
            return raw
        parts: list[Content] = [read_part(answer.content)]
    else:
        # A block may stand for a file.
        parts = await asyncio.to_thread(_read_blocks, answer.blocks)
    held = raw if isinstance(raw, list) and raw else [raw]
    is_shown = all(isinstance(each, BaseContentBlock) for each in held)
    return keep_artifact(parts, None if is_shown else raw)


def _read_blocks(blocks: Iterable[Any]) -> list[Content]:
    return [each for block in blocks for each in _read_block(block)]


def _read_block(block: Any) -> list[Content]:
    if isinstance(block, TextBlock):
        return [read_part(block.text)]
    if isinstance(block, CachePoint):
        return []
    if isinstance(block, CitableBlock | CitationBlock):
        cited = block.content if isinstance(block, CitableBlock) else [block.cited_content]
        return [read_part(f"{block.title} ({block.source})"), *_read_blocks(cited)]
    return [_read_media(block)]


def _read_media(block: Any) -> Content:
    if isinstance(block, ImageBlock):
        return _read_bytes("image", block, block.resolve_image, block.image_mimetype)
    if isinstance(block, AudioBlock):
        kind = f"audio/{block.format}".replace("/mp3", "/mpeg") if block.format else None
        return _read_bytes("audio", block, block.resolve_audio, kind)
    if isinstance(block, VideoBlock):
        return _read_bytes("video", block, block.resolve_video, block.video_mimetype)
    if isinstance(block, DocumentBlock):
        return _read_bytes("file", block, block.resolve_document, block.document_mimetype)
    return read_part(f"[{type(block).__name__}, left out: no result of a tool holds it]")


def _read_bytes(kind: str, block: Any, read: Callable[[], Any], mime_type: str | None) -> Content:
    name = getattr(block, "title", None)
    if block.url is not None:
        # Not asked: a model may have written the address.
        return read_media(kind, url=str(block.url), mime_type=mime_type, name=name)
    try:
        data: bytes = read().read()
    except (OSError, ValueError) as error:
        return read_part(f"[{name or kind}, left out: {error}]")
    return read_media(kind, data=data, mime_type=mime_type, name=name)
