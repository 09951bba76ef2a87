"""Who is next, of the calls that wait?

A line stands in the one above it while its first call could go. What holds a call up brings its
line back: a slot that is given back, a key in which there is room again, a timer at the end of a
rate's or a pause's delay. So after every change no waiter is left that could run, and the first of
the controller's own line is never overtaken: a heavy call cannot be starved by light ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from tool_engine.admission.fairness import count_served, join_line, turn_in_line
from tool_engine.admission.key import COMES_LAST, Key
from tool_engine.admission.layout import Layout
from tool_engine.admission.lines import Bucket, Lane, Line
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ACTIVE, PARKED, ZOMBIE, ConcurrencySlot, Order
from tool_engine.admission.waiting import Arrivals, Waiter
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ToolEngineError
from tool_engine.shared_timer import SharedTimer

_is_waiting: Final[Callable[[Waiter], bool]] = attrgetter("is_waiting")


class Queue:
    """The calls that wait, each in its line; gives no slots itself.

    Args:
        layout: The lines that there are.
        clock: Seconds, monotonic.
        wake_later: Has `end_delay` be called for a line, that many seconds from now.
        expire: Called for each waiter whose time to wait is over.
    """

    __slots__ = (
        "_changed_keys",
        "_clock",
        "_deadlines",
        "_expire",
        "_wake_later",
        "enqueued",
        "layout",
        "lone",
        "loop",
        "queued",
        "root",
        "round",
        "waiting",
    )

    def __init__(
        self,
        layout: Layout,
        clock: Callable[[], float],
        wake_later: Callable[[Line, float], None],
        expire: Callable[[Waiter], None],
    ) -> None:
        self.layout = layout
        self.root = layout.root
        self._clock = clock
        self._wake_later = wake_later
        self._expire = expire
        self._deadlines: SharedTimer[Waiter] | None = None
        """Of those who wait on the loop."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self._changed_keys: list[Key] = []
        """Keys in which the first of those that are blocked may be another one."""
        self.lone: Lane | None = None
        """A lane of which it is not up to date where it stands in the lines above: while only its
        calls wait, nothing asks for it, and to keep it costs more than to give a slot."""
        self.waiting = 0
        self.queued = 0
        """Those that count against `queue_size`: calls made by running calls do not."""
        self.enqueued = 0
        """How many have ever waited."""
        self.round = 0.0
        """Under `fair`: that of the call that was served last."""

    # Who waits?

    def join(self, waiter: Waiter) -> bool:
        """Put a waiter in its line; return whether it may be the next one, or its bucket."""
        if (loop := waiter.future.get_loop()) is not self.loop:
            self._use_loop(loop)
        lane: Lane = waiter.lane
        if lane.share is not None:
            join_line(lane.share, self.round)
        lane.push(waiter)
        self.enqueued += 1
        self.waiting += 1
        if waiter.is_queued:
            self.queued += 1
        best = lane.best()
        # Its place may be before those of others, even if its turn is not.
        is_moved = lane.bucket.places is not None
        return is_moved or (best is not None and best[1] is waiter)

    def join_behind(self, waiter: Waiter, lane: Lane, due: float) -> None:
        """Do the same for a lane without keys in which others of the loop wait before it.

        It expires when it is `due` on the loop's clock, as those do.
        """
        waiters, order = lane.waiters, waiter.order
        if waiters.entries and waiters.entries[-1][0] < order:
            waiters.entries.append((order, waiter))
        else:
            waiters.add(waiter)
        lane.refs += 1
        lane.waiting += 1
        lane.bucket.waiting += 1
        self.enqueued += 1
        self.waiting += 1
        self.queued += 1
        if self._deadlines is None:
            self.set_deadline(waiter, waiter.timeout)
        else:
            self._deadlines.add(due, waiter)

    def set_deadline(self, waiter: Waiter, timeout: float, now: float | None = None) -> None:
        """Have a waiter expire in that many seconds from `now` on the loop's clock."""
        deadlines = self._deadlines
        if deadlines is None:
            loop = waiter.future.get_loop()
            deadlines = self._deadlines = SharedTimer(loop, _is_waiting, self._expire)
        waiter.timeout = timeout
        deadlines.add((deadlines.loop.time() if now is None else now) + timeout, waiter)

    def leave(self, waiter: Waiter) -> None:
        """Take a waiter out of its line, whatever became of it."""
        lane: Lane = waiter.lane
        lane.forget(waiter)
        if lane.keys and not lane.refs:
            self.layout.let_go(lane)
        self.waiting -= 1
        if not self.waiting and self._deadlines is not None:
            self._deadlines.stop()
        if waiter.is_queued:
            self.queued -= 1

    def leave_alone(self, waiter: Waiter, lane: Lane) -> None:
        """Do the same for the first of the only lane where calls wait, which has no keys."""
        entries = lane.waiters.entries
        if entries and entries[0][1] is waiter:
            entries.popleft()
        else:
            lane.waiters.drop(waiter)
        waiter.is_waiting = False
        lane.refs -= 1
        lane.bucket.waiting -= 1
        self.waiting = lane.waiting = waiting = lane.waiting - 1
        if not waiting and self._deadlines is not None:
            self._deadlines.stop()
        if waiter.is_queued:
            self.queued -= 1
        else:
            lane.bucket.aside -= 1

    def mark_queued(self, waiter: Waiter, *, is_queued: bool) -> None:
        """Have a call that waits count against the bounds on waiting, or not."""
        waiter.is_queued, count = is_queued, 1 if is_queued else -1
        self.queued += count
        waiter.lane.set_aside(-count)

    def serve(self, waiter: Waiter) -> None:
        """Let the key of a waiter that has its turn pay for it, under `fair`."""
        share = waiter.lane.share
        if share is not None and waiter.is_new:
            self.round = count_served(share, waiter, self.round)

    def waiters(self) -> Iterator[Waiter]:
        """Yield all that wait, in no order."""
        for lane in self.layout.lanes.values():
            for _, waiter in lane.waiters:
                if waiter.is_waiting:
                    yield waiter

    def _use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.waiting:
            raise ToolEngineError(
                "calls of another event loop wait in this controller; use controller.bridge() "
                "to share it between event loops and threads"
            )
        self.loop, self._deadlines = loop, None
        for line in self.layout.lines():
            line.timer = None

    # Who is first?

    def next(self, used: int, limit: int, now: float, *, is_paused: bool) -> Waiter | None:
        """Return the call that may run now, which has to be taken out then; None: there is none.

        Args:
            used: How many units of the limit in all are in use.
            limit: That limit.
            now: The time on the controller's clock.
            is_paused: Whether only calls may go on that have run before.
        """
        while (best := self.find_first()) is not None:
            head = best[1]
            if used >= limit or (is_paused and head.resumes is None):
                return None
            if not self._is_ready(head.lane, head, now):
                # No room is kept for a head that could not use it: something of its own holds it
                # up that came to be since it was put there. The next one is asked.
                self.refresh(head.lane, now)
            elif used + head.weight > limit and (used or head.resumes is None):
                # Room is kept for the first in line: were light calls let past it, they would
                # starve it.
                return None
            else:
                return head
        return None

    def next_alone(self, lane: Lane, used: int, limit: int) -> Waiter | None:
        """Return what `next` would, where only calls of `lane` wait and just limits hold them up.

        The lines above are asked when another lane comes: see `settle`.
        """
        waiters, bucket = lane.waiters, lane.bucket
        entries = waiters.entries
        head = entries[0][1] if entries and not waiters.early else None
        if head is None or not head.is_waiting:
            # Others may go before it, or it has given up.
            if (best := waiters.first()) is None:
                self.settle()
                if lane.offered is not None:
                    # While others waited, too, it stood above for a call that has left.
                    self.refresh(lane)
                return None
            head = best[1]
        if self.lone is not lane:
            self.settle()
            self.lone = lane
        if used + head.weight > limit or bucket.used + head.weight > bucket.most:
            return None
        return head

    def keeps_room(self, bucket: Bucket) -> bool:
        """Return whether a call waits for which what is free in all, or in a bucket, is kept."""
        self.settle()
        return bool(self.root.entries or bucket.entries)

    def settle(self) -> None:
        """Let a lane whose calls waited alone stand in the lines above where it has to."""
        lane, self.lone = self.lone, None
        if lane is not None:
            self.refresh(lane)

    def find_first(self) -> tuple[Order, Waiter] | None:
        """Return the first call that no line below the controller's own holds up."""
        if self.lone is not None:
            self.settle()
        while self._changed_keys:
            self._refresh_key(self._changed_keys.pop())
        return self.root.best()

    def _is_ready(self, lane: Lane, head: Waiter, now: float) -> bool:
        line: Line = lane
        while line.above is not None:
            if not line.lets(head, now):
                return False
            line = line.above
        turn = head.order if lane.share is None else self._find_turn(lane, head)
        return lane.offered == turn

    def _find_turn(self, lane: Lane, head: Waiter) -> Order:
        """Return the order under which a lane stands in line for its first waiter."""
        if lane.share is None or not head.is_new:
            return head.order
        return (turn_in_line(lane.share, head), head.order[1], 0)

    # What has changed?

    def refresh_after(self, lane: Lane, now: float) -> None:
        """Look again at all that a change in `lane` may let go: its keys, and its own line."""
        for key in lane.keys:
            if key.blocked:
                self._refresh_key(key)
        self.refresh(lane, now)

    def refresh_all(self) -> None:
        """Look again at everything."""
        for key in list(self.layout.keys.values()):
            for lane in key.unblock_all():
                self.refresh(lane)
        for line in self.layout.lines():
            self.refresh(line)

    def refresh(self, line: Line, now: float | None = None) -> None:
        """Let the first call of a line stand in the lines above, as far as nothing holds it up.

        `now`, on the controller's clock, saves a caller that knows it another look.
        """
        if self.lone is not None:
            self.settle()
        now = self._clock() if now is None else now
        while (above := line.above) is not None:
            stood, best = line.offered, line.best()
            if best is None:
                if stood is None and not line.keys:
                    line = above
                    continue
                line.withdraw()
                for key in line.keys:
                    key.unblock(line)
            else:
                order, head = best
                turn = order if head.lane.share is None else self._find_turn(head.lane, head)
                if order != turn and not isinstance(line, Lane):
                    # What its key took elsewhere has put it off since: no room is kept for it.
                    line = head.lane
                    continue
                order = turn
                if line.lets(head, now):
                    line.offer(order, head)
                else:
                    # A line that cannot go must not stand above: it would hold up all the others.
                    line.withdraw()
                    self._note_blocker(line, head, now)
            if line.keys and stood is not None and stood != line.offered:
                # It kept others of its keys back; now one of those may be the first.
                self._changed_keys += [key for key in line.keys if key.blocked]
            line = above

    def end_delay(self, line: Line) -> Lane | None:
        """Look again at a line whose delay is over; return the lane that may go now."""
        line.timer = None
        if isinstance(line, Bucket):
            line.end_pause(self._clock())
        for each in line.kin:
            self.refresh(each)
        best = line.best()
        return None if best is None else best[1].lane

    def _note_blocker(self, line: Line, head: Waiter, now: float) -> None:
        """Note what brings a line back whose first call cannot go yet."""
        if isinstance(line, Lane):
            full = (key for key in line.keys if not key.lets(head.weight, head.order))
            is_selective = head.weight > 1 or head.request.minds_lent
            turn = self._find_turn(line, head)
            key = next(full, line.keys[-1])
            key.block(line, head.order, turn, is_selective=is_selective)
            if key.resource is not None and head.lane.bucket.lease is not None:
                head.lane.bucket.lease.note_lane(line)
            return
        delay = line.delay(head, now)
        if delay > 0:  # else a slot that is given back brings its bucket back
            self._wake_later(line, delay)
        elif isinstance(line, Bucket) and line.lease is not None:
            line.lease.note_blocked()
        elif (lease := head.lane.bucket.lease) is not None and line is not self.root:
            lease.note_lane(head.lane)

    def _refresh_key(self, key: Key) -> None:
        """Let go what there is room for among the lanes that a key blocked."""
        if key.used >= key.most:
            return
        if key.selective:
            # Heavy calls wait: a light one must not pass them, so all are asked in their order.
            for lane in key.unblock_all():
                self.refresh(lane)
            return
        key.first_blocked = COMES_LAST
        for above in key.lines():
            self._promote_lane(key, above)

    def _promote_lane(self, key: Key, above: Line) -> None:
        """Let the best lane of those that a key blocked stand in the line above.

        The others come after it there anyway: so thousands that wait for one key cost no more than
        a few.
        """
        while (entry := key.best_below(above)) is not None:
            turn, lane = entry
            best = lane.best()
            if best is None:
                key.unblock(lane)
            elif (now := self._find_turn(lane, best[1])) > turn:
                key.note_turn(lane, now)
            else:
                key.unblock(lane)
                self.refresh(lane)
                if lane.offered is not None or lane in key.blocked:
                    return

    # What if the rules change?

    def regroup(
        self,
        config: ConcurrencyConfig,
        slots: Iterable[ConcurrencySlot],
        rank: Callable[[float, AdmissionRequest], float],
    ) -> list[Waiter]:
        """Sort all slots and waiters by the rules of a new configuration; return the waiters.

        Args:
            config: The configuration, which the layout has already.
            slots: All that are held or lent.
            rank: What the strategy puts before the arrival, of a request and when it was made.
        """
        lanes, self.lone = self.layout.lanes, None
        waiters = [each for lane in list(lanes.values()) for each in lane.waiting_calls()]
        for line in (self.root, *self.layout.lines()):
            line.withdraw()
            # A waiter keeps its order in another lane: what the old one left would be its double.
            line.entries.clear()
        for waiter in waiters:
            waiter.lane.forget(waiter)
        for lane in lanes.values():
            lane.waiters = Arrivals()
        # The slots are in a set: lanes must not be made in an order that is chance.
        for slot in sorted(slots, key=lambda each: (each.acquired_at, str(each.lane.id))):
            slot.key = rank(slot.acquired_at - slot.queue_wait, slot.request)
            slot.request = slot.request.under(config)
            self._move_slot(slot)
        for waiter in waiters:
            waiter.is_waiting, waiter.due, old = True, None, waiter.lane
            waiter.holder = None
            if waiter.resumes is not None:
                waiter.lane = waiter.resumes.lane
            else:
                waiter.request = waiter.request.under(config)
                waiter.lane = self.layout.open(waiter.request)
                _, arrival, number = waiter.order
                if waiter.lane.bucket.places is None:  # then none goes before those that came first
                    arrival, number = abs(arrival), abs(number)
                waiter.order = (rank(waiter.enqueued_at, waiter.request), arrival, number)
            if waiter.lane.share is not None:
                join_line(waiter.lane.share, self.round)
            waiter.lane.push(waiter)
            if old is not waiter.lane:
                self.layout.let_go(old)
        return waiters

    def _move_slot(self, slot: ConcurrencySlot) -> None:
        """Count a slot that is held against the keys of a new configuration."""
        old, new = slot.lane, self.layout.open(slot.request)
        if new is old:
            return
        if slot.state in (ACTIVE, ZOMBIE):
            old.uncount_keys(slot)
            new.count_keys(slot)
        elif slot.state is PARKED:
            old.lent.discard(slot)
            new.lent.add(slot)
        self.layout.uncount(slot)
        slot.lane, slot.is_gated = new, True
        new.refs += 1
