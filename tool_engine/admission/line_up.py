"""Which calls stand at the front, as far as nothing of their own holds them up?

A line stands in the one above it while its first call could go. Whoever holds a call up brings its
line back: a slot that is given back, a key in which there is room again, a timer at the end of a
rate's or a pause's delay.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from tool_engine.admission.fairness import turn_in_line
from tool_engine.admission.key import NOBODY, Key
from tool_engine.admission.layout import Layout
from tool_engine.admission.lines import Bucket, Lane, Line
from tool_engine.admission.slot import Order
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig

__all__ = ["LineUp"]


class LineUp(ABC):
    """The lines of those who wait, each in its place."""

    __slots__ = ("_clock", "_lanes", "_layout", "_root", "_stirred")

    def __init__(self, config: ConcurrencyConfig, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._layout = Layout(config)
        self._lanes = self._layout.lanes
        self._root = self._layout.root
        self._stirred: list[Key] = []
        """Keys in which the first of those that are held up may have changed."""

    @abstractmethod
    def _hand_over(self, lane: Lane) -> None:
        """Gives out all slots that can be given, after something changed in `lane`."""

    def _first_in_line(self) -> tuple[Order, Waiter] | None:
        while self._stirred:
            self._refresh_key(self._stirred.pop())
        return self._root.best()

    def _is_ready(self, lane: Lane, head: Waiter, now: float) -> bool:
        line: Line = lane
        while line.above is not None:
            if not line.lets(head, now):
                return False
            line = line.above
        return lane.offered == self._turn(lane, head)

    def _turn(self, lane: Lane, head: Waiter) -> Order:
        """The order under which a lane stands in line for its first waiter."""
        if lane.share is None or not head.is_new:
            return head.order
        return (turn_in_line(lane.share, head), head.order[1], 0)

    def _refresh(self, line: Line) -> None:
        """Brings the first call of a line up, as far as nothing holds it up."""
        now = self._clock()
        while (above := line.above) is not None:
            stood, best = line.offered, line.best()
            if best is None:
                line.withdraw()
                for key in line.keys:
                    key.drop(line)
            else:
                order, head = best
                turn = self._turn(head.lane, head)
                if order != turn and not isinstance(line, Lane):
                    # What its key took elsewhere has put it off since: no room is kept for it.
                    line = head.lane
                    continue
                order = turn
                if line.lets(head, now):
                    line.offer(order, head)
                else:
                    line.withdraw()
                    self._hold_up(line, head, now)
            if stood is not None and stood != line.offered:
                self._stirred += [key for key in line.keys if key.held_up]
            line = above

    def _hold_up(self, line: Line, head: Waiter, now: float) -> None:
        """Notes who brings a line back whose first call cannot go yet."""
        if isinstance(line, Lane):
            full = (key for key in line.keys if not key.lets(head.weight, head.order))
            is_selective = head.weight > 1 or head.request.minds_lent
            turn = self._turn(line, head)
            key = next(full, line.keys[-1])
            key.hold_up(line, head.order, turn, is_selective=is_selective)
            return
        delay = line.delay(head, now)
        if delay <= 0:
            return  # a slot that is given back brings its bucket back
        loop = asyncio.get_running_loop()
        if line.timer is not None:
            if line.timer.when() <= loop.time() + delay:
                return
            line.timer.cancel()
        line.timer = loop.call_later(delay, self._end_delay, line)

    def _refresh_key(self, key: Key) -> None:
        """Brings up what there is room for among the lanes that a key held up."""
        if key.used >= key.most:
            return
        if key.selective:
            for lane in key.let_up():
                self._refresh(lane)
            return
        key.first_held_up = NOBODY
        for above in key.lines():
            self._bring_up(key, above)

    def _bring_up(self, key: Key, above: Line) -> None:
        """Lets the best lane of those that a key held up stand in the line above."""
        while (entry := key.best_below(above)) is not None:
            turn, lane = entry
            best = lane.best()
            if best is None:
                key.drop(lane)
            elif (now := self._turn(lane, best[1])) > turn:
                key.keep(lane, now)
            else:
                key.drop(lane)
                self._refresh(lane)
                if lane.offered is not None or lane in key.held_up:
                    return

    def _end_delay(self, line: Line) -> None:
        line.timer = None
        if isinstance(line, Bucket):
            self._end_pause(line)
        for each in line.kin:
            self._refresh(each)
        best = line.best()
        if best is not None:
            self._hand_over(best[1].lane)

    def _end_pause(self, bucket: Bucket, *, at_once: bool = False) -> None:
        """Opens a bucket whose pause is over."""
        until = bucket.paused_until
        if until is not None and (at_once or until <= self._clock()):
            bucket.paused_until = None
            bucket.set_limit(bucket.limit)
