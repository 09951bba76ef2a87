"""How does a person see calls run and wait while they do?

A terminal gets bars that move; a pipe or a file gets a line whenever the numbers change.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from tool_engine.cli.console import plain


class ProgressView(AbstractContextManager["ProgressView"], Protocol):
    def update(self, running: int, waiting: int, finished: int) -> None:
        """Show the numbers of this moment."""


def make_progress(console: Console, *, slots: int, queue_size: int, calls: int) -> ProgressView:
    if console.is_interactive:
        return _Bars(console, slots, queue_size, calls)
    return _Lines(console, slots, queue_size, calls)


class _Bars:
    def __init__(self, console: Console, slots: int, queue_size: int, calls: int) -> None:
        self._progress = Progress(
            TextColumn("  {task.description:<9}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"),
            console=console,
        )
        self._running: TaskID = self._progress.add_task("running", total=slots)
        self._waiting: TaskID = self._progress.add_task("waiting", total=queue_size)
        self._finished: TaskID = self._progress.add_task("finished", total=calls)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def update(self, running: int, waiting: int, finished: int) -> None:
        self._progress.update(self._running, completed=running)
        self._progress.update(self._waiting, completed=waiting)
        self._progress.update(self._finished, completed=finished)


class _Lines:
    def __init__(self, console: Console, slots: int, queue_size: int, calls: int) -> None:
        self._console = console
        self._limits = (slots, queue_size, calls)
        self._last: tuple[int, int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def update(self, running: int, waiting: int, finished: int) -> None:
        numbers = (running, waiting, finished)
        if numbers == self._last:
            return
        self._last = numbers
        slots, queue_size, calls = self._limits
        self._console.print(
            plain(
                f"  running {running} of {slots}   waiting {waiting} of {queue_size}   "
                f"finished {finished} of {calls}"
            )
        )
