"""What has to be done after something has happened to the leases of a process?

A `Holder` does nothing itself: it returns a list of these, to be done in their order.
"""

from __future__ import annotations

import msgspec

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.lease_messages import BreakerView, Message


class Send(msgspec.Struct, frozen=True):
    """Send a message, as one statement; its answer goes to `on_reply`.

    No other statement of the holder's is under way. One that fails ends its connection, for it may
    have been carried out or not.
    """

    message: Message


class Start(msgspec.Struct, frozen=True):
    """A call has all its units: start it, or let it go on if it had lent them.

    Args:
        number: Which one.
        is_probe: It tries whether its breaker may close; `give_back` takes its outcome.
    """

    number: int
    is_probe: bool = False


class Wait(msgspec.Struct, frozen=True):
    """It is known now that a call has to wait; it may be refused, or be said to wait.

    Of a call that asks, no process has an idle unit that it could have.
    """

    number: int


class Lose(msgspec.Struct, frozen=True):
    """Others may have the units of these calls now: end them as `lease_lost`.

    Their results count for nothing. When the work of one has really ended, `give_back` says so.
    """

    numbers: tuple[int, ...]


class Adopt(msgspec.Struct, frozen=True):
    """The cluster has other limits than this process knew."""

    limits: ClusterLimits


class Refuse(msgspec.Struct, frozen=True):
    """The limits of this process contradict those of the cluster, under one revision.

    Args:
        reason: What to say to those who gave them, with the cure.
        is_final: The process has no other ones: it gets nothing from the cluster.
    """

    reason: str
    is_final: bool


class PauseUntil(msgspec.Struct, frozen=True):
    """No call of a resource may start before a time on this process's clock."""

    resource: str
    until: float


class TurnBreaker(msgspec.Struct, frozen=True):
    """A breaker of the cluster has opened or closed."""

    breaker: str
    view: BreakerView


Effect = Send | Start | Wait | Lose | Adopt | Refuse | PauseUntil | TurnBreaker
