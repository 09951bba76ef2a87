"""What does a proposed limit say: what it would change, why, and how sure that is?"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Certainty = Literal["high", "medium", "low"]


class LimitPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of a limit, simulated."""

    limit: int
    wait_p50: float
    """Seconds that half of the calls that ran waited at most."""
    wait_p95: float
    time_p95: float
    """Seconds from asking for a slot to the end, of 95 % of the calls that were served."""
    throughput: float
    """Calls that ran and were not refused by the service, per second."""
    refused_by_service: int
    """Calls that ran and were refused: 429 or 503."""
    rejected: int
    """Calls that never had a slot."""


class LimitProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A limit for one bucket."""

    bucket: str
    limit: int
    """The proposed limit; the one of now if that serves as well."""
    now: LimitPoint
    """The limit of now, in the same simulation."""
    then: LimitPoint
    calls: int
    """The recorded calls of the bucket that ran."""
    reason: str
    certainty: Certainty
    unknown: tuple[str, ...]
    """What the records do not show, and the proposal therefore does not know."""
    curve: tuple[LimitPoint, ...]
    """The limits that were simulated, in rising order."""

    def __str__(self) -> str:
        now, then = self.now, self.then
        refusals = then.refused_by_service - now.refused_by_service
        waits = f"p95 wait {show_wait(now.wait_p95)} -> {show_wait(then.wait_p95)} s"
        said = f"{waits}, provider refusals {refusals:+d}"
        change = f"{now.limit} stays" if self.limit == now.limit else f"{now.limit} -> {self.limit}"
        return f"{self.bucket} {change}: {said}"


class LimitProposals(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for the buckets of recorded calls."""

    proposals: tuple[LimitProposal, ...]
    calls: int
    """The recorded calls of all buckets."""
    notes: tuple[str, ...]
    """What holds for all of them, such as buckets with too few calls."""

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


def show_wait(seconds: float) -> str:
    """Return seconds with one decimal, or two digits where that says nothing."""
    return f"{seconds:.1f}" if seconds >= 0.1 or not seconds else f"{seconds:.2g}"
