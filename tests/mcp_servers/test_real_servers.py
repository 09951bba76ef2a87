"""Do the tools of other people's servers do here what they do elsewhere?

The servers are programs of npm that `make node` installs, and one of FastMCP, which `make bench`
installs; without them the tests are skipped.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

from tests.executors.mcp.conftest import count_running, until
from tests.mcp_server.conftest import ERAS, text_of
from tests.mcp_server.test_conformance import MODULES, NODE
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.model.progress import ToolProgress
from tool_engine.session.session import ToolSession

DEADLINE = 60.0
ROOT = Path(__file__).parents[2]
SERVERS = MODULES / "@modelcontextprotocol"
EVERYTHING = SERVERS / "server-everything" / "dist" / "index.js"
FILESYSTEM = SERVERS / "server-filesystem" / "dist" / "index.js"
PROGRAM = Path(__file__).with_name("fast_program.py")

needs_node = pytest.mark.skipif(
    not (NODE.exists() and EVERYTHING.exists() and FILESYSTEM.exists()),
    reason="the servers of npm are not installed: run `make node`",
)
pytestmark = pytest.mark.timeout(DEADLINE * 2)


@cache
def find_fastmcp() -> str | None:
    """Returns a Python that has FastMCP."""
    for python in (sys.executable, str(ROOT / ".venv-bench" / "bin" / "python")):
        if Path(python).exists():
            ran = subprocess.run([python, "-c", "import fastmcp"], capture_output=True, check=False)
            if ran.returncode == 0:
                return python
    return None


@pytest.fixture
def mcp_file(tmp_path: Path) -> Path:
    """A file with both servers of npm, and a folder for one of them."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("grüße\n")
    servers = {
        "everything": {"command": str(NODE), "args": [str(EVERYTHING), "stdio"]},
        "filesystem": {"command": str(NODE), "args": [str(FILESYSTEM), str(tmp_path / "files")]},
    }
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


@pytest.fixture
async def engine(mcp_file: Path) -> AsyncIterator[ToolEngine]:
    tools = str(mcp_file.parent / "tools")
    async with ToolEngine(
        ToolEngineConfig(tools_directory=tools, mcp_servers=str(mcp_file))
    ) as engine:
        yield engine


def kinds_of(output: dict[str, Any]) -> list[str]:
    return [block["type"] for block in output["content"]]


@needs_node
async def test_each_kind_of_tool(engine: ToolEngine, mcp_file: Path) -> None:
    """Text, images, resources, links, data, progress and errors come as the server sent them."""
    reports: list[ToolProgress] = []

    async def call(tool: str, **params: Any) -> Any:
        result = await engine.execute(tool, params, on_progress=reports.append)
        assert result.is_success, result.error
        return result.output

    async def fail(tool: str, **params: Any) -> str:
        result = await engine.execute(tool, params)
        return f"{result.error_type}: {result.error}"

    file = str(mcp_file.parent / "files" / "a.txt")
    assert (await call("echo", message="hi ü"))["content"][0]["text"] == "Echo: hi ü"
    assert kinds_of(await call("get-tiny-image")) == ["text", "image", "text"]
    linked = await call("get-resource-links", count=2)
    assert kinds_of(linked) == ["text", "resource_link", "resource_link"]
    held = await call("get-resource-reference", resourceType="Blob", resourceId=1)
    assert base64.b64decode(held["content"][1]["resource"]["blob"]).startswith(b"Resource 1")
    told = await call("get-annotated-message", messageType="error", includeImage=True)
    assert told["content"][0]["annotations"]["audience"] == ["user", "assistant"]
    data = await call("get-structured-content", location="Chicago")
    assert data["structuredContent"].keys() == {"temperature", "conditions", "humidity"}
    await call("trigger-long-running-operation", duration=0.2, steps=4)
    assert [(each.done, each.total) for each in reports][-1] == (4, 4)
    assert (await call("read_text_file", path=file))["content"][0]["text"] == "grüße\n"

    wrong = await fail("get-sum", a="x", b=1)
    assert wrong.startswith("validation_error: invalid arguments: 'a' must be a number")
    assert "Access denied" in await fail("read_text_file", path="/etc/passwd")
    assert "Must be a finite positive integer" in await fail(
        "get-resource-reference", resourceType="Text", resourceId=-1
    )


@needs_node
async def test_data_that_is_called_content_is_held_as_the_server_declares_it(
    engine: ToolEngine, mcp_file: Path
) -> None:
    """It is no blocks of the result: what was declared stands under `structuredContent`."""
    path = str(mcp_file.parent / "files" / "a.txt")
    result = await engine.execute("read_media_file", {"path": path})
    assert result.is_success
    assert result.validation_errors == []


@needs_node
async def test_a_tool_that_runs_only_as_a_task_is_left_out(engine: ToolEngine) -> None:
    """No call of it could succeed."""
    assert engine.get("simulate-research-query") is None
    [(_, error)] = engine.load_errors
    assert "'simulate-research-query'" in error
    assert "only as a task of MCP, which is not supported" in error


@needs_node
async def test_a_call_that_is_given_up_holds_nothing(engine: ToolEngine) -> None:
    begun = asyncio.Event()
    call = asyncio.create_task(
        engine.execute(
            "trigger-long-running-operation",
            {"duration": 600, "steps": 6_000},
            on_progress=lambda _: begun.set(),
        )
    )
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
    call.cancel()
    await asyncio.wait([call])
    assert count_running(engine) == 0
    assert (await engine.execute("echo", {"message": "after"})).is_success


@needs_node
async def test_a_session_calls_them(engine: ToolEngine, mcp_file: Path) -> None:
    """As a model does: in its format, and it reads what they return."""
    session = ToolSession(engine, "chat-1")
    call = {"name": "get-sum", "arguments": '{"a": 1, "b": 2}'}
    asked = [{"id": "call_1", "type": "function", "function": call}]
    message = {"role": "assistant", "content": None, "tool_calls": asked}
    cycle = await session.process({"choices": [{"message": message}]}, "openai")
    assert "The sum of 1 and 2 is 3." in json.dumps(cycle.messages)


@asynccontextmanager
async def gateway(mcp_file: Path, era: str) -> AsyncIterator[Client]:
    """Connects a client to what people start as the gateway."""
    words = ["--tools", str(mcp_file.parent / "tools"), "--records", "none"]
    words += ["--mcp-config", str(mcp_file), "mcp", "serve"]
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tool_engine.cli", *words], cwd=str(ROOT)
    )
    async with asyncio.timeout(DEADLINE), Client(command, mode=era) as client:
        yield client


async def note_report(
    heard: list[tuple[float, float | None]], done: float, total: float | None, _: str | None
) -> None:
    heard.append((done, total))


@needs_node
@pytest.mark.parametrize("era", ERAS)
def test_a_client_gets_through_the_gateway_what_it_gets_from_the_servers(
    mcp_file: Path, era: str
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo", {"message": "hi ü"}),
        ("get-tiny-image", {}),
        ("get-resource-links", {"count": 3}),
        ("get-annotated-message", {"messageType": "success", "includeImage": True}),
        ("gzip-file-as-resource", {"data": "data:text/plain,hi", "outputType": "resource"}),
        ("trigger-long-running-operation", {"duration": 0.2, "steps": 4}),
    ]

    async def read(client: Client) -> list[Any]:
        found: list[Any] = []
        for name, arguments in calls:
            heard: list[tuple[float, float | None]] = []

            result = await client.call_tool(
                name, arguments, progress_callback=partial(note_report, heard)
            )
            # Of reports that come at once the newest is sent.
            content = [each.model_dump() for each in result.content]
            found.append((content, result.structured_content, heard[-1:]))
        return found

    async def use() -> None:
        own = StdioServerParameters(command=str(NODE), args=[str(EVERYTHING), "stdio"])
        async with asyncio.timeout(DEADLINE), Client(own, mode="legacy") as client:
            wanted = await read(client)
            described = {each.name: each for each in (await client.list_tools()).tools}
        async with gateway(mcp_file, era) as client:
            assert await read(client) == wanted
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert len(tools) == 26
            data = "get-structured-content"
            assert tools[data].input_schema == described[data].input_schema
            output = dict(described[data].output_schema or {})
            del output["$schema"]
            assert tools[data].output_schema == output
            refused = await client.call_tool("read_text_file", {"path": "/etc/passwd"})
            assert (refused.is_error, "Access denied" in text_of(refused)) == (True, True)
            with pytest.raises(MCPError, match="did you mean 'read_text_file'"):
                await client.call_tool("read_textfile", {})

    asyncio.run(use())


@pytest.mark.skipif(find_fastmcp() is None, reason="FastMCP is not installed: run `make bench`")
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_a_server_of_fastmcp(tmp_path: Path, revision: str) -> None:
    """Of both eras; what it may not ask of this client is an error of its tool, and no hang."""
    mark = tmp_path / "mark"
    source = MCPSource(
        "fast",
        command=(str(find_fastmcp()), str(PROGRAM), str(mark)),
        revision=revision,
    )
    reports: list[ToolProgress] = []
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        await engine.add_source(source)

        async def call(tool: str, **params: Any) -> Any:
            result = await engine.execute(tool, params, on_progress=reports.append)
            return result.output if result.is_success else result.error

        data = {"name": "ü", "größe": [1, 2.5, None]}
        assert (await call("person", name="ü"))["structuredContent"] == data
        assert kinds_of(await call("picture")) == ["image"]
        assert await call("fail") == "Error calling tool 'fail': the disk is full"
        assert (await call("steps", most=3))["content"][0]["text"] == "done"
        assert (reports[-1].done, reports[-1].message) == (3, "step 3")
        assert "licitation" in await call("ask")
        await call("grow")
        await until(lambda: engine.get("late"))
        slow = asyncio.create_task(call("slow"))
        await until(lambda: mark.exists() and mark.read_text() == "begun")
        slow.cancel()
        await until(lambda: mark.read_text() == "given up")
        assert count_running(engine) == 0
