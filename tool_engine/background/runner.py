"""How is a task run that an engine has taken, and how is its end written?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextvars import Context
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from tool_engine.background.late_writing import TaskWriter
from tool_engine.background.places import Places
from tool_engine.background.run import TaskRun
from tool_engine.calls.task_calls import BegunCall, TaskCalls
from tool_engine.errors import EngineClosedError, RecordsUnavailableError, ToolEngineError
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.logger import get_logger
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.task import QUEUED, SUCCEEDED, KeptTask, TaskState

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_log: Final = get_logger(__name__)
_MOST_DOUBTED: Final = 10_000
"""The most tasks that are remembered of which the database did not say that it has them."""
AGAIN: Final = 0.5
"""Seconds until a state is written again that the storage did not take."""


class Runner:
    """Runs the tasks that one engine has taken.

    Args:
        engine: The engine.
        storage: Where its tasks are kept.
        writer: Writes them there.
        clock: Says what has expired.
        look_in_line: Takes more tasks, since a place has come free.
        note_waiting: Takes a task of a tool that was queued again.
    """

    def __init__(
        self,
        engine: ToolEngine,
        storage: TaskStorage,
        writer: TaskWriter,
        clock: SharedClock,
        look_in_line: Callable[[], None],
        note_waiting: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._calls = TaskCalls(engine._pipeline)  # noqa: SLF001 - the engine's other half
        self.controller = self._calls.controller
        self.storage = storage
        is_plain = type(engine.store).append is ToolKnowledgeStore.append
        self.records = engine.store.storage if is_plain and storage.is_shared else None
        self.writer = writer
        self.clock = clock
        self.places = Places()
        self.look_in_line = look_in_line
        self._note_waiting = note_waiting
        self.runs: dict[str, TaskRun] = {}
        self.bound: dict[str, KeptTask] = {}
        """The tasks that only this process can run, since it alone has their arguments."""
        self.is_closing = self.is_cut_off = False
        self._never_begun: dict[str, None] = {}
        # One timer for all: that of the task whose time is over first.
        self._timer: asyncio.TimerHandle | None = None
        self._next_expiry: datetime | None = None

    def __repr__(self) -> str:
        return f"<Runner {len(self.runs)} taken>"

    def stop_timer(self) -> None:
        """End no task any more because its time is over."""
        if self._timer is not None:
            self._timer.cancel()

    def has_begun(self, kept: KeptTask) -> bool:
        """Return False if the call of a task was begun here, and is known never to have run."""
        return self._never_begun.pop(kept.state.id, self) is not None

    def begin_call(self, name: str, params: Any, context: ToolExecutionContext) -> BegunCall | None:
        """Begin the call of a new task, where it need not wait for its slot."""
        return self._calls.begin_call(name, params, context)

    def give_up_call(self, kept: KeptTask) -> None:
        """Give the slot of a new task back, of which it is not known whether it is kept."""
        begun, kept.begun = kept.begun, None
        self.controller.release(begun.slot, outcome=None)
        # Should it be there after all, it says that it runs; it never did.
        self._never_begun[kept.state.id] = None
        if len(self._never_begun) > _MOST_DOUBTED:
            del self._never_begun[next(iter(self._never_begun))]

    def has_run(self, kept: KeptTask) -> bool:
        """Return True if this engine has taken the task, and no other one has it by now."""
        run = self.runs.get(kept.state.id)
        return run is not None and not run.is_lost

    async def end_run(self, kept: KeptTask, refusal: Refusal) -> bool:
        """Have a task end that this engine has taken, and wait until it has.

        Returns:
            False if it has ended otherwise, or another engine has it by now.
        """
        run = self.runs.get(kept.state.id)
        is_ended = run is not None and run.end(refusal)
        if run is not None and run.task is None:
            # Its tool asks for it in its first step.
            await asyncio.sleep(0)
        if run is not None and run.task is not None:
            await asyncio.wait([run.task])
        return is_ended and run is not None and not run.is_lost

    async def end_unbegun(self, tasks: Iterable[KeptTask], refusal: Refusal) -> None:
        """End tasks that this engine was given and has not begun, and write their ends at once."""
        written: Collection[str] = ()
        ended = []
        for kept in tasks:
            run = self.runs[kept.state.id] = TaskRun(self._engine, kept, self, ending=refusal)
            ended.append((run, run.refuse(refusal)))
        try:
            written = await self.storage.end_all(
                [(run.kept, self._make_end(run, result)) for run, result in ended]
            )
        except RecordsUnavailableError as error:
            # Below each is tried again until it is written.
            self.note_unread(error)
        for run, result in ended:
            if run.kept.state.id not in written:
                await self.write_end(run, result)
            self._leave_run(run)

    def explain_wait(self, kept: KeptTask) -> str | None:
        """Return what a task waits for that asks for a slot; None: it does not ask."""
        run, call_id = self.runs.get(kept.state.id), kept.state.call_id
        if run is None:
            return None
        if call_id is not None:
            found = self.controller.explain(call_id)
            if found.state in ("waiting", "sharing"):
                # Its owner reads it, and so does a client: the calls of others have no names here.
                return str(found.hide_calls(lambda _: False))
        return kept.state.message or "it is about to ask for a slot"

    def begin_run(self, kept: KeptTask) -> TaskRun:
        """Run a task that this engine has taken, to its end or its first wait at once."""
        begun, state, calls = kept.begun, kept.state, self._calls
        run, kept.begun = TaskRun(self._engine, kept, self), None
        self.runs[state.id] = run
        if self._next_expiry is None or state.expires_at < self._next_expiry:
            self._watch_expiry(state.expires_at)
        room = kept.run_in or Context()
        if begun is None:
            run.join_line()
        elif calls.is_current(begun):
            result = room.run(run.begin_tool, calls, begun)
            if result is not None:
                self._take_result(run, result, room)
                return run
            if calls.asks_turn(begun):
                asyncio.get_running_loop().call_soon(
                    self._take_turn, run, begun, room, context=room
                )
                return run
        else:
            # Some tool has changed, or the engine is closed: it is found out as of any other call.
            run.slot, run.free_id = begun.slot, begun.call.call_id
        self._make_run_task(run, room)
        return run

    def _take_turn(self, run: TaskRun, begun: BegunCall, room: Context) -> None:
        """Go on with a tool that asked for one turn of the loop: many end then."""
        result = None if run.ending is not None else self._calls.take_turn(begun)
        if result is not None:
            self._take_result(run, result, room)
        else:
            self._make_run_task(run, room)

    def _take_result(self, run: TaskRun, result: ToolExecutionResult, room: Context) -> None:
        """End a task that needed no asyncio task so far, and needs one only to be written."""
        run.result = result
        if self._end_at_once(run, result):
            self._leave_run(run)
        else:
            self._make_run_task(run, room)

    def _make_run_task(self, run: TaskRun, room: Context) -> None:
        run.task = asyncio.get_running_loop().create_task(self._run_task(run), context=room)
        run.task.add_done_callback(partial(self._end_unstarted, run))

    def _end_unstarted(self, run: TaskRun, _: object) -> None:
        """Let go of a task whose loop ended before its first step: that did nothing."""
        if run.has_started:
            return
        if (begun := run.begun) is not None:
            result = run.result or self._calls.break_off(begun)
            self.writer.change_nowait(run.kept, self._make_end(run, result))
        self._leave_run(run)
        if begun is not None and not begun.run.is_done:
            begun.run.close()  # at last: a tool may raise anything

    async def _run_task(self, run: TaskRun) -> None:
        kept = run.kept
        run.has_started = True
        try:
            result = run.result or await self._make_call(run)
            if not self._end_at_once(run, result):
                await self._settle_task(run, result)
        except asyncio.CancelledError:
            if run.ending is None:
                raise
            await self._settle_task(run, run.result or run.refuse(run.ending))
        except (RecordsUnavailableError, EngineClosedError) as error:
            _log.warning("task_not_run", task_id=kept.state.id, error=str(error))
            await self.give_back(run, error)
        finally:
            self._leave_run(run)

    async def _make_call(self, run: TaskRun) -> ToolExecutionResult:
        """Make the call of a task, or refuse it."""
        refusal = None if run.begun is not None else run.find_refusal()
        if refusal is not None:
            return run.refuse(refusal)
        try:
            return await run.make_call(self._calls)
        except asyncio.CancelledError:
            if run.result is None:
                raise
            return run.result
        finally:
            run.is_over = True

    def _leave_run(self, run: TaskRun) -> None:
        """Let go of a task that has ended, or that another engine has by now."""
        kept = run.kept
        self.runs.pop(kept.state.id, None)
        if self.records is not None and (kept.is_kept or kept.is_late):
            self.storage.release_record(kept.state.id)
        if run.slot is not None:
            run.release_slot()
        if kept.state.is_final:
            self.bound.pop(kept.state.id, None)
        else:
            # Another engine has it, or the database has its end, and its answer was lost.
            kept.wake_waiting()
        run.leave_line()
        # It knows the run: without a cycle both are freed at once.
        run.begun = None

    async def _settle_task(self, run: TaskRun, result: ToolExecutionResult) -> None:
        """Write how a task ended; one that the closing engine never ran waits for a later one."""
        kept = run.kept
        is_turned_away = result.error_type == "engine_closed" and not run.has_begun
        if run.is_lost:
            await self.read_again(kept)
        elif is_turned_away and self.storage.is_shared and not kept.is_bound and kept.is_kept:
            await self.give_back(run)
        else:
            await self.write_end(run, result)

    def _end_at_once(self, run: TaskRun, result: ToolExecutionResult) -> bool:
        """Write how a task ended where that takes no time; False: nothing was done."""
        run.is_over = True
        kept = run.kept
        takes_time = kept.is_kept and self.storage.is_shared
        if run.is_lost or takes_time or not result.is_success:
            return False
        state = self._make_end(run, result)
        if kept.is_kept:
            return self.storage.change_nowait(kept, state) is not None
        return self.writer.change_nowait(kept, state) is not None

    def _make_end(self, run: TaskRun, result: ToolExecutionResult) -> TaskState:
        """Return the last state of a task."""
        kept, now = run.kept, self.clock.now()
        state = kept.state
        expires = state.expires_at
        if expires <= now:
            # It ended because its time was over, and is kept as long once more.
            expires = now + timedelta(seconds=kept.ttl)
        return replace(
            state,
            status=SUCCEEDED if result.is_success else result.outcome.value,
            message=result.error if run.ending is None else run.ending.error,
            call_id=result.call_id,
            ended_at=now,
            expires_at=expires,
            result=result,
        )

    async def write_end(self, run: TaskRun, result: ToolExecutionResult) -> None:
        kept, state = run.kept, self._make_end(run, result)
        if self.writer.change_nowait(kept, state) is not None:
            return
        while True:
            try:
                if not await self.writer.change(kept, state):
                    # Unless it was written before, and the answer of the database was lost.
                    await self.read_again(kept)
                    run.is_lost = kept.state.call_id != state.call_id
                return
            except RecordsUnavailableError as error:
                _log.warning("task_not_written", task_id=state.id, error=str(error))
                if self.is_closing:
                    self.storage.release_record(state.id)
                    return
            await asyncio.sleep(AGAIN)

    async def read_again(self, kept: KeptTask) -> None:
        """Take a task as the storage has it, since it is not this engine's any more."""
        try:
            now = await self.storage.get(kept.state.id)
        except RecordsUnavailableError as error:
            # Each who asks for the task looks again.
            self.note_unread(error)
            return
        if now is not None:
            kept.worker = now.worker
            kept.take_state(now.state)

    async def give_back(self, run: TaskRun, error: ToolEngineError | None = None) -> None:
        kept = run.kept
        if error is not None and not kept.is_kept:
            # No other engine knows it.
            refusal = Refusal(error.error_type, str(error))
            await self.write_end(run, run.refuse(refusal))
            return
        self.storage.release_record(kept.state.id)
        kept.state = replace(kept.state, status=QUEUED, message=None, call_id=None)
        try:
            await self.writer.give_back(kept)
        except RecordsUnavailableError as error:
            # An heir finds it, once this engine counts as dead.
            _log.warning("task_not_written", task_id=kept.state.id, error=str(error))
        else:
            self._note_waiting(kept.state.tool_name)

    def _watch_expiry(self, expires: datetime) -> None:
        """Look again when a task's time is over."""
        if self._next_expiry is not None and self._next_expiry <= expires:
            return
        if self._timer is not None:
            self._timer.cancel()
        left = (expires - self.clock.now()).total_seconds()
        loop = asyncio.get_running_loop()
        self._next_expiry = expires
        self._timer = loop.call_later(max(left, 0.0), self.end_expired, context=Context())

    def end_expired(self) -> None:
        """End the tasks whose time is over."""
        now, self._next_expiry = self.clock.now(), None
        for run in self.runs.values():
            if run.kept.state.expires_at <= now:
                run.end(expired_refusal(run.kept))
            else:
                self._watch_expiry(run.kept.state.expires_at)

    def note_unread(self, error: RecordsUnavailableError) -> None:
        """Say once that the database does not answer, until it has answered."""
        if not self.is_cut_off:
            self.is_cut_off = True
            _log.warning("tasks_not_read", error=str(error))


def expired_refusal(kept: KeptTask) -> Refusal:
    """Return why a task ends whose time is over."""
    return Refusal(
        "timeout",
        f"the task did not end within its ttl of {kept.ttl:g} s; start it with a longer one",
    )
