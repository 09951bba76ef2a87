"""How is an HTTP tool run so that a hostile parameter cannot turn it against its owner?

One executor serves `http_request`, whose parameters name the URL, and declarative tools, whose
YAML does. Every address is checked before it is dialled, on the first request and on each redirect,
against what the tool's own definition permits.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache, partial
from http.cookies import BaseCookie, SimpleCookie
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.http.addresses import AllowList, ends_in_number
from tool_engine.executors.http.answer import (
    HTTPAnswer,
    check_success,
    describe_answer,
    is_quick,
    run_apart,
    select_body,
)
from tool_engine.executors.http.answer_reading import (
    Budget,
    answer_of,
    is_success,
    pour_body,
    read_answer,
)
from tool_engine.executors.http.auth import TokenAuth
from tool_engine.executors.http.connector import (
    GuardedConnector,
    GuardedResolver,
    NameResolver,
)
from tool_engine.executors.http.decompression import accepted_encodings
from tool_engine.executors.http.download import Download
from tool_engine.executors.http.http_entry import HTTPEntry, compile_entry
from tool_engine.executors.http.name_threads import NameThreads
from tool_engine.executors.http.pages import read_pages
from tool_engine.executors.http.plan_entry import METHODS, SAFE_METHODS, RequestPlan
from tool_engine.executors.http.request import HTTPRequest, request_of_call, request_of_plan
from tool_engine.executors.http.response_entry import SavePlan
from tool_engine.executors.http.retry_after import OVERLOADED, pause_asked_for
from tool_engine.executors.http.token import (
    MAX_TOKEN_BYTES,
    AccessTokenError,
    AccessTokens,
    TokenRequest,
    token_request,
)
from tool_engine.executors.secrets import SecretScope
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.model.trace import trace_carrier

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_OK: Final = 200
_PARTIAL: Final = 206

Take = Callable[[aiohttp.ClientResponse], Awaitable[HTTPAnswer]]


class _NoCookies(aiohttp.DummyCookieJar):
    _none: Final = SimpleCookie()

    def filter_cookies(self, request_url: URL) -> BaseCookie[str]:
        """Return no cookies, without making them anew for each request."""
        del request_url
        return self._none


class _Sending(msgspec.Struct):
    entry: HTTPEntry
    context: ToolExecutionContext
    budget: Budget
    timeout: float | None = None
    """Seconds for each answer; None: only the call's own deadline counts."""


class HTTPExecutor:
    """The executor of `http_request` and of tools with a `request`.

    `allow` lists hosts beyond the public network that every tool may reach, as in `entry.allow`;
    for a single tool, write them in its definition instead.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        try:
            self._allow = AllowList.parse(allow)
        except ValueError as error:
            raise ConfigurationError(f"allow: {error}") from None
        self._entries = CompiledEntries(self._compile_tool)
        self._tokens = AccessTokens(self._post_for_token)
        self._names = NameThreads()
        # Separate by permitted hosts: a connection that one tool was permitted to open must not be
        # reused for another that was not.
        self._sessions: dict[
            tuple[asyncio.AbstractEventLoop, AllowList, bool], aiohttp.ClientSession
        ] = {}

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Send the request and return the answer.

        Returns:
            For `http_request`, `{"status_code", "headers", "body"}`, whatever the status is. For
            a declarative tool the body, an image or a sound as content, or what `entry.response`
            selects; the items of all pages, or where the body was saved, if the entry says so.

        Raises:
            ToolExecutionError: The request was refused or failed, or a declarative tool's answer
                is not a success.
            TimeoutError: No complete answer arrived within the parameter `timeout`.
        """
        entry = self._entries.of(tool)
        secrets = SecretScope()
        sending = _Sending(entry, context, Budget(entry.max_bytes))
        try:
            output = await self._run_entry(sending, params, secrets)
            if secrets.is_empty:
                return output
            return await run_apart(sending.budget.spent, secrets.hide, output)
        except ToolExecutionError as error:
            message = secrets.hide_text(str(error))
            if message == str(error):
                raise
            raise error.reworded(message) from None

    async def close(self) -> None:
        await self._tokens.close()
        self._names.close()
        sessions, self._sessions = self._sessions, {}
        running = asyncio.get_running_loop()
        for (loop, *_), session in sessions.items():
            if loop is running or loop.is_closed():
                await session.close()
            else:
                asyncio.run_coroutine_threadsafe(session.close(), loop)

    async def _run_entry(
        self, sending: _Sending, params: dict[str, Any], secrets: SecretScope
    ) -> Any:
        entry, context = sending.entry, sending.context
        if entry.plan is None:
            request = request_of_call(params, secrets)
            sending.timeout = _timeout_of(params)
            answer = await self._fetch_answer(request, sending)
            if entry.select is None:
                return await run_apart(len(answer.body), describe_answer, answer)
            return await run_apart(len(answer.body), select_body, answer, entry.select)
        if entry.pages is not None:
            make = partial(self._request_of_plan, entry.plan, params, secrets, entry.allow, context)
            fetch = partial(self._fetch_answer, sending=sending)
            return await read_pages(make, entry.pages, entry.select, fetch)
        request = await self._request_of_plan(entry.plan, params, secrets, entry.allow, context)
        if entry.save_to is not None:
            return await self._save_answer(request, sending, entry.save_to, params)
        answer = await self._fetch_answer(request, sending)
        # Most answers are small: spare them an await.
        if is_quick(len(answer.body)):
            return select_body(answer, entry.select)
        return await run_apart(len(answer.body), select_body, answer, entry.select)

    async def _save_answer(
        self,
        request: HTTPRequest,
        sending: _Sending,
        plan: SavePlan,
        params: Mapping[str, Any],
    ) -> dict[str, Any]:
        path = plan.path.render(params, request.secrets) or ""
        async with Download(plan, path, request.secrets) as download:

            async def keep(response: aiohttp.ClientResponse) -> HTTPAnswer:
                if not is_success(response):
                    return await read_answer(response, sending.budget)
                await pour_body(response, sending.budget, download.write)
                return answer_of(response)

            # A file keeps the bytes as they are: compressing them for the way gains nothing.
            request.headers = {"Accept-Encoding": "identity"} | request.headers
            answer = await self._fetch_answer(request, sending, keep)
            check_success(answer)
            saved = await download.finish(sending.context.deadline)
        return saved | {"content_type": answer.content_type or None}

    def _compile_tool(self, tool: Tool) -> HTTPEntry:
        entry = compile_entry(tool)
        allow = AllowList(self._allow.entries + entry.allow.entries)
        return msgspec.structs.replace(entry, allow=allow, resent=_resent_methods(tool))

    async def _request_of_plan(
        self,
        plan: RequestPlan,
        params: Mapping[str, Any],
        secrets: SecretScope,
        allow: AllowList,
        context: ToolExecutionContext,
    ) -> HTTPRequest:
        if plan.secrets:
            await secrets.read_files(plan.secrets)
        request = request_of_plan(plan, params, secrets, context.call_id)
        if isinstance(plan.auth, TokenAuth):
            wanted = token_request(plan.auth, secrets, allow)

            async def renew(refused: str | None) -> str:
                try:
                    return await self._tokens.get(wanted, refused=refused)
                except AccessTokenError as error:
                    _note_pause(error.pause, context)
                    raise

            request.carry(await renew(None))
            request.renew = renew
        return request

    async def _post_for_token(self, wanted: TokenRequest) -> HTTPAnswer:
        session = await self._find_session(wanted.allow, False)
        try:
            _check_literal(wanted.url.raw_host or "", wanted.url.port or 0, wanted.allow)
            async with session.post(
                wanted.url, headers=wanted.headers, data=wanted.body, allow_redirects=False
            ) as response:
                return await read_answer(response, Budget(MAX_TOKEN_BYTES, "check the endpoint"))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolExecutionError(_explain_error(error, wanted.url)) from None

    async def _fetch_answer(
        self, request: HTTPRequest, sending: _Sending, take: Take | None = None
    ) -> HTTPAnswer:
        """Send `request`; `take` reads the answer, by default into memory."""
        first = request.url
        deadline = None if sending.timeout is None else asyncio.timeout(sending.timeout)
        try:
            if deadline is None:
                return await self._send_request(request, sending, take)
            async with deadline:
                return await self._send_request(request, sending, take)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if deadline is not None and deadline.expired():
                raise TimeoutError(
                    f"no complete answer from {first.host_port_subcomponent} within "
                    f"{sending.timeout:g} seconds (parameter 'timeout')"
                ) from None
            raise ToolExecutionError(_explain_error(error, request.url)) from None

    async def _send_request(
        self, request: HTTPRequest, sending: _Sending, take: Take | None
    ) -> HTTPAnswer:
        allow = sending.entry.allow
        may_resend = request.method in sending.entry.resent
        session = await self._find_session(allow, may_resend)
        for _ in range(MAX_REDIRECTS + 1):
            _check_literal(request.url.raw_host or "", request.url.port or 0, allow)
            async with session.request(
                request.method,
                request.url,
                headers=request.headers
                if trace_carrier.get() is None
                else request.traced_headers(),
                data=request.body,
                allow_redirects=False,
            ) as response:
                status, location = response.status, None
                if status != _OK:  # most are: spare them the questions
                    if request.renew is not None and await request.has_new_token(status):
                        continue
                    if status in _REDIRECTS:
                        location = response.headers.get("Location")
                    _back_off(response, sending.context)
                    _check_whole(response, request)
                if location is None:
                    reading = (
                        read_answer(response, sending.budget) if take is None else take(response)
                    )
                    return await reading
                response.close()
            request.redirect(status, location)
        raise ToolExecutionError(
            f"the request was redirected more than {MAX_REDIRECTS} times; give the final URL"
        )

    async def _find_session(self, allow: AllowList, may_resend: bool) -> aiohttp.ClientSession:
        session = self._sessions.get((asyncio.get_running_loop(), allow, may_resend))
        if session is not None:
            return session
        await self._forget_closed_loops()
        session = aiohttp.ClientSession(
            connector=self._make_connector(allow),
            cookie_jar=_NoCookies(),
            headers={"User-Agent": "tool-engine", "Accept-Encoding": accepted_encodings()},
            # Decoded here, where each step is bounded.
            auto_decompress=False,
            timeout=_NO_TIMEOUT,
            trust_env=False,
        )
        # aiohttp sends a GET, PUT or DELETE again by itself when the server hangs up on it.
        session._retry_connection = may_resend  # noqa: SLF001 - there is no public name
        self._sessions[asyncio.get_running_loop(), allow, may_resend] = session
        return session

    def _make_connector(self, allow: AllowList) -> aiohttp.BaseConnector:
        """Return the connector; `tool_engine.testing` overrides it with one without a network."""
        return GuardedConnector(GuardedResolver(allow, NameResolver(self._names)))

    async def _forget_closed_loops(self) -> None:
        for key in [key for key in self._sessions if key[0].is_closed()]:
            await self._sessions.pop(key).close()


def _resent_methods(tool: Tool) -> frozenset[str]:
    """Return the methods to send again after a hang-up (RFC 9110, 9.2)."""
    if tool.may_retry:
        return frozenset(METHODS)
    return frozenset() if tool.effect == "write" else SAFE_METHODS


def _back_off(response: aiohttp.ClientResponse, context: ToolExecutionContext) -> None:
    """Report the requested pause before reading the body: other calls may be next."""
    seconds = pause_asked_for(response.status, response.headers)
    _note_pause(seconds, context)
    if seconds is None and response.status in OVERLOADED and context.bound_call is not None:
        context.report_overload()


def _note_pause(seconds: float | None, context: ToolExecutionContext) -> None:
    if seconds is not None and context.bound_call is not None:
        context.back_off(seconds)


def _timeout_of(params: Mapping[str, Any]) -> float | None:
    value = params.get("timeout")
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


@lru_cache(maxsize=4096)
def _check_literal(host: str, port: int, allow: AllowList) -> None:
    if ":" in host or ends_in_number(host):
        allow.permitted(host, port, [host])


def _check_whole(response: aiohttp.ClientResponse, request: HTTPRequest) -> None:
    """Refuse a partial answer to a request for the whole (RFC 9110, 15.3.7)."""
    if response.status == _PARTIAL and not any(name.lower() == "range" for name in request.headers):
        response.close()
        raise ToolExecutionError(
            f"{request.url.host_port_subcomponent} answered with a part (206) that was not asked "
            "for; the whole is needed"
        )


def _explain_error(error: Exception, url: URL) -> str:
    place = url.host_port_subcomponent
    for kind, sentence in _REASONS:
        if isinstance(error, kind):
            cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
            detail = getattr(cause, "strerror", None) or cause
            if isinstance(cause, ssl.SSLError):
                # Its number is one of TLS, and none of the system.
                detail = _explain_tls(cause)
            elif isinstance(cause, OSError) and (cause.errno or 0) > 0:
                # asyncio puts the address into the text, in place of the reason.
                detail = os.strerror(cause.errno or 0)
            cure = "write https:// if it speaks TLS, or" if url.scheme == "http" else ""
            return sentence.format(
                place=place, host=url.host, detail=detail, cure=f"{cure} look at its log".strip()
            )
    return f"the request to {place} failed: {type(error).__name__}"


_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
"""What an answer without encryption is taken for."""
_UNKNOWN_ISSUER: Final = frozenset({18, 19, 20, 21})
"""Codes of OpenSSL for a certificate whose issuer is not among those that are trusted."""


def _explain_tls(error: ssl.SSLError) -> str:
    cure = "correct the URL, or what listens there"
    if error.reason in _NO_TLS:
        return "what listens there speaks no TLS; write http:// if it is meant to"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"{(error.reason or 'TLS failed').replace('_', ' ').lower()}; {cure}"
    if error.verify_code in _UNKNOWN_ISSUER:
        cure = "set SSL_CERT_FILE to a file with its issuer's certificate, or correct the URL"
    return f"{error.verify_message.rstrip('.')}; {cure}"


_HUNG_UP: Final = "{place} closed the connection before it had answered; {cure}"
# The more specific class comes first.
_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (
        aiohttp.ClientConnectorDNSError,
        "the host name {host!r} cannot be resolved: {detail}; correct the URL, or the network",
    ),
    (
        aiohttp.ClientConnectorCertificateError,
        "the certificate of {place} is not trusted: {detail}",
    ),
    (aiohttp.ClientSSLError, "no secure connection to {place}: {detail}"),
    (
        aiohttp.ClientConnectorError,
        "cannot connect to {place}: {detail}; start what listens there, or correct the URL",
    ),
    (aiohttp.ServerDisconnectedError, _HUNG_UP),
    (ConnectionResetError, _HUNG_UP),
    (aiohttp.ClientOSError, _HUNG_UP),
    (aiohttp.ClientPayloadError, "the answer of {place} is cut off or cannot be decompressed"),
    (aiohttp.ClientResponseError, "{place} did not answer in valid HTTP; {cure}"),
)
