"""Which runs are going on, and which continue without their callers?"""

from __future__ import annotations

import asyncio
from itertools import count

from tool_engine.backends.task import ABORTED, TIMED_OUT, ToolTask
from tool_engine.logger import get_logger
from tool_engine.redaction import trace_of
from tool_engine.shared_timer import SharedTimer

_log = get_logger(__name__)


class Runs:
    """The runs of one engine; see `Home`."""

    def __init__(self) -> None:
        self.running: dict[ToolTask, None] = {}
        """The runs whose callers wait for them, in the order in which these began to."""
        self.timed: dict[int, ToolTask] = {}
        """Those of them whose deadlines are set, by number."""
        self._take_number = count(1).__next__
        self._deadlines: SharedTimer[int] | None = None
        """Those of `timed`, by number: a run that has ended is not kept for its deadline."""
        self._leftovers: dict[asyncio.Task[None], ToolTask] = {}

    def set_deadline(self, run: ToolTask, loop: asyncio.AbstractEventLoop) -> int:
        """End a run of a loop at its deadline while it is in `timed`; return its number there."""
        deadlines = self._deadlines
        if deadlines is None or deadlines.loop is not loop:
            # That of another loop goes on with the runs that are there.
            deadlines = SharedTimer(loop, self.timed.__contains__, self._time_out)
            self._deadlines = deadlines
        number = self._take_number()
        self.timed[number] = run
        deadlines.add(run.deadline, number)
        return number

    def keep(self, run: ToolTask) -> None:
        """Take over a run whose caller continues without it."""
        leftover = asyncio.get_running_loop().create_task(run.outlive(), name=run.get_name())
        self._leftovers[leftover] = run
        leftover.add_done_callback(self._forget_leftover)

    def abort(self) -> None:
        """Let the callers of all runs continue at once."""
        for run in list(self.running):
            run.end(ABORTED)

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - bounds what cannot be stopped
        """Cancel what is left and wait for it, at most `timeout` seconds.

        Returns:
            How many runs still have not ended: nothing can stop them.
        """
        if self._deadlines is not None and not self.running:
            self._deadlines.stop()
        leftovers = list(self._leftovers)
        for task in leftovers:
            task.cancel()
        if leftovers:
            await asyncio.wait(leftovers, timeout=timeout)
        return len(self._leftovers)

    def _time_out(self, number: int) -> None:
        self.timed[number].end(TIMED_OUT)

    def _forget_leftover(self, leftover: asyncio.Task[None]) -> None:
        run = self._leftovers.pop(leftover)
        if not run.is_done:
            run.close()  # cancelled before its first step: nothing of it ran
        if run.on_end is not None:
            run.on_end()
        problem = None if leftover.cancelled() else leftover.exception()
        if problem is not None:
            secrets = run.call.secrets
            _log.error("leftover_failed", run=repr(run), error=trace_of(problem, secrets))
        else:
            _log.debug("leftover_ended", run=repr(run))
