"""Attacks from inside: scripts that are hostile themselves, in the sandbox of `run_shell_command`.

What is tried is tried for real, with the rights of whoever runs the tests, root among them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.security.shell_cell import BOUND, PYTHON, Cell
from tool_engine.executors.commands import sandbox_launcher, shell
from tool_engine.executors.commands.sandbox_launcher import find_obstacle
from tool_engine.executors.commands.shell_entry import ShellPlan

pytestmark = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")


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


@pytest.mark.thinned(2)
@pytest.mark.thinned(2)
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
        "chmod 777 ../library",
        "chmod 4755 file",
        "chmod 2755 file",
        "chown 1 ../library/file",
        "chgrp 1 ../library/file",
        "touch -d 2001-01-01 ../private/file",
        "touch ../library/file",
        "touch -d 2001-01-01 ../library/file",
        f"{PYTHON} -c 'import os; os.utime(os.open(\"../library/file\", 0), (5, 5))'",
        f"{PYTHON} -c 'import os; os.utime(os.open(\"../library/file\", 0))'",
        f"{PYTHON} -c 'import os; os.chmod(os.open(\"../library/file\", 0), 0)'",
        "chattr +d ../library/file",
        "flock ../library/file true",
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
async def test_what_a_script_may_not_do(cell_anywhere: Cell, script: str) -> None:
    """Nothing outside can be read, changed, signalled or slowed down."""
    cell = cell_anywhere
    before = {place: place.stat() for place in cell.folder.rglob("*")}
    output = await cell.run(script.replace("PID", str(os.getpid())))
    assert "not found" not in output["stderr"]
    assert output["exit_code"] != 0, output
    for place, stat in before.items():
        now = place.stat()
        assert (now.st_mode, now.st_uid) == (stat.st_mode, stat.st_uid)
        # Where it may make a file: of a folder in memory, that is a matter of its size, too.
        is_its_own = place.name in ("work", cell.folder.name)
        assert is_its_own or (now.st_size, now.st_mtime) == (stat.st_size, stat.st_mtime)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as such a user already")
def test_as_a_user_without_any_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not root, but the owner of all files: the same is kept in, and the same works."""
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("there is no interpreter that another user may run")
    nobody = 65534
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for place in (folder / "work", folder / "library", folder / "private"):
            place.mkdir()
            (place / "file").write_text("text")
            os.chown(place, nobody, nobody)
            os.chown(place / "file", nobody, nobody)
        launcher = folder / "launcher.py"
        launcher.write_text(Path(sandbox_launcher.__file__).read_text())
        monkeypatch.setattr(sandbox_launcher, "__file__", str(launcher))
        monkeypatch.setattr(sys, "executable", python)
        work, library = str(folder / "work"), str(folder / "library")
        plan = ShellPlan(cwd=work, read=(library,), write=(work,), network=False, deny=())
        command = shell._make_command(plan, OWNER)
        before = {place: place.stat() for place in folder.rglob("*") if "work" not in place.parts}
        done = subprocess.run(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            user=nobody,
            group=nobody,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        assert done.stdout == "read wrote\n", done
        for place, old in before.items():
            now = place.stat()
            assert now.st_mode == old.st_mode
            assert (now.st_mtime_ns, now.st_ctime_ns) == (old.st_mtime_ns, old.st_ctime_ns)


OWNER = """
    exec 2>/dev/null
    cat ../library/file > copy && grep -q text copy && echo "read wrote"
    touch ../library/file && echo touched
    chmod 700 ../library/file ../library ../private && echo changed
    cat ../private/file && echo seen
    python3 -c 'import os; os.utime(os.open("../library/file", 0), (5, 5))' && echo timed
    python3 -c 'import os; os.utime(os.open("../library/file", 0))' && echo timed
    python3 -c 'import socket; socket.socketpair(1, 2)' && echo paired
    chattr +d ../library/file && echo flagged
    kill -9 $PPID && echo killed
    chmod u+s copy && echo set
    true
"""


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
