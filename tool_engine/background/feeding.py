"""Which tasks ask for a slot now, and what becomes of those whose engine is gone?"""

from __future__ import annotations

import asyncio
import secrets
from contextvars import Context
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from tool_engine.background.backlog import Backlog
from tool_engine.background.late_writing import TaskWriter
from tool_engine.background.places import MOST, Places
from tool_engine.background.run import TaskRun
from tool_engine.background.unheard import UnheardTasks
from tool_engine.calls.call import BegunCall
from tool_engine.errors import EngineClosedError, RecordsUnavailableError, ToolEngineError
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.logger import get_logger
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.task import QUEUED, RUNNING, SUCCEEDED, KeptTask, TaskState

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_log: Final = get_logger(__name__)
_PULSE: Final = 1.0
"""Seconds between two looks at what other engines and the clock have done."""
_SHOWN: Final = 0.1
"""Seconds between two writings of progress."""
_MOST_DOUBTED: Final = 10_000
"""The most tasks that are remembered of which the database did not say that it has them."""
_AGAIN: Final = 0.5
"""Seconds until a state is written again that the storage did not take."""


class Feeding:
    """Runs the tasks of an engine, a few at a time.

    Args:
        engine: The engine.
        storage: Where its tasks are kept.
        writer: Writes them there.
        clock: Says what has expired.
        live: The tasks that the program holds, by id.
    """

    def __init__(
        self,
        engine: ToolEngine,
        storage: TaskStorage,
        writer: TaskWriter,
        clock: SharedClock,
        live: WeakValueDictionary[str, KeptTask],
    ) -> None:
        self._engine = engine
        self.storage = storage
        is_plain = type(engine.store).append is ToolKnowledgeStore.append
        self.records = engine.store.storage if is_plain and storage.is_shared else None
        self.writer = writer
        self.places = Places()
        self.backlog = Backlog()
        self.clock = clock
        self._live = live
        self.worker = secrets.token_hex(8)
        self.lease = 15.0
        """Seconds after which an engine counts as dead that gives no sign."""
        self._runs: dict[str, TaskRun] = {}
        # The arguments of those that only this process can run.
        self._bound: dict[str, KeptTask] = {}
        self._is_closing = self._is_cut_off = self._is_for_own = False
        self._news = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._seen: dict[str, tuple[int, float]] = {}
        self.unheard = UnheardTasks()
        self._never_begun: dict[str, None] = {}
        # One timer for all: that of the task whose time is over first.
        self._timer: asyncio.TimerHandle | None = None
        self._next_expiry: datetime | None = None

    def __repr__(self) -> str:
        return f"<Feeding {len(self._runs)} taken>"

    def open(self, *, is_for_own: bool = False) -> None:
        """Begin to run what is queued; a second time changes nothing.

        Args:
            is_for_own: Whether only what no other engine can run is run, until this is called
                without it.
        """
        if self._is_closing:
            return
        if self._loops:
            if self._is_for_own and not is_for_own:
                self._is_for_own = False
                self._expect_others()
            return
        self._is_for_own = is_for_own
        self._expect_others()
        for work in (self._feed_line(), self._tend_tasks(), self._show_progress()):
            # Of no call: what a task does belongs to no caller.
            task = asyncio.get_running_loop().create_task(work, context=Context())
            self._loops.append(task)

    @property
    def runs_all(self) -> bool:
        """True if it runs what is queued, also by other engines."""
        return bool(self._loops) and not self._is_for_own

    def has_room(self, tool_name: str, *, is_bound: bool) -> bool:
        """Return True if a new task of a tool need not wait for others."""
        return (
            (is_bound if self._is_for_own else bool(self._loops))
            and not self.backlog.may_hold(tool_name)
            and self.places.has_room(tool_name)
        )

    def begin_call(self, name: str, params: Any, context: ToolExecutionContext) -> BegunCall | None:
        """Begin the call of a new task, where it need not wait for its slot."""
        pipeline: Any = self._engine._pipeline  # noqa: SLF001 - the engine's other half
        begun: BegunCall | None = pipeline.begin_call(name, params, context)
        return begun

    def give_up_call(self, kept: KeptTask) -> None:
        """Give the slot of a new task back, of which it is not known whether it is kept."""
        begun, kept.begun = kept.begun, None
        self._engine.controller.release(begun.slot, outcome=None)
        # Should it be there after all, it says that it runs; it never did.
        self._never_begun[kept.state.id] = None
        if len(self._never_begun) > _MOST_DOUBTED:
            del self._never_begun[next(iter(self._never_begun))]

    def take_new(self, kept: KeptTask) -> None:
        """Run a task that was just kept, now or in its turn."""
        if kept.is_bound:
            self._bound[kept.state.id] = kept
        if kept.worker == self.worker:
            if kept.state.id not in self._runs and not kept.state.is_final:
                self._begin_run(kept)
        else:
            self.backlog.note_waiting(kept.state.tool_name)
            if kept.state.tool_name not in self.places.full:
                self._news.set()

    def has_run(self, kept: KeptTask) -> bool:
        """Return True if this engine has taken the task, and no other one has it by now."""
        run = self._runs.get(kept.state.id)
        return run is not None and not run.is_lost

    def has_ended(self, kept: KeptTask) -> bool:
        """Return True if the call of a task has ended that this engine has taken."""
        run = self._runs.get(kept.state.id)
        return run is None or run.is_over

    async def end_run(self, kept: KeptTask, refusal: Refusal) -> bool:
        """Have a task end that this engine has taken, and wait until it has.

        Returns:
            False if it has ended otherwise, or another engine has it by now.
        """
        run = self._runs.get(kept.state.id)
        is_ended = run is not None and run.end(refusal)
        if run is not None and run.task is not None:
            await asyncio.wait([run.task])
        return is_ended and run is not None and not run.is_lost

    async def take_queued(self, kept: KeptTask) -> bool:
        """Take a queued task out of its turn; False: another engine has it."""
        question = self.unheard.ask()
        try:
            taken = await self.storage.take(kept.state.id, self.worker)
            if taken is not None:
                self._begin_claimed(taken)
        finally:
            self.unheard.hear(question)
        return taken is not None

    def explain_wait(self, kept: KeptTask) -> str | None:
        """Return what a task waits for that asks for a slot; None: it does not ask."""
        run, call_id = self._runs.get(kept.state.id), kept.state.call_id
        if run is None:
            return None
        if call_id is not None:
            found = self._engine.controller.explain(call_id)
            if found.state == "waiting":
                # Its owner reads it, and so does a client: the calls of others have no names here.
                return str(found.hide_calls(lambda _: False))
        return kept.state.message or "it is about to ask for a slot"

    def describe_place(self, ahead: int) -> str:
        """Return what is said of a task that does not ask yet, with so many before it."""
        said = f"number {ahead + 1} of the tasks that wait to ask for a slot"
        seconds = self.places.estimate_wait(ahead)
        if seconds is None:
            return said
        # Other engines on the database take their share.
        return f"{said}; about {seconds / max(len(self._seen), 1):.2f} s to go"

    async def close(self) -> None:
        """Wait for what has ended to be written, and end the rest."""
        self._is_closing = True
        for task in self._loops:
            task.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        runs = [run.task for run in self._runs.values() if run.task is not None]
        if runs:
            await asyncio.wait(runs, timeout=self._engine.config.close_timeout + 1.0)
        if not self.storage.is_shared:
            await self._end_queued()
        elif self._loops:
            await self._retire_worker()

        if self._timer is not None:
            self._timer.cancel()

    async def _retire_worker(self) -> None:
        try:
            await self.storage.retire(self.worker)
        except RecordsUnavailableError as error:
            # Heirs find out once the lease is over.
            self._note_unread(error)

    def _note_unread(self, error: RecordsUnavailableError) -> None:
        """Say once that the database does not answer, until it has answered."""
        if not self._is_cut_off:
            self._is_cut_off = True
            _log.warning("tasks_not_read", error=str(error))

    async def _end_queued(self) -> None:
        refusal = Refusal("engine_closed", "the engine was closed before the task ran")
        while tasks := await self.storage.claim(self.worker, MOST):
            for kept in tasks:
                run = TaskRun(self._engine, kept, self)
                await self._write_end(run, run.refuse(refusal))

    # In their turn.

    def look_in_line(self) -> None:
        """Take more tasks, since a place has come free."""
        if self.backlog.has_any:
            self.backlog.is_due = True
            self._news.set()

    def _expect_others(self) -> None:
        """Look first for what others have left."""
        if self.storage.is_shared:
            self.backlog.expect_any()
            self._news.set()

    async def _feed_line(self) -> None:
        while not self._is_closing:
            self._news.clear()
            try:
                await self._claim_some()
            except RecordsUnavailableError as error:
                self._note_unread(error)
                await asyncio.sleep(_AGAIN)
                continue
            await self._news.wait()

    async def _claim_some(self) -> None:
        backlog = self.backlog
        while backlog.is_due and not self._is_closing:
            full, share = set(self.places.full), self.places.share
            if share <= 0:
                # What waits there comes before new ones, whose places may come free first.
                backlog.expect_any()
                return
            backlog.begin_look()
            question = self.unheard.ask()
            try:
                tasks = await self.storage.claim(self.worker, share, full, is_own=self._is_for_own)
                self._is_cut_off = False
                backlog.end_look(full, is_whole=len(tasks) < share)
                for kept in tasks:
                    self._begin_claimed(kept)
            finally:
                self.unheard.hear(question)

    def _begin_claimed(self, found: KeptTask) -> None:
        """Run a task that has waited; it ends at once where its time is over."""
        task_id = found.state.id
        if (present := self._runs.get(task_id)) is not None:
            # An engine that took this one for dead has queued it again: a second run would be one
            # too many. One that was given up comes in its turn, once it has ended.
            if not present.is_lost:
                present.kept.worker, present.is_unwritten = found.worker, True
            return
        kept = self._bound.get(task_id) or self._live.get(task_id) or found
        if kept is not found:
            kept.worker, kept.number = found.worker, found.number
            if kept.params is None and found.params is not None:
                kept.params, kept.context = found.params, found.context
        if self.storage.is_shared:
            self._live[task_id] = kept
        run = self._begin_run(kept)
        if kept.state.expires_at <= self.clock.now():
            run.end(_expired_refusal(kept))

    def _begin_run(self, kept: KeptTask) -> TaskRun:
        begun, state = kept.begun, kept.state
        if begun is None:
            run = TaskRun(self._engine, kept, self)
            run.join_line()
        else:
            run, kept.begun = TaskRun(self._engine, kept, self, begun, begun.slot), None
        self._runs[state.id] = run
        if self._next_expiry is None or state.expires_at < self._next_expiry:
            self._watch_expiry(state.expires_at)
        loop = asyncio.get_running_loop()
        run.task = loop.create_task(self._run_task(run), context=kept.run_in or Context())
        return run

    async def _run_task(  # noqa: C901, PLR0912 - each function in between costs at each task
        self, run: TaskRun
    ) -> None:
        kept = run.kept
        try:
            refusal = run.find_refusal()
            if refusal is not None:
                result = run.refuse(refusal)
            else:
                try:
                    result = await run.make_call()
                except asyncio.CancelledError:
                    if run.result is None:
                        raise
                    result = run.result
                finally:
                    run.is_over = True
            is_written = not (run.is_lost or self.storage.is_shared) and result.is_success
            if not (is_written and self._end_nowait(run, result)):
                await self._settle_task(run, result)
        except asyncio.CancelledError:
            if run.ending is None:
                raise
            await self._settle_task(run, run.result or run.refuse(run.ending))
        except (RecordsUnavailableError, EngineClosedError) as error:
            _log.warning("task_not_run", task_id=kept.state.id, error=str(error))
            await self._give_back(run, error)
        finally:
            self._runs.pop(kept.state.id, None)
            if self.records is not None:
                self.storage.release_record(kept.state.id)
            if run.slot is not None:
                run.release_slot()
            if kept.state.is_final:
                self._bound.pop(kept.state.id, None)
            else:
                # Another engine has it, or the database has its end, and its answer was lost.
                kept.wake_waiting()
            run.leave_line()

    async def _settle_task(self, run: TaskRun, result: ToolExecutionResult) -> None:
        """Write how a task ended; one that the closing engine never ran waits for a later one."""
        kept = run.kept
        is_turned_away = result.error_type == "engine_closed" and not run.has_begun
        if run.is_lost:
            await self._read_again(kept)
        elif is_turned_away and self.storage.is_shared and not kept.is_bound and kept.is_kept:
            await self._give_back(run)
        else:
            await self._write_end(run, result)

    def _end_nowait(self, run: TaskRun, result: ToolExecutionResult) -> bool:
        """Write how a task ended where that takes no time; False: nothing was done."""
        return self.writer.change_nowait(run.kept, self._make_end(run, result)) is not None

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

    async def _write_end(self, run: TaskRun, result: ToolExecutionResult) -> None:
        kept, state = run.kept, self._make_end(run, result)
        if self.writer.change_nowait(kept, state) is not None:
            return
        while True:
            try:
                if not await self.writer.change(kept, state):
                    # Unless it was written before, and the answer of the database was lost.
                    await self._read_again(kept)
                    run.is_lost = kept.state.call_id != state.call_id
                return
            except RecordsUnavailableError as error:
                _log.warning("task_not_written", task_id=state.id, error=str(error))
                if self._is_closing:
                    self.storage.release_record(state.id)
                    return
            await asyncio.sleep(_AGAIN)

    async def _read_again(self, kept: KeptTask) -> None:
        """Take a task as the storage has it, since it is not this engine's any more."""
        try:
            now = await self.storage.get(kept.state.id)
        except RecordsUnavailableError as error:
            # Each who asks for the task looks again.
            self._note_unread(error)
            return
        if now is not None:
            kept.worker = now.worker
            kept.take_state(now.state)

    async def _give_back(self, run: TaskRun, error: ToolEngineError | None = None) -> None:
        kept = run.kept
        if error is not None and not kept.is_kept:
            # No other engine knows it.
            refusal = Refusal(error.error_type, str(error))
            await self._write_end(run, run.refuse(refusal))
            return
        self.storage.release_record(kept.state.id)
        kept.state = replace(kept.state, status=QUEUED, message=None, call_id=None)
        try:
            await self.writer.give_back(kept)
        except RecordsUnavailableError as error:
            # An heir finds it, once this engine counts as dead.
            _log.warning("task_not_written", task_id=kept.state.id, error=str(error))
        else:
            self.backlog.note_waiting(kept.state.tool_name)
            self._news.set()

    def _watch_expiry(self, expires: datetime) -> None:
        """Look again when a task's time is over."""
        if self._next_expiry is not None and self._next_expiry <= expires:
            return
        if self._timer is not None:
            self._timer.cancel()
        left = (expires - self.clock.now()).total_seconds()
        loop = asyncio.get_running_loop()
        self._next_expiry = expires
        self._timer = loop.call_later(max(left, 0.0), self._end_expired, context=Context())

    def _end_expired(self) -> None:
        """End the tasks whose time is over."""
        now, self._next_expiry = self.clock.now(), None
        for run in self._runs.values():
            if run.kept.state.expires_at <= now:
                run.end(_expired_refusal(run.kept))
            else:
                self._watch_expiry(run.kept.state.expires_at)

    # Meanwhile.

    async def _tend_tasks(self) -> None:
        loop, looked = asyncio.get_running_loop(), float("-inf")
        while True:
            try:
                # Where there is nothing to do, it gives a sign as often as it must, and no more.
                is_due = bool(self._runs) or loop.time() - looked >= self.lease / 4
                if is_due or await self._has_open():
                    looked = loop.time()
                    await self._look_around()
                self._is_cut_off = False
            except RecordsUnavailableError as error:
                self._note_unread(error)
            await asyncio.sleep(min(_PULSE, self.lease / 4))

    async def _has_open(self) -> bool:
        storage: Any = self.storage
        return not storage.is_shared or bool(await storage.has_open())

    async def _look_around(self) -> None:
        storage = self.storage
        if storage.is_shared:
            await self.clock.learn_time_once()
            self._end_expired()
        now = self.clock.now()
        for kept in await storage.claim_expired(self.worker, now, MOST):
            self._begin_claimed(kept)
        await storage.remove_expired(now)
        if not storage.is_shared:
            return
        await self._look_at_own()
        for worker in self._find_dead(await storage.beat(self.worker)):
            inherited = await storage.inherit(worker, self.worker)
            for kept in inherited:
                await self._take_over(kept)
            await self._close_questions({kept.state.id for kept in inherited})
        self.backlog.is_due = True
        self._news.set()

    async def _look_at_own(self) -> None:
        """Cancel what is to be cancelled, and run what was given to this engine unheard."""
        held = [run for run in self._runs.values() if run.is_held]
        own = dict(await self.storage.list_own(self.worker))
        for each in held:
            if each.kept.state.id not in own:
                await self._give_up_run(each)
        for task_id, reason in own.items():
            run = self._runs.get(task_id)
            if run is not None and reason is not None:
                run.end(Refusal("cancelled", reason))
        for task_id in self.unheard.find_lost(own.keys() - self._runs.keys()):
            kept = await self.storage.get(task_id)
            if kept is not None and kept.worker == self.worker and not self.has_run(kept):
                await self._take_over(kept)

    async def _give_up_run(self, run: TaskRun) -> None:
        """End a run whose task another engine has taken, or has queued again: then it goes on."""
        if not run.is_held:
            return  # it has ended meanwhile, and its end is written or refused
        task_id = run.kept.state.id
        taken = await self.storage.take(task_id, self.worker)
        if taken is None:
            now = await self.storage.get(task_id)
            if now is None or now.worker != self.worker:
                run.lose()
                return
            # It was claimed in its turn meanwhile.
            taken = now
        self._begin_claimed(taken)

    def _find_dead(self, beats: dict[str, int]) -> list[str]:
        """Return the workers whose number has not changed for as long as the lease."""
        now = asyncio.get_running_loop().time()
        for worker, beat in beats.items():
            if worker not in self._seen or self._seen[worker][0] != beat:
                self._seen[worker] = beat, now
        self._seen = {each: seen for each, seen in self._seen.items() if each in beats}
        return [
            each
            for each, (_, since) in self._seen.items()
            if each != self.worker and now - since >= self.lease
        ]

    async def _take_over(self, kept: KeptTask) -> None:
        """Queue a task of a dead engine again, or end it where its tool may have run."""
        run = TaskRun(self._engine, kept, self)
        is_new = self._never_begun.pop(kept.state.id, self) is None
        has_run = kept.state.status == RUNNING and not kept.is_repeatable and not is_new
        if has_run or kept.is_bound:
            what = "while its tool ran: it may have done its work" if has_run else "before it ran"
            cure = "check what it did, and start it again" if has_run else "start it again"
            lost = Refusal("worker_lost", f"the engine that had the task ended {what}; {cure}")
            await self._write_end(run, run.refuse(lost))
        else:
            await self._give_back(run)

    async def _close_questions(self, task_ids: set[str]) -> None:
        """Take back what a dead engine asked for its tasks: no call waits for the answers."""
        asked: Any = self._engine.store.approvals
        if not task_ids or not getattr(asked, "is_shared", False):
            return
        try:
            for request in await asked.pending():
                if request.task_id in task_ids:
                    await asked.claim(request.token)
                    await asked.forget(request.token)
        except ToolEngineError as error:
            # They expire.
            _log.warning("questions_not_closed", error=str(error))

    async def _show_progress(self) -> None:
        """Write what has changed since, for those who look from elsewhere."""
        while self.storage.is_shared:
            await asyncio.sleep(_SHOWN)
            for run in [each for each in self._runs.values() if each.is_unwritten]:
                run.is_unwritten = False
                try:
                    if not await self.writer.write_news(run.kept):
                        await self._give_up_run(run)
                except RecordsUnavailableError:
                    run.is_unwritten = True


def _expired_refusal(kept: KeptTask) -> Refusal:
    return Refusal(
        "timeout",
        f"the task did not end within its ttl of {kept.ttl:g} s; start it with a longer one",
    )
