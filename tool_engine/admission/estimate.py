"""When may it be worth for a call that is refused to come again?"""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

from tool_engine.admission.lines import Lane


def estimate_wait(
    lane: Lane, waiting: int, limit: int, mean: float | None, now: float, *, more: int
) -> float | None:
    """Return the seconds until a call may have a slot; None: nothing is known of that.

    Of all that it has to pass, what takes longest says when: one limit in all, of its bucket or of
    a key, with those that wait for room in it, or a rate.

    Args:
        lane: Where the call waits, or would.
        waiting: How many wait in all.
        limit: The limit in all.
        mean: The seconds for which calls held their slots on average, if any did.
        now: The time on the controller's clock.
        more: 1 for a call that would join those that wait; 0 for one of them.
    """
    bucket = lane.bucket
    served = fsum(bucket.served) / len(bucket.served) if bucket.served else mean
    lines = [(waiting, limit, mean), (bucket.waiting, bucket.find_usable(), served)]
    lines += [(key.waiting, key.find_usable(), served) for key in lane.keys]
    waits = [
        seconds * (count + more) / most
        for count, most, seconds in lines
        if most is not None and seconds is not None
    ]
    waits += _wait_for_rates(lane, now, more)
    pause = 0.0 if bucket.paused_until is None else max(0.0, bucket.paused_until - now)
    return pause + max(waits) if waits else pause or None


def _wait_for_rates(lane: Lane, now: float, more: int) -> Iterator[float]:
    above = lane.above
    of_tool = None if above is None or above is lane.bucket else above.throttle
    for throttle in lane.throttles:
        ahead = (lane if throttle is of_tool else lane.bucket).waiting + more - 1
        wait = throttle.delay(now) + ahead // throttle.rate.calls * throttle.rate.period
        if wait > 0:
            yield wait
