"""When, and how often, does a failed tool run again, and how is its output made?"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from random import random

from tool_engine.backends.local import LocalBackend
from tool_engine.backends.runs import Runs
from tool_engine.backends.task import ABORTED, TIMED_OUT, WITHDRAWN, ToolTask, task_of
from tool_engine.calls.call import Call, attempt_of, end_of
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.failure import is_interrupt
from tool_engine.calls.plan import Plan
from tool_engine.calls.ready_output import Ready
from tool_engine.interfaces import AdmissionController, Slot
from tool_engine.model.tool import RetryPolicy

Suspend = Callable[[Call, Plan, Slot, ToolTask], ToolTask]


class Retries:
    """Run failed tools again, as their policies say.

    Args:
        controller: Keeps the slots of the calls, which pause without them.
        runs: Keeps the runs.
        ending: Reports each further attempt.
        suspend: Lets others see a call that waits.
        local: Reads in a thread what takes time.
        renew: Returns the plan by which a call runs again; None: its tool is gone, or not
            approved.
    """

    def __init__(
        self,
        controller: AdmissionController,
        runs: Runs,
        ending: CallEnding,
        suspend: Suspend,
        local: LocalBackend,
        renew: Callable[[Call, Plan], Plan | None],
    ) -> None:
        self._controller = controller
        self._runs = runs
        self._ending = ending
        self._suspend = suspend
        self._local = local
        self._renew = renew
        self.pauses: set[Call] = set()
        """The calls between two attempts."""

    def abort(self) -> None:
        """End the pauses, and with them the calls, as `engine_closed`."""
        for call in self.pauses:
            call.end_pause(ABORTED)

    async def finish_run(
        self, call: Call, plan: Plan, slot: Slot, run: ToolTask
    ) -> tuple[ToolTask, Ready | None]:
        """Run a failed tool again, or complete its output; return the last run and the output."""
        output: Ready | None = None
        if run.is_troubled and plan.retry is not None:
            run = await self.run(call, plan, plan.retry, slot, run)
            output = None if run.is_troubled else plan.ready(run.value)
        if run.is_troubled or output is not None:
            return run, output
        asking = await self._make_output(call, plan, slot, run)
        return asking, None if asking.is_troubled else asking.value

    async def _make_output(self, call: Call, plan: Plan, slot: Slot, run: ToolTask) -> ToolTask:
        """Make and check the JSON form of a tool's value, within the rest of its time."""
        loop, ask = get_running_loop(), self._local.in_thread
        asks = {"function": partial(plan.ready_in_thread, call.note_misfits, run.value)}
        asking = ToolTask(loop, run.deadline, self._runs, call, ask, asks)
        asking.leaves_on_cancel = True
        if not asking.start(task_of(loop)):
            await self._suspend(call, plan, slot, asking)
        return asking

    async def run(
        self, call: Call, plan: Plan, retry: RetryPolicy, slot: Slot, run: ToolTask
    ) -> ToolTask:
        """Run the tool again until it succeeds, or its policy or time is used up."""
        loop = get_running_loop()
        deadline = run.deadline
        most = min(retry.attempts, 1 + call.context.max_retries)
        pause, began = retry.backoff, slot.acquired_at
        log = call.attempt_log = []
        self._suspend(call, plan, slot, run)
        while True:
            seconds = loop.time() - began
            failure = None if run.error is None else end_of(call, run, seconds)
            log.append(attempt_of(failure, seconds))
            if failure is None or run.is_ending or is_interrupt(run.error):
                return run
            if failure.is_final or failure.error_type not in retry.on or call.retries + 1 >= most:
                return run
            if self._renew(call, plan) is None:
                return run
            wait = max(pause, self._controller.pause_left(plan.bucket))
            if (left := deadline - loop.time() - wait) <= 0:
                return run
            # Spread, so that calls that failed together do not return together.
            wait += random() * min(pause, left) / 2  # noqa: S311 - there is nothing to gain by guessing it
            reason = await self._pause_call(call, slot, wait, deadline)
            renewed = self._renew(call, plan)
            if reason is WITHDRAWN or renewed is None:
                return run
            plan = renewed
            if reason is not None:
                run.end_reason, run.is_troubled = reason, True
                return run
            pause *= 2
            ended, began = began + seconds, loop.time()
            call.retries += 1
            self._ending.tell_retry(call, failure, seconds, began - ended)
            params = deepcopy(call.arguments)
            run = ToolTask(loop, deadline, self._runs, call, None, params or {})
            call.bind_run(run, plan)
            if not run.start(task_of(loop)):
                await self._suspend(call, plan, slot, run)
                call.run = None

    async def _pause_call(
        self, call: Call, slot: Slot, seconds: float, deadline: float
    ) -> str | None:
        """Wait between two attempts, without the slot; return why there must be no other."""
        controller, is_back = self._controller, False
        call.bell = bell = get_running_loop().create_future()
        self.pauses.add(call)
        try:
            # The call can be ended from here on: its slot may be lost in this moment.
            controller.park(slot)
            await asyncio.wait([bell], timeout=seconds)
            if bell.done():
                return str(bell.result())
            is_back = True
            return await _unpark_slot(controller, slot, deadline, bell)
        finally:
            self.pauses.discard(call)
            if not is_back:
                controller.stay_parked(slot)


async def _unpark_slot(
    controller: AdmissionController, slot: Slot, deadline: float, bell: asyncio.Future[str]
) -> str | None:
    """Wait for the slot; return why it is not wanted any more: its time, or the bell's reason."""
    try:
        async with asyncio.timeout_at(deadline) as limit:
            is_waiting = True

            def give_up(_: object) -> None:
                # One that is scheduled already runs although it is removed.
                if is_waiting and not limit.expired():
                    limit.reschedule(get_running_loop().time())

            bell.add_done_callback(give_up)
            try:
                await controller.unpark(slot)
            finally:
                is_waiting = False
                bell.remove_done_callback(give_up)
    except TimeoutError:
        if limit.when() == deadline:
            return TIMED_OUT
    return bell.result() if bell.done() else None
