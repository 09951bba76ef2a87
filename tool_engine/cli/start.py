"""How does the command line start, and end when Ctrl-C comes before a command has begun?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NoReturn

__all__ = ["main"]

_INTERRUPTED: Final = 130


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process; Ctrl-C ends it with 130, without a word.

    Args:
        args: The words after the program's name; None takes those of the process.
    """
    try:
        # It takes some tenths of a second, in which somebody may change their mind.
        from tool_engine.cli.app import run

        code = run(args)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)
