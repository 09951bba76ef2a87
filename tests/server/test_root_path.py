"""Does everything work below the path of a proxy, whether that cuts the path off or not?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from yarl import URL

from tests.server.conftest import BOUND, Client, served, write_tokens
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.server import create_app

ROOT = "/inner/tools"


@contextlib.asynccontextmanager
async def path_proxy(url: str, root: str, *, is_cut: bool) -> AsyncIterator[str]:
    """Passes on requests below a path, and answers 404 to all others."""
    host, port = urlsplit(url).netloc.split(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            method, target, version = head[0].split(b" ")
            own = root.encode()
            if not target.startswith(own + b"/"):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            else:
                if is_cut:
                    target = target.removeprefix(own)
                kept = [each for each in head[1:-2] if not each.lower().startswith(b"connection:")]
                lines = [b" ".join([method, target, version]), *kept, b"connection: close"]
                inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
                inner_writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
                sizes = [each for each in kept if each.lower().startswith(b"content-length:")]
                if sizes:
                    inner_writer.write(await reader.readexactly(int(sizes[0].split(b":")[1])))
                while data := await inner_reader.read(65_536):
                    writer.write(data)
                    await writer.drain()
                inner_writer.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture(params=[True, False], ids=["cut", "left"])
async def outside(
    request: pytest.FixtureRequest, engine: ToolEngine, tmp_path: Path
) -> AsyncIterator[tuple[str, str]]:
    """The address of the proxy, and of the link to the studio below it."""
    tokens = str(write_tokens(tmp_path / "tokens.yaml"))
    app = await asyncio.to_thread(
        create_app, engine, auth=tokens, mcp=True, studio=True, root_path=ROOT
    )
    async with served(app) as service, path_proxy(service.url, ROOT, is_cut=request.param) as url:
        yield url, f"{url}{ROOT}{app.studio.make_link()}"


async def test_the_api_below_a_path(outside: tuple[str, str]) -> None:
    """The description names the path, and a Location leads to what it names."""
    url, _ = outside
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        client = Client(http, url, "ann")
        described = (await client.get(f"{ROOT}/openapi.json")).json
        assert described["servers"] == [{"url": ROOT}]
        started = await client.send(
            "POST",
            f"{ROOT}/v1/tools/add/calls",
            headers={"prefer": "respond-async"},
            json={"arguments": {"a": 1, "b": 2}},
        )
        assert started.status == 202
        where = started.headers["location"]
        assert where.startswith(f"{ROOT}/v1/tasks/")
        assert (await client.get(f"{where}?wait=10")).json["result"]["output"]["result"] == 3
        assert (await client.get("/v1/tools")).status == 404  # of the proxy


async def test_mcp_below_a_path(outside: tuple[str, str]) -> None:
    """What answers there is the server of MCP: it says what is wrong in its own words."""
    url, _ = outside
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        client = Client(http, url, "ann")
        accept = {"accept": "application/json, text/event-stream"}
        answer = await client.send("POST", f"{ROOT}/mcp", headers=accept, json={"jsonrpc": "1"})
        assert answer.status == 400
        assert answer.json["jsonrpc"] == "2.0"


async def test_the_studio_below_a_path(outside: tuple[str, str]) -> None:
    """Signing in leads below the path, the cookie is good there alone, and each link works."""
    url, link = outside
    jar = aiohttp.CookieJar(unsafe=True)
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        asyncio.timeout(BOUND),
        aiohttp.ClientSession(cookie_jar=jar, connector=connector) as http,
    ):
        async with http.get(f"{url}{ROOT}/studio/tools", allow_redirects=False) as moved:
            assert moved.headers["location"] == f"{ROOT}/studio/sign-in?next=%2Ftools"
        said = {"accept": "text/html"}
        async with http.get(f"{url}{ROOT}/", headers=said, allow_redirects=False) as moved:
            assert moved.headers["location"] == f"{ROOT}/studio/"
        async with http.get(link) as page:
            text = await page.text()
        async with http.post(
            f"{url}{ROOT}/studio/sign-in",
            data={"token": "token-of-olga"},
            headers={"origin": url, "sec-fetch-site": "same-origin"},
            allow_redirects=False,
        ) as moved:
            assert (moved.status, moved.headers["location"]) == (303, f"{ROOT}/studio/")
            assert f"Path={ROOT}/studio;" in moved.headers["set-cookie"]
        async with http.get(f"{url}{ROOT}/studio/") as page:
            assert page.status == 200
            text = await page.text()
        links = {part.split('"')[0] for part in text.replace('src="', 'href="').split('href="')[1:]}
        assert len(links) > 5
        for each in links:
            if each.startswith("/"):
                assert each.startswith(f"{ROOT}/studio"), each
                async with http.get(URL(url + each, encoded=True)) as found:
                    assert found.status == 200, each


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("tools", "must be a path such as '/tools'"),
        ("/tools/", "without a slash at its end"),
        ("/to ols", "of letters, digits"),
        ("/a;Path=/", "of letters, digits"),
        ("//evil.example", "of letters, digits"),
        ("/v1", "begins as paths of the server itself do"),
        ("/studio/x", "begins as paths of the server itself do"),
        ("/../x", "has dots as a part"),
        (None, "must be a path such as '/tools'"),
    ],
)
async def test_what_is_no_path(engine: ToolEngine, root: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        create_app(engine, root_path=root)
