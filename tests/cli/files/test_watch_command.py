"""`watch` prints what changes in the folder until Ctrl-C."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from rich.console import Console

from tests.cli.talking import CTRL_C, STYLE, at_terminal
from tool_engine.cli.app import run
from tool_engine.cli.files import watch_command
from tool_engine.cli.files.watch_table import WatchTable
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType


@contextmanager
def watch(tools: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], Queue[str]]]:
    """A running `tool-engine watch`, and the lines that it has printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tool_engine.cli", "--tools", str(tools), "watch", *words],
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield process, lines
    finally:
        process.kill()
        reader.join(20)
        process.communicate(timeout=20)


def next_event(lines: Queue[str], event_type: str) -> dict[str, Any]:
    """The next event of this type; bounded."""
    while True:
        event: dict[str, Any] = json.loads(lines.get(timeout=20))
        if event["event_type"] == event_type:
            return event


def replace(path: Path, text: str) -> None:
    """Writes a file whole, so that no half of it is ever seen."""
    scratch = path.with_suffix(".new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)


def test_watch_prints_changes_as_json_lines_until_ctrl_c(tools: Path) -> None:
    """Added, updated, broken and removed are each a line; Ctrl-C ends it with 130."""
    with watch(tools, "--json") as (process, lines):
        next_event(lines, "tool_loaded")
        new = tools / "ping.yaml"
        replace(new, "name: ping\ndescription: x\n")
        assert next_event(lines, "tool_added")["tool_name"] == "ping"
        replace(new, 'name: ping\ndescription: x\nversion: "2.0.0"\n')
        assert next_event(lines, "tool_updated")["version"] == "2.0.0"
        replace(new, "name: [")
        assert "ping.yaml" in next_event(lines, "load_error")["error"]
        new.unlink()
        assert next_event(lines, "tool_removed")["tool_name"] == "ping"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_watch_prints_lines_for_people(tools: Path) -> None:
    """Time, event, tool and version on one line each, without escapes when it is no terminal."""
    with watch(tools) as (process, lines):
        line = lines.get(timeout=20)
        while "tool_loaded" not in line:
            line = lines.get(timeout=20)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    assert "version 1.0.0" in line
    assert "\x1b" not in line


def test_watch_of_a_missing_folder_is_a_usage_error(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    """A typo does not watch nothing for ever."""
    ended = command("--tools", str(tmp_path / "none"), "watch")
    assert ended.code == 2
    assert "does not exist" in ended.err


@pytest.mark.parametrize("words", [("--json",), ()])
def test_watch_in_this_process(
    command: Callable[..., Any],
    tools: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    """The same as seen from inside: a real SIGINT arrives once the last event is printed."""
    (tools / "broken.yaml").write_text("name: [", encoding="utf-8")
    name = "_print_json" if words else "_print_text"
    original = getattr(watch_command, name)

    def show(event: Any) -> None:
        original(event)
        if event.event_type.value == "load_error":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(watch_command, name, show)
    ended = command("watch", *words)
    assert ended.code == 130
    assert "load_error" in ended.out
    assert "tool_loaded" in ended.out
    assert "Traceback" not in ended.err


def test_watch_ends_when_its_reader_has_gone(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`watch | head -1` ends without waiting for the next event, which may never come."""
    (tools / "broken.yaml").write_text("name: [", encoding="utf-8")
    reader, writer = os.pipe()
    original = watch_command._print_json

    def show(event: Any) -> None:
        original(event)
        if event.event_type.value == "load_error":
            os.close(reader)

    monkeypatch.setattr(watch_command, "_print_json", show)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run(["--tools", str(tools), "watch", "--json"]) == 1


def test_a_pipe_gets_tabs(tools: Path) -> None:
    """One event a line, however long its text, with tabs between what it says."""
    (tools / "broken.yaml").write_text(f"name: [\n# {'long ' * 60}\n", encoding="utf-8")
    with watch(tools) as (_, lines):
        line = lines.get(timeout=20)
        while "load_error" not in line:
            line = lines.get(timeout=20)
    _, kind, name, said = line.rstrip("\n").split("\t")
    assert (kind, Path(name).name) == ("load_error", "broken.yaml")
    assert "broken.yaml:2:1" in said or "broken.yaml:3:1" in said


def test_a_terminal_shows_one_table(tmp_path: Path) -> None:
    """A tool has one row, which changes; a file that is wrong has one until it is mended."""
    folder = tmp_path / "tools"
    folder.mkdir()
    replace(folder / "ping.yaml", "name: ping\ndescription: x\n")
    with at_terminal(tmp_path, command="watch") as screen:
        screen.shows("ping")
        screen.shows("tool_loaded")
        screen.shows("1 tool; Ctrl-C ends")
        replace(folder / "ping.yaml", 'name: ping\ndescription: x\nversion: "2.0.0"\n')
        screen.shows("tool_updated")
        screen.shows("version 2.0.0")
        replace(folder / "bad.yaml", "name: [")
        screen.shows("bad.yaml")
        screen.shows("1 tool, 1 wrong, last reload")
        (folder / "bad.yaml").unlink()
        screen.shows("1 tool, last reload")
        screen.type(CTRL_C)
        assert screen.ends() == 130
    assert "Traceback" not in screen.whole
    assert "\x1b[1A" in screen.whole  # drawn over the former one


def test_a_table_is_no_longer_than_the_terminal() -> None:
    """Of many tools the newest stand there, those that are wrong above them, and how many more."""
    shown = io.StringIO()
    console = Console(file=shown, width=100, height=12, force_terminal=True)
    with WatchTable(console) as table:
        for number in range(50):
            table.note_event(ToolEngineEvent(ToolEngineEventType.TOOL_REMOVED, f"tool_{number}"))
        wrong = {"file": "bad.yaml"}
        error = ToolEngineEvent(ToolEngineEventType.LOAD_ERROR, error="bad.yaml:1:1", data=wrong)
        table.note_event(error)
        table.note_event(ToolEngineEvent(ToolEngineEventType.TOOL_REMOVED, "tool_7"))
        table.refresh()
    text = STYLE.sub("", shown.getvalue())
    last = text[text.rindex("time") :]
    assert last.index("bad.yaml") < last.index("tool_7") < last.index("tool_49")
    assert "… and 46 more" in last
    assert len(last.strip().splitlines()) <= 12
