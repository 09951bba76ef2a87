"""How does pydantic-ai use the tools, and an engine those of pydantic-ai?

https://ai.pydantic.dev/toolsets/
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable
from typing import Any, Final

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.integrations.borrowed_content import (
    has_content,
    keep_artifact,
    read_media,
    read_part,
)
from tool_engine.integrations.borrowed_tools import BorrowedTool, BorrowedTools, Borrowing
from tool_engine.integrations.offered_tools import OfferedTool, OfferedTools, write_parts
from tool_engine.interfaces import CallsTools, CatalogSource
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.outcome import ErrorType
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.result_content import IMAGE_TYPES
from tool_engine.protocols.result_media import Carried, Media
from tool_engine.session.session import ToolSession

try:
    from pydantic import ValidationError
    from pydantic_ai import (
        AbstractToolset,
        ApprovalRequired,
        BinaryContent,
        CachePoint,
        CallDeferred,
        ModelRetry,
        RunContext,
        TextContent,
        Tool,
        ToolDefinition,
        ToolFailed,
        ToolReturn,
        ToolsetTool,
        UploadedFile,
    )
    from pydantic_ai.messages import AudioUrl, DocumentUrl, ImageUrl, VideoUrl
except ImportError as error:
    raise MissingExtraError(
        f"pydantic-ai is not installed ({error.name}): pip install 'tool-engine[pydantic-ai]'"
    ) from error

_CARRIED: Final = Carried(
    image=IMAGE_TYPES, audio=("audio/wav", "audio/mpeg"), file=("application/pdf",)
)
_CORRECTABLE: Final = (ErrorType.VALIDATION_ERROR.value, ErrorType.TOOL_NOT_FOUND.value)
"""What a model puts right by writing the call anew."""


def as_pydantic_ai_toolset(
    source: CallsTools,
    *,
    context: ToolExecutionContext | None = None,
    tools: Collection[str] | None = None,
    max_retries: int | None = None,
    toolset_id: str | None = None,
) -> AbstractToolset[Any]:
    """Return the tools of a conversation or engine as a toolset of pydantic-ai.

    It lists the tools anew before each request, so that an agent sees what was reloaded. What the
    model can put right, such as a wrong argument, is a `ModelRetry`; another failure a
    `ToolFailed`. What a group of a session says to its model is among the instructions.

    Args:
        source: A `ToolSession`, best one for each conversation; or a `ToolSubAgent`, `ToolEngine`
            or a view of one.
        context: Who calls, and within which limits; None: as the source says.
        tools: The names of the tools that are offered; None: all that are enabled.
        max_retries: The most `ModelRetry` in a row of one tool, after which the run ends; None: as
            the agent says.
        toolset_id: Its id in pydantic-ai; None: it has none.

    Raises:
        ConfigurationError: The source lists or runs no tools, or the context is none.

    Example:
        >>> session = ToolSession(engine, "chat-1")
        >>> await agent.run("What is 6*7?", toolsets=[as_pydantic_ai_toolset(session)])
    """
    return _EngineToolset(
        OfferedTools(source, "pydantic-ai", context, tools), max_retries, toolset_id
    )


class _EngineToolset(AbstractToolset[Any]):
    def __init__(
        self, offered: OfferedTools, max_retries: int | None, toolset_id: str | None
    ) -> None:
        self._offered = offered
        self._max_retries = max_retries
        self._id = toolset_id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:
        source = self._offered.source
        return source.system_prompt("openai") or None if isinstance(source, ToolSession) else None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        retries = ctx.max_retries if self._max_retries is None else self._max_retries
        return {
            each.name: ToolsetTool(
                toolset=self,
                tool_def=_write_definition(each),
                max_retries=retries,
                args_validator=_AnyArguments(),
            )
            for each in self._offered.list_offered()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        # Not `name`: a `PrefixedToolset` around this one has taken its prefix off already.
        result = await self._offered.run(name, tool_args, ctx.tool_call_id)
        parts = write_parts(result, _CARRIED)
        if result.is_success:
            written = list(map(_write_part, parts))
            return written[0] if len(written) == 1 else written
        text = "\n".join(map(str, parts))
        raise (ModelRetry if result.error_type in _CORRECTABLE else ToolFailed)(text)


def _write_definition(tool: OfferedTool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=tool.schema,
        # As in a session: what only reads may run beside others.
        sequential=tool.tool.effect != "read",
        metadata={"effect": tool.tool.effect, "category": tool.tool.category.value},
    )


class _AnyArguments:
    """Reads arguments as the engine does, which checks them where it runs the call."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002 - the name that pydantic gives it
        text = input if isinstance(input, str) else bytes(input).decode(errors="replace")
        read = read_arguments(text)
        if read.value is None:
            raise ModelRetry(read.error or "the arguments cannot be read: write them anew")
        return read.value

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002 - the name that pydantic gives it
        return input


def _write_part(part: str | Media) -> str | BinaryContent:
    if isinstance(part, str):
        return part
    return BinaryContent(data=b64decode(part.data), media_type=part.mime_type)


def from_pydantic_ai_tools(
    tools: Iterable[Tool[Any]], *, origin: str = "import:pydantic-ai"
) -> CatalogSource:
    """Return tools of pydantic-ai for `engine.add_source`, with their schemas.

    Each call of one is validated, admitted, bounded and recorded. Its timeout holds, and one with
    `requires_approval` asks for consent before each call. One that takes the `RunContext` of an
    agent is left out, and a `load_errors` entry. A plain one runs in a thread, which its deadline
    does not end.

    Args:
        tools: The tools, such as the values of `toolset.tools` of a `FunctionToolset`.
        origin: The `Tool.origin` of the tools, by which `remove_source` takes them out again.

    Raises:
        ConfigurationError: One of them is no `Tool` of pydantic-ai, or two have one name.

    Example:
        >>> await engine.add_source(from_pydantic_ai_tools([Tool(get_weather)]))
    """
    borrowing = Borrowing(
        Tool,
        _read_tool,
        "from_pydantic_ai_tools",
        "make one of a function with Tool(function), and of a toolset take tools.values()",
        "pydantic-ai",
    )
    return BorrowedTools(tools, borrowing, origin)


def _read_tool(tool: Tool[Any]) -> BorrowedTool:
    definition: dict[str, Any] = {}
    if tool.timeout is not None:
        definition["timeout"] = tool.timeout
    if tool.requires_approval:
        definition["permission"] = "ask_always"
    fault = ""
    if tool.takes_ctx or tool.args_validator is not None:
        fault = (
            f"{tool.name!r} takes the RunContext of an agent of pydantic-ai, which no call here "
            "has: let it take its arguments only"
        )
    elif tool.prepare is not None:
        fault = (
            f"{tool.name!r} has a prepare function, which only an agent of pydantic-ai asks: leave "
            "it out, and let a session turn the tool on and off"
        )
    schema = tool.function_schema

    async def run(arguments: dict[str, Any], context: ToolExecutionContext) -> Any:
        del context
        try:
            # It makes its own types of them; the context is read by tools that take it only.
            read = schema.validator.validate_python(arguments)
            return _read_answer(await schema.call(read, None))  # type: ignore[arg-type]
        except (ModelRetry, ToolFailed, ValidationError) as error:
            raise ToolExecutionError(str(error)) from error
        except (ApprovalRequired, CallDeferred) as error:
            raise ToolExecutionError(
                f"{tool.name!r} raised {type(error).__name__}, which only an agent of pydantic-ai "
                "obeys: let the Tool have requires_approval=True, or run it as a task"
            ) from error

    return BorrowedTool(
        tool.name,
        tool.description or tool.name,
        tool.tool_def.parameters_json_schema,
        run,
        definition,
        fault,
    )


def _read_answer(answer: Any) -> Any:
    """Return what a model of pydantic-ai would see, and beside it what its program would."""
    artifact: Any = None
    more: list[Any] = []
    if isinstance(answer, ToolReturn):
        artifact, added = answer.metadata, answer.content
        more = [added] if isinstance(added, str) else list(added or ())
        answer = answer.return_value
    # As there: what stands deeper is data.
    parts = answer if isinstance(answer, list | tuple) else [answer]
    read = list(map(_read_media, parts))
    if not more and not has_content(read):
        return keep_artifact(answer, artifact)
    # Without a place in a cache, which is nothing to read.
    more = [_read_media(each) for each in more if not isinstance(each, CachePoint)]
    lone = read if has_content(read) else [answer]
    return keep_artifact([read_part(each) for each in (*lone, *more)], artifact)


def _read_media(part: Any) -> Any:
    """Return what a model is shown as content; other values as they are."""
    if isinstance(part, TextContent):
        return read_part(part.content)
    if isinstance(part, BinaryContent):
        kind = part.media_type.partition("/")[0]
        return read_media(kind, data=part.data, mime_type=part.media_type, name=part.identifier)
    if isinstance(part, ImageUrl | AudioUrl | VideoUrl | DocumentUrl):
        return read_media(part.kind.removesuffix("-url"), url=part.url, name=part.identifier)
    if isinstance(part, UploadedFile):
        return read_media("file", file_id=part.file_id)
    return part
