"""Which calls are on their way, and how is one of them ended by other than its caller?

A call that waits for nothing is over before it could be looked for. So only those are known that
wait: for consent, for a slot, for the call whose run they share, for their tool, or for another
attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from tool_engine.admission.waiting import Waiter
from tool_engine.backends.runs import Runs
from tool_engine.backends.task import LEASE_LOST, STOPPED, WITHDRAWN, task_of
from tool_engine.calls.call import Call, name_call
from tool_engine.calls.failure import Failure
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import Slot
from tool_engine.model.settings.settable import settable

ASKING: Final = "asking"
QUEUED: Final = "queued"
SHARING: Final = "sharing"
RUNNING: Final = "running"
PAUSING: Final = "pausing"
_MOST_RESERVED: Final = 100_000


class StoppedError(Exception):
    """A wait has ended because its call was ended from outside."""


class PresentCalls:
    """The calls of one pipeline that are on their way.

    Args:
        prefix: The beginning of their ids.
        runs: The runs that callers wait for.
        pauses: The calls between two attempts.
    """

    def __init__(self, prefix: str, runs: Runs, pauses: Collection[Call]) -> None:
        self._prefix = prefix
        self._runs = runs
        self._pauses = pauses
        self._reserved: dict[str, None] = {}
        self.waits: dict[str, Wait | SlotWait] = {}
        """Those that wait before they run, by id."""

    def reserve_id(self) -> str:
        """Return the id of a call that is still to be made."""
        call_id = name_call(self._prefix)
        self._reserved[call_id] = None
        if len(self._reserved) > _MOST_RESERVED:
            del self._reserved[next(iter(self._reserved))]
        return call_id

    def claim_id(self, call_id: str) -> str:
        """Return a reserved id, which is good for one call.

        Raises:
            ConfigurationError: It is none, or it was used.
        """
        if not isinstance(call_id, str) or call_id not in self._reserved:
            raise ConfigurationError(
                f"{call_id!r} is no id that waits for its call; reserve one for each call with "
                "engine.calls.reserve_id()"
            )
        del self._reserved[call_id]
        return call_id

    def return_id(self, call_id: str) -> None:
        """Let another call have the id of one that was begun, and is not run."""
        self._reserved[call_id] = None

    def check_inner(self, call_id: str | None) -> None:
        """Raise `ConfigurationError` if a tool gives the id of a call that it makes."""
        if call_id is not None:
            raise ConfigurationError("a call that a tool makes takes no call_id; leave it out")

    def find_slots(self) -> list[Any]:
        """Return the slots of the calls that wait for their tools, or are to be woken for that."""
        calls = [run.call for run in self._runs.running]
        # Each of the others that has a lane was given what a slot stands for.
        calls += [wait.call for wait in self.waits.values() if wait.call.lane is not None]
        return [call.slot for call in calls]

    def __iter__(self) -> Iterator[tuple[Call, str, float]]:
        """Yield each call with its state, and when that began on the loop's clock."""
        for wait in self.waits.values():
            yield wait.call, wait.state, wait.began
        for run in self._runs.running:
            yield run.call, RUNNING, run.call.slot.acquired_at
        for call in self._pauses:
            yield call, PAUSING, call.slot.acquired_at

    def stop(self, call_id: str, reason: str) -> bool:
        """End a call, whose caller gets a result; False: it has ended, or there is none."""
        wait = self.waits.get(call_id)
        if wait is not None:
            return wait.stop(reason)
        for run in self._runs.running:
            if run.call.call_id == call_id:
                if run.is_ending:
                    return False
                run.call.stopped = reason
                run.end(STOPPED)
                return True
        for call in self._pauses:
            if call.call_id == call_id and not call.bell.done():
                call.stopped = reason
                call.end_pause(STOPPED)
                return True
        return False

    def withdraw(
        self,
        explain_gone: Callable[[Call], Failure | None],
        is_another: Callable[[Call, Any], bool],
    ) -> None:
        """End the calls that wait for consent or a slot, or pause, and whose tool is gone.

        Those that wait for consent to what is another tool by now ask anew.

        Args:
            explain_gone: Returns why the tool of a call is not there; None: it is.
            is_another: Whether a call has another plan by now than this one.
        """
        for wait in list(self.waits.values()):
            if wait.state is SHARING:
                continue
            if (failure := explain_gone(wait.call)) is not None:
                wait.stop(failure)
            elif wait.plan is not None and is_another(wait.call, wait.plan):
                wait.stop(None)
        for call in list(self._pauses):
            if explain_gone(call) is not None:
                call.end_pause(WITHDRAWN)

    def end_lost(self, slots: Collection[Slot]) -> None:
        """End the calls of slots that others may have by now; see `interfaces.AdmissionUser`."""
        for run in list(self._runs.running):
            if run.call.slot in slots:
                run.end(LEASE_LOST)
        for call in self._pauses:
            if call.slot in slots:
                call.end_pause(LEASE_LOST)


class Stoppable:
    """A wait of a call that can be ended from outside."""

    if not TYPE_CHECKING:
        __slots__ = ()  # the wait has the fields

    call: Call
    task: Any
    cancels: int
    is_stopped: bool

    def leave(self, present: PresentCalls, error: BaseException | None) -> Any:
        """End with what the task sees; return a `StoppedError` in place of an end from outside."""
        present.waits.pop(self.call.call_id, None)
        if not self.is_stopped or self.task.uncancel() > self.cancels:
            return error
        is_all = error is None or isinstance(error, asyncio.CancelledError)
        return StoppedError() if is_all else error

    def stop(self, reason: str | Failure | None) -> bool:
        """End the wait, and with it the call, unless `reason` is None; False: that was done."""
        if self.is_stopped and (reason is None or self.call.stopped is not None):
            return False
        self.call.stopped = reason
        if not self.is_stopped:
            self.is_stopped = True
            self.task.cancel()
        return True


@settable
class Wait(Stoppable, msgspec.Struct, eq=False):
    """One such wait: a context for the task that waits.

    Leaving it raises `StoppedError` where that ended it, and a cancellation by its caller as that.
    """

    _present: PresentCalls
    """Lists the call meanwhile."""
    call: Call
    state: str
    """What it waits for."""
    plan: Any = None
    """What it waits for consent to; None: for none."""
    began: float = 0.0
    task: Any = None
    cancels: int = 0
    """How often its task was cancelled before."""
    is_stopped: bool = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        self.task = task_of(loop)
        self.cancels = self.task.cancelling()
        self._present.waits[self.call.call_id] = self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (found := self.leave(self._present, error)) is not error:
            raise found from error


@settable
class SlotWait(Stoppable, Waiter, eq=False):
    """The wait of a call for its slot, and its place in line."""

    call: Any = None
    task: Any = None
    cancels: int = 0
    is_stopped: bool = False
    state: ClassVar[str] = QUEUED
    plan: ClassVar[None] = None

    @property
    def began(self) -> float:
        """When it began, on the loop's clock."""
        return self.enqueued_at
