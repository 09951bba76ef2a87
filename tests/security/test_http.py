"""Can a hostile parameter, page or server turn the HTTP tools against their owner?

Every test is an attack that runs over real sockets on the loopback address. `victim` is a service
beside the engine that no call may reach; it counts connections, not requests.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import socket
import ssl
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.effort import IS_WHOLE
from tests.security.heartbeat import assert_beats_on
from tool_engine import (
    ConcurrencyConfig,
    Tool,
    ToolCategory,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolParameter,
)
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.addresses import METADATA_ADDRESSES, AddressRefusedError, AllowList
from tool_engine.executors.http.connector import GuardedConnector, GuardedResolver
from tool_engine.executors.http.http_executor import HTTPExecutor

LIMIT = 30.0
"""Seconds after which a wait in a test has failed."""
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
GOODBYE = HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
TOKEN = "t0p-secret-token"
brotli: Any = import_module("brotli")

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Speaks whatever a test says, and remembers who came and what was asked."""

    def __init__(self, talk: Talk | bytes = HELLO) -> None:
        self.talk = talk
        self.connections = 0
        self.requests: list[bytes] = []
        self.port = 0
        self.is_left = asyncio.Event()
        self.visits: set[Any] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.visits.add(asyncio.current_task())
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                if callable(self.talk):
                    await self.talk(reader, writer)
                    break
                writer.write(self.talk)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # gone, or the test is over
        finally:
            self.is_left.set()
            writer.close()

    async def leave(self) -> None:
        """Ends all talks."""
        for visit in self.visits:
            visit.cancel()
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*self.visits, return_exceptions=True)

    def redirect(self, location: str, status: int = 302) -> None:
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        self.talk = head.encode()


@asynccontextmanager
async def listening(server: Server, hosts: Any = "127.0.0.1", **kwargs: Any) -> AsyncIterator[Any]:
    listener = await asyncio.start_server(server, hosts, 0, **kwargs)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.leave()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening(Server()) as found:
        yield found


@pytest.fixture
async def victim() -> AsyncIterator[Server]:
    """Listens on every address of the machine."""
    async with listening(Server(), "0.0.0.0") as found:  # noqa: S104 - all of its own addresses
        yield found


@pytest.fixture
async def executor() -> AsyncIterator[HTTPExecutor]:
    executor = HTTPExecutor()
    yield executor
    await executor.close()


def make(entry: dict[str, Any], name: str = "attacked") -> Tool:
    return Tool(
        id=name,
        name=name,
        version="1.0.0",
        description="A tool under attack",
        category=ToolCategory.HTTP,
        tags=[],
        parameters=[],
        implementation_config=entry,
    )


async def request(
    executor: HTTPExecutor, url: str, allow: list[str] | None = None, **params: Any
) -> Any:
    """`http_request`, whose every parameter the model chooses."""
    tool = make({"handler": "http_request", "allow": allow or []})
    tool.parameters.append(_parameter("url"))
    async with asyncio.timeout(LIMIT):
        return await executor.execute(tool, {"url": url, **params}, ToolExecutionContext())


async def declared(executor: HTTPExecutor, url: str, **request: Any) -> Any:
    """A tool whose author wrote the URL."""
    response = request.pop("response", None)
    entry = {"request": {"url": url, **request}, "allow": ["127.0.0.1:*"]}
    tool = make(entry if response is None else entry | {"response": response})
    async with asyncio.timeout(LIMIT):
        return await executor.execute(tool, {}, ToolExecutionContext())


def _parameter(name: str) -> ToolParameter:
    return ToolParameter(name, "string", required=True)


SPELLINGS = (
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.000.000.001",
    "0127.0.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "0X7F000001",
    "2130706433",
    "017700000001",
    "127.0.0.1.",
    "127.0.0.2",
    "127.255.255.254",
    "0",
    "0.0.0.0",  # noqa: S104 - dialled, not bound
    "0x0",
    "00",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::80ff:fffe]",
    "[fe80::5efe:127.0.0.1]",
    "[2a00::5efe:7f00:1]",
    "[::1%25lo]",
    "[fe80::1%25eth0]",
    "[fe80::1]",
    "[fc00::1]",
    "[ff02::1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost%2e",
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
    "\u2460\u2461\u2466.0.0.1",
    "127\u30020\u30020\u30021",
    "127.0.0.1%00.example.com",
    "example.com@127.0.0.1",
    "127.0.0.1#@example.com",
    "example.com\\@127.0.0.1",
    "127.0.0.1\t",
    " 127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "",
)


@pytest.mark.parametrize("host", SPELLINGS)
async def test_address_forms(executor: HTTPExecutor, victim: Server, host: str) -> None:
    """No spelling of an address of this machine or its networks is dialled."""
    for url in (f"http://{host}:{victim.port}/", f"http://{host}:{victim.port}@/"):
        with pytest.raises(ToolExecutionError):
            await request(executor, url)
    assert victim.connections == 0


async def test_own_name(executor: HTTPExecutor, victim: Server) -> None:
    """The name of this machine leads to one of its own addresses."""
    with pytest.raises(ToolExecutionError):
        await request(executor, f"http://{socket.gethostname()}:{victim.port}/")
    assert victim.connections == 0


@pytest.mark.parametrize("address", sorted(map(str, METADATA_ADDRESSES)))
async def test_metadata_services(executor: HTTPExecutor, address: str) -> None:
    """The services that give credentials to whoever asks are not asked, by address or by name."""
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(AddressRefusedError, match="metadata"):
        await request(executor, f"http://{host}/latest/meta-data/", ["metadata.corp.example:80"])
    named = Named({"metadata.corp.example": [[address]]})
    with pytest.raises(AddressRefusedError, match="metadata"):
        await request(named, "http://metadata.corp.example/", ["metadata.corp.example:80"])
    await named.close()


class Named(HTTPExecutor):
    """Resolves names as an attacker's name server does: each time to the next answer."""

    def __init__(self, answers: dict[str, list[list[str]]], context: Any = True) -> None:
        super().__init__()
        self.answers = answers
        self.context = context

    def _make_connector(self, allow: AllowList) -> aiohttp.BaseConnector:
        resolver = GuardedResolver(allow, _Answers(self.answers))
        return GuardedConnector(resolver, use_dns_cache=False, ssl=self.context)


class _Answers(AbstractResolver):
    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self.answers = answers

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answers = self.answers[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in found
        ]

    async def close(self) -> None:
        """Nothing is held."""


async def test_rebinding(server: Server) -> None:
    """A name that is good once and leads to the victim afterwards gets to it at no time.

    127.0.0.1 stands for a public address, 127.0.0.2 for one that is not open.
    """
    name = "rebind.example"
    victim = Server()
    listener = await asyncio.start_server(victim, "127.0.0.2", server.port)
    executor = Named({name: [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"]]})
    url, allow = f"http://{name}:{server.port}/", [f"127.0.0.1:{server.port}"]
    # The connection ends with each answer, or the name would not be looked up again.
    server.talk = GOODBYE
    assert (await request(executor, url, allow))["body"] == "hello"
    with pytest.raises(AddressRefusedError):
        await request(executor, url, allow)
    assert (await request(executor, url, allow))["body"] == "hello"
    # Only the other address is left to try: none is tried.
    executor.answers[name] = [["127.0.0.1", "127.0.0.2"]]
    with pytest.raises(AddressRefusedError):
        await request(executor, url)
    assert victim.connections == 0
    listener.close()
    await executor.close()


async def test_rebinding_in_a_redirect(server: Server, victim: Server) -> None:
    """Each redirect is looked up and checked anew."""
    executor = Named({"a.example": [["127.0.0.1"], ["127.0.0.3"]]})
    server.redirect(f"http://a.example:{victim.port}/")
    allow = [f"127.0.0.1:{server.port}"]
    with pytest.raises(AddressRefusedError):
        await request(executor, f"http://a.example:{server.port}/", allow)
    assert (server.connections, victim.connections) == (1, 0)
    await executor.close()


REDIRECTS = (
    "http://127.0.0.1:{victim}/",
    "//127.0.0.1:{victim}/",
    "http://localhost:{victim}/",
    "http://[::ffff:127.0.0.1]:{victim}/",
    "http://0x7f.1:{victim}/",
    "http://2130706433:{victim}/",
    "http://127.0.0.1.:{victim}/",
    "http:\\\\127.0.0.1:{victim}\\",
    "http://x@127.0.0.1:{victim}/",
    "http://169.254.169.254/latest/meta-data/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:{victim}/",
    "gopher://127.0.0.1:{victim}/_GET",
    "javascript:alert(1)",
    "data:text/plain,hello",
    "unix:///var/run/docker.sock",
    "http://",
    "http://:{victim}/",
    "http://a b:{victim}/",
    "http://127.0.0.1:0/",
    "http://[::1]:{victim}@/",
    "//[::1]@/",
)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", REDIRECTS)
async def test_redirect_to_a_private_place(
    executor: HTTPExecutor, server: Server, victim: Server, location: str, status: int
) -> None:
    """A redirect leads nowhere that the first URL may not lead, and to no other kind of URL."""
    server.redirect(location.format(victim=victim.port), status)
    with pytest.raises(ToolExecutionError):
        await request(executor, server.url, [f"127.0.0.1:{server.port}"])
    assert victim.connections == 0


async def test_redirects_without_end(executor: HTTPExecutor, server: Server) -> None:
    """Five redirects are followed, not six."""
    server.redirect("/again")
    with pytest.raises(ToolExecutionError, match="redirected more than 5 times"):
        await request(executor, server.url, ["127.0.0.1:*"])
    assert len(server.requests) == 6


async def test_redirect_out_of_https(certificate: tuple[str, str], server: Server) -> None:
    """What was sent encrypted is not sent again in clear."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    secure = Server()
    executor = Named(
        {"localhost": [["127.0.0.1"]]}, ssl.create_default_context(cafile=certificate[0])
    )
    async with listening(secure, ssl=context):
        secure.redirect(f"http://127.0.0.1:{server.port}/")
        with pytest.raises(ToolExecutionError, match="from https to http, which is refused"):
            await request(executor, f"https://localhost:{secure.port}/", ["127.0.0.1:*"])
    assert (len(secure.requests), server.connections) == (1, 0)
    await executor.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost that nobody has signed, and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-out", paths[0], "-keyout", paths[1], *subject]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
    return paths


async def test_a_certificate_that_nobody_signed(
    executor: HTTPExecutor, certificate: tuple[str, str]
) -> None:
    """Certificates are checked: who stands in the way gets no request."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    server = Server()
    async with listening(server, ssl=context):
        with pytest.raises(ToolExecutionError, match=r"certificate of .* is not trusted"):
            await request(executor, f"https://127.0.0.1:{server.port}/", ["127.0.0.1:*"])
    assert server.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_credentials_stay_with_their_host(
    executor: HTTPExecutor,
    server: Server,
    victim: Server,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A redirect carries no credential to another origin, whichever header it is in."""
    monkeypatch.setenv("ATTACKED_KEY", TOKEN)
    server.redirect(f"http://127.0.0.1:{victim.port}/steal", status)
    names = (
        "Authorization",
        "Cookie",
        "X-Api-Key",
        "Api-Key",
        "X-Auth-Token",
        "X-Amz-Security-Token",
    )
    await request(
        executor,
        server.url,
        ["127.0.0.1:*"],
        method="POST",
        headers=dict.fromkeys(names, TOKEN) | {"X-Other": "stays"},
    )
    assert server.requests[0].count(TOKEN.encode()) == len(names)
    assert TOKEN.encode() not in victim.requests[0]
    assert b"X-Other: stays" in victim.requests[0]
    # A header of any name that takes a secret of the definition stays too.
    headers = {"X-Anything": "${env:ATTACKED_KEY}", "Accept": "a/${env:ATTACKED_KEY}"}
    await declared(executor, server.url, headers=headers)
    assert TOKEN.encode() in server.requests[1]
    assert TOKEN.encode() not in b"".join(victim.requests)


async def test_credentials_do_not_come_back(
    executor: HTTPExecutor, server: Server, victim: Server
) -> None:
    """Once away, a request is a stranger's, also to the host that it began at."""
    steps = iter((f"http://127.0.0.1:{victim.port}/", "/nothing"))

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        location = next(steps)
        if location == "/nothing":
            writer.write(HELLO)
        else:
            writer.write(f"HTTP/1.1 302 Go\r\nLocation: {location}\r\n\r\n".encode())

    server.talk = talk
    victim.redirect(f"{server.url}/steal")
    await request(executor, server.url, ["127.0.0.1:*"], headers={"Authorization": TOKEN})
    assert TOKEN.encode() in server.requests[0]
    assert TOKEN.encode() not in victim.requests[0]
    assert TOKEN.encode() not in server.requests[1]


async def test_cookies_are_not_kept(executor: HTTPExecutor, server: Server) -> None:
    """What one answer sets goes into no other request, not even the next of a redirect."""
    server.talk = (
        b"HTTP/1.1 302 Go\r\nSet-Cookie: a=1; Path=/\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
    )
    with pytest.raises(ToolExecutionError):
        await request(executor, server.url, ["127.0.0.1:*"])
    assert len(server.requests) == 6
    assert not any(b"cookie" in each.lower() for each in server.requests)


INJECTIONS = (
    "a\r\nX-Evil: 1",
    "a\nX-Evil: 1",
    "a\rX-Evil: 1",
    "a\r\n\r\nGET /evil HTTP/1.1\r\n",
    "\0",
)


@pytest.mark.parametrize("evil", INJECTIONS)
async def test_header_injection(executor: HTTPExecutor, server: Server, evil: str) -> None:
    """No value gets a second header or request onto the wire."""
    allow = ["127.0.0.1:*"]
    attacks: list[dict[str, Any]] = [
        {"headers": {"X-Good": evil}},
        {"headers": {evil: "x"}},
        {"headers": {"Host": "evil.example"}},
        {"headers": {"Transfer-Encoding": "chunked"}, "method": "POST", "body": {"a": 1}},
        {"headers": {"Content-Length": "0"}, "method": "POST", "body": {"a": 1}},
        {"headers": {"X Good": "x"}},
        {"method": f"GET / HTTP/1.1\r\nX-Evil: 1\r\n{evil}"},
        {"method": "CONNECT"},
    ]
    for attack in attacks:
        with pytest.raises(ToolExecutionError):
            await request(executor, server.url, allow, **attack)
    with pytest.raises(ToolExecutionError):
        await request(executor, f"{server.url}/{evil}", allow)
    assert server.requests == []
    planned = {"url": server.url + "/{a}", "query": {"q": "{a}"}, "json": {"x": "{a}"}}
    tool = make({"request": planned | {"method": "POST"}, "allow": allow})
    tool.parameters.append(_parameter("a"))
    async with asyncio.timeout(LIMIT):
        await executor.execute(tool, {"a": evil}, ToolExecutionContext())
    head = server.requests[0]
    assert head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r")
    assert b"\r\nX-Evil" not in head
    assert len(server.requests) == 1


async def test_an_answer_for_the_next_call(executor: HTTPExecutor, server: Server) -> None:
    """A server that sends two answers at once does not answer the next call with the second."""
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    server.talk = HELLO + evil
    assert (await request(executor, server.url, ["127.0.0.1:*"]))["body"] == "hello"
    server.talk = HELLO
    for _ in range(3):
        assert (await request(executor, server.url, ["127.0.0.1:*"]))["body"] == "hello"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_proxy_of_the_environment(
    executor: HTTPExecutor,
    server: Server,
    victim: Server,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy would dial what it likes: none is used, whoever has set it."""
    monkeypatch.setenv(name, victim.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await request(executor, server.url, ["127.0.0.1:*"]))["body"] == "hello"
    assert victim.connections == 0


# Answers that are more than they seem.


def zeros(encoding: str) -> tuple[bytes, bytes]:
    """The beginning of a bomb, and what may follow it any number of times: 10 MB of zeros each."""
    block = b"\0" * 10_000_000
    if encoding == "br":
        brotler = brotli.Compressor()
        return brotler.process(block) + brotler.flush(), brotler.process(block) + brotler.flush()
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    return (
        packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH),
        packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH),
    )


def bomb(encoding: str, times: int = 1000) -> Talk:
    """10 MB, or much less, that stand for 10 GB."""
    first, more = zeros(encoding)

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + first)
        for _ in range(times):
            writer.write(more)
            await writer.drain()

    return talk


ENCODINGS = ("gzip", "deflate", "br")

_CLIENT = """
import asyncio, resource, sys
from tool_engine import Tool, ToolCategory, ToolExecutionContext
from tool_engine.executors.http.http_executor import HTTPExecutor

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main(url, max_bytes, response):
    executor = HTTPExecutor()

    async def call(path):
        request = {"url": url + path, "max_bytes": int(max_bytes)}
        entry = {"request": request, "allow": ["127.0.0.1:*"]}
        if response and path != "/hello":
            entry["response"] = {"save_to": {"root": response, "path": "file"}}
        tool = Tool("t", "t", "1.0.0", "t", ToolCategory.HTTP, [], [], entry)
        return await executor.execute(tool, {}, ToolExecutionContext())

    await call("/hello")
    before = peak()
    try:
        await call("/bomb")
    except Exception as error:
        print(peak() - before, error)
    await executor.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.thinned(3)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("is_saved", [False, True])
async def test_memory_of_a_bomb(
    server: Server, encoding: str, is_saved: bool, tmp_path: Path
) -> None:
    """10 MB that stand for 10 GB need less than 50 MB, in memory or on their way to a file."""
    explode = bomb(encoding)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/bomb" in server.requests[-1]:
            await explode(reader, writer)
        else:
            writer.write(GOODBYE)

    server.talk = talk
    most_saved = 200_000_000 if IS_WHOLE else 80_000_000
    max_bytes = most_saved if is_saved else 5_000_000
    arguments = [server.url, str(max_bytes), str(tmp_path) if is_saved else ""]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CLIENT, *arguments, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(LIMIT):
        said, _ = await process.communicate()
    growth, _, message = said.decode().partition(" ")
    assert f"larger than {max_bytes} bytes" in message
    assert int(growth) < 50_000_000
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - no more than the test's own folder


def plain(body: bytes, content_type: str = "text/html", extra: str = "") -> Talk:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{extra}"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    return talk


def endless(head: bytes, piece: bytes) -> Talk:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    return talk


OK = b"HTTP/1.1 200 OK\r\n"
JSON = "application/json"
ATTACKS: dict[str, Callable[[], Talk]] = {
    "gzip": lambda: bomb("gzip"),
    "deflate": lambda: bomb("deflate"),
    "br": lambda: bomb("br"),
    "gzip in gzip": lambda: plain(
        gzip.compress(gzip.compress(b"\0" * 50_000_000)),
        extra="Content-Encoding: gzip, gzip\r\n",
    ),
    "empty gzip members": lambda: endless(
        OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"") * 5000
    ),
    "gzip that stands for nothing": lambda: endless(
        OK
        + b"Content-Encoding: gzip\r\n\r\n"
        + zlib.compressobj(9, zlib.DEFLATED, 31).flush()[:10],
        b"\0\0\0\xff\xff" * 50_000,
    ),
    "lists": lambda: plain(b"[" + b"[]," * 1_700_000 + b"[]]", JSON),
    "objects": lambda: plain(b"[" + b"{}," * 190_000 + b"{}]", JSON),
    "keys": lambda: plain(b"{" + b'"":1,' * 1_000_000 + b'"":1}', JSON),
    "deep": lambda: plain(b"[" * 5_000_000, JSON),
    "no text": lambda: plain(b"\x81" * 5_000_000),
    "no utf-16": lambda: plain(b"\x00\xd8" * 2_500_000, "text/plain; charset=utf-16"),
    "one-byte chunks": lambda: endless(
        OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 20_000
    ),
    "early hints without end": lambda: endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 5000),
    "continue without end": lambda: endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 5000),
    "a header without end": lambda: endless(OK + b"X-A: ", b"a" * 100_000),
    "headers without end": lambda: endless(OK, b"X-A: b\r\n" * 20_000),
    "a chunk's header without end": lambda: endless(
        OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 100_000
    ),
    "trailers without end": lambda: endless(
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: b\r\n" * 20_000
    ),
    "a status line without end": lambda: endless(b"HTTP/1.1 200 ", b"a" * 100_000),
    "links": lambda: plain(b"[]", JSON, "".join(f"Link: {'<a>,' * 2000}\r\n" for _ in range(100))),
}


@pytest.mark.beats
@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_heart_goes_on_beating(
    executor: HTTPExecutor, server: Server, attack: str
) -> None:
    """No answer holds up the other calls of the process for more than 100 ms."""
    talk = ATTACKS[attack]()
    server.talk = talk
    response = {"pages": {"next": "link"}} if attack == "links" else None

    async def call() -> None:
        try:
            async with asyncio.timeout(0.5 if IS_WHOLE else 0.25):
                await declared(executor, server.url, response=response)
        except (ToolExecutionError, TimeoutError):
            pass  # what it ends with is the matter of other tests

    await assert_beats_on(call)


# Servers that are slow, broken or down, as a user of the whole engine meets them.

_DEFINITION = """
name: fetch
description: Reads something.
category: http
effect: read
concurrency: {breaker: {failures: 3, reset_after: 60}}
entry:
  type: http
  request: {url: "%s/thing"}
  allow: ["127.0.0.1:*"]
"""


@pytest.fixture
async def engine(tmp_path: Path, server: Server) -> AsyncIterator[ToolEngine]:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "fetch.yaml").write_text(_DEFINITION % server.url)
    config = ToolEngineConfig(
        tools_directory=str(tmp_path / "tools"), auto_reload=False, cache_directory=None
    )
    async with ToolEngine(config, concurrency=ConcurrencyConfig()) as engine:
        yield engine


async def call(engine: ToolEngine, seconds: float = LIMIT) -> ToolExecutionResult:
    return await engine.execute("fetch", {}, ToolExecutionContext(timeout=seconds))


DRIPS = {
    "nothing": (b"", b""),
    "a status line": (b"HTTP/1.1 200 ", b"O"),
    "headers": (OK, b"X-A: b\r\n"),
    "a header": (OK + b"X-A: ", b"b"),
    "a body": (OK + b"Content-Length: 1000000\r\n\r\n", b"b"),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nb\r\n"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "gzip": (
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10],
        b"\0\0\0\xff\xff",
    ),
}


@pytest.mark.parametrize("drip", DRIPS)
async def test_a_server_that_drips(engine: ToolEngine, server: Server, drip: str) -> None:
    """Something arrives again and again, but the answer never ends: the call ends in time."""
    head, piece = DRIPS[drip]

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)

    server.talk = talk
    async with asyncio.timeout(LIMIT):
        result = await call(engine, 0.2)
        assert result.error_type == "timeout"
        if piece:
            await server.is_left.wait()


async def test_redirects_share_one_deadline(engine: ToolEngine, server: Server) -> None:
    """A server that is slow at each step gains nothing by having many of them."""

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(b"HTTP/1.1 302 Go\r\nLocation: /again\r\nConnection: close\r\n\r\n")

    server.talk = talk
    async with asyncio.timeout(LIMIT):
        result = await call(engine, 0.4)
    assert result.error_type == "timeout"
    assert len(server.requests) <= 3


async def test_a_pause_that_is_asked_for(engine: ToolEngine, server: Server) -> None:
    """503 with Retry-After: nothing of the bucket is sent until the pause is over."""
    server.talk = b"HTTP/1.1 503 Busy\r\nRetry-After: 40\r\nContent-Length: 0\r\n\r\n"
    async with asyncio.timeout(LIMIT):
        first = await call(engine)
        assert first.error_type == "execution_error"
        assert "answered 503" in str(first.error)
        assert 38 < engine.controller.snapshot().buckets["http"]["paused_for"] <= 40
        waiting = asyncio.create_task(call(engine, 20))
        while not engine.controller.get_bucket_metrics()["http"]["queue"]:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0)
        assert len(server.requests) == 1
        server.talk = HELLO
        engine.controller.pause_bucket("http", 0)
        assert (await waiting).output == {"result": "hello"}


async def test_a_pause_without_end(engine: ToolEngine, server: Server) -> None:
    """A server cannot shut a bucket for as long as it likes."""
    server.talk = b"HTTP/1.1 503 Busy\r\nRetry-After: 99999999999\r\nContent-Length: 0\r\n\r\n"
    async with asyncio.timeout(LIMIT):
        await call(engine)
    assert engine.controller.snapshot().buckets["http"]["paused_for"] <= 60


@pytest.mark.parametrize("fault", [b"", b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"])
async def test_a_broken_host(engine: ToolEngine, server: Server, fault: bytes) -> None:
    """After three failures in a row the host is left alone."""

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(fault)

    server.talk = talk
    async with asyncio.timeout(LIMIT):
        errors = [(await call(engine)).error_type for _ in range(6)]
    assert errors == ["execution_error"] * 3 + ["circuit_open"] * 3
    # What only reads is sent a second time where the server hangs up on it.
    assert len(server.requests) == (3 if fault else 6)


async def test_a_host_that_is_down(engine: ToolEngine, tmp_path: Path) -> None:
    """A connection that is refused counts like an answer that is a failure."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        (tmp_path / "tools" / "fetch.yaml").write_text(_DEFINITION % url)
        async with asyncio.timeout(LIMIT):
            await engine.reload()
            errors = [(await call(engine)).error_type for _ in range(4)]
    assert errors == ["execution_error"] * 3 + ["circuit_open"]
