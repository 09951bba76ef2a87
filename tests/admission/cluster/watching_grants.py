"""Is each grant of a coordinator the right one? A slow second opinion on every single one."""

from __future__ import annotations

import math
import pickle
from collections import defaultdict
from typing import Any, Protocol

from tests.admission.cluster.shared_by_a_world import is_of_tool
from tool_engine.admission.cluster.cluster_limits import is_rate, name_definition
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import (
    RETURNS,
    Hello,
    Message,
    Note,
    Reply,
    State,
    Ticket,
)
from tool_engine.admission.cluster.life import Kept, Life, Outcome
from tool_engine.admission.cluster.line_up import Entry


class BreachError(AssertionError):
    """A promise of the cluster is broken."""


class Watcher(Protocol):
    """Who knows what really is, and not only what was said."""

    places: dict[tuple[str, int], int]
    """The place that a process has heard first for a call."""
    last_place: int
    """The last one of them."""

    def note_removed(self, life: str) -> None: ...

    def note_back(self, hello: Hello) -> None: ...

    def note_waits(self, entry: Entry) -> None: ...


class WatchedCoordinator(Coordinator):
    """A coordinator that looks at each grant, and at all that it does not grant."""

    watcher: Watcher
    now = 0.0
    is_thorough = True
    """Each time; else what costs time with each thousandth message."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.turns: dict[Any, float] = defaultdict(float)
        self.floors: dict[Any, float] = defaultdict(float)
        self.granted = 0
        self.told: dict[str, int] = {}
        """What tools define, as the tickets said that were taken in."""
        self.said_pauses: dict[str, float] = {}
        """Until when resources are paused, as processes said."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "watcher"}

    def save(self) -> bytes:
        """All that is on disk."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def load(saved: bytes, watcher: Watcher) -> WatchedCoordinator:
        """What a crash leaves."""
        coordinator: WatchedCoordinator = pickle.loads(saved)  # noqa: S301 - our own
        coordinator.watcher = watcher
        return coordinator

    def restart_unsure(self, now: float, seen: int = -1) -> None:
        raise BreachError("no state was put back, and it is taken for an older one")

    def hear(self, message: Message, now: float, sessions: frozenset[str] | None = None) -> Outcome:
        self.now = now
        outcome = super().hear(message, now, sessions)
        if isinstance(message, Hello) and isinstance(outcome.answer, Reply):
            self.watcher.note_back(message)
            if left := self.lives.keys() & set(message.former):
                raise BreachError(f"{left} have ended, and hold up a restart")
        if self.is_thorough or not self.heard % 1000:
            self._check_books()
            is_served = isinstance(outcome.answer, Reply) and not self.is_gated(now)
            if is_served and (first := self._first_that_may_go()) is not None:
                raise BreachError(f"nothing holds it up, and it waits: {first}")
        return outcome

    def renew(self, kept: Kept, now: float) -> tuple[Note, ...] | None:
        self.now = now
        notes = super().renew(kept, now)
        if self.is_thorough:
            self._check_books()
        return notes

    def _take_tickets(self, life: Life, tickets: tuple[Ticket, ...], now: float) -> list[int]:
        for ticket in tickets:
            self.told.update(ticket.limits)
        return super()._take_tickets(life, tickets, now)

    def _make_entry(self, life: Life, ticket: Ticket, now: float) -> Entry:
        entry = super()._make_entry(life, ticket, now)
        if not ticket.limits.keys() >= {name_definition(r) for r in ticket.units if is_of_tool(r)}:
            raise BreachError(f"{ticket} does not say what its tool defines")
        if ticket.place is None and entry.place <= self.watcher.last_place:
            raise BreachError(f"{entry} stands before those that came earlier")
        return entry

    def _answer_asking(self, now: float) -> None:
        known = {id(entry) for entry in self.asking if entry.told_at is not None}
        super()._answer_asking(now)
        for entry in self.asking:
            late = now - entry.asked_at >= self.grace
            if entry.told_at is not None and id(entry) not in known and not late:
                self.watcher.note_waits(entry)

    def _take_signs(self, life: Life, message: Message, now: float) -> None:
        super()._take_signs(life, message, now)
        for resource, left in message.pauses.items():
            self.said_pauses[resource] = max(self.said_pauses.get(resource, now), now + left)

    def _follow_clock(self, now: float) -> None:
        is_set_back, back = self.is_set_back(now), self.said_at - now - self.doubt
        super()._follow_clock(now)
        if is_set_back:
            self.said_pauses = {r: until - back for r, until in self.said_pauses.items()}
        # One that is over stays so where the clock is set back by less than what is followed.
        self.said_pauses = {r: until for r, until in self.said_pauses.items() if until > now}

    def _remove_life(self, life: Life, now: float) -> None:
        starts = {r: account.out for r, account in life.accounts.items() if is_rate(r)}
        counted = {r: self._count_cooling(r) + out for r, out in starts.items()}
        is_known = life.epoch == self.epoch
        super()._remove_life(life, now)
        for resource, least in counted.items():
            if is_known and self._count_cooling(resource) < least:
                raise BreachError(f"{life.name} may have started calls of {resource}: forgotten")
        self.watcher.note_removed(life.name)

    def _view_state(self, life: Life, now: float) -> State:
        state = super()._view_state(life, now)
        # After a crash it is known again what was given back once all have said what they have.
        is_known = self.is_thorough and not self.is_gated(now)
        over = self._list_overdrawn(life) if is_known else set()
        if untold := over - state.wanted:
            raise BreachError(f"{life.name} does not hear that less is left of {untold}")
        return state

    def _list_overdrawn(self, life: Life) -> set[str]:
        """What a life has of which more is out than there is, by several: a limit was lowered."""
        found = set()
        for resource, account in life.accounts.items():
            holders = [each for each in self.lives.values() if resource in each.accounts]
            limit = None if is_rate(resource) else self._limit_of(resource)
            several = sum(each.accounts[resource].out > 0 for each in holders) > 1
            if account.out and several and limit is not None:
                found |= {resource} if self._count_used(resource) > limit else set()
        return found

    def _grant_units(self, entry: Entry) -> None:
        if self.is_gated(self.now):
            raise BreachError("granted before it is known who holds what")
        if self.is_thorough:
            first = self._first_that_may_go()
            if first is not entry:
                raise BreachError(f"out of order: {entry} before {first}; {self._explain()}")
        if paused := [r for r in entry.units if self.said_pauses.get(r, -math.inf) > self.now]:
            raise BreachError(f"granted, though {paused} are paused")
        heard = self.watcher.places.get((entry.process, entry.number), entry.place)
        if heard != entry.place:
            raise BreachError(
                f"{entry.process} {entry.number} stood at {heard}, now at {entry.place}"
            )
        self._count_turn(entry)
        self.granted += 1
        super()._grant_units(entry)
        if self.is_thorough or not self.granted % 20:
            self._check_limits(entry)

    def _check_limits(self, entry: Entry) -> None:
        for resource, units in entry.units.items():
            limit, used = self._limit_of(resource), self._count_used(resource)
            is_alone = used == units and self._may_be_heavy(entry, resource)
            if limit is not None and used > limit and not is_alone:
                raise BreachError(f"more than {limit} of {resource} were granted")

    # The second opinion

    def _waiting(self) -> list[Entry]:
        """All that wait, in order, found without the lines."""
        entries = [
            entry
            for life in self.lives.values()
            for entry in life.entries.values()
            if not (entry.is_granted or entry.is_held)
        ]
        return sorted(entries, key=self._order)

    def _order(self, entry: Entry) -> tuple[Any, ...]:
        tail = (entry.place, entry.process, entry.number)
        if self.limits.strategy == "priority":
            return (entry.standing, entry.asked_at + self.limits.aging * entry.priority, *tail)
        if self.limits.strategy == "fair":
            share, process = self._turns(entry)
            return (entry.standing, share, process, *tail)
        return (entry.standing, *tail)

    def _turns(self, entry: Entry) -> tuple[float, float]:
        share, process = ("share", entry.share), (entry.share, entry.process)
        return (
            max(self.turns[share], self.floors["share"]),
            max(self.turns[process], self.floors[entry.share, None]),
        )

    def _count_turn(self, entry: Entry) -> None:
        if self.limits.strategy == "fair":
            cost = max(entry.units.values(), default=1)
            share, process = self._turns(entry)
            self.floors["share"], self.floors[entry.share, None] = share, process
            self.turns["share", entry.share] = share + cost / entry.pace
            self.turns[entry.share, entry.process] = process + cost

    def _first_that_may_go(self) -> Entry | None:
        """The first that no resource, pause or breaker holds up, and none before it."""
        blocked: set[str] = set()
        for entry in self._waiting():
            if any(self.paused.get(resource, -math.inf) > self.now for resource in entry.units):
                continue
            breaker = self.breakers.get(entry.breaker or "")
            if breaker is not None and breaker.opens_at is not None:
                taken = len(breaker.probes)
                if self.now < breaker.opens_at or taken >= breaker.policy.probes:
                    continue
            if blocked & entry.units.keys():
                continue
            holding = [
                resource
                for kind in ("rate:", "key:", "bucket:")
                for resource in sorted(entry.units, reverse=True)
                if resource.startswith(kind) and self._holds_up(entry, resource)
            ]
            if not holding:
                return entry
            blocked.add(holding[0])
        return None

    def _holds_up(self, entry: Entry, resource: str) -> bool:
        limit, used = self._limit_of(resource), self._count_used(resource)
        is_alone = not used and self._may_be_heavy(entry, resource)
        return limit is not None and used + entry.units[resource] > limit and not is_alone

    def _may_be_heavy(self, entry: Entry, resource: str) -> bool:
        """Whether one may be heavier than a limit, if it is alone."""
        return entry.standing == RETURNS or self.limits.limit_of(resource) is None

    def _limit_of(self, resource: str) -> int | None:
        limit = self.limits.limit_of(resource)
        return self.told.get(name_definition(resource)) if limit is None else limit

    def _explain(self) -> str:
        used = {r: (self._count_used(r), self._limit_of(r)) for r in self.books.used}
        rows = [(e.owner, e.number, e.units, e.place) for e in self._waiting()[:12]]
        return f"{used} {rows}"

    def _count_cooling(self, resource: str) -> int:
        return sum(starts for _, starts in self.books.cooling.get(resource, ()))

    def _count_used(self, resource: str) -> int:
        out = [
            life.accounts[resource].out for life in self.lives.values() if resource in life.accounts
        ]
        return sum(out) + self._count_cooling(resource)

    def _check_books(self) -> None:
        resources = {
            r for life in self.lives.values() for r in life.accounts
        } | self.books.used.keys()
        for resource in resources | self.books.cooling.keys():
            if self._count_used(resource) != self.books.used.get(resource, 0):
                raise BreachError(f"the books of {resource} are wrong: {self.books}")
        for life in self.lives.values():
            if any(account.out < 0 for account in life.accounts.values()):
                raise BreachError(f"{life.name} gave back more than it had: {life.accounts}")
