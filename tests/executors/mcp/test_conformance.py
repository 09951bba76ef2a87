"""Does an engine with a source conform to the protocol, as the protocol's own suite sees it?

The suite is a program of npm that `make node` installs; without it the tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.executors.mcp.conformance_client import play_scenario
from tests.mcp_server.test_conformance import LIMIT, NODE, SUITE
from tests.mcp_server.test_conformance import pytestmark as pytestmark

PROGRAM = Path(__file__).with_name("conformance_program.py")


@asynccontextmanager
async def playing(path: Path) -> AsyncIterator[list[str]]:
    """Plays at a socket what programs ask for; gives what came of it."""
    ended: list[str] = []
    folder = path.with_name("tools")
    folder.mkdir()

    async def take_program(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        scenario, given, url = json.loads(await reader.readline())
        try:
            words = await play_scenario(scenario, json.loads(given or "{}"), url, str(folder))
            ended.append(words)
        except Exception:  # noqa: BLE001 - it is shown
            ended.append(scenario + traceback.format_exc())
        writer.write(ended[-1].encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(take_program, path):
        yield ended


@pytest.mark.parametrize(("revision", "count"), [("2026-07-28", 32), ("2025-11-25", 18)])
async def test_the_suite_finds_no_fault(revision: str, count: int, tmp_path: Path) -> None:
    """Every scenario that counts for the revision passes."""
    command = f"{sys.executable} -S -I {PROGRAM} {tmp_path / 'socket'}"
    async with playing(tmp_path / "socket") as ended, asyncio.timeout(LIMIT):
        suite = await asyncio.create_subprocess_exec(
            str(NODE),
            str(SUITE),
            *("client", "--command", command, "--requirements", revision, "--timeout", "120000"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "NO_COLOR": "1"},
        )
        said, _ = await suite.communicate()
    summary, _, unscored = said.decode().partition("Not scored")
    lines = [line for line in summary.splitlines() if line.startswith(("✓", "✗"))]
    names = {line: line.split()[1].removesuffix(":") for line in lines}
    scored = [line for line in lines if f" {names[line]} (" not in unscored]

    assert [line for line in scored if line.startswith("✗")] == [], "\n".join(ended)
    assert len(scored) == count
