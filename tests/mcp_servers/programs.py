"""Servers of tools as programs, and the entries that name them."""

import sys
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters

from tests import warm
from tests.warm import SDK

PROGRAM = Path(__file__).parents[1] / "executors" / "mcp" / "server_program.py"


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
