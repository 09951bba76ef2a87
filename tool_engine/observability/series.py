"""Under which Prometheus names does the controller report its figures?

A table per source, so that a figure which a later version adds is missing in one place only.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Series(NamedTuple):
    """One metric that is read when Prometheus asks."""

    field: str
    """The field that its value comes from."""
    name: str
    """Its name; that of a counter ends in `_total`."""
    help: str

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


CONTROLLER_SERIES: Final = (
    Series("current_concurrent", "tool_concurrent_count", "Slots in use, by weight."),
    Series("queue_length", "tool_queue_length", "Calls that wait for a slot."),
    Series("total_acquired", "tool_slots_acquired_total", "Slots given."),
    Series("total_released", "tool_slots_released_total", "Slots given back."),
    Series("total_rejected", "tool_slots_rejected_total", "Calls refused without waiting."),
    Series("total_timeout", "tool_slots_timeout_total", "Calls out of time, waiting or running."),
    Series("avg_execution_time", "tool_slot_held_avg_seconds", "Mean time a slot was held."),
    Series("total_execution_time", "tool_slot_held_seconds_total", "Time slots were held."),
    Series("active", "tool_slots_active", "Slots whose call runs in time."),
    Series("parked", "tool_slots_parked", "Slots lent out by calls that wait for their own."),
    Series("zombies", "tool_slots_zombie", "Slots whose work outlives its call."),
    Series("bypass_active", "tool_slots_bypass", "Running calls that limits do not apply to."),
    Series("overdue", "tool_slots_overdue", "Slots held for longer than they should be."),
    Series("total_enqueued", "tool_queue_enqueued_total", "Calls that had to wait."),
    Series("total_dequeued", "tool_queue_dequeued_total", "Calls that no longer wait."),
    Series("total_granted", "tool_queue_granted_total", "Waiting calls that got a slot."),
    Series("total_queue_timeout", "tool_queue_timeout_total", "Waiting calls out of time."),
    Series("total_cancelled", "tool_queue_cancelled_total", "Waiting calls that were cancelled."),
    Series(
        "total_rejected_in_queue", "tool_queue_rejected_total", "Waiting calls that were refused."
    ),
    Series("max_concurrent_observed", "tool_concurrent_count_max", "Most slots in use at once."),
    Series("max_queue_length_observed", "tool_queue_length_max", "Most calls waiting at once."),
)
"""By the fields of `ConcurrencyMetrics`."""

LIMIT_SERIES: Final = (
    Series("max_concurrent", "tool_concurrent_limit", "Slots in all."),
    Series("queue_size", "tool_queue_limit", "The most calls that may wait."),
)
"""By the fields of `ConcurrencyConfig`."""

BUCKET_SERIES: Final = (
    Series("current", "tool_bucket_concurrent_count", "Slots of the bucket in use."),
    Series("limit", "tool_bucket_concurrent_limit", "Slots of the bucket, where it is limited."),
    Series("queue", "tool_bucket_queue_length", "Calls that wait for the bucket."),
    Series("utilization", "tool_bucket_utilization_ratio", "Slots in use per slot there is."),
)
"""By the keys of `get_bucket_metrics()`; each has the label `bucket`."""

ENGINE_SERIES: Final = (
    Series("tools", "tool_catalog_tools", "Tools that are loaded."),
    Series("load_errors", "tool_catalog_load_errors", "Definitions that could not be loaded."),
)
"""Of the engine itself."""

UP_SERIES: Final = Series(
    "up", "tool_engine_up", "1: the engine could be read; 0: its event loop is blocked."
)
