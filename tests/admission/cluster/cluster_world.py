"""A cluster in one process: a coordinator, processes that call, and all that can go wrong.

It drives exactly `Coordinator` and `Holder`, on a clock of its own; one seed always gives the same
run. Connections end, seen or not; requests of a broken connection are carried out or not; notes
are lost, doubled, late and out of order; processes are killed and freeze; the server stops and
loses what it wrote last; clocks drift; limits change.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from tests.admission.cluster.ledger import LENDS, RUNS, WAITS, Ledger, View, Work
from tests.admission.cluster.shared_by_a_world import Setting, Tools, change_limits
from tests.admission.cluster.watching_grants import BreachError, WatchedCoordinator
from tool_engine.admission.cluster.cluster_limits import is_rate
from tool_engine.admission.cluster.effects import (
    Adopt,
    Effect,
    Lose,
    PauseUntil,
    Refuse,
    Send,
    Start,
    TurnBreaker,
    Wait,
)
from tool_engine.admission.cluster.holder import Holder
from tool_engine.admission.cluster.lease_messages import (
    Answer,
    GivenUp,
    Hello,
    Message,
    Note,
    Sync,
    decode_message,
    encode_message,
)
from tool_engine.admission.cluster.life import Kept
from tool_engine.admission.cluster.line_up import Entry
from tool_engine.admission.cluster.shared_row import answer_idle, is_to_look
from tool_engine.admission.cluster.stand_in import CHECKS, note_renewed, take_idle

LONGER = 2.0
"""By how much some processes have a longer grace and ttl than the others."""


class Process:
    """One process, with the network and the machine around its `Holder`."""

    def __init__(self, name: str, setting: Setting, world: World) -> None:
        lives = (f"{name}.{number}" for number in count(1))
        self.name = name
        longer = LONGER if int(name[1:]) % 3 == 0 else 1.0
        self.holder = Holder(
            name,
            world.limits,
            new_life=lambda: next(lives),
            grace=setting.grace * longer,
            ttl=setting.ttl * longer,
            idle_time=setting.idle_time,
        )
        self.view = View()
        self.zombies: dict[int, str] = {}
        """Calls that were lost and whose work goes on, each with its life."""
        self.connection: int | None = None
        self.sessions: set[str] = set()
        self.all_sessions = world.sessions
        self.is_frozen = self.is_cut = self.is_dead = self.is_blocked = False
        self.drift = world.chance.uniform(0.99, 1.01)
        self.base = world.now - world.chance.uniform(0, 1000)
        self.late: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What happens to it when it thaws."""
        self.timer_at = float("inf")
        self.beats = 0
        self.told: list[int] = []
        """Calls that have heard that they wait."""
        self.greeted = 0
        """The number of its newest greeting that was heard."""
        self.contradicts = False
        """It brought limits, and another process others under the same revision."""

    def open_session(self, life: str) -> None:
        self.sessions.add(life)
        self.all_sessions.add(life)

    def end_sessions(self) -> None:
        self.all_sessions -= self.sessions
        self.sessions.clear()

    @property
    def can_hear(self) -> bool:
        return not (self.is_dead or self.is_cut)


class World:
    """Runs until so many calls have come.

    Args:
        seed: Of all that happens.
        setting: What can happen.
    """

    def __init__(self, seed: int, setting: Setting) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a test, no secret
        self.setting, self.limits = setting, setting.limits
        self.now, self.events, self.order = 0.0, [], count()  # type: ignore[var-annotated]
        self.numbers, self.connections, self.names = count(1), count(1), count(1)
        self.coordinator = WatchedCoordinator(setting.limits, grace=setting.grace, ttl=setting.ttl)
        self.coordinator.watcher = self
        self.coordinator.is_thorough = setting.is_thorough
        self.saved = self.coordinator.save()
        self.revisions = count(2)
        self.tools = Tools(self.chance, setting)
        self.ledger = Ledger(setting.limits, lambda: self.coordinator.books.used)
        self.places: dict[tuple[str, int], int] = {}
        self.returned_before: dict[tuple[str, int], dict[tuple[str, str], int]] = {}
        """Of each call that asks: what each life had given back of each resource as it came."""
        self.last_place = 0
        self.taken: set[tuple[str, int]] = set()
        """Tickets whose units others may have, for their process stood still."""
        self.processes: dict[str, Process] = {}
        self.by_life: dict[str, Process] = {}
        self.sessions: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.is_up, self.is_calm, self.back = True, False, 0.0
        for _ in range(setting.processes):
            self.add_process()
        self.after(0.5, self.save_later)
        if setting.faults:
            self.after(1.0, self.fail_somewhere)

    # Time

    def after(self, delay: float, happens: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.order), happens, arguments))

    def step(self) -> None:
        self.now, _, happens, arguments = heapq.heappop(self.events)
        self.counts["steps"] += 1
        happens(*arguments)

    def run(self, calls: int) -> None:
        """Lets so many calls come, and calms down now and then."""
        calm_at = min(calls, self.setting.calm_every)
        while self.counts["calls"] < calls:
            self.step()
            if self.setting.faults and self.counts["calls"] >= calm_at:
                calm_at += self.setting.calm_every
                self.calm_down()

    def clock(self, process: Process) -> float:
        return (self.now - process.base) * process.drift

    def lag(self) -> float:
        if self.chance.random() < 0.98 or self.is_calm:
            return self.chance.choice((0.0005, 0.001, 0.002, 0.005, 0.05))
        return self.chance.uniform(0.05, 1.5)

    # What a process does

    def add_process(self) -> None:
        process = Process(f"p{next(self.names)}", self.setting, self)
        self.processes[process.name] = process
        self.connect(process)
        self.after(self.chance.expovariate(self.setting.pace), self.call, process)

    def meet(self, process: Process, happens: Callable[..., None], *arguments: Any) -> None:
        """Something happens to a process, or will when it thaws."""
        if process.is_dead:
            return
        if process.is_frozen:
            process.late.append((happens, arguments))
        else:
            happens(process, *arguments)

    def act(self, process: Process, effects: list[Effect]) -> None:
        """Does what the holder says, and looks whether all is well."""
        holder, view = process.holder, process.view
        self.by_life[holder.life] = process
        for effect in effects:
            if isinstance(effect, Send):
                self.send(process, effect.message)
            elif isinstance(effect, Start):
                work = view.work[effect.number]
                self.ledger.start(work, holder, view, self.now, is_probe=effect.is_probe)
                length = self.chance.expovariate(1 / self.setting.length)
                self.after(length, self.go_on, process, work)
            elif isinstance(effect, Lose):
                for number in effect.numbers:
                    self.lose(process, view.work[number])
            else:
                self.learn(process, effect)
        self.check_refused(process, effects)
        self.check_heard(process)
        self.count_units(process)
        self.set_timer(process)

    def count_units(self, process: Process) -> None:
        """Looks whether more is held than there is, after something has happened to a process."""
        if self.ledger.touch(process.holder, process.view, self.clock(process)):
            self.ledger.check_totals(
                (self.ledger.held_by(p.holder, p.view, self.clock(p)), self.is_excused(p))
                for p in self.processes.values()
            )

    def learn(self, process: Process, effect: Effect) -> None:
        """The process hears of a pause, a breaker or other limits."""
        if isinstance(effect, PauseUntil):
            until = effect.until / process.drift + process.base - 1e-6
            paused = process.view.paused
            paused[effect.resource] = max(paused.get(effect.resource, 0.0), until)
        elif isinstance(effect, Refuse):
            if effect.is_final or not process.contradicts:
                raise BreachError(f"{process.name} was refused: {effect.reason}")
            self.counts["refused"] += 1
        elif isinstance(effect, Wait):
            self.check_has_to_wait(process, effect.number)
        else:
            assert isinstance(effect, Adopt | TurnBreaker)

    @staticmethod
    def check_refused(process: Process, effects: list[Effect]) -> None:
        """A call that is refused because it has to wait does not start with the same news."""
        waits = {each.number for each in effects if isinstance(each, Wait)}
        if late := waits & {each.number for each in effects if isinstance(each, Start)}:
            raise BreachError(f"{late} of {process.name} has to wait, and starts")

    def check_heard(self, process: Process) -> None:
        """When all was answered that a process has said, who waits and what is back is known."""
        holder, life = process.holder, self.coordinator.lives.get(process.holder.life)
        is_heard = holder._is_greeted and holder.in_flight is None and self.is_up
        if not is_heard or life is None or (process.connection or 0) < 0:
            return
        if life.epoch != self.coordinator.epoch:
            return  # it is to greet, and has not heard so
        for number, call in holder.waiting.items():
            entry = life.entries.get(number)
            if entry is None or entry.attempt != call.entry.attempt:
                raise BreachError(f"{number} of {life.name} waits, and is not known to: {entry}")
        outbox = holder.outbox
        if left := life.entries.keys() - holder.waiting.keys() - outbox.gone:
            raise BreachError(f"{left} of {life.name} wait no more, and that is not said")
        for resource, account in holder.accounts.items():
            known = life.accounts.get(resource)
            returned = account.returned if known is None else known.returned
            if returned < account.returned and resource not in outbox.changed:
                raise BreachError(f"{life.name} has given {resource} back, and does not say so")

    def check_has_to_wait(self, process: Process, number: int) -> None:
        """A call that hears that it waits has asked, and hears it once, while it waits."""
        process.told.append(number)
        if process.view.work[number].status != WAITS or process.told.count(number) > 1:
            raise BreachError(f"{number} of {process.name} does not wait, or was told before")

    def note_waits(self, entry: Entry) -> None:
        """No process has anything idle of what one lacks that asks, but for those that sleep."""
        call = self.by_life[entry.owner].holder.waiting.get(entry.number)
        if call is None or call.entry.attempt != entry.attempt:
            # It has ended, or started with an idle unit of its own process, and was perhaps put
            # back since: then it waits by the will of its process, and is not refused.
            return
        before = self.returned_before.get((call.entry.process, entry.number), {})
        for resource in entry.units.keys() & self.coordinator.blocked:
            for life in self.coordinator.books.holders.get(resource, ()):
                process = self.by_life[life]
                counted = self.coordinator.lives[life].accounts[resource].returned
                if counted < before.get((life, resource), 0):
                    raise BreachError(f"{entry} has to wait for what {life} had given back before")
                is_there = process.holder.life == life and not process.is_dead
                # One that has just woken looks for itself before it takes this in.
                is_there &= process.holder.is_sure(self.clock(process))
                if is_there and process.holder.idle_of(resource) > 0:
                    raise BreachError(
                        f"{entry} has to wait, and {life} has {resource} idle\n{self}"
                    )

    def set_timer(self, process: Process) -> None:
        due = (process.holder.wake_at() / process.drift) + process.base
        if due < process.timer_at - 1e-9 or process.timer_at <= self.now:
            process.timer_at = max(due, self.now + 0.001)
            if process.timer_at < float("inf"):
                self.after(process.timer_at - self.now, self.wake, process, process.timer_at)

    def is_excused(self, process: Process) -> bool:
        """Whether it sleeps, or has just woken, and was given up meanwhile."""
        is_unaware = process.is_frozen or not process.holder.is_sure(self.clock(process))
        return is_unaware and process.holder.life in self.ledger.given_up

    def wake(self, process: Process, timer_at: float) -> None:
        if process.timer_at == timer_at:
            process.timer_at = float("inf")
            self.meet(process, self.tick)

    def tick(self, process: Process) -> None:
        self.act(process, process.holder.tick(self.clock(process)))

    def call(self, process: Process, parent: Work | None = None) -> None:
        if process.is_dead or (self.is_calm and parent is None):
            return
        if parent is None:
            self.after(self.chance.expovariate(self.setting.pace), self.call, process)
            if process.is_frozen:
                process.late.append((self.come, ()))
                return
        self.come(process, parent)

    def come(self, process: Process, parent: Work | None = None) -> None:
        """A call comes, if not too many wait already."""
        if parent is None and len(process.holder.waiting) > 15:
            return
        number = next(self.numbers)
        needs = self.tools.choose(process.name, self.limits, self.setting)
        limited = self.tools.list_limited(needs, process.holder.limits)
        work = Work(number, limited, self.now, needs.breaker, parent)
        process.view.work[number] = work
        self.counts["calls"] += 1
        self.counts["calls of tools that define limits"] += bool(needs.limits or needs.policy)
        sent = self.counts["statements"]
        if self.setting.is_thorough and number % 3 == 0:
            self.returned_before[process.name, number] = {
                (each.holder.life, resource): account.returned
                for each in self.processes.values()
                for resource, account in each.holder.accounts.items()
            }
        effects = process.holder.ask(
            number,
            needs.units,
            self.clock(process),
            priority=needs.priority,
            share=needs.share,
            pace=needs.pace,
            breaker=needs.breaker,
            parent=None if parent is None else parent.number,
            asks=number % 3 == 0,
            limits=needs.limits,
            policy=needs.policy,
        )
        self.act(process, effects)
        if work.status == RUNS and sent == self.counts["statements"]:
            self.counts["started at once"] += 1
        if work.status == WAITS and self.chance.random() < 0.1:
            self.after(self.chance.expovariate(5), self.meet, process, self.cancel, work)

    def cancel(self, process: Process, work: Work) -> None:
        if work.status == WAITS:
            self.finish(process, work)
            self.act(process, process.holder.withdraw(work.number, self.clock(process)))

    def go_on(self, process: Process, work: Work) -> None:
        self.meet(process, self.work_on, work)

    def work_on(self, process: Process, work: Work) -> None:
        """A call has worked for a while: it ends, makes a call of its own, or is put back."""
        if work.status != RUNS:
            return
        fate = self.chance.random()
        holder, clock = process.holder, self.clock(process)
        if fate < 0.04 and not work.has_child and not self.is_calm and not work.is_probe:
            effects = holder.decline(work.number, clock)
            if work.number in holder.waiting:  # else the clock came first, and it is lost
                work.status = WAITS
                later = self.chance.expovariate(3)
                self.after(later, self.meet, process, self.resume, work)
            self.act(process, effects)
        elif fate < 0.04 + self.setting.nests and not work.has_child:
            effects = holder.park(work.number, clock)
            if work.number in holder.running:
                work.status, work.has_child = LENDS, True
            self.act(process, effects)
            if work.status == LENDS:
                self.call(process, work)
        else:
            self.end(process, work)

    def resume(self, process: Process, work: Work) -> None:
        self.act(process, process.holder.resume(work.number, self.clock(process)))

    def end(self, process: Process, work: Work) -> None:
        """A call ends, and its result counts, or it is late."""
        holder, clock = process.holder, self.clock(process)
        was_sure_until = holder.valid_until
        outcome = self.is_calm or self.chance.choice((True, True, False, None))
        effects = holder.give_back(work.number, clock, outcome if work.is_probe else None)
        lost = [
            number for effect in effects if isinstance(effect, Lose) for number in effect.numbers
        ]
        if work.number not in lost:
            holds_some = any(not is_rate(resource) for resource in work.units)
            if holds_some and clock >= was_sure_until:
                raise BreachError(f"the late end of {work.number} counts")
            self.finish(process, work)
            if work.breaker and not self.is_calm and self.chance.random() < 0.02:
                self.act(process, effects)
                policy = self.tools.policy_of(process.name, work.breaker)
                effects = holder.trip(work.breaker, clock, policy)
        self.act(process, effects)

    def finish(self, process: Process, work: Work, *, is_lost: bool = False) -> None:
        self.ledger.end(work, is_lost=is_lost)
        self.ledger.end_probe(work, process.holder)
        del process.view.work[work.number]
        self.returned_before.pop((process.name, work.number), None)
        if (parent := work.parent) is not None and parent.status == LENDS:
            self.after(0.0, self.meet, process, self.take_back, parent)

    def take_back(self, process: Process, work: Work) -> None:
        if work.status == LENDS:
            work.status, work.asked_at = WAITS, self.now
            work.units = {r: n for r, n in work.units.items() if not is_rate(r)}
            self.act(process, process.holder.unpark(work.number, self.clock(process)))

    def lose(self, process: Process, work: Work) -> None:
        """A call ends as lost; the work of some goes on for a while."""
        self.finish(process, work, is_lost=True)
        former = process.holder.outbox.given_up.items()
        life = next((life for life, numbers in former if work.number in numbers), None)
        if life is None:
            return  # it was about to end
        process.zombies[work.number] = life
        later = self.chance.expovariate(2) if self.chance.random() < 0.2 else 0.0
        self.after(later, self.meet, process, self.end_zombie, work.number)

    def end_zombie(self, process: Process, number: int) -> None:
        del process.zombies[number]
        self.act(process, process.holder.give_back(number, self.clock(process)))

    # Connections

    def connect(self, process: Process) -> None:
        self.meet(process, self.try_to_connect)

    def try_to_connect(self, process: Process) -> None:
        if process.connection is not None:
            return
        if not self.is_up or process.is_cut or (self.chance.random() < 0.1 and not self.is_calm):
            self.after(0.02, self.connect, process)
            # Where nothing listens at all, nothing is known of the server.
            is_refused = not self.is_up and not process.is_cut and self.chance.random() < 0.5
            happens = process.holder.on_refused if is_refused else process.holder.tick
            self.act(process, happens(self.clock(process)))
            return
        process.connection = next(self.connections)
        process.end_sessions()
        self.act(process, process.holder.on_connected(self.clock(process)))

    def drop(self, process: Process, *, warns: bool = False) -> None:
        """The server ends a session, perhaps with a warning; the process hears of it soon."""
        if process.connection is not None:
            process.end_sessions()
            ended, process.connection = process.connection, -process.connection
            later = self.chance.uniform(0, 0.05)
            self.after(later, self.meet, process, self.see_end, -ended, warns)

    def see_end(self, process: Process, connection: int, was_warned: bool = False) -> None:
        if process.connection == connection:
            process.connection = None
            process.end_sessions()
            holder, clock = process.holder, self.clock(process)
            self.act(process, holder.on_connection_lost(clock, was_warned=was_warned))
            self.after(0.01, self.connect, process)

    def send(self, process: Process, message: Message) -> None:
        self.counts["statements"] += 1
        connection = process.connection
        if isinstance(message, Hello):
            for life in self.coordinator.lives.keys() - {message.life, *message.former}:
                if self.by_life[life] is process and life not in process.zombies.values():
                    raise BreachError(f"{life} has ended, and {message.life} does not sign it off")
        self.after(self.lag(), self.serve, process, connection, message)
        if connection is not None:
            self.after(1.0, self.meet, process, self.fail, connection, message)

    def serve(
        self,
        process: Process,
        connection: int | None,
        message: Message,
        is_late: bool = False,
    ) -> None:
        is_alive = process.connection == connection and process.can_hear
        if not self.is_up or (not is_alive and self.chance.random() < 0.5):
            return
        if not is_alive and not is_late:
            later = self.chance.choice((0.0, self.chance.uniform(0, 0.5)))
            self.after(later, self.serve, process, connection, message, True)
            return
        if isinstance(message, Hello):
            if not is_alive or message.op < process.greeted:
                return  # its session has ended, and with it the lock that a greeting needs
            process.greeted = message.op
            process.open_session(message.life)
        fails = self.chance.random() < 0.03 and not self.is_calm
        if fails and self.chance.random() < 0.5:
            self.after(self.lag(), self.meet, process, self.fail, connection, message)
            return
        answer = self.carry_out(process, message)
        if fails:
            self.after(self.lag(), self.meet, process, self.fail, connection, message)
        elif is_alive:
            self.after(self.lag(), self.meet, process, self.answer, connection, answer)

    def answer_idle(self, process: Process, message: Message) -> Answer | None:
        """What is answered without a transaction; None: the message must be heard."""
        if not isinstance(message, Sync) or message.has_news:
            return None
        process.beats += 1
        looks = message.looks and is_to_look(process.beats, len(self.coordinator.lives))
        sessions = frozenset(self.sessions) if looks else None
        answer = answer_idle(self.coordinator, message, self.told_now, sessions)
        self.counts["unwritten"] += answer is not None
        return answer

    def carry_out(self, process: Process, message: Message) -> Answer:
        """One transaction of the coordinator."""
        if self.setting.is_thorough:
            assert decode_message(encode_message(message)) == message
        known = self.coordinator.limits
        answer = self.answer_idle(process, message)
        if answer is not None:
            return answer
        looks = isinstance(message, Sync) and message.looks
        sessions = frozenset(self.sessions) if looks else frozenset()
        outcome = self.coordinator.hear(message, self.told_now, sessions)
        if self.coordinator.limits != known:
            self.ledger.adopt(self.coordinator.limits)
        self.ledger.define(self.coordinator.books.defined, self.coordinator.breakers)
        if outcome.is_durable:
            self.saved = self.coordinator.save()
        for note in outcome.notes:
            self.notify(note)
        return outcome.answer

    def fail(self, process: Process, connection: int, message: Message) -> None:
        """A statement failed, carried out or not, or has no answer: its connection is given up."""
        if process.holder.in_flight is message:
            self.see_end(process, connection)

    def answer(self, process: Process, connection: int, answer: Answer) -> None:
        if process.connection != connection or process.is_cut:
            return
        if not isinstance(answer, GivenUp) and self.setting.is_thorough:
            assert decode_message(encode_message(answer)) == answer
        holder = process.holder
        is_heard = holder.in_flight is not None and holder.in_flight.op == answer.op
        self.hear(process, answer, holder.on_reply, is_heard=is_heard)

    def notify(self, note: Note) -> None:
        process = self.by_life.get(note.life)
        copies = (
            1 if self.is_calm or not self.setting.faults else self.chance.choice((0, *[1] * 7, 2))
        )
        for _ in range(copies if process is not None else 0):
            self.counts["notes"] += 1
            self.after(self.lag(), self.meet, process, self.hear_note, note)

    def hear_note(self, process: Process, note: Note) -> None:
        if process.can_hear and process.holder.life == note.life and process.connection is not None:
            holder = process.holder
            self.hear(process, note, holder.on_notification, is_heard=holder._is_greeted)

    def hear(
        self, process: Process, heard: Any, method: Callable[..., list[Effect]], *, is_heard: bool
    ) -> None:
        """Lets a process hear something, and notes beside it what it knows now."""
        holder, view, clock = process.holder, process.view, self.clock(process)
        state = getattr(heard, "state", None)
        life = holder.life
        attempts = {number: call.entry.attempt for number, call in holder.waiting.items()}
        effects = method(heard, clock)
        is_heard = is_heard and holder._seen == (None if state is None else state.at)
        if is_heard and state is not None and (view.state is None or state.at >= view.state.at):
            view.state = state
        if is_heard and state is not None and state is view.state and holder.life == life:
            self.check_grants_used(process, attempts)
        for number, call in holder.waiting.items():
            if call.place is not None and self.setting.faults:
                self.places.setdefault((process.name, number), call.place[0])
                self.last_place = max(self.last_place, call.place[0])
        self.act(process, effects)

    def check_grants_used(self, process: Process, attempts: dict[int, int]) -> None:
        """Units that were granted are there, unless the process may not use them now."""
        holder, state = process.holder, process.view.state
        assert state is not None
        was_taken = any((holder.life, number) in self.taken for number in state.grants)
        if was_taken or not holder.is_sure(self.clock(process)):
            return  # some were granted while it stood still, and others have their units
        for number, attempt in state.grants.items():
            call = holder.waiting.get(number)
            if call is None or attempts.get(number) != attempt or holder.paused:
                continue
            raise BreachError(f"{number} of {holder.life} was granted, and its units are not there")

    # What the coordinator's watcher knows

    def note_removed(self, life: str) -> None:
        self.ledger.given_up.add(life)

    def note_back(self, hello: Hello) -> None:
        """A life is there that was given up: only if its process has heard of neither."""
        if hello.life in self.ledger.given_up and not hello.is_new:
            raise BreachError(f"{hello.life} was given up, and is back")
        self.ledger.given_up.discard(hello.life)

    # Faults

    def fail_somewhere(self) -> None:
        if not self.is_calm:
            self.after(self.chance.expovariate(self.setting.faults), self.fail_somewhere)
            process = self.chance.choice(list(self.processes.values()))
            kinds: dict[Callable[[Process], None], float] = {
                self.kill: 2,
                self.freeze: 2,
                self.drop: 2,
                self.cut: 1.5,
                self.doze: 3,
                self.block: 2,
                self.sever: 1.5,
                self.crash: 1,
                self.change_limits: 1,
                self.contradict: 0.5,
                self.redefine: 1,
                self.pause: 0.5,
                self.set_clock_back: 0.3,
            }
            kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
            self.counts[kind.__name__] += 1
            kind(process)

    @property
    def told_now(self) -> float:
        """What the clock of the database says."""
        return self.now - self.back

    def set_clock_back(self, _: Process) -> None:
        """An operator sets the clock of the database."""
        self.back += self.chance.choice((1.0, 60.0, 3600.0))

    def kill(self, process: Process) -> None:
        process.is_dead = True
        process.end_sessions()
        for resource, units in process.view.contribution.items():
            self.ledger.totals[resource] -= units
        for probes in self.ledger.probes.values():
            probes.difference_update({each for each in probes if each[0] is process.holder})
        del self.processes[process.name]
        self.add_process()

    def freeze(self, process: Process) -> None:
        if not process.is_frozen:
            process.is_frozen = True
            self.after(self.chance.choice((0.1, 0.25, 0.5, 1.0, 5.0)), self.thaw, process)

    def thaw(self, process: Process) -> None:
        if process.is_frozen and not process.is_dead:
            process.is_frozen = process.is_blocked = False
            late, process.late = process.late, []
            if self.chance.random() < 0.5:
                self.chance.shuffle(late)
            for happens, arguments in late:
                self.meet(process, happens, *arguments)
            self.meet(process, self.tick)

    def block(self, process: Process) -> None:
        """Its event loop stands still, and a thread of it does not."""
        if not process.is_frozen:
            process.is_frozen = process.is_blocked = True
            self.after(self.chance.choice((0.3, 1.0, 3.0, 8.0)), self.thaw, process)
            seen, period = process.holder.last_seen, process.holder.ttl / CHECKS
            self.after(2 * period, self.stand_in, process, seen)

    def stand_in(self, process: Process, seen: float) -> None:
        """What the thread does."""
        clock = self.clock(process)
        if not process.is_blocked or process.is_dead:
            return
        found = take_idle(process.holder, seen, clock)
        self.count_units(process)
        if found is not None:
            self.after(self.lag(), self.renew, process, found, clock)
            self.after(process.holder.ttl / CHECKS, self.stand_in, process, seen)

    def renew(self, process: Process, kept: Kept, sent_at: float) -> None:
        if self.is_up and process.can_hear:
            self.counts["renewed"] += 1
            life = kept.life
            entries = self.coordinator.lives[life].entries if life in self.coordinator.lives else {}
            granted = {(life, number) for number, each in entries.items() if each.is_granted}
            notes = self.coordinator.renew(kept, self.told_now)
            for note in notes or ():
                self.notify(note)
            if notes is not None:
                self.taken |= granted
                self.after(self.lag(), self.note_renewed, process, life, sent_at)

    def note_renewed(self, process: Process, life: str, sent_at: float) -> None:
        if process.can_hear:
            note_renewed(process.holder, life, sent_at, self.clock(process))

    def cut(self, process: Process) -> None:
        process.is_cut = True
        self.after(self.chance.choice((0.1, 1.0, 4.0)), self.heal, process)

    def doze(self, process: Process) -> None:
        """It sleeps for about the grace, and its session ends meanwhile."""
        if not process.is_frozen:
            process.is_frozen = True
            sleep = self.chance.uniform(0.1, 3.0) * self.setting.grace
            self.after(self.chance.uniform(0, sleep / 2), self.drop, process)
            self.after(sleep, self.thaw, process)

    def sever(self, process: Process) -> None:
        """The server sees that its session ends, and it cannot come back for a while."""
        self.drop(process)
        process.is_cut = True
        self.after(self.chance.choice((0.15, 0.3, 1.0)), self.heal, process)

    def heal(self, process: Process) -> None:
        process.is_cut = False

    def crash(self, _: Process) -> None:
        if self.is_up:
            self.is_up = False
            if self.chance.random() < 0.7:
                self.coordinator = WatchedCoordinator.load(self.saved, self)
            for process in self.processes.values():
                self.drop(process, warns=not process.is_cut and self.chance.random() < 0.7)
            self.after(self.chance.choice((0.05, 0.8, 2.5)), self.come_back)

    def come_back(self) -> None:
        if self.is_up:
            return
        self.is_up = True
        self.coordinator.restart(self.told_now)
        self.saved = self.coordinator.save()
        if back := self.coordinator.lives.keys() & self.ledger.given_up:
            raise BreachError(f"a crash brought {back} back, for which all wait")
        for process in self.processes.values():
            life = process.holder.life
            if self.chance.random() < 0.2 and not self.is_calm:
                self.cut(process)
            known = {*self.coordinator.lives, *self.ledger.given_up}
            if process.holder._is_known and life not in known:
                raise BreachError(f"a crash forgot {life}")

    def save_later(self) -> None:
        self.after(self.chance.choice((0.2, 0.6)) if self.setting.faults else 60.0, self.save_later)
        if self.is_up:
            self.saved = self.coordinator.save()

    def change_limits(self, process: Process) -> None:
        if process.is_frozen:
            return
        limits = change_limits(self.coordinator.limits, next(self.revisions), self.chance)
        self.act(process, process.holder.configure(limits, self.clock(process)))

    def contradict(self, process: Process) -> None:
        """Two processes bring different limits under one revision: one of them has its way."""
        others = [each for each in self.processes.values() if each is not process]
        pair = (process, self.chance.choice(others)) if others else ()
        if pair and not any(each.is_frozen for each in pair):
            revision, known = next(self.revisions), self.coordinator.limits
            for number, each in enumerate(pair):
                buckets = dict.fromkeys(known.buckets, 2 + number)
                limits = msgspec.structs.replace(known, revision=revision, buckets=buckets)
                each.contradicts = True
                self.come(each)
                self.act(each, each.holder.configure(limits, self.clock(each)))
                self.come(each)

    def redefine(self, _: Process) -> None:
        """A tool has another definition, which one process after another takes over."""
        self.tools.redefine()

    def pause(self, process: Process) -> None:
        if not process.is_frozen:
            clock, seconds = self.clock(process), self.chance.uniform(0.1, 1.0)
            self.act(process, process.holder.pause("bucket:ai", seconds, clock))

    # When faults stop

    def calm_down(self) -> None:
        """Faults and calls stop: soon all have run, and nothing is held any more."""
        self.is_calm = True
        for process in list(self.processes.values()):
            process.is_cut = False
            self.thaw(process)
        self.come_back()
        sent = self.counts["statements"]
        waiting = len(self.coordinator.line_up.entries())
        soonest = self.now + self.setting.ttl * LONGER * 2 + 8
        until = soonest + 30 * self.setting.length + waiting * (0.4 + self.setting.length)
        longest = max((rate.period for rate in self.limits.rates.values()), default=0.0)
        until += longest * 60
        self.run_until(soonest)
        while self.now < until and any(each.view.work for each in self.processes.values()):
            self.run_until(self.now + 1.0)
        self.check_nothing_waits()
        # The last start counts for a period, too, and who is idle looks each quarter of a ttl.
        longest += self.setting.idle_time + self.setting.ttl * LONGER / 4
        self.run_until(self.now + longest + 2.0)
        before = self.counts["statements"]
        self.run_until(self.now + 1.0)
        self.check_calm(self.counts["statements"] - before)
        # Most of them say for idle processes that they go on, and none is of a call.
        self.counts["statements of calm"] += self.counts["statements"] - sent
        self.is_calm = False
        for process in self.processes.values():
            self.after(self.chance.expovariate(self.setting.pace), self.call, process)
        self.after(0.5, self.fail_somewhere)

    def run_until(self, until: float) -> None:
        while self.events and self.events[0][0] < until:
            self.step()
        self.now = max(self.now, until)

    def check_nothing_waits(self) -> None:
        """Who waits is starved."""
        for process in self.processes.values():
            left = {work.number: work.status for work in process.view.work.values()}
            if left:
                raise BreachError(f"{process.name} starves: {left}\n{self}")

    def check_calm(self, sent: int) -> None:
        """What is still held is lost."""
        for process in self.processes.values():
            if any(account.out for account in process.holder.accounts.values()):
                raise BreachError(f"{process.name} keeps {process.holder.accounts}\n{self}")
        coordinator = self.coordinator
        entries = {n: len(life.entries) for n, life in coordinator.lives.items() if life.entries}
        if entries or coordinator.books.used or coordinator.books.holders:
            raise BreachError(f"the coordinator keeps {entries} {coordinator.books}\n{self}")
        extra = [
            n
            for n in coordinator.lives
            if n not in {p.holder.life for p in self.processes.values()}
        ]
        if extra:
            raise BreachError(f"lives that have ended stay: {extra}")
        most = len(self.processes) * (2 + 4 / self.setting.ttl)
        if sent > most:
            raise BreachError(f"{sent} statements in a second in which nothing happens")

    def __str__(self) -> str:
        rows = [f"now {self.now:.3f}, up {self.is_up}, blocked {self.coordinator.blocked}"]
        for process in self.processes.values():
            holder = process.holder
            waiting = [call.entry for call in holder.waiting.values()]
            rows.append(
                f"  {holder.life} {holder.accounts} used {holder.used} wanted {set(holder.wanted)} "
                f"short {set(holder.short)} waits {waiting} in flight {holder.in_flight} "
                f"paused {holder.paused} connection {process.connection}"
            )
        rows += [f"  row {life}" for life in self.coordinator.lives.values()]
        rows.append(f"  breakers {self.coordinator.breakers} used {self.coordinator.books.used}")
        return "\n".join(rows)
