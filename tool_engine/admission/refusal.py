"""Why is a call refused instead of made to wait, and what can be done about it?"""

from __future__ import annotations

from typing import Final

from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.waiting import Lane
from tool_engine.errors import (
    AdmissionError,
    ControllerClosedError,
    QueueFullError,
    RateLimitedError,
    SlotRejectedError,
)

__all__ = ["closed", "flooded", "full", "impossible", "no_room", "too_fast"]

_CLOSED: Final = {
    "closed": "the controller is closed and gives no more slots",
    "draining": "the controller is draining and takes no new calls; call resume() to go on",
}


def closed(because: str) -> AdmissionError:
    """The controller gives no slots to new calls: it is `closed` or `draining`."""
    return ControllerClosedError(_CLOSED[because])


def flooded(zombies: int) -> AdmissionError:
    """Too many slots are held by work that did not stop at its deadline."""
    return SlotRejectedError(
        f"{zombies} calls ended but their work still runs and holds their slots; let the tools "
        "react to cancellation, or raise max_zombies"
    )


def impossible(request: AdmissionRequest, lane: Lane, max_concurrent: int) -> AdmissionError | None:
    """The call is heavier than a limit, so that no wait would ever end."""
    limit = lane.bucket.limit
    if request.weight > max_concurrent:
        name, limit = "max_concurrent", max_concurrent
    elif limit is not None and request.weight > limit:
        name = f"the limit of bucket {lane.bucket.name!r}"
    else:
        return None
    return SlotRejectedError(
        f"a call of weight {request.weight} can never run: {name} is {limit}; "
        "lower the weight or raise the limit"
    )


def too_fast(lane: Lane, delay: float) -> AdmissionError:
    """The rate allows no call now, and the strategy is not to wait."""
    rate = lane.throttle.rate if lane.throttle else ""
    return RateLimitedError(
        f"the rate of {rate} in bucket {lane.bucket.name!r} allows no call for another "
        f"{delay:.2f} s; call less often, or use the strategy 'fifo' to wait",
        retry_after=delay,
    )


def no_room(lane: Lane, used: int, max_concurrent: int, wait: float | None) -> AdmissionError:
    """No slot is free, and the strategy is not to wait."""
    bucket = lane.bucket
    limit = max_concurrent if bucket.limit is None else bucket.limit
    return SlotRejectedError(
        f"no slot is free in bucket {bucket.name!r} ({bucket.used} of {limit} in use, "
        f"{used} of {max_concurrent} in all) and the strategy is 'reject'; try again later, "
        "raise the limit, or use the strategy 'fifo' to wait",
        retry_after=wait,
    )


def full(lane: Lane, waiting: int, queue_size: int, wait: float | None) -> AdmissionError:
    """As many calls wait as may."""
    return QueueFullError(
        f"the queue is full ({waiting} of {queue_size} waiting, {lane.bucket.waiting} of them for "
        f"bucket {lane.bucket.name!r}); try again later, raise queue_size, or raise the limits",
        retry_after=wait,
    )
