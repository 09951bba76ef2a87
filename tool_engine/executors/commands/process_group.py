"""How does the event loop wait for a command so that a cancelled call leaves no process?"""

from __future__ import annotations

from collections.abc import Callable

from tool_engine.executors.commands.own_thread import OwnThread
from tool_engine.executors.commands.supervisor import Bell, Command, Finished, Supervisor


class ProcessGroup(OwnThread[Finished]):
    """One run of a command, which `prepare` makes in the run's thread."""

    def __init__(self, prepare: Callable[[], Command], timeout: float | None) -> None:
        super().__init__(timeout)
        self._prepare = prepare

    def work(self, deadline: float | None, bell: Bell) -> Finished:
        return Supervisor(self._prepare(), deadline, bell).run()
