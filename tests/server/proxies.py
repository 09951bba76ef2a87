"""What stands before servers: a proxy that gives each connection to the next one of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.listening import wait_until_it_listens
from tests.ports import free_port

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"
NGINX: Final = shutil.which("nginx")
START_LIMIT: Final = 20.0


def block_of(name: str) -> str:
    """The block of the page about deployment that is this file."""
    found = PAGE.read_text(encoding="utf-8").split(f"# {name}\n")[1]
    return found.split("```")[0]


@contextlib.asynccontextmanager
async def plain_proxy(urls: Sequence[str]) -> AsyncIterator[str]:
    """Passes on bytes as they come; one connection after the other goes to the next server."""
    places = itertools.cycle([urlsplit(url).netloc.split(":") for url in urls])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(*next(places))
        ways = [
            asyncio.ensure_future(pass_on(reader, inner_writer)),
            asyncio.ensure_future(pass_on(inner_reader, writer)),
        ]
        # Whoever leaves first, the other one hears of it.
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for each in (inner_writer, writer):
            each.transport.abort()
        await asyncio.gather(*ways, return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def nginx_proxy(urls: Sequence[str], folder: Path) -> AsyncIterator[str]:
    """Runs nginx as the page has it, but for ports and certificates."""
    assert NGINX is not None
    port = free_port()
    shown = block_of("/etc/nginx/conf.d/tools.conf")
    for number, url in enumerate(urls):
        shown = shown.replace(f"127.0.0.1:{8930 + number}", urlsplit(url).netloc)
    lines = [each for each in shown.splitlines() if "ssl_" not in each]
    text = "\n".join(lines).replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    own = "".join(
        f"{each}_temp_path {folder}/{each};\n"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path = folder / "nginx.conf"
    path.write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off;\n{own}{text}\n}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        NGINX, "-c", str(path), "-p", str(folder), "-e", str(folder / "error.log")
    )
    try:
        async with asyncio.timeout(START_LIMIT):
            await wait_until_it_listens(process, port, folder / "error.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
