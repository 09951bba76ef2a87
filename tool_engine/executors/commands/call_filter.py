"""What does the kernel answer to each system call of a script?

The answer is a BPF program, which the kernel runs for each call: it sees numbers and cannot follow
pointers. So a call whose meaning stands behind a pointer is allowed only if every such meaning is.
See seccomp(2).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from tool_engine.executors.commands.system_calls import (
    ABSENT,
    ALLOWED,
    ARCHITECTURES,
    ATTRIBUTES,
    NETWORK,
    NEWEST,
    UNSUPPORTED,
    numbers_of,
)


class _Word(NamedTuple):
    """A condition on half an argument; of an int, the kernel uses the lower half."""

    argument: int
    values: Sequence[int] = ()
    is_upper: bool = False
    without: int = 0
    """Bits that must be zero, where there are no values."""
    flags: tuple[int, int] | None = None
    """An argument and some of its bits: the condition applies if one of them is set."""


_CLOSED_AND_OPEN: Final = (0, 0x800, 0x80000, 0x80800)
"""Neither, either or both of SOCK_NONBLOCK and SOCK_CLOEXEC."""
_STREAMS: Final = tuple(1 | flags for flags in _CLOSED_AND_OPEN)
_DATAGRAMS: Final = tuple(2 | flags for flags in _CLOSED_AND_OPEN)
_UNIX, _INTERNET, _INTERNET6 = 1, 2, 10
# New namespaces; and CLONE_PARENT, which makes a child of the engine.
_CLONE_FLAGS: Final = 0x7E020080 | 0x8000
_IOCTLS: Final = (
    0x5401,  # TCGETS
    0x802C542A,  # TCGETS2
    0x540F,  # TIOCGPGRP
    0x5413,  # TIOCGWINSZ
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
    0x40049409,  # FICLONE
    0x4020940D,  # FICLONERANGE
)
_FCNTLS: Final = (
    *range(8),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW
    *range(36, 39),  # the locks of open files
    1027,  # F_DUPFD_QUERY
    *range(1030, 1035),  # F_DUPFD_CLOEXEC, the size of a pipe, seals
)
_PRCTLS: Final = (
    1,  # PR_SET_PDEATHSIG
    2,  # PR_GET_PDEATHSIG
    3,  # PR_GET_DUMPABLE
    15,  # PR_SET_NAME
    16,  # PR_GET_NAME
    21,  # PR_GET_SECCOMP
    23,  # PR_CAPBSET_READ
    30,  # PR_GET_TIMERSLACK
    36,  # PR_SET_CHILD_SUBREAPER
    37,  # PR_GET_CHILD_SUBREAPER
    38,  # PR_SET_NO_NEW_PRIVS
    39,  # PR_GET_NO_NEW_PRIVS
    40,  # PR_GET_TID_ADDRESS
    41,  # PR_SET_THP_DISABLE
    42,  # PR_GET_THP_DISABLE
    0x53564D41,  # PR_SET_VMA
)
_SET_ID: Final = 0o6000
# O_CREAT and the bit of O_TMPFILE: without them the place of the mode may hold anything.
_CREATING: Final = 0o100 | 0o20000000
_LOOKED_INTO: Final[Mapping[str, Sequence[_Word]]] = {
    # No setuid program: it would run with its owner's rights.
    "open": (_Word(2, without=_SET_ID, flags=(1, _CREATING)),),
    "openat": (_Word(3, without=_SET_ID, flags=(2, _CREATING)),),
    "creat": (_Word(1, without=_SET_ID),),
    "mknod": (_Word(1, without=_SET_ID),),
    "mknodat": (_Word(2, without=_SET_ID),),
    "clone": (_Word(0, without=_CLONE_FLAGS),),
    "ioctl": (_Word(1, _IOCTLS),),
    "fcntl": (_Word(1, _FCNTLS),),
    "prctl": (_Word(0, _PRCTLS),),
    # The limits of this process, not of others.
    "prlimit64": (_Word(0, (0,)),),
    # Queries, and the usual settings.
    "personality": (_Word(0, (0xFFFFFFFF, 0)),),
    # One end of a datagram pair may send to any other socket of the machine.
    "socketpair": (_Word(0, (_UNIX,)), _Word(1, _STREAMS)),
    # Without an address: to the other end of a pair.
    "sendto": (_Word(4, (0,)), _Word(4, (0,), is_upper=True)),
}
_WITH_NETWORK: Final[Mapping[str, Sequence[_Word]]] = {
    # Internet sockets: a local service's socket may give more rights.
    "socket": (_Word(0, (_INTERNET, _INTERNET6)), _Word(1, (*_STREAMS, *_DATAGRAMS))),
    # Sockets then reach no local service, whatever the address.
    "sendto": (),
}
_WITH_ATTRIBUTES: Final[Mapping[str, Sequence[_Word]]] = {
    "chmod": (_Word(1, without=_SET_ID),),
    "fchmod": (_Word(1, without=_SET_ID),),
    "fchmodat": (_Word(2, without=_SET_ID),),
    "fchmodat2": (_Word(2, without=_SET_ID),),
}

_KILL: Final = 0x80000000
_PASS: Final = 0x7FFF0000
_X32: Final = 0x40000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def call_filter(machine: str, *, has_network: bool, has_attributes: bool) -> bytes:
    """Return the program for one of `ARCHITECTURES`, as the kernel reads it.

    Args:
        machine: One of `ARCHITECTURES`.
        has_network: True if internet sockets may be opened.
        has_attributes: True if modes, owners and times of files may be set, which needs
            read-only mounts for everything else.
    """
    allowed, looked_into = ALLOWED, dict(_LOOKED_INTO)
    if has_network:
        allowed, looked_into = allowed | NETWORK, {**looked_into, **_WITH_NETWORK}
    if has_attributes:
        allowed, looked_into = allowed | ATTRIBUTES, {**looked_into, **_WITH_ATTRIBUTES}
    return b"".join(_make_lines(machine, allowed, looked_into))


def _make_lines(
    machine: str, allowed: Iterable[str], looked_into: Mapping[str, Sequence[_Word]]
) -> Iterator[bytes]:
    known = numbers_of(machine)
    yield _load_word(_ARCHITECTURE)
    yield _if_equal(ARCHITECTURES[machine], 1, 0)
    yield _return_value(_KILL)
    yield _load_word(_NUMBER)
    # Calls of the x32 kind, which have numbers of their own.
    yield _if_at_least(_X32, 0, 1)
    yield _return_value(_KILL)
    yield from _answer_calls(known, allowed, _PASS)
    yield from _answer_calls(known, ABSENT, _refuse_with(errno.ENOSYS))
    yield from _answer_calls(known, UNSUPPORTED, _refuse_with(errno.EOPNOTSUPP))
    for name, words in looked_into.items():
        if name in known:
            yield from _look_into(known[name], words)
    yield _if_at_least(NEWEST + 1, 0, 1)
    yield _return_value(_refuse_with(errno.ENOSYS))
    yield _return_value(_refuse_with(errno.EPERM))


def _answer_calls(known: Mapping[str, int], names: Iterable[str], answer: int) -> Iterator[bytes]:
    for first, last in _join_ranges(known[name] for name in names if name in known):
        yield _if_at_least(first, 0, 2)
        yield _if_at_least(last + 1, 1, 0)
        yield _return_value(answer)


def _join_ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive numbers."""
    for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        together = [number for _, number in run]
        yield together[0], together[-1]


def _look_into(number: int, words: Sequence[_Word]) -> Iterator[bytes]:
    """Allow a call if each of these conditions on its arguments holds."""
    body = [line for word in words for line in _check_word(word)] + [_return_value(_PASS)]
    yield _if_equal(number, 0, len(body))
    yield from body


def _check_word(word: _Word) -> Iterator[bytes]:
    if word.flags is not None:
        argument, bits = word.flags
        rest = list(_check_word(word._replace(flags=None)))
        yield _load_word(_ARGUMENTS + 8 * argument)
        yield _if_any(bits, 0, len(rest))
        yield from rest
        return
    yield _load_word(_ARGUMENTS + 8 * word.argument + 4 * word.is_upper)
    for place, value in enumerate(word.values):
        yield _if_equal(value, len(word.values) - place, 0)
    if not word.values:
        yield _if_any(word.without, 0, 1)
    yield _return_value(_refuse_with(errno.EPERM))


def _refuse_with(number: int) -> int:
    return 0x00050000 | number


def _load_word(offset: int) -> bytes:
    return struct.pack("HBBI", 0x20, 0, 0, offset)


def _if_equal(value: int, then: int, otherwise: int) -> bytes:
    return struct.pack("HBBI", 0x15, then, otherwise, value)


def _if_at_least(value: int, then: int, otherwise: int) -> bytes:
    return struct.pack("HBBI", 0x35, then, otherwise, value)


def _if_any(bits: int, then: int, otherwise: int) -> bytes:
    return struct.pack("HBBI", 0x45, then, otherwise, bits)


def _return_value(value: int) -> bytes:
    return struct.pack("HBBI", 0x06, 0, 0, value)
