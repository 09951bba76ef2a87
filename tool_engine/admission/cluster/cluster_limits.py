"""Which limits does a cluster have, and which of two sets of them holds?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.settings.cluster import ClusterConfig
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate

TOOL = "tool "
"""Before the name of a tool whose definition says what is shared."""
STRATEGIES = ("fifo", "priority", "fair")
"""In which order those that wait are served: `ConcurrencyConfig.strategy` without `reject`."""
NO_ORDER = ""
"""The strategy of limits that leave the order to the other processes."""
_SETTINGS = {
    "buckets": "bucket_limits",
    "keys": "key_limits",
    "rates": "bucket_rates",
    "aging": "aging_interval",
}
"""What a field is called where it is set, if not as here."""


class ClusterLimits(msgspec.Struct, frozen=True):
    """The limits of a cluster, with the number of their edition.

    A *resource* is a text: `bucket:NAME` (units in use at once), `key:KIND:VALUE` (the same, of the
    calls with one value of a key) or `rate:NAME` (starts in a period).

    Args:
        revision: Which edition this is; the highest one holds in every process.
        buckets: Units that calls of a bucket may have at once, by its name.
        keys: Units that calls with one value of a key may have at once, by the kind of the key.
        rates: How many calls may start in which period, by the name of the bucket or tool.
        breakers: When calls are refused because earlier ones failed, by name.
        strategy: `fifo` (by arrival at the coordinator), `priority` or `fair`; `NO_ORDER`: that of
            other processes, else `fifo`.
        aging: Under `priority`: seconds of waiting that make up for a priority one larger.

    Raises:
        ConfigurationError: A value is none that a limit can have.
    """

    revision: int
    buckets: dict[str, int] = {}
    keys: dict[str, int] = {}
    rates: dict[str, ToolRate] = {}
    breakers: dict[str, BreakerPolicy] = {}
    strategy: str = "fifo"
    aging: float = 10.0

    def __post_init__(self) -> None:
        check_count("revision", self.revision, minimum=0)
        check_choice("strategy", self.strategy, (*STRATEGIES, NO_ORDER))
        for what, limits in (("buckets", self.buckets), ("keys", self.keys)):
            for name, limit in limits.items():
                check_count(f"{what}[{name!r}]", limit, minimum=1)
        if not self.aging > 0:
            raise ConfigurationError(f"aging must be more than 0 seconds, got {self.aging!r}")

    def limit_of(self, resource: str) -> int | None:
        """Return how many units of a resource there are; None: it has no limit in the cluster."""
        kind, _, name = resource.partition(":")
        if kind == "bucket":
            return self.buckets.get(name)
        if kind == "rate":
            rate = self.rates.get(name)
            return None if rate is None else rate.calls
        return self.keys.get(name.partition(":")[0])

    def is_limited(self, resource: str, defined: Mapping[str, int]) -> bool:
        """Return whether a resource has a limit, here or as a tool has `defined` it."""
        return name_definition(resource) in defined or self.limit_of(resource) is not None

    def period_of(self, resource: str) -> float:
        """Return for how many seconds a start counts; 0.0 of what is no rate."""
        kind, _, name = resource.partition(":")
        if kind != "rate":
            return 0.0
        rate = self.rates.get(name)
        if rate is None:
            return float(name.rpartition("@")[2]) if name.startswith(TOOL) else 0.0
        return rate.period

    def outranks(self, other: ClusterLimits) -> bool:
        """Return whether these limits hold where `other` did.

        Raises:
            ConfigurationError: Both have one revision, and other values: which of them is meant
                cannot be known.
        """
        if self.revision != other.revision:
            return self.revision > other.revision
        mine, theirs = self.order_as(other), other.order_as(self)
        if mine != theirs:
            names = [name for name in self.__struct_fields__ if not _is_same(mine, theirs, name)]
            words = " and ".join(_SETTINGS.get(name, name) for name in names)
            raise ConfigurationError(
                f"the cluster has revision {other.revision} with other {words}; "
                f"give the new limits revision {other.revision + 1}, or take those that there are"
            )
        return theirs.strategy != other.strategy

    def order_as(self, other: ClusterLimits) -> ClusterLimits:
        """Return these limits, in the order of other ones if they have none."""
        if self.strategy != NO_ORDER:
            return self
        return msgspec.structs.replace(self, strategy=other.strategy, aging=other.aging)


def limits_of(config: ConcurrencyConfig, cluster: ClusterConfig) -> ClusterLimits:
    """Return the limits that a process brings to its cluster, in the order that it serves by."""
    limits = ClusterLimits(
        cluster.revision,
        buckets=cluster.bucket_limits,
        keys=cluster.key_limits,
        rates=cluster.bucket_rates,
        breakers=cluster.breakers,
        # What is refused at once has no order.
        strategy=config.strategy if config.strategy in STRATEGIES else NO_ORDER,
    )
    if limits.strategy != "priority":
        return limits  # no other one ages, and a number that nothing goes by contradicts none
    return msgspec.structs.replace(limits, aging=config.aging_interval)


def read_limits(limits: ClusterLimits) -> tuple[Any, ...]:
    """Return what the fields of a `ClusterConfig` say of limits, from the revision on."""
    return limits.revision, limits.buckets, limits.keys, limits.rates, limits.breakers


def name_tool_rate(tool: str, rate: ToolRate) -> str:
    """Return the resource of a tool's rate: with its period, for which starts count."""
    return f"rate:{TOOL}{tool}@{rate.period!r}"


def name_definition(resource: str) -> str:
    """Return under which name the limit of a resource is kept which a tool defines."""
    kind, _, name = resource.partition(":")
    return f"{kind}:{name.partition(':')[0]}" if kind == "key" else resource


def is_rate(resource: str) -> bool:
    """Return whether units of a resource are starts, which cannot be given back."""
    return resource.startswith("rate:")


def _is_same(one: ClusterLimits, other: ClusterLimits, name: str) -> bool:
    return bool(getattr(one, name) == getattr(other, name))
