"""What happens to calls of a bucket that wait longer than they should, for longer than they may?"""

from __future__ import annotations

from typing import Final

import msgspec

from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data

CODEL: Final = "codel"
ADAPTIVE_LIFO: Final = "adaptive_lifo"


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
