"""Which tasks does an engine have, and who runs them?

A queued task holds nothing: of those that wait, a few ask for a slot, in order, and the others stay
in the storage. So a task is no part of the queue that callers wait in, and its limits end none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

from tool_engine.background.cancelling import Cancelling
from tool_engine.background.feeding import Feeding
from tool_engine.background.late_writing import TaskWriter
from tool_engine.background.new_task import (
    LONGEST_TTL,
    can_be_kept,
    check_owner,
    check_same,
    check_start,
    digest_task,
    make_missing,
    make_task,
)
from tool_engine.background.quotas import Quotas
from tool_engine.calls.call import ANONYMOUS
from tool_engine.calls.home_loop import at_home
from tool_engine.errors import (
    RecordsUnavailableError,
)
from tool_engine.interfaces.task_storage import TaskStorage
from tool_engine.knowledge.shared_clock import SharedClock
from tool_engine.knowledge.sql.schema.harmless import Harmless
from tool_engine.logger import current_call
from tool_engine.model.call import (
    Refusal,
    ToolExecutionContext,
    ToolExecutionResult,
    check_timeout,
)
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.plain import copy_json
from tool_engine.model.progress import ToolProgress
from tool_engine.model.task import (
    FINAL,
    TASK_STATUSES,
    KeptTask,
    TaskHandle,
    TaskState,
)
from tool_engine.model.tool import Tool
from tool_engine.validation import ToolParameterValidator

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_T = TypeVar("_T")
_LOOK: Final = 0.25
"""Seconds between two looks at a task that another engine runs."""


@refuse_copying("take engine.tasks of the other engine")
class EngineTasks:
    """The tasks of an engine; `engine.tasks` makes it.

    Args:
        engine: The engine.
        storage: Where its tasks are kept.

    Example:
        >>> for state in await engine.tasks.list(status="running"):
        ...     print(state.id, state.tool_name, state.progress)
    """

    def __init__(self, engine: ToolEngine, storage: TaskStorage) -> None:
        self._engine = engine
        self._storage = storage
        self._home = engine._home  # noqa: SLF001 - the engine's other half
        self._clock: SharedClock = getattr(storage, "clock", None) or SharedClock(storage.read_time)
        self._live: WeakValueDictionary[str, KeptTask] = WeakValueDictionary()
        self._validator = ToolParameterValidator(strict=engine.config.strict_validation)
        self._writer, self._harmless = TaskWriter(storage), Harmless()
        self._quotas = Quotas(storage, self._clock, engine.config.max_tasks_per_owner)
        self.feeding = Feeding(engine, storage, self._writer, self._clock, self._live)
        self._cancelling = Cancelling(storage, self.feeding, self._look_again)

    def __repr__(self) -> str:
        return f"<EngineTasks {self.feeding!r} over {self._storage!r}>"

    def _run_at_home(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> Coroutine[Any, Any, _T]:
        engine: Any = self._engine
        if engine._disowned is not None:  # noqa: SLF001 - the engine's other half
            # The tasks run in the process that this one was forked from: here none would end.
            raise engine._disowned  # noqa: SLF001 - the engine's other half
        carried: Coroutine[Any, Any, _T] = engine._run_at_home(work)  # noqa: SLF001 - its other half
        return carried

    async def start(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        ttl: float = 3600.0,
        idempotency_key: str | None = None,
        run_in: Context | None = None,
        on_progress: Callable[[ToolProgress], object] | None = None,
        is_late: bool = False,
        is_awaited: bool = False,
    ) -> TaskHandle:
        """Start a call that outlives its caller; see `ToolEngine.start`.

        Args:
            tool_name: The tool.
            params: Its arguments.
            context: Who calls.
            ttl: Seconds that the task may take, and that its result is kept.
            idempotency_key: A second start of its owner with the same key returns the same task.
            run_in: The context variables that the call sees, if it runs in this process; None:
                none, for what a task does belongs to no caller.
            on_progress: Hears its progress, if it runs in this process; one of the context binds
                the task to this process.
            is_late: Whether its caller waits at first, and calls `keep` if that takes long: what
                ends before is never written.
            is_awaited: Whether its caller waits, and asks again where it was cut off: then a tool
                runs, too, that is for no others (`background: never`).
        """
        is_usual = context is None is idempotency_key and run_in is None is on_progress
        if is_usual and not (is_late or is_awaited):
            plain = self._start_plainly(tool_name, params, ttl)
            if plain is not None:
                return TaskHandle(self, plain)
        given = (run_in, on_progress, is_late, is_awaited)
        return await self._start_checked(tool_name, params, context, ttl, idempotency_key, *given)

    @at_home
    async def _start_checked(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        ttl: float,
        idempotency_key: str | None,
        run_in: Context | None,
        on_progress: Callable[[ToolProgress], object] | None,
        is_late: bool,
        is_awaited: bool,
    ) -> TaskHandle:
        """Start any task."""
        self._engine._require_open()  # noqa: SLF001 - the engine's other half
        given = check_start(tool_name, context, ttl, idempotency_key)
        params = copy_json(params) if params is not None else {}
        storage, feeding = self._storage, self.feeding
        await self._know_time(is_late=is_late)
        self._engine._require_open()  # noqa: SLF001 - it may have been closed meanwhile
        tool = self._engine.get(tool_name) if isinstance(tool_name, str) else None
        is_secret = storage.is_shared and not can_be_kept(tool, params, given, self._harmless)
        # One whose caller waits runs where that is, as a call does, also where others run tasks.
        is_bound = is_secret or (is_awaited and not (self.runs_here or feeding.runs_all))
        feeding.open_for(runs_here=self.runs_here, is_awaited=is_awaited, is_bound=is_bound)
        may_run = tool is not None and (is_awaited or tool.background != "never")
        has_room, begun = feeding.has_room(str(tool_name), is_bound=is_bound), None
        if has_room and may_run and not is_late:
            begun = feeding.runner.begin_call(tool_name, params, given)
        is_hopeless = begun is None and not (may_run and self._is_valid(tool, params))
        now, is_shared = self._clock.now(), storage.is_shared
        kept = make_task(str(tool_name), tool, params, given, ttl, now, begun, is_shared=is_shared)
        if idempotency_key is not None:
            kept.key = idempotency_key
            kept.digest = digest_task(kept, is_secret=is_secret)
        if is_bound:
            kept.bound_to, kept.tool = feeding.worker, tool
        # A request that may come again must find what it has begun, whatever happens between; and
        # while the database takes nothing, nothing is called.
        begins_first = storage.may_put_late and idempotency_key is None and not is_bound
        kept.is_kept = begun is None or not begins_first
        if has_room or is_hopeless:
            feeding.take_place(kept)
        kept.is_awaited, kept.run_in, kept.on_progress = is_awaited, run_in, on_progress
        try:
            return await self._begin_task(kept, is_late=is_late, is_hopeless=is_hopeless)
        finally:
            feeding.leave_place(kept)

    def _start_plainly(self, tool_name: Any, params: Any, ttl: float) -> KeptTask | None:
        """Start a task without an owner, with a slot, in memory; None: it is no such one, not kept.

        The same as `start` does, without what that asks for other tasks.
        """
        feeding, storage = self.feeding, self._storage
        is_here = self._home.loop is asyncio.get_running_loop() and current_call.get() is None
        if storage.is_shared or not is_here:
            return None
        if type(ttl) is not float or not 0.0 < ttl <= LONGEST_TTL:
            return None
        begun = feeding.begin_plainly(tool_name, {} if params is None else params)
        if begun is None:
            return None
        # What runs already is never started from its arguments again.
        now, tool = self._clock.now(), begun.plan.tool
        kept = make_task(tool_name, tool, None, ANONYMOUS, ttl, now, begun, is_shared=False)
        kept.worker = feeding.worker
        storage.put_nowait(kept)
        feeding.runner.begin_run(kept)
        return kept

    async def _begin_task(self, kept: KeptTask, *, is_late: bool, is_hopeless: bool) -> TaskHandle:
        """Keep a new task, and run it where there is room."""
        storage, found = self._storage, None
        if storage.is_shared or is_late:
            # It may be claimed in its turn before the database has answered: then it is this one.
            self._live[kept.state.id] = kept
        if is_late and kept.worker is not None:
            kept.is_kept, kept.is_late = False, True
            self.feeding.take_new(kept)
            found = kept
        elif kept.state.owner is None and (found := storage.put_nowait(kept)) is not None:
            if found is kept:
                self.feeding.take_new(kept)
            elif found.state.is_over(self._clock.now()):
                found = None
        if found is None:
            found = await self._keep_task(kept)
        if kept.begun is not None:
            self.feeding.runner.give_up_call(kept)
        if found is not kept:
            return self._find_earlier(found, kept)
        handle = TaskHandle(self, kept)
        if is_hopeless:
            await handle.wait()
        return handle

    async def _know_time(self, *, is_late: bool = False) -> None:
        """Learn what time it is for all; what may never be written needs no database for that."""
        if not self._storage.is_shared or self._clock.is_fresh:
            return
        try:
            await self._clock.learn_time_once()
        except RecordsUnavailableError:
            if not is_late:
                raise

    async def _keep_task(self, kept: KeptTask) -> KeptTask:
        """Keep a new task and run it, or return the earlier one with its key."""
        end = partial(self.feeding.end_question, self.feeding.unheard.ask(), kept)
        if not self._storage.is_shared:
            try:
                return await self._keep_now(kept)
            finally:
                end()
        # What was written is run, also when its caller is cancelled in the middle of it.
        keeping = asyncio.ensure_future(self._keep_now(kept))
        # Not by itself: a task that its loop's end cancels before its first step does nothing.
        keeping.add_done_callback(lambda _: end())
        return await asyncio.shield(keeping)

    async def _keep_now(self, kept: KeptTask) -> KeptTask:
        found = None if kept.state.owner is None else await self._quotas.take_room(kept)
        if found is None:
            try:
                if not kept.is_kept:
                    await self._keep_begun(kept)
                    return kept
                found = await self._put_task(kept)
            finally:
                if kept.state.owner is not None:
                    self._quotas.leave(kept)
        if found is kept:
            self.feeding.take_new(kept)
        return found

    async def _put_task(self, kept: KeptTask) -> KeptTask:
        """Keep a new task, or return the one with its key, unless that is to be forgotten."""
        while (found := await self._storage.put(kept)) is not kept:
            if not found.state.is_over(self._clock.now()):
                break
            await self._storage.remove(found.state.id)
        return found

    async def _keep_begun(self, kept: KeptTask) -> None:
        """Begin the tool of a new task, and keep that: if it ends at once, with its end."""
        run = self.feeding.runner.begin_run(kept)
        await run.take_first_turns()
        try:
            await self._writer.keep_new(kept)
        except RecordsUnavailableError as error:
            # Its record is one as of any call. Should the database have the task, it decides.
            kept.is_late = True
            self._live.pop(kept.state.id, None)
            reason = f"{error}; its tool had begun: check what it did before you start it again"
            run.end(Refusal(error.error_type, reason))
            refused = RecordsUnavailableError(reason)
            refused.has_begun = True
            raise refused from error
        finally:
            self._storage.release_record(kept.state.id)

    def read_clock(self) -> datetime:
        """Return the time, UTC, that all programs with these tasks agree on; see `TaskState`."""
        return self._clock.now()

    @at_home
    async def get(self, task_id: str, owner: str | None = None) -> TaskHandle:
        """Return a task.

        Args:
            task_id: Its id.
            owner: Whose it must be, as the `caller_id` of its context says; None: anyone's.

        Raises:
            TaskNotFoundError: There is none, or it is that of another owner.
            RecordsUnavailableError: The database does not answer.
        """
        kept = await self._find_kept(task_id, owner)
        if kept is None:
            raise make_missing(task_id)
        await self.feeding.describe_wait(kept)
        return TaskHandle(self, kept)

    @at_home
    async def list(
        self,
        owner: str | None = None,
        status: str | None = None,
        limit: int = 100,
        after: str | None = None,
        tool_name: str | None = None,
        *,
        results: bool = False,
    ) -> Sequence[TaskState]:
        """Return tasks as they are, the newest first.

        Args:
            owner: Whose; None: everyone's.
            status: Which; None: all.
            limit: The most of them.
            after: The id of the last one of the page before.
            tool_name: Of which tool; None: of all.
            results: Whether each has its result, which may be large; else `get` gives it.

        Raises:
            ConfigurationError: The status, the owner or the limit is none.
            TaskNotFoundError: `after` names no task, or that of another owner.
            RecordsUnavailableError: The database does not answer.
        """
        check_owner(owner)
        if status is not None:
            check_choice("status", status, TASK_STATUSES)
        check_count("limit", limit, minimum=1)
        if after is not None:
            await self.get(after, owner)
        await self._know_time()
        found = await self._storage.list(
            owner, status, limit, after, tool_name, results=results, now=self._clock.now()
        )
        states = []
        for each in found:
            kept = self._live.get(each.id)
            state = kept.state if kept is not None and self.feeding.runner.has_run(kept) else each
            states.append(state if results else state.without_result())
        return states

    @at_home
    async def cancel(
        self, task_id: str, owner: str | None = None, *, reason: str | None = None
    ) -> bool:
        """Cancel a task; see `TaskHandle.cancel`.

        Args:
            task_id: Its id.
            owner: Whose it must be; None: anyone's.
            reason: Why, for its message.

        Returns:
            False if it had ended before.

        Raises:
            TaskNotFoundError: There is none, or it is that of another owner.
            RecordsUnavailableError: The database does not answer.
            EngineClosedError: The engine is closed, and the task is queued.
        """
        kept = await self._find_kept(task_id, owner)
        if kept is None:
            raise make_missing(task_id)
        return await self._cancelling.cancel_one(kept, reason)

    @at_home
    async def cancel_all(
        self,
        owner: str | None = None,
        status: str | None = None,
        tool_name: str | None = None,
        *,
        reason: str | None = None,
        is_meant: Callable[[TaskState], bool] = lambda _: True,
    ) -> int:
        """Cancel tasks that have not ended, in few statements; return how many.

        Args:
            owner: Whose; None: everyone's.
            status: Which; None: all.
            tool_name: Of which tool; None: of all.
            reason: Why, for their messages.
            is_meant: Whether one of these is.

        Raises:
            ConfigurationError: The status or the owner is none.
            RecordsUnavailableError: The database does not answer: some may have ended.
        """
        await self._know_time()
        return await self._cancelling.cancel_all(owner, status, tool_name, reason, is_meant)

    @at_home
    async def find_tool(self, owner: str, key: str) -> str | None:
        """Return the tool of the task that an owner has started with a key; None: there is none."""
        await self._know_time()
        kept = await self._storage.get_by_key(owner, key)
        if kept is None or kept.state.is_over(self._clock.now()):
            return None
        return kept.state.tool_name

    @at_home
    async def keep(self, task_id: str) -> bool:
        """Keep a task that was started late; see `start`.

        Returns:
            False if it has ended: it is not kept.

        Raises:
            RecordsUnavailableError: The database does not answer; it goes on, and is not kept.
            TooManyTasksError: Its owner has as many as it may have; it goes on, and is not kept.
        """
        kept = await self._find_kept(task_id)
        if kept is None or kept.is_kept or kept.state.is_final:
            return kept is not None and kept.is_kept
        await self._quotas.take_room(kept)
        try:
            return await self._writer.keep(kept)
        finally:
            self._quotas.leave(kept)

    @at_home
    async def forget(self, task_id: str) -> bool:
        """Forget a task that has ended, before its `ttl` is over; False: there is none.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        kept = self._live.pop(task_id, None)
        if kept is not None and not kept.is_kept:
            return kept.state.is_final
        is_forgotten = await self._storage.remove(task_id)
        if is_forgotten:
            self._quotas.look_again()
        return is_forgotten

    # What handles ask.

    @at_home
    async def read_state(self, kept: KeptTask) -> TaskState:
        """Return a task as it is, and what it waits for."""
        await self._look_again(kept)
        await self.feeding.describe_wait(kept)
        return kept.state

    async def wait_for(
        self,
        kept: KeptTask,
        timeout: float | None,  # noqa: ASYNC109 - of the wait
    ) -> ToolExecutionResult:
        """Wait for the end of a task."""
        loop = asyncio.get_running_loop()
        if self._home.loop is not loop:
            # The same as `at_home`, written out.
            return await self._run_at_home(partial(self.wait_for, kept, timeout))
        if timeout is not None:
            await self._wait_at_most(kept, timeout)
        elif kept.state.status not in FINAL and not self._storage.is_shared:
            # The same as below, without a coroutine in between.
            end = kept.join_wait(loop)
            try:
                await end
            finally:
                kept.leave_wait(end)
        if kept.state.status not in FINAL:
            await self._wait_until_final(kept)
        if kept.state.result is None:
            await self._look_again(kept)
        if kept.state.result is None:
            raise make_missing(kept.state.id)
        return kept.state.result

    async def _wait_at_most(self, kept: KeptTask, timeout: float) -> None:  # noqa: ASYNC109 - as above
        check_timeout("timeout", timeout)
        try:
            async with asyncio.timeout(timeout):
                await self._wait_until_final(kept)
        except TimeoutError as error:
            raise TimeoutError(
                f"the task {kept.state.id} has not ended within {timeout:g} s; it goes on: "
                "wait longer, or cancel it"
            ) from error

    @at_home
    async def cancel_kept(self, kept: KeptTask, reason: str | None) -> bool:
        """Cancel a task; False: it has ended."""
        await self._look_again(kept)
        return await self._cancelling.cancel_one(kept, reason)

    def open(self) -> None:
        """Run what is queued, from now on."""
        self.feeding.open()

    @at_home
    async def run_one(self, task_id: str) -> bool:
        """Run one task out of its turn, and no other one; False: it is not queued."""
        self.feeding.open(is_for_own=True)
        return await self.feeding.take_queued(task_id)

    def rest(self) -> None:
        """Take no more of what is queued: this engine is about to end."""
        self.feeding.is_resting = True

    def serve(self) -> None:
        """Run what others start or leave behind, unless this engine leaves that to others."""
        if self._storage.is_shared and self.runs_here:
            self.feeding.open()

    async def close(self) -> None:
        """End, or leave to later engines, what has not ended; after the engine's calls."""
        await self.feeding.close()

    async def _wait_until_final(self, kept: KeptTask) -> None:
        """Wait until a task has ended here, or elsewhere."""
        while kept.state.status not in FINAL:
            self.feeding.require_open(kept.state.id)
            end = kept.join_wait(asyncio.get_running_loop())
            try:
                if not self._storage.is_shared or self.feeding.runner.has_run(kept):
                    await end
                else:
                    await asyncio.wait([end], timeout=_LOOK)
            finally:
                kept.leave_wait(end)
            if not end.done():
                await self._look_again(kept)

    async def _look_again(self, kept: KeptTask) -> None:
        if kept.state.is_final or not self._storage.is_shared or self.feeding.runner.has_run(kept):
            return
        now = await self._storage.get(kept.state.id)
        if now is None:
            raise make_missing(kept.state.id)
        # What was read is older than what it has come to here meanwhile.
        if not (kept.state.is_final or self.feeding.runner.has_run(kept)):
            kept.worker = now.worker
            kept.take_state(now.state)

    async def _find_kept(self, task_id: str, owner: str | None = None) -> KeptTask | None:
        """Return a task; one of another owner is looked for as one that never was."""
        check_owner(owner)
        if not isinstance(task_id, str):
            return None
        kept = self._live.get(task_id)
        await self._know_time()
        if kept is not None and owner not in (None, kept.state.owner):
            return await self._storage.get(task_id, owner)
        if kept is not None and not (kept.state.is_final and kept.is_kept):
            await self._look_again(kept)
            found: KeptTask | None = kept
        else:
            # One that has ended may have been forgotten meanwhile, also by another engine.
            found = await self._storage.get(task_id, owner)
        if found is None or found.state.is_over(self._clock.now()):
            self._live.pop(task_id, None)
            return None
        return self._live.setdefault(task_id, found)

    # Starting.

    @property
    def runs_here(self) -> bool:
        """True if this engine runs what it starts, and leaves it to no other."""
        return self._engine.config.run_tasks or not self._storage.is_shared

    def _is_valid(self, tool: Tool | None, params: Any) -> bool:
        """Return False if a call fails at once, as `execute` finds out."""
        return tool is not None and self._validator.compiled(tool).accept(params) is not None

    def _find_earlier(self, found: KeptTask, kept: KeptTask) -> TaskHandle:
        """Return the task that was started with the same key."""
        check_same(found, kept)
        return TaskHandle(self, self._live.setdefault(found.state.id, found))
