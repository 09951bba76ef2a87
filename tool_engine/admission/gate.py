"""May calls come in at all?"""

from __future__ import annotations

from tool_engine.admission import refusal
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import AdmissionError

__all__ = ["Gate"]


class Gate:
    """Open, paused, draining, closed, or shut because too many zombies hold slots."""

    __slots__ = ("_is_flooded", "closed_because", "is_paused", "is_shut")

    def __init__(self) -> None:
        self.closed_because: str | None = None
        """`closed` or `draining`; None: neither."""
        self.is_paused = False
        self._is_flooded = False
        self.is_shut = False
        """Whether a new call may not just pass, for any of these reasons."""

    def update(self, zombies: int, most: int | None) -> None:
        """Take note of how many zombies there are, and of how many there may be."""
        self._is_flooded = most is not None and zombies >= most
        self.is_shut = self.is_paused or self._is_flooded or self.closed_because is not None

    def pause(self) -> None:
        """Let no call get a slot."""
        self.is_paused = self.is_shut = True

    def resume(self) -> None:
        """End a pause or a drain; `update` has to follow."""
        if self.closed_because != "closed":
            self.closed_because = None
        self.is_paused = False

    def shut(self, because: str) -> None:
        """Refuse new calls: `draining`, or `closed` for good."""
        # What is closed stays so: a drain that comes later must not open it to calls of calls.
        if because == "closed" or self.closed_because is None:
            self.closed_because = because
        self.is_shut = True

    def lets_bypass(self, request: AdmissionRequest) -> bool:
        """Return whether a call may come in that the limits do not apply to."""
        because = self.closed_because
        return because is None or (because == "draining" and request.parent is not None)

    def refuse(self, request: AdmissionRequest, zombies: int) -> AdmissionError | None:
        """Return why a call may not even wait, if it may not."""
        because = self.closed_because
        if because == "closed" or (because is not None and request.parent is None):
            return refusal.closed(because)
        return refusal.flooded(zombies) if self._is_flooded else None
