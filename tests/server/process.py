"""A `tool-engine serve` of its own process, as those have it who operate one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from tests.server.conftest import SCOPES, write_tokens
from tests.warm_async import AsyncProgram, start

START_LIMIT = 60.0
END_LIMIT = 30.0
SERVER = ("tool_engine.cli.serving.serve_command", "tool_engine.server", "uvicorn")
"""What it loads."""
TOKEN = "token-of-olga"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
TOOLS = {
    "say": """
name: say
description: Says it again.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to say}
entry: {type: builtin, handler: echo}
""",
    "shout": """
name: shout
description: Says it to all.
permission: ask_always
parameters:
  - {name: message, type: string, required: true, description: What to say}
entry: {type: builtin, handler: echo}
""",
    "pause": """
name: pause
description: Waits.
effect: read
parameters:
  - {name: delay, type: number, required: true, description: Seconds, validation: {min: 0, max: 60}}
entry: {type: custom, handler: "asyncio:sleep"}
""",
}


class ServerProcess(NamedTuple):
    """A server that runs, and where."""

    process: AsyncProgram
    url: str
    said: asyncio.Task[bytes]
    """What it writes from its start to its end: it is read all the time, so that it never waits."""

    async def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Sends a signal; how the server ended, and what it wrote since it was started."""
        self.process.send_signal(number)
        async with asyncio.timeout(END_LIMIT):
            said = await self.said
            return await self.process.wait(), said.decode()


def fetch(url: str, body: object = None, headers: dict[str, str] | None = None) -> bytes:
    """What a server of ours answers, however long that takes; blocks."""
    data = None if body is None else json.dumps(body).encode()
    said = {**HEADERS, "content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, said)  # noqa: S310 - as above
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
        return bytes(answer.read())


def write_tools(folder: Path) -> Path:
    """Writes the definitions that are served, and returns their folder."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in TOOLS.items():
        (tools / f"{name}.yaml").write_text(text)
    return tools


@contextlib.asynccontextmanager
async def server_process(
    folder: Path, *words: str, records: str | None = None
) -> AsyncIterator[ServerProcess]:
    """Runs a server for which `olga` may do everything, `ann` only call; it is killed at last."""
    people = {"olga": {"scopes": list(SCOPES)}, "ann": {"scopes": ["call", "read"]}}
    tokens = write_tokens(folder / "tokens.json", people)
    kept = () if records is None else ("--records", records)
    process = await start(
        *("-m", "tool_engine.cli", "--tools", str(write_tools(folder)), *kept),
        # Of an option that stands twice the last one counts.
        *("serve", "--port", "0", "--token-file", str(tokens), "--rate", "100000/s"),
        *("--max-open", "20000", *words),
        imports=SERVER,
    )
    process.stdin.close()
    try:
        async with asyncio.timeout(START_LIMIT):
            first = (await process.stderr.readline()).decode()
        assert first.startswith(f"serving {len(TOOLS)} tools"), (
            first + (await process.stderr.read()).decode()
        )
        said = asyncio.create_task(process.stderr.read())
        yield ServerProcess(process, first.split()[-1], said)
        said.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
