"""Does what a controller counts fit together, whatever it is about to do?"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.slot import BYPASS, PARKED, ConcurrencySlot

__all__ = ["audit"]

Used = dict[Any, int]


def audit(controller: ToolConcurrencyController, before: Used | None) -> Used:
    """C26, C2, C14, C18: asserts the sums, and that nothing grows that is above its limit.

    Args:
        controller: What to look at.
        before: What the last look returned; None for the first, and after a change of the limits.

    Returns:
        The units in use in all, per bucket and per key.
    """
    m = controller.get_metrics()
    assert m.total_acquired == m.total_released + m.active + m.zombies, m
    assert m.total_dequeued == (
        m.total_granted + m.total_queue_timeout + m.total_cancelled + m.total_rejected_in_queue
    ), m
    assert m.total_enqueued == m.total_dequeued + m.queue_length, m
    assert min(value for value in m.to_dict().values() if value is not None) >= 0, m
    _same_when_counted_anew(controller)
    used, limits, heavy = _used_and_limits(controller)
    if before is None:
        return used
    for name, units in used.items():
        limit = limits[name]
        if limit is not None and units > max(limit, before.get(name, 0)):
            # A call that goes on may be heavier than a limit that was lowered meanwhile.
            assert heavy[name] == units, f"{units} units are in use of {name}, limit {limit}"
    return used


def _used_and_limits(controller: ToolConcurrencyController) -> tuple[Used, Used, Used]:
    layout = controller._layout
    used: Used = {"all": controller.get_metrics().current_concurrent}
    limits: dict[Any, Any] = {"all": controller.config.max_concurrent}
    for bucket in layout.buckets.values():
        used["bucket", bucket.name], limits["bucket", bucket.name] = bucket.used, bucket.limit
    for key in layout.keys.values():
        used["key", key.name], limits["key", key.name] = key.used, key.limit
    heavy: Used = Counter()
    for slot in _counting(controller):
        for name in _names(slot):
            heavy[name] = max(heavy[name], slot.weight)
    return used, limits, heavy


def _same_when_counted_anew(controller: ToolConcurrencyController) -> None:
    """What is in use is the sum over all slots, and each lane knows who knows it."""
    layout = controller._layout
    used: Counter[Any] = Counter()
    refs: Counter[Any] = Counter()
    waiting: Counter[Any] = Counter()
    for slot in _counting(controller):
        for name in _names(slot):
            used[name] += slot.weight
    for slot in controller._view.all_slots():
        refs[slot.lane] += slot.is_gated
    for lane in layout.lanes.values():
        for waiter in lane.waiting_calls():
            assert waiter.lane is lane, waiter
            refs[lane] += 1
            waiting[lane.bucket] += 1
            waiting.update(lane.keys)
    assert used["all"] == controller.get_metrics().current_concurrent
    for bucket in layout.buckets.values():
        assert bucket.used == used["bucket", bucket.name], bucket.name
        assert bucket.waiting == waiting[bucket], bucket.name
    for key in layout.keys.values():
        assert key.used == used["key", key.name], key.name
        assert key.waiting == waiting[key], key.name
    for lane in layout.lanes.values():
        assert lane.refs == refs[lane], lane.id
        assert lane.refs or not lane.keys, lane.id
    assert {slot.lane for slot in _counting(controller)} <= set(layout.lanes.values())
    _check_heads(controller)


def _check_heads(controller: ToolConcurrencyController) -> None:
    """No line stands for a call that has left, but those above a lane that waits alone."""
    layout, lone = controller._layout, controller._queue.lone
    behind: set[Any] = set() if lone is None else {lone, lone.above, lone.bucket}
    for line in layout.lines():
        if line.offered is not None and line not in behind:
            assert line.head is not None
            assert line.head.is_waiting, line


def _counting(controller: ToolConcurrencyController) -> list[ConcurrencySlot]:
    slots = controller._view.holders()
    return [slot for slot in slots if slot.state not in (BYPASS, PARKED)]


def _names(slot: ConcurrencySlot) -> list[Any]:
    keys = [("key", key.name) for key in slot.lane.keys]
    return ["all", ("bucket", slot.lane.bucket.name), *keys]
