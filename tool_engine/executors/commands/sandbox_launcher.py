"""How does a process confine itself before it runs an untrusted program?

This file runs as a script in an isolated interpreter: the system calls below need a process with
one thread, and it imports nothing of the engine. Its arguments are the policy as JSON, then the
program and its arguments. What it gives up cannot be regained, not even by root:

- mounts of its own, where the kernel gives them: all but the folders to write is read-only, so
  that the modes and times of what may be written can be set, and of nothing else. A device can be
  written on a read-only mount as well.
- Landlock: files outside the folders of the policy, signals to processes outside, TCP.
- seccomp: every system call that is not listed (see `system_calls` and `call_filter`, whose
  program the engine hands over).
- all capabilities, and all that a setuid program would give.

See landlock(7), seccomp(2), capabilities(7) and the kernel's Landlock documentation.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import resource
import stat
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

LANDLOCK_ABI: Final = 6
"""The oldest version that confines signals: Linux 6.12."""
CANNOT_SHUT_IN: Final = 125
"""The exit code when a part of the policy cannot be enforced; nothing was run."""
MACHINES: Final = ("x86_64", "aarch64")

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
_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_MOUNT_SETATTR: Final = 442
_RECURSIVE: Final = 16384
_BIND: Final = 4096 | _RECURSIVE
_PRIVATE: Final = 1 << 18 | _RECURSIVE
_READ_ONLY: Final = 1
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNTS: Final = "/proc/self/mountinfo"
_ALL_TCP: Final = 3
_ALL_SCOPES: Final = 3


def read_abi_version() -> int:
    """Return the kernel's Landlock version; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(int(_load_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


def find_obstacle() -> str:
    """Return why this machine cannot confine a program; empty if it can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    if platform.machine() not in MACHINES:
        return f"it is made for {' and '.join(MACHINES)}, this is {platform.machine()}"
    found = read_abi_version()
    if found < LANDLOCK_ABI:
        has = f"version {found}" if found else "none, or it is turned off"
        return f"it needs Landlock version {LANDLOCK_ABI} (Linux 6.12); this kernel has {has}"
    return ""


def shut_in(policy: Mapping[str, Any]) -> None:
    """Enforce `policy` on this process for good; raise `OSError` if that fails."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    has_mounts = _mount_writable(policy["write"])
    _call_libc("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _restrict_files(policy)
    for capability in range(64):
        # Fails for capabilities unknown to the kernel, and for users without any.
        _load_libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _restrict_calls(bytes.fromhex(policy["calls_with_mounts" if has_mounts else "calls"]))


def _mount_writable(writable: Iterable[str]) -> bool:
    """Make all but `writable` read-only; return False where the kernel refuses."""
    try:
        roots = sorted(path for path in writable if not os.statvfs(path).f_flag & os.ST_RDONLY)
        _leave_mounts()
        for path in roots:
            _call_libc(
                "mount", os.fsencode(path), os.fsencode(path), None, ctypes.c_ulong(_BIND), None
            )
        within = list(_mounts_below(roots))
        _set_mounts("/", _AT_RECURSIVE, set_to=_READ_ONLY)
        for path in (*roots, *within):
            _set_mounts(path, clear=_READ_ONLY)
        _reopen_input()
        os.chdir(os.getcwd())  # noqa: PTH109 - pathlib takes a quarter of the start
    except OSError:
        # In a container, for one. Then no mode and no time of any file can be set.
        return False
    return True


def _reopen_input() -> None:
    # An open file keeps its mount: modes and times could be set through it.
    place = os.open(os.devnull, os.O_RDONLY)
    os.dup2(place, 0)
    os.close(place)


def _mounts_below(roots: Sequence[str]) -> Iterable[str]:
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123 - as above
        for line in lines:
            place, options = line.split(" ")[4:6]
            place = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), place)
            if "rw" in options.split(",") and place.startswith(tuple(f"{r}/" for r in roots)):
                yield place


def _leave_mounts() -> None:
    """Give this process its own mounts, if necessary in a user namespace."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call_libc("unshare", _NEW_MOUNTS)
    except PermissionError:
        _call_libc("unshare", _NEW_MOUNTS | _NEW_USERS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as place:  # noqa: PTH123 - as above
                place.write(text)
    # Nothing of the following may leave this process.
    _call_libc("mount", None, b"/", None, ctypes.c_ulong(_PRIVATE), None)


def _set_mounts(path: str, flags: int = 0, *, set_to: int = 0, clear: int = 0) -> None:
    # struct mount_attr
    wish = ctypes.create_string_buffer(struct.pack("QQQQ", set_to, clear, 0, 0), 32)
    name = ctypes.create_string_buffer(os.fsencode(path))
    _call_libc("syscall", _MOUNT_SETATTR, _AT_FDCWD, name, flags, wish, ctypes.c_size_t(32))


def _restrict_files(policy: Mapping[str, Any]) -> None:
    tcp = 0 if policy["network"] else _ALL_TCP
    handled = ctypes.create_string_buffer(struct.pack("QQQ", _ALL_FILES, tcp, _ALL_SCOPES), 24)
    ruleset = _call_libc("syscall", _CREATE_RULESET, handled, ctypes.c_size_t(24), 0)
    _allow_paths(ruleset, policy["read"], _READ)
    _allow_paths(ruleset, (*policy["write"], *policy["devices"]), _WRITE)
    _call_libc("syscall", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow_paths(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
            allowed = rights if is_folder else rights & _OF_A_FILE
            # struct landlock_path_beneath_attr is packed.
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, place), 12)
            _call_libc("syscall", _ADD_RULE, ruleset, 1, rule, 0)
        finally:
            os.close(place)


def _restrict_calls(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _call_libc(
        "prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header), 0, 0
    )


def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call_libc(name: str, *arguments: Any) -> int:
    result = int(getattr(_load_libc(), name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {arguments[0]}: {os.strerror(number)}")
    return result


def main() -> None:
    policy = json.loads(sys.argv[1])
    try:
        shut_in(policy)
        os.execv(policy["program"], sys.argv[2:])  # noqa: S606 - the script is for a shell
    except OSError as error:
        sys.stderr.write(f"the sandbox cannot be set up: {error}\n")
        sys.exit(CANNOT_SHUT_IN)


if __name__ == "__main__":
    main()
