"""What do the processes of a simulated cluster share, and what does one of their calls need?"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec

from tool_engine.admission.cluster.cluster_limits import (
    TOOL,
    ClusterLimits,
    name_definition,
    name_tool_rate,
)
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate


@dataclass(frozen=True)
class Setting:
    """How large a world is, and what happens in it.

    Args:
        limits: At the beginning.
        processes: How many.
        pace: Calls a second of one process.
        length: Seconds that a call takes on average.
        faults: Faults a second, in all.
        ttl: Seconds.
        grace: Seconds.
        is_thorough: Each grant gets a second opinion, and each message is JSON on its way.
        nests: The share of calls that make one of their own.
        keys: How many values the key has.
    """

    limits: ClusterLimits
    processes: int = 4
    pace: float = 4.0
    length: float = 0.2
    faults: float = 1.0
    ttl: float = 3.0
    grace: float = 0.3
    is_thorough: bool = True
    nests: float = 0.1
    keys: int = 3
    buckets: tuple[str, ...] = ("bucket:ai", "bucket:web")
    idle_time: float = 1.0
    calm_every: int = 700
    """Calls after which faults stop until nothing is held any more."""
    local: float = 0.0
    """The share of calls in a bucket that hardly any other process uses."""
    tools: tuple[str, ...] = ()
    """Tools whose definitions say what is shared."""


def random_setting(chance: random.Random, strategy: str) -> Setting:
    """A small world in which everything happens soon."""
    has_signs = chance.random() < 0.6
    rate = ToolRate(chance.randint(2, 8), chance.choice((0.5, 1.0, 4.0)))
    limits = ClusterLimits(
        1,
        buckets={"ai": chance.randint(2, 5), "web": chance.randint(2, 4)},
        keys={"caller": chance.randint(2, 3)} if chance.random() < 0.7 else {},
        # `mail` has a rate and a breaker alone.
        rates={"web": rate, "mail": rate} if has_signs else {},
        breakers={name: BreakerPolicy(3, 0.5, chance.randint(1, 2)) for name in ("web", "mail")}
        if has_signs
        else {},
        strategy=strategy,
        aging=1.0,
    )
    pace = chance.choice((0.3, 1.0, 4.0, 12.0))
    return Setting(
        limits,
        processes=chance.randint(2, 6),
        pace=pace,
        length=chance.choice((0.05, 0.3, 1.0)),
        faults=chance.choice((0.3, 1.2)) if pace < 4 else chance.choice((0.3, 1.2, 4.0)),
        idle_time=chance.choice((1.0, 60.0)),
        buckets=("bucket:ai", "bucket:web", "bucket:mail"),
        tools=("change", "fetch", "order") if chance.random() < 0.7 else (),
    )


def change_limits(limits: ClusterLimits, revision: int, chance: random.Random) -> ClusterLimits:
    """The next edition: some limits are other ones, and some are shared no more, or again."""

    def move(each: dict[str, int]) -> dict[str, int]:
        return {name: max(2, limit + chance.choice((-1, 0, 1))) for name, limit in each.items()}

    keys = move(limits.keys)
    if chance.random() < 0.2:
        keys = {} if keys else {"caller": 2}
    rates = {
        name: ToolRate(max(2, rate.calls + chance.choice((-1, 0, 1))), rate.period)
        for name, rate in limits.rates.items()
    }
    breakers = {
        name: BreakerPolicy(policy.failures, policy.reset_after, chance.randint(1, 2))
        for name, policy in limits.breakers.items()
    }
    return msgspec.structs.replace(
        limits,
        revision=revision,
        buckets=move(limits.buckets),
        keys=keys,
        rates=rates,
        breakers=breakers,
    )


@dataclass
class Definition:
    """What the definition of one tool says with `scope: cluster`."""

    key: int | None
    rate: ToolRate | None
    policy: BreakerPolicy | None


@dataclass
class CallNeeds:
    """What one call needs, as its process asks for it."""

    units: dict[str, int]
    breaker: str | None = None
    limits: dict[str, int] = field(default_factory=dict)
    policy: BreakerPolicy | None = None
    priority: int = 5
    share: str = ""
    pace: float = 1.0


class Tools:
    """The definitions of tools, of which each process has the newest one or an older one."""

    def __init__(self, chance: random.Random, setting: Setting) -> None:
        self.chance = chance
        self._names = setting.tools
        self._periods = {name: chance.choice((0.5, 2.0)) for name in setting.tools}
        self._newest = {name: self._make(name) for name in setting.tools}
        self._known: dict[tuple[str, str], Definition] = {}

    def _make(self, name: str) -> Definition:
        chance, rate = self.chance, None
        if chance.random() < 0.6:
            rate = ToolRate(chance.randint(2, 6), self._periods[name])
        policy = BreakerPolicy(3, 0.5, chance.randint(1, 2)) if chance.random() < 0.5 else None
        return Definition(chance.choice((None, 1, 2)), rate, policy)

    def redefine(self) -> None:
        """Give one tool another definition."""
        if self._names:
            name = self.chance.choice(self._names)
            self._newest[name] = self._make(name)

    def _find(self, process: str, name: str) -> Definition:
        """What a process knows: it takes a new one over at some time."""
        place = (process, name)
        if place not in self._known or self.chance.random() < 0.2:
            self._known[place] = self._newest[name]
        return self._known[place]

    def policy_of(self, process: str, breaker: str) -> BreakerPolicy | None:
        """What goes with a report of a breaker; None: it is one of the cluster's limits."""
        if not breaker.startswith(TOOL):
            return None
        known = self._known.get((process, breaker.removeprefix(TOOL)))
        return BreakerPolicy(3, 0.5, 1) if known is None or known.policy is None else known.policy

    def choose(self, process: str, limits: ClusterLimits, setting: Setting) -> CallNeeds:
        """What the next call of a process needs."""
        chance = self.chance
        bucket = chance.choice(setting.buckets)
        units = {bucket: chance.choice((1, 1, 1, 2))}
        if setting.local and chance.random() < setting.local:
            units = {f"bucket:of {process}": 1}
        needs, name = CallNeeds(units), bucket.removeprefix("bucket:")
        weight = next(iter(units.values()))
        if bucket in units and name in limits.rates:
            units[f"rate:{name}"] = 1
            needs.breaker = name if name in limits.breakers else None
        share = f"caller {chance.randrange(setting.keys)}"
        if limits.keys and chance.random() < 0.4:
            units[f"key:caller:{share}"] = weight
        if self._names and chance.random() < 0.5:
            self._add_tool(needs, process)
        needs.priority = chance.randrange(3)
        if limits.strategy == "fair":
            needs.share, needs.pace = share, chance.choice((1.0, 2.0))
        return needs

    def _add_tool(self, needs: CallNeeds, process: str) -> None:
        name = self.chance.choice(self._names)
        tool = self._find(process, name)
        if tool.key is not None:
            resource = f"key:{TOOL}{name}:{self.chance.randrange(3)}"
            needs.units[resource] = 1
            needs.limits[name_definition(resource)] = tool.key
        if tool.rate is not None:
            resource = name_tool_rate(name, tool.rate)
            needs.units[resource], needs.limits[resource] = 1, tool.rate.calls
        if tool.policy is not None and (needs.breaker is None or self.chance.random() < 0.5):
            needs.breaker, needs.policy = f"{TOOL}{name}", tool.policy

    @staticmethod
    def list_limited(needs: CallNeeds, limits: ClusterLimits) -> dict[str, int]:
        """Those of its units that are shared, as its process knows it."""
        return {
            resource: units
            for resource, units in needs.units.items()
            if limits.limit_of(resource) is not None or name_definition(resource) in needs.limits
        }


def is_of_tool(resource: str) -> bool:
    """Whether a tool defines a resource, and not the limits of the cluster."""
    return resource.partition(":")[2].startswith(TOOL)
