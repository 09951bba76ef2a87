"""Attacks from inside: scripts that are hostile themselves, in the sandbox of `run_shell_command`.

What is tried is tried for real, with the rights of whoever runs the tests, root among them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tool_engine import Tool, ToolExecutionContext
from tool_engine.executors.commands.sandbox_launcher import obstacle
from tool_engine.executors.commands.shell import ShellExecutor
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import ToolCategory

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "it can")

BOUND = 20.0
PYTHON = f"{sys.base_prefix}/bin/python3"


class Cell:
    """A folder that scripts may write to, one that they may read, and one that is private."""

    def __init__(self, folder: Path) -> None:
        for name in ("work", "library", "private"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(f"text of {name}")
        self.folder = folder
        self.tag = uuid.uuid4().hex
        self.executor = ShellExecutor()

    async def run(self, script: str, seconds: float = BOUND, *, network: bool = False) -> Any:
        read = [str(self.folder / "library"), sys.base_prefix]
        config = {"read": read, "write": [str(self.folder / "work")], "network": network}
        tool = Tool(
            id="shell",
            name="shell",
            version="1.0.0",
            description="A sample",
            category=ToolCategory.CUSTOM,
            tags=[],
            parameters=[ToolParameter("script", "string", required=True)],
            implementation_config={"cwd": str(self.folder / "work"), "config": config},
        )
        context = ToolExecutionContext()
        context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, {"script": f": {self.tag}\n{script}"}, context)

    async def python(self, code: str, **more: Any) -> str:
        """What Python code prints in the cell."""
        (self.folder / "work" / "code.py").write_text(textwrap.dedent(code))
        output = await self.run(f"{PYTHON} -I code.py {self.tag}", **more)
        assert output["stderr"] == ""
        return str(output["stdout"])

    def left(self) -> list[int]:
        """The processes whose command line still has the tag: scripts may wipe the rest."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.tag in (place / "cmdline").read_text():
                        found.append(int(place.name))
        return found


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    found = Cell(tmp_path)
    yield found
    assert (tmp_path / "private" / "file").read_text() == "text of private"
    assert (tmp_path / "library" / "file").read_text() == "text of library"
    assert found.left() == []


async def test_what_a_script_may_do(cell: Cell) -> None:
    """Ordinary work goes on: pipes, files, folders, renaming, children, its own signals."""
    script = """
        cat ../library/file; echo; mkdir -p a/b; seq 3 | sort -r > a/b/numbers
        mv a/b/numbers a/n; ln -s n a/link; cat a/link; touch new; rm -r a new
        sleep 60 & kill $!; wait $! 2>/dev/null; echo "ended $?"; timeout 5 true && echo done
        echo "$HOME $TMPDIR" > /dev/null; nproc > /dev/null; ls
    """
    output = await cell.run(script)
    assert output["stderr"] == ""
    assert output["stdout"] == "text of library\n3\n2\n1\nended 143\ndone\nfile\n"


@pytest.mark.parametrize(
    "script",
    [
        "cat ../private/file",
        "ls ../private",
        "ln ../private/file mine",
        "ln -s ../private/file mine && cat mine",
        "echo x > ../private/new",
        "echo x > ../private/file",
        "echo x >> ../library/file",
        "truncate -s 0 ../library/file",
        "rm -f ../private/file",
        "mv ../private/file here",
        "mv ../library/file here",
        "mkdir ../private/folder",
        "chmod 777 ../private/file",
        "chmod 777 ../library/file",
        "chmod 777 file",
        "chown 1 ../library/file",
        "touch -d 2001-01-01 ../private/file",
        f'{PYTHON} -c \'import os; os.setxattr("../library/file", "user.a", b"b")\'',
        "mknod disk b 8 0",
        "cat /etc/passwd",
        "cat /etc/shadow",
        "cat /proc/self/environ",
        "cat /proc/1/environ",
        "ls /root",
        "ls /home",
        "ls /tmp",
        "echo x > /usr/x",
        "mount -t tmpfs none .",
        "unshare -r true",
        "chroot . true",
        "setsid true",
        "kill -9 PID",
        "kill -0 PID",
        "kill -0 1",
        "prlimit --pid PID --core=0",
        "renice 10 PID",
        "taskset -p 1 PID",
        "ulimit -c unlimited",
    ],
)
async def test_what_a_script_may_not_do(cell: Cell, script: str) -> None:
    """Nothing outside can be read, changed, signalled or slowed down."""
    before = {place: place.stat() for place in cell.folder.rglob("*")}
    output = await cell.run(script.replace("PID", str(os.getpid())))
    assert "not found" not in output["stderr"]
    assert output["exit_code"] != 0, output
    for place, stat in before.items():
        now = place.stat()
        assert (now.st_mode, now.st_uid, now.st_size) == (stat.st_mode, stat.st_uid, stat.st_size)
        assert now.st_mtime == stat.st_mtime or place.name in ("work", cell.folder.name)


async def test_no_network(cell: Cell) -> None:
    """No socket of any kind, so no name either: nothing is told to anybody."""
    code = """
        import socket
        for family in range(1, 46):
            for kind in (1, 2, 3, 5):
                try:
                    socket.socket(family, kind)
                    print("open", family, kind)
                except OSError as error:
                    assert error.errno == 1, error
        print(len(socket.socketpair()))
    """
    assert await cell.python(code) == "2\n"


async def test_network_is_the_internet_only(cell: Cell) -> None:
    """With `network: true` a script may dial, but not the sockets of local services."""
    listener = socket.create_server(("127.0.0.1", 0))
    code = f"""
        import socket
        print(socket.create_connection(("127.0.0.1", {listener.getsockname()[1]})) is not None)
        for family in (1, 16, 17, 38, 40):
            try:
                socket.socket(family)
                print("open", family)
            except OSError as error:
                assert error.errno == 1, error
    """
    with listener:
        assert await cell.python(code, network=True) == "True\n"


async def test_calls_that_lead_around(cell: Cell) -> None:
    """Each way around that the kernel offers beside is closed, whoever runs it."""
    code = f"""
        import ctypes, mmap, platform, struct
        libc = ctypes.CDLL(None, use_errno=True)
        x86 = platform.machine() == "x86_64"
        def call(*numbers):
            ctypes.set_errno(0)
            result = libc.syscall(*(ctypes.c_long(number) for number in numbers))
            return result, ctypes.get_errno()
        for number in (425, 428, 430, 438, 440, 442, 452, 463, 469):
            assert call(number, 0, 0, 0, 0, 0) == (-1, 1), number
        assert call(435, 0, 0) == (-1, 38)
        for flag in (0x20000, 0x10000000, 0x20000000, 0x40000000):
            assert call(56 if x86 else 220, flag | 17, 0, 0, 0, 0) == (-1, 1), flag
        # Another process may not be limited, this one may look at its own limits.
        assert call(302 if x86 else 261, {os.getpid()}, 7, 0, 0) == (-1, 1)
        assert call(302 if x86 else 261, 0, 7, 0, 0)[0] == 0
        # A pointer whose lower half is nothing is a pointer all the same.
        address = 1 << 32
        found = libc.mmap
        found.restype = ctypes.c_void_p
        found.argtypes = (ctypes.c_void_p, ctypes.c_size_t) + (ctypes.c_int,) * 3 + (ctypes.c_long,)
        assert found(address, 4096, 3, 0x100022, -1, 0) == address
        path = b"../private/file\\0"
        ctypes.memmove(address, path, len(path))
        assert call(280 if x86 else 88, -100, address, 0, 0) == (-1, 1)
        print("closed")
    """
    assert await cell.python(code) == "closed\n"


async def test_no_rights_of_root(cell: Cell) -> None:
    """Whoever runs the engine, a script has no capability, and gains none."""
    code = """
        import ctypes, struct
        header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
        data = ctypes.create_string_buffer(24)
        assert ctypes.CDLL(None).capget(header, data) == 0
        print(struct.unpack("6I", data.raw[:24])[0::3], ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))
    """
    assert await cell.python(code) == "(0, 0) 1\n"


FLIGHTS = {
    "another session": "(setsid sleep 60 &)",
    "no environment": f"env -i {PYTHON} -c 'import time; time.sleep(60)' TAG &",
    "both, twice": (
        f"({PYTHON} -c 'import os, time\n"
        "for flee in (os.setsid, os.setpgrp):\n"
        " try: flee()\n"
        " except OSError: pass\n"
        "os.environ.clear()\n"
        'if os.fork() == 0: os.execve("/bin/sleep", ["TAG", "60"], {})\n'
        "' TAG &)"
    ),
    "deaf": "trap '' TERM; sleep 60 TAG & sleep 60",
}


@pytest.mark.parametrize("script", FLIGHTS.values(), ids=FLIGHTS)
async def test_nobody_gets_away(cell: Cell, script: str) -> None:
    """A script that means to outlive its call cannot: it cannot leave the group that is killed."""
    script = script.replace("TAG", cell.tag)
    with pytest.raises(TimeoutError):
        await cell.run(f"{script}\nsleep 60", 1.5)
    assert cell.left() == []
    await cell.run(f"{script.replace('& sleep 60', '&')}\nsleep 0.2")
    assert cell.left() == []


async def test_the_engine_lives_on(cell: Cell) -> None:
    """No signal reaches this process, whichever it is."""
    heard: list[int] = []
    before = {
        number: signal.signal(number, lambda got, frame: heard.append(got))
        for number in (signal.SIGUSR1, signal.SIGHUP)
    }
    try:
        output = await cell.run(f"kill -USR1 {os.getpid()}; kill -HUP -1; kill -HUP $PPID; echo on")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == []
    assert "on" in output["stdout"] or output["exit_code"] == -signal.SIGHUP
