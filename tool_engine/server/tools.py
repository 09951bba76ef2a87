"""Which tools may a client see and call, and how are they described?"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.catalog.definition.showing import show_case
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.json.secret_schema import mark_secrets
from tool_engine.model.tool import Tool
from tool_engine.server.endpoint import Sized
from tool_engine.server.operation import Asked, Reply, serve_at
from tool_engine.server.paging import Cursor, Limit, make_cursor, read_cursor
from tool_engine.server.problems import make_unknown
from tool_engine.server.wishes import has_tag

_SHOWN: Final = ("testing", "published")
_MOST_NEAR: Final = 3
_UNLESS_KNOWN: Final = {"if-none-match": "An `ETag`: the answer is 304 while it still holds."}
_UNCHANGED: Final = {"304": {"description": "What the client has still holds."}}
_Names = Annotated[str, Meta(max_length=10_000, description="Names, joined by commas.")]
Format = Literal["openai", "openai_responses", "anthropic", "gemini", "mcp"]


class ToolQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    query: Annotated[str, Meta(max_length=1000, description="Words; the best first.")] | None = None
    tag: Annotated[str, Meta(max_length=200)] | None = None
    all: Annotated[
        bool,
        Meta(
            description="Those that models are not told of, too, such as drafts; it takes the "
            "scope `operate`."
        ),
    ] = False
    limit: Limit = 100
    cursor: Cursor | None = None


class ToolSummary(msgspec.Struct):
    """A tool in a list."""

    name: str
    title: str
    description: str
    version: str
    category: str
    tags: list[str]
    effect: str
    """`read`, `write` or `unknown`."""
    status: str
    """`draft`, `testing`, `published` or `deprecated`."""


class ToolDetails(ToolSummary):
    """A tool, with all that a caller needs to know."""

    aliases: list[str]
    audience: list[str]
    """Who may call it: `model`, `code`, or both."""
    is_idempotent: bool
    timeout: float | None
    """Seconds that a call may run; null: as long as the engine's default says."""
    input_schema: dict[str, Any]
    """JSON Schema 2020-12 of the arguments."""
    output_schema: dict[str, Any] | None
    """JSON Schema 2020-12 of the output, where it is declared."""
    examples: list[dict[str, Any]]
    """Right calls, as its definition shows them: `params`, and perhaps `description`, `output`."""
    definition_hash: str


class ToolPage(msgspec.Struct):
    items: list[ToolSummary]
    next: str | None = None
    """The cursor of the next page; null: this is the last."""


class DefinitionQuery(msgspec.Struct, forbid_unknown_fields=True):
    names: _Names | None = None


class Definitions(msgspec.Struct):
    """Tools in the form that a provider of models expects."""

    format: str
    generation: int
    tools: list[dict[str, Any]]


@serve_at(
    "GET",
    "/v1/tools",
    scope="read",
    answer=ToolPage,
    query=ToolQuery,
    errors=(404,),
    headers=_UNLESS_KNOWN,
    also=_UNCHANGED,
)
async def list_tools(asked: Asked) -> Any:
    """List the tools that may be called, by name or, with `query`, the best first.

    With `all` drafts and deprecated tools are among them; those that `query` finds come last.
    """
    query: ToolQuery = asked.query
    if query.all and not asked.principal.may("operate"):
        detail = f"{asked.principal.name!r} may not see all; it takes the scope 'operate'"
        raise Problem(403, "not-allowed", detail)
    tag = make_tag(asked, query)
    if has_tag(asked.header("if-none-match"), tag):
        return Reply(status=304, headers={"etag": tag})
    if query.query is not None:
        found = await asyncio.to_thread(asked.engine.search_tools, query.query, query.limit)
        tools = [each.tool for each in found]
        if query.all:
            others = await asyncio.to_thread(asked.engine.search, query.query)
            tools += [each for each in others if each.status not in _SHOWN]
    else:
        tools = asked.engine.list_all()
    shown = [
        tool
        for tool in tools
        if (query.all or tool.status in _SHOWN)
        and asked.principal.may_use(tool.name)
        and query.tag in (None, *tool.tags)
    ]
    page, following = shown[: query.limit], None
    if query.query is None:
        shown.sort(key=lambda tool: tool.name)
        first = 0
        if query.cursor is not None:
            names = [tool.name for tool in shown]
            first = bisect_right(names, read_cursor(query.cursor))
        page = shown[first : first + query.limit]
        if first + query.limit < len(shown):
            following = make_cursor(page[-1].name)
    return Reply(ToolPage(list(map(_summarize_tool, page)), following), headers={"etag": tag})


@serve_at(
    "GET",
    "/v1/tools/{name}",
    scope="read",
    answer=ToolDetails,
    headers=_UNLESS_KNOWN,
    also=_UNCHANGED,
    errors=(404,),
)
async def get_tool(asked: Asked) -> Any:
    """Describe one tool."""
    tool = find_tool(asked, asked.path["name"])
    tag = f'"{tool.definition_hash}"' if tool.definition_hash else make_tag(asked, tool.name)
    if has_tag(asked.header("if-none-match"), tag):
        return Reply(status=304, headers={"etag": tag})
    return Reply(_describe_tool(tool), headers={"etag": tag})


@serve_at(
    "GET",
    "/v1/definitions/{format}",
    scope="read",
    answer=Definitions,
    query=DefinitionQuery,
    headers=_UNLESS_KNOWN,
    also=_UNCHANGED,
    errors=(404,),
)
async def list_definitions(asked: Asked) -> Any:
    """Write the tools as `openai`, `openai_responses`, `anthropic`, `gemini` or `mcp` has them."""
    name = asked.path["format"]
    engine, formats = asked.engine, Format.__args__  # type: ignore[attr-defined]
    if name not in formats:
        raise make_unknown("format", name, f"; there are {', '.join(formats)}")
    tag = make_tag(asked, (name, asked.query))
    if has_tag(asked.header("if-none-match"), tag):
        return Reply(status=304, headers={"etag": tag})
    if asked.query.names is None:
        found = [each for each in engine.list_all() if each.is_enabled]
        names = [each.name for each in found if asked.principal.may_use(each.name)]
    else:
        names = [find_tool(asked, each).name for each in asked.query.names.split(",")]
    tools = await asyncio.to_thread(engine.tool_definitions, name, names)
    return Reply(Sized(Definitions(name, engine.generation, tools)), headers={"etag": tag})


def find_tool(asked: Asked, name: str) -> Tool:
    """Return a tool that the principal may use.

    Raises:
        Problem: There is none; one that it may not use is none.
    """
    tool = asked.engine.get(name)
    if tool is None or not asked.principal.may_use(tool.name):
        may_use = asked.principal.may_use
        names = [each for each in asked.engine.list_names() if may_use(each)]
        near = ", ".join(map(repr, find_near(name[:128], names, _MOST_NEAR)))
        raise make_unknown("tool", name, f"; did you mean {near}?" if near else "")
    return tool


def make_tag(asked: Asked, question: Any) -> str:
    """Return the `ETag` of what depends on the tools, the principal's rights and the question.

    Another server, and this one after a restart, counts other tools by the same numbers.
    """
    known = repr((asked.served.life, asked.principal.tools, question)).encode()
    return f'"{asked.engine.generation}-{sha256(known).hexdigest()[:16]}"'


def _summarize_tool(tool: Tool) -> ToolSummary:
    return ToolSummary(
        tool.name,
        tool.title or "",
        tool.description,
        tool.version,
        tool.category.value,
        list(tool.tags),
        tool.effect,
        tool.status,
    )


def _describe_tool(tool: Tool) -> ToolDetails:
    return ToolDetails(
        **msgspec.structs.asdict(_summarize_tool(tool)),
        aliases=list(tool.aliases),
        audience=sorted(tool.audience),
        is_idempotent=tool.idempotent,
        timeout=tool.timeout,
        input_schema=mark_secrets(tool.parameters_schema, tool.secret_names),
        output_schema=tool.output or None,
        examples=[show_case(tool, each) for each in tool.examples],
        definition_hash=tool.definition_hash,
    )


OPERATIONS = (list_tools, get_tool, list_definitions)
