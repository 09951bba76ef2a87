"""Which processes has another one started, and is one there that should not be?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_ALONE: Final = 3
"""The links to the folder of a process's threads if there is only one."""
_MOST: Final = 64
"""Bytes: more than the process ids have that are read for."""


def list_children(pid: int) -> list[int]:
    """Return the children of a process with one thread."""
    return [int(word) for word in _split_words(f"/proc/{pid}/task/{pid}/children")]


class Children:
    """The processes of one guest and its guardian; close it.

    What says them is kept open, since each call ends with a look at it.

    Args:
        guardian: The process id of the guardian.
        guest: That of its guest.

    Raises:
        OSError: One of them has ended.
    """

    def __init__(self, guardian: int, guest: int) -> None:
        self._guest = guest
        self._words = str(guest).encode()
        self._files: list[int] = []
        try:
            for place in (
                f"{guardian}/task/{guardian}/children",
                f"{guest}/task/{guest}/children",
                f"{guest}/task",
            ):
                self._files.append(os.open(f"/proc/{place}", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def are_as_expected(self) -> bool:
        """Return True if the guardian has its guest alone, and the guest has no process."""
        try:
            of_guardian, of_guest, threads = self._files
            if os.pread(of_guardian, _MOST, 0).split() != [self._words]:
                return False
            if os.fstat(threads).st_nlink == _ALONE:
                return not os.pread(of_guest, _MOST, 0)
            tasks = os.listdir(threads)  # noqa: PTH208 - names are enough
        except (OSError, ValueError):
            return False
        return not any(_split_words(f"/proc/{self._guest}/task/{task}/children") for task in tasks)

    def close(self) -> None:
        """Close what is open."""
        files, self._files = self._files, []
        for file in files:
            os.close(file)


def _split_words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:
        return []
