"""What does the model of admission know of one call, of a tool, and of a breaker?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import BreakerPolicy, CollisionPolicy, ToolRate

LIVE = ("active", "parked", "resuming", "zombie")

# No two rates end at the same moment, so that there is one right answer to who comes first.
PERIODS = {"a": 8 + 1 / 64, "b": 9 + 3 / 64, "c": 10 + 5 / 64}


@dataclass(frozen=True)
class ToolKind:
    """What a definition says about the calls of a tool."""

    is_rated: bool = False
    breaker: BreakerPolicy | None = None
    key_limit: int | None = None
    collision: CollisionPolicy = CollisionPolicy.QUEUE

    @property
    def minds_lent(self) -> bool:
        """Whether a call in progress that has lent its slot is one too many for it."""
        return self.collision.value in ("reject", "cancel_newest", "cancel_in_progress")

    def rate(self, bucket: str) -> ToolRate | None:
        return ToolRate(2, PERIODS[bucket]) if self.is_rated else None


TOOLS = {
    "plain": ToolKind(),
    "rated": ToolKind(is_rated=True),
    "fragile": ToolKind(breaker=BreakerPolicy(2, 6.0, 1)),
    "single": ToolKind(key_limit=1),
    "rejecting": ToolKind(key_limit=2, collision=CollisionPolicy.REJECT),
    "refusing": ToolKind(key_limit=1, collision=CollisionPolicy.CANCEL_NEWEST),
    "renewing": ToolKind(key_limit=1, collision=CollisionPolicy.KEEP_NEWEST_QUEUED),
    "restarting": ToolKind(key_limit=1, collision=CollisionPolicy.CANCEL_IN_PROGRESS),
    "all": ToolKind(True, BreakerPolicy(1, 4.0, 2), 2),
}


@dataclass(eq=False, repr=False)
class Call:
    """One call, from asking to its end."""

    number: int
    bucket: str
    tool: str = "plain"
    tool_key: str | None = None
    key: str | None = None
    weight: int = 1
    priority: int = 5
    timeout: float | None = None
    is_bypass: bool = False
    parent: Any = None
    """The `Call` that makes it."""
    state: str = "new"
    sequence: int = 0
    place: tuple[float, int, int] = (0.0, 0, 0)
    line_place: tuple[float, int, int] = (0.0, 0, 0)
    """Where it waits: a call that goes on comes before all others."""
    due: float | None = None
    """Under `fair`: the round in which it is served; None: it was never first in its line."""
    deadline: float = math.inf
    asked: float = 0.0
    started: float = 0.0
    since: float = 0.0
    """When it was given the slot that it has now."""
    nested: int = 0
    is_overdue: bool = False
    probes: list[tuple[Breaker, int]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Call {self.number} {self.tool_name} key={self.key} {self.state}>"

    def __post_init__(self) -> None:
        kind = self.kind
        if kind.key_limit is None:
            self.tool_key = None
        elif self.tool_key is None:
            self.tool_key = "x"

    @property
    def kind(self) -> ToolKind:
        return TOOLS[self.tool]

    @property
    def tool_name(self) -> str:
        return f"{self.tool}@{self.bucket}"

    @property
    def line(self) -> str:
        """Of the tool, if it has a rate or a breaker; of the bucket, if not."""
        has_own = self.kind.is_rated or self.kind.breaker is not None
        return self.tool_name if has_own else self.bucket

    @property
    def is_new(self) -> bool:
        return self.state != "resuming" and self.parent is None

    def ancestors(self) -> list[Call]:
        return [] if self.parent is None else [self.parent, *self.parent.ancestors()]

    def request(self, config: ConcurrencyConfig, parent: Any = None) -> AdmissionRequest:
        """What the controller is asked."""
        kind = self.kind
        return AdmissionRequest(
            bucket=self.bucket,
            priority=self.priority,
            weight=self.weight,
            line=self.line,
            rate=kind.rate(self.bucket),
            breaker=kind.breaker,
            is_bypass=self.is_bypass,
            timeout=self.timeout,
            parent=parent,
            key=self.key,
            tool_name=self.tool_name,
            tool_key=self.tool_key,
            tool_key_limit=kind.key_limit,
            collision=kind.collision,
        ).under(config)


@dataclass(eq=False)
class Breaker:
    """Counts failures in a row."""

    policy: BreakerPolicy
    failures: int = 0
    opened_at: float | None = None
    running: int = 0
    """Probes."""
    epoch: int = 0
    """Goes up whenever it opens or closes: who started before says nothing about it now."""

    def is_open(self, now: float) -> bool:
        if self.opened_at is None:
            return False
        is_cooling = now < self.opened_at + self.policy.reset_after
        return is_cooling or self.running >= self.policy.probes

    def state(self, now: float) -> str:
        if self.opened_at is None:
            return "closed"
        return "open" if now < self.opened_at + self.policy.reset_after else "half_open"

    def start(self) -> int:
        if self.opened_at is not None:
            self.running += 1
        return self.epoch

    def end(self, epoch: int, outcome: bool | None, now: float) -> None:
        if epoch != self.epoch:
            return
        was_probe = self.opened_at is not None
        self.running -= was_probe
        if outcome is None:
            return
        self.failures = 0 if outcome else self.failures + 1
        if outcome and was_probe:
            self.change(None)
        elif not outcome and (was_probe or self.failures >= self.policy.failures):
            self.change(now)

    def change(self, opened_at: float | None) -> None:
        self.opened_at, self.running, self.epoch = opened_at, 0, self.epoch + 1


@dataclass
class Share:
    """What one key has taken of the rounds of deficit round robin."""

    round: float = 0.0
    credit: float = 0.0
    weight: float = 1.0

    def after(self, cost: int) -> Share:
        """Goes round by round, `weight` more in each, until the cost is covered."""
        turn, credit = self.round, self.credit
        while credit < cost:
            turn += 1
            credit += self.weight
        return Share(turn, credit - cost)
