"""How does one task go through its call, once an engine has taken it?

Of one that waited its state is written before its tool begins: a process that is killed leaves a
task of which it is known whether its tool may have run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec.structs import force_setattr, replace

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.background.late_writing import TaskWriter
from tool_engine.background.places import Places
from tool_engine.calls.call import ANONYMOUS
from tool_engine.calls.task_calls import BegunCall, TaskCalls
from tool_engine.errors import (
    AdmissionError,
    CircuitOpenError,
    ControllerClosedError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    SlotRejectedError,
)
from tool_engine.interfaces import AdmissionController, RecordStorage, Slot
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.progress import ToolProgress
from tool_engine.model.record import CallEntry
from tool_engine.model.settings.concurrency import CollisionPolicy
from tool_engine.model.settings.settable import settable
from tool_engine.model.task import INPUT_REQUIRED, QUEUED, RUNNING, KeptTask, TaskState

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_LIMITS: Final = (
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    CircuitOpenError,
    SlotRejectedError,
)
"""What the queue's limits say to a caller; a task waits on."""
_PAUSE: Final = 0.1
"""The least seconds until a refused task asks for a slot again."""
_LONGEST_PAUSE: Final = 5.0
_TAKEN: Final = Refusal(
    "cancelled", "another engine took this one for dead, and has the task now: look there"
)
_TURNS: Final = 4
"""Turns of the loop that a tool gets to end before the disk is asked to have its task."""
_PATIENCE: Final = 1e9
"""Seconds that a task may wait in line: its `ttl` bounds it."""


class _EndedError(AdmissionError):
    """A task has to end while it waits."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        # Of this one alone: its kind has none.
        self.__dict__["error_type"] = refusal.error_type


class Home(Protocol):
    """What runs tasks: see `Feeding`."""

    controller: AdmissionController
    storage: TaskStorage
    records: RecordStorage | None
    """Where the records of its calls are kept; None: apart from tasks, or its program's way."""
    writer: TaskWriter
    clock: SharedClock
    places: Places

    def look_in_line(self) -> None:
        """Take more tasks, since a place has come free."""


@settable
class TaskRun(msgspec.Struct, eq=False):
    """A task that this engine has taken: it ends here, or is given back."""

    _engine: ToolEngine
    kept: KeptTask
    _home: Home
    """Where it is kept, and has its place."""
    slot: Any = None
    """The slot of its call, until that has it."""
    free_id: str | None = None
    """The id of a call that was begun for it, and never made; None: there was none."""
    begun: BegunCall | None = None
    """Its call, whose tool has begun to run before the task has an asyncio task; None: none has."""
    task: Any = None
    """The asyncio task that runs it."""
    result: ToolExecutionResult | None = None
    has_begun: bool = False
    """Whether its tool may have run."""
    is_lost: bool = False
    """Whether another engine has it by now."""
    is_unwritten: bool = False
    """Whether the storage does not know yet how it is."""
    ending: Refusal | None = None
    """Why it has to end; None: it does not."""
    _listener: Callable[[ToolProgress], object] | None = None
    _wait: asyncio.Timeout | None = None
    _is_in_line: bool = False
    _is_plain: bool = False
    """Whether its call comes to its slot without a wait, so that its tool is still the same."""
    has_started: bool = False
    is_over: bool = False
    """Whether its call has ended, if not its task: that is written."""

    def join_line(self) -> None:
        """Take a place among the tasks that wait for a slot."""
        if not self._is_in_line:
            self._is_in_line = True
            if not self.kept.has_place:
                self._home.places.join_line(self.kept.state.tool_name)
            self.kept.has_place = False

    def leave_line(self) -> None:
        """Leave it to another task."""
        if self._is_in_line:
            self._is_in_line = False
            self._home.places.leave_line(self.kept.state.tool_name)
            self._home.look_in_line()

    def begin_tool(self, calls: TaskCalls, begun: BegunCall) -> ToolExecutionResult | None:
        """Run its tool, whose call has its slot, to the first wait; the result if that was all."""
        self.begun, self.has_begun = begun, True
        begun.call.context = self._own_context()
        self._home.places.note_begun()
        return calls.run_tool(begun)

    def find_refusal(self) -> Refusal | None:
        """Return why its call is not made; None: it is."""
        return self.ending or self._find_refusal()

    def make_call(self, calls: TaskCalls) -> Coroutine[Any, Any, ToolExecutionResult]:
        """Return what is left of the call of the task, which says here how it goes."""
        begun = self.begun
        if begun is None:
            kept, own = self.kept, self._own_context()
            name, call_id = kept.state.tool_name, self.free_id
            if call_id is not None:
                calls.return_id(call_id)
            return self._engine.execute(name, kept.params, own, call_id=call_id)
        if self.ending is not None and self.task is not None:
            # It has to end since before it had a task to be cancelled.
            self.task.cancel()
        return calls.finish_call(begun)

    def release_slot(self) -> None:
        """Give a slot back that its call has not taken."""
        slot, self.slot = self.slot, None
        if slot is not None:
            self._home.controller.release(slot, outcome=None)

    def refuse(self, refusal: Refusal) -> ToolExecutionResult:
        """End the call without its tool: one result, one record, one event."""
        self.is_over = True
        self.release_slot()
        kept = self.kept
        own = self._own_context()
        return self._engine.refuse(kept.state.tool_name, kept.params, own, refusal)

    def _own_context(self) -> ToolExecutionContext:
        kept = self.kept
        # Of what only another process has, its owner is known at least.
        context = kept.context or ToolExecutionContext(kept.state.owner)
        self._listener = context.on_progress or kept.on_progress
        own = context.for_task(kept.state.id, self, self.take_progress)
        if context is ANONYMOUS:
            # All tasks that were started without a context have this one.
            force_setattr(own, "variables", {})
        return own

    async def take_first_turns(self) -> None:
        """Let its tool end, if it needs no more than a few turns of the loop."""
        for _ in range(_TURNS):
            if self.is_over:
                return
            await asyncio.sleep(0)

    def end(self, refusal: Refusal) -> bool:
        """Have the task end for a reason; False: it has ended."""
        if self.is_over or self.ending is not None:
            return False
        self.ending = refusal
        if self._wait is not None:
            self._wait.reschedule(asyncio.get_running_loop().time())
        elif self.has_started and self.task is not None:
            # One that was cancelled before its first step would do nothing, and so never end.
            self.task.cancel()
        return True

    @property
    def is_held(self) -> bool:
        """True if the storage should say that this engine has the task, which has not ended."""
        return self.kept.is_kept and not (self.is_lost or self.is_over)

    def lose(self) -> None:
        """End the run, since another engine has the task: nothing more of it is written."""
        self.is_lost = True
        self.end(_TAKEN)

    def _find_refusal(self) -> Refusal | None:
        state, tool = self.kept.state, self._engine.get(self.kept.state.tool_name)
        if tool is not None and tool.permission is None:
            wants = tool.concurrency
            self._is_plain = wants.key is None and wants.collision is CollisionPolicy.QUEUE
        if tool is not None and tool.definition_hash != self.kept.definition_hash:
            return self._explain_changed()
        if tool is not None and tool.background == "never" and not self.kept.is_awaited:
            return Refusal("execution_rejected", explain_never(state.tool_name))
        return None

    def _explain_changed(self) -> Refusal:
        name = self.kept.state.tool_name
        return Refusal(
            "execution_rejected",
            f"the definition of {name!r} has changed {self._say_since()}; start it again",
        )

    def _say_since(self) -> str:
        """Return how long ago a tool may have changed of which that is seen now."""
        state = self.kept.state
        since = "since the task was started"
        if state.status == INPUT_REQUIRED:
            since = "while the task waited for consent"
        elif state.call_id is not None:
            since = "while the task waited"
        return f"{since} (seen at {self._home.clock.now():%Y-%m-%d %H:%M:%S} UTC)"

    # What the pipeline says of the call.

    def explain_removed(self) -> Refusal | None:
        """Return what is said where its tool is not there; None: it never was."""
        state = self.kept.state
        if not self.kept.definition_hash:
            return None
        # In the line of this engine it saw the tool leave; before, another one may have had it.
        others = ", or this engine has other tools" if state.call_id is None else ""
        return Refusal(
            "tool_not_found",
            f"the tool {state.tool_name!r} was removed {self._say_since()}{others}; put it back, "
            "and start it again",
        )

    def note_asking(self, call: Any, *, is_asking: bool) -> None:
        """Note that the call waits for consent, or does so no more."""
        self.is_unwritten = True
        status = INPUT_REQUIRED if is_asking else QUEUED
        self.kept.state = replace(self.kept.state, status=status, call_id=call.call_id)
        self._home.places.note_asking(self.kept.state.tool_name, 1 if is_asking else -1)
        if is_asking:
            self.leave_line()
        else:
            self.join_line()

    def admit_nowait(self, request: Any, now: float, call_id: str) -> Any:
        """Return a slot if the call may run and its task is running; None: see `admit`."""
        kept, slot = self.kept, self.slot
        is_written = slot is not None
        if slot is None:
            self.slot = slot = self._home.controller.admit_nowait(request, now, call_id)
        if slot is None or not self._is_plain or self.ending is not None:
            return None
        state = None if is_written else make_running(kept.state, call_id, self._home.clock.now())
        if state is not None and not self._home.writer.change_nowait(kept, state):
            return None
        self.slot = None
        self._note_begun()
        return slot

    def note_call(self, call: Any) -> None:
        """Note the id of the call, which waits: for a slot, or for a call whose run it shares."""
        self.kept.state = replace(self.kept.state, call_id=call.call_id)

    async def admit(self, request: Any, queued: Callable[[], None] | None, call: Any) -> Any:
        """Return a slot for the call, once its task is written as running.

        Raises:
            AdmissionError: The task has to end, or the engine is closed.
        """
        call.held, self.slot = self.slot, None
        if call.held is None:
            self.note_call(call)
            call.held = await self._wait_for_slot(request, queued, call.call_id)
        try:
            await self._begin_task(call)
        except BaseException:
            self._home.controller.release(call.slot, outcome=None)
            call.held = None
            raise
        return call.slot

    async def _wait_for_slot(
        self, request: Any, queued: Callable[[], None] | None, call_id: str
    ) -> Any:
        controller: Any = self._home.controller
        request, loop = replace(request, timeout=_PATIENCE), asyncio.get_running_loop()

        def announce_once() -> None:
            nonlocal queued
            announce, queued = queued, None
            if announce is not None:
                announce()

        self._wait = asyncio.timeout(None)
        try:
            async with self._wait:
                if self.ending is not None:
                    raise _EndedError(self.ending)
                began = asked = loop.time()
                while True:
                    try:
                        slot = await controller.admit(
                            request, announce_once if queued else None, call_id
                        )
                        return _add_wait(slot, asked - began)
                    except ControllerClosedError as error:
                        if controller.explain_shut() != "draining":
                            raise
                        await self._pause_after(error)
                    except _LIMITS as error:
                        await self._pause_after(error)
                    asked = loop.time()
        except TimeoutError:
            if self.ending is None:
                raise
            raise _EndedError(self.ending) from None
        finally:
            self._wait = None

    async def _pause_after(self, error: AdmissionError) -> None:
        self.kept.state = replace(self.kept.state, message=str(error))
        await asyncio.sleep(max(min(error.retry_after or 1.0, _LONGEST_PAUSE), _PAUSE))

    async def _begin_task(self, call: Any) -> None:
        tool = call.plan.tool
        if tool.definition_hash != self.kept.definition_hash:
            # It has changed while consent was asked for.
            raise _EndedError(self._explain_changed())
        if self.ending is not None:
            # Its end and its slot came at once.
            raise _EndedError(self.ending)
        state = make_running(self.kept.state, call.call_id, self._home.clock.now())
        if not await self._home.writer.change(self.kept, state):
            self.is_lost = True
            raise _EndedError(_TAKEN)
        self._note_begun()

    def _note_begun(self) -> None:
        self.has_begun = True
        self._home.places.note_begun()
        self.is_unwritten = False
        self.leave_line()

    def keep_record(self, record: CallEntry) -> None:
        """Have the record of the call written with the end of its task, or else as any other."""
        records, kept = self._home.records, self.kept
        if (
            records is None
            or kept.is_late
            or not self._home.storage.hold_record(kept.state.id, record, records)
        ):
            self._engine.store.append(record)

    def take_progress(self, report: ToolProgress) -> None:
        """Take what the tool reports, at most ten times a second: it only rises."""
        state = self.kept.state
        if not state.is_final and (state.progress is None or report.done >= state.progress.done):
            self.kept.state = replace(state, progress=report)
            self.is_unwritten = True
        if self._listener is not None:
            self._listener(report)


def _add_wait(slot: Slot, seconds: float) -> Slot:
    """Count what was waited before a slot was asked for once more."""
    if isinstance(slot, ConcurrencySlot):  # what a foreign one says is its own affair
        slot.queue_wait += seconds
    return slot


def make_running(state: TaskState, call_id: str, now: datetime) -> TaskState:
    """Return the state of a task whose call has its slot."""
    return replace(state, status=RUNNING, call_id=call_id, started_at=now, message=None)


def explain_never(tool_name: str) -> str:
    """Return why a tool does not run as a task."""
    return (
        f"tool {tool_name!r} runs only while its caller waits (background: never); call it: with "
        "engine.execute, `tool-engine call`, or over HTTP without Prefer: respond-async"
    )
