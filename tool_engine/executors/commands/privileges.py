"""How does a thread make sure that what it starts never has more rights than this process?"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

__all__ = ["give_up_privileges"]

_PR_SET_NO_NEW_PRIVS: Final = 38


def give_up_privileges() -> None:
    """From now on this thread, and what it starts, gains nothing by setuid programs or the like.

    A program that became another user, such as `sudo`, could not be killed by this process. Only
    the thread that calls this changes, for good: call it in a thread that starts one command.

    See prctl(2), PR_SET_NO_NEW_PRIVS.
    """
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
