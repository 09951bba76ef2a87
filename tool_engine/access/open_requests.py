"""How many requests of a principal may be open at once?

What is open holds a connection, and most of it work: a stream, a wait, a call. A rate does not
bound that, since each of them may last for hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tool_engine.access.problem import Problem
from tool_engine.model.checks.bounds import check_count

MOST: Final = 256
"""A third of the connections that there are where a process may have 1,024 open files."""
_PAUSE: Final = 1.0
"""Seconds after which it may be worth while to ask again."""


class OpenRequests:
    """The requests that are open, of each principal.

    Args:
        most: How many one principal may have; None: any number.

    Raises:
        ConfigurationError: `most` is no number of requests.
    """

    def __init__(self, most: int | None) -> None:
        if most is not None:
            check_count("max_open", most, minimum=1)
        self._most = most
        self._counts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<OpenRequests {self._counts}>"

    def enter(self, name: str) -> None:
        """Count a request of a principal.

        Raises:
            Problem: It has as many as it may have.
        """
        count = self._counts.get(name, 0)
        if self._most is not None and count >= self._most:
            raise Problem(
                429,
                "too-many-open",
                f"{count} requests of {name[:80]!r} are open, which is the most; end some streams, "
                "waits or calls, or have the server allow more with max_open (--max-open)",
                retry_after=_PAUSE,
            )
        self._counts[name] = count + 1

    @contextmanager
    def hold_place(self, name: str) -> Iterator[None]:
        """Count a request of a principal for as long as the block runs; see `enter`."""
        self.enter(name)
        try:
            yield
        finally:
            self.leave(name)

    def leave(self, name: str) -> None:
        """Count a request no more that was counted."""
        if (count := self._counts[name] - 1) > 0:
            self._counts[name] = count
        else:
            del self._counts[name]
