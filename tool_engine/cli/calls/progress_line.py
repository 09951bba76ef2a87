"""How does a terminal show how far a call has come?

One line at the foot of the error output, which the result replaces. Where that is no terminal there
is none, so that nothing is to be cut out of what other programs read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from rich.cells import cell_len, set_cell_size

from tool_engine.cli.console import make_console, safe_text
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.progress import ToolProgress

_CELLS: Final = 24
_SECONDS: Final = 0.1
"""Between two lines of a batch."""
_ERASE: Final = "\r\x1b[K"


class ProgressLine:
    """The line of one command; nothing of it is left at its end."""

    def __init__(self) -> None:
        self._console = make_console(stderr=True)
        self._is_drawn = False

    def show(self, name: str, progress: ToolProgress) -> None:
        """Draw how far `name` has come, in place of what stood there."""
        if not self._console.is_terminal:
            return
        text = f"{' '.join(safe_text(name).split())}  {describe_progress(progress)}"
        width = self._console.width - 1
        text = set_cell_size(text, width).rstrip() if cell_len(text) > width else text
        self._write_text(f"{_ERASE}{text}")
        self._is_drawn = True

    def counter(self, name: str, total: int) -> Callable[[ToolExecutionResult], None] | None:
        """Return what counts the results of many calls; None: nothing would be seen of it."""
        if not self._console.is_terminal:
            return None
        done, shown_at = 0, -_SECONDS

        def count(result: ToolExecutionResult) -> None:
            nonlocal done, shown_at
            done, now = done + 1, monotonic()
            if now - shown_at >= _SECONDS:
                shown_at = now
                self.show(name, ToolProgress(done, total, result.tool_name))

        return count

    def log(self, event: ToolEngineEvent) -> None:
        """Print a line that a tool has logged; above the progress, and wherever it goes."""
        self.close()
        line = f"{event.data['level']}: {' '.join(str(event.data['message']).split())}"
        self._write_text(f"{safe_text(line)}\n")

    def close(self) -> None:
        """Erase the line."""
        if self._is_drawn:
            self._write_text(_ERASE)
            self._is_drawn = False

    def _write_text(self, text: str) -> None:
        stream = sys.stderr
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def _find_marks() -> str:
    """Return what the bar is drawn with: what is done, and what is left."""
    is_unicode = (sys.stderr.encoding or "").lower().replace("-", "").startswith("utf")
    return "━╺" if is_unicode else "#-"


def describe_progress(progress: ToolProgress) -> str:
    """Return a bar, where the total is known, with numbers and message, on one line."""
    marks, fraction = _find_marks(), progress.fraction
    parts: list[str] = []
    if fraction is not None:
        full = round(fraction * _CELLS)
        parts.append(marks[0] * full + marks[1] * (_CELLS - full))
        parts.append(f"{fraction:4.0%}")
        parts.append(f"{progress.done:g} of {progress.total:g}")
    else:
        parts.append(f"{progress.done:g}")
    message = " ".join(safe_text(progress.message or "").split())
    return "  ".join([*parts, message]).rstrip()
