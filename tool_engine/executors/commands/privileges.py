"""How does a thread ensure that its programs gain no more rights than this process?"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38


def give_up_privileges() -> None:
    """Make this thread and its children gain nothing from setuid programs.

    A program that became another user, such as `sudo`, could not be killed by this process. The
    change is permanent for the calling thread: use one that starts a single command. See prctl(2),
    PR_SET_NO_NEW_PRIVS.
    """
    _load_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


@cache
def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
