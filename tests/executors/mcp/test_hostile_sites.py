"""A server over HTTP may do what it likes: its calls end typed, and nothing else is dialled."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.executors.mcp.conftest import LIMIT, count_running
from tests.ports import free_port
from tests.security.heartbeat import assert_beats_on
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult
from tool_engine.executors.mcp.mcp_source import MCPSource

SECRET = "swordfish-4711-swordfish"
Message = dict[str, Any]
Answer = Callable[["Site", Message, asyncio.StreamWriter], Awaitable[None]]


class Site:
    """Speaks HTTP by hand, of the revision 2025-11-25; what a call is answered is the test's.

    Attributes:
        calls: How many calls came.
        paths: The path of each request.
        session: The only session that it knows.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls = 0
        self.paths: list[str] = []
        self.session = 0
        self.refuses = b""
        """Sent in place of each answer."""
        self.is_silent = False
        """It answers nothing but calls."""
        self.url = ""
        self.tasks: list[asyncio.Task[Any]] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        try:
            await self.talk(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the client left
        finally:
            writer.transport.abort()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.lower().splitlines()
            headers = dict(line.split(": ", 1) for line in rest if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.paths.append(head.split()[1])
            await self.respond(first.split()[0], headers, body, writer)
            await writer.drain()

    async def respond(
        self, method: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        if self.refuses:
            writer.write(self.refuses)
            return
        asked = json.loads(body or b"{}")
        if self.is_silent and asked.get("method") != "tools/call":
            return
        if method != "post":
            writer.write(make_answer(405))
            return
        match asked["method"]:
            case "initialize":
                self.session += 1
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                result["serverInfo"] = {"name": "site", "version": "1"}
                session = f"Mcp-Session-Id: {self.session}"
                writer.write(make_answer(200, make_result(asked, result), session))
            case _ if headers.get("mcp-session-id") not in (None, str(self.session)):
                writer.write(make_answer(404))
            case "tools/list":
                tools = [{"name": "buy", "inputSchema": {"type": "object"}}]
                writer.write(make_answer(200, make_result(asked, {"tools": tools})))
            case "tools/call":
                self.calls += 1
                await self.answer(self, asked, writer)
            case _:
                writer.write(make_answer(202 if "id" not in asked else 400))


def make_result(asked: Message, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}).encode()


def make_text(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}]}


def make_answer(
    status: int, body: bytes = b"", *headers: str, kind: str = "application/json"
) -> bytes:
    lines = [f"HTTP/1.1 {status} Something", f"Content-Length: {len(body)}", *headers]
    if body:
        lines.append(f"Content-Type: {kind}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Site]:
    site = Site(answer)
    server = await asyncio.start_server(site.take, "127.0.0.1", free_port(), limit=2**20)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield site
    finally:
        server.close()
        for task in site.tasks:
            task.cancel()
        await asyncio.gather(*site.tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
async def nothing_is_left(engine: ToolEngine) -> AsyncIterator[None]:
    yield
    assert count_running(engine) == 0
    await engine.close()


async def add(engine: ToolEngine, site: Site, **settings: Any) -> MCPSource:
    headers = {"Authorization": f"Bearer {SECRET}"}
    source = MCPSource("site", url=site.url, headers=headers, **settings)
    await engine.add_source(source)
    return source


async def buy(engine: ToolEngine, timeout: float = LIMIT) -> ToolExecutionResult:  # noqa: ASYNC109 - of the call
    result = await engine.execute("buy", {}, ToolExecutionContext(timeout=timeout))
    assert SECRET not in repr(result.to_dict())
    return result


async def drip(site: Site, asked: Message, writer: asyncio.StreamWriter) -> None:
    writer.write(make_answer(200, b"{}" * 1000)[:-2000])
    while not writer.is_closing():
        writer.write(b"{")
        await writer.drain()
        await asyncio.sleep(0.02)


async def flood_stream(site: Site, asked: Message, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
    while True:
        writer.write(b"x" * 2**20)
        await writer.drain()


async def never(site: Site, asked: Message, writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)


def send(data: Callable[[Message], bytes], is_last: bool = False) -> Answer:
    async def answer(site: Site, asked: Message, writer: asyncio.StreamWriter) -> None:
        writer.write(data(asked))
        if is_last:
            await writer.drain()
            writer.close()

    return answer


def stream(*events: bytes) -> bytes:
    body = b"".join(b"data: " + each + b"\n\n" for each in events)
    return make_answer(200, body, kind="text/event-stream")


def echo(asked: Message) -> bytes:
    return make_answer(200, make_result(asked, make_text("bought")))


BOMB = gzip.compress(b" " * 2**26)
EVENTS = gzip.compress(b"\n" * 2**24)


def bomb(asked: Message) -> bytes:
    return make_answer(200, BOMB, "Content-Encoding: gzip")


def bomb_of_events(asked: Message) -> bytes:
    return make_answer(200, EVENTS, "Content-Encoding: gzip", kind="text/event-stream")


CASES: dict[str, tuple[Answer, str, str]] = {
    "500": (
        send(lambda asked: make_answer(500, b"<p>", kind="text/html")),
        "execution",
        "HTTP 500",
    ),
    "401": (send(lambda asked: make_answer(401)), "execution", "HTTP 401"),
    "403": (send(lambda asked: make_answer(403)), "execution", "more rights in `headers`"),
    "page": (
        send(lambda asked: make_answer(200, b"<p>hello", kind="text/html")),
        "execution",
        "Unexpected content type: text/html",
    ),
    "nothing": (send(lambda asked: make_answer(200)), "execution", "Unexpected content type: "),
    "taken": (send(lambda asked: make_answer(202)), "execution", "202 Accepted"),
    "no json": (
        send(lambda asked: make_answer(200, b"{")),
        "execution",
        "no message of the protocol",
    ),
    "no message": (
        send(lambda asked: make_answer(200, b"[]")),
        "execution",
        "no message of the protocol",
    ),
    "closed": (send(lambda asked: b"", True), "worker_lost", "the connection broke"),
    "cut": (send(lambda asked: echo(asked)[:-9], True), "worker_lost", "the connection broke"),
    "no http": (send(lambda asked: b"hello\r\n\r\n", True), "worker_lost", "the connection broke"),
    "endless head": (
        send(lambda asked: b"HTTP/1.1 200 OK\r\nA: " + b"a" * 2**20, True),
        "worker_lost",
        "the connection broke",
    ),
    "cut stream": (send(lambda asked: stream(b""), True), "worker_lost", "SSE stream ended"),
    "endless event": (flood_stream, "execution", "its answer has more than 16 MiB"),
    "bomb": (send(bomb), "execution", "its answer has more than 16 MiB"),
    "odd encoding": (
        send(lambda asked: make_answer(200, b"x", "Content-Encoding: zstd")),
        "execution",
        "its answer is encoded as 'zstd'",
    ),
    "drip": (drip, "timeout", "within 1 s"),
    "never": (never, "timeout", "within 1 s"),
}


@pytest.mark.parametrize("case", CASES)
async def test_calls_that_fail(engine: ToolEngine, case: str) -> None:
    """Each ends typed, was sent once, and the next call works."""
    answer, error_type, words = CASES[case]
    async with serving(answer) as site:
        await add(engine, site)
        result = await buy(engine, timeout=1.0 if error_type == "timeout" else LIMIT)
        assert str(result.error_type).startswith(error_type), result.error
        assert words in str(result.error)
        assert "\n" not in str(result.error)
        assert site.calls == 1
        site.answer = send(echo)
        assert (await buy(engine)).is_success


@pytest.mark.beats
@pytest.mark.parametrize("answer", [bomb, bomb_of_events])
async def test_the_heart_beats_on_while_a_bomb_comes(
    engine: ToolEngine, answer: Callable[[Message], bytes]
) -> None:
    async with serving(send(answer, True)) as site:
        await add(engine, site)
        await assert_beats_on(lambda: buy(engine))


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "HTTP 401 Something; give its token"), (403, "HTTP 403"), (500, "HTTP 500"), (404, "")],
)
async def test_a_server_that_refuses(engine: ToolEngine, status: int, words: str) -> None:
    """The reason is a fault of the source, without the token that was sent."""
    async with serving(never) as site:
        site.refuses = make_answer(status, b"<html>", kind="text/html")
        await add(engine, site)
    ((_, fault),) = [each for each in engine.load_errors if "site" in each[0]]
    assert "it refused the connection: " in fault
    assert words in fault
    assert SECRET not in fault


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/", "http://127.0.0.1:{port}/"])
async def test_redirects_lead_nowhere(engine: ToolEngine, status: int, target: str) -> None:
    """Neither a connection nor a call follows one to another address."""
    dialled = []
    other = await asyncio.start_server(lambda *streams: dialled.append(1), "127.0.0.1", 0)
    location = target.format(port=other.sockets[0].getsockname()[1])
    sent = make_answer(status, b"", f"Location: {location}")
    async with other, serving(send(lambda asked: sent)) as site:
        await add(engine, site)
        result = await buy(engine)
        site.refuses = sent
        late = await buy(engine)
    assert result.error_type == "execution_error"
    assert "not followed" in str(result.error)
    assert late.error_type == "execution_error"
    assert dialled == []


async def test_a_redirect_of_the_same_site_is_followed(engine: ToolEngine) -> None:
    """Such as the one to the same path with a slash behind it."""

    async def redirect(site: Site, asked: Message, writer: asyncio.StreamWriter) -> None:
        if site.paths[-1] == "/mcp":
            writer.write(make_answer(307, b"", "Location: /mcp/"))
        else:
            writer.write(echo(asked))

    async with serving(redirect) as site:
        await add(engine, site)
        result = await buy(engine)
    assert result.is_success, result.error


async def test_a_forgotten_session_is_made_anew(engine: ToolEngine) -> None:
    """The call was not taken, and so it is sent again: once."""
    async with serving(send(echo)) as site:
        await add(engine, site)
        assert (await buy(engine)).is_success
        site.session += 1
        assert (await buy(engine)).is_success
        assert site.calls == 2


async def test_a_server_that_answers_calls_only(engine: ToolEngine) -> None:
    """Neither the end of a call nor that of the connection waits for what says nothing."""
    async with serving(never) as site:
        source = await add(engine, site)
        site.is_silent = True
        assert (await buy(engine, timeout=0.1)).error_type == "timeout"
        site.answer = send(echo)
        assert (await buy(engine)).is_success
        await engine.remove_source(source)
        await source.close()
        assert source.connection._owner is not None
        assert source.connection._owner.done()


async def test_a_server_that_does_not_take_connections_any_more(engine: ToolEngine) -> None:
    """The end of a session is told to it, but not for long: its packets may be dropped."""
    async with serving(send(echo, True)) as site:
        source = await add(engine, site)
        assert (await buy(engine)).is_success
    port = int(site.url.split(":")[2].partition("/")[0])
    async with AsyncExitStack() as full:
        listener = full.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(3):  # no more are taken after these
            waiting = full.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        assert (await buy(engine, timeout=0.2)).error_type == "timeout"
        await engine.remove_source(source)
        await source.close()
        assert source.connection._owner is not None
        assert source.connection._owner.done()


async def test_a_server_that_closes_each_connection(engine: ToolEngine) -> None:
    async with serving(send(echo, True)) as site:
        source = await add(engine, site)
        for _ in range(5):
            assert (await buy(engine)).is_success
        assert source.connection.is_connected
        assert site.calls == 5


class Elsewhere(httpx2.Auth):
    """Asks another place for a token, as a server's metadata may have it."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def async_auth_flow(self, request: httpx2.Request) -> Any:
        yield httpx2.Request("POST", self.url)
        yield request


async def test_a_name_that_leads_to_this_machine(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server names is dialled only where it leads to a public address."""
    dialled = []
    other = await asyncio.start_server(lambda *streams: dialled.append(1), "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    look_up = socket.getaddrinfo

    def lead_here(host: str, *args: Any, **options: Any) -> Any:
        return look_up("127.0.0.1" if host == "evil.example" else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lead_here)
    async with other, serving(send(echo)) as site:
        await add(engine, site, auth=Elsewhere(f"http://evil.example:{port}/token"))
    faults = str(engine.load_errors)
    assert f"evil.example:{port} leads to 127.0.0.1, not a public address (loopback)" in faults
    assert "put it into `allow` of the server" in faults
    assert dialled == []


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("status", [401, 404, 500, 307])
async def test_no_url_in_what_is_said(engine: ToolEngine, transport: str, status: int) -> None:
    """Its path or its query may be a secret."""
    async with serving(never) as site:
        site.refuses = make_answer(status, b"<html>", f"Location: /{SECRET}", kind="text/html")
        url = f"{site.url}/{SECRET}?key={SECRET}"
        source = MCPSource("site", url=url, transport=transport, headers={"X-Key": SECRET})
        await engine.add_source(source)
        said = f"{engine.load_errors} {source!r} {source.settings!r} {await buy(engine)}"
    assert "it refused the connection" in said
    assert site.url.removesuffix("/mcp") in repr(source.settings)
    assert SECRET not in said
    assert "Status" not in str(engine.load_errors), "the name of another library's class"


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("headers", [{"X-Key": "ключ"}, {"X-Key": "a\nb"}, {"X Key": "a"}])
async def test_headers_that_cannot_be_sent(
    engine: ToolEngine, transport: str, headers: dict[str, str]
) -> None:
    async with serving(never) as site:
        source = MCPSource("site", url=site.url, transport=transport, headers=headers)
        await engine.add_source(source)
        assert site.paths == []
    name = next(iter(headers))
    assert f"gives no list: its header {name!r} cannot be sent; write" in str(engine.load_errors)


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("url", ["http://h:port/s3cret", "http://[::1/s3cret", "mailto:s3cret"])
async def test_urls_that_are_none(engine: ToolEngine, transport: str, url: str) -> None:
    source = MCPSource("site", url=url, transport=transport)
    await engine.add_source(source)
    said = f"{engine.load_errors} {source.settings!r}"
    assert "its url is none of a server; write http://" in said
    assert "s3cret" not in said


async def test_no_server_there(engine: ToolEngine) -> None:
    """The reason is said, and nothing is waited for."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        await engine.add_source(MCPSource("site", url=url))
    assert "it cannot be reached" in str(engine.load_errors)
