"""How do clients reach a server, and who may?"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import ElicitResult
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests import warm
from tests.access.conftest import head, speak, status_of
from tests.mcp_server.conftest import ERAS, text_of
from tests.mcp_servers.programs import parameters
from tests.server.conftest import served
from tests.warm import SDK
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.access.tokens import TokenFile
from tool_engine.approval.answers import name_at_terminal
from tool_engine.mcp_server import MCPServer
from tool_engine.server import create_app

DEADLINE = 200.0
TOOL = """
name: shout
description: Says a text again.
effect: read
parameters:
  - {name: message, type: string, required: true, description: The text}
entry: {type: builtin, handler: echo}
"""
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/list",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}


@asynccontextmanager
async def serving(
    engine: ToolEngine, server: MCPServer | None = None, **options: Any
) -> AsyncIterator[str]:
    """Serves an engine over HTTP on a free port; gives the URL."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = MCPServer(engine) if server is None else server
    task = asyncio.create_task(server.run_http(port=0, on_ready=ready.set_result, **options))
    try:
        yield await asyncio.wait_for(ready, DEADLINE)
    finally:
        task.cancel()
        await asyncio.wait([task])
        # The library that writes older clients' streams leaves one task for each loop.
        for left in asyncio.all_tasks():
            if getattr(left.get_coro(), "__qualname__", "") == "_shutdown_watcher":
                left.cancel()


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir(exist_ok=True)
    (tmp_path / "tools" / "shout.yaml").write_text(TOOL)
    return tmp_path / "tools"


def words_of(tools: Path, *more: str) -> list[str]:
    return ["-m", "tool_engine.cli", "--tools", str(tools), "--records", "none", *more]


@pytest.mark.parametrize("era", ERAS)
def test_a_program_serves_over_standard_input_and_output(tools: Path, era: str) -> None:
    """What clients start is one command; it hears of a changed folder."""

    async def use() -> tuple[list[str], str]:
        command = parameters(*words_of(tools, "mcp", "serve"))
        async with asyncio.timeout(DEADLINE), Client(command, mode=era) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("shout", {"message": "hi!"})
            return names, text_of(result)

    names, text = asyncio.run(use())
    assert names == ["shout"]
    assert "hi!" in text


@pytest.mark.parametrize("era", ERAS)
async def test_http_serves_both_eras(engine: ToolEngine, era: str) -> None:
    async with serving(engine) as url, Client(url, mode=era) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert text_of(result) == "3"


async def test_a_client_that_leaves_cancels_its_call(engine: ToolEngine) -> None:
    """The connection of an HTTP request is the call's: when it is cut, the tool is cancelled."""
    started, ended = asyncio.Event(), asyncio.Event()

    @engine.tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    params = {"name": "wait", "arguments": {}, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
    async with serving(engine) as url, aiohttp.ClientSession() as session:
        request = asyncio.create_task(session.post(url, json=body, headers=headers))
        await started.wait()
        request.cancel()
        await asyncio.wait([request])
        await session.close()
        await ended.wait()

    (record,) = await engine.query_call_records()
    assert record.outcome.value == "cancelled"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}, 200),
        ({"Host": "tools.example"}, 200),
        ({"Host": "tools.example", "Origin": "https://tools.example"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Mcp-Method": "tools/call"}, 400),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
async def test_foreign_pages_are_refused(
    engine: ToolEngine, headers: dict[str, str], status: int
) -> None:
    """A page that a browser shows can neither reach the server nor be it, but for allowed ones."""
    hosts, origins = ["tools.example"], ["https://app.example"]
    async with (
        serving(engine, allowed_hosts=hosts, allowed_origins=origins) as url,
        aiohttp.ClientSession() as session,
        session.post(url, data=json.dumps(LIST), headers=HEADERS | headers) as response,
    ):
        assert response.status == status


async def test_beside_the_api_one_guard_is_asked(engine: ToolEngine) -> None:
    """What the server allows, and nothing else, reaches the SDK's app as it does the API."""
    app = create_app(
        engine, mcp=True, allowed_hosts=["tools.example"], allowed_origins=["https://app.example"]
    )
    allowed = ({"Host": "tools.example"}, {"Origin": "https://app.example"})
    refused = {421: {"Host": "evil.example"}, 403: {"Origin": "http://evil.example"}}
    async with served(app) as service:
        client = service.client(None)
        for more in ({}, *allowed):
            said = {**HEADERS, **more}
            answer = await client.send("POST", "/mcp", json=LIST, headers=said)
            assert answer.status == 200
            assert "add" in answer.text
        for status, more in refused.items():
            said = {**HEADERS, **more}
            answer = await client.send("POST", "/mcp", json=LIST, headers=said)
            assert answer.status == status


@pytest.mark.parametrize(
    ("request_line", "more", "status"),
    [
        ("POST /mcp?token=secret", "Content-Length: 2\r\n", 400),
        ("GET /mcp", "Content-Length: 9000000\r\n", 413),
        ("DELETE /mcp", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400),
        ("POST /mcp", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", 400),
        ("POST /mcp", "Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n", 400),
    ],
)
async def test_what_the_guard_refuses(
    engine: ToolEngine, request_line: str, more: str, status: int
) -> None:
    """All methods are guarded, as those of the API are, and the connection is closed."""
    kind = "Content-Type: application/json\r\n"
    async with serving(engine) as url:
        answer = await speak(url.removesuffix("/mcp"), head(request_line, kind, more))
    assert status_of(answer) == status
    assert "connection: close" in answer.lower()


async def test_requests_that_come_together_share_no_context(engine: ToolEngine) -> None:
    """What the code of one sets, the next one of the connection does not see."""
    seen: ContextVar[str] = ContextVar("seen", default="nothing")
    server = MCPServer(engine)

    def write() -> str:
        before = seen.get()
        seen.set("the first")
        return before

    server.add_prompt("look", write)
    params = {"name": "look", "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params})
    async with serving(engine, server) as url:
        host, port = url.split("/")[2].split(":")
        named = {**HEADERS, "Mcp-Method": "prompts/get", "Mcp-Name": "look", "Host": host}
        named["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        request = f"POST /mcp HTTP/1.1\r\n{lines}"
        reads, writes = await asyncio.open_connection(host, int(port))
        both = f"{request}\r\n{body}{request}Connection: close\r\n\r\n{body}"
        writes.write(both.encode())
        text = (await reads.read()).decode()
        writes.close()
    assert text.count("nothing") == 2


async def test_a_listener_whose_token_is_taken_back(
    engine: ToolEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream on which an older client hears of changes ends."""
    monkeypatch.setattr("tool_engine.access.streams._LOOK", 0.01)
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a")
    said = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": "Bearer secret-a",
    }
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    about["clientInfo"] = {"name": "test", "version": "1"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    async with serving(engine, token_file=file) as url, aiohttp.ClientSession() as session:
        async with session.post(url, json=begin, headers=said) as first:
            assert first.status == 200
            said["Mcp-Session-Id"] = first.headers["mcp-session-id"]
        async with session.get(url, headers=said) as listening:
            assert listening.status == 200
            await asyncio.to_thread(write_tokens, tmp_path / "tokens.yaml", bob="secret-b")
            await listening.read()  # until its end


async def test_sessions_of_one_principal(
    engine: ToolEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token cannot take them all: one more is refused until some have ended, or rest."""
    monkeypatch.setattr("tool_engine.mcp_server.http._MOST_SESSIONS", 2)
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a", bob="secret-b")
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    about["clientInfo"] = {"name": "test", "version": "1"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    said = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with serving(engine, token_file=file) as url, aiohttp.ClientSession() as session:

        async def send(who: str, body: Any, way: str = "POST", **more: str) -> tuple[int, str, str]:
            headers = {**said, "Authorization": f"Bearer secret-{who}", **more}
            async with session.request(way, url, json=body, headers=headers) as answer:
                return answer.status, answer.headers.get("Mcp-Session-Id", ""), await answer.text()

        first, second = [await send("a", begin) for _ in range(2)]
        assert (first[0], second[0]) == (200, 200)
        status, _, text = await send("a", begin)
        assert status == 429
        assert "urn:tool-engine:too-many-sessions" in text
        assert "end some with DELETE, or let them rest for 30 minutes" in text
        assert 1700 < json.loads(text)["retry_after"] <= 1800
        assert (await send("b", begin))[0] == 200
        assert (await send("a", ping, **{"Mcp-Session-Id": first[1]}))[0] == 200
        ended = await send("a", None, "DELETE", **{"Mcp-Session-Id": first[1]})
        assert ended[0] == 200
        third = await send("a", begin)
        assert third[0] == 200
        assert (await send("a", begin))[0] == 429
        monkeypatch.setattr("tool_engine.mcp_server.http._IDLE", 0.0)
        assert (await send("a", begin))[0] == 200


async def test_a_body_that_is_too_large_is_refused(engine: ToolEngine) -> None:
    async with (
        serving(engine) as url,
        aiohttp.ClientSession() as session,
        session.post(url, data=io.BytesIO(b" " * (5 << 20)), headers=HEADERS) as response,
    ):
        assert response.status == 413


def write_tokens(path: Path, **tokens: str) -> str:
    lines = [
        f'- {{name: {name}, sha256: "{hashlib.sha256(token.encode()).hexdigest()}"}}'
        for name, token in tokens.items()
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


async def test_tokens_say_who_calls(engine: ToolEngine, tmp_path: Path) -> None:
    """Without a known token nothing is answered; with one, records name its owner."""
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a", bob="secret-b")
    statuses = []
    async with serving(engine, token_file=file) as url, aiohttp.ClientSession() as session:
        for value in ("", "Bearer secret-x", "Basic secret-a", "Bearer secret-b"):
            sent = {**HEADERS, **({"Authorization": value} if value else {})}
            async with session.post(url, json=LIST, headers=sent) as response:
                statuses.append(response.status)
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        sent = {
            **HEADERS,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "add",
            "Authorization": "Bearer secret-b",
        }
        async with session.post(url, json=body, headers=sent) as response:
            assert response.status == 200

    assert statuses == [401, 401, 401, 200]
    (record,) = await engine.query_call_records()
    assert record.caller_id == "bob"


async def test_a_session_is_of_one_principal(engine: ToolEngine, tmp_path: Path) -> None:
    """To another one it is as if there were none, whatever is done with it."""
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a", bob="secret-b")
    sent = {key: HEADERS[key] for key in ("Content-Type", "Accept")}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}}
    params["clientInfo"] = {"name": "test", "version": "1"}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    statuses: dict[str, list[int]] = {}
    async with serving(engine, token_file=file) as url, aiohttp.ClientSession() as session:
        ann = {**sent, "Authorization": "Bearer secret-a"}
        async with session.post(url, json=first, headers=ann) as response:
            ann["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        bob = {**ann, "Authorization": "Bearer secret-b"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        given_up = {**ready, "method": "notifications/cancelled", "params": {"requestId": 2}}
        for name, headers in (("ann", ann), ("bob", bob)):
            for body in (ready, asked, given_up):
                async with session.post(url, json=body, headers=headers) as response:
                    statuses.setdefault(name, []).append(response.status)
        for method in ("GET", "DELETE"):
            async with session.request(method, url, headers=bob) as response:
                statuses["bob"].append(response.status)

    assert statuses == {"ann": [202, 200, 202], "bob": [404] * 5}


async def test_an_answer_is_of_the_session_that_was_asked(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """A yes in another session, of the same principal or of another one, allows nothing, nor does
    one to a question that was not put."""

    @engine.tool(permission={"execution": "ask_always", "client_may_answer": True})
    async def pay() -> str:
        """Pay."""
        return "paid"

    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a", bob="secret-b")
    about: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    about["clientInfo"] = {"name": "test", "version": "1"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "pay"}}
    server = MCPServer(engine, approvals="client")
    async with (
        serving(engine, server, token_file=file) as url,
        aiohttp.ClientSession() as http,
    ):

        async def join(token: str) -> dict[str, str]:
            said = {key: HEADERS[key] for key in ("Content-Type", "Accept")}
            said["Authorization"] = f"Bearer {token}"
            async with http.post(url, json=begin, headers=said) as response:
                said["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            await send(said, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            return said

        async def send(headers: dict[str, str], body: Any) -> int:
            async with http.post(url, json=body, headers=headers) as response:
                return response.status

        ann, again, bob = [await join(f"secret-{each}") for each in "aab"]
        async with http.post(url, json=asked, headers=ann) as answers:
            question = await read_message(answers)
            assert question["method"] == "elicitation/create"
            yes = {"action": "accept", "content": {"allow": True}}
            no = {"action": "accept", "content": {"allow": False}}
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": yes}
            for other in (again, bob, {**bob, "Mcp-Session-Id": ann["Mcp-Session-Id"]}):
                await send(other, answer)
            for number in ("x", question["id"] + 1, str(question["id"])[::-1] + "9"):
                await send(ann, {**answer, "id": number})
            assert await send(ann, {**answer, "result": no}) == 202
            ended = await read_message(answers)

    assert "did not allow this call" in str(ended["result"]["content"])
    (record,) = await engine.query_call_records()
    assert (record.error_type, record.decided_by) == ("execution_rejected", "mcp-client:ann")


async def read_message(answers: aiohttp.ClientResponse) -> Any:
    """The next message of a stream that is no notice."""
    while True:
        line = await answers.content.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: {"):
            message = json.loads(line[len(b"data: ") :])
            if "id" in message:
                return message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("", "holds no tokens"),
        ("- ann", "an entry is"),
        ("- {name: ann, sha256: abc}", "sha256 must be 64"),
        (f'- {{name: "", sha256: "{"a" * 64}"}}', "name must be a text"),
        (
            f'- {{name: a, sha256: "{"a" * 64}"}}\n- {{name: b, sha256: "{"a" * 64}"}}',
            "is also that of 'a'",
        ),
    ],
)
async def test_wrong_token_files_are_refused(
    engine: ToolEngine, tmp_path: Path, text: str | None, words: str
) -> None:
    file = tmp_path / "tokens.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        await asyncio.to_thread(MCPServer(engine).app, token_file=str(file))


async def test_no_address_of_the_network_without_tokens(engine: ToolEngine) -> None:
    with pytest.raises(ConfigurationError, match=r"all who reach 0\.0\.0\.0"):
        await MCPServer(engine).run_http("0.0.0.0", 0)  # noqa: S104 - is refused


async def test_small_answers_go_at_once(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer waits until the client has acknowledged the part before (Nagle's algorithm)."""
    waits: list[int] = []
    made = H11Protocol.connection_made

    def look(self: H11Protocol, transport: Any) -> None:
        taken = transport.get_extra_info("socket")
        waits.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", look)
    async with serving(engine) as url, Client(url) as client:
        await client.list_tools()
    assert set(waits) == {1}


async def test_a_port_that_is_taken_is_said(engine: ToolEngine) -> None:
    async with serving(engine) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigurationError, match=f"cannot serve at 127.0.0.1:{port}"):
            await MCPServer(engine).run_http(port=port)


async def test_a_server_ends_at_a_signal(tools: Path) -> None:
    """SIGTERM ends it without a trace on stderr."""
    words = words_of(tools, "mcp", "serve", "--http", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        *warm.python(*SDK), *words, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE):
        first = (await process.stderr.readline()).decode()
        process.send_signal(signal.SIGTERM)
        rest = await process.stderr.read()
        code = await process.wait()

    assert first.startswith("serving 1 tool at http://127.0.0.1:")
    assert rest == b""
    assert code == 128 + signal.SIGTERM


async def find_name(tokens: TokenFile, token: str) -> str | None:
    found = await tokens.find_principal(token)
    return None if found is None else found.name


async def test_a_token_file_that_breaks_keeps_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed file is read again; one that cannot be read changes nothing."""
    path = tmp_path / "tokens.yaml"
    write_tokens(path, ann="a")
    tokens = await asyncio.to_thread(TokenFile, str(path))
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    tokens._next_look = 0.0

    path.write_text("- {name: [")
    broken = await find_name(tokens, "a")
    write_tokens(path, bob="b", carol="c")

    assert broken == "ann"
    assert [await find_name(tokens, each) for each in "abc"] == [None, "bob", "carol"]


PAY = """
name: pay
description: Pays.
permission: ask_always
parameters:
  - {name: message, type: string, required: true, description: For what}
entry: {type: builtin, handler: echo}
"""


async def test_another_terminal_answers(tools: Path, tmp_path: Path) -> None:
    """What waits in a server is listed and answered by `tool-engine sessions`.

    Of what its client is asked, there is nothing to be said. Records tell who it was.
    """
    (tools / "pay.yaml").write_text(PAY)
    may = "{execution: ask_always, client_may_answer: true}"
    tip = PAY.replace("pay", "tip").replace("ask_always", may)
    (tools / "tip.yaml").write_text(tip)
    common = ["-m", "tool_engine.cli", "--tools", str(tools)]
    common += ["--records", f"sqlite:///{tmp_path / 'records.db'}"]
    words = [*common, "mcp", "serve", "--http", "127.0.0.1:0", "--approvals", "client"]

    async def run_other(*more: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *warm.python(*SDK), *common, *more, stdout=asyncio.subprocess.PIPE
        )
        return (await process.communicate())[0].decode()

    server = await asyncio.create_subprocess_exec(
        *warm.python(*SDK), *words, stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    async with asyncio.timeout(DEADLINE):
        url = (await server.stderr.readline()).decode().split()[-1]
        async with Client(url, elicitation_callback=allow) as client:
            await client.call_tool("tip", {"message": "a little"})
            calling = asyncio.create_task(client.call_tool("pay", {"message": "rent"}))
            told = (await server.stderr.readline()).decode()
            (request,) = json.loads(await run_other("sessions", "pending", "--json"))
            said = await run_other("sessions", "approve", request["token"])
            result = await calling
        server.terminate()
        await server.communicate()
        kept = map(json.loads, (await run_other("history", "--json")).splitlines())

    assert told == "pay waits for consent: see `tool-engine sessions pending`\n"
    assert (request["tool_name"], request["params"]) == ("pay", {"message": "rent"})
    assert said == "answered: the call of pay goes on where it waits\n"
    assert "rent" in text_of(result)
    deciders = {each["tool_name"]: each["decided_by"] for each in kept if each["is_success"]}
    assert deciders == {"tip": "mcp-client", "pay": name_at_terminal()}


async def allow(context: Any, params: Any) -> ElicitResult:
    del context
    return ElicitResult(action="accept", content={"allow": "tip" in params.message})


async def test_consent_that_nothing_could_answer_is_refused(tools: Path) -> None:
    """Without a database a call that needs consent does not wait, and asking for it is an error."""
    (tools / "pay.yaml").write_text(PAY)
    words = words_of(tools, "mcp", "serve")
    command = parameters(*words)
    async with asyncio.timeout(DEADLINE), Client(command) as client:
        result = await client.call_tool("pay", {"message": "rent"})
    process = await asyncio.create_subprocess_exec(
        *(*warm.python(*SDK), *words, "--approvals", "operator"), stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()

    assert result.meta is not None
    assert result.meta["tool-engine/error_type"] == "execution_rejected"
    assert "--approvals operator needs a database" in said.decode()
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "serch"], "did you mean 'search'"),
        (["--approvals", "operater"], "did you mean 'operator'"),
        (["--token-file", "x"], "--token-file is for --http"),
        (["--allowed-host", "tools.example"], "--allowed-host is for --http"),
        (["--http", ":0", "--allowed-host", "*"], "no request names '*'; write HOST"),
        (["--http", ":0", "--allowed-origin", "*"], "'*' is no origin; write https://HOST"),
        (["--stdio", "--http", ":1"], "two ways to serve"),
    ],
)
def test_wrong_options_are_said(tools: Path, words: list[str], said: str) -> None:
    ran = warm.run(words_of(tools, "mcp", "serve", *words))
    assert ran.returncode == 2
    assert said in ran.stderr


def test_what_is_installed_starts_elsewhere_as_here(tools: Path, tmp_path: Path) -> None:
    """A database in a file, and whatever else was said, are the same in a client's folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    said = ["--no-recursive", "--records", "sqlite:///calls.db", "--cluster", "none"]
    words = ["-m", "tool_engine.cli", "-C", str(tmp_path), "--tools", "tools", *said]
    ran = warm.run([*words, "mcp", "install", "--tool", "shout"])
    entry = json.loads(ran.stdout)["mcpServers"]["tool-engine"]
    assert {*said} <= {*entry["args"]}

    async def use() -> str:
        command = StdioServerParameters(**entry, cwd=elsewhere)
        async with asyncio.timeout(DEADLINE), Client(command) as client:
            return text_of(await client.call_tool("shout", {"message": "hi!"}))

    assert "hi!" in asyncio.run(use())
    assert (tmp_path / "calls.db").exists()
    assert [*elsewhere.iterdir()] == []


def test_what_chooses_no_tool_is_said(tools: Path) -> None:
    """A client would see an empty list, and no reason."""
    words = ["--tool", "shuot", "--tool", "sh*", "--tag", "loud"]
    ran = warm.run(words_of(tools, "mcp", "serve", *words))
    assert ran.stderr.splitlines() == [
        "--tool shuot chooses no tool now; did you mean 'shout'?",
        "--tag loud chooses no tool now",
    ]


async def test_a_program_serves_a_short_list(tools: Path) -> None:
    """`mcp serve --mode search` lists two tools, and `mcp install` writes it down."""
    command = parameters(*words_of(tools, "mcp", "serve", "--mode", "search"))
    async with asyncio.timeout(DEADLINE), Client(command) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        call: dict[str, Any] = {"name": "shout", "arguments": {"message": "hi!"}}
        result = await client.call_tool("call_tool", call)

    assert names == ["search_tools", "call_tool"]
    assert "hi!" in text_of(result)


def test_without_the_extra_the_cure_is_said(tools: Path) -> None:
    """Where the SDK is not installed, the command says what to install."""
    words = words_of(tools, "mcp", "serve")
    program = (
        "import sys; sys.modules['mcp'] = None; sys.modules['mcp_types'] = None; "
        f"from tool_engine.cli.app import run; sys.exit(run({words[2:]!r}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    assert "pip install 'tool-engine[mcp]'" in ran.stderr
    assert "Traceback" not in ran.stderr
