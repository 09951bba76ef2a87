"""Which faults must the tests find? One line each, as somebody might write it by mistake."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["MUTATIONS", "Mutation"]

BREAKER: Final = "tool_engine/admission/breaker.py"
CONTROLLER: Final = "tool_engine/admission/controller.py"
DEADLINES: Final = "tool_engine/admission/deadlines.py"
DISPATCH: Final = "tool_engine/admission/dispatch.py"
ENTRANCE: Final = "tool_engine/admission/entrance.py"
FAIRNESS: Final = "tool_engine/admission/fairness.py"
KEY: Final = "tool_engine/admission/key.py"
LAYOUT: Final = "tool_engine/admission/layout.py"
LINE_UP: Final = "tool_engine/admission/line_up.py"
LINES: Final = "tool_engine/admission/lines.py"
PIPELINE: Final = "tool_engine/calls/pipeline.py"
SHARING: Final = "tool_engine/calls/sharing.py"
THROTTLE: Final = "tool_engine/admission/throttle.py"

ADMISSION: Final = ("tests/admission", "tests/properties/test_admission_machine.py")
CALLS: Final = ("tests/calls",)


class Mutation(NamedTuple):
    """One fault: `old`, which stands in `file` exactly once, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    suite: tuple[str, ...] = ADMISSION
    """The tests that must find it."""


MUTATIONS: Final[tuple[Mutation, ...]] = (
    Mutation(
        "one slot more than the limit, at once",
        CONTROLLER,
        "if used > self._limit or",
        "if used > self._limit + 1 or",
    ),
    Mutation(
        "one slot more than the limit, after a wait",
        DISPATCH,
        "elif self._used + head.weight > self._limit and",
        "elif self._used + head.weight > self._limit + 1 and",
    ),
    Mutation(
        "a heavy call counts as one",
        DISPATCH,
        "elif self._used + head.weight > self._limit and",
        "elif self._used + 1 > self._limit and",
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
        DISPATCH,
        "bucket.used -= slot.weight\n",
        "bucket.used -= 0\n",
    ),
    Mutation(
        "a counter is clamped at 0",
        DISPATCH,
        "self._used -= slot.weight\n",
        "self._used = max(0, self._used - slot.weight)\n",
    ),
    Mutation(
        "a bucket's counter is clamped at 0",
        CONTROLLER,
        "bucket_used = bucket.used - weight\n",
        "bucket_used = max(0, bucket.used - weight)\n",
    ),
    Mutation("a second release counts", CONTROLLER, "elif state is not RELEASED:\n", "else:\n"),
    Mutation("a release hands over to nobody", CONTROLLER, "self._hand_over(lane)", "pass"),
    Mutation(
        "a release of a key's slot hands over to nobody",
        DISPATCH,
        "bucket.served.append(held)\n            self._hand_over(lane)",
        "bucket.served.append(held)",
    ),
    Mutation(
        "a waiter is woken before its slot is reserved",
        DISPATCH,
        "self._take(slot)\n        waiter.slot = slot\n",
        "asyncio.get_running_loop().call_soon(self._take, slot)\n        waiter.slot = slot\n",
    ),
    Mutation(
        "no room is kept for a heavy waiter",
        CONTROLLER,
        "(lane.waiting or self._root.entries or bucket.entries)",
        "(lane.waiting or bucket.entries)",
    ),
    Mutation(
        "a full bucket holds up the others",
        DISPATCH,
        "if not self._is_ready(lane, head, now):\n                self._refresh(lane)",
        "if not self._is_ready(lane, head, now):\n                return",
    ),
    Mutation(
        "a full bucket is not left out of the line",
        LINE_UP,
        "line.withdraw()\n                    self._hold_up",
        "self._hold_up",
    ),
    Mutation(
        "a waiter that is cancelled stays in line",
        CONTROLLER,
        "self._give_up(waiter)\n                raise\n        if waiter.slot",
        "raise\n        if waiter.slot",
    ),
    Mutation(
        "a slot granted to a cancelled waiter is lost",
        DISPATCH,
        "elif waiter.slot is not None and waiter.resumes is None:",
        "elif False:",
    ),
    Mutation(
        "a waiter that gives up lets nobody behind it pass",
        DISPATCH,
        "waiter.wake()\n            self._drop(waiter)",
        "waiter.wake()",
    ),
    Mutation(
        "a waiter whose time runs out lets nobody behind it pass",
        DISPATCH,
        "waiter.wake(error)\n        self._drop(waiter)",
        "waiter.wake(error)",
    ),
    Mutation(
        "the timer of those who wait goes on",
        DEADLINES,
        "self._timer.cancel()\n            self._timer = None",
        "self._timer = None",
    ),
    Mutation(
        "an earlier deadline waits for a later one",
        DEADLINES,
        "if self._timer is None or due < self._timer.when():",
        "if self._timer is None:",
    ),
    Mutation(
        "one call more waits than may",
        ENTRANCE,
        "if self._queued > config.queue_size:",
        "if self._queued > config.queue_size + 1:",
    ),
    Mutation(
        "one call more waits than may, for a bucket",
        ENTRANCE,
        "bucket.waiting > bucket.queue_size:",
        "bucket.waiting > bucket.queue_size + 1:",
    ),
    Mutation(
        "one call more waits than may, for a key",
        ENTRANCE,
        "key.waiting > size:",
        "key.waiting > size + 1:",
    ),
    Mutation(
        "waiting makes a call less urgent",
        ENTRANCE,
        "asked_at + self._aging * request.priority",
        "-asked_at + self._aging * request.priority",
    ),
    Mutation(
        "what is less urgent goes first",
        ENTRANCE,
        "asked_at + self._aging * request.priority",
        "asked_at - self._aging * request.priority",
    ),
    Mutation(
        "a nested call stands at the end of the line",
        ENTRANCE,
        "else (key, by.arrival, arrival)",
        "else (key, arrival, 0)",
    ),
    Mutation(
        "a parked slot is not lent out",
        CONTROLLER,
        "            self._put_back(slot, self._clock())\n",
        "",
    ),
    Mutation(
        "a parked slot is taken again without room",
        CONTROLLER,
        "self._join(waiter)\n        self._note_peak()\n",
        "self._join(waiter)\n        waiter.slot or self._grant(waiter, self._clock())\n",
    ),
    Mutation(
        "a parked slot is not taken again",
        PIPELINE,
        "else:\n                await self._controller.unpark(slot)",
        "else:\n                self._controller.stay_parked(slot)",
        CALLS,
    ),
    Mutation(
        "the slot of a zombie is free at its deadline",
        PIPELINE,
        "self._controller.mark_overdue(slot, outcome)\n",
        "self._controller.release(slot)\n",
        CALLS,
    ),
    Mutation(
        "a zombie that ends leaves the gate shut",
        ENTRANCE,
        "self._zombies -= 1\n            self._update_gate()\n",
        "self._zombies -= 1\n",
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
    Mutation("a call at a rate is not counted", DISPATCH, "throttle.count(now)\n", "pass\n"),
    Mutation(
        "nobody is woken when a rate lets one more pass",
        LINE_UP,
        "self._hand_over(best[1].lane)",
        "pass",
    ),
    Mutation(
        "a shorter pause of a bucket ends a longer one",
        CONTROLLER,
        "bucket.paused_until = max(until, bucket.paused_until or until)",
        "bucket.paused_until = until",
    ),
    Mutation("a bucket's pause is ignored at once", CONTROLLER, "        bucket.most = -1\n", ""),
    Mutation("a pause is ignored at once", CONTROLLER, "if self._is_shut or (\n", "if (\n"),
    Mutation(
        "a pause is ignored after a wait",
        DISPATCH,
        "(self._is_paused and head.resumes is None)",
        "False",
    ),
    Mutation(
        "resume wakes nobody",
        CONTROLLER,
        "self._is_paused = False\n        self._update_gate()\n        self._hand_over_all()",
        "self._is_paused = False\n        self._update_gate()",
    ),
    Mutation(
        "close leaves the waiters waiting",
        CONTROLLER,
        'self._dismiss(waiter, refusal.closed("closed"))',
        "pass",
    ),
    Mutation(
        "a larger limit wakes nobody",
        CONTROLLER,
        "self._hand_over_all()\n        self._refuse_behind_open()",
        "self._refuse_behind_open()",
    ),
    Mutation(
        "a change of the limits forgets the slots in use",
        CONTROLLER,
        "self._requests = {}\n        self._set_up()\n",
        "self._used = 0\n        self._set_up()\n",
    ),
    Mutation(
        "a smaller limit is not applied",
        DISPATCH,
        "self._limit = config.max_concurrent",
        'self._limit = max(config.max_concurrent, getattr(self, "_limit", 0))',
    ),
    Mutation(
        "a key's limit is ignored", KEY, "(self.used + weight <= self.most or is_alone)", "True"
    ),
    Mutation(
        "a release leaves its key full", DISPATCH, "key.used -= slot.weight\n", "key.used -= 0\n"
    ),
    Mutation(
        "a key keeps no room for a heavy call", KEY, " and order <= self.first_held_up\n", "\n"
    ),
    Mutation(
        "heavy calls of a key are not asked in their order",
        LINE_UP,
        "if key.selective:",
        "if False:",
    ),
    Mutation(
        "the room in a key that the first cannot use is lost",
        LINE_UP,
        "self._stirred += [key for key in line.keys if key.held_up]",
        "pass",
    ),
    Mutation(
        "only the first of those that a key holds up is asked",
        LINE_UP,
        "if lane.offered is not None or lane in key.held_up:",
        "if True:",
    ),
    Mutation(
        "a call that has gone still bars its key",
        KEY,
        "if not self.held_up:\n            self.first_held_up = NOBODY",
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
        "        self._refuse_behind_open()\n",
        "",
    ),
    Mutation("a key in use is forgotten", DISPATCH, "        lane.refs += 1\n", ""),
    Mutation("the round of fair shares never advances", DISPATCH, "self._round = serve(", "serve("),
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
        ENTRANCE,
        "breaker.end(probe, outcome, now)\n",
        "pass\n",
    ),
    Mutation("the probe of a cancelled call is lost", BREAKER, "self.probes -= 1\n", "pass\n"),
    Mutation(
        "those who wait for an open breaker go on waiting",
        ENTRANCE,
        "            if breaker.delay(now) > 0:\n",
        "            if False:\n",
    ),
    Mutation(
        "a call that collides is not refused",
        ENTRANCE,
        "return refusal.collides(request)",
        "return None",
        CALLS,
    ),
    Mutation(
        "a newer call ends no running one", ENTRANCE, "slot.on_superseded()\n", "pass\n", CALLS
    ),
    Mutation(
        "a newer call ends no waiting one",
        ENTRANCE,
        "self._dismiss(waiter, refusal.superseded(request))\n",
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
)
