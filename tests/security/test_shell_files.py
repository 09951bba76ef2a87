"""What can a hostile script in the sandbox change of a file but its content?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.security.shell_cell import Cell
from tool_engine.executors.commands import shell
from tool_engine.executors.commands.sandbox_launcher import find_obstacle

pytestmark = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")


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
