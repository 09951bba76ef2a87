"""A command that goes on with what comes, in a process of its own."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

from tests.warm import Program

WAIT = 30
"""Seconds after which a line should have come."""


class Followed:
    """The running command, and the lines that it has printed."""

    def __init__(self, process: Program) -> None:
        self.process = process
        self.lines: Queue[str] = Queue()

    def json(self) -> dict[str, Any]:
        """The next line."""
        found: dict[str, Any] = json.loads(self.lines.get(timeout=WAIT))
        return found

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.decode())


@contextmanager
def follow_command(url: str, *words: str) -> Iterator[Followed]:
    """Runs `tool-engine` with words, on the records at `url`, until the block ends."""
    start = ["-m", "tool_engine.cli", "--records", url, *words]
    with Program(start, env={**os.environ, "COLUMNS": "80"}) as process:
        followed = Followed(process)
        reader = threading.Thread(target=followed.read)
        reader.start()
        try:
            yield followed
        finally:
            process.kill()
            reader.join(20)
