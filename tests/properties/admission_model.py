"""What should the controller do? The rules of admission over plain lists, slow and obvious."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tool_engine.config import ConcurrencyConfig
from tool_engine.model.tool import ToolRate

RATE = ToolRate(2, 8.0)
LIVE = ("active", "parked", "resuming", "zombie")


@dataclass(eq=False)
class Call:
    """One call, from asking to its end."""

    number: int
    bucket: str
    weight: int
    priority: int
    is_rated: bool
    timeout: float | None
    is_bypass: bool
    parent: Call | None
    state: str = "new"
    place: tuple[float, int, int] = (0.0, 0, 0)
    line_place: tuple[float, int, int] = (0.0, 0, 0)
    deadline: float = math.inf
    since: float = 0.0
    nested: int = 0
    is_overdue: bool = False

    @property
    def lane(self) -> str:
        return f"{self.bucket}-rated" if self.is_rated else self.bucket


@dataclass
class Model:
    """All calls there ever were; who runs next is found by looking at all of them."""

    config: ConcurrencyConfig
    calls: list[Call] = field(default_factory=list)
    now: float = 0.0
    is_paused: bool = False
    closed: str | None = None
    started: list[int] = field(default_factory=list)
    errors: dict[int, tuple[str, ...]] = field(default_factory=dict)
    starts: dict[str, list[float]] = field(default_factory=dict)
    drains: list[bool] = field(default_factory=list)
    counted: dict[str, float] = field(default_factory=dict)
    sequence: int = 0

    def call(self, **fields: object) -> Call:
        call = Call(len(self.calls), **fields)  # type: ignore[arg-type]
        if call.timeout is not None:
            # No two timers are due at the same moment, so that there is one right answer.
            call.timeout += 0.5 + call.number / 1024
        return call

    def waiting(self) -> list[Call]:
        """Everybody in line, the first one first."""
        waiting = [call for call in self.calls if call.state in ("waiting", "resuming")]
        return sorted(waiting, key=lambda call: call.line_place)

    def live(self) -> list[Call]:
        return [call for call in self.calls if call.state in LIVE]

    def in_state(self, *states: str) -> list[Call]:
        return [c for c in self.calls if c.state in states and not c.is_bypass]

    def used(self, bucket: str | None = None) -> int:
        holders = self.in_state("active", "zombie")
        return sum(call.weight for call in holders if bucket in (None, call.bucket))

    def bucket_has_room(self, call: Call) -> bool:
        limit = self.config.bucket_limits.get(call.bucket)
        return limit is None or self.used(call.bucket) + call.weight <= limit

    def has_room(self, call: Call) -> bool:
        fits = self.used() + call.weight <= self.config.max_concurrent
        return fits and self.bucket_has_room(call)

    def is_throttled(self, call: Call) -> bool:
        if not call.is_rated or call.state == "resuming":
            return False
        recent = [s for s in self.starts.get(call.lane, []) if self.now - s < RATE.period]
        return len(recent) >= RATE.calls

    def is_flooded(self) -> bool:
        most = self.config.max_zombies
        return most is not None and len(self.in_state("zombie")) >= most

    def next_in_line(self) -> tuple[Call | None, set[str], bool]:
        """Who runs next; which buckets and lanes have waiters; whether room is kept for one."""
        barred: set[str] = set()
        for call in self.waiting():
            if self.is_paused and call.state != "resuming":
                return None, barred, True
            if f"bucket {call.bucket}" in barred or call.lane in barred:
                continue
            if not self.bucket_has_room(call):
                barred.add(f"bucket {call.bucket}")
            elif self.is_throttled(call):
                barred.add(call.lane)
            elif not self.has_room(call):
                return None, barred, True
            else:
                return call, barred, False
        return None, barred, False

    def may_run_at_once(self, call: Call) -> bool:
        if self.is_paused or self.closed or self.is_flooded():
            return False
        _, barred, is_room_kept = self.next_in_line()
        has_company = any(waiter.lane == call.lane for waiter in self.waiting())
        is_barred = has_company or is_room_kept or f"bucket {call.bucket}" in barred
        return self.has_room(call) and not is_barred and not self.is_throttled(call)

    def refusal(self, call: Call) -> str | None:
        limit = self.config.bucket_limits.get(call.bucket, math.inf)
        if call.weight > min(limit, self.config.max_concurrent):
            return "SlotRejectedError"
        if self.closed == "closed" or (self.closed and call.parent is None):
            return "ControllerClosedError"
        if self.is_flooded():
            return "SlotRejectedError"
        if call.parent is not None:
            return None
        if self.config.strategy == "reject":
            return "RateLimitedError" if self.is_throttled(call) else "SlotRejectedError"
        queued = [c for c in self.calls if c.state == "waiting" and c.parent is None]
        return "QueueFullError" if len(queued) >= self.config.queue_size else None

    def submit(self, call: Call) -> None:
        self.calls.append(call)
        self.sequence += 1
        is_aging = self.config.strategy == "priority"
        key = self.now + self.config.aging_interval * call.priority if is_aging else 0.0
        call.place = (key, self.sequence, 0)
        if call.parent is not None:
            call.place = (*call.parent.place[:2], self.sequence)
        is_open = self.closed is None or (self.closed == "draining" and call.parent is not None)
        if call.is_bypass and is_open:
            call.state = "active"
            self.started.append(call.number)
        elif self.may_run_at_once(call):
            self.take(call)
        elif refusal := self.refusal(call):
            call.state = "ended"
            self.errors[call.number] = (refusal,)
            self.count("total_rejected")
        else:
            call.line_place = call.place
            call.deadline = self.now + (call.timeout or math.inf)
            self.join(call, "waiting")

    def join(self, call: Call, state: str) -> None:
        call.state = state
        self.count("total_enqueued")
        most = self.counted.get("max_queue_length_observed", 0)
        self.counted["max_queue_length_observed"] = max(most, len(self.waiting()))
        self.hand_out()

    def hand_out(self) -> None:
        while (call := self.next_in_line()[0]) is not None:
            self.count("total_granted")
            self.take(call)
        self.drains = [done or self.is_idle() for done in self.drains]

    def take(self, call: Call) -> None:
        if call.state != "resuming":
            self.started.append(call.number)
            if call.is_rated:
                self.starts.setdefault(call.lane, []).append(self.now)
        call.state = "zombie" if call.is_overdue else "active"
        call.since = self.now
        self.count("total_acquired")
        most = self.counted.get("max_concurrent_observed", 0)
        self.counted["max_concurrent_observed"] = max(most, self.used())

    def give(self, call: Call, state: str) -> None:
        if call.state in ("active", "zombie") and not call.is_bypass:
            self.count("total_released")
            self.count("total_execution_time", self.now - call.since)
        elif call.state == "resuming":
            self.count("total_rejected_in_queue")
        call.state = state
        self.hand_out()

    def release(self, call: Call) -> None:
        self.give(call, "ended")

    def cancel(self, call: Call) -> None:
        """Ends a wait; whoever was given a slot a moment ago passes it on."""
        if call.state == "waiting":
            self.count("total_cancelled")
            call.state = "ended"
        elif call.state == "resuming":
            self.count("total_cancelled")
            call.state = "parked"
        else:
            self.started.remove(call.number)
            self.release(call)
        self.hand_out()

    def park(self, call: Call) -> None:
        call.nested += 1
        if call.state in ("active", "resuming") and not call.is_bypass:
            self.give(call, "parked")

    def unpark(self, call: Call) -> None:
        call.nested -= 1
        if call.nested == 0 and call.state == "parked":
            self.sequence += 1
            call.line_place = (-math.inf, call.place[1], self.sequence)
            self.join(call, "resuming")

    def mark_overdue(self, call: Call) -> None:
        call.is_overdue = True
        if call.state == "active" and not call.is_bypass:
            call.state = "zombie"

    def pass_time(self, seconds: float) -> None:
        """Goes from one thing that happens by itself to the next."""
        end = self.now + seconds
        while True:
            waiters = [call for call in self.calls if call.state == "waiting"]
            dues = [call.deadline for call in waiters]
            dues += [s + RATE.period for starts in self.starts.values() for s in starts]
            self.now = min([due for due in dues if self.now < due < end], default=end)
            for call in waiters:
                if call.deadline == self.now:
                    self.expire(call)
            self.hand_out()
            if self.now == end:
                return

    def expire(self, call: Call) -> None:
        call.state = "ended"
        either = ("RateLimitedError", "QueueTimeoutError")
        self.errors[call.number] = either if call.is_rated else ("QueueTimeoutError",)
        self.count("total_queue_timeout")
        self.count("total_timeout")

    def resume(self) -> None:
        self.is_paused = False
        if self.closed == "draining":
            self.closed = None
        self.hand_out()

    def drain(self) -> None:
        self.closed = self.closed or "draining"
        self.drains.append(self.is_idle())

    def close(self) -> None:
        self.closed = "closed"
        for call in self.waiting():
            if call.state == "waiting":
                call.state = "ended"
                self.errors[call.number] = ("ControllerClosedError",)
                self.count("total_rejected_in_queue")
        self.hand_out()

    def is_idle(self) -> bool:
        return not any(call.state in (*LIVE, "waiting") for call in self.calls)

    def count(self, name: str, amount: float = 1) -> None:
        self.counted[name] = self.counted.get(name, 0) + amount

    def metrics(self) -> dict[str, float]:
        """The metrics of the controller, as far as the lists tell them."""
        return {
            "total_rejected": 0,
            "total_timeout": 0,
            "total_acquired": 0,
            "total_released": 0,
            "total_enqueued": 0,
            "total_granted": 0,
            "total_queue_timeout": 0,
            "total_cancelled": 0,
            "total_rejected_in_queue": 0,
            "total_execution_time": 0.0,
            "max_concurrent_observed": 0,
            "max_queue_length_observed": 0,
            **self.counted,
            "current_concurrent": self.used(),
            "queue_length": len(self.waiting()),
            "active": len(self.in_state("active")),
            "parked": len(self.in_state("parked", "resuming")),
            "zombies": len(self.in_state("zombie")),
            "bypass_active": len([c for c in self.live() if c.is_bypass]),
        }
