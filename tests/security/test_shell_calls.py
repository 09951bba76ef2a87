"""Which calls of the kernel does a hostile script in the sandbox get through?"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest

from tests.security.shell_cell import Cell
from tool_engine.executors.commands.sandbox_launcher import find_obstacle
from tool_engine.executors.commands.system_calls import (
    ALLOWED,
    ATTRIBUTES,
    LOOKED_INTO,
    NETWORK,
    numbers_of,
)

pytestmark = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")


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
    known = numbers_of(platform.machine())
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
