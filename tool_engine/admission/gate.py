"""May new calls come in at all?"""

from __future__ import annotations

from tool_engine.admission import refusal
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import AdmissionError


class Gate:
    """Open, paused, draining, closed, or shut because too many zombies hold slots."""

    __slots__ = ("_is_flooded", "closed_because", "is_paused")

    def __init__(self) -> None:
        self.closed_because: str | None = None
        """`closed`, `draining` or why the process may not use it; None: none of them."""
        self.is_paused = False
        """Whether no call gets a slot that has not run before."""
        self._is_flooded = False

    def update(self, zombies: int, most: int | None) -> bool:
        """Return whether new calls may not just pass, with so many zombies of at most so many."""
        self._is_flooded = most is not None and zombies >= most
        return self.is_paused or self._is_flooded or self.closed_because is not None

    def explain_shut(self) -> str | None:
        """Return why no call gets a slot that comes now; None: some do.

        `paused`, `draining` or `closed`; in a process that was forked it says so.
        """
        return self.closed_because or ("paused" if self.is_paused else None)

    def resume(self) -> None:
        """End a pause or a drain."""
        if self.closed_because == "draining":
            self.closed_because = None
        self.is_paused = False

    def shut(self, because: str) -> None:
        """Refuse new calls: `draining`, or `closed` for good."""
        # What is closed stays so: a drain that comes later must not open it to calls of calls.
        if self.closed_because in (None, "draining") and because != self.closed_because:
            self.closed_because = because

    def disown(self, reason: str) -> None:
        """Refuse all calls for good: the process has forked."""
        self.closed_because = reason

    def lets_bypass(self, request: AdmissionRequest) -> bool:
        """Return whether a call may come in that the limits do not apply to."""
        because = self.closed_because
        return because is None or (because == "draining" and request.parent is not None)

    def refuse(self, request: AdmissionRequest, zombies: int) -> AdmissionError | None:
        """Return why a call may not even wait, if it may not."""
        because = self.closed_because
        if because is not None and (because != "draining" or request.parent is None):
            return refusal.make_closed_error(because)
        return refusal.make_flooded_error(zombies) if self._is_flooded else None
