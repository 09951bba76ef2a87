"""How does a test that runs as root meet folders which it may not write?"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

_VERSION = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root pass by the rights of files."""


@contextlib.contextmanager
def without_root() -> Iterator[None]:
    """Have the rights of files hold for this thread, as for any other user."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    held = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    bound = (ctypes.c_uint32 * 6)(*held)
    bound[0] &= ~_OVERRIDES
    assert libc.capset(header, bound) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0
