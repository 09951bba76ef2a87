"""How does a process shut itself in before it becomes the program that is not trusted?

This file is run as a script of its own, by an isolated interpreter: it has one thread, which the
system calls below ask for, and it imports nothing of the engine. Its arguments are the policy as
JSON, then the program and its arguments. What it gives up cannot be had again, not even by a
program that is run as root:

- Landlock: files outside the folders of the policy, signals to processes outside, TCP.
- seccomp: leaving the process group (so that a kill of the group reaches all), sockets, modes and
  owners of files, other processes, new namespaces, mounts, `io_uring` and other ways around.
- all capabilities, and all that a setuid program would give.

See landlock(7), seccomp(2), capabilities(7) and the kernel's Landlock documentation.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import stat
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["CANNOT_SHUT_IN", "LANDLOCK_ABI", "abi", "main", "obstacle", "shut_in"]

LANDLOCK_ABI: Final = 6
"""The oldest that can keep signals inside: Linux 6.12."""
CANNOT_SHUT_IN: Final = 125
"""The exit code when something of the policy cannot be put into force; nothing was run."""

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAPBSET_DROP: Final = 24
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_ALL_FILES: Final = (1 << 16) - 1
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE: Final = _ALL_FILES & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
_ALL_TCP: Final = 3
_ALL_SCOPES: Final = 3
_NEW_NAMESPACES: Final = 0x7E020080
_INTERNET, _INTERNET6 = 2, 10

_ARCHITECTURES: Final[Mapping[str, tuple[int, dict[str, int]]]] = {
    "x86_64": (
        0xC000003E,
        {
            # Out of the process group, or out of the sandbox.
            "setsid": 112, "setpgid": 109, "unshare": 272, "setns": 308, "clone": 56,
            "socket": 41, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
            "open_by_handle_at": 304, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
            "add_key": 248, "request_key": 249, "keyctl": 250, "swapon": 167, "swapoff": 168,
            "reboot": 169, "acct": 163, "init_module": 175, "delete_module": 176,
            "finit_module": 313, "kexec_load": 246, "inotify_init": 253, "inotify_init1": 294,
            "fanotify_init": 300,
            # To other processes of the same user.
            "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
            "setpriority": 141, "sched_setaffinity": 203, "sched_setscheduler": 144,
            "sched_setparam": 142, "sched_setattr": 314, "ioprio_set": 251, "prlimit64": 302,
            "migrate_pages": 256, "move_pages": 279, "shmget": 29, "semget": 64, "msgget": 68,
            "mq_open": 240,
            # Landlock says nothing about what a file has beside its content.
            "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94,
            "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
            "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197,
            "lremovexattr": 198, "fremovexattr": 199,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "setsid": 157, "setpgid": 154, "unshare": 97, "setns": 268, "clone": 220,
            "socket": 198, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
            "open_by_handle_at": 265, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
            "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225,
            "reboot": 142, "acct": 89, "init_module": 105, "delete_module": 106,
            "finit_module": 273, "kexec_load": 104, "inotify_init1": 26, "fanotify_init": 262,
            "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
            "setpriority": 140, "sched_setaffinity": 122, "sched_setscheduler": 119,
            "sched_setparam": 118, "sched_setattr": 274, "ioprio_set": 30, "prlimit64": 261,
            "migrate_pages": 238, "move_pages": 239, "shmget": 194, "semget": 190, "msgget": 186,
            "mq_open": 180,
            "fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54, "utimensat": 88,
            "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14,
            "lremovexattr": 15, "fremovexattr": 16,
        },
    ),
}  # fmt: skip
"""The machine's own number, and the numbers of the system calls that are refused, some of them only
with certain arguments."""
# These have the same number everywhere.
_NEWER: Final = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467,
    "file_setattr": 469,
}  # fmt: skip
_CLONE3: Final = 435


def abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


def obstacle() -> str:
    """Why this machine cannot shut a program in; empty when it can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    if platform.machine() not in _ARCHITECTURES:
        return f"it is made for {' and '.join(_ARCHITECTURES)}, this is {platform.machine()}"
    found = abi()
    if found < LANDLOCK_ABI:
        has = f"version {found}" if found else "none, or it is turned off"
        return f"it needs Landlock version {LANDLOCK_ABI} (Linux 6.12); this kernel has {has}"
    return ""


def shut_in(policy: Mapping[str, Any]) -> None:
    """Puts `policy` into force for this process, for good; raises `OSError` if it cannot."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _restrict_files(policy)
    for capability in range(64):
        # Fails for those that the kernel does not know, and for users who have none to drop.
        _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _restrict_calls(has_network=policy["network"])


def _restrict_files(policy: Mapping[str, Any]) -> None:
    tcp = 0 if policy["network"] else _ALL_TCP
    handled = ctypes.create_string_buffer(struct.pack("QQQ", _ALL_FILES, tcp, _ALL_SCOPES), 24)
    ruleset = _call("syscall", _CREATE_RULESET, handled, ctypes.c_size_t(24), 0)
    _allow(ruleset, policy["read"], _READ)
    _allow(ruleset, policy["write"], _WRITE)
    _call("syscall", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
            allowed = rights if is_folder else rights & _OF_A_FILE
            # struct landlock_path_beneath_attr is packed.
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, place), 12)
            _call("syscall", _ADD_RULE, ruleset, 1, rule, 0)
        finally:
            os.close(place)


def _restrict_calls(*, has_network: bool) -> None:
    program = b"".join(_filter(has_network=has_network))
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header), 0, 0)


def _filter(*, has_network: bool) -> Iterable[bytes]:
    """The BPF program that the kernel asks about each system call."""
    architecture, numbers = _ARCHITECTURES[platform.machine()]
    forbidden = {**numbers, **_NEWER}
    looked_into = {
        name: forbidden.pop(name) for name in ("clone", "socket", "prlimit64", "utimensat")
    }
    yield _load(4)
    yield _if_equal(architecture, 1, 0)
    yield _return(_KILL)
    yield _load(0)
    # Calls of the x32 kind, which have numbers of their own.
    yield struct.pack("HBBI", 0x35, 0, 1, 0x40000000)
    yield _return(_KILL)
    for number in sorted(forbidden.values()):
        yield _if_equal(number, 0, 1)
        yield _return(_refuse(errno.EPERM))
    # Its flags are out of reach here; libraries then fall back to `clone`.
    yield _if_equal(_CLONE3, 0, 1)
    yield _return(_refuse(errno.ENOSYS))
    # Of sockets, only those of the internet: one of a local service may give more rights.
    kinds = (_INTERNET, _INTERNET6) if has_network else ()
    yield from _only(looked_into["socket"], kinds)
    # The limits of this process, not of others.
    yield from _only(looked_into["prlimit64"], (0,))
    # The times of a file that is open, as `touch` sets them, not of one that is named.
    yield from _only_without_path(looked_into["utimensat"])
    yield _if_equal(looked_into["clone"], 0, 3)
    yield _load(_FIRST)
    yield struct.pack("HBBI", 0x45, 0, 1, _NEW_NAMESPACES)
    yield _return(_refuse(errno.EPERM))
    yield _return(_PASS)


def _only(number: int, values: Sequence[int]) -> Iterable[bytes]:
    """Refuses a system call unless its first argument is one of `values`."""
    yield _if_equal(number, 0, len(values) + 3)
    yield _load(_FIRST)
    for place, value in enumerate(values):
        yield _if_equal(value, len(values) - place, 0)
    yield _return(_refuse(errno.EPERM))
    yield _return(_PASS)


def _only_without_path(number: int) -> Iterable[bytes]:
    """Refuses a system call whose second argument points somewhere; a pointer has two halves."""
    yield _if_equal(number, 0, 6)
    yield _load(24)
    yield _if_equal(0, 0, 2)
    yield _load(28)
    yield _if_equal(0, 1, 0)
    yield _return(_refuse(errno.EPERM))
    yield _return(_PASS)


_FIRST: Final = 16
"""Where the lower half of the first argument is; the kernel looks at no more of a number."""
_KILL: Final = 0x80000000
_PASS: Final = 0x7FFF0000


def _refuse(number: int) -> int:
    return 0x00050000 | number


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", 0x20, 0, 0, offset)


def _if_equal(value: int, then: int, otherwise: int) -> bytes:
    return struct.pack("HBBI", 0x15, then, otherwise, value)


def _return(value: int) -> bytes:
    return struct.pack("HBBI", 0x06, 0, 0, value)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    result = int(getattr(_libc(), name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {arguments[0]}: {os.strerror(number)}")
    return result


def main() -> None:
    """Shuts this process in, and becomes the program."""
    policy = json.loads(sys.argv[1])
    try:
        shut_in(policy)
        os.execv(policy["program"], sys.argv[2:])  # noqa: S606 - the script is for a shell
    except OSError as error:
        sys.stderr.write(f"the sandbox cannot be set up: {error}\n")
        sys.exit(CANNOT_SHUT_IN)


if __name__ == "__main__":
    main()
