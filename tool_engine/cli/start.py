"""How does the command line start, and end at an early Ctrl-C?"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
# Until `main` begins, Ctrl-C ends in a traceback: nothing is imported here that takes time.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, NoReturn

_INTERRUPTED: Final = 130


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process, at Ctrl-C with 130."""
    try:
        # The import takes some tenths of a second, in which Ctrl-C may come.
        from tool_engine.cli.app import run

        code = run(args)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)
