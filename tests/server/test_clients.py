"""What does a client get that is another program, with nothing but what its language has?

One is of Node, with its `fetch`: without Node it is skipped.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.mcp_server.test_conformance import NODE
from tests.server.conftest import Service
from tool_engine import ToolEngine, ToolExecutionContext

DEADLINE = 60.0
HERE = Path(__file__).parent
PROGRAMS = {
    "client.mjs": str(NODE) if NODE.exists() else shutil.which("node"),
    "client.py": sys.executable,
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_client(service: Service, engine: ToolEngine, name: str) -> None:
    """It calls, follows and ends calls, leaves work behind, and misses no event."""
    program = PROGRAMS[name]
    if program is None:
        pytest.skip("there is no Node here: install it, or run `make node`")

    @engine.tool(effect="read")
    async def count(context: ToolExecutionContext, most: int) -> str:
        """Count.

        Args:
            most: Where to end.
        """
        for number in range(most):
            await context.report_progress(number + 1, most)
            await asyncio.sleep(0.12)  # two reports that are nearer become one
        return "counted"

    async with asyncio.timeout(DEADLINE):
        process = await asyncio.create_subprocess_exec(
            *(program, str(HERE / name), service.url, "token-of-ann"),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    found = json.loads(printed)
    assert found["sum"] == {"result": 3}
    assert found["problem"] == {
        "type": "urn:tool-engine:unknown-tool",
        "title": "Not Found",
        "status": 404,
        "kind": "application/problem+json",
        "detail": "there is no tool 'adt'; did you mean 'add'?",
    }
    assert found["streamed"] == ["execution_started", *["execution_progress"] * 3, "result"]
    assert [each["done"] for each in found["progress"]] == [1, 2, 3]
    assert found["counted"] == {"result": "counted"}
    assert found["records"] == ["cancelled"]
    assert (found["accepted"], found["task"]) == (202, ["succeeded", {"result": "counted"}])
    assert found["ended"] is True
    assert found["cancelled"] == ["cancelled", "the task was cancelled: enough"]
    assert found["twice"][0] == found["twice"][1]
    assert found["heard"] == [{"result": number} for number in (2, 3, 4, 5)]
