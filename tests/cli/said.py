"""What does the program say to a line that is typed?"""

from __future__ import annotations

import shlex

import pytest

from tool_engine.cli.app import run


def say(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code, and all that was printed, its lines and spaces as one; never a traceback."""
    capsys.readouterr()
    code = run(shlex.split(line))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, " ".join((out + err).split())
