"""Is a file the old one or the new one at every moment?"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files import replacing
from tool_engine.model.call import ToolExecutionContext

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk

LIMIT = 30.0
WRITER = """
import sys
from tests.executors.files.conftest import Desk
from pathlib import Path
desk = Desk.__new__(Desk)
desk.root, desk.deadline, desk._executors = Path(sys.argv[1]), None, {}
print("ready", flush=True)
while True:
    for letter in "ab":
        desk.write("a.txt", letter * 1_000_000)
"""
STEPS = ("write", "fsync", "fchmod", "rename", "stat")


def refuse(error: int) -> Callable[..., Any]:
    def refusing(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    return refusing


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_step_that_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, step: str, error: int
) -> None:
    """Whichever step the system refuses, the old file stays and nothing is left beside it."""
    file, tool = desk.put("a.txt", "old"), desk.tool("write_file")
    monkeypatch.setattr(os, step, refuse(error))
    with pytest.raises(ToolExecutionError, match=r"'a\.txt'"):
        desk.run(tool, path="a.txt", content="new")
    monkeypatch.undo()
    assert file.read_text() == "old"
    assert desk.names() == {"a.txt"}


def test_file_system_without_hard_links(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no hard links, a new file gets its name by a rename."""
    monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    assert desk.write("a.txt", "new")["created"]
    assert desk.names() == {"a.txt"}


def test_owner_that_cannot_be_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is kept where the system allows it, and is no reason to fail."""
    desk.put("a.txt", "old")
    monkeypatch.setattr(os, "fchown", refuse(errno.EPERM))
    desk.write("a.txt", "new")
    assert (desk.root / "a.txt").read_text() == "new"


def test_folder_that_cannot_be_synced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems refuse to sync a folder; the file is written all the same."""
    real, kinds = os.fsync, []

    def sync(descriptor: int) -> None:
        is_folder = Path(f"/proc/self/fd/{descriptor}").is_dir()
        kinds.append(is_folder)
        if is_folder:
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    desk.write("a.txt", "new")
    assert kinds == [False, True]  # the file before it is renamed, the folder after


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "replaced"])
@pytest.mark.parametrize("other", ["appears", "changes", "becomes a link"])
def test_change_at_the_last_moment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_new: bool, other: str
) -> None:
    """What somebody else puts there while the new file is written is not overwritten."""
    file = desk.root / "a.txt"
    if not is_new:
        file.write_text("old")
    real = replacing._write_file

    def write(*args: Any) -> None:
        real(*args)
        file.unlink(missing_ok=True)
        if other == "becomes a link":
            file.symlink_to(desk.outside / "secret.txt")
        else:
            file.write_text("somebody else's")

    monkeypatch.setattr(replacing, "_write_file", write)
    with pytest.raises(ToolExecutionError, match="changed by another program"):
        desk.write("a.txt", "mine")
    assert "mine" not in file.read_text()
    assert desk.names() == {"a.txt"}


def test_new_file_that_appears_after_the_last_look(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file never replaces one: its name is given only if it is free."""
    real = replacing._check_unchanged

    def check(*args: Any) -> None:
        real(*args)
        desk.put("a.txt", "somebody else's")

    monkeypatch.setattr(replacing, "_check_unchanged", check)
    with pytest.raises(ToolExecutionError, match="changed by another program"):
        desk.write("a.txt", "mine", create_only=True)
    assert (desk.root / "a.txt").read_text() == "somebody else's"
    assert desk.names() == {"a.txt"}


def test_edits_at_once_all_count(desk: Desk) -> None:
    """No edit is lost when many threads edit one file."""
    desk.put("a.txt", "".join(f"<{number}>\n" for number in range(40)))
    failures: list[BaseException] = []

    def edit(numbers: range) -> None:
        try:
            for number in numbers:
                desk.edit("a.txt", f"<{number}>", f"<{number} done>")
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            failures.append(error)

    desk.read("a.txt")
    threads = [threading.Thread(target=edit, args=(range(n, 40, 4),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert failures == []
    assert (desk.root / "a.txt").read_text().count("done") == 40


def test_folder_that_somebody_holds(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is never given back ends in an error, not in a wait without end."""
    desk.put("a.txt", "old")
    monkeypatch.setattr(replacing, "_PATIENCE", 0.02)
    holder = os.open(desk.root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        with pytest.raises(ToolExecutionError, match="being changed by others"):
            desk.write("a.txt", "new")
        monkeypatch.setattr(replacing, "_PATIENCE", 1_000.0)
        desk.deadline = time.monotonic() + 0.02
        with pytest.raises(ToolExecutionError, match="being changed by others"):
            desk.write("a.txt", "new")
        desk.deadline = None
        assert desk.read("a.txt")["content"] == "old"
    finally:
        os.close(holder)
    desk.write("a.txt", "new")


def test_call_that_was_given_up(desk: Desk) -> None:
    """After its deadline a call changes nothing: its caller was told that it has failed."""
    file = desk.put("a.txt", "old")
    desk.deadline = time.monotonic() - 1
    for attempt in ("a.txt", "b.txt"):
        with pytest.raises(ToolExecutionError, match="the time of the call was over"):
            desk.write(attempt, "new")
    with pytest.raises(ToolExecutionError, match="the time of the call was over"):
        desk.edit("a.txt", "old", "new")
    assert file.read_text() == "old"
    assert desk.names() == {"a.txt"}


def test_file_system_without_locks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder cannot be locked, files are written all the same."""
    monkeypatch.setattr(fcntl, "flock", refuse(errno.EBADF))
    assert desk.write("a.txt", "new")["created"]


def test_folder_that_cannot_be_opened_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is closed to the process meanwhile is told in words."""
    real = os.open

    def opening(path: str, *args: Any, **kwargs: Any) -> int:
        if path == ".":
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "supports_dir_fd", {opening})
    with pytest.raises(ToolExecutionError, match="too many open files"):
        desk.write("a.txt", "new")


def test_killed_writer(tmp_path: Path) -> None:
    """A process that is killed leaves a whole file, and beside it at most its own hidden one."""
    (tmp_path / "a.txt").write_text("b" * 1_000_000)
    for round_number in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        # Each round is killed at another moment of its work.
        for _ in range(3 + 5 * round_number):
            content = (tmp_path / "a.txt").read_text()
            assert content in ("a" * 1_000_000, "b" * 1_000_000)
        writer.send_signal(signal.SIGKILL)
        writer.wait(LIMIT)
        writer.stdout.close()
        assert (tmp_path / "a.txt").read_text() in ("a" * 1_000_000, "b" * 1_000_000)
    left = {path.name for path in tmp_path.iterdir()} - {"a.txt"}
    assert all(name.startswith(".tool-engine-") and name.endswith(".tmp") for name in left)


async def test_cancelled_write(desk: Desk) -> None:
    """Wherever a call is cancelled, the file is the old or the new one, and alone."""
    file = desk.put("a.txt", "old" * 100_000)
    tool = await asyncio.to_thread(desk.tool, "write_file")
    config = ToolEngineConfig(auto_reload=False, tools_directory=str(desk.outside))
    async with ToolEngine(config) as engine:
        engine.register_tool(tool)
        for turns in range(0, 60, 3):
            params = {"path": "a.txt", "content": f"new {turns}" * 100_000}
            task = asyncio.create_task(engine.execute("write_file", params, ToolExecutionContext()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            async with asyncio.timeout(LIMIT):
                await asyncio.wait([task])
            content = await asyncio.to_thread(file.read_text)
            assert len(content) in (300_000, 500_000, 600_000)
            assert content == content[: len(content) // 100_000] * 100_000
    assert desk.names() == {"a.txt"}
