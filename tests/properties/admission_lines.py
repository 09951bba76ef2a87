"""Who runs next, among all calls that there are? The order of admission over plain lists."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.properties.admission_calls import LIVE, Breaker, Call, Share
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import ToolRate

Name = tuple[Any, ...]
Barred = dict[Name, tuple[float, int, int]]
"""What those who wait bar, and for whom: those who stand behind this place."""
COMES_LAST = (-math.inf, 0, 0)


@dataclass
class Lines:
    """All calls that have not ended; who runs next is found by looking at all of them."""

    config: ConcurrencyConfig
    calls: list[Call] = field(default_factory=list)
    total: int = 0
    now: float = 0.0
    is_paused: bool = False
    closed: str | None = None
    paused_until: dict[str, float] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    superseded: list[int] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)
    starts: dict[Name, list[float]] = field(default_factory=dict)
    breakers: dict[Name, Breaker] = field(default_factory=dict)
    shares: dict[str | None, Share] = field(default_factory=dict)
    round: float = 0.0
    drains: list[bool] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    sequence: int = 0

    # What is there?

    def call(self, **fields: Any) -> Call:
        self.total += 1
        call = Call(self.total, **fields)
        if call.timeout is not None:
            # No two timers are due at the same moment, so that there is one right answer.
            call.timeout += 0.5 + call.number / 4096
        return call

    def in_state(self, *states: str) -> list[Call]:
        return [call for call in self.calls if call.state in states and not call.is_bypass]

    def waiting(self) -> list[Call]:
        """Everybody in line, who came first in the order of the strategy first."""
        return sorted(self.in_state("waiting", "resuming"), key=lambda call: call.line_place)

    def live(self) -> list[Call]:
        return [call for call in self.calls if call.state in LIVE]

    def holders(self) -> list[Call]:
        return self.in_state("active", "zombie")

    def used(self, bucket: str | None = None) -> int:
        return sum(call.weight for call in self.holders() if bucket in (None, call.bucket))

    def used_of(self, key: Name) -> int:
        return sum(call.weight for call in self.holders() if key in self.keys_of(call))

    def load(self, key: Name, call: Call) -> int:
        """Some policies count those in progress that have lent their slots, but no ancestors."""
        used = self.used_of(key)
        if key[0] and call.kind.minds_lent and call.state != "resuming":
            used += sum(each.weight for each in self.lent_by_others(key, call))
        return used

    def lent_by_others(self, key: Name, call: Call) -> list[Call]:
        lent = self.in_state("parked", "resuming")
        own = call.ancestors()
        return [each for each in lent if key in self.keys_of(each) and each not in own]

    def waiting_of(self, key: Name) -> int:
        return sum(key in self.keys_of(call) for call in self.in_state("waiting", "resuming"))

    # Which limits does a call meet?

    def keys_of(self, call: Call) -> list[Name]:
        keys: list[Name] = []
        if self.config.has_keys and (call.key is not None or self.config.strategy == "fair"):
            keys.append(("", call.key))
        if call.tool_key is not None:
            keys.append((call.tool_name, call.tool_key))
        return keys

    def lane_of(self, call: Call) -> Name:
        return (call.line, *self.keys_of(call))

    def limit_of(self, key: Name, call: Call) -> float:
        if key[0]:
            return call.kind.key_limit or math.inf
        limits = self.config.key_limits
        limit = None if limits is None or key[1] is None else limits.limit_of(key[1])
        return math.inf if limit is None else limit

    def fits(self, call: Call, used: int, limit: float) -> bool:
        """A call that goes on may be heavier than a limit that was lowered meanwhile."""
        return used + call.weight <= limit or (call.state == "resuming" and used == 0)

    def fits_in_all(self, call: Call) -> bool:
        return self.fits(call, self.used(), self.config.max_concurrent)

    def rates_of(self, call: Call) -> list[tuple[Name, ToolRate]]:
        own, shared = call.kind.rate(call.bucket), self.config.bucket_rates.get(call.bucket)
        rates = [] if own is None else [(("line", call.line), own)]
        return rates if shared is None else [*rates, (("bucket", call.bucket), shared)]

    def is_fast(self, name: Name, rate: ToolRate) -> bool:
        recent = [s for s in self.starts.get(name, []) if self.now - s < rate.period]
        return len(recent) >= rate.calls

    def breakers_of(self, call: Call) -> list[Breaker]:
        names: list[Name] = []
        if call.kind.breaker is not None:
            names.append(("tool", call.tool_name))
            self.breakers.setdefault(names[0], Breaker(call.kind.breaker))
        if call.bucket in self.config.breakers:
            names.append(("bucket", call.bucket))
        return [self.breakers[name] for name in names]

    def is_broken(self, call: Call) -> bool:
        return any(breaker.is_open(self.now) for breaker in self.breakers_of(call))

    def is_flooded(self) -> bool:
        most = self.config.max_zombies
        return most is not None and len(self.in_state("zombie")) >= most

    def is_pausing(self, bucket: str) -> bool:
        return self.now < self.paused_until.get(bucket, -math.inf)

    def is_delayed(self, call: Call) -> bool:
        """Whether a rate or a pause holds the call up."""
        if call.state == "resuming":
            return False
        is_fast = any(self.is_fast(name, rate) for name, rate in self.rates_of(call))
        return is_fast or self.is_pausing(call.bucket)

    def is_idle(self) -> bool:
        return not self.calls

    # Who runs next?

    def firsts(self) -> list[Call]:
        """The first call of each line, in the order in which they may go."""
        lanes: dict[Name, Call] = {}
        for call in self.waiting():
            lanes.setdefault(self.lane_of(call), call)
        return sorted(lanes.values(), key=self.stands_at)

    def stands_at(self, call: Call) -> tuple[float, int, int]:
        if self.config.strategy != "fair" or not call.is_new:
            return call.line_place
        if call.due is None:
            call.due = self.share_of(call).after(call.weight).round
        # A heavy call that the key saves up for is not put off by its light ones.
        turn = max(call.due, self.share_of(call).after(1).round)
        return (turn, call.line_place[1], 0)

    def key_held_up(self, call: Call, barred: Barred) -> Name | None:
        for key in self.keys_of(call):
            fits = self.fits(call, self.load(key, call), self.limit_of(key, call))
            if not fits or barred.get(key, call.line_place) < call.line_place:
                return key
        return None

    def full_keys(self) -> Barred:
        """Keys that are too full for a call; whoever came after it waits too."""
        barred: Barred = {}
        for call in sorted(self.firsts(), key=lambda each: each.line_place):
            if (key := self.key_held_up(call, barred)) is not None:
                barred.setdefault(key, call.line_place)
        return barred

    def held_up_by(self, call: Call, barred: Barred) -> Name | None:
        """What keeps the call from running; whoever needs it too comes after this call."""
        if (key := self.key_held_up(call, barred)) is not None:
            return key
        bucket: Name = ("bucket", call.bucket)
        own, line = call.kind.rate(call.bucket), ("line", call.line)
        is_delayed = call.state != "resuming"
        if line in barred or (is_delayed and own is not None and self.is_fast(line, own)):
            return line
        limit = self.config.bucket_limits.get(call.bucket, math.inf)
        if bucket in barred or not self.fits(call, self.used(call.bucket), limit):
            return bucket
        return bucket if self.is_delayed(call) else None

    def is_impossible(self, call: Call) -> bool:
        limits = [self.limit_of(key, call) for key in self.keys_of(call)]
        bucket = self.config.bucket_limits.get(call.bucket, math.inf)
        return call.weight > min(bucket, self.config.max_concurrent, *limits)

    def next_in_line(self) -> tuple[Call | None, Barred, bool]:
        """Who runs next; what those who wait bar; whether room is kept for one of them."""
        barred = self.full_keys()
        for call in self.firsts():
            if (held_up := self.held_up_by(call, barred)) is not None:
                barred.setdefault(held_up, COMES_LAST)
            elif (not self.is_paused or call.state == "resuming") and self.fits_in_all(call):
                return call, barred, False
            else:
                return None, barred, True
        return None, barred, False

    def may_run_at_once(self, call: Call) -> bool:
        if self.is_paused or self.closed or self.is_flooded() or self.is_broken(call):
            return False
        _, barred, is_room_kept = self.next_in_line()
        lane = self.lane_of(call)
        if is_room_kept or any(self.lane_of(waiter) == lane for waiter in self.waiting()):
            return False
        if any(key in barred for key in self.keys_of(call)):
            return False
        return self.fits_in_all(call) and self.held_up_by(call, barred) is None

    # Where does a call stand?

    def line_up(self, call: Call) -> None:
        """Finds the place of a call, which is the place of the first that led to it."""
        first = call
        while first.parent is not None:
            first = first.parent
        is_aging = self.config.strategy == "priority"
        key = first.asked + self.config.aging_interval * first.priority if is_aging else 0.0
        nested = 0 if first is call else call.sequence
        call.place = (key, first.sequence, nested)
        if call.state != "resuming":
            call.line_place = call.place

    def share_of(self, call: Call) -> Share:
        limits = self.config.key_limits
        share = self.shares.setdefault(call.key, Share())
        share.weight = 1.0 if limits is None else limits.weights.get(call.key or "", 1.0)
        return share

    def begin_turns(self, call: Call) -> None:
        """A key that nobody waited in saves nothing up: it starts in the present round."""
        if self.share_of(call).round < self.round and not self.waiting_of(("", call.key)):
            self.shares[call.key] = Share(self.round)

    def take_turn(self, call: Call) -> None:
        """Counts a call that waited and runs now."""
        turn = self.stands_at(call)[0]
        if turn < self.round:
            # It was held up past its turn, and what its key missed is not made up for.
            self.shares[call.key] = Share(self.round)
        else:
            self.shares[call.key] = self.share_of(call).after(call.weight)
        self.round = max(self.round, turn)

    def forget_shares(self) -> None:
        """Of keys that no call is left of."""
        keys = {key for call in self.calls for key in self.keys_of(call)}
        for name in [name for name in self.shares if ("", name) not in keys]:
            del self.shares[name]
