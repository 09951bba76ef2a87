"""Attacks on where an HTTP tool's request goes: forms of private addresses, names, parameters.

Each is sent through the executor, with a server listening that must not hear of it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.http_executor import HTTPExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory

LIMIT = 10.0
LOOPBACK = """
127.0.0.1 127.0.0.2 127.255.255.255 127.1 127.0.1 127.00000.0.1 127.0.0.01 127.0.0.1.
127.0.0.1..
127.1. 2130706433 2130706433. 02130706433 017700000001 0177.0.0.1 0177.1 0177.0.1 00000177.0.0.1
0x7f000001 0x7f000001. 0X7F000001 0x7f.1 0x7f.0.1 0x7f.0.0.1 0x7f.0x0.0x0.0x1 0x0000007f.1
127.0.0.0x1 +127.0.0.1 0x7F.000.0x0.1 6425673729 18446744071562067969 127.0.0.257 127.256.0.1
\uff11\uff12\uff17.0.0.1 127\u30020\u30020\u30021 127\uff0e0\uff0e0\uff0e1
127\uff610\uff610\uff611
\u2460\u2461\u2466.0.0.1 \U0001d7d9\U0001d7da\U0001d7df.0.0.1 \uff11\uff12\uff17\uff0e\uff11
\u2070x7f.1 \u0967\u0968\u096d.0.0.1 127.0.0.1\u200b 127.0.0.1\u00ad
127\u2024\u0030\u2024\u0030\u2024\u0031
localhost LOCALHOST localhost. \uff4cocalhost \u24dbocalhost lo\u00adcalhost l\u200docalhost
loc%61lhost localhost%00 localhost%20 %6c%6f%63%61%6c%68%6f%73%74 %31%32%37.0.0.1
127.0.0.1%00.example 127.0.0.1%2eexample 127%2e0%2e0%2e1 8.8.8.8%40127.0.0.1
8.8.8.8@127.0.0.1 8.8.8.8:80@127.0.0.1 @127.0.0.1 :@127.0.0.1 a:b@localhost
8.8.8.8\\@127.0.0.1 127.0.0.1\\.example
[::1] [0:0:0:0:0:0:0:1] [0000::1] [::0001] [0:0::1] [::1%0] [::1%25lo] [::1%lo]
[::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:127.0.0.1] [0:0:0:0:0:ffff:7f00:0001]
[::ffff:127.0.0.1%25lo] [::127.0.0.1] [::7f00:1] [::ffff:0:127.0.0.1] [::ffff:0:7f00:1]
[64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b:1::7f00:1] [64:ff9b:1:7f00:0:100::]
[64:ff9b:1:ffff:ffff:ffff:7f00:1] [2002:7f00:1::] [2002:7f00:1::1] [2001::7f00:1]
[2001:0:1:2:3:4:80ff:fffe]
[2a00:1450::5efe:7f00:1] [2a00:1450::200:5efe:127.0.0.1] [127.0.0.1] [v1.127.0.0.1]
[::1].example ::1
"""
OTHERS = """
0 0.0 0x0 00 0.0.0.0 0.0.0.1 0.1.2.3 [::] [0:0:0:0:0:0:0:0] [::0.0.0.0] [::ffff:0.0.0.0]
10.0.0.1 10.255.255.255 10.1 0xa.1 012.1 167772161 [::ffff:10.0.0.1] [64:ff9b::a00:1]
[2002:a00:1::]
172.16.0.1 172.31.255.255 172.16.1 0xac.16.1 2886729729 [::ffff:172.16.0.1]
192.168.0.1 192.168.1 0300.0250.1 0xc0a80001 3232235521 [::ffff:192.168.0.1] [2002:c0a8:1::]
100.64.0.1 100.127.255.255 [::ffff:100.64.0.1] 169.254.0.1 169.254.169.254 169.254.43518
0xa9fea9fe 2852039166 025177524776 0251.0376.0251.0376 [::ffff:169.254.169.254]
[::169.254.169.254]
[64:ff9b::169.254.169.254] [64:ff9b:1:a9fe:a9:fe00::] [2002:a9fe:a9fe::] [fd00:ec2::254]
[fd20:ce::254]
100.100.100.200 168.63.129.16 192.0.0.192 [fe80::a9fe:a9fe] [fe80::1] [fe80::1%25eth0]
[fe80::1%eth0]
[fec0::1] [fc00::1] [fd00::1] [fdff:ffff::1] [ff02::1] [ff00::] 192.0.0.1 192.0.2.1 192.88.99.1
198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 4294967295 [100::1] [2001:2::1] [2001:10::1] [2001:20::1] [2001:db8::1]
[3fff::1]
[5f00::1] [3ffe::1] [4000::1] [1::1] [8000::1] [e000::1]
"""
FORMS = [*LOOPBACK.split(), *OTHERS.split()]


class Listener:
    """Counts who connects."""

    def __init__(self) -> None:
        self.heard = 0
        self.port = 0

    def connected(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard += 1
        writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    """Listens on every loopback address there is, on one port."""
    found = Listener()
    server = await asyncio.start_server(found.connected, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    servers = [server]
    if socket.has_dualstack_ipv6():
        servers.append(await asyncio.start_server(found.connected, "::1", found.port))
    yield found
    for each in servers:
        each.close()
        await each.wait_closed()


@pytest.fixture
async def executor() -> AsyncIterator[HTTPExecutor]:
    made = HTTPExecutor()
    yield made
    await made.close()


def tool(entry: dict[str, Any], *parameters: ToolParameter) -> Tool:
    return Tool(
        id="t",
        name="t",
        version="1.0.0",
        description="A sample",
        category=ToolCategory.HTTP,
        tags=[],
        parameters=list(parameters),
        implementation_config=entry,
    )


ANY_URL = tool({"handler": "http_request"}, ToolParameter("url", "string", required=True))


async def refused(executor: HTTPExecutor, url: str, sent: Tool = ANY_URL) -> str:
    async with asyncio.timeout(LIMIT):
        with pytest.raises(ToolExecutionError) as caught:
            await executor.execute(sent, {"url": url}, ToolExecutionContext())
    return str(caught.value)


def test_there_are_many_forms() -> None:
    """Issue 5, 1: at least 120 forms of private addresses."""
    assert len(set(FORMS)) >= 120


@pytest.mark.parametrize("host", FORMS, ids=ascii)
async def test_no_form_of_a_private_address_is_dialled(
    executor: HTTPExecutor, listener: Listener, host: str
) -> None:
    """Issue 5, 1: as the C library would dial it, or not at all: nobody hears of the request."""
    message = await refused(executor, f"http://{host}:{listener.port}/")
    assert "cannot connect" not in message
    assert listener.heard == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]"])
async def test_the_listener_would_hear(
    executor: HTTPExecutor, listener: Listener, host: str
) -> None:
    """The attacks above are real: with the address listed, the same request arrives."""
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    name = {"[::ffff:127.0.0.1]": "[::ffff:7f00:1]"}.get(host, host)
    allowed = tool(
        {"handler": "http_request", "allow": [f"{name}:*", "127.0.0.1:*", "[::1]:*"]},
        ToolParameter("url", "string", required=True),
    )
    message = await refused(executor, f"http://{host}:{listener.port}/", allowed)
    assert "closed the connection" in message
    assert listener.heard >= 1


@pytest.mark.parametrize(
    "value",
    [
        "..", ".", "../admin", "a/../../admin", "%2e%2e", "%2E%2e/admin", "..%2fadmin", "..%5cadm",
        "..;", "..;x=y/admin", ".%3b", " ..", "..\t/x", "..\\admin",
        "a\\..\\..\\admin", ".%2e", "%2e", "a/%2e%2e/b", "",
    ],
)  # fmt: skip
async def test_a_parameter_does_not_climb(
    executor: HTTPExecutor, listener: Listener, value: str
) -> None:
    """A path parameter is one segment: no spelling of `..` leaves it."""
    with pytest.raises(ToolExecutionError, match="parameter"):
        await send(executor, listener, "/users/{x}/notes", value)
    assert listener.heard == 0


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("?admin=1", "/users/%3Fadmin%3D1/notes"),
        ("#x", "/users/%23x/notes"),
        ("a/b", "/users/a%2Fb/notes"),
        ("a\\b", "/users/a%5Cb/notes"),
        ("@evil.example", "/users/%40evil.example/notes"),
        (":80@evil.example/", "/users/%3A80%40evil.example%2F/notes"),
        ("//evil.example", "/users/%2F%2Fevil.example/notes"),
        ("http://evil.example/", "/users/http%3A%2F%2Fevil.example%2F/notes"),
        ("a\r\nX-Evil: 1", "/users/a%0D%0AX-Evil%3A%201/notes"),
        (
            "a HTTP/1.1\r\nHost: evil\r\n\r\nGET /",
            "/users/a%20HTTP%2F1.1%0D%0AHost%3A%20evil%0D%0A%0D%0AGET%20%2F/notes",
        ),
        ("\x00", "/users/%00/notes"),
        ("%", "/users/%25/notes"),
        ("%252e%252e", "/users/%25252e%25252e/notes"),
        ("...", "/users/.../notes"),
        (";a=b", "/users/%3Ba%3Db/notes"),
        ("\u2028", "/users/%E2%80%A8/notes"),
    ],
)  # fmt: skip
async def test_a_parameter_stays_in_its_segment(
    executor: HTTPExecutor, value: str, sent: str
) -> None:
    """Every character that means something in a URL is percent-encoded, as the bytes on the wire
    show."""
    lines: list[str] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.extend((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        done.set()

    async with asyncio.timeout(LIMIT), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        listener = Listener()
        listener.port = server.sockets[0].getsockname()[1]
        await send(executor, listener, "/users/{x}/notes", value)
        await done.wait()
    assert lines[0] == f"GET {sent} HTTP/1.1"
    assert lines[1] == f"Host: 127.0.0.1:{listener.port}"
    assert not any("evil" in line.lower() for line in lines[1:])


@pytest.mark.parametrize("name", ["X-A", "Accept"])
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "\r\n\r\nGET /x"])
async def test_a_parameter_adds_no_header(
    executor: HTTPExecutor, listener: Listener, name: str, value: str
) -> None:
    """A line break in a header's value is refused before anything is dialled."""
    with pytest.raises(ToolExecutionError, match="control character"):
        await send(executor, listener, "/", value, headers={name: "a {x}"})
    assert listener.heard == 0


async def send(
    executor: HTTPExecutor, listener: Listener, path: str, value: str, **request: Any
) -> Any:
    origin = f"127.0.0.1:{listener.port}"
    entry = {"request": {"url": f"http://{origin}{path}", **request}, "allow": [origin]}
    declared = tool(entry, ToolParameter("x", "string", required=True))
    async with asyncio.timeout(LIMIT):
        return await executor.execute(declared, {"x": value}, ToolExecutionContext())
