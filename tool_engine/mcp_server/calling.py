"""How does the request of a client become a call of the engine, and the call an answer?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tool_engine.engine import ToolEngine
from tool_engine.mcp_server.asking import ClientRequest, answering
from tool_engine.mcp_server.consenting import REFUSE
from tool_engine.mcp_server.finding import CALL_TOOL, SEARCH_TOOLS, Finder, show_listing
from tool_engine.mcp_server.holding import HeldCalls
from tool_engine.mcp_server.identity import Principal, find_principal
from tool_engine.mcp_server.kept_results import KeptResults
from tool_engine.mcp_server.listing import Listing
from tool_engine.mcp_server.long_answers import is_long, write_long
from tool_engine.mcp_server.results import write_result
from tool_engine.mcp_server.rounds import RoundState, SpentStates
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.model.tool import Tool

CALLER_TYPE: Final = "mcp"
"""The `caller_type` of calls that clients make."""
_ASKING: Final = (ExecutionPolicy.ASK_ONCE, ExecutionPolicy.ASK_ALWAYS)


class _Meant(NamedTuple):
    tool: Tool
    arguments: Mapping[str, Any]


class ClientCalls:
    """What answers `tools/call`, for one server.

    Args:
        engine: What runs the calls.
        listing: The tools that clients may call.
        principal: Who is behind them.
        approvals: Who is asked for consent.
        finder: The tools to find and call others with; None: clients see all of them.
        kept: Links to results that are too long.
    """

    def __init__(
        self,
        engine: ToolEngine,
        listing: Listing,
        principal: Principal,
        approvals: str,
        finder: Finder | None,
        kept: KeptResults,
    ) -> None:
        self._engine = engine
        self._listing = listing
        self._principal = principal
        self._approvals = approvals
        self._finder = finder
        self._kept = kept
        self._spent = SpentStates()
        self._held = HeldCalls()

    async def close(self) -> None:
        """Cancel the calls whose clients are away."""
        await self._held.close()

    def make_request(self, ctx: Any, params: Any) -> tuple[ClientRequest, RoundState]:
        """Return the request of a client, and what it carries from the round before.

        Raises:
            MCPError: What it carries was used before.
        """
        principal = find_principal(self._principal, ctx)
        carried = self._spent.read_state(params.request_state, principal)
        request = ClientRequest(
            ctx, params, carried, principal=principal, approvals=self._approvals
        )
        return request, carried

    async def answer(self, ctx: Any, params: types.CallToolRequestParams) -> dict[str, Any]:
        """Return the result of a `tools/call` request as it stands on the wire.

        Raises:
            MCPError: There is no such tool, or the client carries what cannot be taken.
        """
        meant = await self._find_meant(params)
        if isinstance(meant, ToolExecutionResult):
            own = None if self._finder is None else self._finder.get(params.name)
            return write_result(meant, own, is_modern=_is_modern(ctx))
        request, carried = self.make_request(ctx, params)
        if carried.held is not None:
            request, result = await self._held.go_on(carried.held, request)
        elif _is_modern(ctx) and self._may_wait(meant.tool):
            result = await self._held.run(request, self._run_call(meant, request))
        else:
            result = await self._run_call(meant, request)
        if result is None or not result.is_success:
            request.raise_lack()
            if request.wanted is not None:
                return request.wanted
        assert result is not None  # noqa: S101 - a call that is held wants its client back
        write = partial(write_result, result, meant.tool, is_modern=_is_modern(ctx))
        written = await write_long(write) if is_long(result.output) else write()
        if not written["isError"]:
            link = self._kept.link(result, request.principal, ctx.protocol_version)
            if link is not None:
                written["content"].append(link)
        return written

    async def _find_meant(
        self, params: types.CallToolRequestParams
    ) -> _Meant | ToolExecutionResult:
        name = params.name
        arguments: Mapping[str, Any] = params.arguments or {}
        if self._finder is not None and name == SEARCH_TOOLS:
            return await self._finder.search(arguments)
        if self._finder is not None and name == CALL_TOOL:
            found = self._finder.read_call(arguments)
            if isinstance(found, ToolExecutionResult):
                return found
            name, arguments = found
        tool = self._listing.find(name)
        if tool is None:
            near = ", ".join(map(repr, self._listing.find_near(name)))
            hint = f"; did you mean {near}?" if near else ""
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name[:128]!r}{hint}")
        return _Meant(tool, arguments)

    def _may_wait(self, tool: Tool) -> bool:
        """Return True if a person may be asked before the tool runs."""
        said = tool.permission
        return self._approvals != REFUSE and said is not None and said.execution in _ASKING

    async def _run_call(self, meant: _Meant, request: ClientRequest) -> ToolExecutionResult:
        context = ToolExecutionContext(
            caller_id=request.principal,
            caller_type=CALLER_TYPE,
            # Of a client that has the server to itself.
            conversation_id=request.ctx.lifespan_context,
        )
        is_heard = False
        try:
            with answering(request), show_listing(self._listing):
                result: ToolExecutionResult = await self._engine.execute(
                    meant.tool.name,
                    meant.arguments,
                    context,
                    on_progress=request.notices.note_progress,
                )
            is_heard = True
        finally:
            await request.notices.end(is_heard=is_heard)
        return result


def _is_modern(ctx: Any) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
