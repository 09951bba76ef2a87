"""Which calls may try whether a breaker may close, if one process has seen it open?"""

from __future__ import annotations

from dataclasses import dataclass, field

from tool_engine.admission.cluster.lease_messages import BreakerView, Report
from tool_engine.model.settings.concurrency import BreakerPolicy


@dataclass(slots=True)
class ClusterBreaker:
    """One breaker for all processes.

    It opens when one of them reports as many failures in a row as its policy says. After
    `reset_after` the coordinator grants calls as probes: never more at once than the policy has.

    Args:
        policy: When it opens, for how long, and with how many probes it closes.
        generation: How often it has opened or closed.
        opens_at: When calls may be tried, on the coordinator's clock; None: it is closed.
        probes: The calls that try it now: life and number.
    """

    policy: BreakerPolicy
    generation: int = 0
    opens_at: float | None = None
    probes: set[tuple[str, int]] = field(default_factory=set)

    def may_pass(self, now: float) -> bool:
        """Return whether one more call may be granted."""
        if self.opens_at is None:
            return True
        return now >= self.opens_at and len(self.probes) < self.policy.probes

    def view(self, now: float) -> BreakerView:
        """Return how it stands."""
        left = None if self.opens_at is None else max(0.0, self.opens_at - now)
        return BreakerView(self.generation, left)

    def hear(self, life: str, report: Report, now: float) -> bool:
        """Take in what a call has shown; return whether it opens or closes.

        What belongs to an earlier generation says nothing any more; so does what comes twice.
        """
        if report.number is None:
            opens = self.opens_at is None and report.generation == self.generation
            if opens:
                self._change_state(now + self.policy.reset_after)
            return opens
        is_probe = (life, report.number) in self.probes
        self.probes.discard((life, report.number))
        if not is_probe or report.outcome is None or report.generation != self.generation:
            return False
        self._change_state(None if report.outcome else now + self.policy.reset_after)
        return True

    def adopt(self, view: BreakerView, now: float) -> bool:
        """Take in how a process knows it, where a crash has forgotten that; return whether so."""
        if view.generation <= self.generation:
            return False
        self.generation = view.generation
        self.opens_at = None if view.left is None else now + view.left
        self.probes.clear()
        return True

    def forget(self, life: str) -> None:
        """Free the probes of a life that has ended."""
        self.probes = {probe for probe in self.probes if probe[0] != life}

    def _change_state(self, opens_at: float | None) -> None:
        self.opens_at = opens_at
        self.generation += 1
        self.probes.clear()
