"""How does a bucket follow its load: by another limit, by refusals, by another order?"""

from __future__ import annotations

from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.data import Data
from tool_engine.model.settings.concurrency import LARGEST

AIMD: Final = "aimd"
GRADIENT2: Final = "gradient2"
CODEL: Final = "codel"
ADAPTIVE_LIFO: Final = "adaptive_lifo"


class AdaptivePolicy(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How a bucket's limit follows its service: by latency, refusals and timeouts."""

    kind: str = GRADIENT2
    """`gradient2` shrinks as far as calls have become slower; `aimd` by a fixed share, and only
    when they take twice as long, are refused or run out of time."""
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
