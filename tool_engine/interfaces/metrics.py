"""What has the admission controller done, and what is it doing now?"""

from __future__ import annotations

from typing import Any

import msgspec


class _MetricsFields(msgspec.Struct, frozen=True):
    current_concurrent: int = 0
    """Slots in use now, those of zombies included."""
    queue_length: int = 0
    """Calls that wait now."""
    total_acquired: int = 0
    """Slots given. A parked slot that is taken again counts again."""
    total_rejected: int = 0
    """Calls refused without waiting: queue full, no free slot under `reject`, rate, closed."""
    total_timeout: int = 0
    """Calls whose time ran out, waiting or running."""
    avg_execution_time: float = 0.0
    """Mean seconds for which a slot was held."""


class ConcurrencyMetrics(_MetricsFields, frozen=True, kw_only=True):
    """One consistent view of the controller's counters.

    At any moment `total_acquired == total_released + active + zombies` and `total_enqueued ==
    total_granted + total_queue_timeout + total_cancelled + total_rejected_in_queue +
    queue_length`. Callers that bypass the limits appear only in `bypass_active`.
    """

    active: int = 0
    """Slots whose call is running and has not run out of time."""
    parked: int = 0
    """Running calls that lent their slot out while they wait for calls of their own."""
    zombies: int = 0
    """Slots of calls that timed out or were cancelled and whose work has not stopped yet."""
    bypass_active: int = 0
    """Running calls that the limits do not apply to."""
    total_released: int = 0
    total_enqueued: int = 0
    """Calls that had to wait."""
    total_dequeued: int = 0
    """Calls that no longer wait, for whatever reason."""
    total_granted: int = 0
    """Waiting calls that were given a slot."""
    total_queue_timeout: int = 0
    """Waiting calls whose queue timeout ran out."""
    total_cancelled: int = 0
    """Waiting calls that were cancelled."""
    total_rejected_in_queue: int = 0
    """Waiting calls that ended because the controller closed or their slot was not needed."""
    total_execution_time: float = 0.0
    """Seconds for which slots were held, in all."""
    overdue: int = 0
    """Slots held for longer than `slot_ttl` without a sign of life, zombies included."""
    max_concurrent_observed: int = 0
    max_queue_length_observed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The metrics as a mapping."""
        return msgspec.structs.asdict(self)
