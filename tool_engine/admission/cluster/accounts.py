"""How many units of each resource has a life been granted, and how many has it given back?

Two counters, each written by one side alone: `granted` by the coordinator, `returned` by the
process. Each side takes the larger of what it knows and what it hears, so that a message that is
lost, doubled, late or out of order changes nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from tool_engine.admission.cluster.cluster_limits import (
    ClusterLimits,
    is_rate,
    name_definition,
)
from tool_engine.admission.cluster.lease_messages import RETURNS
from tool_engine.admission.cluster.line_up import Entry


class Account(msgspec.Struct, array_like=True):
    """What one life has of one resource.

    Args:
        granted: Units that it ever got.
        returned: Units that it ever gave back.
        spent: Of a rate: the starts among `returned`, which count for a period longer.
    """

    granted: int = 0
    returned: int = 0
    spent: int = 0

    @property
    def out(self) -> int:
        """Units that it may use now."""
        return self.granted - self.returned


@dataclass(slots=True)
class Books:
    """What all lives together have of each resource, as the coordinator counts it.

    Args:
        limits: How much there is.
        used: Units that are out, or count as starts of the last period.
        holders: Which lives have units, and how many.
        cooling: Of rates: until when so many starts count.
        defined: The limits that tools define, by `name_definition`.
    """

    limits: ClusterLimits
    used: dict[str, int] = field(default_factory=dict)
    holders: dict[str, dict[str, int]] = field(default_factory=dict)
    cooling: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)

    def room_of(self, resource: str) -> int | None:
        """Return how many units may be granted; None: any number."""
        limit = self.limit_of(resource)
        return None if limit is None else limit - self.used.get(resource, 0)

    def has_room(self, entry: Entry, resource: str) -> bool:
        """Return whether an entry may be granted what it needs of a resource.

        One may be heavier than a limit that was lowered since it came, and would wait for ever, and
        all behind it: one that has run before, or that goes by an older definition of its tool. It
        goes alone.
        """
        room = self.room_of(resource)
        is_of_tool = self.limits.limit_of(resource) is None
        is_alone = resource not in self.used and (entry.standing == RETURNS or is_of_tool)
        return room is None or entry.units[resource] <= room or is_alone

    def limit_of(self, resource: str) -> int | None:
        """Return how many units there are; None: any number."""
        limit = self.limits.limit_of(resource)
        return self.defined.get(name_definition(resource)) if limit is None else limit

    def move(self, life: str, resource: str, units: int) -> None:
        """Count units that a life gets; fewer than 0: that it has no more."""
        self._add_used(resource, units)
        holders = self.holders.setdefault(resource, {})
        out = holders.get(life, 0) + units
        if out:
            holders[life] = out
        else:
            holders.pop(life, None)
            if not holders:
                del self.holders[resource]

    def cool(self, resource: str, starts: int, now: float) -> None:
        """Count starts for a period from now on, whenever they have been."""
        if starts > 0:
            self._add_used(resource, starts)
            until = now + self.limits.period_of(resource)
            self.cooling.setdefault(resource, deque()).append((until, starts))

    def set_back(self, seconds: float) -> None:
        """Go by a clock that was set back."""
        for resource, row in self.cooling.items():
            self.cooling[resource] = deque((until - seconds, starts) for until, starts in row)

    def find_delay(self, resource: str, now: float) -> float:
        """Return for how many seconds at least no further call of a full rate may start."""
        row = self.cooling.get(resource)
        # Of a start that was granted, and is not reported, the period has not begun.
        return row[0][0] - now if row else self.limits.period_of(resource)

    def end_cooling(self, now: float) -> bool:
        """Forget starts whose period is over; return whether there were any."""
        ended = False
        for resource, row in list(self.cooling.items()):
            while row and row[0][0] <= now:
                _, starts = row.popleft()
                self._add_used(resource, -starts)
                ended = True
            if not row:
                del self.cooling[resource]
        return ended

    def close(self, life: str, accounts: dict[str, Account], now: float, *, is_known: bool) -> None:
        """Take back what a life has that has ended.

        It may have started as many calls as it had starts; where a crash has forgotten what it was
        granted last (`is_known` is false), as many as the rate allows.
        """
        for resource, account in accounts.items():
            out = account.out
            if out:
                self.move(life, resource, -out)
            if is_rate(resource) and is_known:
                self.cool(resource, out, now)
        if not is_known:
            defined = [resource for resource in self.defined if is_rate(resource)]
            for resource in (*(f"rate:{name}" for name in self.limits.rates), *defined):
                self.cool(resource, self.room_of(resource) or 0, now)

    def _add_used(self, resource: str, units: int) -> None:
        used = self.used.get(resource, 0) + units
        if used:
            self.used[resource] = used
        else:
            self.used.pop(resource, None)
