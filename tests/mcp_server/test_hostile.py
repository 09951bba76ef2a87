"""What can a client do that means harm, or that leaves whenever it likes?"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from mcp.shared.exceptions import MCPError

from tests import warm
from tests.effort import IS_WHOLE
from tests.mcp_server.conftest import Connect, text_of
from tests.mcp_server.test_transports import HEADERS, META, serving, words_of
from tests.warm import SDK
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolEngineEventType
from tool_engine.mcp_server import MCPServer

INFO = {"name": "raw", "version": "1"}
DEADLINE = 200.0
CANCELS = 1_000
LISTENERS = 10_000 if IS_WHOLE else 300
"""Each needs a file of the process, and one of another, of which it may often have 20,000."""


def request_of(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": {**META}}}


def headers_of(body: dict[str, Any], **more: str) -> dict[str, str]:
    name = body["params"].get("name")
    return {
        **HEADERS,
        "Mcp-Method": body["method"],
        **({} if name is None else {"Mcp-Name": name}),
        **more,
    }


@asynccontextmanager
async def posting(engine: ToolEngine) -> AsyncIterator[Any]:
    """Gives a function that posts a body to a server; returns the status and the answer."""
    async with serving(engine) as url, aiohttp.ClientSession() as session:

        async def post(data: bytes | str | dict[str, Any], **headers: str) -> tuple[int, Any]:
            sent = {**HEADERS, **headers}
            if isinstance(data, dict):
                sent = headers_of(data, **headers)
                data = json.dumps(data)
            async with session.post(url, data=data, headers=sent) as response:
                text = await response.text()
                is_json = response.content_type == "application/json"
                return response.status, json.loads(text) if is_json else text

        yield post


DEEP = '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": %s}'
TWICE = (
    DEEP
    % f'{{"name": "add", "arguments": {{"a": 1, "b": 2, "a": 100}}, "_meta": {json.dumps(META)}}}'
)
BAD = [
    pytest.param(TWICE, -32600, "the key 'a' stands twice in one object", id="a key twice"),
    pytest.param(TWICE.replace('"b": 2, "a": 100', '"b": NaN'), -32600, "NaN is no", id="NaN"),
    pytest.param(TWICE.replace('"b": 2, "a": 100', '"b": 1e999'), -32600, "too large", id="huge"),
    pytest.param(DEEP % ("[" * 10_000 + "]" * 10_000), -32700, "nests too deep", id="deep"),
    pytest.param(DEEP % ('{"a":' * 10_000), -32700, "Parse error", id="deep and cut"),
    pytest.param("{", -32700, "Parse error", id="cut"),
    pytest.param("", -32700, "Parse error", id="empty"),
]


@pytest.mark.parametrize(("body", "code", "words"), BAD)
async def test_what_can_be_read_in_two_ways_is_not_read(
    engine: ToolEngine, body: str, code: int, words: str
) -> None:
    """It is an error of the protocol, and nothing runs."""
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
    async with posting(engine) as post:
        status, answer = await post(body, **headers)

    assert (status, answer["error"]["code"]) == (400, code)
    assert words in answer["error"]["message"]
    assert answer["id"] == (7 if code == -32600 else None)
    assert await engine.query_call_records() == []


@pytest.mark.parametrize("request_id", [None, 1.5, True, [1], {}], ids=str)
async def test_an_id_that_is_none(engine: ToolEngine, request_id: Any) -> None:
    """The client hears that nothing answers it, and nothing runs, in a session or without one."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    call = {**request_of("tools/call", name="add", arguments={"a": 1, "b": 2}), "id": request_id}
    older = {name: HEADERS[name] for name in ("Content-Type", "Accept")}
    async with serving(engine) as url, aiohttp.ClientSession() as http:
        async with http.post(url, json=begin, headers=older) as begun:
            session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
        for headers in (headers_of(call), {**older, **session}):
            async with http.post(url, json=call, headers=headers) as response:
                answer = await response.json(content_type=None)
            assert (response.status, answer["error"]["code"]) == (400, -32600)
    assert await engine.query_call_records() == []


WRONG_PARAMS: list[tuple[dict[str, Any], str]] = [
    ({"arguments": {}}, "params.name is missing"),
    ({"name": 5}, "params.name should be a valid string"),
    ({"name": None}, "params.name should be a valid string"),
    ({"name": "shout", "arguments": "x"}, "params.arguments should be an object"),
    ({"name": "shout", "arguments": [1]}, "params.arguments should be an object"),
    ({"name": "shout", "inputResponses": 5}, "params.inputResponses should be an object"),
]


@pytest.mark.parametrize("is_modern", [True, False])
async def test_what_is_wrong_with_parameters_is_told(engine: ToolEngine, is_modern: bool) -> None:
    """No request is refused without a word of why, and nothing runs."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    older = {name: HEADERS[name] for name in ("Content-Type", "Accept")}
    async with serving(engine) as url, aiohttp.ClientSession() as http:
        async with http.post(url, json=begin, headers=older) as begun:
            older["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        for params, words in WRONG_PARAMS:
            body = request_of("tools/call", **params)
            if not is_modern:
                del body["params"]["_meta"]
            name = params.get("name") if isinstance(params.get("name"), str) else "shout"
            modern = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": str(name)}
            async with http.post(
                url, json=body, headers=modern if is_modern else older
            ) as response:
                text = await response.text()
            error = json.loads(text[text.index("{") :])["error"]
            if is_modern and params.get("name") == 5:
                # No header can say that, which is said first.
                assert "mcp-name header does not match" in error["message"]
            else:
                assert error == {"code": -32602, "message": f"Invalid params: {words}"}
    assert await engine.query_call_records() == []


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        (5, "params.ref should be an object"),
        ({}, "params.ref.name is missing"),
        (
            {"type": "ref/tool", "name": "add"},
            "params.ref.type should be 'ref/prompt' or 'ref/resource'",
        ),
    ],
)
async def test_what_may_be_one_of_two(engine: ToolEngine, ref: Any, words: str) -> None:
    """Both are named, as the protocol has them, and no class of the SDK."""
    argument = {"name": "a", "value": ""}
    async with posting(engine) as post:
        _, answer = await post(request_of("completion/complete", ref=ref, argument=argument))
    assert answer["error"] == {"code": -32602, "message": f"Invalid params: {words}"}


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
async def test_other_encodings_are_not_read(engine: ToolEngine, encoding: str) -> None:
    body = request_of("tools/call", name="add", arguments={"a": 1, "b": 2, "ü": 1})
    data = json.dumps(body, ensure_ascii=False).encode(encoding)
    async with posting(engine) as post:
        status, answer = await post(data, **headers_of(body))

    assert (status, answer["error"]["code"]) == (400, -32700)


async def test_headers_that_say_something_else_are_refused(engine: ToolEngine) -> None:
    """A proxy that lets `add` pass by its headers must not let `fail` pass."""
    body = request_of("tools/call", name="fail", arguments={})
    async with posting(engine) as post:
        statuses = [
            (await post(body, **{"Mcp-Name": "add"}))[0],
            (await post(body, **{"Mcp-Method": "tools/list"}))[0],
            (await post(body, **{"MCP-Protocol-Version": "2099-01-01"}))[0],
        ]
    assert statuses == [400] * 3
    assert await engine.query_call_records() == []


async def test_a_chunked_body_that_is_too_large_is_refused(engine: ToolEngine) -> None:
    """Also where no header says how long it is; what is sent slowly costs no more."""

    async def body() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b" " * (1 << 20)

    async with (
        serving(engine) as url,
        aiohttp.ClientSession() as session,
        session.post(url, data=body(), headers=HEADERS) as response,
    ):
        assert response.status == 413


async def test_a_body_that_never_comes_is_not_waited_for(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tool_engine.access.bodies._LONGEST_WAIT", 0.1)
    async with serving(engine) as url:
        host, port = url.split("/")[2].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        kind = "Content-Type: application/json"
        head = ["POST /mcp HTTP/1.1", f"Host: {host}", kind, "Content-Length: 100", "", "{"]
        writer.write("\r\n".join(head).encode())
        answer = await reader.readline()
        writer.close()
    assert b"408" in answer


@pytest.mark.parametrize("cursor", ["", "####", "YWRk=", "/w", "A" * 10_000, "YQBi\n"])
async def test_a_cursor_of_no_page(engine: ToolEngine, connect: Connect, cursor: str) -> None:
    async with connect(MCPServer(engine)) as client:
        with pytest.raises(MCPError, match="no page ended with the cursor"):
            await client.list_tools(cursor=cursor)


@pytest.mark.parametrize("cursor", [[1], {"a": 1}, 7])
async def test_a_cursor_that_is_no_text(engine: ToolEngine, cursor: Any) -> None:
    async with posting(engine) as post:
        _, answer = await post(request_of("tools/list", cursor=cursor))
    assert answer["error"]["code"] == -32602


async def test_a_reload_between_list_and_call(engine: ToolEngine, connect: Connect) -> None:
    """What runs is what is there: a tool that is gone is unknown, a changed one is checked anew."""
    engine.tool(name="gone", description="Goes.")(lambda: "ok")
    async with connect(MCPServer(engine)) as client:
        await client.list_tools()
        engine.unregister_tool("gone")
        engine.unregister_tool("add")

        @engine.tool
        async def add(first: int) -> int:
            """Add one.

            Args:
                first: The number.
            """
            return first + 1

        with pytest.raises(MCPError, match="Unknown tool: 'gone'"):
            await client.call_tool("gone", {})
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result.meta["tool-engine/error_type"] == "validation_error"


ODD_TRACES: list[dict[str, Any]] = [
    {"baggage": [1]},
    {"traceparent": None, "baggage": ["a=b"]},
    {"traceparent": "x" * 100_000, "tracestate": "y" * 100_000},
    {"baggage": "a=b," * 100_000},
]


@pytest.mark.parametrize("trace", ODD_TRACES, ids=["types", "null", "long", "baggage"])
async def test_a_trace_that_is_none(
    engine: ToolEngine, trace: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails no call, and fills no log."""
    body = request_of("tools/call", name="add", arguments={"a": 1, "b": 2})
    body["params"]["_meta"] |= trace
    async with posting(engine) as post:
        _, answer = await post(body)
    assert answer["result"]["content"][0]["text"] == "3"
    assert len(caplog.text) < 2_000


async def test_a_secret_stays_here(engine: ToolEngine, connect: Connect) -> None:
    """An argument that is a secret comes back in no error."""
    definition = {
        "name": "login",
        "description": "Logs in.",
        "parameters": [
            {"name": "key", "type": "string", "secret": True, "required": True, "description": "K"}
        ],
        "entry": {"type": "custom"},
    }

    def login(key: str) -> str:
        raise RuntimeError(f"{key} is not known")

    engine.register_tool(definition, login)
    async with connect(MCPServer(engine)) as client:
        result = await client.call_tool("login", {"key": "s3cret-value-42"})

    assert result.is_error
    assert "is not known" in text_of(result)
    assert "s3cret-value-42" not in str(result)


# Clients that leave.


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """An engine with one slot, and a tool that waits for ever."""
    (tmp_path / "narrow").mkdir()
    config = ToolEngineConfig(tools_directory=str(tmp_path / "narrow"))
    limits = ConcurrencyConfig(max_concurrent=1)
    async with ToolEngine(config, concurrency=limits) as engine:

        @engine.tool
        async def wait() -> str:
            """Wait."""
            await asyncio.Event().wait()
            return "never"

        @engine.tool(permission={"execution": "ask_always"})
        async def ask() -> str:
            """Ask."""
            return "asked"

        @engine.tool
        async def quick(seconds: float) -> str:
            """Take some time.

            Args:
                seconds: How much.
            """
            await asyncio.sleep(seconds)
            return "done"

        yield engine


@pytest.mark.parametrize(
    ("tool", "is_full", "stage"),
    [
        ("wait", False, ToolEngineEventType.EXECUTION_STARTED),
        ("wait", True, ToolEngineEventType.EXECUTION_QUEUED),
        ("ask", False, ToolEngineEventType.APPROVAL_REQUESTED),
    ],
)
async def test_a_client_that_leaves_leaves_nothing(
    narrow: ToolEngine, tool: str, is_full: bool, stage: ToolEngineEventType
) -> None:
    """Cut while it runs, waits for a slot or for consent, a call ends as cancelled."""
    reached, ended = asyncio.Event(), asyncio.Event()
    narrow.subscribe(lambda _: reached.set(), stage)
    narrow.subscribe(lambda _: ended.set(), ToolEngineEventType.EXECUTION_CANCELLED)
    first = asyncio.create_task(narrow.execute("wait")) if is_full else None
    await asyncio.sleep(0)
    body = request_of("tools/call", name=tool, arguments={})
    async with (
        asyncio.timeout(DEADLINE),
        serving(narrow) as url,
        aiohttp.ClientSession() as session,
    ):
        posting = asyncio.create_task(session.post(url, json=body, headers=headers_of(body)))
        await reached.wait()
        posting.cancel()
        await asyncio.wait([posting])
        await session.close()
        await ended.wait()
        assert await narrow.approvals.pending() == []
        assert len(narrow.controller.snapshot().held) == int(is_full)
        assert narrow.controller.snapshot().waiting == []
    if first is not None:
        first.cancel()
        await asyncio.wait([first])


async def test_a_thousand_cancels_leave_no_slot(narrow: ToolEngine, connect: Connect) -> None:
    """Given up at any time, each call has one record, and the next one gets the slot."""
    chance = random.Random(7)  # noqa: S311 - no secret
    server = MCPServer(narrow)
    async with connect(server) as client, asyncio.timeout(DEADLINE):

        async def give_up() -> None:
            call = asyncio.create_task(client.call_tool("quick", {"seconds": chance.random() / 50}))
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() / 50)
            call.cancel()
            await asyncio.wait([call])

        for _ in range(CANCELS // 50):
            await asyncio.gather(*(give_up() for _ in range(50)))
        result = await client.call_tool("quick", {"seconds": 0})

    assert text_of(result) == "done"
    snapshot = narrow.controller.snapshot()
    assert (snapshot.held, snapshot.waiting) == ([], [])
    started = [each.call_id for each in await narrow.query_call_records(limit=2 * CANCELS)]
    assert len(started) == len(set(started)) <= CANCELS + 1


DEAF = """
import socket, sys

address, most = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
request = bytes.fromhex(sys.stdin.readline())
held = []
while len(held) < most:
    some = [socket.create_connection(address) for _ in range(100)]
    for each in some:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        each.sendall(request)
    for each in some:
        assert each.recv(12) == b"HTTP/1.1 200"
    held += some
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.timeout(3_600)
async def test_listeners_that_never_read_hold_up_no_one(engine: ToolEngine) -> None:
    """A client that reads hears of a change among thousands that do not, and calls go on."""
    body = request_of("subscriptions/listen", notifications={"toolsListChanged": True})
    async with (
        serving(engine, max_open=None) as url,
        aiohttp.ClientSession() as session,
    ):
        place = urlsplit(url)
        data = json.dumps(body).encode()
        lines = {"Host": place.netloc, "Content-Length": str(len(data)), **headers_of(body)}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        request = f"POST {place.path} HTTP/1.1\r\n{head}\r\n".encode() + data
        words = ["-c", DEAF, str(place.hostname), str(place.port), str(LISTENERS)]
        deaf = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert deaf.stdin is not None
        assert deaf.stdout is not None
        deaf.stdin.write(f"{request.hex()}\n".encode())
        assert await deaf.stdout.readline() == b"open\n"
        reader = await session.post(url, json=body, headers=headers_of(body))
        assert reader.status == 200
        for number in range(50):
            engine.tool(name=f"late_{number}", description="Comes late.")(lambda: "ok")
            await asyncio.sleep(0.005)
        heard = b""
        while b"list_changed" not in heard:
            heard += await reader.content.readany()
        call = request_of("tools/call", name="add", arguments={"a": 1, "b": 2})
        async with session.post(url, json=call, headers=headers_of(call)) as response:
            assert '"text":"3"' in await response.text()
        reader.close()
        assert deaf.returncode is None
        deaf.stdin.close()
        await deaf.wait()


# Over standard input and output.


class Program:
    """A server that was started as a client starts it, line by line."""

    def __init__(self, process: Any) -> None:
        self.process = process

    async def ask(self, line: bytes | str | dict[str, Any]) -> Any:
        if isinstance(line, dict):
            line = json.dumps(line)
        data = line if isinstance(line, bytes) else line.encode()
        self.process.stdin.write(data + b"\n")
        await self.process.stdin.drain()
        return json.loads(await self.process.stdout.readline())


PRINTER = """
import os, subprocess, sys

def shout(message):
    print("a print", message)
    sys.stdout.flush()
    os.write(1, b"raw bytes")
    subprocess.run(["echo", "a child"], check=True)
    return message + sys.stdin.read()
"""
SHOUT = """
name: shout
description: Prints.
parameters:
  - {name: message, type: string, required: true, description: The text}
entry: {type: python, handler: "printer:shout"}
"""


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Program]:
    (tmp_path / "tools").mkdir(exist_ok=True)
    (tmp_path / "tools" / "shout.yaml").write_text(SHOUT)
    (tmp_path / "printer.py").write_text(PRINTER)
    words = words_of(tmp_path / "tools", "mcp", "serve")
    process = await asyncio.create_subprocess_exec(
        *warm.python(*SDK),
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=8 << 20,
    )
    async with asyncio.timeout(DEADLINE):
        yield Program(process)
    if process.returncode is None:
        process.kill()
    await process.communicate()


async def test_what_a_tool_prints_is_not_the_answer(program: Program) -> None:
    """Its prints, those of its children and what it reads do not touch the connection."""
    body = request_of("tools/call", name="shout", arguments={"message": "hi!"})
    answer = await program.ask(body)
    assert answer["result"]["content"] == [{"type": "text", "text": "hi!"}]


async def test_a_bad_line_is_answered_and_the_next_one_read(program: Program) -> None:
    """No line ends the connection, or leaves the client waiting."""
    for body, code in ((param.values[0], param.values[1]) for param in BAD if param.id != "empty"):
        answer = await program.ask(str(body))
        assert answer["error"]["code"] == code
    long = await program.ask(b" " * (9 << 20))
    assert (long["error"]["code"], long["id"]) == (-32600, None)
    assert "too long" in long["error"]["message"]
    garbage = await program.ask(b"\xff\xfe\x00")
    assert garbage["error"]["code"] == -32700
    body = request_of("tools/call", name="shout", arguments={"message": "hi!"})
    assert (await program.ask(body))["result"]["isError"] is False


async def test_a_signal_ends_a_server_whose_client_says_no_more(program: Program) -> None:
    body = request_of("tools/list")
    assert (await program.ask(body))["id"] == 7
    program.process.send_signal(signal.SIGTERM)
    assert await program.process.wait() == 128 + signal.SIGTERM
    assert await program.process.stderr.read() == b""


@pytest.mark.parametrize("is_pipe", [True, False])
async def test_what_was_asked_before_the_end_is_answered(tmp_path: Path, is_pipe: bool) -> None:
    """`tool-engine mcp serve < requests` answers, and ends; a call that takes longer is cut."""
    (tmp_path / "tools").mkdir()
    asked = tmp_path / "requests"
    asked.write_text(json.dumps(request_of("tools/list")) + "\n")
    with asked.open("rb") as requests:
        process = await asyncio.create_subprocess_exec(
            *warm.python(*SDK),
            *words_of(tmp_path / "tools", "mcp", "serve"),
            stdin=asyncio.subprocess.PIPE if is_pipe else requests,
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(DEADLINE):
            out, _ = await process.communicate(asked.read_bytes() if is_pipe else None)
    assert json.loads(out)["result"]["tools"] == []
    assert process.returncode == 0
