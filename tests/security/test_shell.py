"""Attacks from inside: scripts that are hostile themselves, in the sandbox of `run_shell_command`.

What is tried is tried for real, with the rights of whoever runs the tests, root among them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.shell_cell import BOUND, PYTHON, Cell
from tool_engine.executors.commands import sandbox_launcher, shell
from tool_engine.executors.commands.sandbox_launcher import obstacle
from tool_engine.executors.commands.shell_entry import ShellPlan
from tool_engine.executors.commands.system_calls import (
    ALLOWED,
    ATTRIBUTES,
    LOOKED_INTO,
    NETWORK,
    numbers,
)

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "it can")


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
        import ctypes, platform
        libc = ctypes.CDLL(None, use_errno=True)
        x86 = platform.machine() == "x86_64"
        def call(*numbers):
            ctypes.set_errno(0)
            result = libc.syscall(*(ctypes.c_long(number) for number in numbers))
            return result, ctypes.get_errno()
        for number in (425, 428, 430, 438, 440, 442, 467, 469):
            assert call(number, 0, 0, 0, 0, 0) == (-1, 1), number
        assert call(435, 0, 0) == (-1, 38)
        for flag in (0x20000, 0x10000000, 0x20000000, 0x40000000):
            assert call(56 if x86 else 220, flag | 17, 0, 0, 0, 0) == (-1, 1), flag
        # Another process may not be limited, this one may look at its own limits.
        assert call(302 if x86 else 261, {os.getpid()}, 7, 0, 0) == (-1, 1)
        assert call(302 if x86 else 261, 0, 7, 0, 0)[0] == 0
        print("closed")
    """
    assert await cell.python(code) == "closed\n"


async def test_each_number(cell: Cell) -> None:
    """Every system call that is not listed fails, by its number."""
    known = numbers(platform.machine())
    listed = ALLOWED | NETWORK | ATTRIBUTES | LOOKED_INTO
    passing = sorted(number for name, number in known.items() if name in listed)
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        seen = {{}}
        # Those of probes end a process that has none; the kernel asks no filter about them.
        for number in set(range(700)) - {{335, 336}} - set({passing}):
            ctypes.set_errno(0)
            result = libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
            seen.setdefault((result, ctypes.get_errno()), []).append(number)
        print(sorted(seen), sum(map(len, seen.values())) == 698 - {len(passing)})
    """
    # EPERM, ENOSYS for what libraries do without, and ENOTSUP for attributes.
    assert await cell.python(code, network=True) == "[(-1, 1), (-1, 38), (-1, 95)] True\n"


def test_the_list_stands_in_the_docs() -> None:
    """docs/security.md names each system call that a script may make, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    table = page.partition("| when | system calls |")[2].partition("\n\n")[0]
    named = [set(re.findall(r"`([a-z_0-9]+)`", row)) for row in table.splitlines()[2:]]
    assert named == [ALLOWED, LOOKED_INTO, NETWORK, ATTRIBUTES]


@pytest.mark.parametrize("network", [False, True])
async def test_no_local_service(cell: Cell, network: bool) -> None:
    """Nothing is sent to the socket of a local service, and nothing comes in over one.

    Tried: both ends of every kind of pair, named or connected, descriptors as well as texts.
    Looked at: whatever takes an address (`connect`, `sendto`, `sendmsg`, `sendmmsg`), and named
    pipes, which Landlock keeps in.
    """
    place = str(cell.folder / "private" / "service")
    code = f"""
        import array, os, socket
        PLACE = {place!r}
        secret = os.open("../library/file", os.O_RDONLY)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [secret]))]
        ways = {{
            "sendto": lambda end: end.sendto(b"STOLEN", PLACE),
            "sendmsg": lambda end: end.sendmsg([b"STOLEN"], rights, 0, PLACE),
            "connect": lambda end: (end.connect(PLACE), end.send(b"STOLEN")),
            "bind": lambda end: (end.bind("mine"), end.listen(), end.accept()),
        }}
        for kind in (1, 2, 3, 5):
            for family in (socket.AF_UNIX, socket.AF_INET):
                for way, attempt in ways.items():
                    try:
                        if family == 1:
                            ends = socket.socketpair(family, kind)
                        else:
                            ends = [socket.socket(family, kind)]
                    except OSError:
                        continue
                    ends[0].settimeout(1)
                    try:
                        attempt(ends[0])
                        print("sent", kind, way)
                    except (OSError, TypeError):
                        pass
                    # Its other end closed, a stream is still no way to another place.
                    ends[-1].close()
                    try:
                        attempt(ends[0])
                        print("sent", kind, way)
                    except (OSError, TypeError):
                        pass
    """
    services = []
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with contextlib.suppress(OSError):
            os.unlink(place)  # noqa: PTH108 - the loop may not wait for pathlib
        service = socket.socket(socket.AF_UNIX, kind)
        service.bind(place)
        service.setblocking(False)
        if kind != socket.SOCK_DGRAM:
            service.listen()
        services.append(service)
        assert await cell.python(code, network=network) == ""
        with pytest.raises(BlockingIOError):
            service.recv(100) if kind == socket.SOCK_DGRAM else service.accept()
    for service in services:
        service.close()


async def test_no_memory_or_queue_of_others(cell: Cell) -> None:
    """System V memory, semaphores and queues need only a number; a script has none that work."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    ids = (libc.shmget(0, 4096, 0o600), libc.semget(0, 1, 0o600), libc.msgget(0, 0o600))
    assert -1 not in ids
    memory = libc.shmat(ids[0], None, 0)
    queue = f"/{cell.tag}".encode()
    opened = libc.mq_open(queue, os.O_CREAT | os.O_RDWR, 0o600, None)
    ctypes.memmove(memory, b"SECRET", 6)
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        memory, semaphores, messages = {ids}
        def errors(*attempts):
            for attempt in attempts:
                ctypes.set_errno(0)
                result = attempt()
                yield result in (-1, 2**64 - 1) and ctypes.get_errno()
        print(*errors(
            lambda: libc.shmat(memory, None, 0), lambda: libc.shmctl(memory, 0, None),
            lambda: libc.shmdt(None), lambda: libc.semop(semaphores, b"\\0\\0\\1\\0\\0\\0", 1),
            lambda: libc.semctl(semaphores, 0, 16, 7), lambda: libc.semctl(semaphores, 0, 0),
            lambda: libc.msgsnd(messages, b"\\1" + bytes(15), 4, 0),
            lambda: libc.msgrcv(messages, bytes(64), 4, 0, 2048),
            lambda: libc.msgctl(messages, 0, 0),
            lambda: libc.mq_unlink({queue!r}), lambda: libc.mq_open({queue!r}, 2),
        ))
    """
    try:
        assert set((await cell.python(code, network=True)).split()) <= {"1", "13"}
        assert ctypes.string_at(memory, 6) == b"SECRET"
        assert libc.semctl(ids[1], 0, 12) == 0  # its value
        assert libc.mq_unlink(queue) == 0
    finally:
        libc.shmdt(ctypes.c_void_p(memory))
        libc.close(opened)
        for end, number in zip((libc.shmctl, libc.semctl, libc.msgctl), ids, strict=True):
            end(number, 0, 0)


@pytest.fixture(params=["mounts", "container"])
def cell_anywhere(
    request: pytest.FixtureRequest, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> Cell:
    """A cell, also where the kernel gives no mounts of its own, as in most containers."""
    if request.param == "container":
        text = Path(sandbox_launcher.__file__).read_text()
        text = text.replace("        _leave_mounts()\n", "        raise PermissionError\n")
        launcher = cell.folder / "launcher.py"
        launcher.write_text(text)
        monkeypatch.setattr(sandbox_launcher, "__file__", str(launcher))
    return cell


async def test_no_file_runs_with_the_rights_of_its_owner(cell_anywhere: Cell) -> None:
    """Neither a file nor a folder that is made has a mode with them, by whichever call."""
    code = """
        import ctypes, os, platform
        libc = ctypes.CDLL(None, use_errno=True)
        x86 = platform.machine() == "x86_64"
        def call(*values):
            ctypes.set_errno(0)
            made = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in values]
            return libc.syscall(*made), ctypes.get_errno()
        os.umask(0)
        MODE, NEW, HERE = 0o6777, os.O_CREAT | os.O_RDWR, -100
        how = NEW.to_bytes(8, "little") + MODE.to_bytes(8, "little") + bytes(8)
        ways = {
            "openat": (257 if x86 else 56, HERE, b"openat", NEW, MODE),
            "unnamed": (257 if x86 else 56, HERE, b".", os.O_TMPFILE | os.O_RDWR, MODE),
            "mknodat": (259 if x86 else 33, HERE, b"mknodat", 0o100000 | MODE, 0),
            "mkdirat": (258 if x86 else 34, HERE, b"mkdirat", MODE),
            "openat2": (437, HERE, b"openat2", how, 24),
        }
        if x86:
            ways |= {
                "open": (2, b"open", NEW, MODE), "creat": (85, b"creat", MODE),
                "mknod": (133, b"mknod", 0o100000 | MODE, 0), "mkdir": (83, b"mkdir", MODE),
            }
        for way, values in ways.items():
            result, error = call(*values)
            mode = os.fstat(result).st_mode if result > 2 else 0
            if os.path.exists(way):
                mode |= os.stat(way).st_mode
            folder = way.startswith("mkdir")
            expected = -1, 38 if way == "openat2" else 1
            assert (result, error) == ((0, 0) if folder else expected), way
            assert not mode & 0o6000, (way, oct(mode))
        # What stands there is of no account where nothing is made.
        assert call(257 if x86 else 56, HERE, b"file", os.O_RDONLY, MODE)[0] > 2
        assert call(257 if x86 else 56, HERE, b"new", NEW, 0o1777)[0] > 2
        print("none")
    """
    assert await cell_anywhere.python(code) == "none\n"


async def test_what_a_file_has_beside_its_content(cell_anywhere: Cell) -> None:
    """A descriptor for reading changes nothing of the file: no time, flag, mode, lease or lock.

    Tried as the user that owns the files. Looked at: each call that takes such a descriptor.
    """
    cell = cell_anywhere
    code = """
        import ctypes, fcntl, os, struct
        file = os.open("../library/file", os.O_RDONLY)
        folder = os.open("../library", os.O_RDONLY)
        def flags(place, number):
            fcntl.ioctl(place, number, struct.pack("Q", 0x40))
        attempts = [
            *(lambda place=place, work=work: work(place) for place in (file, folder) for work in (
                lambda each: os.utime(each, (5, 5)),
                lambda each: os.utime(each),
                lambda each: os.utime(f"/proc/self/fd/{each}", (5, 5)),
                lambda each: os.chmod(each, 0o700),
                lambda each: os.chown(each, os.getuid(), os.getgid()),
                lambda each: os.setxattr(each, "user.a", b"b"),
                lambda each: os.getxattr(each, "user.a"),
                lambda each: os.listxattr(each),
                lambda each: flags(each, 0x40086602),
                lambda each: flags(each, 0x401C5820),
                lambda each: flags(each, 0x80086601),
                lambda each: fcntl.fcntl(each, 1024, fcntl.F_RDLCK),
                lambda each: fcntl.fcntl(each, 1026, 0x8000003F),
                lambda each: fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB),
                lambda each: fcntl.flock(each, fcntl.LOCK_SH | fcntl.LOCK_NB),
                lambda each: fcntl.lockf(each, fcntl.LOCK_EX | fcntl.LOCK_NB),
            )),
            lambda: os.utime("../library/file"),
            lambda: os.utime("../library/file", follow_symlinks=False),
            lambda: os.truncate(file, 0),
        ]
        for number, attempt in enumerate(attempts):
            try:
                attempt()
                print("done", number)
            except OSError:
                pass
    """
    places = [cell.folder / "library" / "file", cell.folder / "library"]
    os.setxattr(places[0], "user.a", b"secret")
    before = [place.stat() for place in places]
    assert await cell.python(code) == ""
    for place, old in zip(places, before, strict=True):
        now = place.stat()
        assert (now.st_mtime_ns, now.st_ctime_ns) == (old.st_mtime_ns, old.st_ctime_ns)


async def test_devices_of_the_machine(cell_anywhere: Cell) -> None:
    """A device may be read and written, and has the mode and times that it had, for all others.

    Looked at: each device that is listed, by name and by what is open from the start: a file that
    was opened before the mounts were read-only keeps its old mount.
    """
    names = [*shell._DEVICES, "/dev/zero", "/dev/random", "/dev/urandom"]
    devices = [*map(Path, names)]
    before = [place.stat() for place in devices]
    code = f"""
        import os, stat
        print(os.write(os.open("/dev/null", os.O_WRONLY), b"text"), os.read(0, 1))
        for place in ({", ".join(map(repr, names))}, 0):
            mode = stat.S_IMODE(os.stat(place).st_mode)
            for attempt in (lambda: os.chmod(place, mode), lambda: os.utime(place)):
                try:
                    attempt()
                    print("done", place)
                except OSError:
                    pass
    """
    assert await cell_anywhere.python(code) == "4 b''\n"
    for place, old in zip(devices, before, strict=True):
        assert place.stat().st_ctime_ns == old.st_ctime_ns


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
        command = shell._command(plan, OWNER)
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
