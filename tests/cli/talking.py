"""Somebody at a terminal who talks with `tool-engine chat`, in a process of its own."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.warm import Program, run

WAIT = 30
"""Seconds after which something should be on the screen."""
CTRL_C = "\x03"
CTRL_D = "\x04"
PROMPT = "> "
ASKS = "say why not: "
MOVED = ">\x08\x1b[2C"
"""The prompt, as the line editor writes it: with a step in place of the space."""
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """The terminal of a running command."""

    def __init__(self, process: Program, keyboard: int) -> None:
        self.process = process
        self.whole = ""
        """All that was printed, with what steers the terminal."""
        self._keyboard = keyboard
        self._seen = 0
        self._changed = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def shows(self, text: str) -> str:
        """Waits for `text`; gives what was printed up to it since the last time, without styles."""

        def is_there() -> bool:
            return text in self._new() or self._is_over

        with self._changed:
            self._changed.wait_for(is_there, timeout=WAIT)
            new = self._new()
            assert text in new, new
            shown = new[: new.index(text) + len(text)]
            self._seen += len(shown)
            return shown

    def ends(self) -> int:
        """Waits for the end of the command; gives its exit code."""
        code = self.process.wait(timeout=WAIT)
        self._reader.join(WAIT)
        return code

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as a shell expects it."""
        return bool(termios.tcgetattr(self._keyboard)[3] & termios.ECHO)

    def _new(self) -> str:
        return STYLE.sub("", self.whole.replace(MOVED, PROMPT))[self._seen :]

    def _read(self) -> None:
        data = b""
        while not self._is_over:
            try:
                part = os.read(self._keyboard, 65_536)
            except OSError:
                part = b""
            data += part
            with self._changed:
                self._is_over = not part
                self.whole = data.decode("utf-8", "ignore")
                self._changed.notify_all()


@contextmanager
def at_terminal(folder: Path, *words: str, command: str = "chat") -> Iterator[Screen]:
    """Runs a command of `tool-engine` with words in `folder`, at a terminal of its own."""
    keyboard, inner = pty.openpty()
    process = Program(
        ["-m", "tool_engine.cli", command, *words],
        cwd=folder,
        env=environment(folder, TERM="xterm-256color", COLUMNS="100"),
        streams=(inner, inner, inner),
        is_at_terminal=True,
    )
    os.close(inner)
    try:
        yield Screen(process, keyboard)
    finally:
        process.kill()
        process.wait(WAIT)
        os.close(keyboard)


class Said(NamedTuple):
    """How a command in a pipe ended."""

    code: int
    out: str
    err: str


def in_pipe(folder: Path, *words: str, stdin: str | None = "", **more: str) -> Said:
    """Runs `tool-engine` with words in `folder`, and `more` in its environment.

    Args:
        folder: Where it runs.
        words: The command line.
        stdin: What it reads; None: its standard input is closed.
        more: Variables.
    """
    start, env = ["-m", "tool_engine.cli", *words], environment(folder, **more)
    if stdin is not None and "PYTHONPATH" not in more:
        done = run(start, cwd=folder, env=env, stdin=stdin, timeout=WAIT)
    else:
        new = [sys.executable, *start]  # of another version of the package, or without an input
        done = subprocess.run(
            new if stdin is not None else ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *new],
            cwd=folder,
            env=env,
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
    return Said(done.returncode, done.stdout, done.stderr)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The process's own, with records in `folder` and without keys."""
    root = Path(__file__).parents[2]
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {
        **kept,
        "PYTHONPATH": str(root),
        "TOOL_ENGINE_TOOLS": "tools",
        "TOOL_ENGINE_RECORDS": f"sqlite:///{folder / 'calls.db'}",
        "COLUMNS": "100",
        **more,
    }
