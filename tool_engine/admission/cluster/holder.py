"""What does a process hold of its cluster, what does it ask for, and until when can it be sure?

The other side of `Coordinator`, without I/O, clock or chance. Units that were given back stay and
are used again without a message, while no other process waits for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from itertools import count
from threading import Lock
from types import MappingProxyType
from typing import Final

import msgspec

from tool_engine.admission.cluster.accounts import Account
from tool_engine.admission.cluster.cluster_limits import ClusterLimits, is_rate
from tool_engine.admission.cluster.coordinator import LOOK_EVERY
from tool_engine.admission.cluster.effects import Adopt, Effect, Lose, Refuse, Send, Start, Wait
from tool_engine.admission.cluster.lease_messages import (
    RETURNS,
    Answer,
    Conflict,
    GivenUp,
    Hello,
    Message,
    Note,
    Report,
    State,
    Sync,
)
from tool_engine.admission.cluster.leased_call import Call, Probe, find_probes, make_tickets
from tool_engine.admission.cluster.line_up import Entry, LineUp
from tool_engine.admission.cluster.outbox import Outbox
from tool_engine.admission.cluster.signs import Signs
from tool_engine.model.settings.concurrency import BreakerPolicy

SURE: Final = 2 / 3
"""The share of the grace and of the ttl in which a process can be sure of what it holds: the rest
is for clocks that differ, and for what is under way."""


class Holder:
    """The leases of one process; every method returns what is to be done.

    Each `now` is a reading, in seconds, of one clock that goes on while the machine is suspended.
    Call `tick` at `wake_at()` at the latest, and after each sleep before anything else.

    Args:
        process: Its name, which no other process of the cluster has.
        limits: Those of its configuration.
        new_life: Returns a name that no life ever had.
        grace: Seconds that it has to come back when its session has ended.
        ttl: Seconds after which it is given up when it says nothing.
        idle_time: Seconds for which units stay that no call uses.
    """

    def __init__(
        self,
        process: str,
        limits: ClusterLimits,
        *,
        new_life: Callable[[], str],
        grace: float = 0.3,
        ttl: float = 10.0,
        idle_time: float = 5.0,
    ) -> None:
        self.process, self.limits = process, limits
        self.grace, self.ttl, self.idle_time = grace, ttl, idle_time
        self._new_life = new_life
        self.life = new_life()
        self.accounts: dict[str, Account] = {}
        self.used: dict[str, int] = {}
        """Units that calls use now."""
        self.running: dict[int, Call] = {}
        """Those that have started and not ended, also those that have lent their units."""
        self.waiting: dict[int, Call] = {}
        self.line_up = LineUp(limits)
        self.wanted: frozenset[str] = frozenset()
        """Resources for which other processes wait: what is idle of them goes."""
        self.short: frozenset[str] = frozenset()
        self.signs = Signs()
        self.paused, self.breakers = self.signs.paused, self.signs.breakers
        self.valid_until = -math.inf
        self.outbox = Outbox(self.accounts)
        self.in_flight: Message | None = None
        self._arrivals = count(1)
        self._idle_since: dict[str, float] = {}
        self._seen, self.op = (-1, 0), 0
        self._woke = (-math.inf, -math.inf)
        """When it woke last, and when it fell asleep."""
        self._is_known = self._is_connected = self._is_greeted = self._is_refused = False
        self._is_closing = self._is_closed = False
        self._lost_at: float | None = None
        self._doubted_at: float | None = None
        """When it woke, and has not heard since whether it was given up meanwhile."""
        self.last_seen, self.guard = -math.inf, Lock()
        """When this process was last awake. While that is noted, and what is idle is taken from one
        that stands still, the guard is held."""
        self._sent_at = self._beat_at = self._look_at = -math.inf

    # What the engine asks

    def ask(
        self,
        number: int,
        units: Mapping[str, int],
        now: float,
        *,
        priority: int = 5,
        share: str = "",
        pace: float = 1.0,
        breaker: str | None = None,
        parent: int | None = None,
        asks: bool = False,
        limits: Mapping[str, int] = MappingProxyType({}),
        policy: BreakerPolicy | None = None,
    ) -> list[Effect]:
        """Let a call wait for its units, all of them at once; it may start at once.

        Args:
            number: Of the call; no other one of this process ever has it.
            units: How many of which resource; one without a limit in the cluster is not asked for.
            now: The time, in seconds.
            priority: Under `priority`; smaller is more urgent.
            share: Under `fair`: its key.
            pace: Under `fair`: the weight of its key.
            breaker: The cluster's breaker that it must pass.
            parent: The call that makes it, at whose place it stands.
            asks: It is refused if it has to wait, and `Wait` is to say so for sure.
            limits: What its tool defines of resources, as in `Ticket`.
            policy: What it defines of a breaker.
        """
        effects = self._look_at_clock(now)
        needed = {r: n for r, n in units.items() if n and self.limits.is_limited(r, limits)}
        entry = Entry("", self.process, number, needed, next(self._arrivals), now)
        caller = None if parent is None else self.running.get(parent)
        call = Call(entry)
        if caller is not None:
            call.stand_with(caller, is_fair=self.limits.strategy == "fair")
        if breaker == call.passed:
            breaker = None
        entry.priority, entry.share, entry.pace, entry.breaker = priority, share, pace, breaker
        entry.asks, entry.limits, entry.policy = asks, dict(limits), policy
        if not needed and breaker is None:
            self.running[number] = call
            effects.append(Start(number))
        else:
            self._let_wait(call)
        return self._finish_event(effects, now)

    def give_back(self, number: int, now: float, outcome: bool | None = None) -> list[Effect]:
        """End a call, also one that was lost, when its work has ended.

        If a `Lose` among the effects names the call, its result counts for nothing. `outcome` says
        of a probe whether it succeeded; None: it says nothing.
        """
        effects = self._look_at_clock(now)
        call = self.running.pop(number, None)
        if call is None:
            self.outbox.end_lost(number)
            return self._finish_event(effects, now)
        if not call.is_parked:
            self._free_units(call, now)
        if call.probe is not None:
            self.outbox.reports.append(Report(*call.probe, number, outcome))
        return self._finish_event(effects, now)

    def withdraw(self, number: int, now: float) -> list[Effect]:
        """Let a call wait no more, for it was cancelled or its time is over."""
        effects = self._look_at_clock(now)
        call = self.waiting.pop(number, None)
        if call is not None:
            self.line_up.leave(call.entry)
            self.outbox.take_back(number, is_urgent=True)
            if call.entry.breaker is not None:
                # It may be granted as a probe by now, which would be taken for ever.
                self.outbox.reports.append(Report(call.entry.breaker, -1, number))
        return self._finish_event(effects, now)

    def decline(self, number: int, now: float) -> list[Effect]:
        """Put back a call that got its units and may not start now, by rules of this process.

        It keeps its place, and is passed over until `resume`.
        """
        effects = self._look_at_clock(now)
        call = self.running.pop(number, None)
        if call is not None:
            self._free_units(call, now)
            call.probe = None
            call.is_told = call.entry.is_held = True
            self._let_wait(call, is_again=True)
        return self._finish_event(effects, now)

    def resume(self, number: int, now: float) -> list[Effect]:
        """Let a call that was declined be served again."""
        effects = self._look_at_clock(now)
        call = self.waiting.get(number)
        if call is not None and call.entry.is_held:
            call.entry.is_held = False
            self._let_wait(call, is_again=True)
        return self._finish_event(effects, now)

    def park(self, number: int, now: float) -> list[Effect]:
        """Lend the units of a call that waits for a call of its own."""
        effects = self._look_at_clock(now)
        call = self.running.get(number)
        if call is not None and not call.is_parked:
            self._free_units(call, now)
            call.is_parked = True
        return self._finish_event(effects, now)

    def unpark(self, number: int, now: float) -> list[Effect]:
        """Let a call take back what it lent; it goes before all that wait, and on with `Start`."""
        effects = self._look_at_clock(now)
        call = self.running.get(number)
        if call is not None and call.is_parked:
            del self.running[number]
            call.is_parked, call.is_told = False, True
            call.entry.units = {r: n for r, n in call.entry.units.items() if not is_rate(r)}
            call.entry.standing, call.entry.breaker = RETURNS, None
            self._let_wait(call, is_again=True)
        return self._finish_event(effects, now)

    def pause(self, resource: str, seconds: float, now: float) -> list[Effect]:
        """Let no call of a resource start for some time, in all processes."""
        effects = self._look_at_clock(now)
        if paused := self.signs.pause(resource, now + seconds, now):
            self.outbox.pauses[resource] = now + seconds
            effects += paused
        return self._finish_event(effects, now)

    def trip(self, breaker: str, now: float, policy: BreakerPolicy | None = None) -> list[Effect]:
        """Open a breaker in all processes, for too many calls of this one failed in a row."""
        effects = self._look_at_clock(now)
        generation = self.signs.find(breaker).generation
        self.outbox.reports.append(Report(breaker, generation, policy=policy))
        return self._finish_event(effects, now)

    def configure(self, limits: ClusterLimits, now: float) -> list[Effect]:
        """Bring other limits to the cluster.

        Raises:
            ConfigurationError: They contradict those of the cluster under one revision.
        """
        effects = self._look_at_clock(now)
        if limits.outranks(self.limits):
            self.outbox.limits = limits
            effects += self._adopt_limits(limits)
        return self._finish_event(effects, now)

    def let_idle_go(self, now: float, of: Collection[str] | None = None) -> list[Effect]:
        """Give back what no call uses of some resources, or of all, as at a pause or a drain."""
        effects = self._look_at_clock(now)
        for resource in list(self.accounts) if of is None else of:
            self._give_back_idle(resource)
        return self._finish_event(effects, now)

    def close(self, now: float) -> list[Effect]:
        """Hold nothing idle any more, and leave the cluster when the last call has ended."""
        effects = self._look_at_clock(now)
        self._is_closing = True
        return self._finish_event(effects, now)

    # What the connection brings

    def on_connected(self, now: float) -> list[Effect]:
        """Greet the coordinator: there is a connection, with the session of `life`."""
        effects = self._look_at_clock(now)
        self._is_connected, self._is_greeted, self.in_flight = True, False, None
        return self._finish_event(effects, now)

    def on_connection_lost(self, now: float, *, was_warned: bool = False) -> list[Effect]:
        """Note that the session has ended: what is held may be given up after the grace.

        When it ended is not known: not before this process was last awake. `was_warned`: the server
        has said in it that it ends all sessions.
        """
        seen = self.last_seen
        if now - self._woke[0] < self.grace / 6:
            seen = self._woke[1]  # what it hears first may be from before it slept
        effects = self._look_at_clock(now)
        if self._is_connected:
            if self._lost_at is None or self._is_refused:
                self._lost_at = min(seen, now)
            self._is_connected = self._is_greeted = False
            self._is_refused, self.in_flight = was_warned, None
        return self._finish_event(effects + self._look_at_clock(now), now)

    def on_refused(self, now: float) -> list[Effect]:
        """Note that the server itself refuses everybody, for it starts or stops.

        So it gives nothing to others, and then waits a ttl. A proxy that refuses proves nothing.
        """
        effects = self._look_at_clock(now)
        self._is_refused = not self._is_connected
        return self._finish_event(effects, now)

    def on_reply(self, answer: Answer, now: float) -> list[Effect]:
        """Take in the answer to the message that is under way; any other one is nothing."""
        effects = self._look_at_clock(now)
        message, self.in_flight = self.in_flight, None
        if message is None or answer.op != message.op:
            self.in_flight = message
            return self._finish_event(effects, now)
        if isinstance(answer, GivenUp):
            self._is_closed = self._is_closing and not self.is_busy
            effects += [] if self._is_closed else self._end_life()
        elif isinstance(answer, Conflict):
            self._is_closed, self.outbox.is_urgent = self.outbox.limits is None, True
            effects.append(Refuse(answer.reason, self._is_closed))
            if self.outbox.limits == message.limits:  # else newer ones have come meanwhile
                self.outbox.limits = None
                effects += self._adopt_limits(answer.limits)
        elif isinstance(message, Sync) and answer.state.at[0] > self._seen[0]:
            self._is_greeted = False  # there an older state was put back, which hears all anew
        else:
            self._note_heard(message)
            placed = self._note_places(answer.places)
            if answer.limits is not None and answer.limits.revision > self.limits.revision:
                effects += self._adopt_limits(answer.limits)
            if isinstance(message, Hello) or message.looks:
                self._look_at = self._sent_at + answer.look_after
            effects += self._take_in(answer.state, now)
            effects += self._tell_waiting(placed, now)
        return self._finish_event(effects, now)

    def on_notification(self, note: Note, now: float) -> list[Effect]:
        """Take in how it is; on a connection whose greeting was not answered yet, nothing."""
        effects = self._look_at_clock(now)
        if note.life == self.life and self._is_greeted:
            self._is_greeted = note.state.at[0] <= self._seen[0]
            effects += self._take_in(note.state, now) if self._is_greeted else []
        return self._finish_event(effects, now)

    def tick(self, now: float) -> list[Effect]:
        """Do what is due by the clock."""
        effects = self._look_at_clock(now)
        self.signs.end_pauses(now)
        for resource, since in list(self._idle_since.items()):
            if now >= since + self.idle_time:  # as `wake_at` says it
                del self._idle_since[resource]
                self._give_back_idle(resource)
        return self._finish_event(effects, now)

    def wake_at(self) -> float:
        """Return when `tick` is due: often enough to know how long this process slept."""
        times = [*self.paused.values(), *(t + self.idle_time for t in self._idle_since.values())]
        if self.has_units or self.waiting:
            times.append(self.last_seen + self.grace / 3)
        if self._is_connected and self.in_flight is None:
            times.append(self._beat_at)
            times += [self._look_at] if self.waiting else []
        return min(times, default=math.inf)

    # What can be sure?

    def is_sure(self, now: float) -> bool:
        """Return whether units may be used: no other process can have been given them."""
        return now < self.valid_until and self._doubted_at is None

    def idle_of(self, resource: str) -> int:
        """Return how many units of a resource no call uses."""
        account = self.accounts.get(resource)
        return 0 if account is None else account.out - self.used.get(resource, 0)

    def _look_at_clock(self, now: float) -> list[Effect]:
        """Before anything else: have others been given what this process holds?"""
        with self.guard:
            slept, self.last_seen = now - self.last_seen, now
        if self.grace * 0.35 < slept < math.inf:  # after less, what is sure ends with the grace
            self._woke = now, now - slept
        lost_at = now if self._lost_at is None or self._is_refused else self._lost_at
        is_away = now - lost_at >= self.grace * SURE
        if (is_away or now >= self.valid_until) and self.has_units:
            return self._end_life()
        if self.grace * SURE <= slept < math.inf:
            self._doubted_at = now
        return []

    @property
    def has_units(self) -> bool:
        """Whether it holds units, in use or not."""
        return any(account.out for account in self.accounts.values())

    @property
    def is_busy(self) -> bool:
        """Whether calls wait, or have not ended."""
        return bool(self.waiting or self.running)

    @property
    def is_involved(self) -> bool:
        """Whether others may have something to say that it has to hear at once."""
        return bool(self.waiting or self.running) or self.has_units

    def _end_life(self) -> list[Effect]:
        """Give this life up, and all that it holds; who waits goes on waiting in the next one."""
        lost = [number for number, call in self.running.items() if not call.is_parked]
        self.running = {number: call for number, call in self.running.items() if call.is_parked}
        for call in (*self.running.values(), *self.waiting.values()):
            call.probe = None  # others may try it by now
        self.outbox.give_up_life(self.life, lost)
        self.life, self._is_known = self._new_life(), False
        self.accounts, self.used, self._idle_since = {}, {}, {}
        self.outbox = self.outbox.make_next(self.accounts)
        self.in_flight, self._is_greeted = None, False
        self.wanted = self.short = frozenset()
        self.valid_until, self._doubted_at = -math.inf, None
        if self._is_connected:
            self._lost_at = None
        return [Lose(tuple(lost))] if lost else []

    # Who starts, and what goes back?

    def _let_wait(self, call: Call, *, is_again: bool = False) -> None:
        """Put a call in line; `is_again`: what it was granted before is not this."""
        entry = call.entry
        entry.attempt += is_again
        self.waiting[entry.number] = call
        self.outbox.add_ticket(entry.number)
        if not entry.is_held and entry.line is None:
            self.line_up.join(entry)

    def _start_call(self, entry: Entry, probe: Probe = None, *, is_granted: bool = False) -> Start:
        call = self.waiting.pop(entry.number)
        call.probe = call.probe or probe  # one that takes back what it lent goes on as what it was
        self.running[entry.number] = call
        for resource, units in entry.units.items():
            if is_rate(resource):
                account = self.accounts[resource]
                account.spent += units
                account.returned += units
                # A start counts until a period after it was heard of.
                is_urgent = resource in self.wanted or resource in self.short
                self.outbox.give_back(resource, is_urgent=is_urgent)
            else:
                self.used[resource] = self.used.get(resource, 0) + units
            self._idle_since.pop(resource, None)
        # The coordinator knows that it was granted; else it would grant it once more.
        self.outbox.take_back(entry.number, is_urgent=not is_granted)
        return Start(entry.number, probe is not None)

    def _free_units(self, call: Call, now: float) -> None:
        for resource, units in call.entry.units.items():
            if is_rate(resource):
                continue
            self.used[resource] -= units
            if not self.used[resource]:
                del self.used[resource]
            self._idle_since[resource] = now

    def _give_back_idle(self, resource: str) -> None:
        idle = self.idle_of(resource)
        if idle > 0:
            self.accounts[resource].returned += idle
            self._idle_since.pop(resource, None)
            self.outbox.give_back(resource, is_urgent=True)

    def _settle_idle(self, now: float) -> list[Effect]:
        """Give back what others wait for, and start own calls with the rest, in their order."""
        effects: list[Effect] = []
        for resource in list(self.accounts):
            if resource in self.wanted or resource in self.paused or self._is_closing:
                self._give_back_idle(resource)
        if not self.waiting or not self.is_sure(now):
            return effects

        def take(entry: Entry) -> None:
            effects.append(self._start_call(entry))

        self.line_up.serve(self._has_idle, self.signs.may_start, take)
        for resource in self.short & self.line_up.counts.keys():
            # A call of this process waits for more: what it has idle of it is in its own way.
            self._give_back_idle(resource)
        return effects

    # What was heard?

    def _note_heard(self, message: Message) -> None:
        """An answer proves that this life was known when the message was sent."""
        self.valid_until = max(self.valid_until, self._sent_at + self.ttl * SURE)
        if self._doubted_at is not None and self._sent_at >= self._doubted_at:
            self._doubted_at = None
        if isinstance(message, Hello):
            self._is_greeted = self._is_known = True
            self._lost_at, self._is_refused = None, False
        attempts = {number: call.entry.attempt for number, call in self.waiting.items()}
        self.outbox.note_answer(message, attempts)

    def _take_in(self, state: State, now: float) -> list[Effect]:
        """Take in the newest state; one that is overtaken says nothing new."""
        # What was said before this process slept may have been taken back meanwhile.
        if state.at < self._seen or self._doubted_at is not None:
            return []
        self._seen = state.at
        for resource, (granted, returned) in state.units.items():
            account = self.accounts.setdefault(resource, Account(returned, returned))
            account.granted = max(account.granted, granted)
            account.returned = max(account.returned, returned)
            self._idle_since.setdefault(resource, now)
        self.wanted, self.short = state.wanted, state.short
        # What is wanted goes back with the next message, which says that this was heard.
        self.outbox.is_urgent |= state.confirm or state.revision > self.limits.revision
        effects = self.signs.take_in(state, now)
        for number, attempt in state.grants.items():
            call = self.waiting.get(number)
            if call is None or call.entry.attempt != attempt:
                continue
            if not self._can_use(call.entry, now):
                self._let_wait(call, is_again=True)  # it keeps its place, and asks again
                continue
            probe = None
            if number in state.probes and (name := call.entry.breaker) is not None:
                probe = (name, state.breakers[name].generation)
            self.line_up.leave(call.entry)
            effects.append(self._start_call(call.entry, probe, is_granted=True))
        return effects + self._tell_waiting(state.waits, now)

    def _note_places(self, places: Mapping[int, tuple[int, float]]) -> list[int]:
        """Note where calls stand; return those that wait if they have not their units now."""
        waits = []
        for number, place in places.items():
            call = self.waiting.get(number) or self.running.get(number)
            if call is not None:
                call.place = place
                waits += [] if call.entry.asks else [number]
        return waits

    def _tell_waiting(self, numbers: Collection[int], now: float) -> list[Effect]:
        effects = self._settle_idle(now) if numbers else []  # what is idle here comes first
        for number in numbers:
            call = self.waiting.get(number)
            if call is not None and not call.is_told:
                call.is_told, call.entry.asks = True, False
                effects.append(Wait(number))
        return effects

    def _has_idle(self, entry: Entry, resource: str) -> bool:
        return self.idle_of(resource) >= entry.units[resource]

    def _can_use(self, entry: Entry, now: float) -> bool:
        if not self.is_sure(now) or self.signs.is_paused(entry):
            return False
        return all(self._has_idle(entry, resource) for resource in entry.units)

    def _adopt_limits(self, limits: ClusterLimits) -> list[Effect]:
        self.limits = limits
        self.line_up.configure(limits)
        return [Adopt(limits)]

    # What is said?

    def _finish_event(self, effects: list[Effect], now: float) -> list[Effect]:
        effects += self._settle_idle(now)
        if self._is_connected and self.in_flight is None and not self._is_closed:
            message = self._make_message(now)
            if message is not None:
                self.in_flight = message
                self._sent_at, self._beat_at = now, now + self.ttl / 4
                effects.append(Send(message))
        return effects

    def _make_message(self, now: float) -> Message | None:
        if not self._is_greeted:
            self.op += 1
            self._look_at = now + LOOK_EVERY
            return self._make_hello(now)
        leaves = self._is_closing and not self.is_busy
        looks = now >= self._beat_at or (bool(self.waiting) and now >= self._look_at)
        if not (looks or leaves or self._doubted_at is not None or self.outbox.has_news):
            return None
        self.op += 1
        if looks:
            self._look_at = now + LOOK_EVERY
        tickets = make_tickets(self.waiting, self.outbox.unsaid)
        revision = self.limits.revision
        sync = self.outbox.make_sync(self.life, self.op, now, tickets, revision, self._seen)
        is_more = looks or leaves
        return msgspec.structs.replace(sync, looks=looks, leaves=leaves) if is_more else sync

    def _make_hello(self, now: float) -> Hello:
        return Hello(
            self.life,
            self.process,
            self.op,
            not self._is_known,
            self.outbox.limits or self.limits,
            tickets=make_tickets(self.waiting, self.waiting),
            probes=find_probes(*self.running.values(), *self.waiting.values()),
            seen=self._seen,
            times=(self.grace, self.ttl),
            **self.signs.say_all(now),
            **self.outbox.say_all(self.waiting),
        )
