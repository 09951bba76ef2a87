"""What should the controller do? The rules of admission over plain lists, slow and obvious."""

from __future__ import annotations

import math

from tests.properties.admission_calls import Breaker, Call, Share
from tests.properties.admission_lines import Lines
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import CollisionPolicy


class Model(Lines):
    """What becomes of the calls, whatever is done to them and to the controller."""

    def refusal(self, call: Call) -> str | None:
        if self.is_impossible(call):
            return "SlotRejectedError"
        if self.closed == "closed" or (self.closed and call.parent is None):
            return "ControllerClosedError"
        if self.is_flooded():
            return "SlotRejectedError"
        return "CircuitOpenError" if self.is_broken(call) else self.collision(call)

    def collision(self, call: Call) -> str | None:
        policy = call.kind.collision
        if policy is CollisionPolicy.QUEUE:
            return None
        key = (call.tool_name, call.tool_key)
        waiting = [each for each in self.in_state("waiting") if key in self.keys_of(each)]
        excess = self.load(key, call) + call.weight + sum(each.weight for each in waiting)
        excess -= call.kind.key_limit or 0
        if excess <= 0:
            return None
        if policy is CollisionPolicy.REJECT:
            return "SlotRejectedError"
        if policy is CollisionPolicy.CANCEL_NEWEST:
            return "SupersededError"
        if policy is CollisionPolicy.CANCEL_IN_PROGRESS:
            holders = [each for each in self.holders() if key in self.keys_of(each)]
            holders += self.lent_by_others(key, call)
            for holder in sorted(holders, key=lambda each: (each.started, each.sequence))[:excess]:
                excess -= 1
                if not holder.is_overdue:
                    self.superseded.append(holder.number)
        for waiter in sorted(waiting, key=lambda each: each.sequence):
            if excess > 0 and waiter.state == "waiting":
                excess -= 1
                self.dismiss(waiter, "SupersededError")
                self.hand_out()
        return None

    def refusal_to_wait(self, call: Call) -> str | None:
        """Of a call that stands in line and could not go at once."""
        if call.parent is not None:
            return None
        config = self.config
        if config.strategy == "reject":
            return "RateLimitedError" if self.is_delayed(call) else "SlotRejectedError"
        waiting = self.in_state("waiting", "resuming")
        queued = [each for each in self.in_state("waiting") if each.parent is None]
        beside = [each for each in waiting if each.bucket == call.bucket]
        is_full = len(queued) > config.queue_size
        is_full |= len(beside) > config.bucket_queue_sizes.get(call.bucket, math.inf)
        if config.key_limits is not None and call.key is not None:
            size = config.key_limits.queue_size
            is_full |= size is not None and self.waiting_of(("", call.key)) > size
        return "QueueFullError" if is_full else None

    def submit(self, call: Call) -> None:
        self.calls.append(call)
        self.sequence += 1
        call.asked, call.sequence = self.now, self.sequence
        self.line_up(call)
        is_open = self.closed is None or (self.closed == "draining" and call.parent is not None)
        if call.is_bypass and is_open:
            call.state = "active"
            self.started.append(call.number)
        elif self.may_run_at_once(call):
            self.take(call)
        elif refusal := self.refusal(call):
            self.refuse(call, refusal)
        else:
            call.deadline = self.now + (call.timeout or math.inf)
            most = self.counted["max_queue_length_observed"]
            self.join(call, "waiting")
            if call.state == "waiting" and (refusal := self.refusal_to_wait(call)):
                self.counted["max_queue_length_observed"] = most
                self.counted["total_enqueued"] -= 1
                self.refuse(call, refusal)
                self.hand_out()

    def refuse(self, call: Call, refusal: str) -> None:
        self.end(call, refusal)
        self.counted["total_rejected"] += 1
        self.rejected[call.bucket] += 1

    def end(self, call: Call, error: str | None = None) -> None:
        call.state = "ended"
        self.calls.remove(call)
        self.forget_shares()
        if error is not None:
            self.errors[call.number] = error

    def join(self, call: Call, state: str) -> None:
        self.begin_turns(call)
        call.state = state
        self.counted["total_enqueued"] += 1
        self.hand_out()
        most = self.counted["max_queue_length_observed"]
        self.counted["max_queue_length_observed"] = max(most, len(self.waiting()))

    def dismiss(self, call: Call, error: str) -> None:
        self.end(call, error)
        self.counted["total_rejected_in_queue"] += 1

    def hand_out(self) -> None:
        while (call := self.next_in_line()[0]) is not None:
            if call.state != "resuming" and self.is_broken(call):
                self.dismiss(call, "CircuitOpenError")
            else:
                self.counted["total_granted"] += 1
                is_turn = self.config.strategy == "fair" and call.is_new
                if is_turn:
                    self.take_turn(call)
                self.take(call)
                if is_turn and not self.waiting_of(("", call.key)):
                    self.share_of(call).credit = 0.0
        self.drains = [done or self.is_idle() for done in self.drains]

    # What happens to those who run?

    def take(self, call: Call) -> None:
        if call.state != "resuming":
            self.start(call)
        call.state = "zombie" if call.is_overdue else "active"
        call.since = self.now
        self.counted["total_acquired"] += 1
        most = self.counted["max_concurrent_observed"]
        self.counted["max_concurrent_observed"] = max(most, self.used())

    def start(self, call: Call) -> None:
        self.started.append(call.number)
        call.started = self.now
        for name, _ in self.rates_of(call):
            self.starts.setdefault(name, []).append(self.now)
        call.probes = [(breaker, breaker.start()) for breaker in self.breakers_of(call)]

    def give(self, call: Call, state: str) -> None:
        if call.state in ("active", "zombie") and not call.is_bypass:
            self.counted["total_released"] += 1
            self.counted["total_execution_time"] += self.now - call.since  # type: ignore[assignment]
        elif call.state == "resuming":
            self.counted["total_rejected_in_queue"] += 1
        call.state = state
        if state == "ended":
            self.calls.remove(call)
            self.forget_shares()
        self.hand_out()

    def release(self, call: Call, outcome: bool | None = True) -> None:
        self.report(call, outcome)
        self.give(call, "ended")

    def report(self, call: Call, outcome: bool | None) -> None:
        """Tells the breakers; whoever waits behind an open one is refused."""
        probes, call.probes = call.probes, []
        for breaker, epoch in probes:
            breaker.end(epoch, outcome, self.now)
            if breaker.is_open(self.now):
                for waiter in self.in_state("waiting"):
                    if breaker in self.breakers_of(waiter):
                        self.dismiss(waiter, "CircuitOpenError")

    def cancel(self, call: Call) -> None:
        """Ends a wait for a first slot; one that was given a moment ago is passed on.

        A call that waits to have its slot back gets it all the same: what was cancelled is a task.
        """
        if call.state == "waiting":
            self.counted["total_cancelled"] += 1
            self.end(call)
        elif call.state not in ("resuming", "ended"):
            self.started.remove(call.number)
            self.release(call, None)
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

    def mark_overdue(self, call: Call, outcome: bool | None) -> None:
        call.is_overdue = True
        if call.state == "active" and not call.is_bypass:
            call.state = "zombie"
        self.report(call, outcome)
        self.hand_out()

    # What happens to all of them?

    def pass_time(self, seconds: float) -> None:
        """Goes from one thing that happens by itself to the next."""
        end = self.now + seconds
        while True:
            waiters = self.in_state("waiting")
            dues = [call.deadline for call in waiters] + list(self.paused_until.values())
            dues += [
                start + rate.period
                for call in waiters
                for name, rate in self.rates_of(call)
                for start in self.starts.get(name, [])
            ]
            self.now = min([due for due in dues if self.now < due < end], default=end)
            for call in waiters:
                if call.deadline == self.now:
                    self.expire(call)
            self.hand_out()
            if self.now == end:
                return

    def expire(self, call: Call) -> None:
        error = "RateLimitedError" if self.is_delayed(call) else "QueueTimeoutError"
        self.end(call, error)
        self.counted["total_queue_timeout"] += 1
        self.counted["total_timeout"] += 1

    def configure(self, config: ConcurrencyConfig) -> None:
        """Everybody lines up anew, as if those who wait had come under the new rules."""
        self.config = config
        for bucket, policy in config.breakers.items():
            self.breakers.setdefault(("bucket", bucket), Breaker(policy)).policy = policy
        self.forget_shares()
        for call in self.calls:
            self.line_up(call)
            call.due = None
            if call.state in ("waiting", "resuming") and self.share_of(call).round < self.round:
                self.shares[call.key] = Share(self.round)
        for call in self.in_state("waiting"):
            if self.is_impossible(call):
                self.dismiss(call, "SlotRejectedError")
            elif any(each.state(self.now) == "open" for each in self.breakers_of(call)):
                self.dismiss(call, "CircuitOpenError")
        self.hand_out()

    def pause_bucket(self, bucket: str, seconds: float) -> None:
        """A longer pause outlasts a shorter one; 0 ends any."""
        until = self.now + min(seconds, self.config.max_bucket_pause)
        if seconds <= 0:
            self.paused_until.pop(bucket, None)
            self.hand_out()
        else:
            self.paused_until[bucket] = max(until, self.paused_until.get(bucket, 0.0))

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
        for call in self.in_state("waiting"):
            self.dismiss(call, "ControllerClosedError")
        self.hand_out()

    # What can be seen of it?

    def metrics(self) -> dict[str, float]:
        """The metrics of the controller, as far as the lists tell them."""
        counted = (
            "total_rejected",
            "total_timeout",
            "total_acquired",
            "total_released",
            "total_enqueued",
            "total_granted",
            "total_queue_timeout",
            "total_cancelled",
            "total_rejected_in_queue",
            "total_execution_time",
            "max_concurrent_observed",
            "max_queue_length_observed",
        )
        return {
            **{name: self.counted[name] for name in counted},
            "overdue": sum(call.is_overdue for call in self.live()),
            "current_concurrent": self.used(),
            "queue_length": len(self.waiting()),
            "active": len(self.in_state("active")),
            "parked": len(self.in_state("parked", "resuming")),
            "zombies": len(self.in_state("zombie")),
            "bypass_active": len([call for call in self.live() if call.is_bypass]),
        }
