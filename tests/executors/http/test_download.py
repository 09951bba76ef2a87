"""Answers that are written to a file, and everything that leaves none."""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http import download as http_download
from tool_engine.executors.http.http_entry import compile_entry
from tool_engine.executors.secrets import SecretScope
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

LIMIT = 10.0
DATA = os.urandom(1_000_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def tool(run: Any, site: Any, root: Path) -> Callable[..., Tool]:
    """A tool that saves what the site answers; keywords change its `save_to`."""

    def make(request: dict[str, Any] | None = None, **save_to: Any) -> Tool:
        entry = {
            "request": {"url": site.url + "/file", **(request or {})},
            "response": {"save_to": {"root": str(root), "path": "{name}", **save_to}},
            "allow": run.allow,
        }
        made: Tool = run.make(entry, "name")
        return made

    return make


@pytest.fixture
def serve(site: Any) -> Callable[..., None]:
    def put(data: bytes = DATA, **kwargs: Any) -> None:
        async def answer(_request: web.Request) -> web.Response:
            return web.Response(body=data, **kwargs)

        site.answer = answer

    return put


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


async def test_a_file(run: Any, site: Any, serve: Any, tool: Any, root: Path) -> None:
    """The body is the file; the result says where it is and what it is."""
    serve(content_type="application/pdf")
    assert await run.execute(tool(), {"name": "a b.pdf"}) == {
        "path": "a b.pdf",
        "size": len(DATA),
        "sha256": hashlib.sha256(DATA).hexdigest(),
        "content_type": "application/pdf",
    }
    assert files(root) == {"a b.pdf": DATA}
    assert site.requests[0].headers["Accept-Encoding"] == "identity"


async def test_the_name_is_never_the_servers(run: Any, serve: Any, tool: Any, root: Path) -> None:
    """`Content-Disposition` names nothing."""
    header = {"Content-Disposition": 'attachment; filename="../../evil.sh"'}
    serve(b"x", headers=header)
    await run.execute(tool(), {"name": "mine"})
    assert files(root) == {"mine": b"x"}


async def test_a_file_that_is_there(run: Any, site: Any, serve: Any, tool: Any, root: Path) -> None:
    """It is left as it is, and nothing is asked of the server; unless the definition says so."""
    (root / "a").write_bytes(b"old")
    (root / "a").chmod(0o640)
    serve()
    with pytest.raises(ToolExecutionError, match="'a' exists already"):
        await run.execute(tool(), {"name": "a"})
    assert (files(root), site.requests) == ({"a": b"old"}, [])
    await run.execute(tool(create_only=False), {"name": "a"})
    assert files(root) == {"a": DATA}
    assert (root / "a").stat().st_mode & 0o777 == 0o640


async def test_a_file_that_appears_meanwhile(run: Any, site: Any, tool: Any, root: Path) -> None:
    """Of two that write one file, the second one is refused, and the first one's stays."""

    async def answer(_request: web.Request) -> web.Response:
        (root / "a").write_bytes(b"first")
        return web.Response(body=DATA)

    site.answer = answer
    with pytest.raises(ToolExecutionError, match="'a' was changed by another program"):
        await run.execute(tool(), {"name": "a"})
    assert files(root) == {"a": b"first"}


async def test_folders(run: Any, serve: Any, tool: Any, root: Path) -> None:
    """Folders are made only where the definition says so."""
    serve(b"x")
    with pytest.raises(ToolExecutionError, match="does not exist"):
        await run.execute(tool(), {"name": "new/a"})
    await run.execute(tool(create_folders=True), {"name": "new/a"})
    assert files(root) == {"new/a": b"x"}


@pytest.mark.parametrize("name", ["../a", "/etc/a", "link/a", "..", "", "a\0b", ".git/hooks/x"])
async def test_paths(run: Any, site: Any, tool: Any, root: Path, tmp_path: Path, name: str) -> None:
    """A path leads nowhere but below the root, and is checked before anything is sent."""
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(ToolExecutionError):
        await run.execute(tool(create_folders=True), {"name": name})
    assert site.requests == []
    assert sorted(files(tmp_path)) == []


async def test_no_success(run: Any, site: Any, tool: Any, serve: Any, root: Path) -> None:
    """The page that tells of an error is not what was asked for."""
    serve(b"no such file", status=404)
    with pytest.raises(ToolExecutionError, match="answered 404 Not Found: no such file"):
        await run.execute(tool(), {"name": "a"})
    assert files(root) == {}


async def test_too_large(run: Any, serve: Any, tool: Any, root: Path) -> None:
    """The limit holds while it is written, and for what it decodes to."""
    serve()
    with pytest.raises(ToolExecutionError, match="larger than 999999 bytes"):
        await run.execute(tool({"max_bytes": 999_999}), {"name": "a"})
    serve(gzip.compress(b"\0" * 20_000_000), headers={"Content-Encoding": "gzip"})
    with pytest.raises(ToolExecutionError, match="larger than 5242880 bytes"):
        await run.execute(tool(), {"name": "a"})
    assert files(root) == {}


async def test_encoded(run: Any, serve: Any, tool: Any, root: Path) -> None:
    """What is packed all the same is unpacked."""
    serve(gzip.compress(DATA), headers={"Content-Encoding": "gzip"})
    assert (await run.execute(tool(), {"name": "a"}))["size"] == len(DATA)
    assert files(root) == {"a": DATA}


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 524288\r\nContent-Encoding: gzip\r\n\r\n",
    ],
)
async def test_cut_off(run: Any, tool: Any, root: Path, head: bytes) -> None:
    """A body that ends too soon leaves no file."""
    body = gzip.compress(DATA)[:524288] if b"gzip" in head else DATA[:524288]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ToolExecutionError, match="is cut off"):
            await run.execute(tool({"url": f"http://127.0.0.1:{port}/"}), {"name": "a"})
    assert files(root) == {}


async def test_cut_off_by_a_reset(run: Any, tool: Any, root: Path) -> None:
    """A body without length that ends with a reset leaves no file."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + DATA)
        await writer.drain()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ToolExecutionError, match=r"is cut off|closed the connection"):
            await run.execute(tool({"url": f"http://127.0.0.1:{port}/"}), {"name": "a"})
    assert files(root) == {}


async def test_cancelled(run: Any, site: Any, tool: Any, root: Path) -> None:
    """A call that is cancelled in the middle leaves nothing: neither file nor descriptor."""
    written = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(DATA)
        written.set()
        await asyncio.Event().wait()
        return response

    site.answer = answer
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - the descriptors of this process
    task = asyncio.create_task(run.execute(tool(), {"name": "a"}))
    async with asyncio.timeout(LIMIT):
        await written.wait()
        while not (found := files(root)):  # noqa: ASYNC110 - written by a thread
            await asyncio.sleep(0)
        assert list(found) != ["a"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert files(root) == {}
    await run.executor.close()
    assert len(os.listdir("/dev/fd")) <= before + 1  # noqa: PTH208 - the server's connection


@pytest.mark.parametrize("step", ["_open_file", "_append_data", "_finish_file"])
async def test_cancelled_at_every_step(
    run: Any, serve: Any, tool: Any, root: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a thread uses is not closed under it: the cancelled call waits for the step's end."""
    serve()
    loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), []
    whole = getattr(http_download.Download, step)

    def slow(self: Any, *args: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result(LIMIT)
        result = whole(self, *args)
        ended.append(step)
        return result

    monkeypatch.setattr(http_download.Download, step, slow)
    task = asyncio.create_task(run.execute(tool(), {"name": "a"}))
    async with asyncio.timeout(LIMIT):
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended == [step]
    assert [name for name in files(root) if name != "a"] == []


async def test_a_failing_step(
    run: Any, serve: Any, tool: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, and a file system that refuses at the end, leave nothing."""
    serve()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    for step in ("write", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(ToolExecutionError, match="'a' cannot be written: no space"):
                await run.execute(tool(), {"name": "a"})
        assert files(root) == {}
    with monkeypatch.context() as patch:
        patch.setattr(http_download, "temporary_name", lambda: "x" * 300)
        with pytest.raises(ToolExecutionError, match="name that is too long"):
            await run.execute(tool(), {"name": "a"})


async def test_after_the_deadline(run: Any, serve: Any, tool: Any, root: Path) -> None:
    """The caller was told that the call has failed, so nothing is changed any more."""
    serve()
    context = ToolExecutionContext(deadline=asyncio.get_running_loop().time() - 1)
    with pytest.raises(ToolExecutionError, match="the time of the call was over"):
        await run.executor.execute(tool(), {"name": "a"}, context)
    assert files(root) == {}


@pytest.mark.parametrize("at", [0, 262_144 - 6, 999_000])
async def test_no_secret_gets_into_a_file(
    run: Any, serve: Any, tool: Any, root: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that echoes a credential does not put it where another tool could read it."""
    monkeypatch.setenv("SAMPLE_KEY", "k-1234567890")
    serve(DATA[:at] + b"k-1234567890" + DATA[at:])
    with pytest.raises(ToolExecutionError, match="repeats a secret of the request"):
        await run.execute(tool({"headers": {"X-Key": "${env:SAMPLE_KEY}"}}), {"name": "a"})
    assert files(root) == {}


async def test_a_secret_between_two_pieces(make: Any, root: Path) -> None:
    """It is seen, too, where one piece has its beginning and the next one its end."""
    save_to = {"root": str(root), "path": "a"}
    entry = {"request": {"url": "https://h/"}, "response": {"save_to": save_to}}
    plan = compile_entry(make(entry)).save_to
    assert plan is not None
    secrets = SecretScope()
    secrets.hide_value("k-1234567890")
    async with asyncio.timeout(LIMIT), http_download.Download(plan, "a", secrets) as download:
        await download.write(b"x" * 300_000 + b"k-1234")
        with pytest.raises(ToolExecutionError, match="repeats a secret of the request"):
            await download.write(b"567890" + b"x" * 300_000)
    assert files(root) == {}


async def test_a_root_of_the_environment(
    run: Any, serve: Any, tool: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root may be named by the environment, as for file tools."""
    monkeypatch.setenv("SAMPLE_ROOT", str(root))
    serve(b"x")
    await run.execute(tool(root="${env:SAMPLE_ROOT}"), {"name": "a"})
    assert files(root) == {"a": b"x"}
    monkeypatch.delenv("SAMPLE_ROOT")
    with pytest.raises(ToolExecutionError, match="SAMPLE_ROOT is not set"):
        await run.execute(tool(root="${env:SAMPLE_ROOT}"), {"name": "b"})


async def test_a_part(run: Any, site: Any, serve: Any, tool: Any, root: Path) -> None:
    """A part that nobody asked for is not the whole; one that was asked for is what it is."""
    serve(b"part", status=206)
    with pytest.raises(ToolExecutionError, match=r"a part \(206\) that was not asked for"):
        await run.execute(tool(), {"name": "a"})
    assert files(root) == {}
    await run.execute(tool({"headers": {"Range": "bytes=0-3"}}), {"name": "a"})
    assert files(root) == {"a": b"part"}
