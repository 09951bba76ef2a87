"""What becomes of the slot of a call that has ended while its work goes on?

Its work holds it until it has ended. Of work that runs elsewhere this may never be heard, since the
machine that it is on stands still: then the slot is given back after a while, and the end of the
work is known only as `unknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tool_engine.calls.call import Call
from tool_engine.interfaces import AdmissionController, Run, Slot
from tool_engine.logger import get_logger

_log: Final = get_logger(__name__)
_MOST_KNOWN: Final = 1_000
"""The most calls with lost work that can be explained; of more the oldest are forgotten."""


class OverdueWork:
    """The work that goes on without its callers.

    Args:
        controller: Gave the slots.
        lost_after: Seconds that the backend has to say that work elsewhere has ended.
        give_up: Is called with the id of a call after them.
    """

    def __init__(
        self,
        controller: AdmissionController,
        lost_after: float,
        give_up: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._controller = controller
        self._lost_after = lost_after
        self._give_up_work = give_up
        self._lost: dict[str, str] = {}
        """By call ids: what is known of their work, the oldest first."""

    def hold_slot(self, call: Call, slot: Slot, run: Run, outcome: bool | None) -> None:
        """Keep the slot of a detached run until its work has ended or counts as lost."""
        self._controller.mark_overdue(slot, outcome)
        release = partial(self._controller.release, slot)
        run.on_end = release
        if _is_elsewhere(call, run):
            timer = run.get_loop().call_later(self._lost_after, self._give_up, call, slot)
            run.on_end = partial(self._end_wait, call.call_id, timer, release)

    def explain_lost(self, call_id: str) -> str | None:
        """Return what is known of a call whose work was lost, or None."""
        return self._lost.get(call_id)

    def _give_up(self, call: Call, slot: Slot) -> None:
        seconds = self._lost_after
        self._lost[call.call_id] = (
            f"it has ended, and the backend of {call.tool_name!r} has not said within {seconds:g} "
            "s that its work has: whether it ran to its end, or still runs, is unknown; its slot "
            "was given back"
        )
        if len(self._lost) > _MOST_KNOWN:
            del self._lost[next(iter(self._lost))]
        _log.warning(
            "work_lost", call_id=call.call_id, tool_name=call.tool_name, waited_seconds=seconds
        )
        self._controller.release(slot)
        self._give_up_work(call.call_id)

    def _end_wait(self, call_id: str, timer: asyncio.TimerHandle, release: Any) -> None:
        timer.cancel()
        self._lost.pop(call_id, None)
        release()


def _is_elsewhere(call: Call, run: Run) -> bool:
    """Return True if it is a run of the tool, not of what is made of its value in this process."""
    plan = call.plan
    return plan is not None and plan.is_elsewhere and run.function is plan.function
