"""How does the request of a client become a call of the engine, and the call an answer?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tool_engine.engine import ToolEngine
from tool_engine.errors import RecordsUnavailableError, TaskError
from tool_engine.executors.mcp.server_call import TIMEOUT
from tool_engine.executors.tool_search import SEARCH_TOOLS
from tool_engine.mcp_server.asking import ClientRequest, answer_request
from tool_engine.mcp_server.consenting import REFUSE
from tool_engine.mcp_server.finding import CALL_TOOL, Finder, show_listing
from tool_engine.mcp_server.holding import HeldCalls
from tool_engine.mcp_server.identity import Principal, find_principal, sees_tasks
from tool_engine.mcp_server.kept_results import KeptResults
from tool_engine.mcp_server.listing import Listing
from tool_engine.mcp_server.long_answers import is_long, write_long
from tool_engine.mcp_server.own_tasks import OwnTasks
from tool_engine.mcp_server.promised import PromisedOutputs
from tool_engine.mcp_server.results import write_result
from tool_engine.mcp_server.rounds import RoundState, SpentStates
from tool_engine.mcp_server.tasks.client_tasks import (
    EXTENSION,
    ClientTasks,
    require_tasks,
    takes_tasks,
)
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.model.tool import Tool

CALLER_TYPE: Final = "mcp"
"""The `caller_type` of calls that clients make."""
_LONGEST_WAIT: Final = 366 * 86_400
"""Seconds beyond which a client says nothing by it."""
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
        task_after: Seconds after which a call is a task, to a client that takes tasks; None: never.
    """

    def __init__(
        self,
        engine: ToolEngine,
        listing: Listing,
        principal: Principal,
        approvals: str,
        finder: Finder | None,
        kept: KeptResults,
        task_after: float | None,
    ) -> None:
        self._engine = engine
        self._listing = listing
        self._principal = principal
        self._approvals = approvals
        self._finder = finder
        self._kept = kept
        self._spent = SpentStates()
        self._promised = PromisedOutputs()
        self.own_tasks = OwnTasks()
        self._held = HeldCalls(self.own_tasks)
        self.tasks = (
            None
            if task_after is None
            else ClientTasks(engine, listing, principal, task_after, self._write_result)
        )

    async def close(self) -> None:
        """Cancel the calls whose clients are away; those that are tasks go on."""
        self._held.close()
        await self.own_tasks.close()
        if self.tasks is not None:
            await self.tasks.close()

    def make_request(
        self, ctx: Any, params: Any, definition: str = ""
    ) -> tuple[ClientRequest, RoundState]:
        """Return the request of a client, and what it carries from the round before.

        Args:
            ctx: The SDK's context of the request.
            params: What the client sends.
            definition: The hash of the definition of the tool that it calls.

        Raises:
            MCPError: What it carries was used before.
        """
        principal = find_principal(self._principal, ctx)
        carried = self._spent.read_state(params.request_state, principal, definition)
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
            return write_result(meant, own, self._promised, is_modern=_is_modern(ctx))
        if not (meant.tool.is_offered or sees_tasks.get()):
            return await self._refuse_client(ctx, meant)
        request, carried = self.make_request(ctx, params, meant.tool.definition_hash)
        result: ToolExecutionResult | dict[str, Any] | None
        if carried.held is not None:
            request, result = await self._held.go_on(carried.held, request)
        elif sees_tasks.get() and self.tasks is not None and self._may_be_task(meant.tool):
            result = await self._run_task(self.tasks, meant, request)
            if isinstance(result, dict):
                return result
        elif _is_modern(ctx) and self._may_wait(meant.tool):
            result = await self._held.run(request, self._run_call(meant, request))
        else:
            result = await self.own_tasks.run(self._run_call(meant, request))
        if result is None or not result.is_success:
            request.raise_lack()
            if request.wanted is not None:
                return request.wanted
        assert result is not None  # noqa: S101 - a call that is held wants its client back
        return await self._write_result(result, meant.tool, ctx)

    async def _write_result(
        self, result: ToolExecutionResult, tool: Tool | None, ctx: Any
    ) -> dict[str, Any]:
        is_large = is_long(result.output)
        # Of what only `call_tool` calls, the list says nothing.
        promised = self._promised if self._finder is None else None
        write = partial(
            write_result, result, tool, promised, is_modern=_is_modern(ctx), is_large=is_large
        )
        written: dict[str, Any] = await write_long(write) if is_large else write()
        if not written["isError"]:
            principal = find_principal(self._principal, ctx)
            link = self._kept.link(result, principal, ctx.protocol_version)
            if link is not None:
                written["content"].append(link)
        return written

    async def note_tasks(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Note whether the client of a request can get a task here: a middleware of the SDK."""
        before = sees_tasks.set(self.tasks is not None and takes_tasks(ctx))
        try:
            return await call_next(ctx)
        finally:
            sees_tasks.reset(before)

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

    async def _refuse_client(self, ctx: Any, meant: _Meant) -> dict[str, Any]:
        """Refuse a call that only a client that takes tasks can make."""
        tool, arguments = meant
        why = f"{tool.name!r} runs only as a task (background: required)"
        if self.tasks is not None and _is_modern(ctx):
            require_tasks(ctx, why)
        cure = f"call it with a client of 2026-07-28 that has the extension {EXTENSION}"
        if self.tasks is None:
            cure = "this server makes no tasks: start it in the program or over HTTP"
        context = self._make_context(ctx)
        refusal = Refusal("execution_rejected", f"{why}; {cure}")
        result = self._engine.refuse(tool.name, arguments, context, refusal)
        return await self._write_result(result, tool, ctx)

    def _may_be_task(self, tool: Tool) -> bool:
        # An engine that leaves tasks to others would let the client wait until one takes it.
        is_allowed = tool.background != "never" and self._engine.tasks.runs_here
        return tool.background == "required" or is_allowed

    async def _run_task(
        self, tasks: ClientTasks, meant: _Meant, request: ClientRequest
    ) -> ToolExecutionResult | dict[str, Any]:
        tool, arguments = meant
        context = self._make_context(request.ctx)
        try:
            handle = await tasks.start(tool, arguments, context, request)
        except (RecordsUnavailableError, TaskError) as error:
            if tool.background != "required":
                # What cannot be kept runs while its client waits.
                return await self.own_tasks.run(self._run_call(meant, request))
            refusal = Refusal("execution_rejected", str(error))
            return self._engine.refuse(tool.name, arguments, context, refusal)
        return await tasks.follow(handle, request)

    async def _run_call(self, meant: _Meant, request: ClientRequest) -> ToolExecutionResult:
        context = self._make_context(request.ctx)
        is_heard = False
        try:
            with answer_request(request), show_listing(self._listing):
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

    def _make_context(self, ctx: Any) -> ToolExecutionContext:
        return ToolExecutionContext(
            caller_id=find_principal(self._principal, ctx),
            caller_type=CALLER_TYPE,
            # Of a client that has the server to itself.
            conversation_id=ctx.lifespan_context,
            deadline=_find_deadline(ctx.meta),
        )


def _find_deadline(meta: Any) -> float | None:
    """Return when a client gives up that says so, on the loop's clock."""
    said = (meta or {}).get(TIMEOUT)
    if not isinstance(said, int | float) or isinstance(said, bool) or not 0 <= said < _LONGEST_WAIT:
        return None
    return asyncio.get_running_loop().time() + said


def _is_modern(ctx: Any) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
