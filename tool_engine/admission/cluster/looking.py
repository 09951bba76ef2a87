"""Who has what of a cluster, who waits, and behind whom?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from tool_engine.admission.breaker import CLOSED, HALF_OPEN, OPEN
from tool_engine.admission.cluster.breakers import ClusterBreaker
from tool_engine.admission.cluster.cluster_database import LOST, read_state
from tool_engine.admission.cluster.cluster_limits import STRATEGIES, is_rate, name_definition
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.line_up import Entry
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.admission.cluster.outage import describe_loss
from tool_engine.admission.cluster.saved_state import load_state
from tool_engine.clock import read_uptime
from tool_engine.errors import ClusterUnavailableError
from tool_engine.interfaces.admission_view import (
    ClusterProcess,
    ClusterSnapshot,
    ClusterWaiting,
    WaitExplanation,
)

_UNKNOWN: Final = (
    "it neither runs nor waits in this process: it has ended, or is a call of another one, whose "
    "engine says where it stands"
)


def view_cluster(name: str, coordinator: Coordinator, now: float) -> ClusterSnapshot:
    """Return a cluster as people see it.

    Args:
        name: The cluster.
        coordinator: Its state.
        now: Seconds, on the database's clock.
    """
    limits, lives = coordinator.limits, coordinator.lives.values()
    return ClusterSnapshot(
        name=name,
        revision=limits.revision,
        strategy=limits.strategy or STRATEGIES[0],
        limits=_list_limits(coordinator),
        used=_count_used(coordinator),
        breakers={name: _state_of(each, now) for name, each in coordinator.breakers.items()},
        processes=[
            ClusterProcess(
                _name_process(life.process),
                {
                    resource: account.out
                    for resource, account in sorted(life.accounts.items())
                    if account.out
                },
                sum(not entry.is_granted for entry in life.entries.values()),
                coordinator.times_of(life)[1]
                if coordinator.is_idle(life) and life.lost_at is None
                else max(0.0, life.expires - now),
                life.lost_at is None,
            )
            for life in sorted(lives, key=lambda life: life.process)
            if life.process
        ],
        waiting=[
            ClusterWaiting(
                position,
                _name_process(entry.process),
                dict(entry.units),
                entry.priority,
                max(0.0, now - entry.asked_at),
                entry.is_held,
            )
            for position, entry in enumerate(_list_waiting(coordinator), 1)
        ],
        paused={r: until - now for r, until in coordinator.paused.items() if until > now},
        gated_for=coordinator.gated_until - now if coordinator.is_gated(now) else 0.0,
    )


def _list_limits(coordinator: Coordinator) -> dict[str, int]:
    limits = coordinator.limits
    return {
        **{f"bucket:{name}": limit for name, limit in limits.buckets.items()},
        **{f"key:{field}": limit for field, limit in limits.keys.items()},
        **{f"rate:{name}": rate.calls for name, rate in limits.rates.items()},
        **coordinator.books.defined,
    }


def _count_used(coordinator: Coordinator) -> dict[str, int]:
    used: Counter[str] = Counter()
    for resource, units in coordinator.books.used.items():
        used[name_definition(resource)] += units
    return dict(used)


def _state_of(breaker: ClusterBreaker, now: float) -> str:
    if breaker.opens_at is None:
        return CLOSED
    return OPEN if now < breaker.opens_at else HALF_OPEN


async def read_cluster(url: str | Callable[[], str], name: str) -> ClusterSnapshot | None:
    """Read a cluster without taking part in it; None: there is none of that name.

    Raises:
        ClusterUnavailableError: Its database does not answer.
        ConfigurationError: The URL cannot be used, or another version has written the state.
    """
    try:
        found = await read_state(url, name)
    except LOST as error:
        raise ClusterUnavailableError(
            f"the database of the cluster {name!r} does not answer ({describe_loss(error)}); "
            "start it, or give another URL"
        ) from error
    if found is None:
        return None
    return view_cluster(name, load_state(found.state), read_uptime() + found.offset)


class ClusterView:
    """What can be seen of the cluster in which a process takes part: `engine.cluster`.

    Args:
        member: The part of this process.
        explain: Returns what the controller of this process knows of a call.
    """

    def __init__(self, member: ClusterMember, explain: Callable[[str], WaitExplanation]) -> None:
        self._member, self._explain = member, explain

    def count(self) -> dict[str, Any]:
        """Return figures of this process, without asking the database.

        Returns:
            `connected` (1 or 0), `waiting` (calls that wait for other processes), `statements` and
            `lost` (calls that ended as `lease_lost`) since the start, and `units` that it has, in
            use or not, by resource.
        """
        return self._member.count()

    async def snapshot(self) -> ClusterSnapshot:
        """Return who holds what in all processes, and who waits.

        Raises:
            ClusterUnavailableError: The database does not answer.
            EngineClosedError: The engine is closed.
        """
        state, now = await self._read_state()
        return view_cluster(self._member.cluster, state, now)

    async def explain(self, call_id: str) -> str:
        """Return where a call of this process stands among those of all, in a sentence.

        Raises:
            ClusterUnavailableError: The database does not answer.
            EngineClosedError: The engine is closed.
        """
        state, now = await self._read_state()
        own = self._explain(call_id)
        if own.state == "unknown":
            return own.reason or _UNKNOWN
        shared = "it shares the run of another call: " if own.state == "sharing" else ""
        place = self._member.find_ticket(own.holders[0] if shared else call_id)
        if place is None:
            return f"{shared}it does not wait for other processes"
        return f"{shared}{_describe_place(place, state, now)}"

    async def _read_state(self) -> tuple[Coordinator, float]:
        try:
            found = await self._member.read_state()
        except LOST as error:
            is_connected = self._member.count()["connected"]
            trouble = describe_loss(error) if is_connected else self._member.describe_trouble()
            raise ClusterUnavailableError(
                f"the database of the cluster {self._member.cluster!r} does not answer "
                f"({trouble}); ask again once it does"
            ) from error
        return load_state(found.state), read_uptime() + found.offset


def _describe_place(place: tuple[str, int], state: Coordinator, now: float) -> str:
    """Return where the call with a number of a life stands, as the end of a sentence."""
    line = _list_waiting(state)
    at = next((i for i, each in enumerate(line) if (each.owner, each.number) == place), None)
    if at is None:
        return "it asks the other processes just now; ask again"
    entry = line[at]
    ahead = [each for each in line[:at] if each.units.keys() & entry.units.keys()]
    if not entry.units:
        return f"number {at + 1} in the cluster for a try of breaker {entry.breaker}"
    lacking = sorted(entry.units.keys() & state.blocked, reverse=True)
    resource = (lacking or sorted(entry.units))[0]
    behind = f", behind {_count_calls(ahead)}" if ahead else ""
    holders = [
        f"{_name_process(life.process)} ({life.accounts[resource].out})"
        for life in state.lives.values()
        if resource in life.accounts and life.accounts[resource].out
    ]
    held = f"; held by {', '.join(sorted(holders))}" if holders else ""
    if is_rate(resource):
        delay = state.books.find_delay(resource, now)
        held += f"; it lets the next call through in {max(0.0, delay):.2f} s at the earliest"
    gated = "; the server was started anew, and all say first what they hold"
    is_gated = gated if state.is_gated(now) else ""
    return f"number {len(ahead) + 1} for {resource} in the cluster{behind}{held}{is_gated}"


def _list_waiting(coordinator: Coordinator) -> list[Entry]:
    """Return those that wait, the next one first; those that are held up come last."""
    line_up = coordinator.line_up
    waiting = [
        entry
        for life in coordinator.lives.values()
        for entry in life.entries.values()
        if not entry.is_granted
    ]
    return sorted(waiting, key=lambda entry: (entry.is_held, line_up.rank(entry)))


def _count_calls(entries: Iterable[Entry]) -> str:
    counts = Counter(_name_process(entry.process) for entry in entries)
    words = [
        f"{count} call{'s' if count > 1 else ''} of {process}" for process, count in counts.items()
    ]
    return " and ".join(words)


def _name_process(process: str) -> str:
    # Behind the mark stands what makes it another one than those of its name.
    return process.rpartition("#")[0] or process
