"""Which calls give way to a new one whose key is busy?"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tool_engine.admission.lines import Lane
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.waiting import Waiter
from tool_engine.model.settings.concurrency import CollisionPolicy


def count_excess(request: AdmissionRequest, lane: Lane) -> int:
    """Return how many units too many its key would have, with the call and those that wait."""
    if request.collision is CollisionPolicy.QUEUE or request.tool_key is None:
        return 0
    excess = lane.load(request) + request.weight - (lane.keys[-1].limit or sys.maxsize)
    return excess + sum(each.weight for each in _find_waiting(lane))


def is_refused(request: AdmissionRequest) -> bool:
    """Return whether the policy of the tool refuses a call whose key is busy."""
    return request.collision in (CollisionPolicy.REJECT, CollisionPolicy.CANCEL_NEWEST)


def give_way(request: AdmissionRequest, lane: Lane, excess: int) -> Iterator[Waiter]:
    """End the calls in progress that have to, and yield waiters to be refused, the oldest first.

    What a waiter was in the way of may go when it has left, so each is looked at when its turn
    comes.
    """
    waiting = _find_waiting(lane)
    if request.collision is CollisionPolicy.CANCEL_IN_PROGRESS:
        excess = _supersede_oldest(request, lane, excess)
    for waiter in sorted(waiting, key=lambda each: (each.enqueued_at, each.order)):
        # The one before may have let it go in the meantime.
        if excess > 0 and waiter.is_waiting:
            excess -= waiter.weight
            yield waiter


def _find_waiting(lane: Lane) -> list[Waiter]:
    own = lane.keys[-1]
    return [each for line in own.lanes for each in line.waiting_calls() if not each.resumes]


def _supersede_oldest(request: AdmissionRequest, lane: Lane, excess: int) -> int:
    """End the oldest calls in progress until there is room; return how much is still missing."""
    holders = [*lane.keys[-1].holders, *lane.lent_by_others(request)]
    for slot in sorted(holders, key=lambda each: (each.acquired_at, each.arrival)):
        if excess > 0:
            excess -= slot.weight
            if slot.on_superseded is not None and not slot.is_overdue:
                slot.on_superseded()
    return excess
