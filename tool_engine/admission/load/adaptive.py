"""How many calls of a bucket should run at once, as its own calls show?

Learning goes in rounds. A round begins with a change of the limit, and only calls that start after
it say something of it: what was in flight before belongs to the limit before. So one burst of
refusals shrinks the limit once, and no answer is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, sqrt
from typing import Any, Final

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.model.settings.concurrency import AIMD, AdaptivePolicy

_FEWEST: Final = 4
_MOST: Final = 100
"""Answers that make up a round: twice the limit, within these bounds."""
_TOLERANCE: Final = 1.25
"""How much slower than alone calls may be before their number is held to be the reason."""
_DOUBT: Final = 0.8
"""What is added to that for a round of one answer; it falls with the square root of their number,
as the error of a median does."""
_CUTS: Final = {AIMD: 0.75}
_CUT: Final = 0.85
"""What is left of a limit under which calls were refused or ran out of time."""
_LONGEST_HOLD: Final = 4
"""Rounds without growth after calls were slow or refused; one more after each time, doubled."""
_PROBE_EVERY: Final = 40
"""Rounds after which one runs at half of the limit, to see how fast the service is now."""
_HELPED: Final = 0.85
"""Calls that take more than this share of the time before a cut have not become faster by it."""
_BUSY: Final = 0.6
"""The share of a limit that must be in use on average before it may grow."""
_REST: Final = 1.0
"""Seconds between two reports of changes."""


class Sample:
    """A call that started under an adaptive limit."""

    __slots__ = ("began", "is_void", "round")

    def __init__(self, round_number: int, began: float) -> None:
        self.round = round_number
        self.began = began
        self.is_void = False
        """Whether it says nothing: its slot was lent, or it was counted as a refusal."""


class AdaptiveLimit:
    """The limit of one bucket, between the bounds of its policy.

    It knows no clock: every `now` is a reading of one monotonic clock of the caller's. Each `start`
    needs one `end`.

    Args:
        policy: The kind and the bounds.
        start: The limit to begin with; None: the smallest, which doubles while that helps.
        use: Called with each change of `limit`.
        report: Called with limit before, limit now and reason, at most once a second.
    """

    __slots__ = (
        "_baseline",
        "_cut_from",
        "_exact",
        "_heaviest",
        "_hold",
        "_in_use",
        "_is_doubling",
        "_is_probe",
        "_latencies",
        "_latency",
        "_patience",
        "_peak",
        "_report",
        "_reported",
        "_reported_at",
        "_round",
        "_start",
        "_starts",
        "_use",
        "changes",
        "limit",
        "policy",
        "reason",
        "refusals",
        "since_probe",
    )

    def __init__(
        self,
        policy: AdaptivePolicy,
        start: int | None,
        use: Callable[[int], None],
        report: Callable[[int, int, str], None],
    ) -> None:
        self.policy = policy
        self._start, self._use, self._report = start, use, report
        self._exact = policy.clamp(policy.min if start is None else start)
        self.limit = int(self._exact)
        self.changes = 0
        """How often the limit has changed."""
        self.refusals = 0
        """Rounds that ended with a refusal or a timeout."""
        self.reason = "no answers yet"
        self._baseline: float | None = None
        """Seconds that a call takes while the service is not busy."""
        self._latency: float | None = None
        self._is_doubling = True
        self._hold, self._patience = 0, 1
        self._cut_from: tuple[float, float, float] | None = None
        """Before a cut because calls were slow: the limit, the seconds of a call, and how many ran
        beside each other."""
        self._is_probe = False
        self.since_probe = 0
        self._reported, self._reported_at = self.limit, float("-inf")
        self._round = self._peak = self._in_use = self._starts = 0
        self._heaviest = 1
        self._latencies: list[float] = []

    def start(self, now: float, used: int, weight: int) -> Sample:
        """Count a call that starts, with so many units in use beside it."""
        used += weight
        self._peak = max(self._peak, used)
        self._in_use += used
        self._starts += 1
        self._heaviest = max(self._heaviest, weight)
        return Sample(self._round, now)

    def end(self, sample: Sample, outcome: bool | None, now: float) -> None:
        """Learn from a call that has ended; only one that succeeded says how fast the service is.

        What was cancelled says nothing, and a failure is as fast as it likes.
        """
        if self.policy.freeze or sample.is_void or outcome is not True:
            return
        if sample.round != self._round:
            return
        self._latencies.append(now - sample.began)
        if len(self._latencies) >= max(_FEWEST, min(_MOST, 2 * self.limit)):
            self._end_round(now)

    def delay(self, now: float) -> float:
        """Return 0.0: it holds no call up that finds room; asked beside breakers."""
        del now
        return 0.0

    def refuse(self, sample: Sample, now: float) -> None:
        """Learn that the service refused a call, or that its time ran out."""
        if sample.is_void or self.policy.freeze or sample.round != self._round:
            return
        sample.is_void = True
        self.refusals += 1
        share = 0.5 if self._is_doubling else _CUTS.get(self.policy.kind, _CUT)
        self._cut_from = None
        self._shrink_limit(self._exact * share, "a call was refused or ran out of time", now)

    def configure(self, policy: AdaptivePolicy, start: int | None) -> None:
        """Go on under another policy, with what was learned; another `start` is taken at once."""
        self.policy = policy
        if start != self._start and start is not None:
            self._exact, self._is_doubling = float(start), False
        self._start = start
        self._exact = policy.clamp(self._exact)
        self._is_probe, self._cut_from = False, None
        if int(self._exact) != self.limit:
            self.changes += 1
            self.reason = "the configuration has changed"
        self.limit = int(self._exact)
        self._begin_round()

    def to_dict(self) -> dict[str, Any]:
        """Return bounds, state and reason as JSON values; latencies in seconds."""
        policy = self.policy
        return {
            "kind": policy.kind,
            "min": policy.min,
            "max": policy.max,
            "is_frozen": policy.freeze,
            "baseline": self._baseline,
            "latency": self._latency,
            "changes": self.changes,
            "refusals": self.refusals,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        state = "frozen" if self.policy.freeze else self.reason
        return f"adaptive, {self.policy.min} to {self.policy.max}: {state}"

    # What does a round say?

    def _begin_round(self) -> None:
        self._round += 1
        self._latencies = []
        self._peak, self._heaviest, self._in_use, self._starts = 0, 1, 0, 0

    def _end_round(self, now: float) -> None:
        seconds = self._latency = _find_median(self._latencies)
        in_use = self._in_use / max(self._starts, 1)
        is_full = self._peak + self._heaviest > self.limit and in_use >= _BUSY * self.limit
        known = self._baseline
        baseline = self._learn_baseline(seconds)
        self.since_probe += 1
        if self._is_probe:
            self._is_probe = False
            if known is not None and baseline < 0.8 * known:
                # The limit was so large that nothing was known of a call alone: look again soon.
                self.since_probe = _PROBE_EVERY // 2
            self._set_limit(
                self._exact, f"back from a look at half of the limit: {_show_ms(seconds)}", now
            )
            return
        slower = seconds / baseline if baseline else 1.0
        cut_from, self._cut_from = self._cut_from, None
        if slower > _TOLERANCE + _DOUBT / sqrt(len(self._latencies)):
            self._judge_slow(seconds, baseline, in_use, cut_from, now)
        elif self.since_probe >= _PROBE_EVERY and self.limit > max(self.policy.min, 3):
            self._begin_probe(now)
        elif not is_full:
            self._set_limit(
                self._exact, f"not all of it is used; a call takes {_show_ms(seconds)}", now
            )
        elif self._hold:
            self._hold -= 1
            self._set_limit(
                self._exact, f"holds after a cut; a call takes {_show_ms(seconds)}", now
            )
        else:
            self._grow_limit(seconds, baseline, now)

    def _learn_baseline(self, seconds: float) -> float:
        """Return the seconds of a call alone: quick to fall, and slow to rise.

        Were it to follow the answers of a busy service, the limit would follow it without an end.
        """
        known = self._baseline
        if not known or seconds < 0.7 * known:  # what takes no time says nothing of what does
            known = seconds
        elif seconds < known:
            known += (seconds - known) * 0.3
        elif self._is_probe:
            # Chance makes the least of many rounds too small: now and then it may rise a little.
            known += (min(seconds, 1.2 * known) - known) * 0.5
        self._baseline = known
        return known

    def _judge_slow(
        self,
        seconds: float,
        baseline: float,
        in_use: float,
        cut_from: tuple[float, float, float] | None,
        now: float,
    ) -> None:
        before, slow, busy = cut_from or (0.0, 0.0, 0.0)
        if seconds > slow * _HELPED and in_use < busy * _HELPED:
            # Fewer calls are not faster: it is not their number that made them slow.
            self._baseline = seconds
            why = f"fewer calls are as slow ({_show_ms(seconds)}): the service itself is slower"
            self._set_limit(before, why, now)
            return
        before = self._exact
        if self.limit <= self.policy.min:
            # Fewer may not run: whether they were faster would never show, and the limit stay here.
            self._baseline = seconds
        share = 0.75 if self.policy.kind == AIMD else max(0.5, 1.1 * baseline / seconds)
        self._shrink_limit(
            before * share, f"a call takes {_show_ms(seconds)}, alone {_show_ms(baseline)}", now
        )
        if self.limit <= 0.9 * before:
            self._cut_from = (before, seconds, in_use)

    def _grow_limit(self, seconds: float, baseline: float, now: float) -> None:
        exact = self._exact
        if self._is_doubling:
            exact *= 2.0
        elif self.policy.kind == AIMD:
            exact += 1.0
        else:
            exact += max(1, isqrt(self.limit) // 2)
        self._patience = max(1, self._patience // 2)
        self._set_limit(
            exact,
            f"all used, and a call takes {_show_ms(seconds)}, alone {_show_ms(baseline)}",
            now,
        )

    def _shrink_limit(self, exact: float, reason: str, now: float) -> None:
        if self._is_doubling:
            self.since_probe = _PROBE_EVERY
        self._is_doubling = self._is_probe = False
        self._hold = self._patience = min(_LONGEST_HOLD, 2 * self._patience)
        self._set_limit(exact, reason, now)

    def _begin_probe(self, now: float) -> None:
        self.since_probe, self._is_probe = 0, True
        self._apply_limit(
            int(self.policy.clamp(self._exact / 2)), "a look at half of the limit", now
        )

    def _set_limit(self, exact: float, reason: str, now: float) -> None:
        self._exact = self.policy.clamp(exact)
        self._apply_limit(int(self._exact), reason, now)

    def _apply_limit(self, limit: int, reason: str, now: float) -> None:
        self.reason = reason
        if limit != self.limit:
            self.limit = limit
            self.changes += 1
            self._use(limit)
        self._begin_round()
        if self._reported != limit and now - self._reported_at >= _REST:
            self._reported, self._reported_at, before = limit, now, self._reported
            self._report(before, limit, reason)


def _show_ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"


def _find_median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def void_samples(slot: ConcurrencySlot) -> None:
    """Let an adaptive limit learn nothing from the slot's call any more."""
    for _, sample in slot.probes:
        if isinstance(sample, Sample):
            sample.is_void = True


def refuse_samples(slot: ConcurrencySlot, now: float) -> None:
    """Let an adaptive limit learn that the service had no room for the slot's call."""
    for adaptive, sample in slot.probes:
        if isinstance(sample, Sample):
            adaptive.refuse(sample, now)
