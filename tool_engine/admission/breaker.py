"""Have so many calls failed in a row that the next one had better not be tried?"""

from __future__ import annotations

from typing import Final

from tool_engine.errors import ToolEngineError
from tool_engine.model.settings.concurrency import BreakerPolicy

CLOSED: Final = "closed"
"""Calls pass; failures in a row are counted."""
HALF_OPEN: Final = "half_open"
"""As many calls pass at once as the policy has probes, to find out whether it may close."""
OPEN: Final = "open"
"""No call passes."""
STATES: Final = (CLOSED, HALF_OPEN, OPEN)
"""From the best to the worst."""


class CircuitBreaker:
    """Refuses calls of a tool or a bucket while those before them keep failing.

    It knows no clock: every `now` is a reading, in seconds, of one monotonic clock of the caller's.
    Each `start` needs one `end`. Calls that started before the last change between closed, open
    and half-open say nothing about the state after it, and are not counted when they end.

    Args:
        policy: How many failures open it, for how long, and with how many probes it closes again.

    Example:
        >>> breaker = CircuitBreaker(BreakerPolicy(failures=1, reset_after=30.0))
        >>> breaker.end(breaker.start(now=0.0), False, now=1.0)
        >>> breaker.state(now=1.0), breaker.delay(now=11.0), breaker.state(now=31.0)
        ('open', 20.0, 'half_open')
    """

    __slots__ = ("_generation", "_opened_at", "failures", "policy", "probes")

    def __init__(self, policy: BreakerPolicy) -> None:
        self.policy = policy
        self.failures = 0
        """Calls that have failed in a row."""
        self.probes = 0
        """Calls that run now to find out whether the breaker may close."""
        self._generation = 0
        self._opened_at: float | None = None

    def state(self, now: float) -> str:
        """`closed`, `open` or `half_open`."""
        if self._opened_at is None:
            return CLOSED
        return OPEN if now < self._opened_at + self.policy.reset_after else HALF_OPEN

    def delay(self, now: float) -> float:
        """Seconds until one more call may be tried; 0.0 when it may start now.

        While all probes are taken, it is not known when the first of them ends: the answer is
        `reset_after` then, for which the breaker will be open again if that one fails.
        """
        if self._opened_at is None:
            return 0.0
        opens_at = self._opened_at + self.policy.reset_after
        if now < opens_at:
            return opens_at - now
        return 0.0 if self.probes < self.policy.probes else self.policy.reset_after

    def start(self, now: float) -> int:
        """Counts a call that starts, and takes a probe when half-open.

        Returns:
            The token to pass to `end`.

        Raises:
            ToolEngineError: No call may start now; `delay` was not asked.
        """
        if self._opened_at is not None:
            if self.delay(now):
                raise ToolEngineError(
                    f"{self!r} lets no call start at {now:g}; start one when delay() is 0"
                )
            self.probes += 1
        return self._generation

    def end(self, token: int, outcome: bool | None, now: float) -> None:
        """Counts the end of a call that `start` gave the token for.

        Args:
            token: What `start` returned.
            outcome: True: it succeeded. False: it failed or timed out. None: it was cancelled or
                never ran, which says nothing; its probe can be taken again.
            now: The time.

        Raises:
            ToolEngineError: More probes ended than started.
        """
        if token != self._generation:
            return
        if self._opened_at is not None:
            self._end_probe(outcome, now)
        elif outcome:
            self.failures = 0
        elif outcome is False:
            self.failures += 1
            if self.failures >= self.policy.failures:
                self._change_state(now)

    def configure(self, policy: BreakerPolicy) -> None:
        """Goes on under another policy, with the state and the counts that there are.

        A new `reset_after` counts from when the breaker opened. A row of failures that is too long
        now opens it with the next failure. Probes that run already go on.
        """
        self.policy = policy

    def __repr__(self) -> str:
        if self._opened_at is None:
            state = f"closed, {self.failures} of {self.policy.failures} failures in a row"
        else:
            until = self._opened_at + self.policy.reset_after
            probes = f"{self.probes} of {self.policy.probes} probes"
            state = f"open until {until:g}, then half-open, {probes} run"
        return f"<CircuitBreaker {state}>"

    def _end_probe(self, outcome: bool | None, now: float) -> None:
        if not self.probes:
            raise ToolEngineError(f"a probe of {self!r} was ended twice: the accounting is broken")
        if outcome is None:
            self.probes -= 1
        elif outcome:
            self.failures = 0
            self._change_state(None)
        else:
            self.failures += 1
            self._change_state(now)

    def _change_state(self, opened_at: float | None) -> None:
        """Opens or closes; what runs already belongs to the time before and counts no more."""
        self._opened_at = opened_at
        self._generation += 1
        self.probes = 0
