"""Which calls of clients become tasks, and how does a client follow one?

The extension `io.modelcontextprotocol/tasks`. A client that takes tasks says so with each request.
Its call is a task from the beginning, and it learns of that only if the call takes long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tool_engine.engine import ToolEngine
from tool_engine.errors import (
    RecordsUnavailableError,
    TaskNotFoundError,
    ToolEngineError,
    TooManyTasksError,
)
from tool_engine.mcp_server.asking import ClientRequest, remember_request
from tool_engine.mcp_server.finding import list_shown
from tool_engine.mcp_server.identity import Principal, find_principal
from tool_engine.mcp_server.listing import Listing
from tool_engine.mcp_server.tasks.task_states import (
    describe_task,
    describe_whole_task,
    withhold_result,
)
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.task import TaskHandle, TaskState
from tool_engine.model.tool import Tool

EXTENSION: Final = "io.modelcontextprotocol/tasks"
_FEWEST: Final = 100
"""Tasks that are remembered before those that have ended are looked for."""


class TaskParams(types.RequestParams):
    """What `tasks/get` and `tasks/cancel` take."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """What `tasks/update` takes."""

    input_responses: dict[str, Any]


class ClientTasks:
    """The tasks of one server's clients.

    Args:
        engine: What runs them.
        listing: The tools that clients may call.
        principal: Who is behind the requests.
        task_after: Seconds after which a call is a task to its client.
        write: Writes a result as it stands on the wire, for a request.
    """

    def __init__(
        self,
        engine: ToolEngine,
        listing: Listing,
        principal: Principal,
        task_after: float,
        write: Callable[[ToolExecutionResult, Tool | None, Any], Awaitable[dict[str, Any]]],
    ) -> None:
        self._engine = engine
        self._listing = listing
        self._principal = principal
        self._task_after = task_after
        self._write = write
        # Those whose clients can be asked, until they have ended.
        self._asking: dict[str, ClientRequest] = {}
        self._most = _FEWEST
        self._left: set[asyncio.Task[None]] = set()

    async def start(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolExecutionContext,
        request: ClientRequest,
    ) -> TaskHandle:
        """Start a call; what cancels this cancels the call.

        Raises:
            RecordsUnavailableError: It could not be kept, and was not started.
            TaskError: It cannot be kept.
        """
        starting = asyncio.get_running_loop().create_task(
            self._start_task(tool, arguments, context, request)
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._go_on_with(self._cancel_started(starting))
            raise

    async def follow(
        self, handle: TaskHandle, request: ClientRequest
    ) -> ToolExecutionResult | dict[str, Any]:
        """Wait for a call at first; what cancels this cancels the call.

        Returns:
            How it ended; or, if it takes long, the task as it stands on the wire.
        """
        try:
            ended = await self._wait_at_first(handle, request)
            await request.notices.end(is_heard=True)
        except asyncio.CancelledError:
            self._go_on_with(self._cancel_unheard(handle))
            await request.notices.end(is_heard=False)
            raise
        if ended is None:
            # It may have ended in this moment.
            state = withhold_result(handle.state, self._engine.get(handle.tool_name))
            return {**describe_task(state, is_asking=False), "resultType": "task"}
        request.end()
        with suppress(RecordsUnavailableError):
            # No client knows it; else its `ttl` ends it.
            await self._engine.tasks.forget(handle.id)
        return ended

    async def close(self) -> None:
        """Wait until the calls have ended whose clients are gone."""
        if self._left:
            await asyncio.wait(self._left)

    async def _start_task(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolExecutionContext,
        request: ClientRequest,
    ) -> TaskHandle:
        remember_request(request)
        list_shown(self._listing)
        # So the tool finds the client that it may ask, and only the tools that this may see.
        return await self._engine.tasks.start(
            tool.name,
            arguments,
            context,
            run_in=copy_context(),
            on_progress=request.notices.note_progress,
            is_late=True,
        )

    async def _wait_at_first(
        self, handle: TaskHandle, request: ClientRequest
    ) -> ToolExecutionResult | None:
        """Return how a call ended; None: the client has to ask for it."""
        with suppress(TimeoutError, RecordsUnavailableError):
            return await handle.wait(self._task_after)
        # One whose client was asked ends now, and is repeated with the answer.
        if request.wanted or not await self._keep_task(handle) or request.wanted:
            return await handle.wait()
        request.task = handle
        self._remember_asking(handle.id, request)
        with suppress(RecordsUnavailableError):
            await handle.refresh()
        return None

    async def _keep_task(self, handle: TaskHandle) -> bool:
        try:
            return await self._engine.tasks.keep(handle.id)
        except (RecordsUnavailableError, TooManyTasksError):
            # It goes on, and its client waits for it as others do.
            return False

    def _remember_asking(self, task_id: str, request: ClientRequest) -> None:
        if len(self._asking) >= self._most:
            now = self._engine.tasks.read_clock()
            kept = ((key, each) for key, each in self._asking.items() if not each.is_over)
            # Of one that another engine runs the end is not heard of here.
            self._asking = {
                key: each for key, each in kept if each.task and each.task.state.expires_at > now
            }
            self._most = max(_FEWEST, 2 * len(self._asking))
        self._asking[task_id] = request

    async def _cancel_started(self, starting: asyncio.Task[TaskHandle]) -> None:
        with suppress(ToolEngineError):
            # One that did not start needs no end.
            await self._cancel_unheard(await starting)

    async def _cancel_unheard(self, handle: TaskHandle) -> None:
        """Cancel a task that its client never heard of, and forget it."""
        with suppress(RecordsUnavailableError, TaskNotFoundError):
            await handle.cancel("its client left before it heard of it")
            await self._engine.tasks.forget(handle.id)

    def _go_on_with(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    # What a client asks of a task.

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        """Return a task as it is, and once it has ended its result.

        Raises:
            MCPError: There is none for this client.
        """
        _check_request(ctx, params)
        _, described = await self.read(ctx, params.task_id)
        return {**described, "resultType": "complete"}

    async def read(self, ctx: Any, task_id: str) -> tuple[TaskState, dict[str, Any]]:
        """Return a task of this client's, and how it stands on the wire.

        Raises:
            MCPError: There is none for this client.
        """
        handle, tool = await self._find_task(ctx, task_id)
        request = self._asking.get(task_id)
        questions = {} if request is None else request.questions.open
        state = withhold_result(handle.state, tool)
        return state, await describe_whole_task(
            state, questions, lambda result: self._write(result, tool, ctx)
        )

    async def update(self, ctx: Any, params: TaskUpdateParams) -> dict[str, Any]:
        """Take answers to what a task asks.

        Raises:
            MCPError: There is no such task for this client, or an answer is none.
        """
        _check_request(ctx, params)
        handle, _ = await self._find_task(ctx, params.task_id)
        request = self._asking.get(handle.id)
        if request is not None:
            request.questions.take_answers(params.input_responses)
        return {"resultType": "complete"}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        """Cancel a task; one that has ended stays as it is.

        Raises:
            MCPError: There is none for this client.
        """
        _check_request(ctx, params)
        handle, _ = await self._find_task(ctx, params.task_id)
        try:
            await handle.cancel(f"{find_principal(self._principal, ctx) or 'its client'} wished so")
        except RecordsUnavailableError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        return {"resultType": "complete"}

    async def _find_task(self, ctx: Any, task_id: str) -> tuple[TaskHandle, Tool | None]:
        """Return a task of this client's, and its tool; one of others is none.

        The tool may be gone: that a client's task has ended so, it can only learn here.
        """
        unknown = MCPError(
            types.INVALID_PARAMS,
            f"Unknown task: {task_id[:80]!r}, or its ttlMs is over; call the tool again",
        )
        try:
            handle = await self._engine.tasks.get(task_id)
        except TaskNotFoundError:
            raise unknown from None
        except RecordsUnavailableError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        tool = self._engine.get(handle.tool_name)
        is_shown = (
            self._listing.shows_gone(handle.tool_name)
            if tool is None
            else self._listing.show_tool(tool) is not None
        )
        # Whom no token names has the tasks that belong to no one, and no others.
        if handle.state.owner != find_principal(self._principal, ctx) or not is_shown:
            raise unknown
        return handle, tool


def takes_tasks(ctx: Any) -> bool:
    """Return True if the client of a request takes a task in place of a result."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    declared = ctx.session.client_capabilities
    return declared is not None and EXTENSION in (declared.extensions or {})


def require_tasks(ctx: Any, what: str) -> None:
    """Raise the protocol's own error, if a client takes no tasks.

    Args:
        ctx: The SDK's context of the request.
        what: What it is needed for.
    """
    if not takes_tasks(ctx):
        message = f"{what}; declare the extension {EXTENSION} with the request"
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)


def _check_request(ctx: Any, params: TaskParams) -> None:
    """Check that a client may ask for tasks, and that its request says of which in one way."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
    require_tasks(ctx, f"{ctx.method} is for clients that take tasks")
    # By this header a request finds its way; the SDK knows those of the core only. Some clients
    # send none, and have reached the server all the same.
    named = (getattr(ctx.request, "headers", None) or {}).get(MCP_NAME_HEADER)
    if named is not None and decode_header_value(named) != params.task_id:
        message = "mcp-name header does not match the request body's 'taskId' parameter"
        raise MCPError(types.HEADER_MISMATCH, message)
