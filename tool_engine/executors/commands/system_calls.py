"""Which system calls may a script make in the sandbox, and what are their numbers?

All others are refused. Landlock covers only files, signals and TCP: so a call is listed only if it
reaches nothing beyond these or the process itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FILES: Final = frozenset(
    {
        "read", "write", "close", "stat", "fstat", "lstat", "newfstatat", "statx", "lseek",
        "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2",
        "access", "faccessat", "faccessat2", "pipe", "pipe2", "dup", "dup2", "dup3", "sendfile",
        "splice", "tee", "vmsplice", "copy_file_range", "fsync", "fdatasync", "sync", "syncfs",
        "sync_file_range", "truncate", "ftruncate", "fallocate", "fadvise64", "readahead",
        "getdents", "getdents64", "getcwd", "chdir", "fchdir", "rename", "renameat", "renameat2",
        "mkdir", "mkdirat", "rmdir", "link", "linkat", "unlink", "unlinkat", "symlink",
        "symlinkat", "readlink", "readlinkat", "umask", "statfs", "fstatfs", "close_range",
        "memfd_create",
    }
)  # fmt: skip
"""Calls that name, read and change files: Landlock decides which files. The kernel itself keeps the
set-id bits out of the modes of folders."""

_WAITING: Final = frozenset(
    {
        "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
        "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2", "signalfd",
        "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "nanosleep",
        "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
        "alarm", "pause", "getitimer", "setitimer", "timer_create", "timer_settime",
        "timer_gettime", "timer_getoverrun", "timer_delete", "futex", "futex_waitv", "futex_wake",
        "futex_wait", "futex_requeue", "sched_yield", "getrandom", "restart_syscall",
    }
)  # fmt: skip

_MEMORY: Final = frozenset(
    {
        "brk", "mmap", "munmap", "mremap", "mprotect", "msync", "madvise", "mincore", "mlock",
        "mlock2", "munlock", "mlockall", "munlockall", "mseal", "pkey_mprotect", "pkey_alloc",
        "pkey_free", "remap_file_pages", "membarrier",
    }
)  # fmt: skip

_PROCESSES: Final = frozenset(
    {
        "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "kill",
        "tkill", "tgkill", "pidfd_open", "getpid", "getppid", "gettid", "getpgid", "getpgrp",
        "getsid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
        "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "capget",
        "getpriority", "ioprio_get", "sched_getaffinity", "sched_getscheduler", "sched_getparam",
        "sched_getattr", "sched_get_priority_max", "sched_get_priority_min",
        "sched_rr_get_interval", "getrlimit", "setrlimit", "getrusage", "sysinfo", "uname",
        "getcpu", "set_tid_address", "set_robust_list", "rseq", "arch_prctl", "rt_sigaction",
        "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait",
        "sigaltstack",
    }
)  # fmt: skip
"""Its own processes: Landlock confines signals to them, and no call changes another process."""

_SOCKETS: Final = frozenset(
    {
        "getsockname", "getpeername", "getsockopt", "setsockopt", "recvfrom", "shutdown",
        "sendmsg", "recvmsg",
    }
)  # fmt: skip
"""For open sockets: without network there are only stream pairs, and both ends stay inside."""

ALLOWED: Final = _FILES | _WAITING | _MEMORY | _PROCESSES | _SOCKETS
"""Permitted with any argument."""

NETWORK: Final = frozenset(
    {
        "connect", "bind", "listen", "accept", "accept4", "sendmmsg", "recvmmsg",
    }
)  # fmt: skip
"""Permitted with `network: true` only."""

ATTRIBUTES: Final = frozenset(
    {
        "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
    }
)  # fmt: skip
"""Permitted where all else is mounted read-only: Landlock has no rules for owners and times."""

LOOKED_INTO: Final = frozenset(
    {
        "clone", "ioctl", "fcntl", "prctl", "prlimit64", "personality", "socketpair", "sendto",
        "socket", "chmod", "fchmod", "fchmodat", "fchmodat2", "open", "openat", "creat", "mknod",
        "mknodat",
    }
)  # fmt: skip
"""Permitted with certain arguments only: see `call_filter`."""

ABSENT: Final = frozenset(
    {
        "clone3", "flock", "openat2",
    }
)  # fmt: skip
"""Reported as missing, so that programs use others: the flags of `clone3` and the modes of
`openat2` are out of reach here; `flock` could lock other users out of a file that may only be
read."""

UNSUPPORTED: Final = frozenset(
    {
        "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
        "getxattrat", "listxattrat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat",
        "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    }
)  # fmt: skip
"""Reported as unsupported by the file system: Landlock does not restrict them by file."""

NEWEST: Final = 469
"""The last call reviewed for this list; libraries do without younger ones."""

_YOUNG: Final[Mapping[str, int]] = {
    "pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "faccessat2": 439,
    "epoll_pwait2": 441, "futex_waitv": 449, "fchmodat2": 452, "futex_wake": 454,
    "futex_wait": 455, "futex_requeue": 456, "mseal": 462, "setxattrat": 463, "getxattrat": 464,
    "listxattrat": 465, "removexattrat": 466,
}  # fmt: skip
"""The same numbers on every processor."""

ARCHITECTURES: Final[Mapping[str, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_NUMBERS: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {
        "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7,
        "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13,
        "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16, "pread64": 17, "pwrite64": 18,
        "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23, "sched_yield": 24,
        "mremap": 25, "msync": 26, "mincore": 27, "madvise": 28, "dup": 32, "dup2": 33,
        "pause": 34, "nanosleep": 35, "getitimer": 36, "alarm": 37, "setitimer": 38, "getpid": 39,
        "sendfile": 40, "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45,
        "sendmsg": 46, "recvmsg": 47, "shutdown": 48, "bind": 49, "listen": 50, "getsockname": 51,
        "getpeername": 52, "socketpair": 53, "setsockopt": 54, "getsockopt": 55, "clone": 56,
        "fork": 57, "vfork": 58, "execve": 59, "exit": 60, "wait4": 61, "kill": 62, "uname": 63,
        "fcntl": 72, "flock": 73, "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77,
        "getdents": 78, "getcwd": 79, "chdir": 80, "fchdir": 81, "rename": 82, "mkdir": 83,
        "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "readlink": 89,
        "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "umask": 95,
        "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100,
        "getuid": 102, "getgid": 104, "setuid": 105, "setgid": 106, "geteuid": 107, "getegid": 108,
        "getppid": 110, "getpgrp": 111, "setreuid": 113, "setregid": 114, "getgroups": 115,
        "setresuid": 117, "getresuid": 118, "setresgid": 119, "getresgid": 120, "getpgid": 121,
        "getsid": 124, "capget": 125, "rt_sigpending": 127, "rt_sigtimedwait": 128,
        "rt_sigsuspend": 130, "sigaltstack": 131, "utime": 132, "mknod": 133, "personality": 135,
        "statfs": 137, "fstatfs": 138, "getpriority": 140, "sched_getparam": 143,
        "sched_getscheduler": 145, "sched_get_priority_max": 146, "sched_get_priority_min": 147,
        "sched_rr_get_interval": 148, "mlock": 149, "munlock": 150, "mlockall": 151,
        "munlockall": 152, "prctl": 157, "arch_prctl": 158, "setrlimit": 160, "sync": 162,
        "gettid": 186, "readahead": 187, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
        "getxattr": 191, "lgetxattr": 192, "fgetxattr": 193, "listxattr": 194, "llistxattr": 195,
        "flistxattr": 196, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
        "tkill": 200, "time": 201, "futex": 202, "sched_getaffinity": 204, "epoll_create": 213,
        "remap_file_pages": 216, "getdents64": 217, "set_tid_address": 218, "restart_syscall": 219,
        "fadvise64": 221, "timer_create": 222, "timer_settime": 223, "timer_gettime": 224,
        "timer_getoverrun": 225, "timer_delete": 226, "clock_gettime": 228, "clock_getres": 229,
        "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233,
        "tgkill": 234, "utimes": 235, "waitid": 247, "ioprio_get": 252, "openat": 257,
        "mkdirat": 258, "mknodat": 259, "fchownat": 260, "futimesat": 261, "newfstatat": 262,
        "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "readlinkat": 267,
        "fchmodat": 268, "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273,
        "splice": 275, "tee": 276, "sync_file_range": 277, "vmsplice": 278, "utimensat": 280,
        "epoll_pwait": 281, "signalfd": 282, "timerfd_create": 283, "eventfd": 284,
        "fallocate": 285, "timerfd_settime": 286, "timerfd_gettime": 287, "accept4": 288,
        "signalfd4": 289, "eventfd2": 290, "epoll_create1": 291, "dup3": 292, "pipe2": 293,
        "preadv": 295, "pwritev": 296, "recvmmsg": 299, "prlimit64": 302, "syncfs": 306,
        "sendmmsg": 307, "getcpu": 309, "sched_getattr": 315, "renameat2": 316, "getrandom": 318,
        "memfd_create": 319, "execveat": 322, "membarrier": 324, "mlock2": 325,
        "copy_file_range": 326, "preadv2": 327, "pwritev2": 328, "pkey_mprotect": 329,
        "pkey_alloc": 330, "pkey_free": 331, "statx": 332, "rseq": 334,
    },
    "aarch64": {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "getxattr": 8, "lgetxattr": 9,
        "fgetxattr": 10, "listxattr": 11, "llistxattr": 12, "flistxattr": 13, "removexattr": 14,
        "lremovexattr": 15, "fremovexattr": 16, "getcwd": 17, "eventfd2": 19, "epoll_create1": 20,
        "epoll_ctl": 21, "epoll_pwait": 22, "dup": 23, "dup3": 24, "fcntl": 25, "ioctl": 29,
        "ioprio_get": 31, "flock": 32, "mknodat": 33, "mkdirat": 34, "unlinkat": 35,
        "symlinkat": 36, "linkat": 37, "renameat": 38, "statfs": 43, "fstatfs": 44, "truncate": 45,
        "ftruncate": 46, "fallocate": 47, "faccessat": 48, "chdir": 49, "fchdir": 50, "fchmod": 52,
        "fchmodat": 53, "fchownat": 54, "fchown": 55, "openat": 56, "close": 57, "pipe2": 59,
        "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66,
        "pread64": 67, "pwrite64": 68, "preadv": 69, "pwritev": 70, "sendfile": 71, "pselect6": 72,
        "ppoll": 73, "signalfd4": 74, "vmsplice": 75, "splice": 76, "tee": 77, "readlinkat": 78,
        "newfstatat": 79, "fstat": 80, "sync": 81, "fsync": 82, "fdatasync": 83,
        "sync_file_range": 84, "timerfd_create": 85, "timerfd_settime": 86, "timerfd_gettime": 87,
        "utimensat": 88, "capget": 90, "personality": 92, "exit": 93, "exit_group": 94,
        "waitid": 95, "set_tid_address": 96, "futex": 98, "set_robust_list": 99, "nanosleep": 101,
        "getitimer": 102, "setitimer": 103, "timer_create": 107, "timer_gettime": 108,
        "timer_getoverrun": 109, "timer_settime": 110, "timer_delete": 111, "clock_gettime": 113,
        "clock_getres": 114, "clock_nanosleep": 115, "sched_getscheduler": 120,
        "sched_getparam": 121, "sched_getaffinity": 123, "sched_yield": 124,
        "sched_get_priority_max": 125, "sched_get_priority_min": 126, "sched_rr_get_interval": 127,
        "restart_syscall": 128, "kill": 129, "tkill": 130, "tgkill": 131, "sigaltstack": 132,
        "rt_sigsuspend": 133, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigpending": 136,
        "rt_sigtimedwait": 137, "rt_sigreturn": 139, "getpriority": 141, "setregid": 143,
        "setgid": 144, "setreuid": 145, "setuid": 146, "setresuid": 147, "getresuid": 148,
        "setresgid": 149, "getresgid": 150, "times": 153, "getpgid": 155, "getsid": 156,
        "getgroups": 158, "uname": 160, "getrlimit": 163, "setrlimit": 164, "getrusage": 165,
        "umask": 166, "prctl": 167, "getcpu": 168, "gettimeofday": 169, "getpid": 172,
        "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177,
        "gettid": 178, "sysinfo": 179, "socket": 198, "socketpair": 199, "bind": 200,
        "listen": 201, "accept": 202, "connect": 203, "getsockname": 204, "getpeername": 205,
        "sendto": 206, "recvfrom": 207, "setsockopt": 208, "getsockopt": 209, "shutdown": 210,
        "sendmsg": 211, "recvmsg": 212, "readahead": 213, "brk": 214, "munmap": 215, "mremap": 216,
        "clone": 220, "execve": 221, "mmap": 222, "fadvise64": 223, "mprotect": 226, "msync": 227,
        "mlock": 228, "munlock": 229, "mlockall": 230, "munlockall": 231, "mincore": 232,
        "madvise": 233, "remap_file_pages": 234, "accept4": 242, "recvmmsg": 243, "wait4": 260,
        "prlimit64": 261, "syncfs": 267, "sendmmsg": 269, "sched_getattr": 275, "renameat2": 276,
        "getrandom": 278, "memfd_create": 279, "execveat": 281, "membarrier": 283, "mlock2": 284,
        "copy_file_range": 285, "preadv2": 286, "pwritev2": 287, "pkey_mprotect": 288,
        "pkey_alloc": 289, "pkey_free": 290, "statx": 291, "rseq": 293,
    },
}  # fmt: skip


def numbers_of(machine: str) -> dict[str, int]:
    return {**_NUMBERS[machine], **_YOUNG}
