"""What holds a waiting call up, and behind which call does it wait?"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from tool_engine.admission.key import Key, name_key
from tool_engine.admission.lines import Bucket, Lane, Line
from tool_engine.admission.queue import Queue
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.admission.waiting import Waiter
from tool_engine.interfaces.admission_view import ANOTHER

GOES_ON: Final = "it goes on at once"
"""Nothing holds a call up that waits."""


class Pool(Protocol):
    """What calls wait for, as far as it says why."""

    queue: Queue
    used: int
    limit: int


class Reason(NamedTuple):
    """Why the first of a line waits, and with it all behind it."""

    first: Waiter
    text: str
    full: Key | Line | None = None
    """What has no room: a key, a bucket, or the controller's own line for all slots."""

    def describe_cause(self, waiter: Waiter) -> str:
        """Return what holds all of them up, as `waiter` may see it."""
        full = self.full
        if isinstance(full, Key) and not full.name[0] and full not in waiter.lane.keys:
            # Whose key that is, is no business of the caller of this one.
            return self.text.replace(name_key(full.name), "the key of that call")
        return self.text

    def text_for(self, waiter: Waiter) -> str:
        """Return the reason as `waiter` sees it."""
        first, text = self.first, self.describe_cause(waiter)
        if first is waiter:
            return text
        where = "comes first"
        if first.lane is waiter.lane:
            where = "is the first of its line"
        return f"{name_of(first) or ANOTHER} {where}, and {text}"

    def name_first(self, waiter: Waiter) -> str | None:
        """Return the id of the call that `text_for` names; None: it names none."""
        return None if self.first is waiter else name_of(self.first)


def name_of(call: Waiter | ConcurrencySlot) -> str | None:
    """The id of the call that waits or holds a slot; None where the caller gave none."""
    return call.call_id or call.request.call_id


def find_reason(waiter: Waiter, pool: Pool, now: float, *, is_paused: bool) -> Reason:
    """Follow the line of a call up to where its first call cannot go on.

    Args:
        waiter: Who waits.
        pool: What it waits for.
        now: The time on the controller's clock.
        is_paused: No new call may start at all.
    """
    if is_paused and waiter.resumes is None:
        return Reason(waiter, "the controller is paused")
    pool.queue.settle()
    root, used, limit = pool.queue.root, pool.used, pool.limit
    line: Line = waiter.lane
    first = waiter
    while line is not root:
        first = _first_of(line, first)
        if not line.lets(first, now):
            return _reason_in(line, first, now)
        line = line.above or root
    first = _first_of(root, first)
    if used + first.weight > limit:
        cause = f"all slots are in use ({used} of {limit})"
        if used < limit:
            cause = f"a call of weight {first.weight} finds no room ({used} of {limit} in use)"
        return Reason(first, cause, root)
    return Reason(first, GOES_ON)


def _first_of(line: Line, otherwise: Waiter) -> Waiter:
    best = line.best()
    return otherwise if best is None else best[1]


def _reason_in(line: Line, first: Waiter, now: float) -> Reason:
    if isinstance(line, Lane):
        return _reason_of_keys(line, first)
    bucket: Bucket = first.lane.bucket
    delay = line.delay(first, now)
    if delay > 0:
        cause = f"the rate of tool {first.request.tool_name!r}"
        if line is bucket:
            pause = 0.0 if bucket.paused_until is None else bucket.paused_until - now
            cause = f"{'the pause' if pause >= delay else 'the rate'} of bucket {bucket.name!r}"
        return Reason(first, f"{cause} lets the next call through in {delay:.2f} s")
    if bucket.has_room(first.weight):
        return Reason(first, bucket.lease.describe_lack(first), bucket)
    text = _describe_full(f"bucket {bucket.name!r}", bucket.used, bucket.limit, first.weight)
    if bucket.adaptive is not None:
        text = f"{text} ({bucket.adaptive})"
    return Reason(first, text, bucket)


def _reason_of_keys(lane: Lane, first: Waiter) -> Reason:
    # Its own line first, then those of the same key that it must not overtake.
    others = [each for key in lane.keys for each in key.blocked if each is not lane]
    for each in (lane, *others):
        head = _first_of(each, first)
        for key in each.keys:
            if key.used + head.weight > key.most:
                if key.resource is not None:
                    leases = lane.bucket.lease.desk
                    return Reason(head, leases.describe_key(key), key)
                return Reason(
                    head, _describe_full(name_key(key.name), key.used, key.limit, head.weight), key
                )
    return Reason(first, f"a call of {name_key(lane.keys[-1].name)} has lent its slot out")


def _describe_full(name: str, used: int, limit: Any, weight: int) -> str:
    if used >= limit:
        return f"{name} is full ({used} of {limit})"
    return f"{name} has no room for weight {weight} ({used} of {limit} in use)"
