"""Which faults must the simulation of a cluster find? Most broke a prototype of its protocol."""

from __future__ import annotations

from typing import Final

from tests.proof.mutation import Mutation

ACCOUNTS: Final = "tool_engine/admission/cluster/accounts.py"
BREAKERS: Final = "tool_engine/admission/cluster/breakers.py"
CONFIRMING: Final = "tool_engine/admission/cluster/confirming.py"
COORDINATOR: Final = "tool_engine/admission/cluster/coordinator.py"
HOLDER: Final = "tool_engine/admission/cluster/holder.py"
KEY: Final = "tool_engine/admission/key.py"
LEASE: Final = "tool_engine/admission/cluster/lease.py"
LEASED_CALL: Final = "tool_engine/admission/cluster/leased_call.py"
LIFE: Final = "tool_engine/admission/cluster/life.py"
LINE_UP: Final = "tool_engine/admission/cluster/line_up.py"
LIMITS: Final = "tool_engine/admission/cluster/cluster_limits.py"
LEASING: Final = "tool_engine/admission/cluster/leasing.py"
SHARED_ROW: Final = "tool_engine/admission/cluster/shared_row.py"
STAND_IN: Final = "tool_engine/admission/cluster/stand_in.py"
OUTBOX: Final = "tool_engine/admission/cluster/outbox.py"
CLUSTER: Final = ("tests/admission/cluster",)


def _mutate(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"cluster: {name}", file, old, new, CLUSTER)


CLUSTER_MUTATIONS: Final[tuple[Mutation, ...]] = (
    _mutate(
        "one that is idle does not see that another one has ended",
        SHARED_ROW,
        "        if not sessions.issuperset(state.lives):\n            return None\n",
        "",
    ),
    _mutate(
        "one that holds units says in vain that it goes on",
        SHARED_ROW,
        "life.lost_at is not None or not state.is_idle(life):\n",
        "life.lost_at is not None:\n",
    ),
    _mutate(
        "one that is idle is given up though it has a session",
        COORDINATOR,
        "now >= life.expires and (life.lost_at is not None or not self.is_idle(life))\n",
        "now >= life.expires\n",
    ),
    _mutate(
        "starts that are over count as long as all are idle",
        SHARED_ROW,
        " or state.has_ended(now)",
        "",
    ),
    _mutate(
        "where the clock of the database was set back, a moment lasts for hours",
        COORDINATOR,
        "        return self.said_at - now - self.doubt > self.ttl / 3\n",
        "        return False\n",
    ),
    _mutate(
        "a shared rate does not say when it lets the next call through",
        COORDINATOR,
        "            rates={r: self.books.find_delay(r, now) for r in held_up_by if is_rate(r)},\n",
        "",
    ),
    _mutate(
        "an older state that was put back is not noticed by what was answered",
        COORDINATOR,
        "        return message.answered > life.op\n",
        "        return False\n",
    ),
    _mutate(
        "an older state that was put back is not noticed by what was heard",
        COORDINATOR,
        "        if message.seen >= (self.epoch, self.heard):\n            return True\n",
        "",
    ),
    _mutate(
        "who hears that a state was put back says its news alone",
        HOLDER,
        "            self._is_greeted = False  # there an older state",
        "            pass  # there an older state",
    ),
    _mutate(
        "an older state that was put back gates nothing",
        COORDINATOR,
        '        self.lives[UNKNOWN] = Life(UNKNOWN, "", now, self.epoch)\n',
        "",
    ),
    _mutate(
        "the end of a session is taken for the end of its process",
        COORDINATOR,
        "now - life.lost_at >= self.times_of(life)[0]\n",
        "now >= life.lost_at\n",
    ),
    _mutate(
        "a process with a longer grace and ttl is given up as soon as the others",
        COORDINATOR,
        "        return life.times or (self.grace, self.ttl)\n",
        "        return self.grace, self.ttl\n",
    ),
    _mutate(
        "a unit that cannot be used is neither started nor declined",
        HOLDER,
        "                self._let_wait(call, is_again=True)  # it keeps its place",
        "                pass  # it keeps its place",
    ),
    _mutate(
        "a call that is put back by the engine does not say so",
        HOLDER,
        "            call.is_told = call.entry.is_held = True\n"
        "            self._let_wait(call, is_again=True)\n",
        "            call.is_told = call.entry.is_held = True\n            self._let_wait(call)\n",
    ),
    _mutate(
        "a note carries the newest grant alone, and overtakes a reply",
        COORDINATOR,
        "        granted = [entry for entry in life.entries.values() if entry.is_granted]\n",
        "        granted = [entry for entry in life.entries.values() if entry.is_granted][-1:]\n",
    ),
    _mutate(
        "an overtaken state is taken in, too",
        HOLDER,
        "        if state.at < self._seen or self._doubted_at is not None:\n",
        "        if self._doubted_at is not None:\n",
    ),
    _mutate(
        "an idle unit of the process itself blocks its heavier call",
        HOLDER,
        "        for resource in self.short & self.line_up.counts.keys():\n",
        "        for resource in ():\n",
    ),
    _mutate(
        "a session's end that is heard late counts from when the process woke",
        HOLDER,
        "            seen = self._woke[1]  # what it hears first may be from before it slept\n",
        "            pass\n",
    ),
    _mutate(
        "a woken process ends a call before it looks at the clock",
        HOLDER,
        "        effects = self._look_at_clock(now)\n"
        "        call = self.running.pop(number, None)\n"
        "        if call is None:\n",
        "        effects: list[Effect] = []\n"
        "        call = self.running.pop(number, None)\n"
        "        if call is None:\n",
    ),
    _mutate(
        "a woken process starts calls before it has heard anything",
        HOLDER,
        "        if self.grace * SURE <= slept < math.inf:\n",
        "        if False:\n",
    ),
    _mutate(
        "a place is lost when a process comes back",
        LEASED_CALL,
        "    place, asked_at = call.place or (None, None)\n",
        "    place, asked_at = None, None\n",
    ),
    _mutate(
        "a place that a process names is not believed",
        COORDINATOR,
        "        place, asked_at = ticket.place, ticket.asked_at\n",
        "        place, asked_at = None, None\n",
    ),
    _mutate(
        "the list of processes is not on disk",
        COORDINATOR,
        "            self.lives[message.life] = life\n            self._is_durable = True\n",
        "            self.lives[message.life] = life\n",
    ),
    _mutate(
        "a life that was given up does not sign off",
        OUTBOX,
        "                self.former.append(life)\n",
        "                pass\n",
    ),
    _mutate(
        "the end of a life is not on disk",
        COORDINATOR,
        "        self._is_durable = True  # else",
        "        pass  # else",
    ),
    _mutate(
        "a crash opens the gate at once",
        COORDINATOR,
        "        return bool(self.absent) and now < self.gated_until\n",
        "        return False\n",
    ),
    _mutate(
        "after a crash those that say nothing for a grace are given up",
        COORDINATOR,
        "            if (is_over and life.epoch == self.epoch) or is_silent:\n",
        "            if is_over or is_silent:\n",
    ),
    _mutate(
        "the places of before a crash are given once more",
        COORDINATOR,
        "        self.places = self.epoch * PLACES_OF_AN_EPOCH\n",
        "        self.places = 0\n",
    ),
    _mutate(
        "a process does not say after a crash what it was granted",
        COORDINATOR,
        "            account.granted = max(account.granted, granted)\n",
        "            account.granted = max(account.granted, returned)\n",
    ),
    _mutate(
        "a grant that was never heard of is held for ever",
        COORDINATOR,
        "            account.returned = account.granted - (granted - returned)\n",
        "            account.returned = max(account.returned, returned)\n",
    ),
    _mutate(
        "a late message of an old connection counts",
        COORDINATOR,
        "        is_next = message.op > life.op and (",
        "        is_next = bool(message.op) and (",
    ),
    _mutate(
        "a process that is not back in time goes on",
        HOLDER,
        "        if (is_away or now >= self.valid_until) and self.has_units:\n",
        "        if now >= self.valid_until and self.has_units:\n",
    ),
    _mutate(
        "a process without an answer goes on",
        HOLDER,
        "        if (is_away or now >= self.valid_until) and self.has_units:\n",
        "        if is_away and self.has_units:\n",
    ),
    _mutate(
        "a connection counts as lost from when its end was seen",
        HOLDER,
        "                self._lost_at = min(seen, now)\n",
        "                self._lost_at = now\n",
    ),
    _mutate(
        "a process is as sure as the coordinator waits",
        HOLDER,
        "SURE: Final = 2 / 3\n",
        "SURE: Final = 1.2\n",
    ),
    _mutate(
        "what is wanted elsewhere stays",
        HOLDER,
        "            if resource in self.wanted or resource",
        "            if resource",
    ),
    _mutate(
        "a call passes those that are known to wait elsewhere",
        HOLDER,
        "        for resource in list(self.accounts):\n"
        "            if resource in self.wanted or resource in self.paused or self._is_closing:\n"
        "                self._give_back_idle(resource)\n"
        "        if not self.waiting or not self.is_sure(now):\n"
        "            return effects\n",
        "        if not self.waiting or not self.is_sure(now):\n            return effects\n",
    ),
    _mutate(
        "what a statement said that failed is forgotten",
        OUTBOX,
        "        self.said.update(self.unsaid)\n",
        "        self.said.update(self.unsaid)\n        self.unsaid.clear()\n",
    ),
    _mutate(
        "a ticket that may be known is not taken back",
        OUTBOX,
        "        self.said.update(self.unsaid)\n        self.is_urgent = False\n",
        "        self.is_urgent = False\n",
    ),
    _mutate(
        "a notification counts before the greeting is answered",
        HOLDER,
        "        if note.life == self.life and self._is_greeted:\n",
        "        if note.life == self.life:\n",
    ),
    _mutate(
        "a note of an earlier life counts",
        HOLDER,
        "        if note.life == self.life and self._is_greeted:\n",
        "        if self._is_greeted:\n",
    ),
    _mutate(
        "a light call passes a heavy one",
        LINE_UP,
        "                    blocked.add(holding)\n",
        "",
    ),
    _mutate(
        "one more than the limit",
        ACCOUNTS,
        "        return None if limit is None else limit - self.used.get(resource, 0)\n",
        "        return None if limit is None else limit + 1 - self.used.get(resource, 0)\n",
    ),
    _mutate(
        "a lowered limit does not drain",
        COORDINATOR,
        "        self.lowered = set(self.books.holders)\n",
        "",
    ),
    _mutate(
        "what is said to be held after a crash is not looked at for a lowered limit",
        COORDINATOR,
        "        self.lowered.update(life.accounts)  # less",
        "        pass  # less",
    ),
    _mutate(
        "newer limits are dropped with those that were refused",
        HOLDER,
        "            if self.outbox.limits == message.limits:  # else",
        "            if not self._is_closed:  # else",
    ),
    _mutate(
        "a key is served by how many calls wait, not by its turn",
        LINE_UP,
        "            self.shares.pay(entry.share, cost / entry.pace)\n",
        "",
    ),
    _mutate(
        "a start counts no longer than it takes",
        ACCOUNTS,
        "            until = now + self.limits.period_of(resource)\n",
        "            until = now\n",
    ),
    _mutate(
        "what a dead process may have started is forgotten",
        ACCOUNTS,
        "                self.cool(resource, out, now)\n",
        "                pass\n",
    ),
    _mutate(
        "what a crash forgot of a dead process was not started",
        ACCOUNTS,
        "        if not is_known:\n",
        "        if False:\n",
    ),
    _mutate(
        "a pause ends where it was heard",
        COORDINATOR,
        "                self.paused[resource] = now + left\n                self._news",
        "                self._news",
    ),
    _mutate(
        "each process tries a breaker for itself",
        BREAKERS,
        "        return now >= self.opens_at and len(self.probes) < self.policy.probes\n",
        "        return now >= self.opens_at\n",
    ),
    _mutate(
        "the probes of a process that has ended are taken for ever",
        COORDINATOR,
        "        for breaker in self.breakers.values():\n            breaker.forget(life.name)\n"
        "        self.has_changed = True\n",
        "        self.has_changed = True\n",
    ),
    _mutate(
        "a call of a probe waits for another probe",
        HOLDER,
        "        if breaker == call.passed:\n",
        "        if False:\n",
    ),
    _mutate(
        "a probe that takes back what it lent is no probe any more",
        COORDINATOR,
        "                if ticket.breaker is not None:  # else",
        "                if True:  # else",
    ),
    _mutate(
        "a call that takes back what it lent starts once more by its rates",
        COORDINATOR,
        "                entry.units, entry.breaker = ticket.units, ticket.breaker\n",
        "",
    ),
    _mutate(
        "a call that lent its units gets them back last",
        HOLDER,
        "            call.entry.standing, call.entry.breaker = RETURNS, None\n",
        "            call.entry.breaker = None\n",
    ),
    _mutate(
        "a note that is lost is not said again",
        COORDINATOR,
        "                life.informed, life.confirmed.pressed = frozenset(), -1\n",
        "                pass\n",
    ),
    _mutate(
        "idle units stay for ever",
        HOLDER,
        "            if now >= since + self.idle_time:  # as `wake_at` says it\n",
        "            if False:\n",
    ),
    _mutate(
        "a call that must not wait does so at once, whoever has something idle",
        CONFIRMING,
        "since is not None and since <= self.seen else -1\n",
        "since is not None else -1\n",
    ),
    _mutate(
        "what an earlier call was answered counts for one that comes while units are on their way",
        LIFE,
        "return seen < (0 if life.name == entry.owner else entry.asked_in)\n",
        "return seen < 0\n",
    ),
    _mutate(
        "nobody answers what is asked for a call that must not wait",
        HOLDER,
        "        self.outbox.is_urgent |= state.confirm or ",
        "        self.outbox.is_urgent |= ",
    ),
    _mutate(
        "a call that must not wait waits for a process that is frozen",
        COORDINATOR,
        "            elif not silent or now - entry.asked_at >= self.grace:\n",
        "            elif not silent:\n",
    ),
    _mutate(
        "the first definition of a tool holds for ever",
        COORDINATOR,
        "            defined[name] = limit\n",
        "            defined.setdefault(name, limit)\n",
    ),
    _mutate(
        "a lowered definition does not drain",
        COORDINATOR,
        "self.lowered.update(each for each in held if name_definition(each) == name)\n",
        "pass\n",
    ),
    _mutate(
        "a ticket does not say what its tool defines",
        LEASED_CALL,
        "        entry.limits,\n",
        "        {},\n",
    ),
    _mutate(
        "a start of a tool's rate counts no longer than it takes",
        LIMITS,
        'return float(name.rpartition("@")[2]) if name.startswith(TOOL) else 0.0',
        "return 0.0",
    ),
    _mutate(
        "what a crash forgot of a dead process was started by no tool",
        ACCOUNTS,
        "            defined = [resource for resource in self.defined if is_rate(resource)]\n",
        "            defined: list[str] = []\n",
    ),
    _mutate(
        "other limits end the breakers of tools",
        COORDINATOR,
        "            if not name.startswith(TOOL):\n",
        "            if True:\n",
    ),
    _mutate(
        "a call heavier than its tool defines by now holds up all behind it",
        ACCOUNTS,
        "(entry.standing == RETURNS or is_of_tool)",
        "False",
    ),
    _mutate(
        "a call that could not start leaves its place behind when it goes",
        LEASE,
        " or waiter is not self.desk.granting:\n",
        ":\n",
    ),
    _mutate(
        "a call takes back a key that it lent, whoever has it by now",
        KEY,
        " and order[0] == -inf and self.resource is None\n",
        " and order[0] == -inf\n",
    ),
    _mutate(
        "what its own process held up asks only when others wake it",
        LEASING,
        "            self._pool.wake_later(bucket, delay)\n",
        "            pass\n",
    ),
    _mutate(
        "what its own process had no room for never asks",
        LEASING,
        "        self._held_up.add(bucket)\n        if delay > 0:\n",
        "        if delay > 0:\n",
    ),
    _mutate(
        "a call that may not try a breaker stays first in its line",
        LEASING,
        "            pool.hand_over(waiter.lane)\n            return\n",
        "            return\n",
    ),
    _mutate(
        "what is refused stays first in its line",
        LEASING,
        "                self._pool.hand_over(lane)\n",
        "                pass\n",
    ),
    _mutate(
        "what was said before a process stood still counts when it wakes",
        HOLDER,
        "        if state.at < self._seen or self._doubted_at is not None:\n",
        "        if state.at < self._seen:\n",
    ),
    _mutate(
        "what is idle stays with a process that stands still",
        COORDINATOR,
        "            idle = account.out - kept.in_use.get(resource, 0)\n",
        "            idle = 0\n",
    ),
    _mutate(
        "what was said of one that stood still counts after it has spoken",
        COORDINATOR,
        " or life.op > kept.op:\n",
        ":\n",
    ),
    _mutate(
        "starts that a blocked process has not reported are forgotten",
        COORDINATOR,
        "                self._count_spent(account, resource, kept.spent.get(resource, 0), now)\n",
        "",
    ),
    _mutate(
        "a server that warned is a connection that ended",
        HOLDER,
        "            self._is_refused, self.in_flight = was_warned, None\n",
        "            self._is_refused, self.in_flight = False, None\n",
    ),
    _mutate(
        "a call that must not wait is refused before what is idle here is looked at",
        HOLDER,
        "        effects = self._settle_idle(now) if numbers else []  # what",
        "        effects: list[Effect] = []  # what",
    ),
    _mutate(
        "one is spoken for that starts calls as it wakes",
        STAND_IN,
        "        self._period = max(holder.ttl / CHECKS, holder.grace * SURE)\n",
        "        self._period = holder.ttl / CHECKS\n",
    ),
    _mutate(
        "a process that is awake has its idle units taken",
        STAND_IN,
        "        if holder.last_seen != seen or now >= holder.valid_until:\n",
        "        if now >= holder.valid_until:\n",
    ),
    _mutate(
        "an answer that comes late keeps a process",
        STAND_IN,
        "    if life == holder.life and now < holder.valid_until:\n",
        "    if life == holder.life:\n",
    ),
)
