"""What does a terminal show of a call's progress, and what do other programs?"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from tool_engine.cli.calls.progress_line import ProgressLine
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.progress import ToolProgress


class Terminal(io.TextIOWrapper):
    """An error output that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        written = self.buffer
        assert isinstance(written, io.BytesIO)
        return written.getvalue().decode(self.encoding)


def open_terminal(monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8") -> Terminal:
    """Makes the error output a terminal; within a test, for pytest sets its own before each."""
    made = Terminal(encoding)
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return made


def logged(message: str, level: str = "warning") -> ToolEngineEvent:
    kind = ToolEngineEventType.EXECUTION_LOGGED
    return ToolEngineEvent(kind, "copy", data={"level": level, "message": message})


def lines_of(text: str) -> list[str]:
    """What stood in the line, one after the other."""
    return [line for line in text.split("\r\x1b[K") if line]


def test_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar where the total is known, else the number; at the end nothing is left of it."""
    terminal = open_terminal(monkeypatch)
    line = ProgressLine()
    line.show("copy", ToolProgress(1, 4, "first"))
    line.show("copy", ToolProgress(4, 4))
    line.show("copy", ToolProgress(7))
    line.close()
    assert lines_of(terminal.shown()) == [
        f"copy  {'━' * 6}{'╺' * 18}   25%  1 of 4  first",
        f"copy  {'━' * 24}  100%  4 of 4",
        "copy  7",
    ]
    assert terminal.shown().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J\x1b]0;title\x07",
        "one\ntwo\r\nthree\x0bfour",
        "\u202eback\u2066",
        "wide 界" * 200,
        "\u0301" * 500,
        "\x9b31m",
        "tab\tbell\x07",
        "half \ud800",
    ],
    ids=["escapes", "lines", "bidi", "wide", "combining", "c1", "tab", "surrogate"],
)
def test_hostile_words(monkeypatch: pytest.MonkeyPatch, hostile: str) -> None:
    """Whatever a tool and its name say: one line of the terminal's width, without a control."""
    terminal = open_terminal(monkeypatch)
    line = ProgressLine()
    line.show(hostile, ToolProgress(1, 2, hostile))
    line.log(logged(hostile))
    line.close()
    text = terminal.shown()
    bar, *rest = lines_of(text)
    assert cell_len(bar) < 80
    (said,) = "".join(rest).splitlines()
    for shown in (bar, said):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert said.startswith("warning: ")


def test_a_terminal_that_knows_few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is drawn with what it has."""
    made = open_terminal(monkeypatch, "ascii")
    line = ProgressLine()
    line.show("copy", ToolProgress(1, 2, "é"))
    assert lines_of(made.shown()) == [f"copy  {'#' * 12}{'-' * 12}   50%  1 of 2  \\xe9"]


def test_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other programs get the lines that a tool logs, and no bars."""
    with (tmp_path / "err").open("w", encoding="utf-8") as file:
        monkeypatch.setattr("sys.stderr", file)
        line = ProgressLine()
        line.show("copy", ToolProgress(1, 2))
        assert line.counter("batch", 2) is None
        line.log(logged("page 3 is empty"))
        line.close()
    assert (tmp_path / "err").read_text() == "warning: page 3 is empty\n"
