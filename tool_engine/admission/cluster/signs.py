"""Which pauses and open breakers does a process know, that hold calls up beside a lack of units?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.admission.cluster.coordinator import LOOK_EVERY
from tool_engine.admission.cluster.effects import Effect, PauseUntil, TurnBreaker
from tool_engine.admission.cluster.lease_messages import BreakerView, State
from tool_engine.admission.cluster.line_up import Entry

CLOSED: Final = BreakerView(0)


class Signs:
    """The pauses and breakers of a cluster, as one process knows them."""

    __slots__ = ("breakers", "paused", "rates")

    def __init__(self) -> None:
        self.paused: dict[str, float] = {}
        """Until when no call of a resource may start, on this process's clock."""
        self.breakers: dict[str, BreakerView] = {}
        self.rates: dict[str, float] = {}
        """Until when a rate holds calls of this process up, on its clock."""

    def find(self, breaker: str) -> BreakerView:
        """Return how a breaker stands."""
        return self.breakers.get(breaker, CLOSED)

    def is_paused(self, entry: Entry) -> bool:
        """Return whether a resource that a call needs is paused."""
        return any(resource in self.paused for resource in entry.units)

    def may_start(self, entry: Entry) -> bool:
        """Return whether nothing but units holds a call up; it is a probe of no breaker."""
        if self.is_paused(entry):
            return False
        return entry.breaker is None or self.find(entry.breaker).left is None

    def pause(self, resource: str, until: float, now: float) -> list[Effect]:
        """Note a pause; a shorter one than there is changes nothing."""
        if until <= self.paused.get(resource, now):
            return []
        self.paused[resource] = until
        return [PauseUntil(resource, until)]

    def find_delay(self, entry: Entry, now: float) -> float:
        """Return for how many seconds rates let a call not start; 0.0: none holds it up."""
        found = [self.rates[resource] - now for resource in entry.units if resource in self.rates]
        # It holds until the next state says otherwise: others may come first.
        return max((max(each, LOOK_EVERY) for each in found), default=0.0)

    def end_pauses(self, now: float) -> None:
        """Forget the pauses that are over."""
        for resource, until in list(self.paused.items()):
            if until <= now:
                del self.paused[resource]

    def say_all(self, now: float) -> dict[str, Any]:
        """Return what a greeting says of them."""
        pauses = {resource: until - now for resource, until in self.paused.items() if until > now}
        return {"pauses": pauses, "breakers": dict(self.breakers)}

    def take_in(self, state: State, now: float) -> list[Effect]:
        """Take in what the coordinator says."""
        effects: list[Effect] = []
        for resource, left in state.pauses.items():
            effects += self.pause(resource, now + left, now)
        self.rates = {resource: now + left for resource, left in state.rates.items()}
        for name, view in state.breakers.items():
            known = self.breakers.get(name)
            if known is None or known.generation != view.generation:
                effects.append(TurnBreaker(name, view))
            self.breakers[name] = view
        return effects
