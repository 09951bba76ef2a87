"""Which process gets the next units, and which of them have ended?

The state of one cluster and the rules that change it, without I/O, clock or chance: what stands in
a database changes with each message exactly so. `now` is always a reading of the database's clock.
"""

from __future__ import annotations

from typing import Final

from tool_engine.admission.cluster.accounts import Account, Books
from tool_engine.admission.cluster.breakers import ClusterBreaker
from tool_engine.admission.cluster.cluster_limits import (
    TOOL,
    ClusterLimits,
    is_rate,
    name_definition,
)
from tool_engine.admission.cluster.confirming import Confirmed
from tool_engine.admission.cluster.lease_messages import (
    Conflict,
    GivenUp,
    Hello,
    Message,
    Note,
    Reply,
    State,
    Sync,
    Ticket,
)
from tool_engine.admission.cluster.life import (
    Kept,
    Life,
    Outcome,
    Silent,
    is_pressed_by,
)
from tool_engine.admission.cluster.line_up import Entry, LineUp
from tool_engine.errors import ConfigurationError
from tool_engine.model.settings.concurrency import BreakerPolicy

LOOK_EVERY: Final = 0.1
"""Seconds in which one of those that wait looks whether others have ended."""
LOOK_AT_LEAST_EVERY: Final = 1.0
"""Seconds between two looks of one process, however many wait."""
UNKNOWN: Final = "unknown"
"""Stands for lives that an operator has removed from the state."""
PLACES_OF_AN_EPOCH: Final = 2**40
"""A crash may forget which places were given last: those after it come behind all of them."""


class Coordinator:
    """The one that all processes of a cluster ask.

    Args:
        limits: What there is to grant.
        grace: Seconds that a life whose session ended has to come back, if it says no other.
        ttl: Seconds after which a life that says nothing is given up, if it says no other.
    """

    def __init__(self, limits: ClusterLimits, *, grace: float = 0.3, ttl: float = 10.0) -> None:
        self.limits = limits
        self.grace, self.ttl = grace, ttl
        self.epoch = self.heard = self.places = 0
        self.gated_until = 0.0
        self.lives: dict[str, Life] = {}
        self.absent: set[str] = set()
        """The lives that have not said since the last restart what they hold."""
        self.books = Books(limits)
        self.line_up = LineUp(limits)
        self.asking: list[Entry] = []
        """Those that ask, of all that stand in line."""
        self.blocked: set[str] = set()
        """The resources of which some ticket needs more."""
        self.lowered: set[str] = set()
        """Resources of which more may be out than there is now."""
        self.paused: dict[str, float] = {}
        self.breakers: dict[str, ClusterBreaker] = {}
        self._set_breakers()
        self.looked_at = self.said_at = 0.0
        self.doubt = 0.0
        """Seconds by which the clock may be ahead of `now`: a start counts until it is over."""
        self._news: set[str] = set()
        """The lives that must hear how it is now."""
        self.has_changed = self._is_durable = False

    # What processes say

    def hear(self, message: Message, now: float, sessions: frozenset[str] | None = None) -> Outcome:
        """Take in one message: one transaction.

        Args:
            message: What a process says.
            now: Seconds, on the database's clock.
            sessions: The lives that have a session; needed by a message that looks.
        """
        self.heard += 1
        self._news.clear()
        self._is_durable = False
        self._follow_clock(now)
        if self._has_forgotten(message):
            self.restart_unsure(now, message.seen[0])
            self._is_durable = True
        self._end_waits(now)
        try:
            life = self._find_life(message, now)
        except ConfigurationError as error:
            return Outcome(Conflict(message.op, str(error), self.limits))
        if life is None:
            return Outcome(GivenUp(message.op))
        # What was said before a restart may come late: only a hello says all there is.
        is_next = message.op > life.op and (isinstance(message, Hello) or life.epoch == self.epoch)
        fresh = self._take_in(life, message, now) if is_next else []
        if life.epoch != self.epoch:
            self._news.update(self.absent)  # a restart that ended no sessions: all are to greet
        if isinstance(message, Sync) and message.leaves:
            self._remove_life(life, now)
        if isinstance(message, Sync) and message.looks and sessions is not None:
            self._look_after_others(now, sessions)
        if now >= self.gated_until:
            for name in list(self.absent):
                self._remove_life(self.lives[name], now)
        self._serve_waiting(now)
        self._answer_asking(now)
        is_there = life.name in self.lives
        answer = self.make_reply(life, message, fresh, now) if is_there else GivenUp(message.op)
        self._news.discard(life.name)
        return Outcome(answer, self._make_notes(now), self._is_durable)

    def renew(self, kept: Kept, now: float) -> tuple[Note, ...] | None:
        """Keep a life whose process cannot speak now, with what its calls use and no more.

        What it was granted and has not heard of goes on as well: it hears so before it uses it.

        Args:
            kept: What it goes on with.
            now: Seconds, on the database's clock.

        Returns:
            What others hear; None: it was given up, has spoken since, or has to say what it holds.
        """
        life = self.lives.get(kept.life)
        if life is None or life.epoch != self.epoch or life.op > kept.op:
            return None
        self.heard += 1
        self._news.clear()
        self._follow_clock(now)
        self._end_waits(now)
        life.expires = now + self.times_of(life)[1]
        for resource, account in life.accounts.items():
            idle = account.out - kept.in_use.get(resource, 0)
            if idle > 0:
                account.returned += idle
                self._count_spent(account, resource, kept.spent.get(resource, 0), now)
                self.books.move(life.name, resource, -idle)
                self.has_changed = True
        self._serve_waiting(now)
        self._answer_asking(now)
        return self._make_notes(now)

    def _make_notes(self, now: float) -> tuple[Note, ...]:
        heard = [self.lives[name] for name in sorted(self._news) if name in self.lives]
        return tuple(Note(each.name, self._view_state(each, now)) for each in heard)

    def restart(self, now: float) -> None:
        """Begin anew after the server did; must be on disk before the next message.

        All sessions are gone, and the newest changes may be. So nothing is granted until each life
        that is known has said what it holds, or has been silent for so long that it holds nothing.
        """
        self._follow_clock(now)
        self.epoch += 1
        self.places = self.epoch * PLACES_OF_AN_EPOCH
        ttls = [self.times_of(life)[1] for life in self.lives.values()]
        self.gated_until = now + max([self.ttl, *ttls])
        self.has_changed = True
        self.absent = set(self.lives)
        for life in self.lives.values():
            life.lost_at = None
            life.expires = max(life.expires, self.gated_until)

    def restart_unsure(self, now: float, seen: int = -1) -> None:
        """Begin anew where an operator removed the state, or put an older one back.

        Lives that are not known may hold something, so nothing is granted for a ttl.

        Args:
            now: Seconds, on the database's clock.
            seen: An epoch that there was before.
        """
        self._follow_clock(now)
        self.lives[UNKNOWN] = Life(UNKNOWN, "", now, self.epoch)
        self.epoch = max(self.epoch, seen)
        self.restart(now)

    def is_set_back(self, now: float) -> bool:
        """Return whether the clock was set back, since it was read, by more than does no harm."""
        return self.said_at - now - self.doubt > self.ttl / 3

    def _follow_clock(self, now: float) -> None:
        """Take all times along where the clock was set back, or a moment would last for hours."""
        is_set_back, back = self.is_set_back(now), self.said_at - now - self.doubt
        # Not the latest time of all: after a smaller step back times are by the clock as it is.
        self.said_at = now
        if not is_set_back:
            return
        self.gated_until -= back
        self.looked_at -= back
        for life in self.lives.values():
            life.set_back(back)
        self.books.set_back(back)
        self.paused = {resource: until - back for resource, until in self.paused.items()}
        for breaker in self.breakers.values():
            breaker.opens_at = None if breaker.opens_at is None else breaker.opens_at - back
        self.line_up.configure(self.limits)

    def _has_forgotten(self, message: Message) -> bool:
        """Return whether a process has had answers from a newer state than this one is."""
        if message.seen >= (self.epoch, self.heard):
            return True
        life = self.lives.get(message.life)
        if life is None or life.epoch != self.epoch or isinstance(message, Hello):
            return False
        return message.answered > life.op

    def is_idle(self, life: Life) -> bool:
        """Return whether a life has nothing that others could want: it need not say it goes on."""
        if not life.is_empty or life.epoch != self.epoch:
            return False
        trying = (owner for each in self.breakers.values() for owner, _ in each.probes)
        return not self.breakers or life.name not in trying

    def times_of(self, life: Life) -> tuple[float, float]:
        """Return the grace and the ttl of a life: what its process goes by itself."""
        return life.times or (self.grace, self.ttl)

    def is_gated(self, now: float) -> bool:
        """Return whether some life may hold what is not known."""
        return bool(self.absent) and now < self.gated_until

    # Who is there?

    def _find_life(self, message: Message, now: float) -> Life | None:
        """Return whose message it is; None: it was given up.

        Raises:
            ConfigurationError: It brings limits that contradict those of the cluster.
        """
        brought = message.limits
        if brought is not None and brought.outranks(self.limits):
            self._adopt_limits(brought.order_as(self.limits))
        life = self.lives.get(message.life)
        if life is None and isinstance(message, Hello) and message.is_new:
            life = Life(message.life, message.process, now, self.epoch)
            life.times = None if message.times == (self.grace, self.ttl) else message.times
            self.lives[message.life] = life
            self._is_durable = True
        return life

    def _adopt_limits(self, limits: ClusterLimits) -> None:
        self.limits = self.books.limits = limits
        self.line_up.configure(limits)
        self.lowered = set(self.books.holders)
        self._set_breakers()
        self._news.update(self.lives)
        self.has_changed = self._is_durable = True

    def _set_breakers(self) -> None:
        for name, policy in self.limits.breakers.items():
            self.breakers.setdefault(name, ClusterBreaker(policy)).policy = policy
        for name in self.breakers.keys() - self.limits.breakers.keys():
            if not name.startswith(TOOL):
                del self.breakers[name]

    def _take_definition(self, limits: dict[str, int]) -> None:
        """Take note of the limits that the tool of a call defines."""
        defined = self.books.defined
        for name, limit in limits.items():
            before = defined.get(name)
            if before == limit:
                continue
            # After a crash it is to be known of which rates a life may have had starts.
            self._is_durable |= before is None
            defined[name] = limit
            if before is not None and limit < before:
                held = self.books.holders
                self.lowered.update(each for each in held if name_definition(each) == name)

    def _define_breaker(self, name: str | None, policy: BreakerPolicy | None) -> None:
        if name is not None and policy is not None:
            self._is_durable |= name not in self.breakers
            self.breakers.setdefault(name, ClusterBreaker(policy)).policy = policy

    def _look_after_others(self, now: float, sessions: frozenset[str]) -> None:
        """Give up those that have ended, and say again what others may not have heard."""
        for life in list(self.lives.values()):
            if life.name in sessions:
                life.lost_at = None
            elif life.lost_at is None:
                life.lost_at = now
            is_over = life.lost_at is not None and now - life.lost_at >= self.times_of(life)[0]
            # Who has not come back since a restart may not know yet that its session ended.
            is_silent = now >= life.expires and (life.lost_at is not None or not self.is_idle(life))
            if (is_over and life.epoch == self.epoch) or is_silent:
                self._remove_life(life, now)
        if now - self.looked_at >= LOOK_EVERY:
            self.looked_at = now
            for life in self.lives.values():
                life.informed, life.confirmed.pressed = frozenset(), -1
        self.has_changed = True

    def _remove_life(self, life: Life, now: float) -> None:
        """End a life: what it has is free, and what it waits for is forgotten."""
        del self.lives[life.name]
        self.absent.discard(life.name)
        is_known = life.epoch == self.epoch
        self.books.close(life.name, life.accounts, now + self.doubt, is_known=is_known)
        for entry in life.entries.values():
            self.line_up.leave(entry)
        for breaker in self.breakers.values():
            breaker.forget(life.name)
        self.has_changed = True
        self._is_durable = True  # else a crash brings it back, and all wait for it

    # What does it have, and what does it wait for?

    def _take_in(self, life: Life, message: Message, now: float) -> list[int]:
        """Take in what a message says; return the tickets whose places it must hear."""
        life.op, life.lost_at = message.op, None
        life.expires = now + self.times_of(life)[1]
        if isinstance(message, Hello):
            self._restate_life(life, message, now)
        else:
            if message.seen[0] == self.epoch:
                life.confirmed.seen = message.seen[1]
            self._take_changes(life, message, now)
        for former in message.former:
            if former in self.lives and self.lives[former].process == life.process:
                self._remove_life(self.lives[former], now)
        self._take_signs(life, message, now)
        return self._take_tickets(life, message.tickets, now)

    def _restate_life(self, life: Life, hello: Hello, now: float) -> None:
        """Make a life what it says it is: what was granted, and never heard of, is not held."""
        life.epoch, life.confirmed = self.epoch, Confirmed()
        self.absent.discard(life.name)
        for other in self.lives.values():
            if other.process == life.process and other is not life:
                for number in list(other.entries):
                    self._forget_ticket(other, number)  # its calls wait in this life now
        for resource in life.accounts.keys() | hello.units.keys():
            granted, returned, spent = hello.units.get(resource, (0, 0, 0))
            account = self._open_account(life, resource)
            known = account.out
            account.granted = max(account.granted, granted)
            account.returned = account.granted - (granted - returned)
            self.books.move(life.name, resource, account.out - known)
            self._count_spent(account, resource, spent, now)
            self._settle_account(life, resource, account)
        self.lowered.update(life.accounts)  # less may be left by now than it has
        listed = {ticket.number for ticket in hello.tickets}
        for number, entry in list(life.entries.items()):
            if number in listed:
                self._wait_again(entry)
            else:
                self._forget_ticket(life, number)
        for name, view in hello.breakers.items():
            breaker = self.breakers.get(name)
            if breaker is not None and breaker.adopt(view, now):
                self._news.update(self.lives)
        for name, breaker in self.breakers.items():
            breaker.forget(life.name)
            probe = (name, breaker.generation)
            running = [number for number, each in hello.probes.items() if each == probe]
            breaker.probes.update((life.name, number) for number in running)
        self.has_changed = True

    def _take_changes(self, life: Life, sync: Sync, now: float) -> None:
        for resource, returned in sync.returned.items():
            account = self._open_account(life, resource)
            known = account.out
            account.returned = max(account.returned, returned)
            self._count_spent(account, resource, sync.spent.get(resource, 0), now)
            self.books.move(life.name, resource, account.out - known)
            self.has_changed = True
            self._settle_account(life, resource, account)
        for number in sync.gone:
            self._forget_ticket(life, number)

    def _take_tickets(self, life: Life, tickets: tuple[Ticket, ...], now: float) -> list[int]:
        """Put tickets in line, each at its place; return their numbers."""
        for ticket in tickets:
            entry = life.entries.get(ticket.number)
            self._take_definition(ticket.limits)
            self._define_breaker(ticket.breaker, ticket.policy)
            if entry is None:
                entry = life.entries[ticket.number] = self._make_entry(life, ticket, now)
                self.asking += [entry] if entry.asks else []
            elif ticket.attempt > entry.attempt:
                self.line_up.leave(entry)
                entry.attempt, entry.is_granted = ticket.attempt, False
                entry.standing, entry.is_held = ticket.standing, ticket.is_held
                if ticket.breaker is not None:  # else it goes on as the probe that it is
                    self._free_probe(entry)
                entry.units, entry.breaker = ticket.units, ticket.breaker
            if not entry.is_held and not entry.is_granted and entry.line is None:
                self.line_up.join(entry)
            self.has_changed = True
        return [ticket.number for ticket in tickets]

    def _make_entry(self, life: Life, ticket: Ticket, now: float) -> Entry:
        place, asked_at = ticket.place, ticket.asked_at
        if place is None or asked_at is None:
            self.places += 1
            place, asked_at = self.places, now
        self.places, asked_at = max(self.places, place), min(asked_at, now)
        return Entry(
            life.name,
            life.process,
            ticket.number,
            ticket.units,
            place,
            asked_at,
            ticket.standing,
            ticket.priority,
            ticket.share,
            ticket.pace,
            ticket.breaker,
            ticket.attempt,
            ticket.is_held,
            ticket.asks,
            self.heard,
        )

    def _take_signs(self, life: Life, message: Message, now: float) -> None:
        """Take in what a process has met: pauses, and what its calls have shown of breakers."""
        for resource, left in message.pauses.items():
            if now + left > self.paused.get(resource, now):
                self.paused[resource] = now + left
                self._news.update(self.lives)
                self.has_changed = True  # who is held up by it lets those behind pass
        for report in message.reports:
            self._define_breaker(report.breaker, report.policy)
            breaker = self.breakers.get(report.breaker)
            if breaker is not None and breaker.hear(life.name, report, now):
                self._news.update(self.lives)
            self.has_changed = True

    def _open_account(self, life: Life, resource: str) -> Account:
        account = life.accounts.get(resource)
        if account is None:
            account = life.accounts[resource] = Account(life.mark, life.mark)
        return account

    def _settle_account(self, life: Life, resource: str, account: Account) -> None:
        """Forget an account that is even, on both sides: keys have as many as they have values."""
        if not account.out and not is_rate(resource):
            life.mark = max(life.mark, account.granted)
            del life.accounts[resource]

    def _count_spent(self, account: Account, resource: str, spent: int, now: float) -> None:
        if spent > account.spent:
            self.books.cool(resource, spent - account.spent, now + self.doubt)
            account.spent = spent

    def _wait_again(self, entry: Entry) -> None:
        if entry.is_granted:
            entry.is_granted = False
            self.line_up.join(entry)

    def _is_probe(self, entry: Entry) -> bool:
        breaker = self.breakers.get(entry.breaker) if entry.breaker is not None else None
        return breaker is not None and (entry.owner, entry.number) in breaker.probes

    def _free_probe(self, entry: Entry) -> None:
        if entry.breaker is not None and entry.breaker in self.breakers:
            self.breakers[entry.breaker].probes.discard((entry.owner, entry.number))

    def _forget_ticket(self, life: Life, number: int) -> None:
        entry = life.entries.pop(number, None)
        if entry is not None:
            self.line_up.leave(entry)
            self.has_changed = True

    # Who is next?

    def has_ended(self, now: float) -> bool:
        """Return whether pauses or starts are over that are not forgotten yet."""
        is_over = any(until <= now for until in self.paused.values())
        return is_over or any(row[0][0] <= now for row in self.books.cooling.values())

    def _end_waits(self, now: float) -> None:
        """Forget pauses and starts that are over; breakers may have come to be tried."""
        over = [resource for resource, until in self.paused.items() if until <= now]
        for resource in over:
            del self.paused[resource]
        is_trying = any(breaker.opens_at is not None for breaker in self.breakers.values())
        if self.books.end_cooling(now) or over or is_trying:
            self.has_changed = True

    def _serve_waiting(self, now: float) -> None:
        """Grant what is free, and let those that have something idle know who waits."""
        if self.has_changed and not self.is_gated(now):
            self.has_changed = False
            may_go = lambda entry: self._may_go(entry, now)  # noqa: E731 - one name for `now`
            self.blocked = self.line_up.serve(self.books.has_room, may_go, self._grant_units)
        self.lowered = {r for r in self.lowered if (self.books.room_of(r) or 0) < 0}
        for resource in self.blocked | self.lowered:
            for name in self.books.holders.get(resource, ()):
                life = self.lives[name]
                if resource not in life.informed and self._is_wanted(name, resource):
                    self._news.add(name)

    def _answer_asking(self, now: float) -> None:
        """Find out which of those that ask have to wait: no process has idle what they need."""
        if not self.asking or self.is_gated(now):
            return
        self.asking = [entry for entry in self.asking if entry.line is not None and entry.asks]
        silent_of = Silent(self.lives, self.books.holders, self.blocked)
        for entry in self.asking:
            silent = silent_of.find(entry) if entry.told_at is None else []
            if entry.told_at is not None:
                entry.asks = self.lives[entry.owner].confirmed.seen < entry.told_at
            # One that is frozen never answers.
            elif not silent or now - entry.asked_at >= self.grace:
                entry.told_at = self.heard
                self._news.add(entry.owner)
            self._news.update(e.name for e in silent if e.confirmed.pressed < entry.asked_in)

    def _may_go(self, entry: Entry, now: float) -> bool:
        if any(resource in self.paused for resource in entry.units):
            return False
        breaker = self.breakers.get(entry.breaker) if entry.breaker is not None else None
        return breaker is None or breaker.may_pass(now)

    def _grant_units(self, entry: Entry) -> None:
        """Give a ticket all its units."""
        life = self.lives[entry.owner]
        entry.is_granted = True
        for resource, units in entry.units.items():
            self._open_account(life, resource).granted += units
            self.books.move(life.name, resource, units)
        breaker = self.breakers.get(entry.breaker) if entry.breaker is not None else None
        if breaker is not None and breaker.opens_at is not None:
            breaker.probes.add((life.name, entry.number))
        self._news.add(life.name)

    # What do they hear?

    def _is_wanted(self, name: str, resource: str) -> bool:
        """Return whether a life is to give back what it has idle of a resource, and at once."""
        if resource in self.lowered:
            return True
        if resource not in self.blocked:
            return False
        waiting = self.line_up.counts.get(resource, {})
        return len(waiting) > (name in waiting)

    def make_reply(self, life: Life, message: Message, fresh: list[int], now: float) -> Reply:
        """Return the answer to a life; `fresh` are its tickets that are new."""
        entries = [life.entries[number] for number in fresh]
        places = {entry.number: (entry.place, entry.asked_at) for entry in entries}
        known = message.revision if isinstance(message, Sync) else message.limits.revision
        limits = self.limits if known != self.limits.revision else None
        waiting = max(1, len(self.line_up.owners))
        look_after = min(LOOK_AT_LEAST_EVERY, LOOK_EVERY * waiting)
        return Reply(message.op, self._view_state(life, now), places, limits, look_after)

    def _view_state(self, life: Life, now: float) -> State:
        counts = self.line_up.counts
        wanted = frozenset(r for r in life.accounts if self._is_wanted(life.name, r))
        held_up_by = {r for r in self.blocked if life.name in counts.get(r, ())}
        short = frozenset(held_up_by & life.accounts.keys())
        life.informed = wanted
        life.confirmed.note_state(wanted | short, self.heard)
        if is_pressed := is_pressed_by(self.asking, life, self.blocked):
            life.confirmed.pressed = self.heard
        granted = [entry for entry in life.entries.values() if entry.is_granted]
        return State(
            at=(self.epoch, self.heard),
            units={r: (a.granted, a.returned) for r, a in life.accounts.items()},
            grants={entry.number: entry.attempt for entry in granted},
            probes=tuple(entry.number for entry in granted if self._is_probe(entry)),
            wanted=wanted,
            short=short,
            pauses={resource: until - now for resource, until in self.paused.items()},
            breakers={n: b.view(now) for n, b in self.breakers.items() if b.generation},
            revision=self.limits.revision,
            waits=tuple(
                entry.number
                for entry in self.asking
                if entry.owner == life.name and entry.told_at is not None
            ),
            confirm=is_pressed,
            rates={r: self.books.find_delay(r, now) for r in held_up_by if is_rate(r)},
        )
