"""What an error about completion in a shell says to do is done there, and Tab completes.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.test_cures_of_errors import names_cure

SCRIPTS = "cli/completion_scripts.py: "
NOW = SCRIPTS + "mend that, or have it in this shell alone with: …"
ANOTHER = SCRIPTS + "start one of these and type it there: …"
TRIED = {NOW, ANOTHER}
BOUND = 60
START = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/completions/tool-engine.fish"}
HAS = {"bash": "complete -p tool-engine", "zsh": "echo $_comps[tool-engine]",
       "fish": "complete -c tool-engine"}  # fmt: skip
"""By shell: what shows the completion of a program."""


def typed(shell: str, home: Path, line: str) -> tuple[str, str]:
    """What a line at a shell prints, and what it says is wrong."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(reason=f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        # Behind a last command the shell would be replaced by it, and could not be found out.
        [program, "-c", f"{line}\ntrue"],
        env={"HOME": str(home), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8"},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND,
    )
    return ended.stdout, ended.stderr


@pytest.mark.parametrize("shell", START)
def test_a_file_that_cannot_be_written(tmp_path: Path, shell: str) -> None:
    """The line that the message names completes at once; without the folder it is installed."""
    start = tmp_path / START[shell]
    start.mkdir(parents=True)
    _, message = typed(shell, tmp_path, "tool-engine --install-completion")
    assert names_cure(NOW, message), message
    assert str(start) in message
    assert "Is a directory" in message
    assert message.count("\n") == 1, message
    now = message.strip().partition("alone with: ")[2]
    shown, wrong = typed(shell, tmp_path, f"{now}\n{HAS[shell]}")
    assert "tool_engine" in shown.replace("-", "_"), wrong
    start.rmdir()
    installed, _ = typed(shell, tmp_path, "tool-engine --install-completion")
    assert "installed" in installed
    assert start.is_file()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_file_that_is_no_text(tmp_path: Path, shell: str) -> None:
    (tmp_path / START[shell]).write_bytes(b"# caf\xe9\n")
    _, message = typed(shell, tmp_path, "tool-engine --install-completion")
    assert f"the start file of {shell}: not UTF-8; mend that" in message


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_another_shell(tmp_path: Path, option: str) -> None:
    """In one of those that the message names it works."""
    shown, message = typed("sh", tmp_path, f"tool-engine {option}")
    assert names_cure(ANOTHER, message), message
    assert (shown, message.count("\n")) == ("", 1)
    assert "bash" in message
    assert typed("bash", tmp_path, f"tool-engine {option}")[0]
