"""What happens to open connections and threads in a forked process?

The child has no copy of the threads, and the connections belong to the parent: two processes that
write to one connection corrupt it. So the child refuses to use them and says why.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Inheritable(Protocol):
    """An object that a forked process must not use."""

    def disown(self, reason: str) -> None:
        """Refuse every further use, for this reason."""


_opened: Final[WeakSet[Inheritable]] = WeakSet()
_process = os.getpid()


def disown_in_child(opened: Inheritable) -> None:
    """Call `disown` of `opened` in every process that is forked from now on."""
    _opened.add(opened)


def _disown_all() -> None:
    global _process
    owner, _process = _process, os.getpid()
    reason = (
        f"it was opened in process {owner} and belongs to it, and this is process {_process}, "
        "which was forked later; make a new one in each process, after the fork"
    )
    for each in tuple(_opened):
        each.disown(reason)
    _opened.clear()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_disown_all)
