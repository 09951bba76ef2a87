"""May a call of this process pass a breaker that all processes share?"""

from __future__ import annotations

from typing import Any, NamedTuple

from tool_engine.admission.breaker import CLOSED, HALF_OPEN, OPEN, CircuitBreaker
from tool_engine.admission.cluster.cluster_limits import TOOL
from tool_engine.model.settings.concurrency import BreakerPolicy


class _Probe(NamedTuple):
    number: int
    """As its source knows it."""


class SharedBreaker(CircuitBreaker):
    """A breaker that opens and closes in all processes.

    While it is closed, each process counts the failures in a row of its own calls. When it may be
    tried, a call asks: whether it is a probe is decided for all.

    Args:
        policy: When it opens, for how long, and with how many probes it closes.
        name: That of its bucket, or the name that its tool gives it.
        desk: The `LeaseDesk`, where calls ask, and what is heard of other processes.
    """

    __slots__ = ("_desk", "_until", "name")

    def __init__(self, policy: BreakerPolicy, name: str, desk: Any) -> None:
        super().__init__(policy)
        self.name, self._desk = name, desk
        self._until: float | None = None

    @property
    def is_closed(self) -> bool:
        """Whether calls pass without asking."""
        return self._until is None

    def state(self, now: float) -> str:
        """Return `closed`, `open` or `half_open`."""
        if self._desk.is_local:
            return super().state(now)
        if self._until is None:
            return CLOSED
        return OPEN if now < self._until else HALF_OPEN

    def delay(self, now: float) -> float:
        """Return the seconds until one more call may ask; 0.0 if it may now."""
        if self._desk.is_local:
            return super().delay(now)
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def start(self, now: float) -> Any:
        """Count a call that starts; the answer goes to `end`."""
        probe = self._desk.probe
        if probe is not None and probe[0] == self.name:
            return _Probe(probe[1])
        return super().start(now) if self._desk.is_local else self._generation

    def end(self, token: Any, outcome: bool | None, now: float) -> None:
        """Count the end of a call; of one that tried the breaker, for all processes."""
        if isinstance(token, _Probe):
            self._desk.source.end_probe(token.number, outcome)
        elif self._until is None or self._desk.is_local:
            super().end(token, outcome, now)

    @property
    def shared_policy(self) -> BreakerPolicy | None:
        """What other processes have to know of a breaker that a tool defines."""
        return self.policy if self.name.startswith(TOOL) else None

    def turn_over(self, until: float | None) -> None:
        """Note that it has opened, until then, or closed, as all processes know it."""
        if until is None:
            self.failures = 0
        self._until = until
        self._generation += 1

    def _change_state(self, opened_at: float | None) -> None:
        if self._desk.is_local or opened_at is None:
            super()._change_state(opened_at)
        else:
            self.turn_over(opened_at + self.policy.reset_after)
            self._desk.source.trip(self.name, self.shared_policy)
