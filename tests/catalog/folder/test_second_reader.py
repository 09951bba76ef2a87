"""Does a folder that two processes read load as one that one process reads?"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tool_engine.catalog.folder import cache, second_reader
from tool_engine.catalog.folder.cache_file import entry_of
from tool_engine.catalog.folder.folder_reading import Catalog
from tool_engine.catalog.folder.merging import FolderOutcome
from tool_engine.catalog.folder.second_reader import SecondReader, serve_reader
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import ToolConfigLoader, load_checked
from tool_engine.errors import DefinitionProblem
from tool_engine.model.tool import Tool

COUNT = 300
BOUND = 30.0
RULES = b"r" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Definitions, and every hundredth of them is wrong."""
    place = tmp_path / "tools"
    place.mkdir()
    for number in range(COUNT):
        name = f"Tool {number}" if number % 100 == 50 else f"tool_{number}"
        text = f"name: {name}\ndescription: Number {number}\ntags: [a, b]\n"
        (place / f"tool_{number:03}.yaml").write_text(text, encoding="utf-8")
    return place


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MIN_UNREAD", COUNT)
    monkeypatch.setattr(second_reader, "_may_start", lambda: True)


def start_with(monkeypatch: pytest.MonkeyPatch, code: str) -> list[subprocess.Popen[bytes]]:
    """Has `code` run in the place of the second process; returns those that are started."""
    started = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        return process

    monkeypatch.setattr(second_reader, "_start_process", start)
    return started


def files_of(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.iterdir())


def look(folder: Path, directory: Path | None = None) -> FolderOutcome:
    return Catalog(folder, cache_directory=None if directory is None else str(directory)).look()


def plain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FolderOutcome:
    """What one process finds alone."""
    with monkeypatch.context() as patched:
        patched.setattr(cache, "MIN_UNREAD", 10 * COUNT)
        return look(folder)


def shown(outcome: FolderOutcome) -> list[str]:
    """What is in each file, in one order: those that rest when a look begins are read first."""
    return sorted(repr((file.path, file.tools, str(file.error))) for file in outcome.files)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def told_first(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Has the first process wait until the second one has told of `count` texts."""
    original = SecondReader.__init__

    def waiting(self: SecondReader, files: list[str]) -> None:
        original(self, files)
        until(lambda: len(self.entries) >= count)

    monkeypatch.setattr(SecondReader, "__init__", waiting)


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits the package while its tests run has other rules from then on."""
    code = second_reader._START.replace(
        "import serve_reader;",
        "import serve_reader; import tool_engine.catalog.folder.second_reader as r; "
        f"r.rules_version = lambda: {RULES!r};",
    )
    monkeypatch.setattr(second_reader, "_START", code)
    monkeypatch.setattr(second_reader, "rules_version", lambda: RULES)


@pytest.mark.usefixtures("rules")
def test_a_group_beside_tools_is_not_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10: the other process tells of tools only, so it tells nothing of a file with a group."""
    text = "name: zz\ndescription: d\n---\nkind: group\nname: last\ntools: [zz]\n"
    (folder / "zz.yaml").write_text(text, encoding="utf-8")
    told_first(monkeypatch, 100)
    found = look(folder)
    assert [group.name for group in found.groups] == ["last"]
    assert "zz" in found.claims


@pytest.mark.usefixtures("rules")
def test_the_same_tools(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: two processes find what one finds, faults and all, and share the work."""
    expected = plain(folder, monkeypatch)
    read: list[str] = []
    original = load_checked

    def counted(text: bytes, source: str, check: Any) -> list[Definition]:
        read.append(source)
        return original(text, source, check)

    monkeypatch.setattr("tool_engine.catalog.folder.cache.load_checked", counted)
    told_first(monkeypatch, 100)
    assert shown(look(folder)) == shown(expected)
    assert 0 < len(read) <= COUNT - 100
    cached = [look(folder, tmp_path / "cache") for _ in range(2)]
    assert [shown(each) for each in cached] == [shown(expected)] * 2


@pytest.mark.usefixtures("rules")
def test_killed_at_any_moment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: when the second process dies, the first one reads all that is left."""
    expected = plain(folder, monkeypatch)
    original = SecondReader.__init__

    def killed(self: SecondReader, files: list[str]) -> None:
        original(self, files)
        until(lambda: self.entries)
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)

    monkeypatch.setattr(SecondReader, "__init__", killed)
    assert shown(look(folder)) == shown(expected)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import os; os._exit(3)",
        "print('hello')",
        "import sys; sys.stdin.read(); sys.stdout.write('x' * 1000)",
        f"import os, sys; sys.stdin.read(); os.write(1, {RULES!r} + bytes(3) + b'\\x04zzzz')",
        f"import os; os.write(1, {RULES!r} + b'\\x7f\\xff\\xff\\xff'); os.close(1)",
        "import os; os.close(0); os.close(1); import time; time.sleep(60)",
        "import time; time.sleep(60)",
    ],
)
def test_whatever_was_started(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Issue 4, 5: what is no reader, or one of other rules, changes nothing and is ended."""
    expected = plain(folder, monkeypatch)
    monkeypatch.setattr(second_reader, "rules_version", lambda: RULES)
    started = start_with(monkeypatch, code)
    assert shown(look(folder)) == shown(expected)
    (process,) = started
    assert process.returncode is not None


def test_nothing_can_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: a program that may start no process loads its tools alone."""
    expected = plain(folder, monkeypatch)

    def refuse() -> subprocess.Popen[bytes]:
        raise PermissionError("no process for you")

    monkeypatch.setattr(second_reader, "_start_process", refuse)
    assert shown(look(folder)) == shown(expected)


@pytest.mark.parametrize(
    ("executable", "processors", "is_frozen", "may"),
    [
        ("/usr/bin/python3.11", 2, False, True),
        ("/usr/bin/python3.11", 1, False, False),
        ("/usr/bin/python3.11", 2, True, False),
        ("/opt/program", 2, False, False),
        ("", 2, False, False),
        (None, 2, False, False),
    ],
)
def test_who_may_start_one(
    monkeypatch: pytest.MonkeyPatch,
    executable: str | None,
    processors: int,
    is_frozen: bool,
    may: bool,
) -> None:
    """Issue 4, 5: a program that is no interpreter must not start itself again."""
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "frozen", is_frozen, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    assert second_reader._may_start() is may
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    assert second_reader._may_start() is may


@pytest.mark.usefixtures("rules")
def test_ends_with_a_look_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: no process and no thread stays, whatever ends the look."""
    ended: list[SecondReader] = []
    original = SecondReader.close

    def close(self: SecondReader) -> None:
        process = self._process
        original(self)
        original(self)
        assert process is not None
        assert process.returncode is not None
        assert not self._thread.is_alive()
        ended.append(self)

    monkeypatch.setattr(SecondReader, "close", close)

    def interrupt(tool: Tool) -> list[str]:
        raise KeyboardInterrupt(tool.name)

    with pytest.raises(KeyboardInterrupt):
        Catalog(folder, cache_directory=None, check=interrupt).look()  # type: ignore[arg-type]
    assert len(ended) == 1


def test_what_the_second_process_tells(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells of every right text, the last file first, and nothing of a wrong one."""
    files = files_of(folder)
    given = io.BytesIO(msgspec.msgpack.encode([os.fsencode(file) for file in files]))
    told = io.BytesIO()
    monkeypatch.setattr(second_reader, "rules_version", lambda: RULES)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=told))
    serve_reader()
    told.seek(0)
    assert told.read(len(RULES)) == RULES
    batches = list(second_reader._read_batches(told))
    assert [len(batch) for batch in batches] == [99, 99, 99]
    (first, *_) = batches[0].values()
    assert b"Number 299" in first
    assert not told.read()
    monkeypatch.undo()


def test_nobody_listens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process ends by itself when the first one is gone."""
    given = io.BytesIO(msgspec.msgpack.encode([os.fsencode(file) for file in files_of(folder)]))

    def gone() -> None:
        raise BrokenPipeError

    told = SimpleNamespace(write=lambda _: None, flush=gone)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=told))
    monkeypatch.setattr(second_reader, "rules_version", lambda: RULES)
    serve_reader()
    assert given.read() == b""


@pytest.mark.usefixtures("rules")
def test_what_was_told_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: only this process knows what its executors say of an entry."""
    told_first(monkeypatch, 100)

    def refuse(tool: Tool) -> list[DefinitionProblem]:
        return [DefinitionProblem("no", str(tool.source))] if tool.name == "tool_299" else []

    outcome = Catalog(folder, cache_directory=None, check=refuse).look()
    files = {Path(file.path).stem: file for file in outcome.files}
    assert files["tool_299"].tools == []
    assert "no" in str(files["tool_299"].error)
    assert [tool.name for tool in files["tool_298"].tools] == ["tool_298"]


def test_other_rules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, 5: what code of another version reads is not believed."""
    expected = plain(folder, monkeypatch)
    texts = [Path(file).read_bytes() for file in files_of(folder)]
    (forged,) = ToolConfigLoader().load_tools(b"name: forged\ndescription: Not what it says.")
    batch = {hashlib.sha256(text).digest(): entry_of([forged], "x") for text in texts}
    data = msgspec.msgpack.encode(batch)
    message = folder.parent / "message"

    def look_at(version: bytes) -> list[str]:
        message.write_bytes(version + len(data).to_bytes(4, "big") + data)
        return shown(look(folder))

    code = (
        f"import sys; sys.stdin.read(); sys.stdout.buffer.write(open({str(message)!r},'rb').read())"
    )
    start_with(monkeypatch, code)
    monkeypatch.setattr(second_reader, "rules_version", lambda: RULES)
    assert look_at(b"o" * len(RULES)) == shown(expected)
    told_first(monkeypatch, 100)
    assert "forged" in look_at(RULES)[0]
