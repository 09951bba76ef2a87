"""The program starts in two ways, and Ctrl-C ends it quietly before a command has begun, too."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tool_engine.cli.start import main

INTERRUPTING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from tool_engine.cli.start import main
main(["list"])
"""


def test_main_ends_the_process() -> None:
    """The console script's exit code is the command's."""
    with pytest.raises(SystemExit) as ended:
        main(["list", "--nope"])
    assert ended.value.code == 2


def test_the_package_runs_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m tool_engine.cli` is the same program."""
    monkeypatch.setattr(sys, "argv", ["tool-engine", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tool_engine.cli", run_name="__main__")
    assert ended.value.code == 0


def test_the_installed_program() -> None:
    """`tool-engine` is there after an installation."""
    program = Path(sys.executable).with_name("tool-engine")
    ended = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.stdout.startswith("tool-engine ")


def test_nothing_is_loaded_before_ctrl_c_is_heard() -> None:
    """What is imported before `main` takes no time: a traceback would be shown until then."""
    root = str(Path(__file__).parents[2])
    # Without what an environment's own hooks import.
    script = f"""if True:
        import sys
        sys.path.append({root!r})
        before = set(sys.modules)
        import tool_engine.cli.start
        print(*sorted(set(sys.modules) - before))
    """
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert set(ended.stdout.split()) <= {
        *("__future__", "importlib", "importlib._abc", "importlib._bootstrap", "warnings"),
        *("importlib._bootstrap_external", "tool_engine"),
        *("tool_engine.cli", "tool_engine.cli.start", "tool_engine.late_names"),
    }


@pytest.mark.parametrize("module", ["tool_engine.cli.app", "tool_engine.cli.files.list_command"])
def test_ctrl_c_while_it_starts(module: str) -> None:
    """Libraries are still being loaded, for all commands or for this one: 130 and no word."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTING.format(module=module)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
