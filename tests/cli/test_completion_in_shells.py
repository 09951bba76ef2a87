"""At a real terminal: what Tab completes in bash and zsh can be typed on, and runs."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from select import select

import pytest

BOUND = 60.0
"""Seconds after which a shell that shows nothing has failed."""
ECHO = """name: echo
description: Says it. Use it to try things out. It does not shout.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to say}
  - {name: tone, type: string, description: How, enum: [loud, soft]}
entry: {type: builtin, handler: echo}
"""


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, words: list[str], folder: Path, env: dict[str, str]) -> None:
        self.seen = ""
        self.pid, self._file = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(words[0], words, env)  # noqa: S606 - a shell at a terminal

    def type(self, keys: str) -> None:
        os.write(self._file, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read on until the text was shown."""
        while text not in self.seen:
            ready, _, _ = select([self._file], [], [], BOUND)
            assert ready, f"{text!r} was not shown: {self.seen!r}"
            self.seen += os.read(self._file, 65536).decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._file)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_tab_completes_is_typed_on(tmp_path: Path, shell: str) -> None:
    """Behind `message=` comes its value, at the first Tab of a shell and at later ones."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "echo.yaml").write_text(ECHO)
    env = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "TOOL_ENGINE_RECORDS": "none",
    }
    install = [program, "-c", "tool-engine --install-completion; true"]
    subprocess.run(install, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=BOUND)
    rc = tmp_path / f".{shell}rc"
    rc.write_text(rc.read_text() + "\nPS1='ready> '\n")
    words = {"bash": ["bash", "--noprofile", "-i"], "zsh": ["zsh", "-i"]}[shell]
    terminal = Terminal(words, tmp_path, env)
    try:
        terminal.wait_for("ready> ")
        for typed, completed, rest, said in (
            ("tool-engine call echo mess\t", "age=", "hi\r", '"message": "hi"'),
            ("tool-engine call echo message=yo to\t", "ne=", "so\t\r", '"message": "yo"'),
            ("tool-engine sho\t", "w ", "echo\r", "What to say"),
        ):
            terminal.type(typed)
            terminal.wait_for(completed)
            terminal.type(rest)
            terminal.wait_for(said)
            terminal.wait_for("ready> ")
    finally:
        terminal.close()
