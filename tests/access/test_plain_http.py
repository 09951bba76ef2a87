"""Is a plain request read, and answered, as h11 would?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tests.server.conftest import BOUND
from tool_engine.access.listening import serve_app
from tool_engine.access.plain_http import PlainRequest, read_plain

PLAIN = (
    b"POST /v1/tools/a%2Fb/calls?x=1 HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\nAccept: a, b  \r\nConnection: keep-alive\r\n\r\n{}"
)
LINES = (
    b"Host: here",
    b"Host:here",
    b"host: there",
    b"Host : here",
    b"Host: \there",
    b"Content-Length: 2",
    b"Content-Length: 02",
    b"content-length: 2, 2",
    b"Content-Length: +2",
    b"Content-Length: 0",
    b"Content-Length: \xb2",
    b"Content_Length: 2",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding : chunked",
    b"Connection: close",
    b"Connection: Keep-Alive",
    b"Connection: close, keep-alive",
    b"Connection: upgrade",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
    b"X-A: one  ",
    b"X-A: \xff",
    b"X-A: a\rb",
    b"X-A: a\nContent-Length: 5",
    b"X-A: \x0b",
    b"X-A:",
    b" folded: yes",
    b"",
    b"no colon",
)
FIRST = (
    b"GET / HTTP/1.1",
    b"POST /v1 HTTP/1.1",
    b"DELETE /v1?a=b HTTP/1.1",
    b"HEAD / HTTP/1.1",
    b"get / HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET /a b HTTP/1.1",
    b"GET http://there/ HTTP/1.1",
    b"GET * HTTP/1.1",
    b"GET /\xff HTTP/1.1",
    b"GET / HTTP/1.0",
    b"GET / HTTP/1.1 ",
    b"CONNECT / HTTP/1.1",
    b"",
)
BODIES = (
    b"",
    b"{}",
    b"{",
    b"{}\r\n",
    b"{}GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"2\r\n{}\r\n0\r\n\r\n",
)


@st.composite
def draw_request(draw: st.DrawFn) -> bytes:
    """Draw a request that is right, nearly so, or not at all."""
    ends = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\r\r\n"])
    lines = [draw(st.sampled_from(FIRST)), b"Host: here"][: draw(st.sampled_from([1, 2, 2, 2]))]
    lines += draw(st.lists(st.sampled_from(LINES), max_size=4))
    data = b"".join(line + draw(ends) for line in lines) + draw(ends)
    return data + draw(st.sampled_from(BODIES))


def read_by_h11(data: bytes) -> PlainRequest | None:
    """Read a request that is alone and whole; None: it is not."""
    conn = h11.Connection(h11.SERVER)
    conn.receive_data(data)
    try:
        head = conn.next_event()
        if not isinstance(head, h11.Request) or conn.they_are_waiting_for_100_continue:
            return None
        body = b""
        while isinstance(event := conn.next_event(), h11.Data):
            body += event.data
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.EndOfMessage) or conn.trailing_data[0]:
        return None
    is_followed = conn.their_state is h11.DONE
    return PlainRequest(
        head.method.decode(), head.target, list(head.headers), bytes(body), is_followed
    )


@settings(max_examples=share_of(5_000))
@given(draw_request())
@example(PLAIN)
def test_h11_reads_the_same(data: bytes) -> None:
    """What is taken for plain is to h11 the very same request, alone and whole."""
    found = read_plain(data)
    if found is not None:
        assert found == read_by_h11(data)


@settings(max_examples=share_of(5_000))
@given(st.integers(0, len(PLAIN)), st.integers(0, 3), st.binary(max_size=3))
def test_h11_reads_the_same_of_what_is_damaged(place: int, length: int, put: bytes) -> None:
    data = PLAIN[:place] + put + PLAIN[place + length :]
    found = read_plain(data)
    if found is not None:
        assert found == read_by_h11(data)


def test_what_is_plain() -> None:
    """Else the short way would be none."""
    found = read_plain(PLAIN)
    assert found is not None
    assert (found.method, found.body, found.is_followed) == ("POST", b"{}", True)
    assert read_plain(PLAIN.replace(b"keep-alive", b"close")) is not None
    for needle, put in ((b"POST", b"HEAD"), (b"{}", b"{"), (b"{}", b"{}{"), (b"1.1", b"1.0")):
        assert read_plain(PLAIN.replace(needle, put)) is None


# What it answers, beside what h11 would.

App = Callable[[Any, Any, Any], Awaitable[None]]
REQUEST = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{}\r\n"
NOT_PLAIN = "X-A: 1\r\nX-A: 2\r\n"


@contextlib.asynccontextmanager
async def serve(app: App) -> AsyncIterator[tuple[str, int]]:
    """Serve an app of a test; where."""

    async def live(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})

    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_app(live, "127.0.0.1", 0, ready.set_result, "", grace=1))
    try:
        host, port = (await ready).removeprefix("http://").split(":")
        yield host, int(port)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def answering(status: int, headers: list[tuple[bytes, bytes]], *parts: bytes) -> App:
    """Make an app that sends so many parts of a body."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    return answer


async def ask(place: tuple[str, int], text: str) -> bytes:
    reader, writer = await asyncio.open_connection(*place)
    try:
        writer.write(text.encode())
        async with asyncio.timeout(BOUND):
            return await reader.read()
    finally:
        writer.close()


def read_answer(data: bytes) -> tuple[Any, ...]:
    """Read an answer as a client does: status, headers, body, and whether all of it is there."""
    if not data:
        return ("nothing",)
    conn = h11.Connection(h11.CLIENT)
    conn.send(h11.Request(method="GET", target="/", headers=[("host", "here")]))
    conn.send(h11.EndOfMessage())
    conn.receive_data(data)
    conn.receive_data(b"")
    head, body, event = conn.next_event(), b"", None
    assert isinstance(head, h11.Response)
    with contextlib.suppress(h11.RemoteProtocolError):
        while isinstance(event := conn.next_event(), h11.Data):
            body += event.data
    sent = sorted((name.lower(), value.lower()) for name, value in head.headers)
    return head.status_code, sent, body, isinstance(event, h11.EndOfMessage)


@pytest.mark.parametrize(
    "app",
    [
        answering(200, [(b"content-length", b"4")], b"ab", b"cd"),
        answering(200, [(b"x-a", b"1"), (b"x-a", b"2")], b"ab", b"", b"c" * 70_000),
        answering(200, [(b"transfer-encoding", b"chunked")], b"ab"),
        answering(204, []),
        answering(304, [(b"etag", b'"1"')]),
        answering(503, [(b"connection", b"close"), (b"content-length", b"0")]),
        answering(200, [(b"content-length", b"5")], b"ab"),
        answering(200, [(b"content-length", b"2"), (b"content-length", b"2")], b"ab"),
        answering(304, [(b"content-length", b"5")]),
        answering(200, [(b"content-length", b"1")], b"ab"),
        answering(200, [(b"content-length", b"1"), (b"content-length", b"2")], b"ab"),
        answering(200, [(b"x-a", b"1\r\nx-b: 2")], b"ab"),
        answering(200, [(b"x-a\r\nx-b", b"1")], b"ab"),
        answering(200, [(b"content-length", b"two")], b"ab"),
    ],
)
async def test_h11_answers_the_same(app: App) -> None:
    """To a client both are the same answer, and both refuse the same of what an app sends."""
    async with serve(app) as place:
        plain = await ask(place, REQUEST.format(""))
        other = await ask(place, REQUEST.format(NOT_PLAIN))
    assert read_answer(plain) == read_answer(other)


@pytest.mark.parametrize("more", ["", NOT_PLAIN], ids=["plain", "not plain"])
@pytest.mark.parametrize("is_joined", [True, False])
async def test_what_follows_the_last_request(more: str, is_joined: bool) -> None:
    """A client that has said that nothing follows has its answer; what follows is not read."""
    paths: list[str] = []
    came, goes_on = asyncio.Event(), asyncio.Event()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])
        came.set()
        await goes_on.wait()
        await answering(200, [(b"content-length", b"2")], b"ok")(scope, receive, send)

    first, late = REQUEST.format(more).encode(), b"GET /late HTTP/1.1\r\nHost: here\r\n\r\n"
    async with serve(answer) as place, asyncio.timeout(BOUND):
        reader, writer = await asyncio.open_connection(*place)
        writer.write(first + late if is_joined else first)
        await came.wait()
        if not is_joined:
            writer.write(late)
            await writer.drain()
            await asyncio.sleep(0.05)
        goes_on.set()
        assert read_answer(await reader.read())[::2] == (200, b"ok")
        writer.close()
    assert paths == ["/"]


async def test_an_app_that_sends_out_of_turn() -> None:
    """It hears so, as it would behind another server."""
    said: list[str] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        start = {"type": "http.response.start", "status": 204, "headers": []}
        body = {"type": "http.response.body"}
        for message in (body, start, start, body, body):
            try:
                await send(message)
            except RuntimeError as error:
                said.append(str(error))

    async with serve(answer) as place:
        assert (await ask(place, REQUEST.format(""))).startswith(b"HTTP/1.1 204 ")
    assert len(said) == 3
    assert "complete" in said[-1]


async def test_requests_that_do_not_wait_for_answers() -> None:
    """Each is answered in its turn, whether it came whole, in pieces, or with others."""
    turns: asyncio.Queue[str] = asyncio.Queue()
    goes_on = asyncio.Event()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        turns.put_nowait(scope["path"])
        await goes_on.wait()
        path = scope["path"].encode()
        await answering(200, [(b"content-length", b"%d" % len(path))], path)(scope, receive, send)

    def make(path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()

    async with serve(answer) as place, asyncio.timeout(BOUND):
        reader, writer = await asyncio.open_connection(*place)
        writer.write(make("/one"))
        assert await turns.get() == "/one"
        for piece in (make("/two") + make("/three")[:9], make("/three")[9:], make("/four")):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        goes_on.set()
        for path in (b"/one", b"/two", b"/three", b"/four"):
            assert (await reader.readuntil(path)).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert [turns.get_nowait() for _ in range(3)] == ["/two", "/three", "/four"]


def make_request(more: str, body: bytes) -> bytes:
    head = f"POST / HTTP/1.1\r\nHost: here\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("more", ["", NOT_PLAIN], ids=["plain", "not plain"])
@pytest.mark.parametrize("empty", [b"\r\n", b"\r\n\r\n"])
async def test_empty_lines_before_a_request(more: str, empty: bytes) -> None:
    """They are passed over, as RFC 9112 (2.2) has it, however they are cut, and only there."""
    paths: list[str] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        paths.append(body.decode())
        await answering(200, [(b"content-length", b"1")], body)(scope, receive, send)

    one, two = make_request(more, b"1"), make_request(more, b"2")
    last = make_request(f"{more}Connection: close\r\n", b"3")
    for whole in (empty + one + empty + two + empty + last, one + two + last):
        for size in (1, 3, len(whole)):
            async with serve(answer) as place, asyncio.timeout(BOUND):
                reader, writer = await asyncio.open_connection(*place)
                for begin in range(0, len(whole), size):
                    writer.write(whole[begin : begin + size])
                    await writer.drain()
                    await asyncio.sleep(0)
                said = await reader.read()
                writer.close()
            assert said.count(b"HTTP/1.1 200 ") == 3
            assert said.count(b"HTTP/1.1 ") == 3
    assert paths == ["1", "2", "3"] * 6


@pytest.mark.parametrize("begin", [b"\n", b"\r", b"\r\r\n", b" \r\n", b"\r\n\r\r\n", b"\r\n\n"])
async def test_what_is_no_empty_line_before_a_request(begin: bytes) -> None:
    """It is answered as what is no request."""
    async with serve(answering(200, [])) as place:
        said = await ask(place, begin.decode() + REQUEST.format(""))
    assert said.startswith(b"HTTP/1.1 400 ")
