"""Does the one client of a server over standard input and output get all answers, and no more?"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.mcp_server.conftest import ERAS
from tests.mcp_server.test_hostile import WRONG_PARAMS, request_of
from tests.warm import SDK

DEADLINE = 200.0
PROGRAM = """
import asyncio, sys
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer

def shout(message: str) -> str:
    "Print, and say how much was asked for."
    print("printed, and not flushed", message)
    return message

def give(size: int) -> str:
    "Give a long text."
    return "x" * size

async def serve():
    async with ToolEngine(ToolEngineConfig(tools_directory=sys.argv[1])) as engine:
        engine.tool(shout)
        engine.tool(give)
        await MCPServer(engine).run_stdio()

asyncio.run(serve())
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class Raw:
    """A client that writes and reads lines."""

    def __init__(self, process: Any) -> None:
        self.process = process

    def send(self, message: Any) -> None:
        text = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(text.encode() + b"\n")

    async def read(self) -> Any:
        return json.loads(await self.process.stdout.readline())

    async def ask(self, message: Any) -> Any:
        self.send(message)
        return await self.read()


@asynccontextmanager
async def connect(tmp_path: Path, era: str = "2026-07-28") -> AsyncIterator[Raw]:
    process = await asyncio.create_subprocess_exec(
        *(*warm.python(*SDK), "-c", PROGRAM, str(tmp_path)),
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    raw = Raw(process)
    async with asyncio.timeout(DEADLINE):
        if era == "legacy":
            await raw.ask(INITIALIZE)
            raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            await raw.ask(request_of("server/discover"))
        yield raw
    if process.returncode is None:
        process.kill()
    await process.wait()


ASKED = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
NONE = [
    (ASKED | {"id": None}, None),
    (ASKED | {"id": 1.5}, None),
    (ASKED | {"id": True}, None),
    (ASKED | {"id": [5]}, None),
    (ASKED | {"params": [1]}, 5),
    (ASKED | {"jsonrpc": "1.0"}, 5),
    (ASKED | {"method": 5}, 5),
    ([ASKED], None),
    ([], None),
    ("null", None),
    ({"jsonrpc": "2.0", "id": 5}, None),
]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_no_message_is_answered(tmp_path: Path, era: str) -> None:
    """No client waits for an answer that never comes."""
    async with connect(tmp_path, era) as raw:
        for message, request_id in NONE:
            answer = await raw.ask(message)
            assert (answer["id"], answer["error"]["code"]) == (request_id, -32600), message
            assert "Invalid request" in answer["error"]["message"]


LONG = {"name": "shout", "arguments": {"message": "x" * (5 << 20)}}
TOO_LONG: list[tuple[dict[str, Any], Any]] = [
    ({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": LONG}, 5),
    ({"jsonrpc": "2.0", "method": "tools/call", "id": "a-5", "params": LONG}, "a-5"),
    ({"id": -5, "method": "tools/call", "params": LONG, "jsonrpc": "2.0"}, -5),
    ({"method": "tools/call", "params": LONG, "jsonrpc": "2.0", "id": 5}, 5),
    ({"method": "tools/call", "params": LONG | {"list": [1]}, "id": "five"}, "five"),
    # What is no request is not answered under an id: it may be that of another.
    ({"jsonrpc": "2.0", "id": 5, "result": LONG}, None),
    ({"result": LONG, "jsonrpc": "2.0", "id": 5}, None),
    ({"method": "notifications/x", "params": {**LONG, "more": {"a": [1], "id": 5}}}, None),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "tools/call", "params": LONG}, None),
]


async def test_a_request_that_is_too_long_is_answered(tmp_path: Path) -> None:
    """Its client does not wait for ever; what follows is read."""
    async with connect(tmp_path) as raw:
        for message, request_id in TOO_LONG:
            answer = await raw.ask(message)
            assert (answer["id"], answer["error"]["code"]) == (request_id, -32600), [*message]
            assert "the line is too long: it may have 4 MiB; send less" in str(answer)
        assert (await raw.ask(request_of("tools/list")))["result"]["tools"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_wrong_with_parameters_is_told(tmp_path: Path, era: str) -> None:
    async with connect(tmp_path, era) as raw:
        for params, words in WRONG_PARAMS:
            body = request_of("tools/call", **params)
            if era == "legacy":
                del body["params"]["_meta"]
            error = (await raw.ask(body))["error"]
            assert error == {"code": -32602, "message": f"Invalid params: {words}"}


ODD = '{"jsonrpc": "2.0", "id": 5, "method": "%s", "params": {"name": "%s", "_meta": %s}}'
META = json.dumps(request_of("ping")["params"]["_meta"])


LINES = (
    ODD % ("\\ud800", "x", META),
    ODD % ("tools/call", "\\ud800", META),
    ODD % ("tools/call", "x", META[:-1] + ', "deep": ' + "[" * 600 + "]" * 600 + "}"),
)


async def test_odd_texts_end_no_server(tmp_path: Path) -> None:
    """Half of a surrogate pair, and what nests deep, are answered, and so is what follows."""
    async with connect(tmp_path) as raw:
        for line in LINES:
            assert (await raw.ask(line))["error"]["code"] in (-32601, -32602)
        assert "result" in await raw.ask(request_of("tools/list"))


async def test_what_is_printed_and_not_flushed_is_no_answer(tmp_path: Path) -> None:
    """It goes to standard error too, when the server ends."""
    async with connect(tmp_path) as raw:
        await raw.ask(request_of("tools/call", name="shout", arguments={"message": "hi"}))
        out, err = await raw.process.communicate(b"")
    assert out == b""
    assert b"printed, and not flushed hi" in err


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, None])
async def test_a_client_that_reads_nothing_holds_no_server(
    tmp_path: Path, end: signal.Signals | None
) -> None:
    """Neither a signal waits for it, nor the end of its input."""
    out, taken = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(*warm.python(*SDK), "-c", PROGRAM, str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=taken,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(taken)
    assert process.stdin is not None
    body = request_of("tools/call", name="give", arguments={"size": 50_000_000})
    process.stdin.write(json.dumps(body).encode() + b"\n")
    async with asyncio.timeout(DEADLINE):
        await asyncio.to_thread(os.read, out, 1)
        if end is None:
            process.stdin.close()
        else:
            process.send_signal(end)
        await process.wait()
    os.close(out)


async def test_a_cancel_tears_no_answer(tmp_path: Path) -> None:
    """An answer that was begun is written to its end, and the next one after it."""
    async with connect(tmp_path) as raw:
        raw.process.stdout._transport.pause_reading()
        raw.send(request_of("tools/call", name="give", arguments={"size": 9_000_000}))
        raw.send(request_of("tools/list") | {"id": 8})
        params = {"requestId": 7}
        raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        raw.send(request_of("tools/list") | {"id": 9})
        await raw.process.stdin.drain()
        raw.process.stdout._transport.resume_reading()
        ids = []
        while 9 not in ids or 8 not in ids:
            ids.append((await raw.read())["id"])
    assert sorted(ids) in ([8, 9], [7, 8, 9])


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
async def test_a_closed_end_is_said(tmp_path: Path, closed: str) -> None:
    """As some supervisors start programs; the loop waits with the number that was free."""
    words = [
        sys.executable,
        "-m",
        "tool_engine.cli",
        "--tools",
        str(tmp_path),
        "--records",
        "none",
    ]
    process = await asyncio.create_subprocess_shell(
        f"{shlex.join([*words, 'mcp', 'serve'])} {closed}", stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE):
        _, said = await process.communicate()
    assert process.returncode == 2
    assert "standard input or output is closed" in said.decode()
    assert "Traceback" not in said.decode()
