"""Servers of tools as programs, and the entries that name them."""

import sys
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters

from tests import warm

PROGRAM = Path(__file__).parents[1] / "executors" / "mcp" / "server_program.py"
SDK = (
    "mcp.client.stdio",
    "mcp.server.stdio",
    "mcp.server.subscriptions",
    "tool_engine.mcp_server",
    "uvicorn",
)
"""What servers of tools load: half a second of imports, and more."""


def program(*words: str) -> dict[str, Any]:
    """The entry of a program of this Python that has the SDK: `words` as behind `python`."""
    command, *begin = warm.python(*SDK)
    return {"command": command, "args": [*begin, *words]}


def parameters(*words: str, cwd: Path | None = None) -> StdioServerParameters:
    """The same for a client of the SDK."""
    command, *begin = warm.python(*SDK)
    return StdioServerParameters(command=command, args=[*begin, *words], cwd=cwd)


def entry(who: str = "", **own: Any) -> dict[str, Any]:
    """The entry of a server of the SDK; `own` stands under our key."""
    made = {**program(str(PROGRAM)), "env": {"WHO": who}}
    return {**made, "tool-engine": own} if own else made


def python(code: str) -> dict[str, Any]:
    """The entry of a program of one line."""
    return {"command": sys.executable, "args": ["-c", code]}
