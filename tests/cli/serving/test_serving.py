"""What does the command line do to serve an engine, and to say to whom?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from mcp import Client

from tests import warm
from tests.server.process import HEADERS, SERVER, server_process, write_tools
from tests.warm_async import start
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.cli.app import run
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.serving import serve_command
from tool_engine.cli.settings import Settings
from tool_engine.model.task import INPUT_REQUIRED, QUEUED, RUNNING

BOUND = 30.0


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return write_tools(tmp_path)


async def test_a_server_with_tokens_that_ends_at_a_signal(tmp_path: Path) -> None:
    """One with a token calls; SIGTERM lets open requests end, and ends the server."""
    path = tmp_path / "tokens.yaml"
    words = ["-m", "tool_engine.cli", "token", "new", "ann", "--file", str(path)]
    token = (await asyncio.to_thread(warm.run, words)).stdout.strip()
    serving = ("--token-file", str(path), "--mcp", "--grace", "1")
    async with server_process(tmp_path, *serving) as server, aiohttp.ClientSession() as http:
        headers = {"authorization": f"Bearer {token}"}
        body = {"arguments": {"message": "hello"}}
        address = f"{server.url}/v1/tools/say/calls"
        async with http.post(address, json=body, headers=headers) as answer:
            assert (await answer.json())["output"] == {"message": "hello"}
        async with http.get(f"{server.url}/v1/tools") as answer:
            assert answer.status == 401
        async with http.get(f"{server.url}/mcp") as answer:
            assert answer.status == 401
        async with http.get(f"{server.url}/v1/events", headers=headers) as events:
            assert await events.content.readline() == b":\n"
            ending = asyncio.create_task(server.end())
            assert await events.content.read() == b"\n"
        assert await ending == (128 + signal.SIGTERM, "")


PROGRAM = """
from tool_engine import ToolEngine, ToolEngineConfig

engine = ToolEngine(ToolEngineConfig(records="sqlite:///shop.db"))


@engine.tool(effect="read")
async def price(article: str) -> int:
    \"\"\"Look a price up.

    Args:
        article: Of what.
    \"\"\"
    return len(article)
"""


async def test_the_engine_of_a_program(tmp_path: Path) -> None:
    """It is served as it is, to all doors: its tools of code, its database and its limits."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "shop.py").write_text(PROGRAM)
    words = ("--app", "shop:engine", "--no-auth", "--port", "0", "--mcp", "--studio")
    process = await start(*("-m", "tool_engine.cli", "serve", *words), cwd=tmp_path, imports=SERVER)
    try:
        async with asyncio.timeout(BOUND):
            url = (await process.stderr.readline()).decode().split()[-1]
            said = [(await process.stderr.readline()).decode() for _ in range(2)]
        assert any("ToolEngineConfig(keep_events=1000) keeps them" in line for line in said)
        async with aiohttp.ClientSession(url) as http:
            path, body = "/v1/tools/price/calls", {"arguments": {"article": "tea"}}
            async with http.post(path, json=body) as answer:
                assert (await answer.json())["output"] == {"result": 3}
            async with http.post(path, json=body, headers={"prefer": "respond-async"}) as answer:
                location = answer.headers["location"]
            async with http.get(f"{location}?wait=30") as answer:
                assert (await answer.json())["status"] == "succeeded"
            async with http.get("/studio/") as answer:
                assert answer.status == 200
        async with Client(f"{url}/mcp", mode="2026-07-28") as client:
            assert [each.name for each in (await client.list_tools()).tools] == ["price"]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 128 + signal.SIGTERM
        assert (tmp_path / "shop.db").exists()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_it_is_heard_while_it_drains(tmp_path: Path) -> None:
    """While an open call ends, a probe learns that it drains, and who asks for more is refused."""
    async with (
        server_process(tmp_path, "--mcp", "--grace", "60") as server,
        aiohttp.ClientSession(server.url, headers=HEADERS) as http,
    ):
        path = "/v1/tools/pause/calls"
        call = asyncio.create_task(http.post(path, json={"arguments": {"delay": 60}}))
        while not (found := (await (await http.get("/v1/calls")).json())["items"]):
            pass
        ending = asyncio.create_task(server.end())
        async with aiohttp.ClientSession(server.url) as other, asyncio.timeout(BOUND):
            while (await other.get("/readyz")).status == 200:
                pass
            assert (await other.get("/readyz")).status == 503
            assert (await other.get("/healthz")).status == 200
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say"}}
        sent = json.dumps(message)
        kind = {"content-type": "application/json"}
        for refused, text in (
            (path, "{}"),
            ("/mcp", sent),
            ("/mcp", sent.replace("tools/call", r"tools\/call")),
        ):
            async with http.post(refused, data=text, headers=kind) as answer:
                said = await answer.json()
                assert (answer.status, said["type"]) == (503, "urn:tool-engine:draining")
        other_text = json.dumps(
            {**message, "method": "ping", "params": {"tools/call": "tools/call"}}
        )
        async with http.post("/mcp", data=other_text, headers=kind) as answer:
            assert answer.status != 503
        async with http.delete(f"/v1/calls/{found[0]['call_id']}") as answer:
            assert (await answer.json())["is_cancelled"] is True
        assert (await (await call).json())["error_type"] == "cancelled"
        assert await ending == (128 + signal.SIGTERM, "")


async def test_a_second_signal(tmp_path: Path) -> None:
    """A task that runs ends as one whose engine was closed: no caller has cancelled it."""
    records = f"sqlite:///{tmp_path}/calls.db"
    body = {"arguments": {"delay": 60}}
    async with (
        server_process(tmp_path, "--grace", "1", records=records) as server,
        aiohttp.ClientSession(server.url, headers=HEADERS) as http,
    ):
        header = {"prefer": "respond-async"}
        async with http.post("/v1/tools/pause/calls", json=body, headers=header) as answer:
            task = await answer.json()
        while (await (await http.get(f"/v1/tasks/{task['id']}")).json())["status"] != RUNNING:
            pass
        server.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND):
            with contextlib.suppress(aiohttp.ClientError):
                while (await http.get("/readyz")).status == 200:
                    pass
        assert await server.end() == (128 + signal.SIGTERM, "")
    config = ToolEngineConfig(records=records, run_tasks=False)
    async with ToolEngine(config) as engine:
        handle = await engine.tasks.get(task["id"])
        assert handle.state.status == "rejected"
        assert (await handle.wait()).error == "the engine was closed while the tool ran"
        (record,) = await engine.query_call_records()
        assert record.error_type == "engine_closed"


@pytest.mark.parametrize("where", ["memory", "file"])
async def test_a_server_runs_its_tasks(tmp_path: Path, where: str) -> None:
    """A task that a client starts ends, wherever it is kept, and so does a call with a key."""
    records = "none" if where == "memory" else f"sqlite:///{tmp_path}/calls.db"
    body = {"arguments": {"message": "hello"}}
    async with (
        server_process(tmp_path, records=records) as server,
        aiohttp.ClientSession(server.url, headers=HEADERS) as http,
    ):
        path, header = "/v1/tools/say/calls", {"prefer": "respond-async"}
        async with http.post(path, json=body, headers=header) as answer:
            assert answer.status == 202
            location = answer.headers["location"]
        async with http.get(f"{location}?wait=30") as answer:
            assert (await answer.json())["status"] == "succeeded"
        async with http.post(path, json=body, headers={"idempotency-key": "k"}) as answer:
            assert (await answer.json())["output"] == {"message": "hello"}
        # Those who come late hear of it.
        async with http.get("/v1/events?after=0&types=execution_completed") as events:
            heard = [await events.content.readline() for _ in range(3)]
        assert heard[:2] == [b":\n", b"\n"], heard
        assert heard[2] == b"event: execution_completed\n"


def test_a_task_that_waits_for_consent_goes_on_waiting(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is started anew takes its question before it serves: nobody has refused it."""
    settings = Settings(chosen=str(tools), records=f"sqlite:///{tmp_path}/calls.db")
    states: list[str] = []

    async def start() -> str:
        async with recording_engine(settings) as engine:
            return (await engine.start("shout", {"message": "hello"})).id

    async def serve_late(engine: ToolEngine, _: object) -> None:
        """Takes long to begin: tasks begin before."""
        async with asyncio.timeout(60.0):
            handle = await engine.tasks.get(task_id)
            while handle.status in (QUEUED, RUNNING):  # noqa: ASYNC110 - it waits, and says so
                await asyncio.sleep(0.01)
        states.append(handle.status)

    monkeypatch.setattr(serve_command, "_serve_engine", serve_late)
    options: Any = SimpleNamespace(app=None, keep_events=None, max_tasks=None)
    task_id = asyncio.run(start())
    asyncio.run(serve_command._serve_until_end(settings, options))
    assert states == [INPUT_REQUIRED]


async def test_a_server_below_the_path_of_a_proxy(tmp_path: Path) -> None:
    """It says where it is, there as well as in its description."""
    words = ("--root-path", "/inner")
    async with (
        server_process(tmp_path, *words) as server,
        aiohttp.ClientSession(headers=HEADERS) as http,
    ):
        assert server.url.endswith("/inner")
        async with http.get(f"{server.url}/openapi.json") as answer:
            assert (await answer.json())["servers"] == [{"url": "/inner"}]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say whose requests to take: --token-file FILE, or --no-auth"),
        (("--no-auth", "--token-file", "x"), "say whose requests to take"),
        (("--no-auth", "--host", "0.0.0.0"), "all who reach 0.0.0.0 could call every tool"),  # noqa: S104 - refused
        (("--token-file", "none.yaml"), "the token file 'none.yaml' cannot be read"),
        (("--no-auth", "--rate", "many"), "rate: not a rate: 'many'"),
        (("--no-auth", "--root-path", "tools/"), "root_path must be a path such as '/tools'"),
        (("--no-auth", "--app", "a:b", "--keep-events", "5"), "a:b has an engine of its own"),
        (("--no-auth", "--app", "a:b", "--keep-events", "0"), "has keep_events"),
        (("--no-auth", "--app", "a:b", "--max-tasks", "5"), "has max_tasks_per_owner"),
        (
            ("--no-auth", "--app", "a:b", "--records", "sqlite:///x.db"),
            "ToolEngineConfig has records",
        ),
        (
            ("--no-auth", "--app", "a:b", "--mcp-config", "x.json"),
            "ToolEngineConfig has mcp_servers",
        ),
        (("--no-auth", "--app", "a:b", "--tools", "x"), "has tools_directory"),
    ],
)
def test_what_is_not_served(
    tools: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    """It is refused with its cure, before anything is served."""
    assert run(["--tools", str(tools), "serve", "--port", "0", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_server_that_cannot_record(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not serve where what is named is no database: tasks and records would be lost."""
    words = ["--records", f"sqlite:///{tools}/say.yaml", "serve", "--port", "0", "--no-auth"]
    assert run(["--tools", str(tools), *words]) == 1
    said = capsys.readouterr().err
    assert "the file is no SQLite database" in said
    assert "name another database with --records URL, or none" in said
    assert "serving" not in said


async def test_two_servers_on_one_database(tmp_path: Path) -> None:
    """What one has recorded and keeps, the other one shows; a key is known to both."""
    records = f"sqlite:///{tmp_path}/calls.db"
    body = {"arguments": {"message": "hello"}}
    path, key = "/v1/tools/say/calls", {"idempotency-key": "k"}
    async with (
        server_process(tmp_path, records=records) as one,
        server_process(tmp_path, records=records) as two,
        aiohttp.ClientSession(one.url, headers=HEADERS) as first,
        aiohttp.ClientSession(two.url, headers=HEADERS) as second,
    ):
        async with first.post(path, json=body, headers=key) as answer:
            call_id = (await answer.json())["metadata"]["call_id"]
        async with second.post(path, json=body, headers=key) as answer:
            assert (await answer.json())["metadata"]["call_id"] == call_id
        async with first.post(path, json=body, headers={"prefer": "respond-async"}) as answer:
            location = answer.headers["location"]
        async with second.get(f"{location}?wait=30") as answer:
            assert (await answer.json())["status"] == "succeeded"
        async with asyncio.timeout(30):
            status = 404
            while status == 404:  # records are written in batches
                async with second.get(f"/v1/calls/{call_id}") as answer:
                    status = answer.status
        assert status == 200


def test_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens are made, listed and taken back; the file has none of them."""
    path = tmp_path / "tokens.yaml"
    words = ("--file", str(path), "--json")
    made = ["token", "new", "ann", "--scope", "call", "--tool", "notes_*", *words]
    assert run(made) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    assert token not in path.read_text()
    more = ["--priority", "2", "--expires", "2099-01-01T00:00:00Z"]
    assert run(["token", "new", "bob", *more, *words]) == 0
    capsys.readouterr()
    assert run(["token", "list", *words]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == [
        {"name": "ann", "scopes": ["call"], "tools": ["notes_*"], "priority": 5, "expires": None},
        {
            "name": "bob",
            "scopes": ["call", "read"],
            "tools": ["*"],
            "priority": 2,
            "expires": "2099-01-01T00:00:00Z",
        },
    ]
    assert run(["token", "revoke", "ann", "--file", str(path)]) == 0
    assert "ann" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(["token", "revoke", "bob", "--file", str(path)]) == 0
    assert path.read_text() == "[]\n"  # a server that runs takes none any more


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("make", "ann"), "there is no `token make`"),
        (("new",), "`token new` needs a name"),
        (("new", "ann", "--scope", "write"), "scopes must be a list of call, read"),
        (("new", "ann", "--expires", "soon"), "expires must be a time with its zone"),
        (("revoke", "bob"), "has no token of 'bob'; did you mean 'bo'?"),
    ],
)
def test_tokens_that_are_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    """A wrong word leaves the file as it was."""
    path = tmp_path / "tokens.yaml"
    assert run(["token", "new", "bo", "--file", str(path)]) == 0
    before = path.read_text()
    assert run(["token", *words, "--file", str(path)]) == 2
    assert says in capsys.readouterr().err
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.yaml"]


def test_a_file_that_is_no_token_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written beside what could not be read."""
    path = tmp_path / "tokens.yaml"
    path.write_text("name: something else\n")
    assert run(["token", "new", "ann", "--file", str(path)]) == 2
    assert path.read_text() == "name: something else\n"
    assert run(["token", "list", "--file", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
