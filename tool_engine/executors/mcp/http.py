"""How is a server reached over HTTP, and what becomes of answers that are none?

What the network does wrong ends the request that it happened to, as an error of that request: the
SDK would end the whole connection with it. For the same reason an answer is read before the SDK has
it, unless it is a stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, Final
from urllib.parse import urljoin

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tool_engine.executors.http.addresses import AddressRefusedError, AllowList
from tool_engine.executors.http.decompression import (
    Decoder,
    DecodingError,
    accepted_encodings,
    decoder_for,
)
from tool_engine.executors.mcp.dialling import Dialler
from tool_engine.executors.mcp.faults import BROKEN, NOT_SENT, UNREADABLE, BadServerError
from tool_engine.executors.mcp.given_up import PATIENCE, OpenRequests
from tool_engine.executors.mcp.server_settings import describe_address
from tool_engine.redaction import words_of

MAX_ANSWER: Final = 16 * 1024 * 1024
"""The most bytes of one answer, or of one event of a stream."""
_CONNECT: Final = 30.0
_NOTICE: Final = b'"method":"notifications/'
_HEAD: Final = 60
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_REDIRECT: Final = re.compile(r"Redirect to (\S+) not followed")
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_NOT_FOUND: Final = 404
_ERRORS: Final = 400
_INTERNAL: Final = -32_603
_CURES: Final = {
    401: "; give its token in `headers`, or `auth`",
    403: "; give a token with more rights in `headers`, or `auth`",
    404: "; correct the path of its url",
    405: "; correct its url, or its type",
}


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


async def make_client(
    headers: Mapping[str, str],
    allow: AllowList,
    auth: httpx2.Auth | None,
    *,
    on_error: Callable[[], None] | None = None,
    on_reach: Callable[[], None] | None = None,
) -> httpx2.AsyncClient:
    """Return an HTTP client that dials permitted addresses only.

    Args:
        headers: Headers of each request.
        allow: The addresses, beside public ones.
        auth: Adds to requests what they need.
        on_error: Called after each message that was not taken.
        on_reach: Called when the first connection is there.

    Raises:
        BadServerError: A header cannot be sent.
    """
    sent = [_write_header(*each) for each in headers.items()]
    tls = await asyncio.to_thread(_make_tls)
    return _Client(
        on_error,
        headers=[(b"Accept-Encoding", accepted_encodings().encode()), *sent],
        auth=auth,
        # How long an answer may take is the call's own matter.
        timeout=httpx2.Timeout(_CONNECT, read=None),
        transport=_GuardedTransport(Dialler(allow, tls, on_reach)),
    )


def _write_header(name: str, value: str) -> tuple[bytes, bytes]:
    with contextlib.suppress(UnicodeEncodeError):
        if _HEADER_NAME.fullmatch(name) and not _CONTROL.search(value):
            return name.encode(), value.encode("latin-1")
    raise BadServerError(
        f"its header {name!r} cannot be sent; write letters of Latin-1 and no line ends in "
        "`headers`, and no space in a name",
        ("headers", name),
    )


@cache
def _make_tls() -> ssl.SSLContext:
    # It reads all certificates: too long for the loop, and for each server.
    return httpx2.create_ssl_context()


_is_ours: Final[ContextVar[bool]] = ContextVar("is_ours", default=False)
"""True while a request of this module is sent."""


def _shorten_url(record: logging.LogRecord) -> bool:
    """Leave what may be secret out of the line that httpx2 writes of each request."""
    if _is_ours.get() and isinstance(record.args, tuple):
        record.args = tuple(
            describe_address(str(each)) if isinstance(each, httpx2.URL) else each
            for each in record.args
        )
    return True


logging.getLogger("httpx2").addFilter(_shorten_url)


class _Client(httpx2.AsyncClient):
    """Makes of failures answers to single messages."""

    def __init__(self, on_error: Callable[[], None] | None, **options: Any) -> None:
        super().__init__(**options)
        self._open = OpenRequests(on_error)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._open.close()
        await super().aclose()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request."""
        before = _is_ours.set(True)
        try:
            return await self._send_request(request, **options)
        finally:
            _is_ours.reset(before)

    async def _send_request(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        # One that follows a redirect comes unread.
        await request.aread()
        if request.method == "DELETE" or _NOTICE in request.content[:_HEAD]:
            # The SDK sends nothing else until these are answered.
            limits = {**request.extensions["timeout"], "connect": PATIENCE, "read": PATIENCE}
            request.extensions = {**request.extensions, "timeout": limits}
        if request.method != "POST":
            return await super().send(request, **options)
        response = await self._open.send(request, partial(self._send_message, **options))
        if response is None:
            return _answer_with_error(request, BROKEN, "it was given up")
        return response

    async def _send_message(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (AddressRefusedError, httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            response = _answer_with_error(request, NOT_SENT, word_failure(error))
        except DecodingError as error:
            response = _answer_with_error(request, UNREADABLE, word_failure(error))
        except httpx2.TransportError as error:
            response = _answer_with_error(request, BROKEN, word_failure(error))
        except Exception as error:  # noqa: BLE001 - of `auth`, which is foreign
            words = f"its authorization failed: {words_of(error)}"
            response = _answer_with_error(request, NOT_SENT, words)
        return response


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to permitted addresses, and bounds what it reads."""

    def __init__(self, dialler: Dialler) -> None:
        self._dialler = dialler

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, and read its answer unless that is a stream of events."""
        return await _read_answer(await self._dialler.send(request))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._dialler.close()


class _DecodedStream(httpx2.AsyncByteStream):
    """The events of a stream, decoded in pieces of bounded size."""

    def __init__(self, inner: Any, decoder: Decoder) -> None:
        self._inner = inner
        self._decoder = decoder

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            for piece in self._decoder.feed(chunk):
                yield piece
                await asyncio.sleep(0)  # a small chunk may become many pieces

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read_answer(response: httpx2.Response) -> httpx2.Response:
    """Return an answer that was read, or whose events are decoded as they come."""
    decoder = decoder_for(response.headers.get("content-encoding", ""))
    stream = _DecodedStream(response.stream, decoder)
    kind = response.headers.get("content-type", "").lower()
    headers = [
        (key, value)
        for key, value in response.headers.multi_items()
        if key not in ("content-length", "content-encoding", "transfer-encoding")
    ]
    if response.status_code < _ERRORS and kind.startswith(_EVENTS):
        # It may be as long as it likes; its events are bounded where they are read.
        return httpx2.Response(
            response.status_code, headers=headers, stream=stream, extensions=response.extensions
        )
    async with aclosing(response):
        body = bytearray()
        async for piece in stream:
            body += piece
            if len(body) > MAX_ANSWER:
                raise DecodingError(f"has more than {MAX_ANSWER // 2**20} MiB")
        decoder.close()
    if _needs_words(response, kind, body):
        headers = [(key, value) for key, value in headers if key != "content-type"]
        headers.append(("content-type", _JSON))
        body = bytearray(_write_error(_INTERNAL, _word_status(response)))
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=bytes(body),
        extensions=response.extensions,
    )


def _needs_words(response: httpx2.Response, kind: str, body: bytes | bytearray) -> bool:
    """Return True for an error that does not explain itself."""
    # A 404 has a meaning for the protocol: an older server, or a session that is over.
    if response.status_code < _ERRORS or response.status_code == _NOT_FOUND:
        return False
    try:
        return not kind.startswith(_JSON) or "error" not in json.loads(body)
    except (ValueError, TypeError, RecursionError):
        return True


def _answer_with_error(request: httpx2.Request, code: int, words: str | None) -> httpx2.Response:
    return httpx2.Response(
        502,
        headers={"content-type": _JSON},
        content=_write_error(code, words),
        request=request,
    )


def _write_error(code: int, words: str | None) -> bytes:
    error = {"code": code, "message": words}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


def word_failure(error: BaseException) -> str | None:
    """Return the words for a request that failed; None: it is another failure."""
    if isinstance(error, httpx2.HTTPStatusError):
        # Its own words have the whole URL.
        return f"it refused the connection: {_word_status(error.response)}"
    if isinstance(error, AddressRefusedError | httpx2.ConnectError | httpx2.ConnectTimeout):
        is_away = not isinstance(error, AddressRefusedError) and not _is_of_tls(error)
        cure = "; start it, or correct its url" if is_away else ""
        return f"it cannot be reached: {_word_error(error)}{cure}"
    if isinstance(error, DecodingError):
        return f"its answer {error}"
    if isinstance(error, httpx2.SSEError):
        return "its answer is no stream of events; correct its url, or its type"
    if isinstance(error, httpx2.TransportError):
        return f"the connection broke: {_word_error(error)}"
    return None


def word_refusal(message: str) -> str:
    """Return why a server refused, with what the SDK says of it in words of ours."""
    found = _REDIRECT.match(message)
    if found is not None:
        return _describe_redirect(found[1])
    return f"HTTP 404{_CURES[404]}" if message == "Not Found" else message or "it does not say why"


def _describe_redirect(target: str) -> str:
    return (
        f"its redirect to {describe_address(target)} is not followed; write the url that is meant"
    )


def _word_status(response: httpx2.Response) -> str:
    words = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    if response.has_redirect_location:
        target = urljoin(str(response.url), response.headers["location"])
        return f"{words}; {_describe_redirect(target)}"
    return words + _CURES.get(response.status_code, "")


def _word_error(error: Exception) -> str:
    if isinstance(error, AddressRefusedError):
        # The cure there is one of a tool's YAML.
        what = str(error).partition(";")[0]
        return f"{what}; if you trust it, put it into `allow` of the server"
    return str(error) or type(error).__name__


def _is_of_tls(error: BaseException | None) -> bool:
    """Return True for the failure of a server that is there, and has no good certificate."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None
