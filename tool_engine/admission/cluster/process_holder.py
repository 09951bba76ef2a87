"""What does a process hold of its cluster whose controller counts for itself what calls use?

What happens to it in one turn of the event loop is said in one message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tool_engine.admission.cluster.cluster_database import new_life
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.effects import Effect, Lose
from tool_engine.admission.cluster.holder import SURE, Holder
from tool_engine.admission.cluster.lease_messages import Message
from tool_engine.admission.cluster.leased_call import Call
from tool_engine.admission.cluster.line_up import Entry
from tool_engine.clock import read_uptime

Happening = Callable[[float], list[Effect]]
"""What happens to a holder at a time; returns what is to be done."""


class ProcessHolder(Holder):
    """The leases of a process whose controller counts what its calls use.

    A call that starts with a unit which is there already is not known here.

    Args:
        count_used: How many units of a resource its calls use.
        list_running: Gives numbers to those calls, as they are lost.
    """

    def __init__(
        self,
        process: str,
        limits: ClusterLimits,
        count_used: Callable[[str], int],
        list_running: Callable[[], Iterable[int]],
        **times: Any,
    ) -> None:
        super().__init__(process, limits, new_life=new_life, **times)
        self._count_used, self._list_running = count_used, list_running
        self.says_later = False
        """Whether more happens at once, which the next message is to say as well."""

    def idle_of(self, resource: str) -> int:
        """Return how many units of a resource no call uses, nor is about to."""
        return super().idle_of(resource) - self._count_used(resource)

    @property
    def is_busy(self) -> bool:
        """Whether calls wait, or have not ended."""
        return super().is_busy or any(map(self._count_used, self.accounts))

    def sure_until(self) -> float:
        """Return until when units may be used without a look at the clock."""
        return min(self.valid_until, self.last_seen + self.grace * SURE)

    def ask_for(self, entry: Entry, now: float) -> list[Effect]:
        """Let a call wait for its units."""
        effects = self._look_at_clock(now)
        entry.place, entry.asked_at = next(self._arrivals), now
        self._let_wait(Call(entry))
        return self._finish_event(effects, now)

    def note_started(self, numbers: Iterable[int]) -> None:
        """Forget calls that the controller has started: it counts them from now on."""
        for number in numbers:
            call = self.running[number]
            self._uncount_units(call)
            self._look_again_at(call.entry.units)
            if call.probe is None:
                del self.running[number]
            else:
                call.entry.units = {}  # it is known until it says what became of it

    def tick(self, now: float) -> list[Effect]:
        """Do what is due by the clock; what is in use is looked at again."""
        since = [r for r, began in self._idle_since.items() if now >= began + self.idle_time]
        effects = super().tick(now)
        self._look_again_at(since)
        return effects

    def _look_again_at(self, resources: Iterable[str]) -> None:
        # The end of a call is not heard of here, so that its units are looked at in any case.
        for resource in resources:
            if resource in self.accounts and self.accounts[resource].out > 0:
                self._idle_since.setdefault(resource, self.last_seen)

    def _uncount_units(self, call: Call) -> None:
        for resource, units in call.entry.units.items():
            left = self.used.get(resource, 0) - units
            if left > 0:
                self.used[resource] = left
            else:
                self.used.pop(resource, None)

    def _make_message(self, now: float) -> Message | None:
        return None if self.says_later else super()._make_message(now)

    def _end_life(self) -> list[Effect]:
        numbers = list(self._list_running())
        for number in numbers:
            self.running[number] = Call(Entry("", self.process, number, {}, 0, 0.0))
        effects = super()._end_life()
        if effects or not numbers:
            return effects or [Lose(())]
        return effects


class Turn:
    """Lets what happens to a holder happen in the next turn of the event loop, all of it at once.

    A call that ends, and one that comes in its place, are said in one message.

    Args:
        holder: The holder.
        apply_effects: Does what it returns.
    """

    def __init__(
        self, holder: ProcessHolder, apply_effects: Callable[[list[Effect]], object]
    ) -> None:
        self._holder, self._apply_effects = holder, apply_effects
        self._happenings: deque[Happening] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def do_later(self, happens: Happening) -> None:
        """Let something happen in the next turn."""
        # Those who ask are in the middle of something; and the holder may give back what is idle,
        # which must be known here before another call starts with it.
        loop = asyncio.get_running_loop()
        if not self._happenings or loop is not self._loop:  # the one before has ended
            self._loop = loop
            loop.call_soon(self._let_happen)
        self._happenings.append(happens)

    def _let_happen(self) -> None:
        happenings, self._happenings = self._happenings, deque()
        effects: list[Effect] = []
        try:
            while happenings:
                happens = happenings.popleft()
                self._holder.says_later = bool(happenings)
                effects += happens(read_uptime())
        finally:
            self._holder.says_later = False
            for happens in happenings:  # what failed is no reason to forget them
                self.do_later(happens)
            self._apply_effects(effects)
