"""How is an HTTP tool run, so that a hostile parameter cannot turn it against its owner?

One executor serves `http_request`, whose parameters name the URL, and declarative tools, whose
YAML does. Every address is checked before it is dialled, on the first request and on each
redirect, against what the tool's own definition allows.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from tool_engine.errors import ConfigurationError, ToolExecutionError
from tool_engine.executors.addresses import AllowList, ends_in_number
from tool_engine.executors.http_answer import HTTPAnswer, described, selected
from tool_engine.executors.http_entry import HTTPEntry, compile_entry
from tool_engine.executors.http_request import HTTPRequest, request_of_call, request_of_plan
from tool_engine.executors.http_retry_after import pause_asked_for
from tool_engine.executors.secrets import SecretScope
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

__all__ = ["GuardedResolver", "HTTPExecutor"]

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
_USER_AGENT: Final = {"User-Agent": "tool-engine"}


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses the addresses that a tool may not reach.

    aiohttp dials what this returns and nothing else, so a name that is bound anew between a check
    and the dialling gains nothing.
    """

    def __init__(self, allow: AllowList, inner: AbstractResolver) -> None:
        self._allow = allow
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host` that may be dialled; raises `AddressRefusedError`."""
        found = await self._inner.resolve(host, port, family)
        addresses = [result["host"] for result in found]
        permitted = set(self._allow.permitted(host.rstrip("."), port, addresses))
        return [result for result in found if result["host"] in permitted]

    async def close(self) -> None:
        """Closes the resolver that does the work."""
        await self._inner.close()


class HTTPExecutor:
    """Runs `http_request` and every tool whose entry declares a `request`.

    Args:
        allow: Hosts beyond the public network that every tool may reach, in the form of
            `entry.allow`; for a tool of its own, write them in its definition instead.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        try:
            self._allow = AllowList.parse(allow)
        except ValueError as error:
            raise ConfigurationError(f"allow: {error}") from None
        self._entries: dict[str, tuple[Tool, HTTPEntry]] = {}
        # Apart by what may be reached: a connection that one tool was allowed to open must not be
        # reused for another that was not.
        self._sessions: dict[
            tuple[asyncio.AbstractEventLoop, AllowList], aiohttp.ClientSession
        ] = {}

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Sends the request and returns the answer.

        Returns:
            For `http_request`, `{"status_code", "headers", "body"}`, whatever the status is. For
            a declarative tool the body, or what `entry.response` selects in it.

        Raises:
            ToolExecutionError: The request was refused or failed, or a declarative tool's answer
                is not a success.
            TimeoutError: No complete answer arrived within the parameter `timeout`.
            DefinitionError: The tool's entry is wrong.
        """
        entry = self._entry(tool)
        secrets = SecretScope()
        try:
            return secrets.hide(await self._run(entry, params, secrets, context))
        except ToolExecutionError as error:
            message = secrets.hide_text(str(error))
            if message == str(error):
                raise
            raise ToolExecutionError(message, details=error.details) from None

    async def close(self) -> None:
        """Closes every connection; calling it again does nothing."""
        sessions, self._sessions = self._sessions, {}
        running = asyncio.get_running_loop()
        for (loop, _), session in sessions.items():
            if loop is running or loop.is_closed():
                await session.close()
            else:
                asyncio.run_coroutine_threadsafe(session.close(), loop)

    async def _run(
        self,
        entry: HTTPEntry,
        params: dict[str, Any],
        secrets: SecretScope,
        context: ToolExecutionContext,
    ) -> Any:
        if entry.plan is not None:
            request = request_of_plan(entry.plan, params, secrets)
            return selected(await self._answer(request, entry, context, None), entry)
        request = request_of_call(params, secrets)
        answer = await self._answer(request, entry, context, _timeout_of(params))
        return described(answer) if entry.select is None else selected(answer, entry)

    def _entry(self, tool: Tool) -> HTTPEntry:
        known = self._entries.get(tool.name)
        if known is not None and known[0] is tool:
            return known[1]
        entry = compile_entry(tool)
        self._entries[tool.name] = (tool, entry)
        return entry

    async def _answer(
        self,
        request: HTTPRequest,
        entry: HTTPEntry,
        context: ToolExecutionContext,
        seconds: float | None,
    ) -> HTTPAnswer:
        first = request.url.host_port_subcomponent
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await self._send(request, entry, context)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if deadline.expired():
                raise TimeoutError(
                    f"no complete answer from {first} within {seconds:g} seconds "
                    "(parameter 'timeout')"
                ) from None
            raise ToolExecutionError(_reason(error, request.url)) from None

    async def _send(
        self, request: HTTPRequest, entry: HTTPEntry, context: ToolExecutionContext
    ) -> HTTPAnswer:
        allow = AllowList(self._allow.entries + entry.allow.entries)
        session = await self._session(allow)
        for _ in range(MAX_REDIRECTS + 1):
            _check_literal(request.url, allow)
            async with session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
            ) as response:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    _back_off(response, context)
                    return await _read(response, entry.max_bytes)
                response.close()
            request.redirect(response.status, location)
        raise ToolExecutionError(
            f"the request was redirected more than {MAX_REDIRECTS} times; give the final URL"
        )

    async def _session(self, allow: AllowList) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get((loop, allow))
        if session is None or session.closed:
            await self._forget_closed_loops()
            session = aiohttp.ClientSession(
                connector=self._connector(allow),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_USER_AGENT,
                timeout=_NO_TIMEOUT,
                trust_env=False,
            )
            self._sessions[loop, allow] = session
        return session

    def _connector(self, allow: AllowList) -> aiohttp.BaseConnector:
        """What dials; `tool_engine.testing` puts in its place what cannot reach a network."""
        resolver = GuardedResolver(allow, ThreadedResolver(asyncio.get_running_loop()))
        # Admission limits how many calls run; a second limit here would queue unseen.
        return aiohttp.TCPConnector(resolver=resolver, limit=0)

    async def _forget_closed_loops(self) -> None:
        for key in [key for key in self._sessions if key[0].is_closed()]:
            await self._sessions.pop(key).close()


def _back_off(response: aiohttp.ClientResponse, context: ToolExecutionContext) -> None:
    """Passes on that the server asks for a pause, before its body is read: others may be next."""
    seconds = pause_asked_for(response.status, response.headers)
    if seconds is not None and context.bound_call is not None:
        context.back_off(seconds)


def _timeout_of(params: Mapping[str, Any]) -> float | None:
    value = params.get("timeout")
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


def _check_literal(url: URL, allow: AllowList) -> None:
    """Checks an address that is spelled out, for which aiohttp asks no resolver."""
    host = url.raw_host or ""
    if ":" in host or ends_in_number(host):
        allow.permitted(host, url.port or 0, [host])


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> HTTPAnswer:
    origin = str(response.url.host_port_subcomponent)
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > max_bytes:
            response.close()
            raise ToolExecutionError(
                f"the answer of {origin} is larger than {max_bytes} bytes; ask for less, or raise "
                "entry.request.max_bytes in the tool's YAML"
            )
        chunks.append(chunk)
    names: dict[str, str] = {}
    for name in response.headers:
        names.setdefault(name.lower(), name)
    return HTTPAnswer(
        status=response.status,
        reason="".join(char for char in (response.reason or "")[:80] if char.isprintable()),
        headers={name: ", ".join(response.headers.getall(name)) for name in names.values()},
        content_type=response.content_type if "Content-Type" in response.headers else "",
        charset=response.charset,
        body=b"".join(chunks),
        origin=origin,
    )


def _reason(error: Exception, url: URL) -> str:
    """A sentence for what aiohttp or the socket reported."""
    place = url.host_port_subcomponent
    for kind, sentence in _REASONS:
        if isinstance(error, kind):
            cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
            detail = getattr(cause, "strerror", None) or cause
            if isinstance(cause, OSError) and (cause.errno or 0) > 0:
                # asyncio puts the address into the text, where the reason belongs.
                detail = os.strerror(cause.errno or 0)
            return sentence.format(place=place, host=url.host, detail=detail)
    return f"the request to {place} failed: {type(error).__name__}"


# The more particular class comes first.
_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorDNSError, "the host name {host!r} cannot be resolved: {detail}"),
    (
        aiohttp.ClientConnectorCertificateError,
        "the certificate of {place} is not trusted: {detail}",
    ),
    (aiohttp.ClientSSLError, "no secure connection to {place}: {detail}"),
    (aiohttp.ClientConnectorError, "cannot connect to {place}: {detail}"),
    (aiohttp.ServerDisconnectedError, "{place} closed the connection before it had answered"),
    (ConnectionResetError, "{place} closed the connection before it had answered"),
    (aiohttp.ClientPayloadError, "the answer of {place} is cut off or cannot be decompressed"),
    (aiohttp.ClientResponseError, "{place} did not answer in valid HTTP"),
)
