"""What must the coordinator still hear from a process?

What is said is said again until it was answered: a statement that failed may have been carried out
or not. What may be known there, and holds no more, is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tool_engine.admission.cluster.accounts import Account
from tool_engine.admission.cluster.cluster_limits import ClusterLimits, is_rate
from tool_engine.admission.cluster.lease_messages import Hello, Message, Report, Sync, Ticket


@dataclass(slots=True)
class Outbox:
    """What one life has to say, and what it has said.

    Args:
        accounts: What it has, by resource.
    """

    accounts: dict[str, Account]
    unsaid: set[int] = field(default_factory=set)
    """Tickets that are new or have changed."""
    said: set[int] = field(default_factory=set)
    """Tickets that the coordinator may know."""
    gone: set[int] = field(default_factory=set)
    """Those of them that wait no more."""
    changed: set[str] = field(default_factory=set)
    """Resources of which units were given back."""
    pauses: dict[str, float] = field(default_factory=dict)
    """Until when calls of resources may not start, on this process's clock."""
    reports: list[Report] = field(default_factory=list)
    former: list[str] = field(default_factory=list)
    """Lives that have ended, with all their calls; they outlive the life that says so."""
    given_up: dict[str, set[int]] = field(default_factory=dict)
    """Lives that were given up, with their calls whose work has not ended."""
    limits: ClusterLimits | None = None
    """Limits that this process brings."""
    is_urgent: bool = False
    """It cannot wait for the next message: others wait for it."""
    answered: int = 0
    """The number of the last message with news that was answered."""

    @property
    def has_news(self) -> bool:
        """Whether there is something to say at once."""
        return bool(
            self.is_urgent
            or self.unsaid
            or self.reports
            or self.pauses
            or self.former
            or self.limits is not None
        )

    def add_ticket(self, number: int) -> None:
        """Say that a call waits, or waits otherwise than before."""
        self.unsaid.add(number)
        self.gone.discard(number)

    def take_back(self, number: int, *, is_urgent: bool) -> None:
        """Say that a call waits no more, if it may be known that it did."""
        self.unsaid.discard(number)
        if number in self.said:
            self.gone.add(number)
            self.is_urgent |= is_urgent

    def give_back(self, resource: str, *, is_urgent: bool) -> None:
        """Say that units of a resource were given back."""
        self.changed.add(resource)
        self.is_urgent |= is_urgent

    def give_up_life(self, life: str, lost: Iterable[int]) -> None:
        """Sign a life off as soon as the work of its calls has ended, which are `lost`."""
        self.given_up[life] = set(lost)
        self.end_lost(None)

    def end_lost(self, number: int | None) -> None:
        """Sign lives off that were given up, once the work of all their calls has ended."""
        for life, numbers in list(self.given_up.items()):
            if number is not None:
                numbers.discard(number)
            if not numbers:
                del self.given_up[life]
                self.former.append(life)

    def make_sync(
        self,
        life: str,
        op: int,
        now: float,
        tickets: tuple[Ticket, ...],
        revision: int,
        seen: tuple[int, int],
    ) -> Sync:
        """Return all that is to be said; `tickets` are those that are unsaid."""
        self.said.update(self.unsaid)
        self.is_urgent = False
        changed = sorted(self.changed)
        return Sync(
            life,
            op,
            returned={resource: self.accounts[resource].returned for resource in changed},
            spent={r: self.accounts[r].spent for r in changed if is_rate(r)},
            tickets=tickets,
            gone=tuple(sorted(self.gone)),
            former=tuple(self.former),
            pauses=self._pauses_left(now),
            reports=tuple(self.reports),
            revision=revision,
            limits=self.limits,
            seen=seen,
            answered=self.answered,
        )

    def say_all(self, waiting: Iterable[int]) -> dict[str, Any]:
        """Return what a greeting says of all this, when the calls `waiting` are its tickets."""
        self.said.update(waiting)
        self.is_urgent = False
        return {
            "units": {r: (a.granted, a.returned, a.spent) for r, a in self.accounts.items()},
            "former": tuple(self.former),
            "reports": tuple(self.reports),
        }

    def make_next(self, accounts: dict[str, Account]) -> Outbox:
        """Return that of the next life, which says what is not of this one alone."""
        following = Outbox(accounts, former=self.former, reports=self.reports, limits=self.limits)
        following.pauses, following.given_up = self.pauses, self.given_up
        return following

    def note_answer(self, message: Message, attempts: Mapping[int, int]) -> None:
        """Forget what was heard.

        Args:
            message: What was answered.
            attempts: Of all tickets that wait.
        """
        if isinstance(message, Hello) or message.has_news:
            self.answered = message.op
        for ticket in message.tickets:
            if attempts.get(ticket.number) == ticket.attempt:
                self.unsaid.discard(ticket.number)
        if isinstance(message, Hello):
            self.said = {ticket.number for ticket in message.tickets}
            self.gone = self.said - attempts.keys()
            returned = {r: returned for r, (_, returned, _) in message.units.items()}
            spent = {r: spent for r, (_, _, spent) in message.units.items()}
        else:
            self.said.difference_update(set(message.gone) - attempts.keys())
            self.gone.difference_update(message.gone)
            returned, spent = message.returned, message.spent
        if self.limits == message.limits:
            self.limits = None
        for resource, count in returned.items():
            self._note_returned(resource, count, spent.get(resource, 0))
        for resource in message.pauses:
            self.pauses.pop(resource, None)
        del self.reports[: len(message.reports)]
        self.former = [life for life in self.former if life not in message.former]

    def _note_returned(self, resource: str, returned: int, spent: int) -> None:
        account = self.accounts.get(resource)
        if account is None or account.returned != returned or account.spent != spent:
            return
        self.changed.discard(resource)
        if not account.out and not is_rate(resource):
            del self.accounts[resource]  # the coordinator has forgotten it, too

    def _pauses_left(self, now: float) -> dict[str, float]:
        self.pauses = {resource: until for resource, until in self.pauses.items() if until > now}
        return {resource: until - now for resource, until in self.pauses.items()}
