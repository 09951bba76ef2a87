"""Servers of tools as programs, and the entries that name them."""

import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[1] / "executors" / "mcp" / "server_program.py"


def entry(who: str = "", **own: Any) -> dict[str, Any]:
    """The entry of a server of the SDK; `own` stands under our key."""
    made = {"command": sys.executable, "args": [str(PROGRAM)], "env": {"WHO": who}}
    return {**made, "tool-engine": own} if own else made


def python(code: str) -> dict[str, Any]:
    """The entry of a program of one line."""
    return {"command": sys.executable, "args": ["-c", code]}
