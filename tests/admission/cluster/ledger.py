"""What must hold in a whole cluster, whatever happens to its processes and messages."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.admission.cluster.watching_grants import BreachError
from tool_engine.admission.cluster.breakers import ClusterBreaker
from tool_engine.admission.cluster.cluster_limits import ClusterLimits, is_rate, name_definition
from tool_engine.admission.cluster.holder import Holder
from tool_engine.admission.cluster.lease_messages import State

WAITS, RUNS, LENDS, ENDED = "waits", "runs", "lends", "ended"


@dataclass(slots=True, eq=False)
class Work:
    """One call as its caller sees it."""

    number: int
    units: dict[str, int]
    asked_at: float
    breaker: str | None = None
    parent: Work | None = None
    status: str = WAITS
    is_probe: bool = False
    has_child: bool = False
    lends_twice: bool = False


@dataclass(slots=True, eq=False)
class View:
    """What one process has heard last, noted beside its `Holder`."""

    state: State | None = None
    paused: dict[str, float] = field(default_factory=dict)
    work: dict[int, Work] = field(default_factory=dict)
    contribution: dict[str, int] = field(default_factory=dict)


class Ledger:
    """Adds up what all processes use or may use at any moment.

    Args:
        limits: What there is.
        count_out: Gives the units of each resource that the coordinator knows to be out, those of
            grants that are still on their way among them.
    """

    def __init__(self, limits: ClusterLimits, count_out: Callable[[], Mapping[str, int]]) -> None:
        self.limits, self._count_out = limits, count_out
        self.totals: Counter[str] = Counter()
        self.ceilings: dict[str, float] = {}
        """A lowered limit drains: what is above it may only become less."""
        self.starts: dict[str, deque[float]] = defaultdict(deque)
        self.probes: dict[tuple[str, int], set[tuple[Holder, str, int]]] = defaultdict(set)
        self.given_up: set[str] = set()
        self.defined: dict[str, int] = {}
        """Of what tools define: the limits that hold now, and of rates the most that ever held."""
        self.most_starts: dict[str, int] = {}
        self.most_probes: dict[str, int] = {}
        self.waits: list[float] = []
        self.counts: Counter[str] = Counter()
        self._note_most()

    # Units

    def touch(self, holder: Holder, view: View, clock: float) -> bool:
        """Count anew what a process uses or may use; return whether it seems too much."""
        held = self.held_by(holder, view, clock)
        suspicious = False
        for resource in held.keys() | view.contribution.keys():
            before, after = view.contribution.get(resource, 0), held.get(resource, 0)
            if before != after:
                self.totals[resource] += after - before
                suspicious |= self.totals[resource] > self.ceiling_of(resource)
        view.contribution = held
        return suspicious

    def held_by(self, holder: Holder, view: View, clock: float) -> dict[str, int]:
        """Units that its calls use, and those that they may use without asking."""
        held: Counter[str] = Counter()
        for work in view.work.values():
            if work.status == RUNS:
                for resource, units in work.units.items():
                    held[resource] += 0 if is_rate(resource) else units
        if holder.is_sure(clock):
            for resource in holder.accounts:
                idle = holder.idle_of(resource)
                if idle < 0:
                    raise BreachError(f"{holder.life} uses more of {resource} than it has")
                if not is_rate(resource):
                    held[resource] += idle
        return dict(held)

    def limit_of(self, resource: str) -> int | None:
        limit = self.limits.limit_of(resource)
        return self.defined.get(name_definition(resource)) if limit is None else limit

    def ceiling_of(self, resource: str) -> float:
        limit = self.limit_of(resource)
        if limit is None:
            return math.inf
        ceiling = self.ceilings.get(resource)
        if ceiling is None:
            return limit
        out = max(self.totals[resource], self._count_out().get(resource, 0))
        ceiling = max(limit, min(ceiling, out))
        self.ceilings[resource] = ceiling
        return ceiling

    def adopt(self, limits: ClusterLimits) -> None:
        """The coordinator has other limits from now on."""
        # What is out and not heard of yet, as the first grants of a process, is under the limit of
        # before.
        for resource in self.totals.keys() | self._count_out().keys():
            self._keep_ceiling(resource)
        self.limits = limits
        self._note_most()

    def define(self, defined: Mapping[str, int], breakers: Mapping[str, ClusterBreaker]) -> None:
        """The coordinator knows these definitions of tools by now."""
        for name, breaker in breakers.items():
            most = max(self.most_probes.get(name, 0), breaker.policy.probes)
            self.most_probes[name] = most
        if self.defined != defined:
            for resource in self.totals.keys() | self._count_out().keys():
                if self.defined.get(name_definition(resource)) != defined.get(
                    name_definition(resource)
                ):
                    self._keep_ceiling(resource)
            self.defined = dict(defined)
            self._note_most()

    def _keep_ceiling(self, resource: str) -> None:
        before = self.limit_of(resource)
        bound = math.inf if before is None else max(before, self.ceiling_of(resource))
        self.ceilings[resource] = bound

    def _note_most(self) -> None:
        rates = {f"rate:{name}": rate.calls for name, rate in self.limits.rates.items()}
        for resource, calls in (rates | self.defined).items():
            self.most_starts[resource] = max(calls, self.most_starts.get(resource, 0))

    def check_totals(self, held: Iterable[tuple[dict[str, int], bool]]) -> None:
        """Add all up anew; those that are frozen and were given up are left out."""
        totals: Counter[str] = Counter()
        for units, is_excused in held:
            if is_excused:
                self.counts["frozen holders left out"] += 1
            else:
                totals.update(units)
        for resource, total in totals.items():
            if total > self.ceiling_of(resource):
                raise BreachError(
                    f"{total} units of {resource}, and {self.limit_of(resource)} are allowed"
                )

    # Calls

    def start(self, work: Work, holder: Holder, view: View, now: float, *, is_probe: bool) -> None:
        """A call starts, or goes on."""
        if work.status != WAITS:
            raise BreachError(f"{work.number} starts, and {work.status}")
        if holder.life in self.given_up and work.units:
            raise BreachError(f"{work.number} starts in {holder.life}, which was given up")
        self._check_passing(work, view)
        work.status, work.is_probe = RUNS, is_probe
        for resource, units in work.units.items():
            if now < view.paused.get(resource, -1.0):
                raise BreachError(f"{work.number} starts in a pause of {resource}")
            for _ in range(units if is_rate(resource) else 0):
                self._count_start(resource, now)
        if is_probe:
            self._count_probe(work, holder)
        if not work.has_child:
            self.waits.append(now - work.asked_at)

    def end(self, work: Work, *, is_lost: bool = False) -> None:
        """A call has its one end."""
        if work.status == ENDED:
            raise BreachError(f"{work.number} ends twice")
        if is_lost and work.status != RUNS:
            raise BreachError(f"{work.number} is lost, and {work.status}")
        work.status = ENDED
        self.counts["lost" if is_lost else "ended"] += 1

    def end_probe(self, work: Work, holder: Holder) -> None:
        for running in self.probes.values():
            running.difference_update({p for p in running if (p[0], p[2]) == (holder, work.number)})

    def _check_passing(self, work: Work, view: View) -> None:
        """Only what was granted may pass those who are known to wait elsewhere."""
        state = view.state
        if state is None or work.number in state.grants:
            return
        if passed := state.wanted & work.units.keys():
            raise BreachError(f"{work.number} knowingly passes those who wait for {passed}")

    def _count_start(self, resource: str, now: float) -> None:
        starts, calls = self.starts[resource], self.most_starts[resource]
        period = self.limits.period_of(resource)
        starts.append(now)
        while len(starts) > calls:
            first = starts.popleft()
            if now - first < period - 1e-6:
                raise BreachError(f"{calls + 1} starts of {resource} in {now - first:.3f} s")

    def _count_probe(self, work: Work, holder: Holder) -> None:
        if work.breaker is None:
            raise BreachError(f"{work.number} is a probe of nothing")
        probe = holder.running[work.number].probe
        assert probe is not None
        running = self.probes[probe]
        running.add((holder, holder.life, work.number))
        known = [p for p in running if p[1] == p[0].life and p[1] not in self.given_up]
        most = self.most_probes[work.breaker]
        if len(known) > most:
            raise BreachError(f"{len(known)} probes of {work.breaker} at once, {most} are allowed")
