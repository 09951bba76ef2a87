"""What an error about an MCP server says to do is done, and it works.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ToolExecution

from tests.contracts.test_cures_of_errors import names_cure
from tests.executors.mcp.conftest import COMMAND, serve_http
from tests.executors.mcp.test_hostile_sites import make_answer, never, send, serving
from tests.executors.mcp.test_listing import Shop, tool
from tests.mcp_servers.test_hub import until
from tool_engine import MCPSource, ToolEngine, ToolEngineConfig

LOST = "executors/mcp/connection.py: look before you call it again"
PROGRAM = "executors/mcp/programs.py: correct its command"
INSTALL = "executors/mcp/programs.py: install it, or write its full path"
IN_FOLDER = "executors/mcp/programs.py: write the path of the program in it"
FOLDER = "executors/mcp/programs.py: make it, or correct its cwd"
ITEMS = "executors/mcp/programs.py: write its arguments as items of their own: …"
RUNNABLE = "executors/mcp/programs.py: make it so: chmod +x …"
SCRIPT = "executors/mcp/programs.py: begin a script with a line such as #!/bin/sh"
REVISION = "executors/mcp/peer.py: write one of …"
ZERO = "executors/mcp/stdio.py: remove it"
URL = "executors/mcp/dialling.py: write http://host:port/path or https://"
HEADER = (
    "executors/mcp/http.py: write letters of Latin-1 and no line ends in `headers`, and no space "
    "in a name"
)
MEANT = "executors/mcp/http.py: write the url that is meant"
NUMBER = "executors/mcp/peer.py: have the server send null or a text in its place"
OTHERS = "executors/mcp/peer.py: name the others in `expose`"
TRIED = {LOST, PROGRAM, FOLDER, ITEMS, REVISION, ZERO, URL, HEADER, NUMBER}
TRIED |= {INSTALL, IN_FOLDER, RUNNABLE, SCRIPT}


async def test_a_server_that_is_lost(tmp_path: Path) -> None:
    """Another call is made, after a look whether the first one ran."""
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        await engine.add_source(MCPSource("odd", command=COMMAND))
        lost = await engine.execute("die", {})
        assert names_cure(LOST, str(lost.error)), lost.error
        assert (await engine.execute("whoami", {})).is_success


@pytest.mark.parametrize(
    ("cure", "wrong", "right"),
    [
        (PROGRAM, {"command": ("/nowhere/program",)}, {"command": COMMAND}),
        (INSTALL, {"command": ("no-such-program",)}, {"command": COMMAND}),
        (IN_FOLDER, {"command": ("/usr/bin",)}, {"command": COMMAND}),
        (FOLDER, {"cwd": "/nowhere"}, {"cwd": "/"}),
        (ITEMS, {"command": (" ".join(COMMAND),)}, {"command": COMMAND}),
        (REVISION, {"revision": "2025-13-01"}, {"revision": "2025-11-25"}),
        (ZERO, {"env": {"WHO": "a\0b"}}, {"env": {"WHO": "ab"}}),
    ],
)
async def test_settings(
    cure: str, wrong: dict[str, Any], right: dict[str, Any], tmp_path: Path
) -> None:
    """With the setting as it says, the tools come."""
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        source = MCPSource("odd", **{"command": COMMAND, **wrong})
        await engine.add_source(source)
        ((_, error),) = engine.load_errors
        assert names_cure(cure, error), error
        await engine.remove_source(source)
        await engine.add_source(MCPSource("odd", **{"command": COMMAND, **right}))
        assert engine.get("echo") is not None


async def test_a_script_is_made_to_run(tmp_path: Path) -> None:
    """It gets its permission, and the line that says what reads it."""
    script = tmp_path / "server.sh"
    words = shlex.join(COMMAND)
    script.write_text(f"exec {words}\n")
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        source = MCPSource("odd", command=["./server.sh"], cwd=str(tmp_path))
        await engine.add_source(source)
        ((_, error),) = engine.load_errors
        assert names_cure(RUNNABLE, error), error
        assert error.endswith(f"chmod +x {script}")
        script.chmod(0o755)
        await engine.reload()
        await until(lambda: "no format" in str(engine.load_errors))
        ((_, error),) = engine.load_errors
        assert names_cure(SCRIPT, error), error
        script.write_text(f"#!/bin/sh\nexec {words}\n")
        await until(lambda: engine.get("echo") is not None)


async def test_settings_of_an_address(tmp_path: Path) -> None:
    """With the url or the header as it says, the tools come."""
    with serve_http() as url:
        cases: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
            (URL, {"url": "mailto:odd"}, {"url": url}),
            (HEADER, {"headers": {"X-Who": "名"}}, {"headers": {"X-Who": "é"}}),
        )
        for cure, wrong, right in cases:
            async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
                source = MCPSource("odd", **{"url": url, **wrong})
                await engine.add_source(source)
                ((_, error),) = engine.load_errors
                assert names_cure(cure, error), error
                await engine.remove_source(source)
                await engine.add_source(MCPSource("odd", **{"url": url, **right}))
                assert engine.get("echo") is not None


async def test_a_redirect_to_another_address(tmp_path: Path) -> None:
    """The url that it leads to is one that is followed."""
    with serve_http() as url:
        sent = make_answer(308, b"", f"Location: {url}")
        async with (
            serving(never) as site,
            ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine,
        ):
            site.refuses = sent
            source = MCPSource("odd", url=site.url)
            await engine.add_source(source)
            ((_, error),) = engine.load_errors
            assert names_cure(MEANT, error), error
            await engine.remove_source(source)
            await engine.add_source(MCPSource("odd", url=url))
            assert engine.get("echo") is not None


async def test_a_number_that_is_none(tmp_path: Path) -> None:
    """A null in its place arrives."""
    for value, is_fine in (("NaN", False), ("null", True)):

        def answer(asked: dict[str, Any], value: str = value) -> bytes:
            words = f'{{"content": [], "structuredContent": {{"a": {value}}}}}'
            head = f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": '
            return make_answer(200, f"{head}{words}}}".encode())

        async with (
            serving(send(answer)) as site,
            ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine,
        ):
            await engine.add_source(MCPSource("odd", url=site.url))
            result = await engine.execute("buy", {})
        assert result.is_success == is_fine
        assert is_fine or names_cure(NUMBER, str(result.error)), result.error


async def test_a_tool_that_runs_only_as_a_task(tmp_path: Path) -> None:
    """Where the others are named, nothing is wrong."""
    shop = Shop(
        tool("long", execution=ToolExecution(task_support="required")),
        tool("buy"),
    )
    fields: dict[str, Any] = {"in_memory": shop.server, "revision": "2025-11-25"}
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        source = MCPSource("odd", **fields)
        await engine.add_source(source)
        ((_, error),) = engine.load_errors
        assert names_cure(OTHERS, error), error
        await engine.remove_source(source)
        await engine.add_source(MCPSource("odd", **fields, expose=["buy"]))
        assert engine.load_errors == []
        assert engine.get("buy") is not None
