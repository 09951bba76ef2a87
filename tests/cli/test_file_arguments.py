"""Whatever a file argument names, the command says what is wrong with it, and never hangs.

`READ` and `WRITTEN` have a row for each argument of the parser that names a file;
`test_every_file_argument_has_a_row` finds a new one.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.conftest import Command, Ended
from tool_engine import named_file
from tool_engine.cli.app import app

GOOD = "name: good\ndescription: A thing.\n"
CALL = {"tool": "echo", "params": {"message": "hi"}}
TRACED = {
    "call_id": "c1", "tool_name": "echo", "bucket": "http", "enqueued_at": 0.0,
    "started_at": 0.0, "ended_at": 1.0,
}  # fmt: skip
READ: dict[str, tuple[str, ...]] = {
    "validate PATH": ("validate", "{}"),
    "lint TARGET": ("lint", "{}"),
    "diff OLD": ("diff", "{}", "good.yaml"),
    "diff NEW": ("diff", "good.yaml", "{}"),
    "call --params": ("call", "echo", "--params", "{}"),
    "call KEY=VALUE": ("call", "echo", "message=@{}"),
    "task --params": (
        *("--records", "sqlite:///kept.db", "task", "start", "echo", "--params", "{}"),
    ),
    "batch FILE": ("batch", "{}"),
    "simulate TRACE": ("simulate", "{}"),
    "chat --script": ("chat", "--script", "{}", "hi"),
    "chat --model": ("chat", "--model", "recorded:{}", "hi"),
    "chat --system": ("chat", "--script", "script.yaml", "--system", "@{}", "hi"),
    "parse FILE": ("parse", "-p", "vcp", "{}"),
    "mcp --token-file": ("mcp", "serve", "--http", "127.0.0.1:0", "--token-file", "{}"),
    "serve --token-file": ("serve", "--port", "0", "--token-file", "{}"),
    "token --file": ("token", "list", "--file", "{}"),
    "lock --file": ("lock", "--check", "--file", "{}"),
    "--tools": ("--tools", "{}", "list"),
    "--directory": ("--directory", "{}", "list"),
    "init DIR": ("init", "{}"),
    "--path": ("--path", "{}", "list"),
    "--mcp-config": ("--mcp-config", "{}", "mcp", "list"),
    "mcp --mcp-config": ("mcp", "list", "--mcp-config", "{}"),
    "--records": ("--records", "sqlite:///{}", "history"),
}
WRITTEN: dict[str, tuple[str, ...]] = {
    "batch --trace": ("batch", "batch.json", "--trace", "{}"),
    "simulate --plot": ("simulate", "trace.jsonl", "--plot", "{}"),
    "stats --plot": ("stats", "--plot", "{}"),
    "export --output": ("export", "--output", "{}"),
    "test --junit": ("test", "echo", "--junit", "{}"),
    "schema --output": ("schema", "--output", "{}"),
    "lock --file": ("lock", "--file", "{}"),
}
FILES = ("missing", "folder", "latin", "empty", "/dev/null", "/dev/zero", "pipe", "loop", "closed")
FINE = {
    # A folder of definitions is one without any, a text may be empty, and so may a new database.
    **{key: {"folder"} for key in ("validate PATH", "lint TARGET", "diff OLD", "diff NEW")},
    "call KEY=VALUE": {"empty", "/dev/null"},
    "chat --system": {"empty", "/dev/null"},
    "parse FILE": {"latin", "empty", "/dev/null"},
    "--tools": {"folder"},
    "--directory": {"folder"},
    "init DIR": {"folder", "missing"},
    "--path": {"folder"},
    "--records": {"empty"},
}
"""What may be named."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds one of each."""
    monkeypatch.chdir(tmp_path)
    # A program that writes to the pipe will not come.
    monkeypatch.setattr(named_file, "_PATIENCE", 0.01)
    monkeypatch.setattr(named_file, "_MOST", 1 << 20)
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin").write_bytes(b"caf\xe9: \xff\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "closed").write_text(GOOD)
    (tmp_path / "closed").chmod(0)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "script.yaml").write_text("replies: [{text: 'Yes.'}]\n")
    (tmp_path / "batch.json").write_text(json.dumps([CALL]))
    (tmp_path / "trace.jsonl").write_text(json.dumps(TRACED) + "\n")
    return tmp_path


def run(command: Command, words: tuple[str, ...], file: str) -> Ended:
    return command(*(word.replace("{}", file) for word in words))


def check(ended: Ended, file: str) -> None:
    """One message, which has the path and what to do, and an exit code that says so."""
    told = ended.err or ended.out
    assert ended.code in (1, 2), ended
    assert "Traceback" not in told
    assert "[Errno" not in told
    assert file in told
    assert any(mark in told for mark in ("; ", ": ", " with ")), told


@pytest.mark.thinned(2)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("argument", READ)
def test_what_is_read(place: Path, command: Command, argument: str, file: str) -> None:
    """A file that is not there, is none, or holds something else is named, with the cure."""
    if file == "closed" and os.access(place / file, os.R_OK):
        pytest.skip("this user may read everything")
    ended = run(command, READ[argument], file)
    if file in FINE.get(argument, ()):
        assert "Traceback" not in ended.err
        return
    check(ended, file)


@pytest.mark.parametrize("file", ["missing/file", "folder", "pipe", "loop"])
@pytest.mark.parametrize("argument", WRITTEN)
def test_what_is_written(place: Path, command: Command, argument: str, file: str) -> None:
    """Nothing is written over what is no file, and nobody is waited for."""
    before = sorted(each.name for each in place.iterdir())
    check(run(command, WRITTEN[argument], file), file)
    assert (place / "folder").is_dir()
    assert (place / "pipe").is_fifo()
    assert (place / "loop").is_symlink()
    assert [name for name in sorted(each.name for each in place.iterdir()) if "." not in name] == [
        name for name in before if "." not in name
    ]


@pytest.mark.parametrize("argument", WRITTEN)
def test_devices_stay(place: Path, command: Command, argument: str) -> None:
    """What is written to a device goes there: a file never takes its place, even for root."""
    device = place / "device"
    try:
        os.mknod(device, 0o20666, os.makedev(1, 3))
    except OSError:
        pytest.skip("this user may make no devices")
    run(command, WRITTEN[argument], str(device))
    assert device.is_char_device()


@pytest.mark.parametrize("argument", sorted(set(WRITTEN)))
def test_a_link_stays_a_link(place: Path, command: Command, argument: str) -> None:
    """The file that it leads to is written."""
    (place / "link").symlink_to("elsewhere")
    assert run(command, WRITTEN[argument], "link").code == 0
    assert (place / "link").is_symlink()
    assert (place / "elsewhere").is_file()


def test_a_pipe_that_is_written_to(place: Path, command: Command) -> None:
    """As with `<(...)` of a shell: what a program writes is read to its end."""
    reader, writer = os.pipe()
    os.write(writer, json.dumps([CALL]).encode())
    os.close(writer)
    ended = command("batch", "--json", f"/dev/fd/{reader}")
    os.close(reader)
    assert ended.code == 0, ended


@pytest.mark.parametrize("opens", ["before", "meanwhile"])
def test_a_program_that_takes_its_time(
    place: Path, opens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has opened a pipe is waited for, however late it opens and writes."""
    ready, is_open, read = threading.Event(), threading.Event(), os.read

    def write() -> None:
        with (place / "pipe").open("wb", buffering=0) as stream:
            is_open.set()
            ready.wait()
            stream.write(b"late")

    def start_writer(*args: Any) -> bytes:
        monkeypatch.setattr(os, "read", read)
        data = read(*args)
        thread.start()
        is_open.wait()
        return data

    thread = threading.Thread(target=write)
    holder = os.open(place / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    if opens == "before":
        thread.start()
        is_open.wait()
    else:
        monkeypatch.setattr(os, "read", start_writer)
    timer = threading.Timer(0.05, ready.set)
    timer.start()
    assert named_file.read_named(place / "pipe") == b"late"
    os.close(holder)
    thread.join()


def parameters() -> dict[str, Any]:
    """Each parameter of each command, by the command and what stands for it in the help."""
    group: Any = typer.main.get_command(app)
    found = {}
    commands = {name: command.load() for name, command in group.commands.items()}
    for name, command in [("", group), *commands.items()]:
        for each in command.params:
            long = next((word for word in each.opts if word.startswith("--")), each.metavar)
            found[f"{name} {long}".strip()] = each
    return found


def test_every_file_argument_has_a_row() -> None:
    """By its sign in the help, or because the help speaks of a file or folder."""
    signs = {"FILE", "DIR", "PATH", "TRACE", "TARGET", "OLD", "NEW"}
    words = ("file", "folder", "@")
    named = {
        name
        for name, each in parameters().items()
        if each.metavar in signs or any(word in (each.help or "").lower() for word in words)
    }
    # The global one, said after the command; and what only speaks of files.
    named -= {name for name in named if name.endswith(" --tools")}
    named -= SPEAK_OF_FILES
    assert named <= READ.keys() | WRITTEN.keys(), named - READ.keys() - WRITTEN.keys()
    assert (READ.keys() | WRITTEN.keys()) <= parameters().keys()


SPEAK_OF_FILES = {
    "--recursive",
    "serve --root-path",
    "list --strict",
    "new --force",
    "validate --verbose",
    # A folder for files: tests/contracts/test_cures_of_servers.py.
    "mcp --output",
    # As `mcp --mcp-config`: what is wrong with it is an error of the engine that is served.
    "serve --mcp-config",
}
