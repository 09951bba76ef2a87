"""What has been counted of a tool or a bucket, whatever bounds it just now?

Starts and failures in a row belong to the tool or the bucket, and not to the rate or the breaker
that its definition or its configuration names. So an edit hands out no second allowance.
"""

from __future__ import annotations

from typing import Any

from tool_engine.admission.breaker import CircuitBreaker
from tool_engine.admission.throttle import Throttle
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate


class Counts:
    """The starts and the failures in a row of what may have a rate and a breaker."""

    __slots__ = ("_breaker", "_throttle", "breaker", "throttle")

    def __init__(self) -> None:
        self._throttle: Throttle | None = None
        self._breaker: CircuitBreaker | None = None
        self.throttle: Throttle | None = None
        """None: no rate bounds it now. What was counted until then is kept."""
        self.breaker: CircuitBreaker | None = None
        """None: it has none now."""

    def bound(self, rate: ToolRate | None, policy: BreakerPolicy | None) -> None:
        """Goes on counting under another rate and another breaker, or without."""
        if rate is not None:
            self._throttle = self._throttle or Throttle(rate)
            self._throttle.configure(rate)
        if policy is not None:
            self._breaker = self._breaker or CircuitBreaker(policy)
            self._breaker.configure(policy)
        self.throttle = None if rate is None else self._throttle
        self.breaker = None if policy is None else self._breaker


class ToolCounts(Counts):
    """The counts of one tool, in whichever buckets its calls wait.

    Args:
        name: The tool.
        owner: Of a tool that only one conversation has; see `AdmissionRequest.owner`.
    """

    __slots__ = ("edition", "is_shared", "limits", "lines", "name", "owner")

    def __init__(self, name: str, owner: int | None) -> None:
        super().__init__()
        self.name = name
        self.owner = owner
        self.edition = -1
        """The newest `AdmissionRequest.edition` that was seen; an older one changes nothing."""
        self.limits: tuple[ToolRate | None, BreakerPolicy | None, int | None] = (None, None, None)
        """Rate, breaker, and the limit of each of its keys."""
        self.is_shared = False
        """Whether rate and breaker hold for all processes of a cluster."""
        self.lines: list[Any] = []
        """Its `ToolLine` in each bucket that its definitions have named."""
