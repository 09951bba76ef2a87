"""Under which limits do calls run, what happens at a limit, and how does it follow the load?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.data import Data

DEFAULT_PRIORITY: Final = 5
LARGEST: Final = 2**53 - 1
"""The largest number in a definition's `concurrency`; every JSON reader keeps it exactly."""
TOOL_KEYS: Final = ("tool", "conversation_id", "caller_id", "workflow_id", "params")
"""The keys of `ToolConcurrency`, beside `params.NAME`."""
SINGLE_FLIGHT_LIMIT: Final = (
    "key_limit has no meaning with single_flight, where one call runs for all that have its key; "
    "remove it"
)
_RATE: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9}(?:\.[0-9]+)?)?(s|min|h|d)")
_PARAMETER: Final = re.compile(r"params\.[^.]")
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
AIMD: Final = "aimd"
GRADIENT2: Final = "gradient2"
CODEL: Final = "codel"
ADAPTIVE_LIFO: Final = "adaptive_lifo"


class ToolRate(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How many calls may start in a period (`rate: 10/s`)."""

    calls: int
    period: float
    """Seconds."""

    def __post_init__(self) -> None:
        check_count("calls", self.calls, minimum=1)
        check_timeout("period", self.period)

    @classmethod
    def parse(cls, text: str) -> ToolRate:
        """Read `10/s`, `100/min`, `1000/h` or `5/2s`.

        Raises:
            ValueError: The text is no rate, or one that allows no call.
        """
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is not None:
            calls, amount, unit = int(found[1]), float(found[2] or 1), found[3]
            if calls and amount:
                return cls(calls, amount * _SECONDS[unit])
        shown = text[:80] if isinstance(text, str) else text
        raise ValueError(f"not a rate: {shown!r}; write it as 10/s, 100/min, 1000/h or 5/2s")

    def __str__(self) -> str:
        units = {1.0: "s", 60.0: "min", 3600.0: "h", 86400.0: "d"}
        return f"{self.calls}/{units.get(self.period, f'{self.period:g}s')}"


class BreakerPolicy(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """When calls are refused because earlier ones failed."""

    failures: int = 5
    """Failed calls in a row that open the breaker: execution errors and timeouts count; refused,
    invalid and cancelled calls do not."""
    reset_after: float = 30.0
    """Seconds for which an open breaker refuses every call."""
    probes: int = 1
    """The most calls that may run at once afterwards, to test whether it may close."""

    def __post_init__(self) -> None:
        check_count("failures", self.failures, minimum=1, maximum=LARGEST)
        check_timeout("reset_after", self.reset_after)
        check_count("probes", self.probes, minimum=1, maximum=LARGEST)


SCOPES: Final = ("process", "cluster")


class CollisionPolicy(str, Enum):
    """What happens to a call whose key is busy."""

    QUEUE = "queue"
    """It waits."""
    REJECT = "reject"
    """It ends as `rejected`."""
    CANCEL_IN_PROGRESS = "cancel_in_progress"
    """The running call ends as `cancelled`; the new one runs as soon as its work has stopped."""
    CANCEL_NEWEST = "cancel_newest"
    """It ends as `cancelled`."""
    KEEP_NEWEST_QUEUED = "keep_newest_queued"
    """It waits, and the call that waited until now ends as `cancelled`."""
    SINGLE_FLIGHT = "single_flight"
    """It runs nothing and gets the result of the running call."""


class ToolConcurrency(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How calls of a tool are admitted: a definition's `concurrency`.

    Values that go with others are filled in: a `key_limit` or a `collision` without a `key` has
    the key `tool`, `single_flight` has `params`; a key without a limit lets one call run.
    """

    bucket: str | None = None
    """The limit that the calls count against; None: the tool's category."""
    priority: int = DEFAULT_PRIORITY
    """Smaller is more urgent."""
    weight: int = 1
    """How many slots one call takes."""
    queue_timeout: float | None = None
    """Seconds that a call may wait for a slot; None: the controller's `queue_timeout`."""
    key: str | None = None
    """What calls must have in common to count against `key_limit`: `tool` (all of them),
    `conversation_id`, `caller_id`, `workflow_id`, `params` (all arguments) or `params.NAME`."""
    key_limit: int | None = None
    """Slots for calls of this tool with the same key. None: there is no key, or the collision is
    `single_flight`, where one call runs for all."""
    collision: CollisionPolicy = CollisionPolicy.QUEUE
    """What happens to a call whose key is busy."""
    breaker: BreakerPolicy | None = None
    """When calls are refused because earlier ones failed; None: never."""
    scope: str = "process"
    """Where the tool's rate, breaker and key hold: in each `process`, or in the whole `cluster`. A
    key whose collision is not `queue` holds in each process."""

    def __post_init__(self) -> None:
        check_choice("scope", self.scope, SCOPES)
        if self.bucket is not None and not (isinstance(self.bucket, str) and self.bucket):
            raise ConfigurationError(f"bucket must be a non-empty text, got {self.bucket!r}")
        check_count("priority", self.priority, minimum=-LARGEST, maximum=LARGEST)
        check_count("weight", self.weight, minimum=1, maximum=LARGEST)
        if self.queue_timeout is not None:
            check_timeout("queue_timeout", self.queue_timeout)
        check_choice("collision", self.collision, [policy.value for policy in CollisionPolicy])
        msgspec.structs.force_setattr(self, "collision", CollisionPolicy(self.collision))
        if isinstance(self.breaker, Mapping):
            msgspec.structs.force_setattr(self, "breaker", BreakerPolicy(**self.breaker))
        if self.breaker is not None and not isinstance(self.breaker, BreakerPolicy):
            raise ConfigurationError(f"breaker must be a BreakerPolicy, got {self.breaker!r}")
        self._settle_key()

    def _settle_key(self) -> None:
        is_single = self.collision is CollisionPolicy.SINGLE_FLIGHT
        if self.key_limit is not None:
            check_count("key_limit", self.key_limit, minimum=1, maximum=LARGEST)
            if is_single:
                raise ConfigurationError(SINGLE_FLIGHT_LIMIT)
            if self.key_limit < self.weight:
                raise ConfigurationError(key_limit_too_small(self.key_limit, self.weight))
        key = self.key
        if key is None and (self.key_limit or self.collision is not CollisionPolicy.QUEUE):
            key = "params" if is_single else "tool"
            msgspec.structs.force_setattr(self, "key", key)
        if key is None:
            return
        if not (isinstance(key, str) and _PARAMETER.match(key)):
            check_choice("key", key, (*TOOL_KEYS, "params.NAME"))
        if self.key_limit is None and not is_single:
            msgspec.structs.force_setattr(self, "key_limit", self.weight)


def key_limit_too_small(limit: int, weight: int) -> str:
    """Return why a limit below the weight of one call is impossible."""
    return (
        f"key_limit {limit} is less than the weight {weight}, so that no call could ever run; "
        f"write key_limit: {weight} or more"
    )


class AdaptivePolicy(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How a bucket's limit follows its service: by latency, refusals and timeouts."""

    kind: str = GRADIENT2
    """`gradient2` shrinks as far as calls have become slower, `aimd` by a fixed share; both by a
    fixed share when calls are refused or run out of time."""
    min: int = 1
    """Slots that the bucket keeps in any case."""
    max: int = 100
    """Slots that it never passes."""
    freeze: bool = False
    """Keep the limit as it is, and learn nothing."""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, (AIMD, GRADIENT2))
        check_count("min", self.min, minimum=1, maximum=LARGEST)
        check_count("max", self.max, minimum=1, maximum=LARGEST)
        check_switch("freeze", self.freeze)
        if self.min > self.max:
            raise ConfigurationError(
                f"min must be at most max, got min {self.min} and max {self.max}; raise max or "
                "lower min"
            )

    def clamp(self, limit: float) -> float:
        """Return the limit nearest to this one that the bounds allow."""
        return max(float(self.min), min(float(self.max), limit))


class OverloadPolicy(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How a bucket behaves while even its luckiest calls wait too long.

    It is overloaded after an `interval` in which no call waited less than `target`.
    """

    shed: str = CODEL
    """`codel` refuses calls whose turn comes after more than twice the target, as `rejected`, while
    the bucket is overloaded; `none` refuses none."""
    order: str = "arrival"
    """`adaptive_lifo` lets the newest call go first while the bucket is overloaded, under the
    strategy `fifo`; `arrival` changes nothing."""
    target: float = 0.5
    """Seconds that a call may wait."""
    interval: float = 5.0
    """Seconds after which longer waits are no burst any more."""

    def __post_init__(self) -> None:
        check_choice("shed", self.shed, (CODEL, "none"))
        check_choice("order", self.order, ("arrival", ADAPTIVE_LIFO))
        check_timeout("target", self.target)
        check_timeout("interval", self.interval)
