"""What does a process hold of its cluster whose controller counts for itself what calls use?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tool_engine.admission.cluster.cluster_database import new_life
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.effects import Effect, Lose
from tool_engine.admission.cluster.holder import SURE, Holder
from tool_engine.admission.cluster.leased_call import Call
from tool_engine.admission.cluster.line_up import Entry


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

    def idle_of(self, resource: str) -> int:
        """Return how many units of a resource no call uses, nor is about to."""
        return super().idle_of(resource) - self._count_used(resource)

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
            if call.probe is None:
                del self.running[number]
            else:
                call.entry.units = {}  # it is known until it says what became of it

    def _uncount_units(self, call: Call) -> None:
        for resource, units in call.entry.units.items():
            left = self.used.get(resource, 0) - units
            if left > 0:
                self.used[resource] = left
            else:
                self.used.pop(resource, None)

    def _end_life(self) -> list[Effect]:
        numbers = list(self._list_running())
        for number in numbers:
            self.running[number] = Call(Entry("", self.process, number, {}, 0, 0.0))
        effects = super()._end_life()
        if effects or not numbers:
            return effects or [Lose(())]
        return effects
