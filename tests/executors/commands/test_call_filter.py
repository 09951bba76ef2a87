"""What the kernel is asked to answer to each system call, read as the kernel reads it.

What it keeps in is in tests/security/test_shell_calls.py.
"""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tool_engine.executors.commands import sandbox_launcher, system_calls
from tool_engine.executors.commands.call_filter import call_filter
from tool_engine.executors.commands.system_calls import ARCHITECTURES, numbers_of

EPERM = 0x00050000 | errno.EPERM
ENOSYS = 0x00050000 | errno.ENOSYS
ENOTSUP = 0x00050000 | errno.EOPNOTSUPP
KILL, PASS = 0x80000000, 0x7FFF0000
HEADERS = {
    "x86_64": [
        Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        Path("/usr/include/asm/unistd_64.h"),
    ],
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
}


def verdict(program: bytes, machine: int, number: int, *arguments: int) -> int:
    """What the kernel would do: a reader of the few BPF instructions that there are."""
    values = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("IIQ6Q", number, machine, 0, *values)
    lines = [struct.unpack_from("HBBI", program, place) for place in range(0, len(program), 8)]
    accumulator = line = 0
    while True:
        code, then, otherwise, value = lines[line]
        line += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
        else:
            is_so = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            line += then if is_so else otherwise


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("attributes", [False, True])
def test_each_call(machine: str, network: bool, attributes: bool) -> None:
    """What is not listed is refused, whatever its number, on either kind of processor."""
    program = call_filter(machine, has_network=network, has_attributes=attributes)
    ask = partial(verdict, program, ARCHITECTURES[machine])
    names = {number: name for name, number in numbers_of(machine).items()}
    passing = system_calls.ALLOWED | (system_calls.NETWORK if network else frozenset())
    passing |= system_calls.ATTRIBUTES if attributes else frozenset()
    for number in range(1024):
        name = names.get(number, "")
        if name in system_calls.LOOKED_INTO:
            continue
        expected = EPERM
        if name in passing:
            expected = PASS
        elif name in system_calls.ABSENT or number > system_calls.NEWEST:
            expected = ENOSYS
        elif name in system_calls.UNSUPPORTED:
            expected = ENOTSUP
        assert ask(number) == expected, (number, name)
    assert ask(0x3FFFFFFF) == ENOSYS
    assert ask(0x40000001) == ask(0xFFFFFFFF) == KILL
    assert {verdict(program, other, 1) for other in (0x40000003, 0xC000003D, 0)} == {KILL}


STREAM, DATAGRAM, RAW, SEQPACKET = 1, 2, 3, 5
FLAGS = (0, 0x800, 0x80000, 0x80800)
HIGH = 1 << 32
ARGUMENTS: dict[str, tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]] = {
    "clone": (
        [(0x11,), (0x3D0F00,), (0x4111,)],
        [(bit | 0x11,) for bit in (0x8000, 0x20000, 0x2000000, 0x4000000, 0x8000000)]
        + [(bit | 0x11,) for bit in (0x10000000, 0x20000000, 0x40000000, 0x80)],
    ),
    # What is asked of terminals and pipes; no flags of files, no keystrokes for terminals.
    "ioctl": (
        [(0, 0x5401), (0, 0x5413), (0, 0x541B), (0, 0x5451), (0, HIGH | 0x5401)],
        [(0, 0x40086602), (0, 0x401C5820), (0, 0x5412), (0, 0x541C), (0, 0x5402), (0, 0)],
    ),
    # No leases, no notices, no owner of signals.
    "fcntl": (
        [(0, each) for each in (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032)],
        [(0, each) for each in (8, 10, 15, 1024, 1026, 1036, 1038)],
    ),
    "prctl": ([(1,), (15,), (38,)], [(4,), (22,), (24,), (28,), (35,), (62,), (0x59616D61,)]),
    "prlimit64": ([(0,)], [(1,), (2**32 - 1,)]),
    "personality": ([(0xFFFFFFFF,), (0,)], [(0x400000,), (8,)]),
    "socketpair": (
        [(1, STREAM | flags) for flags in FLAGS],
        [(1, kind | flags) for kind in (DATAGRAM, RAW, SEQPACKET) for flags in FLAGS]
        + [(family, STREAM) for family in (0, 2, 10, 16, 40)],
    ),
}


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_calls_that_are_looked_into(machine: str, network: bool, name: str) -> None:
    """What passes with some arguments does not with others, of which the kernel reads as much."""
    program = call_filter(machine, has_network=network, has_attributes=False)
    ask = partial(verdict, program, ARCHITECTURES[machine], numbers_of(machine)[name])
    passing, refused = ARGUMENTS[name]
    assert {ask(*arguments) for arguments in passing} == {PASS}
    assert {ask(*arguments) for arguments in refused} == {EPERM}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_sockets(machine: str) -> None:
    """Sockets are those of the internet, with network only; without it nothing has an address."""
    known = numbers_of(machine)
    for network, passes in ((False, EPERM), (True, PASS)):
        program = call_filter(machine, has_network=network, has_attributes=False)
        ask = partial(verdict, program, ARCHITECTURES[machine])
        for family in (2, 10):
            for flags in FLAGS:
                assert ask(known["socket"], family, STREAM | flags) == passes
                assert ask(known["socket"], family, DATAGRAM | flags) == passes
                assert ask(known["socket"], family, RAW | flags) == EPERM
        for family in (0, 1, 16, 17, 38, 40):
            assert ask(known["socket"], family, STREAM) == EPERM
        assert ask(known["sendto"], 3, 4096, 1, 0, 0, 0) == PASS
        for address in (1, HIGH, HIGH + 1):
            assert ask(known["sendto"], 3, 4096, 1, 0, address, 16) == passes
        for name in ("connect", "bind", "listen", "accept4", "sendmmsg"):
            assert ask(known[name], 3) == passes


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_modes(machine: str) -> None:
    """Modes are set where mounts keep all else as it is, and none gives the rights of its owner."""
    known = numbers_of(machine)
    for attributes, passes in ((False, EPERM), (True, PASS)):
        program = call_filter(machine, has_network=False, has_attributes=attributes)
        ask = partial(verdict, program, ARCHITECTURES[machine])
        for name, before in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
            if name in known:
                path = (4096,) * before
                assert ask(known[name], *path, 0o1777) == passes
                assert {ask(known[name], *path, bits) for bits in (0o4755, 0o2755)} == {EPERM}


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("attributes", [False, True])
def test_modes_of_new_files(machine: str, attributes: bool) -> None:
    """No file is made that runs with the rights of its owner; what is only opened has no mode."""
    known = numbers_of(machine)
    program = call_filter(machine, has_network=False, has_attributes=attributes)
    ask = partial(verdict, program, ARCHITECTURES[machine])
    for name, before in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        if name in known:
            path = (4096,) * before
            assert ask(known[name], *path, 0o101777) == PASS
            assert {ask(known[name], *path, bits) for bits in (0o4755, 0o2755)} == {EPERM}
    for name, before in (("open", 1), ("openat", 2)):
        if name in known:
            path = (4096,) * before
            for made in (0o101, 0o102, 0o20200002, HIGH | 0o100):
                assert ask(known[name], *path, made, 0o1777) == PASS
                assert {ask(known[name], *path, made, bit) for bit in (0o4755, 0o2755)} == {EPERM}
            for opened in (0, 1, 2, 0o200000, 0o2000000, 0o100000):
                assert ask(known[name], *path, opened, 0xFFFF) == PASS


def test_the_lists() -> None:
    """No call is in two lists, each has its number, and no number stands twice."""
    public = [name for name in vars(system_calls) if name[0].isalpha() and name.isupper()]
    lists = [getattr(system_calls, name) for name in public]
    sets = [each for each in lists if isinstance(each, frozenset)]
    names = [name for each in sets for name in each]
    assert len(names) == len(set(names))
    for machine in ARCHITECTURES:
        known = numbers_of(machine)
        assert len(set(known.values())) == len(known)
    x86, arm = (set(numbers_of(machine)) for machine in ARCHITECTURES)
    assert x86 == set(names)
    assert arm <= x86
    # Older forms of others, which the younger processor never had.
    assert x86 - arm == {
        "access", "alarm", "arch_prctl", "chmod", "chown", "creat", "dup2", "epoll_create",
        "epoll_wait", "eventfd", "fork", "futimesat", "getdents", "getpgrp", "lchown", "link",
        "lstat", "mkdir", "mknod", "open", "pause", "pipe", "poll", "readlink", "rename", "rmdir",
        "select", "signalfd", "stat", "symlink", "time", "unlink", "utime", "utimes", "vfork",
    }  # fmt: skip
    assert tuple(ARCHITECTURES) == sandbox_launcher.MACHINES


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    """The kernel's own headers, where they are installed, have the same numbers."""
    header = next((path for path in HEADERS[machine] if path.exists()), None)
    if header is None:
        pytest.skip("the headers of the kernel are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    of_header: dict[str, set[int]] = {}
    for name, number in found:
        of_header.setdefault({"fstatat": "newfstatat"}.get(name, name), set()).add(int(number))
    assert len(of_header) > 200
    newest = max(max(each) for each in of_header.values())
    for name, number in numbers_of(machine).items():
        assert number in of_header.get(name, ()) or number > newest - 1, name
