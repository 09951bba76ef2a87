"""The HTTP executor against a real server on the loopback address."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from tool_engine.errors import ConfigurationError, DefinitionError, ToolExecutionError
from tool_engine.executors.http.addresses import AddressRefusedError, AllowList
from tool_engine.executors.http.connector import GuardedResolver
from tool_engine.executors.http.http_executor import HTTPExecutor, _explain_error
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
LIMIT = 10.0
"""Seconds after which a wait in a test has failed."""


async def test_an_error_status_is_output(run: Any, site: Any) -> None:
    """K14: for http_request, 404 is an answer."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=404, text="gone", headers={"Set-Cookie": "a=1"})

    site.answer = answer
    output = await run.request(url=site.url)
    assert (output["status_code"], output["body"]) == (404, "gone")
    await run.request(url=site.url)
    assert "Cookie" not in site.requests[1].headers, "a cookie outlived its call"


async def test_repeated_headers(run: Any, site: Any) -> None:
    """Headers of one name are joined."""

    async def answer(_request: web.Request) -> web.Response:
        response = web.Response(body=b"")
        response.headers.add("X-A", "1")
        response.headers.add("X-A", "2")
        return response

    site.answer = answer
    output = await run.request(url=site.url)
    assert output["headers"]["X-A"] == "1, 2"
    assert output["body"] is None


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::ffff:127.0.0.1]", "\uff11\uff12\uff17.0.0.1", "localhost", "0.0.0.0"],  # noqa: S104 - dialled, not bound
)
async def test_a_private_address_is_refused(run: Any, site: Any, host: str) -> None:
    """No spelling of a private address is dialled unless the definition lists it."""
    with pytest.raises(AddressRefusedError, match="not a public address"):
        await run.request([], url=f"http://{host}:{site.port}/")
    assert site.requests == []


async def test_a_listed_name_is_dialled(run: Any, site: Any) -> None:
    """entry.allow: a listed name may stand for a private address, on the listed port only."""
    url = f"http://localhost:{site.port}/"
    output = await run.request([f"localhost:{site.port}"], url=url)
    assert output["status_code"] == 200
    with pytest.raises(AddressRefusedError):
        await run.request(["localhost:1"], url=url)


async def test_a_connection_is_not_lent_to_another_tool(run: Any, site: Any) -> None:
    """What one tool may reach stays closed to another, even while a connection is open."""
    url = f"http://localhost:{site.port}/"
    await run.request([f"localhost:{site.port}"], url=url)
    with pytest.raises(AddressRefusedError):
        await run.request([], url=url)
    assert len(site.requests) == 1


async def test_connections_are_kept(run: Any, site: Any) -> None:
    """Two calls of one tool share a connection."""
    peers = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return web.Response()

    site.answer = answer
    await run.request(url=site.url)
    await run.request(url=site.url)
    assert peers[0] == peers[1]


async def test_what_every_tool_may_reach(site: Any, make: Make, context: Any) -> None:
    """An embedder may open a host for all tools, in code."""
    executor = HTTPExecutor(allow=[site.address])
    tool = make({"handler": "http_request"}, "url")
    assert (await executor.execute(tool, {"url": site.url}, context))["status_code"] == 200
    await executor.close()
    with pytest.raises(ConfigurationError, match="allow: 'nonsense' is not host:port"):
        HTTPExecutor(allow=["nonsense"])


class Answers(AbstractResolver):
    """A name server that answers what it is told, each time the next."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for address in self.answers.pop(0)
        ]

    async def close(self) -> None:
        self.answers = []


async def test_rebinding(site: Any) -> None:
    """The address that is dialled is the one that was checked: a second answer is checked anew."""
    names = Answers(["93.184.215.14"], ["127.0.0.1"], ["93.184.215.14", "10.0.0.1"])
    resolver = GuardedResolver(AllowList(), names)
    assert [r["host"] for r in await resolver.resolve("x.example", site.port)] == ["93.184.215.14"]
    connector = aiohttp.TCPConnector(resolver=resolver)
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(2):
            with pytest.raises(AddressRefusedError):
                await session.get(f"http://x.example:{site.port}/")
    assert site.requests == []
    await resolver.close()
    assert names.answers == []


async def test_a_wrong_entry(run: Any) -> None:
    """A definition that was not checked before is refused at its first call."""
    with pytest.raises(DefinitionError, match="did you mean 'method'"):
        await run.execute(run.make({"request": {"url": "https://h/", "metod": "GET"}}), {})


async def test_an_edited_tool_is_read_anew(run: Any, site: Any) -> None:
    """A reload's new definition is used at once, under the same name."""
    for path in ("one", "two"):
        assert (await run.declared({"url": f"{site.url}/{path}"}))["path"] == f"/{path}"
    tool = run.make({"request": {"url": site.url}, "allow": run.allow})
    await run.execute(tool, {})
    await run.execute(tool, {})
    assert run.executor._entries.of(tool) is run.executor._entries.of(tool)


async def test_the_answer_is_bounded(run: Any, site: Any) -> None:
    """A large answer is cut off while it streams, not after."""
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)
            sent += 65536

    site.answer = answer
    with pytest.raises(ToolExecutionError, match="larger than 100000 bytes"):
        await run.declared({"url": site.url, "max_bytes": 100_000})
    assert sent < 20_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compression_bomb(run: Any, site: Any, encoding: str) -> None:
    """The bound counts decoded bytes: 200 MB in 200 KB stop at the bound."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    block = b"\0" * 1_000_000
    bomb = b"".join(compressor.compress(block) for _ in range(200)) + compressor.flush()

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": encoding})

    site.answer = answer
    with pytest.raises(ToolExecutionError, match="larger than 5242880 bytes"):
        await run.request(url=site.url)


async def test_compressed(run: Any, site: Any) -> None:
    """An honest compressed answer is decoded."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(
            body=gzip.compress(b'{"a":1}'),
            headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
        )

    site.answer = answer
    assert (await run.request(url=site.url))["body"] == {"a": 1}


async def test_timeout(run: Any, site: Any) -> None:
    """K14: the parameter `timeout` bounds the whole request; what ran out is said."""
    forever = asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        await forever.wait()
        return web.Response()

    site.answer = answer
    with pytest.raises(TimeoutError, match=rf"{site.address} within 0.05 seconds"):
        await run.request(url=site.url, timeout=0.05)


async def test_cancellation_closes_the_connection(run: Any, site: Any) -> None:
    """A call that is cancelled leaves nothing open: the server sees the connection go."""
    gone = asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return web.Response()

    site.answer = answer
    task = asyncio.create_task(run.request(url=site.url))
    async with asyncio.timeout(LIMIT):
        await site.received.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()
    (session,) = run.executor._sessions.values()
    assert session.connector is not None
    assert not session.connector._acquired


async def raw_server(answer: bytes) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with a reset in place of an end."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed the connection before it had answered"),
        (b"SSH-2.0-x\r\n", "did not answer in valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "is cut off"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
            "cannot be decompressed",
        ),
    ],
)
async def test_a_broken_server(run: Any, answer: bytes, reason: str) -> None:
    """What went wrong is said with host and port, in plain words."""
    async for port in raw_server(answer):
        with pytest.raises(ToolExecutionError, match=f"127.0.0.1:{port} .*{reason}"):
            await run.request(url=f"http://127.0.0.1:{port}/", method="POST")


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/octet-stream"])
@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["at once", "later"])
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: {}\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Type: {}\r\n\r\n",
        b"HTTP/1.1 500 No\r\nContent-Type: {}\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: 90\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n",
    ],
    ids=["1.1", "1.0", "failure", "length", "chunked"],
)
async def test_a_body_cut_by_a_reset(run: Any, head: bytes, pause: float, kind: str) -> None:
    """A reset is no end: what came before it is a part, and never taken for the whole.

    Looked at: bodies with and without length, in memory, into files (test_download.py), in pages
    and in answers of tokens, which all read through one connector.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.replace(b"{}", kind.encode()) + b"[12]")
        await writer.drain()
        await asyncio.sleep(pause)
        reset(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        tool = run.make({"request": {"url": f"http://127.0.0.1:{port}/"}, "allow": run.allow})
        tool = msgspec.structs.replace(tool, effect="write")
        with pytest.raises(
            ToolExecutionError, match=f"127.0.0.1:{port} is cut off|closed the conn"
        ):
            await run.execute(tool, {})


async def test_a_body_that_ends_with_its_connection(run: Any) -> None:
    """A connection that is closed in order is the end of a body without length."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nwhole")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        tool = run.make({"request": {"url": url}, "allow": run.allow})
        assert await run.execute(tool, {}) == "whole"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("effect", ["write", "unknown", "read"])
async def test_a_server_that_hangs_up(run: Any, method: str, effect: str) -> None:
    """What may not safely run twice is sent once, though the client library would repeat it."""
    is_safe = effect == "read" or (effect == "unknown" and method == "GET")
    heard = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        await reader.readuntil(b"\r\n\r\n")
        heard += 1
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        tool = run.make({"request": {"url": url, "method": method}, "allow": run.allow})
        tool = msgspec.structs.replace(tool, effect=effect)
        with pytest.raises(ToolExecutionError, match="closed the connection"):
            await run.execute(tool, {})
    assert heard == (2 if is_safe and method != "POST" else 1)


async def test_an_answer_without_content_type(run: Any) -> None:
    """What declares nothing is text if it reads as text, and never JSON."""
    async for port in raw_server(b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'):
        url = f"http://127.0.0.1:{port}/"
        assert (await run.request(url=url))["body"] == '{"a":1}'
        with pytest.raises(ToolExecutionError, match="answered with no content type"):
            await run.declared({"url": url}, response="a")


async def test_an_odd_reason(run: Any) -> None:
    """What a server says beside its status is shown without characters that do something."""
    answer = "HTTP/1.1 500 No\u2028way\u202e\r\nContent-Length: 0\r\n\r\n".encode()
    async for port in raw_server(answer):
        with pytest.raises(ToolExecutionError, match="answered 500 Noway: no body"):
            await run.declared({"url": f"http://127.0.0.1:{port}/"})


async def test_no_server(run: Any) -> None:
    """A refused connection, an unknown name and plain HTTP where TLS is spoken."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ToolExecutionError, match=f"cannot connect to 127.0.0.1:{port}: .*ref"):
            await run.request(url=f"http://127.0.0.1:{port}/")
    with pytest.raises(ToolExecutionError, match=r"host name 'nowhere\.invalid' cannot be resol"):
        await run.request(url="http://nowhere.invalid/")


KEY = ConnectionKey("h", 443, True, True, None, None, None)


def ssl_error(reason: str) -> Exception:
    error = ssl.SSLError(1, f"[SSL: {reason}] x (_ssl.c:1)")
    error.reason = reason
    return aiohttp.ClientConnectorSSLError(KEY, error)


def certificate_error(code: int, message: str) -> Exception:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] x (_ssl.c:1)")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    error.verify_code, error.verify_message = code, message
    return aiohttp.ClientConnectorCertificateError(KEY, error)


async def test_no_tls(run: Any, site: Any) -> None:
    """https to a server that speaks plain HTTP is an error, not a fallback."""
    told = f"no secure connection to {site.address}: what listens there speaks no TLS; write http:"
    with pytest.raises(ToolExecutionError, match=told):
        await run.request(url=f"https://{site.address}/")
    assert site.requests == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl_error("WRONG_VERSION_NUMBER"), "what listens there speaks no TLS; write http://"),
        (ssl_error("TLSV1_ALERT_PROTOCOL_VERSION"), "tlsv1 alert protocol version; correct the"),
        (certificate_error(18, "self-signed certificate"), "self-signed certificate; set SSL_CERT"),
        (certificate_error(10, "certificate has expired"), "certificate has expired; correct the"),
        (certificate_error(62, "not valid for 'h'."), "not valid for 'h'; correct the URL, or"),
    ],
)
def test_no_good_tls(error: Exception, words: str) -> None:
    """The number of an error of TLS is none of the system: its own words are said."""
    told = _explain_error(error, URL("https://h/"))
    assert words in told
    assert "Operation not permitted" not in told


async def test_tls_where_http_was_asked_for(run: Any) -> None:
    """A connection that is reset says that the URL may lack its s."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        reset(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(ToolExecutionError, match="write https:// if it speaks TLS, or look"):
            await run.request(url=url, method="POST")
    assert "answered; look at its log" in _explain_error(ConnectionResetError(), URL("https://h/"))


def test_what_aiohttp_may_still_raise() -> None:
    """An error that has no sentence of its own is named without its details."""
    assert (
        _explain_error(ValueError("secret"), URL("http://h/"))
        == "the request to h failed: ValueError"
    )


async def test_close(run: Any, site: Any) -> None:
    """Closing twice is fine, and a later call opens anew."""
    await run.request(url=site.url)
    (session,) = run.executor._sessions.values()
    await run.executor.close()
    await run.executor.close()
    assert session.closed
    assert (await run.request(url=site.url))["status_code"] == 200


def test_loops(make: Make) -> None:
    """One executor serves one event loop after the other; sessions of closed loops are let go."""
    executor = HTTPExecutor()
    refused = make({"handler": "http_request"}, "url")
    open_name = make({"handler": "http_request", "allow": ["nowhere.invalid:80"]}, "url")

    async def once(tool: Tool) -> None:
        params = {"url": "http://nowhere.invalid/"}
        with pytest.raises(ToolExecutionError):
            await executor.execute(tool, params, ToolExecutionContext())

    asyncio.run(once(refused))
    asyncio.run(once(open_name))
    assert len(executor._sessions) == 1
    asyncio.run(executor.close())
    assert executor._sessions == {}


async def test_close_from_another_loop(make: Make, context: Any) -> None:
    """A session of a loop that runs in another thread is closed there."""
    executor = HTTPExecutor()
    tool = make({"handler": "http_request"}, "url")
    with pytest.raises(ToolExecutionError):
        await executor.execute(tool, {"url": "http://nowhere.invalid/"}, context)
    (session,) = executor._sessions.values()
    await asyncio.to_thread(asyncio.run, executor.close())
    async with asyncio.timeout(LIMIT):
        while not session.closed:  # noqa: ASYNC110 - closed by the other loop's request
            await asyncio.sleep(0)


async def test_timeout_that_is_no_number(run: Any, site: Any) -> None:
    """A tool may declare `timeout` as something else; it bounds nothing then."""
    for value in (True, "x", 0):
        assert (await run.request(url=site.url, timeout=value))["status_code"] == 200


async def test_no_proxy_from_the_environment(
    run: Any, site: Any, other_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would dial the address that it likes, so the environment's is not used."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, other_site.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert (await run.request(url=site.url))["status_code"] == 200
    assert other_site.requests == []
