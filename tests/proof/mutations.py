"""Which faults must the tests find? One line each, as somebody might write it by mistake."""

from __future__ import annotations

from typing import Final

from tests.proof.cluster_mutations import CLUSTER_MUTATIONS
from tests.proof.mutation import Mutation

__all__ = ["MUTATIONS", "Mutation"]

BREAKER: Final = "tool_engine/admission/breaker.py"
COLLISION: Final = "tool_engine/admission/collision.py"
CONTROLLER: Final = "tool_engine/admission/controller.py"
FAIRNESS: Final = "tool_engine/admission/fairness.py"
KEY: Final = "tool_engine/admission/key.py"
LAYOUT: Final = "tool_engine/admission/layout.py"
LINES: Final = "tool_engine/admission/lines.py"
POOL: Final = "tool_engine/admission/pool.py"
OVERDUE: Final = "tool_engine/calls/overdue.py"
NESTING: Final = "tool_engine/calls/nesting.py"
PIPELINE: Final = "tool_engine/calls/pipeline.py"
QUEUE: Final = "tool_engine/admission/queue.py"
REFUSAL: Final = "tool_engine/admission/refusal.py"
SHARED_TIMER: Final = "tool_engine/shared_timer.py"
SHARING: Final = "tool_engine/calls/sharing.py"
THROTTLE: Final = "tool_engine/admission/throttle.py"

CALLS: Final = ("tests/calls",)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    Mutation(
        "one slot more than the limit, at once",
        CONTROLLER,
        "if used > pool.limit or",
        "if used > pool.limit + 1 or",
    ),
    Mutation(
        "one slot more than the limit, after a wait",
        QUEUE,
        "elif used + head.weight > limit and",
        "elif used + head.weight > limit + 1 and",
    ),
    Mutation(
        "a heavy call counts as one",
        QUEUE,
        "elif used + head.weight > limit and",
        "elif used + 1 > limit and",
    ),
    Mutation(
        "the bucket's limit is ignored, at once", CONTROLLER, " or bucket_used > bucket.most:", ":"
    ),
    Mutation(
        "the bucket's limit is ignored, after a wait",
        LINES,
        "if self.limit is not None and self.used + waiter.weight > self.limit:",
        "if False:",
    ),
    Mutation(
        "one slot less than the bucket's limit",
        LINES,
        "self.used + waiter.weight > self.limit:",
        "self.used + waiter.weight >= self.limit:",
    ),
    Mutation(
        "a release leaves its bucket full",
        POOL,
        "bucket.used -= slot.weight\n",
        "bucket.used -= 0\n",
    ),
    Mutation(
        "a counter is clamped at 0",
        POOL,
        "self.used -= slot.weight\n",
        "self.used = max(0, self.used - slot.weight)\n",
    ),
    Mutation(
        "a bucket's counter is clamped at 0",
        CONTROLLER,
        "bucket_used = bucket.used - weight\n",
        "bucket_used = max(0, bucket.used - weight)\n",
    ),
    Mutation("a second release counts", CONTROLLER, "elif state is not RELEASED:\n", "else:\n"),
    Mutation("a release hands over to nobody", CONTROLLER, "pool.hand_over(lane, now)", "pass"),
    Mutation(
        "a release of a key's slot hands over to nobody",
        POOL,
        "bucket.served.append(held)\n            self.hand_over(lane, now)",
        "bucket.served.append(held)",
    ),
    Mutation(
        "a waiter is woken before its slot is reserved",
        POOL,
        "self.take(slot)\n        waiter.slot = slot\n",
        "asyncio.get_running_loop().call_soon(self.take, slot)\n        waiter.slot = slot\n",
    ),
    Mutation(
        "no room is kept for a heavy waiter",
        QUEUE,
        "return bool(self.root.entries or bucket.entries)",
        "return bool(bucket.entries)",
    ),
    Mutation(
        "a full bucket holds up the others",
        QUEUE,
        "came to be since it was put there. The next one is asked.\n"
        "                self.refresh(head.lane, now)",
        "came to be since it was put there. The next one is asked.\n                return None",
    ),
    Mutation(
        "a full bucket is not left out of the line",
        QUEUE,
        "line.withdraw()\n                    self._note_blocker",
        "self._note_blocker",
    ),
    Mutation(
        "a waiter that is cancelled stays in line",
        CONTROLLER,
        "self._pool.give_up(waiter)\n",
        "pass\n",
    ),
    Mutation(
        "a slot granted to a cancelled waiter is lost",
        CONTROLLER,
        "self.release(waiter.slot, outcome=None)\n",
        "pass\n",
    ),
    Mutation(
        "a waiter that gives up lets nobody behind it pass",
        POOL,
        "waiter.wake()\n            self._let_next(waiter)",
        "waiter.wake()",
    ),
    Mutation(
        "a waiter whose time runs out lets nobody behind it pass",
        POOL,
        "waiter.wake(error)\n        self._let_next(waiter)",
        "waiter.wake(error)",
    ),
    Mutation(
        "the timer of those who wait goes on",
        SHARED_TIMER,
        "self._timer.cancel()\n            self._at, self._timer = inf, None",
        "self._at, self._timer = inf, None",
    ),
    Mutation(
        "an earlier deadline waits for a later one",
        SHARED_TIMER,
        "if due < self._at:",
        "if self._timer is None:",
    ),
    Mutation(
        "one call more waits than may",
        REFUSAL,
        "if queued > config.queue_size:",
        "if queued > config.queue_size + 1:",
    ),
    Mutation(
        "one call more waits than may, for a bucket",
        REFUSAL,
        "waiting > bucket.queue_size:",
        "waiting > bucket.queue_size + 1:",
    ),
    Mutation(
        "one call more waits than may, for a key",
        REFUSAL,
        "asking(key.name)) > size:",
        "asking(key.name)) > size + 1:",
    ),
    Mutation(
        "waiting makes a call less urgent",
        POOL,
        "asked_at + self.aging * request.priority",
        "-asked_at + self.aging * request.priority",
    ),
    Mutation(
        "what is less urgent goes first",
        POOL,
        "asked_at + self.aging * request.priority",
        "asked_at - self.aging * request.priority",
    ),
    Mutation(
        "a nested call stands at the end of the line",
        POOL,
        "else (key, by.arrival, arrival)",
        "else (key, arrival, 0)",
    ),
    Mutation(
        "a parked slot is not lent out",
        POOL,
        "        self.put_back(slot, self.clock())\n",
        "",
    ),
    Mutation(
        "a parked slot is taken again without room",
        POOL,
        "self.join(waiter)\n        self.note_peak()\n",
        "self.join(waiter)\n        waiter.slot or self.grant(waiter, self.clock())\n",
    ),
    Mutation(
        "a parked slot is not taken again",
        NESTING,
        "else:\n                await self._controller.unpark(slot)",
        "else:\n                self._controller.stay_parked(slot)",
        CALLS,
    ),
    Mutation(
        "the slot of a zombie is free at its deadline",
        OVERDUE,
        "self._controller.mark_overdue(slot, outcome)\n",
        "self._controller.release(slot)\n",
        CALLS,
    ),
    Mutation(
        "a zombie that ends leaves the gate shut",
        POOL,
        "self.count_zombies(-1)\n",
        "self.zombies -= 1\n",
    ),
    Mutation(
        "a cancelled call keeps its slot",
        PIPELINE,
        "        call.break_off()\n        self._controller.release(slot, outcome=None)\n",
        "        call.break_off()\n",
        CALLS,
    ),
    Mutation(
        "a rate lets one call more pass",
        THROTTLE,
        "if len(starts) < calls or",
        "if len(starts) <= calls or",
    ),
    Mutation("a call at a rate is not counted", LINES, "throttle.count(now)\n", "pass\n"),
    Mutation(
        "nobody is woken when a rate lets one more pass",
        POOL,
        "        lane = self.queue.end_delay(line)\n",
        "        lane = None\n",
    ),
    Mutation(
        "a shorter pause of a bucket ends a longer one",
        LINES,
        "self.paused_until = max(until, self.paused_until or until)",
        "self.paused_until = until",
    ),
    Mutation("a bucket's pause is ignored at once", LINES, "        self.most = -1\n", ""),
    Mutation("a pause is ignored at once", CONTROLLER, "if pool.is_shut or (", "if ("),
    Mutation(
        "a pause is ignored after a wait",
        QUEUE,
        "(is_paused and head.resumes is None)",
        "False",
    ),
    Mutation(
        "resume wakes nobody",
        CONTROLLER,
        "update_gate()\n        self._pool.hand_over_all()",
        "update_gate()",
    ),
    Mutation(
        "close leaves the waiters waiting",
        CONTROLLER,
        'self._pool.reject_waiter(waiter, refusal.make_closed_error("closed"))',
        "pass",
    ),
    Mutation(
        "a larger limit wakes nobody",
        CONTROLLER,
        "pool.hand_over_all()\n        pool.refuse_behind_open()",
        "pool.refuse_behind_open()",
    ),
    Mutation(
        "a change of the limits forgets the slots in use",
        CONTROLLER,
        "self._requests = {}\n        pool.use(config)\n",
        "pool.used = 0\n        pool.use(config)\n",
    ),
    Mutation(
        "a smaller limit is not applied",
        POOL,
        "self.limit = config.max_concurrent",
        'self.limit = max(config.max_concurrent, getattr(self, "limit", 0))',
    ),
    Mutation(
        "a key's limit is ignored", KEY, "(self.used + weight <= self.most or is_alone)", "True"
    ),
    Mutation(
        "a release leaves its key full", LINES, "key.used -= slot.weight\n", "key.used -= 0\n"
    ),
    Mutation(
        "a key keeps no room for a heavy call", KEY, " and order <= self.first_blocked\n", "\n"
    ),
    Mutation(
        "heavy calls of a key are not asked in their order",
        QUEUE,
        "if key.selective:",
        "if False:",
    ),
    Mutation(
        "the room in a key that the first cannot use is lost",
        QUEUE,
        "self._changed_keys += [key for key in line.keys if key.blocked]",
        "pass",
    ),
    Mutation(
        "only the first of those that a key holds up is asked",
        QUEUE,
        "if lane.offered is not None or lane in key.blocked:",
        "if True:",
    ),
    Mutation(
        "a call that has gone still bars its key",
        KEY,
        "if not self.blocked:\n            self.first_blocked = COMES_LAST",
        "pass",
    ),
    Mutation("idle keys stay", LAYOUT, "del self.keys[key.name]", "pass"),
    Mutation(
        "what started behind a gate ends as if there were none",
        CONTROLLER,
        "if slot.is_gated or lane.is_gated:",
        "if lane.is_gated:",
    ),
    Mutation(
        "whoever waits behind an open breaker that comes back goes on waiting",
        CONTROLLER,
        "        pool.refuse_behind_open()\n",
        "",
    ),
    Mutation(
        "a key in use is forgotten",
        LINES,
        "        slot.is_gated = True\n        self.refs += 1\n",
        "",
    ),
    Mutation(
        "the round of fair shares never advances",
        QUEUE,
        "self.round = count_served(",
        "count_served(",
    ),
    Mutation(
        "a fair share is not used up", FAIRNESS, "* share.weight - waiter.weight", "* share.weight"
    ),
    Mutation(
        "the weight of a fair share is ignored",
        FAIRNESS,
        "ceil(missing / share.weight)",
        "ceil(missing)",
    ),
    Mutation(
        "fair shares can be saved up",
        FAIRNESS,
        "if not share.waiting and share.round < current:",
        "if False:",
    ),
    Mutation(
        "a breaker opens one failure late",
        BREAKER,
        "if self.failures >= self.policy.failures:",
        "if self.failures > self.policy.failures:",
    ),
    Mutation(
        "a breaker is not told how calls end",
        POOL,
        "breaker.end(probe, outcome, now)\n",
        "pass\n",
    ),
    Mutation("the probe of a cancelled call is lost", BREAKER, "self.probes -= 1\n", "pass\n"),
    Mutation(
        "those who wait for an open breaker go on waiting",
        POOL,
        "            if breaker.delay(now) > 0:\n",
        "            if False:\n",
    ),
    Mutation(
        "a call that collides is not refused",
        POOL,
        "return refusal.make_collision_error(request)",
        "return None",
        CALLS,
    ),
    Mutation(
        "a newer call ends no running one", COLLISION, "slot.on_superseded()\n", "pass\n", CALLS
    ),
    Mutation(
        "a newer call ends no waiting one",
        POOL,
        "self.reject_waiter(waiter, refusal.make_superseded_error(request))\n",
        "pass\n",
        CALLS,
    ),
    Mutation(
        "those who share a run share its cancellation",
        SHARING,
        'if result.error_type == "cancelled":',
        "if False:",
        CALLS,
    ),
    *CLUSTER_MUTATIONS,
)
