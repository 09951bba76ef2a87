"""What does a controller do that shares limits with other processes?

The same as alone, but for one look at the clock: what it has on lease is worth nothing after a
time, and a process that was frozen must not use it before it has seen that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.config import ConcurrencyConfig

_OFTEN: Final = 0.001
"""Seconds of the machine's own time between two looks."""


class ClusterController(ToolConcurrencyController):
    """Gives slots to the calls of one process of a cluster.

    Args:
        config: The limits of this process.
        member: Its part in the cluster.
        clock: Seconds, monotonic.
    """

    __slots__ = ("_look_at", "lost", "member")

    def __init__(
        self,
        config: ConcurrencyConfig | None,
        member: ClusterMember,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, clock=clock, leases=member)
        self.member = member
        self._look_at = 0.0
        self.lost = 0
        """How many calls have ended whose units others may have had by then."""

    def admit_nowait(
        self, request: AdmissionRequest, now: float | None = None, call_id: str | None = None
    ) -> ConcurrencySlot | None:
        """Give a slot if the call may run at once, else None; never waits and never raises."""
        if now is None:
            now = self._clock()
        if now >= self._look_at:
            self._look_at_clock(now)
        return super().admit_nowait(request, now, call_id)

    def release(
        self, slot: ConcurrencySlot, now: float | None = None, *, outcome: bool | None = True
    ) -> Any:
        """Give the slot back; see `ToolConcurrencyController.release`."""
        if now is None:
            now = self._clock()
        if now >= self._look_at:
            self._look_at_clock(now)
        super().release(slot, now, outcome=outcome)
        if self.member.has_lost and self.member.end_lost(slot):
            self.lost += 1

    def _look_at_clock(self, now: float) -> None:
        # Not at each call: a clock that goes on while the machine sleeps may take a microsecond.
        self._look_at = now + _OFTEN
        self.member.look_at_clock()
