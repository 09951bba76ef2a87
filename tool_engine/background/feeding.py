"""Which tasks ask for a slot now, and what becomes of those whose engine is gone?

`runner` runs what is taken here.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from tool_engine.background.backlog import Backlog
from tool_engine.background.late_writing import TaskWriter
from tool_engine.background.leaving import LeftTools
from tool_engine.background.places import MOST
from tool_engine.background.run import TaskRun
from tool_engine.background.runner import AGAIN, Runner, expired_refusal
from tool_engine.background.unheard import UnheardTasks
from tool_engine.calls.call import ANONYMOUS
from tool_engine.calls.task_calls import BegunCall
from tool_engine.errors import (
    EngineClosedError,
    RecordsUnavailableError,
    TaskError,
    ToolEngineError,
)
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.logger import get_logger
from tool_engine.model.call import Refusal
from tool_engine.model.task import QUEUED, RUNNING, KeptTask

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_log: Final = get_logger(__name__)
_PULSE: Final = 1.0
"""Seconds between two looks at what other engines and the clock have done."""
MOST_COUNTED: Final = 1_000
"""Tasks before another one that are counted when that is asked for."""
_SHOWN: Final = 0.1
"""Seconds between two writings of progress."""


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
        self.writer = writer
        self.runner = Runner(engine, storage, writer, clock, self.look_in_line, self._note_waiting)
        self.places = self.runner.places
        self.backlog = Backlog()
        self.clock = clock
        self._live = live
        self.worker = secrets.token_hex(8)
        self.lease = 15.0
        """Seconds after which an engine counts as dead that gives no sign."""
        self._is_for_own = False
        self.is_resting = False
        """Whether no more tasks are taken: the engine is about to end."""
        self._news = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._seen: dict[str, tuple[int, float]] = {}
        self.left = LeftTools(lambda name: engine.get(name) is not None)
        self.unheard = UnheardTasks()

    def __repr__(self) -> str:
        return f"<Feeding {self.runner!r}>"

    def open(self, *, is_for_own: bool = False) -> None:
        """Begin to run what is queued; a second time changes nothing.

        Args:
            is_for_own: Whether only what no other engine can run is run, until this is called
                without it.
        """
        if self.runner.is_closing:
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

    def open_for(self, *, runs_here: bool, is_awaited: bool, is_bound: bool) -> None:
        """Run tasks from now on for one that is started, unless the engine leaves it to others."""
        if self.runs_all:
            return
        if runs_here:
            self.open()
        elif is_awaited and is_bound:
            self.open(is_for_own=True)
        elif is_bound:
            raise TaskError(
                "no other program can run this call: its arguments are secret or no JSON values, "
                "and so stay here; let this engine run tasks, with run_tasks=True"
            )

    @property
    def runs_all(self) -> bool:
        """True if it runs what is queued, also by other engines."""
        return bool(self._loops) and not self._is_for_own

    def has_room(self, tool_name: str, *, is_bound: bool) -> bool:
        """Return True if a new task of a tool need not wait for others."""
        return (
            self.explain_rest() is None
            and (is_bound if self._is_for_own else bool(self._loops))
            and not self.backlog.may_hold(tool_name)
            and self.places.has_room(tool_name)
        )

    def begin_plainly(self, name: Any, params: Any) -> BegunCall | None:
        """Begin the call of a new task without an owner, if it need not wait; None: it must.

        None, too, where its tool runs for those only who wait for it.
        """
        if not self._loops or self.backlog.has_any or not isinstance(name, str):
            return None
        if not self.places.has_room(name):
            return None
        begun = self.runner.begin_call(name, params, ANONYMOUS)
        if begun is not None and begun.plan.tool.background == "never":
            self.runner.controller.release(begun.slot, outcome=None)
            return None
        return begun

    def take_place(self, kept: KeptTask) -> None:
        """Have this engine run a new task, and keep a place for it if it has no slot.

        What is started while it is written finds the place taken.
        """
        kept.worker = self.worker
        if kept.begun is None:
            kept.has_place = True
            self.places.join_line(kept.state.tool_name)

    def leave_place(self, kept: KeptTask) -> None:
        """Give the place of a task back that does not run."""
        if kept.has_place:
            kept.has_place = False
            self.places.leave_line(kept.state.tool_name)
            self.look_in_line()

    def take_new(self, kept: KeptTask) -> None:
        """Run a task that was just kept, now or in its turn."""
        if kept.is_bound:
            self.runner.bound[kept.state.id] = kept
        if kept.worker == self.worker:
            if kept.state.id not in self.runner.runs and not kept.state.is_final:
                self.runner.begin_run(kept)
        else:
            self.backlog.note_waiting(kept.state.tool_name)
            if kept.state.tool_name not in self.places.full:
                self._news.set()

    def end_question(self, question: int, kept: KeptTask) -> None:
        """Note that the database answered for a new task, and let its call go if it is not run."""
        self.unheard.hear(question)
        if kept.begun is not None:
            self.runner.give_up_call(kept)

    async def take_queued(self, task_id: str) -> bool:
        """Take a queued task out of its turn; False: another engine has it.

        Raises:
            EngineClosedError: What would be taken now could not end: nothing would hear of it.
        """
        self.require_open(task_id)
        if self.runner.is_closing:
            return False  # it ends with the engine
        question = self.unheard.ask()
        try:
            for taken in await self.storage.take([task_id], self.worker):
                if self.runner.is_closing:
                    await self.runner.give_back(TaskRun(self._engine, taken, self.runner))
                    self.require_open(task_id)
                self._begin_claimed(taken)
                return True
            return False
        finally:
            self.unheard.hear(question)

    async def end_queued(self, task_ids: Collection[str], refusal: Refusal) -> Collection[str]:
        """End those of some tasks that wait in their turn, all in one; return their ids.

        Raises:
            EngineClosedError: The engine is closed.
        """
        if not task_ids:
            return ()
        self.require_open(next(iter(task_ids)))
        if self.runner.is_closing:
            return ()
        # What was taken ends, also when its caller is cancelled in the middle of it.
        return await asyncio.shield(self._end_queued_now(task_ids, refusal))

    async def _end_queued_now(self, task_ids: Collection[str], refusal: Refusal) -> Collection[str]:
        question, ended = self.unheard.ask(), []
        try:
            for taken in await self.storage.take(task_ids, self.worker):
                if taken.state.id in self.runner.runs:
                    self._begin_claimed(taken)
                else:
                    ended.append(self._recall_task(taken))
            await self.runner.end_unbegun(ended, refusal)
        finally:
            self.unheard.hear(question)
        return {kept.state.id for kept in ended}

    def require_open(self, task_id: str) -> None:
        """Raise EngineClosedError if a task does not end here any more, whatever is done."""
        is_left = self.runner.is_closing and self.storage.is_shared
        if is_left and task_id not in self.runner.runs:
            raise EngineClosedError(
                f"the engine is closed, and the task {task_id} is left to others; ask for it in an "
                "open engine on the same database"
            )

    def explain_rest(self) -> str | None:
        """Return why no task is taken now, which other engines may run; None: some are."""
        if self.is_resting:
            return "about to end"
        return self.runner.controller.explain_shut()

    async def describe_wait(self, kept: KeptTask) -> None:
        """Say what a queued task waits for."""
        state = kept.state
        if state.status != QUEUED:
            return
        message = self.runner.explain_wait(kept)
        if state.expires_at <= self.clock.now():
            message = "its ttl is over: it ends as soon as an engine that runs tasks looks"
        if message is None and kept.worker not in (None, self.worker):
            message = "another process has it, and asks for a slot there"
        if message is None and state.tool_name in self._find_left():
            message = "this engine has no such tool, and leaves it to others for a while"
        if message is None:
            ahead = await self.storage.count_ahead(kept, MOST_COUNTED + 1)
            message = self.describe_place(ahead)
        if kept.state is state:
            kept.state = replace(state, message=message)

    def describe_place(self, ahead: int) -> str:
        """Return what is said of a task that does not ask yet, with so many before it."""
        is_more = ahead > MOST_COUNTED
        said = f"number {ahead + 1} of the tasks that wait to ask for a slot"
        if is_more:
            said = f"more than {MOST_COUNTED:,} tasks wait to ask for a slot before it"
        if (because := self.explain_rest()) is not None:
            return f"{said}; this engine is {because}, and takes none of them"
        seconds = self.places.estimate_wait(ahead) if self.runs_all else None
        if seconds is None:
            return said
        # Other engines on the database take their share, unless they are paused.
        others = max(len(self._seen), 1)
        if is_more:
            return f"{said}; more than {seconds / others:.2f} s to go"
        return f"{said}; {'about' if others == 1 else 'at most about'} {seconds:.2f} s to go"

    async def close(self) -> None:
        """Wait for what has ended to be written, and end the rest."""
        self.runner.is_closing = True
        for task in self._loops:
            task.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        patience = self._engine.config.close_timeout + 1.0
        # Tasks that are being started or cancelled: what would run later has no end.
        await self.unheard.wait_until_heard(patience)
        runs = [run.task for run in self.runner.runs.values() if run.task is not None]
        if runs:
            await asyncio.wait(runs, timeout=patience)
        if not self.storage.is_shared:
            await self._end_queued()
        elif self._loops:
            await self._retire_worker()

        self.runner.stop_timer()

    async def _retire_worker(self) -> None:
        try:
            await self.storage.retire(self.worker)
        except RecordsUnavailableError as error:
            # Heirs find out once the lease is over.
            self.runner.note_unread(error)

    async def _end_queued(self) -> None:
        refusal = Refusal("engine_closed", "the engine was closed before the task ran")
        while tasks := await self.storage.claim(self.worker, MOST):
            for kept in tasks:
                run = TaskRun(self._engine, kept, self.runner)
                await self.runner.write_end(run, run.refuse(refusal))

    # In their turn.

    def _note_waiting(self, tool_name: str) -> None:
        self.backlog.note_waiting(tool_name)
        self._news.set()

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
        while not self.runner.is_closing:
            self._news.clear()
            try:
                await self._claim_some()
            except RecordsUnavailableError as error:
                self.runner.note_unread(error)
                await asyncio.sleep(AGAIN)
                continue
            await self._news.wait()

    async def _claim_some(self) -> None:
        backlog = self.backlog
        while backlog.is_due and not self.runner.is_closing:
            full, share = {*self.places.full, *self._find_left()}, self.places.share
            if share <= 0 or self.explain_rest() is not None:
                # What waits there comes before new ones, whose places may come free first.
                backlog.expect_any()
                return
            backlog.begin_look()
            question = self.unheard.ask()
            try:
                tasks = await self.writer.claim(self.worker, share, full, is_own=self._is_for_own)
                self.runner.is_cut_off = False
                taken = [kept.state.tool_name for kept in tasks]
                backlog.end_look(full, taken, is_whole=len(tasks) < share)
                left = []
                for kept in tasks:
                    if await self._leaves_task(kept):
                        left.append(kept)
                    else:
                        self._begin_claimed(kept)
                for kept in left:
                    await self.runner.give_back(TaskRun(self._engine, kept, self.runner))
                backlog.rest_while_full({*self.places.full, *self._find_left()})
            finally:
                self.unheard.hear(question)

    def _find_left(self) -> set[str]:
        """Return the tools whose tasks wait for another engine, as long as there is one."""
        others = self._seen.keys() - {self.worker}
        return self.left.find_names() if others else set()

    async def _leaves_task(self, found: KeptTask) -> bool:
        """Return True if a task that was just taken is for an engine that has its tool."""
        name = found.state.tool_name
        if not self.storage.is_shared or found.is_bound or self._engine.get(name) is not None:
            return False
        # The other one may have begun a moment ago.
        with suppress(RecordsUnavailableError):
            self._find_dead(await self.storage.beat(self.worker))
        return self.left.leaves(name) and name in self._find_left()

    def _begin_claimed(self, found: KeptTask) -> None:
        """Run a task that has waited; it ends at once where its time is over."""
        task_id = found.state.id
        if (present := self.runner.runs.get(task_id)) is not None:
            # An engine that took this one for dead has queued it again: a second run would be one
            # too many. One that was given up comes in its turn, once it has ended.
            if not present.is_lost:
                present.kept.worker, present.is_unwritten = found.worker, True
            return
        kept = self._recall_task(found)
        run = self.runner.begin_run(kept)
        if kept.state.expires_at <= self.clock.now():
            run.end(expired_refusal(kept))

    def _recall_task(self, found: KeptTask) -> KeptTask:
        """Return the task that the program holds already, if it holds one that was given to it."""
        task_id = found.state.id
        kept = self.runner.bound.get(task_id) or self._live.get(task_id) or found
        if kept is not found:
            kept.worker, kept.number = found.worker, found.number
            if kept.params is None and found.params is not None:
                kept.params, kept.context = found.params, found.context
        if self.storage.is_shared:
            self._live[task_id] = kept
        return kept

    # Meanwhile.

    async def _tend_tasks(self) -> None:
        loop, looked = asyncio.get_running_loop(), float("-inf")
        while True:
            try:
                # Where there is nothing to do, it gives a sign as often as it must, and no more.
                is_due = bool(self.runner.runs) or loop.time() - looked >= self.lease / 4
                if is_due or await self._has_open():
                    looked = loop.time()
                    await self._look_around()
                self.runner.is_cut_off = False
            except RecordsUnavailableError as error:
                self.runner.note_unread(error)
            if self.backlog.is_due:
                self._news.set()  # what held it up, such as a pause, may be over
            await asyncio.sleep(min(_PULSE, self.lease / 4))

    async def _has_open(self) -> bool:
        storage: Any = self.storage
        return not storage.is_shared or bool(await storage.has_open())

    async def _look_around(self) -> None:
        storage = self.storage
        if storage.is_shared:
            await self.clock.learn_time_once()
            self.runner.end_expired()
        now = self.clock.now()
        for kept in await storage.claim_expired(self.worker, now, MOST):
            self._begin_claimed(kept)
        await storage.remove_expired(now)
        if not storage.is_shared:
            return
        await self._look_at_own()
        for worker in self._find_dead(await storage.beat(self.worker)):
            inherited = await storage.inherit(worker, self.worker)
            # Before one of them asks anew: that question is open for the same task.
            await self._close_questions({kept.state.id for kept in inherited})
            for kept in inherited:
                await self._take_over(kept)
        self.backlog.look_for_others()
        self._news.set()

    async def _look_at_own(self) -> None:
        """Cancel what is to be cancelled, and run what was given to this engine unheard."""
        held = [run for run in self.runner.runs.values() if run.is_held]
        own = dict(await self.storage.list_own(self.worker))
        for each in held:
            if each.kept.state.id not in own:
                await self._give_up_run(each)
        for task_id, reason in own.items():
            run = self.runner.runs.get(task_id)
            if run is not None and reason is not None:
                run.end(Refusal("cancelled", reason))
        for task_id in self.unheard.find_lost(own.keys() - self.runner.runs.keys()):
            kept = await self.storage.get(task_id)
            if kept is not None and kept.worker == self.worker and not self.runner.has_run(kept):
                await self._take_over(kept)

    async def _give_up_run(self, run: TaskRun) -> None:
        """End a run whose task another engine has taken, or has queued again: then it goes on."""
        if not run.is_held:
            return  # it has ended meanwhile, and its end is written or refused
        task_id = run.kept.state.id
        taken = await self.storage.take([task_id], self.worker)
        if not taken:
            now = await self.storage.get(task_id)
            if now is None or now.worker != self.worker:
                run.lose()
                return
            # It was claimed in its turn meanwhile.
            taken = [now]
        self._begin_claimed(taken[0])

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
        run = TaskRun(self._engine, kept, self.runner)
        is_new = not self.runner.has_begun(kept)
        has_run = kept.state.status == RUNNING and not kept.is_repeatable and not is_new
        if has_run or kept.is_bound:
            what = "while its tool ran: it may have done its work" if has_run else "before it ran"
            cure = "check what it did, and start it again" if has_run else "start it again"
            lost = Refusal("worker_lost", f"the engine that had the task ended {what}; {cure}")
            await self.runner.write_end(run, run.refuse(lost))
        else:
            await self.runner.give_back(run)

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
            for run in [each for each in self.runner.runs.values() if each.is_unwritten]:
                run.is_unwritten = False
                try:
                    if not await self.writer.write_news(run.kept):
                        await self._give_up_run(run)
                except RecordsUnavailableError:
                    run.is_unwritten = True
