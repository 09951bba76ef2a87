"""What is said over one connection to a server, and how is its answer read?

The only module beside the transports that knows the SDK. A connection lives in the task that opened
it; calls may come from any task of the same loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from importlib.metadata import version
from itertools import islice
from math import isfinite
from typing import Any, Final
from urllib.parse import urlsplit

from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    DiscoverResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)
from mcp_types.methods import SERVER_RESULTS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tool_engine.executors.mcp.dialling import allow_of
from tool_engine.executors.mcp.failed_results import CLOSED, find_type, read_words
from tool_engine.executors.mcp.faults import (
    BROKEN,
    NOT_SENT,
    UNREADABLE,
    BadServerError,
    LostError,
    NotSentError,
    RefusedError,
    find_first,
)
from tool_engine.executors.mcp.http import (
    MAX_ANSWER,
    make_client,
    open_http,
    open_sse,
    word_failure,
    word_refusal,
)
from tool_engine.executors.mcp.in_memory import call_directly
from tool_engine.executors.mcp.invalid import NO_MESSAGE, describe_invalid
from tool_engine.executors.mcp.known_content import take_out
from tool_engine.executors.mcp.link import TOOLS_AT_ONCE, Link, WatchedTransport
from tool_engine.executors.mcp.server_call import ServerCall
from tool_engine.executors.mcp.stdio import StdioTransport
from tool_engine.model.json.plain import copy_json
from tool_engine.redaction import words_of
from tool_engine.visible import escape_hidden

MOST_TOOLS: Final = 20_000
MOST_PAGES: Final = 1_000
_NAME: Final = "tool-engine"
_VERSION: Final = version(_NAME)
_LONGEST_REVISION: Final = 40
_MOST_ROUNDS: Final = 10
"""How often a server may ask for input in one call."""
_FEW: Final = 64
"""Parts of a result that is looked at as most are."""
_STEP: Final = 65_536
"""Values that are looked at in one turn of the loop."""
SHORTEST_TTL: Final = 300.0
"""The fewest seconds between two readings of a list that may change unheard."""
_LONGEST_TTL: Final = 86_400.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
"""Seconds until it listens again, where each time what it listens to has ended soon."""
_DISCOVER: Final = "server/discover"
_ONLY_TASK: Final = (
    "its server runs it only as a task of MCP, which is not supported; name the others in `expose`"
)
_BAD_HEADER: Final = (
    "its x-mcp-header is not as the protocol has it, so no client may call it; have the server "
    "correct it"
)
_WHOLE: Final = (None, "complete")
"""The kinds of a result after which nothing more comes."""
# In the SDK's words:
_SESSION_OVER: Final = "Session terminated"
_CLOSED: Final = "Connection closed"
_UNPARSED: Final = "Failed to parse"
_UNKNOWN_REVISION: Final = "Unsupported protocol version from the server: "
_TOO_LARGE: Final = "SSE stream failed: Server-sent event exceeded"
_ENDED: Final = (_CLOSED, "SSE stream")
"""How its messages begin about answers that do not come any more."""

OnProgress = ProgressFnT


# What the SDK would write to standard error, with the trace, is in the errors of ours.
for _name in ("client", "mcp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Peer:
    """A server at the other end of a connection that is open.

    Args:
        client: The SDK's client, which is connected.
        link: The connection to it.
    """

    def __init__(self, client: Client, link: Link) -> None:
        self._client = client
        self.link = link
        self.faults = link.faults
        self.ttl: float | None = None
        """Seconds after which the list is read again; None: the server says when it changes."""
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

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return all tools as they stand on the wire.

        Raises:
            BadServerError: The list never ends, or is none.
        """
        self.faults.clear()
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            try:
                page = await self._client.session.list_tools(
                    params=PaginatedRequestParams(cursor=cursor)
                )
            except ValidationError as error:
                raise BadServerError(
                    f"its list of tools is none: {describe_invalid(error)}"
                ) from None
            except MCPError as error:
                fault = self._read_error(error)
                if isinstance(fault, RefusedError):
                    raise BadServerError(f"it refused its list of tools: {fault}") from None
                raise fault from None
            self._note_dropped({tool.name for tool in page.tools})
            for number, tool in enumerate(page.tools):
                if number % TOOLS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if tool.execution is not None and tool.execution.task_support == "required":
                    self.faults[tool.name] = _ONLY_TASK
                else:
                    found.append(_dump_model(tool))
            self._note_ttl(page.ttl_ms)
            if page.next_cursor is None:
                return found
            if len(found) > MOST_TOOLS or page.next_cursor == cursor or not page.tools:
                break
            cursor = page.next_cursor
        raise BadServerError(
            f"its list of tools does not end after {len(found):,} tools; take some of them with "
            "`expose`, or several servers"
            if len(found) > MOST_TOOLS
            else "its list of tools does not end"
        )

    async def call(self, call: ServerCall, on_progress: OnProgress | None) -> dict[str, Any]:
        """Call a tool and return its result as it stands on the wire.

        Raises:
            RefusedError: The server answered with an error.
            NotSentError: It was not reached.
            LostError: The connection ended meanwhile.
            BadServerError: Its answer is none.
        """
        if self.link.is_lost:
            raise NotSentError(self.link.find_fault())
        request: Any = _ToolCall(call)
        send: Any = self._client.session.send_request
        rounds, is_listed_again = 0, False
        while rounds < _MOST_ROUNDS:
            try:
                # Not `call_tool`, which checks results again that the engine checks.
                result: dict[str, Any] = await send(
                    request, _WireResult, progress_callback=on_progress
                )
            except ValidationError as error:
                raise BadServerError(
                    f"its answer is no result: {describe_invalid(error)}"
                ) from None
            except MCPError as error:
                if error.code == HEADER_MISMATCH and self.is_modern and not is_listed_again:
                    is_listed_again = True
                    await self.list_tools()
                    continue
                raise self._read_error(error) from None
            take_out(result)
            kind = result.get("resultType")
            if kind != "input_required":
                if kind not in _WHOLE and self.is_modern:
                    raise BadServerError(
                        f"its answer is of a kind that it was not asked for: {kind!r:.40}"
                    )
                await _check_result(result)
                return result
            rounds, is_listed_again = rounds + 1, False
            asked = _read_questions(result)
            request = CallToolRequest(
                params=CallToolRequestParams(
                    name=call.name,
                    arguments=call.arguments,
                    input_responses=await self._answer_questions(asked),
                    request_state=asked.request_state,
                )
            )
        raise BadServerError(f"it asked for input {_MOST_ROUNDS} times")

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the server says that its tools have changed, until cancelled."""
        if not (self.is_modern and self._tells_of_changes):
            # Older ones say so unasked, see `open_peer`.
            self.listening.set()
            return
        pause = _FIRST_PAUSE
        while not self.link.is_lost:
            begun = time.monotonic()
            with suppress(MCPError, SubscriptionLost, TimeoutError):
                async with self._client.listen(tools_list_changed=True) as changes:
                    if self.listening.is_set():
                        on_change()  # what changed while it did not listen
                    self.listening.set()
                    async for _ in changes:
                        on_change()
            self.listening.set()
            if time.monotonic() - begun > _LONGEST_PAUSE:
                # Some end each stream after a while.
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @property
    def _tells_of_changes(self) -> bool:
        tools = self._client.server_capabilities.tools
        return tools is not None and bool(tools.list_changed)

    def _note_dropped(self, kept: set[str]) -> None:
        """Note the tools of a page that the SDK leaves out, as the protocol wants it."""
        for name in self.link.listed:
            if name not in kept:
                self.faults[name] = _BAD_HEADER

    def _note_ttl(self, milliseconds: int | None) -> None:
        if not self._tells_of_changes:
            seconds = (milliseconds or 0) / 1000
            self.ttl = min(max(seconds, SHORTEST_TTL), _LONGEST_TTL)

    def _read_error(self, error: MCPError) -> Exception:
        if error.code == NOT_SENT:
            return NotSentError(error.message)
        if error.message == _SESSION_OVER:
            self.link.end()
            return NotSentError("it has forgotten the session")
        if (fault := _find_unreadable(error)) is not None:
            return BadServerError(fault)
        is_ended = error.code == CONNECTION_CLOSED and error.message.startswith(_ENDED)
        if is_ended and error.message == _CLOSED:
            self.link.end()
        if error.code == BROKEN or is_ended:
            return LostError(self.link.fault or error.message)
        words = word_refusal(error.message)
        if words == error.message:
            words = f"{words} ({error.code})"
        return RefusedError(words, is_unknown_tool=error.code == INVALID_PARAMS)

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


class _ToolCall:
    """A `tools/call` request, as the SDK sends one, of arguments that are JSON.

    Its own models check and copy them three times, which costs more than the rest of our side.
    """

    name_param = CallToolRequest.name_param
    method = "tools/call"

    def __init__(self, call: ServerCall) -> None:
        self._call = call

    def model_dump(self, **_: Any) -> dict[str, Any]:
        # A server of this process gets the very arguments, and may change them.
        said = {"name": self._call.name, "arguments": copy_json(self._call.arguments)}
        return {"method": self.method, "params": {**said, **self._call.say_patience()}}


class _WireResult:
    """A result as it stands on the wire: the SDK has compared it with the revision before."""

    @staticmethod
    def model_validate(raw: dict[str, Any], **_: Any) -> dict[str, Any]:
        return raw


@asynccontextmanager
async def open_peer(
    settings: Any,
    on_change: Callable[[], None],
    options: Mapping[str, Any],
) -> AsyncIterator[Peer]:
    """Connect to a server; the connection ends with the context.

    Args:
        settings: The `MCPServerSettings`, with their secrets put in.
        on_change: Called when the server says that its tools have changed.
        options: `server`: one of this process; `auth`: an `httpx2.Auth`; `callbacks`: those of the
            SDK's client, by their names there; `on_reach`: called when its address has taken a
            connection.

    Raises:
        BadServerError: It cannot be used.
    """
    link = Link(on_change)
    async with AsyncExitStack() as stack:
        transport = await _make_transport(settings, options, link, stack)

        async def take_message(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                on_change()

        server = options.get("server")
        client = Client(
            server or WatchedTransport(transport, link, urlsplit(settings.url).hostname),
            mode=_mode_of(settings.revision),
            cache=None,
            message_handler=take_message,
            client_info=Implementation(name=_NAME, version=_VERSION),
            **options.get("callbacks", {}),
        )
        call_directly(client, server)
        try:
            with _have_time(client, _find_patience(settings)):
                await stack.enter_async_context(client)
                if settings.revision in MODERN_PROTOCOL_VERSIONS:
                    await _learn_of_server(client)
        except Exception as error:  # noqa: BLE001 - what a server brings about is its own fault
            part = getattr(find_first(error), "part", ())
            raise BadServerError(link.fault or _describe_error(error), part) from None
        link.models = (*link.models, _find_model(client.protocol_version))
        yield Peer(client, link)


def _find_patience(settings: Any) -> float | None:
    """Return how long a server may take to say what it is; None: as long as the SDK lets it."""
    seconds: float = settings.connect_timeout
    if settings.revision in MODERN_PROTOCOL_VERSIONS:
        return seconds / 2  # without an answer, the rest is for its list
    return seconds if settings.url else None


async def _learn_of_server(client: Client) -> None:
    """Ask a server what it can do, as the SDK does where no revision is given.

    Else its changes are not listened to. One that does not answer can do no more than it must.
    """
    with suppress(MCPError, ValidationError):
        said = await client.session.send_discover(client.protocol_version)
        client.session.adopt(DiscoverResult.model_validate(said))


@contextmanager
def _have_time(client: Client, seconds: float | None) -> Iterator[None]:
    """Let the first answer of a server take so long; None: as long as the SDK lets it.

    The SDK takes a server that says after 10 seconds which revisions it speaks for an older one,
    and a newer one refuses what it asks then. Over HTTP older ones answer, too, so there is no need
    to go on without an answer; over standard input and output there is.
    """
    # No public way leads there: where a later SDK has no such attribute, its own limit stays.
    usual = getattr(client, "_connect", None)
    if usual is None or seconds is None:
        yield
        return
    made: list[Any] = []

    async def connect(*of_client: Any) -> Any:
        dispatcher = await usual(*of_client)
        send = dispatcher.send_raw_request

        async def send_patiently(method: str, params: Any, opts: Any = None) -> dict[str, Any]:
            if method == _DISCOVER:
                opts = {**(opts or {}), "timeout": seconds}
            answer: dict[str, Any] = await send(method, params, opts)
            return answer

        dispatcher.send_raw_request = send_patiently
        made.append(dispatcher)
        return dispatcher

    client._connect = connect  # noqa: SLF001 - see above
    try:
        yield
    finally:
        client._connect = usual  # noqa: SLF001 - see above
        for dispatcher in made:
            # Each call would go through it.
            del dispatcher.send_raw_request


def _read_questions(result: dict[str, Any]) -> InputRequiredResult:
    """Return what a server asks; raise `BadServerError` where it is no question."""
    try:
        return InputRequiredResult.model_validate(result, by_name=False)
    except ValidationError as error:
        raise BadServerError(f"its answer is no result: {describe_invalid(error)}") from None


async def _check_result(result: dict[str, Any]) -> None:
    """Raise `BadServerError` for what is no result, and `LostError` where its server closes."""
    if not isinstance(result.get("content") or [], list):
        raise BadServerError("its answer is no result: content should be a list")
    if result.get("isError") and find_type(result) == CLOSED:
        # Its end would have said no more.
        raise LostError(read_words(result))
    if not _holds_right_numbers(result):
        for _ in _check_numbers(result):
            await asyncio.sleep(0)


def _holds_right_numbers(result: dict[str, Any]) -> bool:
    """Return True if a result is small and JSON has all of its numbers."""
    found: list[Any] = [result]
    for each in found:
        if len(each) > _FEW:
            return False
        for part in each.values() if type(each) is dict else each:
            if (kind := type(part)) is dict or kind is list:
                found.append(part)
            elif kind is float and not isfinite(part):
                return False
        if len(found) > _FEW:
            return False
    return True


def _check_numbers(result: dict[str, Any]) -> Iterator[None]:
    """Raise `BadServerError` for numbers that JSON has not: no later stage could write them.

    Yields where others should have their turn.
    """
    found: list[Any] = [result]
    left = _STEP
    for each in found:
        parts = each.values() if type(each) is dict else each
        left -= len(parts)
        if left >= 0:
            _check_parts(parts, found)
            continue
        remaining, left = iter(parts), _STEP
        while some := list(islice(remaining, _STEP)):
            _check_parts(some, found)
            yield


def _check_parts(parts: Iterable[Any], found: list[Any]) -> None:
    """Check the numbers among some values, and add to `found` what is to be looked into."""
    for part in parts:
        kind = type(part)
        if kind is dict or kind is list:
            found.append(part)
        elif kind is float and not isfinite(part):
            raise BadServerError(
                "its answer holds a number that JSON has not (NaN or Infinity); have the "
                "server send null or a text in its place"
            )


def _find_model(revision: str) -> Any:
    """Return what a tool of a list has to be in a revision."""
    result: Any = SERVER_RESULTS["tools/list", revision]
    return result.model_fields["tools"].annotation.__args__[0]


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
    settings: Any, options: Mapping[str, Any], link: Link, stack: AsyncExitStack
) -> Any:
    if options.get("server") is not None:
        return None
    if settings.transport == "stdio":
        link.stdio = StdioTransport(settings.command, settings.env, settings.cwd)
        return link.stdio
    allow = allow_of(settings.url, settings.allow)
    is_sse = settings.transport == "sse"
    # The SDK sends nothing more there after a message that was not taken.
    client = await make_client(
        settings.headers,
        allow,
        options.get("auth"),
        on_error=link.end if is_sse else None,
        on_reach=options.get("on_reach"),
    )
    if is_sse:
        return open_sse(settings.url, client)
    await stack.enter_async_context(client)
    return open_http(settings.url, client)


def _describe_error(error: BaseException) -> str:
    error = find_first(error)
    if isinstance(error, MCPError):
        return _describe_refusal(error)
    if str(error).startswith(_UNKNOWN_REVISION):
        said = escape_hidden(str(error)[len(_UNKNOWN_REVISION) :][:_LONGEST_REVISION])
        known = ", ".join((*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS))
        return f"it speaks the revision '{said}', which is none of {known}"
    if isinstance(error, ValidationError):
        return f"its answer is none: {describe_invalid(error)}"
    if (words := word_failure(error)) is not None:
        return words
    return str(error) if isinstance(error, BadServerError) else words_of(error)


def _describe_refusal(error: MCPError) -> str:
    if error.code in (NOT_SENT, BROKEN, UNREADABLE):
        return error.message
    if _is_unparsed(error):
        return NO_MESSAGE
    return f"it refused the connection: {word_refusal(error.message)}"


def _find_unreadable(error: MCPError) -> str | None:
    """Return what is wrong with an answer that has come; None: none has, or it is an error."""
    if error.code == UNREADABLE:
        return error.message
    if error.code == CONNECTION_CLOSED and error.message.startswith(_TOO_LARGE):
        return f"its answer has more than {MAX_ANSWER // 2**20} MiB"
    return NO_MESSAGE if _is_unparsed(error) else None


def _is_unparsed(error: MCPError) -> bool:
    """Return True where the SDK could not read an answer; its words hold what came."""
    return error.code == PARSE_ERROR and error.message.startswith(_UNPARSED)


def _dump_model(model: Any) -> dict[str, Any]:
    # Not as JSON, which would make None of a number that is infinite.
    dumped: dict[str, Any] = model.model_dump(by_alias=True, exclude_none=True)
    return dumped
