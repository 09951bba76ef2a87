"""What an error about an MCP server says to do is done, and it works.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_cures_of_errors import names_cure
from tests.executors.mcp.conftest import COMMAND
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.executors.mcp.mcp_source import MCPSource

LOST = "executors/mcp/connection.py: look before you call it again"
PROGRAM = "executors/mcp/stdio.py: correct its command"
FOLDER = "executors/mcp/stdio.py: correct its cwd"
ITEMS = "executors/mcp/stdio.py: write its arguments as items of their own"
REVISION = "executors/mcp/peer.py: write one of …"
TRIED = {LOST, PROGRAM, FOLDER, ITEMS, REVISION}


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
        (FOLDER, {"cwd": "/nowhere"}, {"cwd": "/"}),
        (ITEMS, {"command": (" ".join(COMMAND),)}, {"command": COMMAND}),
        (REVISION, {"revision": "2025-13-01"}, {"revision": "2025-11-25"}),
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
