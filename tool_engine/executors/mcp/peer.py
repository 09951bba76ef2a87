"""What is said over one connection to a server, and how is its answer read?

The only module beside the transports that knows the SDK. A connection lives in the task that opened
it; calls may come from any task of the same loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, Self

import httpx2
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    JSONRPCResponse,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tool_engine.executors.mcp.faults import BadServerError, NotSentError
from tool_engine.executors.mcp.http import (
    BROKEN,
    NOT_SENT,
    allow_of,
    make_client,
    open_http,
    open_sse,
)
from tool_engine.executors.mcp.stdio import StdioTransport
from tool_engine.executors.secrets import SecretScope
from tool_engine.redaction import words_of

MOST_TOOLS: Final = 20_000
MOST_PAGES: Final = 1_000
_NAME: Final = "tool-engine"
_RESULT: Final[TypeAdapter[Any]] = TypeAdapter(CallToolResult | InputRequiredResult)
_MOST_ROUNDS: Final = 10
"""How often a server may ask for input in one call."""
_SESSION_OVER: Final = "Session terminated"

OnProgress = Callable[[float, float | None, str | None], object]


class LostError(Exception):
    """The connection ended while a request was under way."""


class Peer:
    """A server at the other end of a connection that is open.

    Args:
        client: The SDK's client, which is connected.
        lost: Set when the connection has ended.
        faults: What is wrong with single tools of its list, by name.
    """

    def __init__(
        self,
        client: Client,
        lost: asyncio.Event,
        faults: dict[str, str],
        find_fault: Callable[[], str],
    ) -> None:
        self._client = client
        self._find_fault = find_fault
        self.lost = lost
        self.faults = faults
        self.listening = asyncio.Event()
        """Set when changes of the list are heard, as far as the server says so."""

    @property
    def is_modern(self) -> bool:
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def protocol_version(self) -> str:
        return str(self._client.protocol_version)

    @property
    def version(self) -> str:
        """The name and the version that it gives itself; empty: it gives none."""
        info = self._client.server_info
        return "" if info is None else f"{info.name} {info.version}"

    def find_fault(self) -> str:
        """Return why the connection has ended."""
        return self._find_fault()

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return all tools as they stand on the wire.

        Raises:
            BadServerError: The list never ends, or is none.
        """
        self.faults.clear()
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            before = len(found)
            try:
                page = await self._client.session.list_tools(
                    params=PaginatedRequestParams(cursor=cursor)
                )
            except ValidationError as error:
                raise BadServerError(f"its list of tools is none: {words_of(error)}") from None
            found += [_dump_model(each) for each in page.tools]
            if page.next_cursor is None:
                return found
            if len(found) > MOST_TOOLS or page.next_cursor == cursor or len(found) == before:
                break
            cursor = page.next_cursor
        raise BadServerError(
            f"its list of tools does not end after {len(found):,} tools; take some of them with "
            "`expose`, or several servers"
            if len(found) > MOST_TOOLS
            else "its list of tools does not end"
        )

    async def call(
        self, name: str, arguments: dict[str, Any], on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Call a tool and return its result as it stands on the wire.

        Raises:
            MCPError: The server answered with an error.
            NotSentError: It was not reached.
            LostError: The connection ended meanwhile.
            BadServerError: Its answer is none.
        """
        if self.lost.is_set():
            raise NotSentError(self.find_fault())
        answers: dict[str, Any] | None = None
        state: str | None = None
        for _ in range(_MOST_ROUNDS):
            result = await self._send_call(name, arguments, on_progress, answers, state)
            if isinstance(result, CallToolResult):
                return _dump_model(result)
            answers, state = await self._answer_questions(result), result.request_state
        raise BadServerError(f"it asked for input {_MOST_ROUNDS} times")

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the server says that its tools have changed, until cancelled."""
        tools = self._client.server_capabilities.tools
        if not self.is_modern or tools is None or not tools.list_changed:
            # Older ones say so unasked, see `open_peer`.
            self.listening.set()
            return
        pause = 0.1
        while not self.lost.is_set():
            with suppress(MCPError, SubscriptionLost, TimeoutError):
                async with self._client.listen(tools_list_changed=True) as changes:
                    pause = 0.1
                    if self.listening.is_set():
                        on_change()  # what changed while it did not listen
                    self.listening.set()
                    async for _ in changes:
                        on_change()
            self.listening.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, 30.0)

    async def _send_call(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: OnProgress | None,
        answers: dict[str, Any] | None,
        state: str | None,
    ) -> Any:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None:
                on_progress(progress, total, message)

        params = CallToolRequestParams(
            name=name, arguments=arguments, input_responses=answers, request_state=state
        )
        for is_last in (False, True):
            try:
                # Not `call_tool`, which checks results again that the engine checks.
                return await self._client.session.send_request(
                    CallToolRequest(params=params),
                    _RESULT,
                    progress_callback=None if on_progress is None else report,
                )
            except ValidationError as error:
                raise BadServerError(f"its answer is no result: {words_of(error)}") from None
            except MCPError as error:
                if error.code == HEADER_MISMATCH and self.is_modern and not is_last:
                    await self.list_tools()
                    continue
                raise self._read_error(error) from None
        raise AssertionError

    def _read_error(self, error: MCPError) -> Exception:
        if error.code == NOT_SENT:
            return NotSentError(error.message)
        is_over = error.message == _SESSION_OVER
        if is_over:
            self.lost.set()
            return NotSentError("it has forgotten the session")
        if error.code == BROKEN or (error.code == CONNECTION_CLOSED and self.lost.is_set()):
            return LostError(error.message)
        return error

    async def _answer_questions(self, asked: InputRequiredResult) -> dict[str, Any] | None:
        from mcp.client.session import ClientRequestContext

        answers: dict[str, Any] = {}
        session = self._client.session
        for key, request in (asked.input_requests or {}).items():
            context = ClientRequestContext(session=session, request_id=key)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, ErrorData):
                raise BadServerError(f"it asks for input that it does not get: {answer.message}")
            answers[key] = answer
        return answers or None


def is_unknown_tool(error: MCPError) -> bool:
    """Return True if a server may not have the tool any more."""
    return bool(error.code == INVALID_PARAMS)


@asynccontextmanager
async def open_peer(
    settings: Any,
    secrets: SecretScope,
    on_change: Callable[[], None],
    options: Mapping[str, Any],
) -> AsyncIterator[Peer]:
    """Connect to a server; the connection ends with the context.

    Args:
        settings: The `MCPServerSettings`, with their secrets put in.
        secrets: Hides them.
        on_change: Called when the server says that its tools have changed.
        options: `server`: one of this process; `auth`: an `httpx2.Auth`; `callbacks`: those of the
            SDK's client, by their names there.

    Raises:
        BadServerError: It cannot be used.
    """
    lost = asyncio.Event()
    faults: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        transport, find_fault = await _make_transport(settings, options, stack)
        server = options.get("server")
        watched = server if server is not None else _Watched(transport, lost, faults)

        async def take_message(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                on_change()

        client = Client(
            watched,
            mode=_mode_of(settings.revision),
            cache=None,
            message_handler=take_message,
            client_info=Implementation(name=_NAME, version=options.get("version", "")),
            **options.get("callbacks", {}),
        )
        try:
            await stack.enter_async_context(client)
        except (MCPError, ValidationError, RuntimeError, httpx2.HTTPError) as error:
            raise BadServerError(find_fault() or _describe_error(error)) from None
        yield Peer(client, lost, faults, lambda: find_fault() or "the connection ended")


def _mode_of(revision: str | None) -> str:
    """Return the SDK's word for a revision.

    Raises:
        BadServerError: There is no such revision.
    """
    known = (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)
    if revision is not None and revision not in known:
        raise BadServerError(f"there is no revision {revision!r}; write one of {', '.join(known)}")
    if revision is None:
        return "auto"
    return revision if revision in MODERN_PROTOCOL_VERSIONS else "legacy"


async def _make_transport(
    settings: Any, options: Mapping[str, Any], stack: AsyncExitStack
) -> tuple[Any, Callable[[], str]]:
    if options.get("server") is not None:
        return None, lambda: ""
    if settings.transport == "stdio":
        stdio = StdioTransport(settings.command, settings.env, settings.cwd)
        return stdio, lambda: _describe_stdio(stdio)
    try:
        allow = allow_of(settings.url, settings.allow)
    except ValueError as error:
        raise BadServerError(str(error)) from None
    # It reads the certificates of the machine.
    client = await asyncio.to_thread(make_client, settings.headers, allow, options.get("auth"))
    if settings.transport == "sse":
        return open_sse(settings.url, client), lambda: ""
    await stack.enter_async_context(client)
    return open_http(settings.url, client), lambda: ""


def _describe_stdio(stdio: StdioTransport) -> str:
    if stdio.fault is None:
        return ""
    words = stdio.last_words()
    return f"{stdio.fault}; its last words: {words}" if words else str(stdio.fault)


def _describe_error(error: BaseException) -> str:
    if isinstance(error, MCPError):
        is_own = error.code in (NOT_SENT, BROKEN)
        return error.message if is_own else f"it refused the connection: {error.message}"
    return words_of(error)


def _dump_model(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(by_alias=True, exclude_none=True, mode="json")
    return dumped


class _Watched:
    """A transport that notes its end, and leaves bad tools out of lists.

    Args:
        inner: The transport.
        lost: Set at its end.
        faults: Takes what is wrong with single tools, by name.
    """

    def __init__(self, inner: Any, lost: asyncio.Event, faults: dict[str, str]) -> None:
        self._inner = inner
        self._lost = lost
        self._faults = faults

    async def __aenter__(self) -> tuple[Any, Any]:
        reads, writes = await self._inner.__aenter__()
        return _WatchedReads(reads, self._lost, self._faults), writes

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)


class _WatchedReads:
    def __init__(self, inner: Any, lost: asyncio.Event, faults: dict[str, str]) -> None:
        self._inner = inner
        self._lost = lost
        self._faults = faults

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> _WatchedReads:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._lost.set()
            raise
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list):
            message.result["tools"] = self._keep_tools(message.result["tools"])
        return item

    async def receive(self) -> Any:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)

    def _keep_tools(self, listed: list[Any]) -> list[Any]:
        """Return the tools that are ones: a bad one must not hide the others."""
        kept = []
        for each in listed:
            try:
                Tool.model_validate(each, by_name=False)
            except ValidationError as error:
                name = each.get("name") if isinstance(each, dict) else None
                self._faults[str(name)] = words_of(error)
            else:
                kept.append(each)
        return kept
