"""How is a server reached over HTTP, and which addresses may it lead us to?

Every request is dialled to an address that was checked, so that a name that is bound anew between a
check and the dialling gains nothing. What the network does wrong ends the request that it happened
to, as an error of that request: the SDK would end the whole connection with it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tool_engine.executors.http.addresses import AddressRefusedError, AllowList

NOT_SENT: Final = -32_098
"""The code of an error about a request that did not reach the server."""
BROKEN: Final = -32_097
"""The code of an error about a request that the server may have got."""
MAX_ANSWER: Final = 32 * 1024 * 1024
"""The most bytes of one answer, or of one event of a stream."""
_CONNECT: Final = 30.0
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_NOT_FOUND: Final = 404
_ERRORS: Final = 400


def allow_of(url: str, allow: Iterable[str]) -> AllowList:
    """Return what may be dialled: public addresses, the server's own and those of `allow`.

    Raises:
        ValueError: The URL has no host, or an entry of `allow` is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no URL of a server: write http://host:port/path or https://")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return AllowList.parse((f"{host}:{port}", *allow))


def open_http(url: str, client: httpx2.AsyncClient) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Return a connection over streamable HTTP, as a transport of the SDK."""
    return streamable_http_client(url, http_client=client, max_sse_event_size=MAX_ANSWER)


def open_sse(url: str, client: httpx2.AsyncClient) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Return a connection of before 2025, as a transport of the SDK."""

    def give_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return client

    return sse_client(url, httpx_client_factory=give_client)


def make_client(
    headers: Mapping[str, str], allow: AllowList, auth: httpx2.Auth | None
) -> httpx2.AsyncClient:
    """Return an HTTP client that dials permitted addresses only."""
    return httpx2.AsyncClient(
        headers=dict(headers),
        auth=auth,
        # How long an answer may take is the call's own matter.
        timeout=httpx2.Timeout(_CONNECT, read=None),
        transport=GuardedTransport(allow),
    )


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to permitted addresses, and makes of failures answers to single requests.

    Args:
        allow: The addresses, beside public ones.
    """

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow
        self._inner = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        is_message = request.method == "POST"
        try:
            response = await self._dial_and_send(request)
        except (AddressRefusedError, httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if not is_message:
                raise _as_connect_error(error, request) from error
            return _answer_with_error(
                request, NOT_SENT, f"it cannot be reached: {_word_error(error)}"
            )
        except httpx2.TransportError as error:
            if not is_message:
                raise
            return _answer_with_error(
                request, BROKEN, f"the connection broke: {_word_error(error)}"
            )
        return (
            _bound_answer(response) if response.status_code < _ERRORS else _explain_status(response)
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    async def _dial_and_send(self, request: httpx2.Request) -> httpx2.Response:
        host, url = request.url.host, request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._find_addresses(host, port)
        problem: httpx2.TransportError | None = None
        for address in addresses:
            dialled = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(dialled)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                problem = error
        raise problem or httpx2.ConnectError(f"{host} has no address")

    async def _find_addresses(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be looked up: {error.strerror}") from error
        addresses = dict.fromkeys(str(each[4][0]) for each in found)
        return self._allow.permitted(host.rstrip("."), port, addresses)


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that ends with an error beyond its bound."""

    def __init__(self, inner: Any, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"the answer has more than {self._most // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _bound_answer(response: httpx2.Response) -> httpx2.Response:
    # A stream of events may be as long as it likes; its events are bounded where they are read.
    if not response.headers.get("content-type", "").startswith(_EVENTS):
        response.stream = _BoundedStream(response.stream, MAX_ANSWER)
    return response


def _explain_status(response: httpx2.Response) -> httpx2.Response:
    """Give an error without an explanation its status as one."""
    is_explained = response.headers.get("content-type", "").startswith(_JSON)
    if is_explained or response.status_code == _NOT_FOUND:
        # A 404 has a meaning for the protocol: an older server, or a session that is over.
        return _bound_answer(response)
    words = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    headers = [
        (key, value)
        for key, value in response.headers.multi_items()
        if key not in ("content-length", "content-encoding", "content-type", "transfer-encoding")
    ]
    return httpx2.Response(
        response.status_code,
        headers=[*headers, ("content-type", _JSON)],
        stream=_ErrorStream(_write_error(-32_603, words), response.stream),
        extensions=response.extensions,
    )


class _ErrorStream(httpx2.AsyncByteStream):
    """Our words in the place of a body, which is closed with them."""

    def __init__(self, text: bytes, inner: Any) -> None:
        self._text = text
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._text

    async def aclose(self) -> None:
        await self._inner.aclose()


def _answer_with_error(request: httpx2.Request, code: int, words: str) -> httpx2.Response:
    return httpx2.Response(
        502,
        headers={"content-type": _JSON},
        content=_write_error(code, words),
        request=request,
    )


def _write_error(code: int, words: str) -> bytes:
    error = {"code": code, "message": words}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


def _as_connect_error(error: Exception, request: httpx2.Request) -> httpx2.ConnectError:
    return httpx2.ConnectError(_word_error(error), request=request)


def _word_error(error: Exception) -> str:
    return str(error) or type(error).__name__
