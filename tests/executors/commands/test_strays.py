"""How processes are found by their mark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tool_engine.executors.commands import strays
from tool_engine.executors.commands.strays import (
    MARK,
    end_strays,
    is_group_alive,
    marks_with,
    new_mark,
)

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(environment: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["/bin/sleep", "60"], env=environment, start_new_session=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_only_the_marked_end(start: Start) -> None:
    """A mark in another variable, or another mark, is not enough."""
    mark, other = new_mark(), new_mark()
    marked = [start({MARK: f":{mark}", "A": "b"}) for _ in range(3)]
    others = [start({MARK: f":{other}"}), start({"X": mark}), start({f"X{MARK}": mark})]
    assert end_strays(mark) == 3
    # They are children of this process, and so they have been reaped there and then.
    for process in marked:
        assert not is_group_alive(process.pid)
    assert all(process.poll() is None for process in others)
    assert end_strays(mark) == 0


def test_the_marks_of_outer_commands_are_kept(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that runs an engine of its own takes along what that engine runs."""
    monkeypatch.delenv(MARK, raising=False)
    outer, inner = new_mark(), new_mark()
    assert marks_with(outer) == f":{outer}"
    monkeypatch.setenv(MARK, marks_with(outer))
    process = start({MARK: marks_with(inner)})
    assert end_strays(outer) == 1
    assert not is_group_alive(process.pid)


def test_older_processes_are_spared_a_look(start: Start) -> None:
    """Of a command that ended by itself only what is younger is looked at."""
    mark = new_mark()
    process = start({MARK: mark})
    assert end_strays(mark, younger_than=process.pid) == 0
    assert end_strays(mark, younger_than=process.pid - 1) == 1


def test_numbers_that_begin_anew(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the numbers of processes have begun anew, a small one may be a young one."""
    mark = new_mark()
    process = start({MARK: mark})
    monkeypatch.setattr(strays, "_last_process", lambda: process.pid)
    assert end_strays(mark, younger_than=process.pid + 1000) == 1


def test_a_program_that_is_just_beginning(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment a new program has no environment: it is waited for, and ended as well."""
    mark = new_mark()
    process = start({MARK: mark})
    read, is_starting, looks = strays._read_content, strays._is_starting, iter([b""])

    def read_late(path: str) -> bytes:
        is_its = path == f"/proc/{process.pid}/environ"
        return next(looks, read(path)) if is_its else read(path)

    def starts(pid: str) -> bool:
        return is_starting(pid) or (pid == str(process.pid) and next(begins, False))

    begins = iter([True])
    monkeypatch.setattr(strays, "_read_content", read_late)
    monkeypatch.setattr(strays, "_is_starting", starts)
    assert end_strays(mark, younger_than=process.pid - 1) == 1


def test_many_programs_that_begin(start: Start) -> None:
    """None is overlooked, in whatever moment it is."""
    for _ in range(20):
        mark = new_mark()
        process = start({MARK: mark})
        assert end_strays(mark, younger_than=process.pid - 1) == 1
        assert not is_group_alive(process.pid)


def test_what_proc_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that has ended meanwhile, or is another user's, counts as not there."""
    assert strays._read_content("/proc/0/environ") == b""
    assert strays._read_content(str(tmp_path)) == b""
    monkeypatch.setattr(strays, "_read_content", lambda path: b"")
    assert strays._last_process() == 0
    assert not is_group_alive(os.getpgrp())


def test_a_number_that_went_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the mark no more when there is a handle is not killed."""
    answers = iter([True, False])
    monkeypatch.setattr(strays, "_list_processes", lambda: [str(os.getpid())])
    monkeypatch.setattr(strays, "_has_mark", lambda pid, mark: next(answers))
    assert end_strays("mark") == 0


def test_is_group_alive(start: Start) -> None:
    """A zombie is not alive."""
    process = start({})
    assert is_group_alive(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_group_alive(process.pid)
