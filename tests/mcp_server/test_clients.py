"""What do other people's clients get from a server?

They are programs of npm that `make node` installs; without them the tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.test_conformance import HERE, MODULES, NODE
from tests.mcp_server.test_transports import serving
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.mcp_server import MCPServer

DEADLINE = 200.0
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build"
SDK = MODULES / "@modelcontextprotocol" / "sdk"
PROGRAM = "tests.mcp_server.test_clients"

pytestmark = [
    pytest.mark.skipif(
        not (NODE.exists() and INSPECTOR.exists() and SDK.exists()),
        reason="the clients of npm are not installed: run `make node`",
    ),
    pytest.mark.timeout(DEADLINE * 2),
]


def add_tools(engine: ToolEngine) -> None:
    """Adds what the clients call."""

    @engine.tool(effect="read")
    async def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        return a + b

    @engine.tool
    async def count(context: Any, most: int) -> str:
        """Count.

        Args:
            most: Where to end.
        """
        for number in range(most):
            await context.report_progress(number, most)
            await asyncio.sleep(0.12)
        return "counted"

    @engine.tool
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    @engine.tool(permission={"execution": "ask_always", "client_may_answer": True})
    async def pay() -> str:
        """Pay."""
        return "paid"

    @engine.tool
    async def grow() -> str:
        """Add a tool."""
        engine.tool(name="late", description="Comes late.")(lambda: "ok")
        return "grown"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        add_tools(engine)
        yield engine


async def run_node(*words: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "PATH": f"{NODE.parent}:{os.environ['PATH']}"},
    )
    async with asyncio.timeout(DEADLINE):
        out, errors = await process.communicate()
    return process.returncode, out.decode(), errors.decode()


async def test_the_inspector_lists_calls_and_reads_errors(engine: ToolEngine) -> None:
    async with serving(engine) as url:

        async def inspect(*words: str) -> tuple[int | None, str, str]:
            cli = [str(INSPECTOR / "index.js"), "--cli", url, "--transport", "http"]
            return await run_node(*cli, *words)

        _, listed, _ = await inspect("--method", "tools/list")
        call = ("--method", "tools/call", "--tool-name")
        _, sum_, _ = await inspect(*call, "add", "--tool-arg", "a=1", "--tool-arg", "b=2")
        _, wrong, _ = await inspect(*call, "add", "--tool-arg", "a=1")
        code, _, unknown = await inspect(*call, "adt")

    names = [tool["name"] for tool in json.loads(listed)["tools"]]
    assert names == ["add", "count", "grow", "pay", "wait"]
    assert json.loads(sum_)["content"] == [{"type": "text", "text": "3"}]
    assert json.loads(wrong)["isError"] is True
    assert code != 0
    assert "adt" in unknown


def check_answers(found: dict[str, Any]) -> None:
    assert found["names"] == ["add", "count", "grow", "pay", "wait"]
    assert found["sum"]["content"] == [{"type": "text", "text": "3"}]
    assert found["wrong"]["isError"] is True
    assert "did you mean 'b'" in found["wrong"]["content"][0]["text"]
    assert found["unknown"]["code"] == -32602
    assert "did you mean 'add'" in found["unknown"]["text"]
    assert found["progress"] == [0, 1]
    assert found["counted"]["content"][0]["text"] == "counted"
    assert "Abort" in found["left"] or "Error" in found["left"]
    assert found["paid"]["content"][0]["text"] == "paid"
    assert found["asked"] == ["May this call run?"]
    assert (found["heard"], found["after"]) == (True, 1)


async def test_the_client_in_typescript_over_http(engine: ToolEngine) -> None:
    """It lists, calls, reads errors, hears progress and changes, gives up, and is asked."""
    async with serving(engine, MCPServer(engine, approvals="client")) as url:
        _, out, errors = await run_node(str(HERE / "node" / "client.mjs"), "http", url)
    check_answers(json.loads(out or errors))
    outcomes = {each.tool_name: each.outcome.value for each in await engine.query_call_records()}
    assert outcomes["wait"] == "cancelled"


async def test_the_client_in_typescript_over_standard_input(tmp_path: Path) -> None:
    client, server = str(HERE / "node" / "client.mjs"), [sys.executable, "-m", PROGRAM]
    _, out, errors = await run_node(client, "stdio", *server, str(tmp_path))
    check_answers(json.loads(out or errors))


async def _serve_client() -> None:
    async with ToolEngine(ToolEngineConfig(tools_directory=sys.argv[1])) as engine:
        add_tools(engine)
        await MCPServer(engine, approvals="client").run_stdio()


if __name__ == "__main__":
    asyncio.run(_serve_client())
