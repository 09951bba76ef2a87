"""What does a process know of a call of its own that takes units of the cluster?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tool_engine.admission.cluster.lease_messages import AHEAD, IN_LINE, RETURNS, Ticket
from tool_engine.admission.cluster.line_up import Entry
from tool_engine.admission.request import shorten_value
from tool_engine.interfaces.lease_source import Needs

Probe = tuple[str, int] | None
"""A breaker that a call tries, and in which generation."""


@dataclass(slots=True, eq=False)
class Call:
    """A call that waits for units, has them, or has lent them."""

    entry: Entry
    place: tuple[int, float] | None = None
    """Where it stands at the coordinator, and since when, on the clock there."""
    is_parked: bool = False
    is_told: bool = False
    """It is known that it waits, or waits again."""
    probe: Probe = None
    """The breaker that it tries, and in which generation; None: it tries none."""
    passed: str | None = None
    """The breaker that a call above it tries: it is part of that probe, which waits for it."""

    def stand_with(self, caller: Call, *, is_fair: bool) -> None:
        """Take the place of the call that makes this one."""
        self.passed = caller.passed if caller.probe is None else caller.probe[0]
        self.entry.place, self.entry.asked_at = caller.entry.place, caller.entry.asked_at
        self.place = caller.place
        # All that wait now came after a call that got its units without waiting.
        is_ahead = self.place is None or is_fair
        self.entry.standing = AHEAD if is_ahead else IN_LINE


def make_entry(process: str, number: int, waiter: Any, needs: Needs, *, is_strict: bool) -> Entry:
    """Return what waits in line for a call of a controller.

    Args:
        process: Whose call it is.
        number: Of the call.
        waiter: The controller's own.
        needs: What it needs of other processes.
        is_strict: It is refused if it has to wait.
    """
    request = waiter.request
    standing = RETURNS if waiter.resumes is not None else IN_LINE
    if standing is IN_LINE and request.parent is not None:
        standing = AHEAD
    entry = Entry("", process, number, needs.units, 0, 0.0, standing, request.priority)
    share = shorten_value(request.key or "")
    entry.share, entry.asks, entry.breaker = share, is_strict, needs.breaker
    if (key := waiter.lane.share) is not None:
        entry.pace = key.weight
    entry.limits, entry.policy = needs.limits, needs.policy
    return entry


def make_ticket(call: Call) -> Ticket:
    """Return what the coordinator hears of a call that waits."""
    entry = call.entry
    place, asked_at = call.place or (None, None)
    return Ticket(
        entry.number,
        entry.units,
        entry.standing,
        entry.priority,
        entry.share,
        entry.pace,
        entry.breaker,
        place,
        asked_at,
        entry.attempt,
        entry.is_held,
        entry.asks,
        entry.limits,
        entry.policy,
    )


def find_probes(*calls: Call) -> dict[int, tuple[str, int]]:
    """Return which calls try a breaker: of which, and in which generation."""
    return {call.entry.number: call.probe for call in calls if call.probe is not None}


def make_tickets(calls: Mapping[int, Call], numbers: Iterable[int]) -> tuple[Ticket, ...]:
    """Return the tickets of calls with these numbers, in their order."""
    return tuple(make_ticket(calls[number]) for number in sorted(numbers))
