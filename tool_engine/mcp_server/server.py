"""How does an engine speak the Model Context Protocol?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tool_engine.access.guard import Guard
from tool_engine.access.hosts import LOOPBACK
from tool_engine.access.listening import serve_app
from tool_engine.access.living import LivingApp
from tool_engine.access.open_requests import MOST, OpenRequests
from tool_engine.access.texts import require_texts
from tool_engine.access.tokens import TokenFile
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server.asking import ClientCannotError, InputRequiredError, answer_request
from tool_engine.mcp_server.calling import ClientCalls
from tool_engine.mcp_server.changes import Changes
from tool_engine.mcp_server.consenting import MODES, OPERATOR, REFUSE, ClientConsents
from tool_engine.mcp_server.exchange import ModernRequests
from tool_engine.mcp_server.failing import answer_failures
from tool_engine.mcp_server.finding import Finder
from tool_engine.mcp_server.http import BoundSessions, CheckedMessages, KnownClients, note_answered
from tool_engine.mcp_server.identity import Principal, check_principal, find_principal
from tool_engine.mcp_server.kept_results import KeptResults
from tool_engine.mcp_server.listing import BadCursorError, Listing, PageCache
from tool_engine.mcp_server.logs import Logs
from tool_engine.mcp_server.long_answers import LONG, LongAnswers, write_long
from tool_engine.mcp_server.offers.completing import complete_argument
from tool_engine.mcp_server.offers.offered import list_named_values
from tool_engine.mcp_server.offers.prompts import (
    Prompt,
    PromptArgument,
    Prompts,
    check_arguments,
    write_prompt,
)
from tool_engine.mcp_server.offers.resources import Resource, Resources
from tool_engine.mcp_server.rounds import STATE_HOLDS, check_keys
from tool_engine.mcp_server.selection import ToolSelection
from tool_engine.mcp_server.sendable import send_readable
from tool_engine.mcp_server.stdio import open_stdio
from tool_engine.mcp_server.tasks.client_tasks import EXTENSION, TaskParams, TaskUpdateParams
from tool_engine.mcp_server.tasks.task_notices import listen_with_tasks, read_task_ids
from tool_engine.mcp_server.wrong_params import WrongParams, drop_wrong_trace
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.json.copying import refuse_copying


def _find_version() -> str:
    try:
        return version("tool-engine")
    except PackageNotFoundError:
        return ""


_VERSION: Final = _find_version()
ALL: Final = "all"
SEARCH: Final = "search"
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound
_LISTS: Final[tuple[CacheableMethod, ...]] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)
_ANNOUNCED: Final = NotificationOptions(
    prompts_changed=True, resources_changed=True, tools_changed=True
)
_NO_GUARD: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The SDK's own checks of hosts and origins would ask again, and know other names."""
_connection: Final[ContextVar[str | None]] = ContextVar("mcp_connection", default=None)
"""The name of the one client that is served here; None: there may be several."""
_LISTED_FOR: Final = 60_000
"""Milliseconds that a client may keep a list without asking again; it hears of a change at once."""
_HOLDS: Final[dict[CacheableMethod, CacheHint]] = {
    **dict.fromkeys(_LISTS, CacheHint(ttl_ms=_LISTED_FOR, scope="private")),
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
}
_MOST_OF_PAGE: Final = 10_000
_OTHER_LOOP: Final = "make another MCPServer of the engine for each loop"


@refuse_copying("make another one")
class MCPServer:
    """The tools of an engine for clients of the Model Context Protocol.

    Serves the revisions 2026-07-28 and 2025-11-25 and older ones, over standard input and output or
    HTTP. Each call is validated, admitted, recorded and published as any other call, with the
    caller type `mcp`.

    Args:
        engine: An open engine.
        name: What the server is called.
        expose: Which tools clients may call; None: all that models see.
        mode: `all`, the list has them all; `search`, it has two tools, `search_tools`, which finds
            them, and `call_tool`, which calls one by its name.
        page_size: The most tools of one page of the list.
        approvals: Where the engine has no approver, what becomes of calls that need consent:
            `operator`, they wait for an answer in `engine.approvals`; `client`, those of tools
            whose definition says `client_may_answer` are asked of the client, if it can show a
            form, and the others wait; `refuse`, they are refused.
        principal: Who is behind the calls: a text, or a function of the request; None: who the
            token of the request belongs to, where there is one.
        task_after: Seconds after which a call becomes a task, to a client that takes tasks (the
            extension `io.modelcontextprotocol/tasks`); None: none does.
        state_keys: Secrets of at least 32 bytes, the newest first, that seal what clients carry
            from one request to the next; several processes behind one address share them. None: a
            new one that nothing outside this process knows.

    Raises:
        ConfigurationError: An argument is invalid.

    Example:
        >>> async with ToolEngine(ToolEngineConfig(tools_directory="tools")) as engine:
        ...     await MCPServer(engine).run_stdio()
    """

    def __init__(
        self,
        engine: ToolEngine,
        *,
        name: str = "tool-engine",
        expose: ToolSelection | None = None,
        mode: str = ALL,
        page_size: int = 500,
        approvals: str = OPERATOR,
        principal: Principal = None,
        task_after: float | None = 2.0,
        state_keys: Sequence[bytes] = (),
    ) -> None:
        selection = ToolSelection() if expose is None else expose
        _check_settings(engine, name, selection, page_size)
        check_principal(principal)
        check_choice("mode", mode, (ALL, SEARCH))
        check_choice("approvals", approvals, MODES)
        if task_after is not None:
            check_timeout("task_after", task_after)
        seal = _make_seal(keys := check_keys(state_keys) or [os.urandom(32)], principal)
        engine.approvals.put_in_front(ClientConsents(engine))
        if approvals != REFUSE:
            engine.approvals.take_questions()
        self._engine = engine
        self._principal = principal
        self._served = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it is served, as long as it is."""
        self._ends: list[Callable[[], object]] = []
        self._logs = Logs()
        self._listing = Listing(engine, selection, min(page_size, _MOST_OF_PAGE))
        self._prompts = Prompts(self._listing)
        self._resources = Resources()
        self._finder = Finder(engine.search_tools, self._listing) if mode == SEARCH else None
        self._changes = Changes(self._finder or self._listing, self._prompts, self._resources)
        self._kept = KeptResults(engine, keys, self._listing)
        self._calls = ClientCalls(
            engine, self._listing, principal, approvals, self._finder, self._kept, task_after
        )
        self._server = self._make_server(name, seal)

    def __repr__(self) -> str:
        return f"<MCPServer {self._server.name!r} of {self._engine!r}>"

    def _make_server(self, name: str, seal: RequestStateSecurity) -> Server[str | None]:
        server = _Server(
            name,
            version=_VERSION,
            lifespan=self._follow_engine,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._changes.watch_resource,
            on_unsubscribe_resource=self._changes.forget_resource,
            on_completion=self._complete_argument,
            on_subscriptions_listen=self._serve_listener,
            cache_hints=_HOLDS,
            get_tool_input_schema=_find_header_schema,
        )
        # Not as an argument: the SDK warns of what 2026-07-28 has no more.
        server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._logs.set_level
        )
        if (tasks := self._calls.tasks) is not None:
            server.extensions[EXTENSION] = {}
            server.add_request_handler("tasks/get", TaskParams, tasks.get)
            server.add_request_handler("tasks/update", TaskUpdateParams, tasks.update)
            server.add_request_handler("tasks/cancel", TaskParams, tasks.cancel)
        server.middleware.insert(0, drop_wrong_trace)
        server.middleware += [
            self._calls.note_tasks,
            self._note_connection,
            note_answered,
            RequestStateBoundary(seal, default_audience=name),
            PageCache(self._engine, self._write_page),
            send_readable,
            WrongParams(server),
        ]
        return server

    async def run_stdio(self) -> None:
        """Serve one client over standard input and output, until it leaves.

        What tools print meanwhile goes to standard error.
        """
        async with open_stdio() as (read, write):
            await self.run_streams(read, write)

    async def run_streams(self, read: Any, write: Any) -> None:
        """Serve one client over a pair of the SDK's streams, until it leaves."""
        options = self._server.create_initialization_options()
        # What has both ends is one client, whose calls belong together.
        before = _connection.set(f"mcp-{secrets.token_hex(16)}")
        try:
            await self._server.run(read, write, options)
        finally:
            _connection.reset(before)

    def app(
        self,
        path: str = "/mcp",
        *,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        token_file: str | None = None,
        max_open: int | None = MOST,
    ) -> Any:
        """Return an ASGI app that serves any number of clients over HTTP.

        Args:
            path: Where clients find it.
            allowed_hosts: The names under which it may be reached, as `HOST` or `HOST:PORT`,
                beside those of this machine.
            allowed_origins: The origins of pages that may use it, beside its own.
            token_file: Whose requests are taken; None: no tokens are asked for, and only this
                machine is heard.
            max_open: How many requests a principal may have open at once, such as streams of
                notices and calls; None: any number.

        Raises:
            ConfigurationError: An argument is not right, or the token file cannot be read.
        """
        auth = None if token_file is None else TokenFile(token_file)
        # Without tokens nothing says who it is: `principal` does.
        app = self._make_app(path) if auth is None else self.guarded_app(path)
        return Guard(
            app,
            auth=auth,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            open_requests=OpenRequests(max_open),
        )

    def guarded_app(self, path: str = "/mcp") -> Any:
        """Return an ASGI app for behind a `tool_engine.access.guard.Guard`.

        It checks neither hosts nor origins, and serves who stands in `scope["principal"]`.
        """
        return KnownClients(self._make_app(path))

    def _make_app(self, path: str) -> Any:
        if not isinstance(path, str) or not path.startswith("/"):
            raise ConfigurationError(f"path must begin with /, such as /mcp, got {path!r}")
        return LivingApp(partial(self._make_served, path), self._engine, _OTHER_LOOP)

    def _make_served(self, path: str) -> Any:
        served = self._server.streamable_http_app(
            streamable_http_path=path, transport_security=_NO_GUARD
        )
        older = BoundSessions(LongAnswers(served))
        return CheckedMessages(ModernRequests(self._server, path, older))

    async def run_http(
        self,
        host: str = "127.0.0.1",
        port: int = 8931,
        *,
        path: str = "/mcp",
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        token_file: str | None = None,
        max_open: int | None = MOST,
        on_ready: Callable[[str], object] | None = None,
    ) -> None:
        """Serve clients over HTTP until this is cancelled.

        Args:
            host: The address; another one than this machine's own needs a token file.
            port: The port; 0: any that is free.
            path: Where clients find it.
            allowed_hosts: The names under which it may be reached, as `HOST` or `HOST:PORT`,
                beside the host and those of this machine.
            allowed_origins: The origins of pages that may use it, beside its own.
            token_file: Whose requests are taken; None: all that reach it.
            max_open: How many requests a principal may have open at once; None: any number.
            on_ready: Gets the URL, once it answers.

        Raises:
            ConfigurationError: The address cannot be served at, or needs a token file, or another
                argument is not right.
        """
        if host not in LOOPBACK and token_file is None:
            raise ConfigurationError(
                f"all who reach {host} could call every tool: pass a token_file, or serve at "
                "127.0.0.1"
            )
        named = [f"[{host}]" if ":" in host else host] if host not in _ANY else []
        make = partial(
            self.app,
            path,
            allowed_hosts=[*require_texts("allowed_hosts", allowed_hosts), *named],
            allowed_origins=allowed_origins,
            token_file=token_file,
            max_open=max_open,
        )
        # A file is read: not on the event loop.
        app = await asyncio.to_thread(make)
        await serve_app(app, host, port, on_ready, path)

    @property
    def sdk_server(self) -> Server[str | None]:
        """The SDK's server, for its `Client` in this process; `MCPSource(in_memory=)` finds it."""
        return self._server

    @property
    def names(self) -> list[str]:
        """The names of the tools that clients see, sorted."""
        return list(self._listing.list_names())

    def add_prompt(
        self,
        name: str,
        write: Callable[..., Any],
        *,
        description: str = "",
        arguments: Sequence[PromptArgument] = (),
    ) -> None:
        """Offer a prompt to clients, beside the rules and skills of groups.

        Args:
            name: What clients call it.
            write: Returns the text, or a list of messages as they stand on the wire; plain or
                async, called with the arguments as keywords.
            description: What it is for.
            arguments: What a person fills in.

        Raises:
            ConfigurationError: There is one of that name, or `write` takes other arguments.
        """
        self._prompts.add(name, Prompt(description, tuple(arguments), write))
        self._changes.look()

    def add_resource(
        self,
        uri: str,
        read: Callable[..., Any],
        *,
        name: str | None = None,
        description: str = "",
        mime_type: str | None = None,
        values: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Offer a resource to clients.

        Args:
            uri: Where it is; `{variables}` in it make it a template, each for one step of a path.
            read: Returns the text or the bytes, or None where there is nothing; plain or async,
                called with the variables as keywords.
            name: What people call it; None: the URI.
            description: What it is.
            mime_type: Its type, such as `text/markdown`.
            values: What clients may offer for a variable while a person types.

        Raises:
            ConfigurationError: The URI is none, or is there already, or has no such variable, or
                `read` takes others.
        """
        offered = list_named_values(f"the resource {uri!r}", values)
        resource = Resource(name or uri, description, mime_type, read, offered)
        self._resources.add(uri, resource)
        self._changes.look()

    async def tell_of_resource(self, uri: str) -> None:
        """Let the clients know that want to hear when a resource changes."""
        await self._changes.tell_of_resource(uri)

    # What clients ask for.

    @contextlib.asynccontextmanager
    async def _follow_engine(self, _server: Server[str | None]) -> AsyncIterator[str | None]:
        # One server may be served in several ways at once: its events are heard once.
        loop, before = asyncio.get_running_loop(), self._loop
        if self._served and before is not loop and before is not None:
            if not before.is_closed():
                raise ConfigurationError(
                    f"this MCPServer is served on another event loop; {_OTHER_LOOP}"
                )
            self._served = 0  # what was served there ended with its loop
        self._loop = loop
        self._served += 1
        if self._served == 1:
            subscribe = self._engine.subscribe
            self._ends = [self._changes.follow(subscribe), self._logs.follow(subscribe)]
        try:
            yield _connection.get()
        finally:
            self._served -= 1
            if not self._served:
                for end_following in self._ends:
                    end_following()
                await self._changes.close()
                await self._calls.close()

    async def _note_connection(
        self, ctx: ServerRequestContext[str | None, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.method == "notifications/initialized":
            self._changes.remember_connection(ctx.session)
        return await call_next(ctx)

    async def _list_tools(
        self,
        ctx: ServerRequestContext[str | None, Any],
        params: types.PaginatedRequestParams | None,
    ) -> Any:
        return self._read_page(None if params is None else params.cursor, is_modern=_is_modern(ctx))

    def _read_page(self, cursor: str | None, *, is_modern: bool) -> dict[str, Any]:
        try:
            page = (self._finder or self._listing).read_page(cursor, is_modern=is_modern)
        except BadCursorError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        found: dict[str, Any] = {"tools": page.tools, "resultType": "complete"}
        if page.next_cursor is not None:
            found["nextCursor"] = page.next_cursor
        return found

    def _write_page(self, cursor: str | None) -> dict[str, Any]:
        hint = _HOLDS["tools/list"]
        return {
            "ttlMs": hint.ttl_ms,
            "cacheScope": hint.scope,
            **self._read_page(cursor, is_modern=True),
            "_meta": {types.SERVER_INFO_META_KEY: self._server.server_info_stamp},
        }

    async def _call_tool(
        self, ctx: ServerRequestContext[str | None, Any], params: types.CallToolRequestParams
    ) -> Any:
        return await self._calls.answer(ctx, params)

    async def _serve_listener(
        self, ctx: Any, params: types.SubscriptionsListenRequestParams
    ) -> Any:
        tasks, listen = self._calls.tasks, self._changes.serve_listener
        if tasks is None or not read_task_ids(params):
            return await listen(ctx, params)
        return await listen_with_tasks(tasks, listen, ctx, params)

    async def _list_prompts(self, ctx: Any, params: Any) -> Any:
        _check_only_page(params)
        return {"prompts": self._prompts.describe(), "resultType": "complete"}

    async def _get_prompt(self, ctx: Any, params: types.GetPromptRequestParams) -> Any:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            hint = suggest_near(params.name[:128], self._prompts.list_names())
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:128]!r}{hint}")
        arguments = params.arguments or {}
        try:
            check_arguments(params.name, prompt, arguments)
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        request, _ = self._calls.make_request(ctx, params)
        try:
            with answer_request(request):
                writing = write_prompt(params.name, prompt, arguments)
                messages = await self._run_offered(f"the prompt {params.name!r}", writing)
        except InputRequiredError:
            return request.wanted
        except ClientCannotError:
            request.raise_lack()
            raise
        described = {"description": prompt.description} if prompt.description else {}
        return {"messages": messages, "resultType": "complete", **described}

    async def _list_resources(self, ctx: Any, params: Any) -> Any:
        _check_only_page(params)
        return {"resources": self._resources.describe(), "resultType": "complete"}

    async def _list_templates(self, ctx: Any, params: Any) -> Any:
        _check_only_page(params)
        described = self._resources.describe_templates()
        return {"resourceTemplates": described, "resultType": "complete"}

    async def _read_resource(self, ctx: Any, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        reading = self._resources.read(uri)
        content = await self._run_offered(f"the resource {uri[:80]!r}", reading)
        if content is not None and len(content.get("text") or content.get("blob") or "") > LONG:
            content = await write_long(partial(dict, content))
        if content is None:
            content = await self._kept.read(uri, find_principal(self._principal, ctx))
        if content is None:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return {"contents": [content], "resultType": "complete"}

    async def _run_offered(self, what: str, work: Coroutine[Any, Any, Any]) -> Any:
        async def run() -> Any:
            with answer_failures(what):
                return await work

        return await self._calls.own_tasks.run(run())

    async def _complete_argument(self, ctx: Any, params: types.CompleteRequestParams) -> Any:
        return complete_argument(params, self._prompts, self._resources)


class _Server(Server[str | None]):
    """The SDK's server, which announces to older clients that they hear of changes, on each way."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        """Return what `initialize` answers."""
        announced = notification_options or _ANNOUNCED
        return super().create_initialization_options(announced, *more, **named)


def _check_only_page(params: types.PaginatedRequestParams | None) -> None:
    """Check that a client reads a list from its beginning, which has one page."""
    if params is not None and params.cursor is not None:
        message = f"no page ended with the cursor {params.cursor[:80]!r}"
        raise MCPError(types.INVALID_PARAMS, message)


def _find_header_schema(_name: str) -> None:
    """Return None: no definition says that an argument stands in a header, too.

    Without this the SDK would go through the list for each call.
    """


def _make_seal(keys: list[bytes], principal: Principal) -> RequestStateSecurity:
    try:
        return RequestStateSecurity(
            keys=keys,
            ttl=STATE_HOLDS,
            bind_principal=lambda ctx: find_principal(principal, ctx),
        )
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"state_keys must be secrets of at least 32 bytes: {error}"
        ) from error


def _is_modern(ctx: ServerRequestContext[str | None, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _check_settings(engine: Any, name: Any, selection: Any, page_size: Any) -> None:
    if not getattr(engine, "is_engine", False):
        raise ConfigurationError(f"engine must be a ToolEngine, got {type(engine).__name__}")
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"name must be a text that is not empty, got {name!r}")
    check_count("page_size", page_size, minimum=1)
    if not isinstance(selection, ToolSelection):
        raise ConfigurationError(f"expose must be a ToolSelection, got {selection!r:.80}")
    for missing in selection.find_missing_groups(engine.groups):
        hint = suggest_near(missing, engine.groups)
        raise ConfigurationError(f"there is no group {missing!r}{hint}")
